//! Owns the index of the buffer: which generations of which files have extents, and where. Knows nothing about states of extents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::extent::{FileKey, Generation, Keep, Place, SourceId};

/// Names a file within the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileNumber(u32);

impl FileNumber {
    pub(super) fn raw(self) -> u32 {
        self.0
    }
}

/// One generation of one file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) key: Arc<FileKey>,
    pub(super) keep: Keep,
    /// Another generation is known to be the present one.
    pub(super) is_superseded: bool,
    /// The extents that can be found, by offset.
    pub(super) extents: BTreeMap<u64, Place>,
    /// Slots that name this file, also those of extents that cannot be found.
    slots: u32,
}

/// All files with extents.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: Vec<Option<File>>,
    unused: Vec<u32>,
    by_key: BTreeMap<Arc<FileKey>, FileNumber>,
    ends: BTreeSet<(Duration, FileNumber)>,
}

impl Files {
    pub(super) fn get(&self, number: FileNumber) -> Option<&File> {
        self.files.get(number.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: FileNumber) -> Option<&mut File> {
        self.files.get_mut(number.0 as usize)?.as_mut()
    }

    pub(super) fn find(&self, key: &FileKey) -> Option<FileNumber> {
        self.by_key.get(key).copied()
    }

    /// The number of a file, which gets one if it has none. One more slot names the file.
    pub(super) fn hold(&mut self, key: &Arc<FileKey>) -> FileNumber {
        let number = self.find(key).unwrap_or_else(|| self.add(key));
        if let Some(file) = self.get_mut(number) {
            file.slots += 1;
        }
        number
    }

    fn add(&mut self, key: &Arc<FileKey>) -> FileNumber {
        let file = File {
            key: Arc::clone(key),
            keep: Keep::No,
            is_superseded: false,
            extents: BTreeMap::new(),
            slots: 0,
        };
        let number = if let Some(unused) = self.unused.pop() {
            self.files[unused as usize] = Some(file);
            FileNumber(unused)
        } else {
            self.files.push(Some(file));
            // There are fewer files than slots.
            FileNumber(u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX))
        };
        self.by_key.insert(Arc::clone(key), number);
        number
    }

    /// One slot less names the file. It can no longer be found at `place`.
    pub(super) fn let_go(&mut self, number: FileNumber, offset: u64, place: Place) {
        self.hide(number, offset, place);
        let Some(file) = self.get_mut(number) else {
            return;
        };
        file.slots -= 1;
        if file.slots == 0 {
            self.set_keep(number, Keep::No);
            if let Some(file) = self.files[number.0 as usize].take() {
                self.by_key.remove(&file.key);
                self.unused.push(number.0);
            }
        }
    }

    /// The file can no longer be found at `place`.
    pub(super) fn hide(&mut self, number: FileNumber, offset: u64, place: Place) {
        if let Some(file) = self.get_mut(number)
            && file.extents.get(&offset) == Some(&place)
        {
            file.extents.remove(&offset);
        }
    }

    /// The file has another key from now on. Returns false if another file has that key.
    pub(super) fn rename(&mut self, number: FileNumber, to: &Arc<FileKey>) -> bool {
        if self.by_key.contains_key(to) {
            return false;
        }
        let Some(file) = self.get_mut(number) else {
            return false;
        };
        let before = std::mem::replace(&mut file.key, Arc::clone(to));
        self.by_key.remove(&before);
        self.by_key.insert(Arc::clone(to), number);
        true
    }

    /// All known generations of a file.
    pub(super) fn generations(&self, source: SourceId, path: &[u8]) -> Vec<FileNumber> {
        let bound = |bytes, stamp| FileKey {
            source,
            path: path.to_vec(),
            generation: Generation { bytes, stamp },
        };
        let range = bound(0, 0)..=bound(u64::MAX, u64::MAX);
        self.by_key
            .range(range)
            .map(|(_, number)| *number)
            .collect()
    }

