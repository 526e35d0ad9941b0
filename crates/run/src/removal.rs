//! Owns the removal of source files that have enough proven copies: it merges sorted manifests, reads each file once more, and removes it.
//! Decides neither which manifests count nor when: the node of the job does. Removes no directory, link or special file.
//!
//! A file goes only if its size, time and BLAKE3 digest are those of enough manifests, and if it has one name. Nothing about it may change from
//! the first look to the last one. Then it moves into a private directory beside it, is looked at once more, and is removed there. So another
//! file that comes by its name in between stays. A write by a program that has the file open, after the very last look, cannot be seen.
//!
//! A copy may be the source itself, by a mount in one of the two trees. So each directory that loses files gets a mark before. No copy may
//! show a mark. The mark is the private directory, too.

mod marks;
mod merge;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Seek as _, SeekFrom};

use data_encoding::HEXLOWER;
use godwit_store::digest::{Digest, DigestKind};
use godwit_store::manifest::{ManifestEntry, ManifestReader};
use godwit_store::{Meta, ReadFile, RelPath, Replace, Storage, StoreError, StoreErrorKind};

use crate::local::LocalSource;
pub use marks::{Marks, mark, put_back};
use merge::{Merge, Wanted};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Most directories that lose files: each has a mark, and a name of some hundred bytes in memory.
const DIRECTORIES_MAX: usize = 100_000;

/// Names of each kind that the outcome has.
const NAMED_MAX: usize = 8;

/// A complete manifest with BLAKE3 digests, sorted by name, in a file without a name.
#[derive(Debug)]
pub struct Proof(File);

/// The entries of a manifest.
struct Lines(ManifestReader<BufReader<File>>);

impl Proof {
    /// Reads a manifest to its end. `digest` is its digest as the summary of its transfer has it.
    ///
    /// # Errors
    /// The manifest is damaged or another one, or has another order or other digests.
    pub fn of(mut file: File, digest: &str) -> Result<Self, String> {
        let mut reader = begin(&mut file)?;
        if reader.digest_kind() != DigestKind::Blake3 {
            return Err("its digests are not BLAKE3".to_owned());
        }
        let mut last: Option<RelPath> = None;
        while let Some(entry) = reader.next_entry().map_err(|error| error.to_string())? {
            let is_behind = |last: &RelPath| last.as_bytes() < entry.path.as_bytes();
            if !last.as_ref().is_none_or(is_behind) {
                return Err(format!("{}: the names are not in their order", entry.path));
            }
            last = Some(entry.path);
        }
        let found = reader.trailer().map(|trailer| trailer.digest);
        let found = found.map(|found| format!("blake3:{}", HEXLOWER.encode(&found)));
        if found.as_deref() != Some(digest) {
            return Err("it is not the manifest that the transfer wrote".to_owned());
        }
        Ok(Self(file))
    }

    /// The entries from the first one on. Only one reading at a time is right.
    fn lines(&mut self) -> Result<Lines, String> {
        begin(&mut self.0).map(Lines)
    }
}

fn begin(file: &mut File) -> Result<ManifestReader<BufReader<File>>, String> {
    let open = file
        .seek(SeekFrom::Start(0))
        .and_then(|_start| file.try_clone());
    let open = open.map_err(|error| error.to_string())?;
    ManifestReader::new(BufReader::new(open)).map_err(|error| error.to_string())
}

impl Iterator for Lines {
    type Item = Result<ManifestEntry, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.0.next_entry().map_err(|error| error.to_string());
        entry.transpose()
    }
}

/// Files of one kind, with the first names.
#[derive(Debug, Default)]
pub struct Named {
    /// How many.
    pub count: u64,
    /// The first names, each perhaps with a reason.
    pub names: Vec<String>,
}

impl Named {
    fn add(&mut self, name: String) {
        self.count += 1;
        if self.names.len() < NAMED_MAX {
            self.names.push(name);
        }
    }
}

/// The figures of a removal.
#[derive(Debug, Default)]
pub struct Removed {
    /// Files that were removed now.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were not there any more.
    pub gone: u64,
    /// Number of names that stay because their file has several names.
    pub linked: u64,
    /// Files that have changed since they were copied.
    pub changed: Named,
    /// Files with fewer equal copies than wanted.
    pub few: Named,
    /// Files that could not be read or removed.
    pub failed: Named,
    /// Whether the removal was stopped before its end.
    pub stopped: bool,
}

