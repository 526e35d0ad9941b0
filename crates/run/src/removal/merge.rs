//! Merges the manifests of several copies of one data set: which files have enough equal lines.
//! Opens nothing, and knows no file of the source.

use std::iter::Peekable;

use godwit_store::RelPath;
use godwit_store::manifest::{EntryType, ManifestEntry};

/// A name that at least one manifest has as a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Enough manifests have one of these states of the file.
    Enough(RelPath, Vec<ManifestEntry>),
    /// No state of the file is in enough manifests.
    Few(RelPath),
    /// A further name of another file.
    Linked,
}

/// A merge in progress. Memory does not grow with the number of entries.
pub(super) struct Merge<I: Iterator> {
    lists: Vec<Peekable<I>>,
    copies: usize,
}

impl<I: Iterator<Item = Result<ManifestEntry, String>>> Merge<I> {
    /// Begins to merge lists that are sorted by the bytes of their names, each name once.
    pub(super) fn new(lists: Vec<I>, copies: u32) -> Self {
        Self {
            lists: lists.into_iter().map(Iterator::peekable).collect(),
            // No copy at all proves nothing.
            copies: usize::try_from(copies).unwrap_or(usize::MAX).max(1),
        }
    }

    /// The next file, in the order of names; None at the end.
    pub(super) fn next_file(&mut self) -> Result<Option<Wanted>, String> {
        loop {
            let Some(path) = self.first()? else {
                return Ok(None);
            };
            let mut entries = Vec::with_capacity(self.lists.len());
            for list in &mut self.lists {
                let is_it = |item: &Result<ManifestEntry, String>| {
                    item.as_ref().is_ok_and(|entry| entry.path == path)
                };
                entries.extend(list.next_if(is_it).and_then(Result::ok));
            }
            if let Some(wanted) = judge(path, &entries, self.copies) {
                return Ok(Some(wanted));
            }
        }
    }

    /// The first name of all lists.
    fn first(&mut self) -> Result<Option<RelPath>, String> {
        let mut first: Option<RelPath> = None;
        for list in &mut self.lists {
            match list.peek() {
                None => {}
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(entry)) => {
                    let is_before = |first: &RelPath| entry.path.as_bytes() < first.as_bytes();
                    if first.as_ref().is_none_or(is_before) {
                        first = Some(entry.path.clone());
                    }
                }
            }
        }
        Ok(first)
    }
}

/// The lines of one name; None if no manifest has it as a file.
fn judge(path: RelPath, entries: &[ManifestEntry], copies: usize) -> Option<Wanted> {
    if entries
        .iter()
        .any(|entry| entry.kind == EntryType::HardLink)
    {
        return Some(Wanted::Linked);
    }
    let files = || {
        let files = entries.iter();
        files.filter(|entry| entry.kind == EntryType::File && entry.digest.is_some())
    };
    files().next()?;
    let mut enough: Vec<ManifestEntry> = Vec::new();
    for entry in files() {
        let count = files().filter(|other| is_equal(entry, other)).count();
        if count >= copies && !enough.iter().any(|known| is_equal(entry, known)) {
            enough.push(entry.clone());
        }
    }
    Some(match enough.is_empty() {
        true => Wanted::Few(path),
        false => Wanted::Enough(path, enough),
    })
}

/// Whether two lines have one state of a file. Modes do not count.
fn is_equal(one: &ManifestEntry, other: &ManifestEntry) -> bool {
    (one.bytes, one.mtime, one.digest) == (other.bytes, other.mtime, other.digest)
}

#[cfg(test)]
mod tests {
    use godwit_store::Timestamp;
    use godwit_store::digest::Digest;

    use super::*;

    fn entry(name: &str, digest: u8) -> ManifestEntry {
        ManifestEntry {
            kind: EntryType::File,
            bytes: 5,
            mtime: Timestamp::default(),
            mode: 0o644,
            digest: Some(Digest([digest; 32])),
            path: RelPath::parse(name.as_bytes()).expect("a path"),
            target: Vec::new(),
        }
    }

    fn of_kind(name: &str, kind: EntryType) -> ManifestEntry {
        ManifestEntry {
            kind,
            digest: None,
            ..entry(name, 0)
        }
    }

    /// The words of a merge for each name.
    fn merged(lists: &[Vec<ManifestEntry>], copies: u32) -> Vec<String> {
        let lists = lists.iter().cloned();
        let lists = lists.map(|list| list.into_iter().map(Ok).collect::<Vec<_>>().into_iter());
        let mut merge = Merge::new(lists.collect(), copies);
        let mut all = Vec::new();
        while let Some(wanted) = merge.next_file().expect("readable") {
            all.push(match wanted {
                Wanted::Enough(path, known) => format!("{path} {}", known.len()),
                Wanted::Few(path) => format!("{path} few"),
                Wanted::Linked => "linked".to_owned(),
            });
        }
        all
    }

    #[test]
    fn a_file_goes_only_if_enough_manifests_have_one_state_of_it() {
        let lists = [
            vec![entry("a", 1), entry("b", 1), entry("c", 1)],
            vec![entry("a", 1), entry("b", 2), entry("d", 1)],
            vec![entry("a", 1), entry("b", 1), entry("d", 1)],
        ];
        let of = |copies| merged(&lists, copies);
        assert_eq!(of(3), ["a 1", "b few", "c few", "d few"]);
        assert_eq!(of(2), ["a 1", "b 1", "c few", "d 1"]);
        // Either state of `b` has one copy.
        assert_eq!(of(1), ["a 1", "b 2", "c 1", "d 1"]);
        assert_eq!(of(0), of(1));
        assert_eq!(of(4), ["a few", "b few", "c few", "d few"]);
    }

    #[test]
    fn another_size_or_time_is_another_state() {
        let mut longer = entry("a", 1);
        longer.bytes += 1;
        let mut later = entry("a", 1);
        later.mtime.nanoseconds += 1;
        let mut other_mode = entry("a", 1);
        other_mode.mode = 0o600;
        let with = |other: ManifestEntry| merged(&[vec![entry("a", 1)], vec![other]], 2);
        assert_eq!(with(longer), ["a few"]);
        assert_eq!(with(later), ["a few"]);
        assert_eq!(with(other_mode), ["a 1"]);
    }

    #[test]
    fn directories_and_links_never_go() {
        let list = vec![
            of_kind("", EntryType::Directory),
            of_kind("a", EntryType::Symlink),
            of_kind("b", EntryType::HardLink),
            of_kind("c", EntryType::Fifo),
            // Without a digest nothing is proven.
            of_kind("d", EntryType::File),
        ];
        assert_eq!(merged(&[list.clone(), list], 1), ["linked"]);
        // A name that is a file in one manifest only.
        let lists = [
            vec![entry("a", 1)],
            vec![of_kind("a", EntryType::Directory)],
        ];
        assert_eq!(merged(&lists, 2), ["a few"]);
        assert_eq!(merged(&[], 1), Vec::<String>::new());
    }
}