    /// Sets how long the file stays. Returns whether that changed.
    pub(super) fn set_keep(&mut self, number: FileNumber, keep: Keep) -> bool {
        let Some(file) = self.get_mut(number) else {
            return false;
        };
        let before = std::mem::replace(&mut file.keep, keep);
        if let Keep::Until(end) = before {
            self.ends.remove(&(end, number));
        }
        if let Keep::Until(end) = keep {
            self.ends.insert((end, number));
        }
        before != keep
    }

    /// A file that need not stay any longer.
    pub(super) fn ended(&self, now: Duration) -> Option<FileNumber> {
        let (end, number) = *self.ends.first()?;
        (end <= now).then_some(number)
    }

    /// When the next file need not stay any longer.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The files of a source at and below a path, in the order of their keys, behind `after`. Walks over no other file: millions of names
    /// may begin as the path does.
    pub(super) fn below<'a>(
        &'a self,
        source: SourceId,
        below: &'a [u8],
        after: Option<&FileKey>,
    ) -> impl Iterator<Item = &'a File> {
        let behind = |path: &[u8]| {
            let first = FileKey {
                source,
                path: path.to_vec(),
                generation: Generation { bytes: 0, stamp: 0 },
            };
            match after {
                Some(after) if *after >= first => Bound::Excluded(after.clone()),
                _ => Bound::Included(first),
            }
        };
        let is_all = below.is_empty();
        let at = self.range(behind(below));
        let at = at
            .take_while(move |file| !is_all && file.key.source == source && file.key.path == below);
        let inside = match is_all {
            true => Vec::new(),
            false => [below, b"/"].concat(),
        };
        let rest = self.range(behind(&inside));
        let rest = rest.take_while(move |file| {
            file.key.source == source && file.key.path.starts_with(&inside)
        });
        at.chain(rest)
    }

    /// The files in the order of their keys.
    fn range(&self, from: Bound<FileKey>) -> impl Iterator<Item = &File> {
        let numbers = self.by_key.range::<FileKey, _>((from, Bound::Unbounded));
        numbers.filter_map(|(_, number)| self.get(*number))
    }

    /// All files.
    pub(super) fn iter(&self) -> impl Iterator<Item = &File> {
        self.files.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: u8, path: &str, stamp: u64) -> FileKey {
        FileKey {
            source: SourceId([source; 16]),
            path: path.into(),
            generation: Generation { bytes: 1, stamp },
        }
    }

    #[test]
    fn only_files_at_and_below_a_path_are_walked_over() {
        let mut files = Files::default();
        let all = [
            (0, "run"),
            (1, ""),
            (1, "ru"),
            (1, "run"),
            (1, "run-1"),
            (1, "run.txt"),
            (1, "run/a"),
            (1, "run/b/c"),
            (1, "run0"),
            (2, "run/a"),
        ];
        for (source, path) in all {
            files.hold(&Arc::new(key(source, path, 1)));
        }
        files.hold(&Arc::new(key(1, "run", 2)));
        let found = |below: &str, after: Option<&FileKey>| -> Vec<String> {
            let found = files.below(SourceId([1; 16]), below.as_bytes(), after);
            let shown = found.map(|file| format!("{} {}", file.key, file.key.generation.stamp));
            shown.collect()
        };
        let run = ["run 1", "run 2", "run/a 1", "run/b/c 1"];
        assert_eq!(found("run", None), run);
        assert_eq!(found("run", Some(&key(1, "run", 1))), run[1..]);
        for (after, left) in [
            ("a", 0),
            ("run-1", 2),
            ("run/a", 3),
            ("run/b", 3),
            ("run/b/c", 4),
            ("z", 4),
        ] {
            let after = key(1, after, 9);
            assert_eq!(found("run", Some(&after)), run[left..], "{after}");
        }
        assert_eq!(found("run/b", None), ["run/b/c 1"]);
        assert_eq!(found("", None).len(), 9);
        assert_eq!(found("none", None), [""; 0]);
    }
}