impl Removed {
    /// Files that stay although they were to go.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.changed.count + self.few.count + self.failed.count
    }
}

/// Asks before each removal whether it may still be made, and during each reading whether to go on.
pub struct Permit<'a> {
    /// Whether the claim of the job holds.
    pub holds: &'a dyn Fn() -> bool,
    /// Whether the job goes on.
    pub goes_on: &'a dyn Fn() -> bool,
}

/// The directory of a file: below the source, or the directory that contains the source if that is the file.
pub type Within = Option<Vec<u8>>;

/// The directories of all files that at least `copies` of the manifests have.
///
/// # Errors
/// A manifest cannot be read, or there are too many directories.
pub fn directories(proofs: &mut [Proof], copies: u32) -> Result<BTreeSet<Within>, String> {
    let lines = proofs.iter_mut().map(Proof::lines);
    let mut merge = Merge::new(lines.collect::<Result<_, _>>()?, copies);
    let mut directories = BTreeSet::new();
    while let Some(wanted) = merge.next_file()? {
        let Wanted::Enough(path, _) = wanted else {
            continue;
        };
        directories.insert(within(&path));
        if directories.len() > DIRECTORIES_MAX {
            return Err(format!(
                "more than {DIRECTORIES_MAX} directories would lose files; submit a job for each part"
            ));
        }
    }
    Ok(directories)
}

/// Removes the files in marked directories below a source that at least `copies` of the manifests have as they are now.
///
/// # Errors
/// A manifest cannot be read any further. All removals before were right.
pub fn remove(
    source: &LocalSource,
    (proofs, copies): (&mut [Proof], u32),
    marks: &Marks<'_>,
    permit: &Permit<'_>,
) -> Result<Removed, String> {
    let mut removed = Removed::default();
    let lines = proofs.iter_mut().map(Proof::lines);
    let mut merge = Merge::new(lines.collect::<Result<_, _>>()?, copies);
    let root = &source.root;
    while let Some(wanted) = merge.next_file()? {
        let (path, known) = match wanted {
            Wanted::Linked => {
                removed.linked += 1;
                continue;
            }
            Wanted::Few(path) => (path, Vec::new()),
            Wanted::Enough(path, known) => (path, known),
        };
        let private = marks.name_in(&within(&path));
        let place = root.start.join(path.as_bytes());
        let place = place.map_err(|error| format!("{path}: {error}"))?;
        let storage = &*root.storage;
        let fate = match (known.as_slice(), private) {
            ([], _) | (_, None) => look(storage, &place),
            (known, Some(private)) => remove_one(storage, &place, known, (permit, private)),
        };
        match fate {
            Ok(Fate::Removed(bytes)) => {
                removed.files += 1;
                removed.bytes += bytes;
            }
            Ok(Fate::Gone) => removed.gone += 1,
            Ok(Fate::Linked) => removed.linked += 1,
            Ok(Fate::Few) => removed.few.add(path.to_string()),
            Ok(Fate::Changed) => removed.changed.add(path.to_string()),
            Ok(Fate::Stopped) => {
                removed.stopped = true;
                return Ok(removed);
            }
            Err(error) => removed.failed.add(error.to_string()),
        }
    }
    Ok(removed)
}

fn within(path: &RelPath) -> Within {
    path.split().map(|(directory, _)| directory.to_vec())
}

/// The end of one file.
enum Fate {
    Removed(u64),
    Gone,
    Linked,
    Few,
    Changed,
    Stopped,
}

/// Whether a file that stays is there at all.
fn look(storage: &dyn Storage, path: &RelPath) -> Result<Fate, StoreError> {
    Ok(match storage.stat(path)? {
        None => Fate::Gone,
        Some(_) => Fate::Few,
    })
}

/// Removes a file that is, from its first byte to its last one and before and after the reading, one of the `known` ones.
fn remove_one(
    storage: &dyn Storage,
    path: &RelPath,
    known: &[ManifestEntry],
    (permit, private): (&Permit<'_>, &[u8]),
) -> Result<Fate, StoreError> {
    let file = match storage.open(path) {
        Ok(file) => file,
        Err(error) => {
            return match error.kind {
                StoreErrorKind::NotFound => Ok(Fate::Gone),
                StoreErrorKind::NotRegular
                | StoreErrorKind::TypeConflict
                | StoreErrorKind::Escape => Ok(Fate::Changed),
                _ => Err(error),
            };
        }
    };
    let before = file.meta()?;
    if before.links != 1 {
        return Ok(Fate::Linked);
    }
    let is_it = |entry: &&ManifestEntry| entry.bytes == before.bytes && entry.mtime == before.mtime;
    let mut known = known.iter().filter(is_it).peekable();
    if known.peek().is_none() {
        return Ok(Fate::Changed);
    }
    let Some(digest) = digest_of(&*file, before.bytes, permit)? else {
        return Ok(Fate::Stopped);
    };
    if !known.any(|entry| entry.digest == Some(digest)) {
        return Ok(Fate::Changed);
    }
    // The answer may take long, so the last look comes after it.
    if !(permit.holds)() {
        return Ok(Fate::Stopped);
    }
    let after = file.meta()?;
    let now = storage.stat(path)?;
    if !is_same(&before, &after) || !now.is_some_and(|now| is_same(&before, &now)) {
        return Ok(Fate::Changed);
    }
    remove_aside(storage, path, (&*file, &before), private)
}

/// Removes a file in the private directory beside it, if this is still the file that was read. Another file goes back to its name.
fn remove_aside(
    storage: &dyn Storage,
    path: &RelPath,
    (file, before): (&dyn ReadFile, &Meta),
    private: &[u8],
) -> Result<Fate, StoreError> {
    let invalid = |error| StoreError::from_path("remove", path, error);
    let (directory, name) = path.split().unwrap_or_default();
    let directory = RelPath::parse(directory).map_err(invalid)?;
    let aside = directory.join(private).map_err(invalid)?;
    let aside = aside.join(name).map_err(invalid)?;
    match storage.rename(path, &aside, Replace::Never) {
        Ok(()) => {}
        Err(error) if error.kind == StoreErrorKind::NotFound => {
            // The private directory may be gone, too.
            return match storage.stat(path)? {
                None => Ok(Fate::Gone),
                Some(_) => Err(error),
            };
        }
        Err(error) => return Err(error),
    }
    // A network file system asks its server only for a file that is opened.
    let now = storage.open(&aside).and_then(|again| again.meta());
    let is_it = |now: &Meta| is_alike(before, now);
    let is_unchanged =
        matches!(&now, Ok(now) if is_it(now)) && file.meta().is_ok_and(|after| is_it(&after));
    let removed = match is_unchanged {
        true => storage.remove_entry(&aside, false).map(|()| true),
        false => now.map(|_| false),
    };
    if matches!(removed, Ok(true)) {
        return Ok(Fate::Removed(before.bytes));
    }
    match storage.rename(&aside, path, Replace::Never) {
        Ok(()) => removed.map(|_| Fate::Changed),
        // The name is taken again. The error names the file that stays in the private directory.
        Err(_) => Err(StoreError::new(
            "give its name back to the file",
            &aside,
            StoreErrorKind::Exists,
        )),
    }
}

/// Whether two looks found the same file in the same state.
fn is_same(one: &Meta, other: &Meta) -> bool {
    one.generation() == other.generation() && one.ctime == other.ctime && is_alike(one, other)
}

/// The same, before and after a change of the name, which changes `ctime`.
fn is_alike(one: &Meta, other: &Meta) -> bool {
    (one.kind, one.bytes, one.mtime) == (other.kind, other.bytes, other.mtime)
        && (one.device, one.inode, one.links) == (other.device, other.inode, other.links)
}

/// The digest of the contents; None if the job does not go on.
fn digest_of(
    file: &dyn ReadFile,
    bytes: u64,
    permit: &Permit<'_>,
) -> Result<Option<Digest>, StoreError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut offset: u64 = 0;
    // A file that grows is found by the look afterwards.
    while offset <= bytes {
        if !(permit.goes_on)() {
            return Ok(None);
        }
        let read = file.read_at(offset, &mut buffer)?;
        let Some(data) = buffer.get(..read).filter(|data| !data.is_empty()) else {
            break;
        };
        hasher.update(data);
        offset = offset.saturating_add(read as u64);
    }
    file.drop_cache();
    Ok(Some(Digest(*hasher.finalize().as_bytes())))
}

#[cfg(test)]
mod tests;
