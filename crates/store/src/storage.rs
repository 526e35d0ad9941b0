//! Owns the narrow interface between the engine and any place that stores entries: the `Storage` trait and its types. Implements no
//! storage; does not depend on the wire format, on transfers, or on digests.
//!
//! The trait has no inodes and no paths outside its root. Object parts (a slice is a part, commit completes) and raw extents can therefore
//! implement it.

mod capabilities;
mod choice;
mod look;

pub use capabilities::Capabilities;
pub use choice::{Choice, Pick};
pub use look::Look;

use look::Each;

use crate::error::{StoreError, StoreErrorKind};
use crate::extended::{Extended, Lost};
use crate::fs::ScanSeat;
use crate::meta::{FinalMeta, Kind, Meta, Timestamp};
use crate::path::{RelPath, TempName};
use rustix::fd::BorrowedFd;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Most items that one call of [`Scan::next_batch`] adds.
pub const SCAN_BATCH_ITEMS: usize = 1024;
/// A batch ends early when its paths, link targets, attributes and access lists need this much memory, in bytes.
pub const SCAN_BATCH_EXTENDED_BYTES: usize = 1 << 20;

/// The earlier state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Length of the contents.
    pub bytes: u64,
    /// The result of [`Meta::generation`] at that time.
    pub generation: u64,
}

/// Decides whether a transfer may still add and remove names. Must be cheap; after it has returned false, it never returns true again.
pub type May = Arc<dyn Fn() -> bool + Send + Sync>;

/// Up to this many files or directories are synced one by one; above, their file systems as a whole.
pub const SYNC_EACH_MAX: usize = 16;

/// The directories to sync so that an entry keeps its name: all above the path, or the nearest ones of many, with which
/// [`Storage::sync_directories`] syncs the others, too.
pub fn above_to_sync(path: &RelPath) -> Vec<RelPath> {
    path.above().take(SYNC_EACH_MAX + 1).collect()
}

/// A place that stores a tree of entries. Any number of threads may call it at once.
///
/// Paths are relative to the storage's root. No call follows a symbolic link, neither within the path nor at its end. An entry is created
/// under a [`TempName`] in the directory of its final name, and [`Storage::commit`] renames it.
pub trait Storage: Send + Sync {
    /// Begins to list everything at and below `start`, in order: `start` itself first, a directory before its contents. A `start` that is
    /// not a directory yields only itself.
    fn scan(&self, start: &RelPath) -> Result<Box<dyn Scan>, StoreError> {
        self.scan_chosen(start, None)
    }

    /// Free bytes for this user in the file system of the root; `None` if unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Names the sender of the files that are written from now on.
    fn note_sender(&self, name: &[u8]) {
        let _ = name;
    }

    /// A name of this storage that stays the same, under which copies of its contents may be kept; `None` if it has none.
    fn origin(&self) -> Option<[u8; 16]> {
        None
    }

    /// Like [`Storage::scan`], with only the names that `choice` accepts. `choice` is not asked about `start` itself. The scan looks at no
    /// skipped name and enters no skipped directory.
    fn scan_chosen(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
    ) -> Result<Box<dyn Scan>, StoreError>;

    /// Like [`Storage::scan_chosen`], for one of several scans of the same entries that may share what they read. The choices may differ.
    fn scan_shared(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
        seat: Option<&ScanSeat>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        let _ = seat;
        self.scan_chosen(start, choice)
    }

    /// The metadata of the entry at `path`; `None` if neither the entry nor its parent exists.
    fn stat(&self, path: &RelPath) -> Result<Option<Meta>, StoreError>;

    /// Like [`Storage::stat`], for several paths in turn.
    fn look(&self) -> Box<dyn Look + '_> {
        Box::new(Each(self))
    }

    /// The extended attributes of the entry at `path` that this storage was opened to read, and the kinds that could not be read.
    fn extended(&self, path: &RelPath) -> Result<(Extended, Lost), StoreError>;

    /// The target of a symbolic link.
    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>, StoreError>;

    /// Opens a regular file for reading; anything else is `NotRegular`, and never blocks.
    fn open(&self, path: &RelPath) -> Result<Box<dyn ReadFile>, StoreError>;

    /// Whether reading several files at `path` or below it in parallel is as fast as reading them in turn. False for a disk that has to
    /// seek between them. File systems mounted below `path` are not looked at.
    fn reads_apart(&self, path: &RelPath) -> bool {
        let _ = path;
        false
    }

    /// Reads a small file in the fewest calls. Returns its metadata and how many bytes of `buffer` it filled. `Changed` if the file changed
    /// meanwhile, or does not fit into `buffer`.
    fn read_whole(&self, path: &RelPath, buffer: &mut [u8]) -> Result<(Meta, usize), StoreError>;

    /// Reads a small file if the file still has the state `known`, which a scan found. Returns how many bytes of
    /// `buffer` the call filled. A buffer with room for one byte more than the file saves the call that finds the end of the file.
    /// Fails with `Changed` if the file is in another state.
    fn read_known(
        &self,
        path: &RelPath,
        known: Known,
        buffer: &mut [u8],
    ) -> Result<usize, StoreError> {
        let (meta, bytes) = self.read_whole(path, buffer)?;
        if meta.generation() == known.generation {
            Ok(bytes)
        } else {
            Err(StoreError::new("read", path, StoreErrorKind::Changed))
        }
    }

    /// Creates a directory with `mode_now`, and its missing parents. Returns whether the directory was created. An existing directory is
    /// accepted and keeps its mode; any other existing entry is a `TypeConflict`.
    fn make_directory(&self, path: &RelPath, mode_now: u32) -> Result<bool, StoreError>;

    /// Makes the directory at `path` writable for its owner until [`Storage::set_directory_meta`] sets its mode. Does nothing if modes do
    /// not restrict this process. Changes only a directory that belongs to this process's user.
    fn open_directory(&self, path: &RelPath) -> Result<(), StoreError>;

    /// Creates a symbolic link atomically, by renaming `temp`, with all of `meta` except the mode. If `replace` allows it, an existing link
    /// with the same target is accepted. Returns the kinds of attributes of `meta` that could not be kept.
    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError>;

    /// Creates a FIFO, a socket or a device node atomically, by renaming `temp`; `rdev` is as in [`Meta`]. `Permission` for device nodes if
    /// they are not allowed. Returns the kinds of attributes of `meta` that could not be kept.
    fn make_special(
        &self,
        path: &RelPath,
        kind: Kind,
        rdev: u64,
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError>;

    /// Makes `path` another name of the file `first` atomically; `temp` is used if an entry exists at `path`. An existing link to the same
    /// file is accepted.
    fn make_link(
        &self,
        path: &RelPath,
        first: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError>;

    /// Creates the temporary file of `path`, readable by its owner only, for writing in any order; `how` decides about an existing one.
    /// `bytes` is the length that the contents will have, `None` if that is not known.
    fn create(
        &self,
        path: &RelPath,
        temp: &TempName,
        how: Create,
        bytes: Option<u64>,
    ) -> Result<Box<dyn WriteFile>, StoreError>;

    /// Writes the whole temporary file of `path`, with its final metadata, in the fewest calls; an old one is replaced. Returns the kinds
    /// of attributes of `meta` that could not be kept.
    fn write_whole(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
    ) -> Result<Lost, StoreError>;

    /// Like [`Storage::write_whole`], but also renames the file to its final name, as [`Storage::commit`] does, if nothing has to be made
    /// durable before. `sync` is true if the file must be durable where that is possible; a file system in memory cannot make it durable.
    /// Also returns whether the file was renamed. After an error no file is left.
    fn write_named(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
        replace: Replace,
        sync: bool,
    ) -> Result<(Lost, bool), StoreError> {
        let lost = self.write_whole(path, temp, meta, content)?;
        if !sync {
            self.commit(path, temp, replace)?;
        }
        Ok((lost, !sync))
    }

    /// Afterwards the contents and metadata of these temporary files, `bytes` in total, survive a power cut. After an error none of them is
    /// durable: everything written since their last successful sync must be written again.
    fn sync_batch(&self, files: &[(&RelPath, TempName)], bytes: u64) -> Result<(), StoreError>;

    /// Renames a temporary file to its final name. `Exists` if that name is taken and `replace` is `Never`.
    fn commit(&self, path: &RelPath, temp: &TempName, replace: Replace) -> Result<(), StoreError>;

    /// Afterwards the names in these directories survive a power cut.
    /// More than [`SYNC_EACH_MAX`] may sync the whole file system instead, or these directories and all above them.
    fn sync_directories(&self, directories: &[RelPath]) -> Result<(), StoreError>;

    /// Opens a temporary file for reading, to verify it.
    fn open_temp(&self, path: &RelPath, temp: &TempName) -> Result<Box<dyn ReadFile>, StoreError>;

    /// Removes a temporary file; an absent one is fine.
    fn discard(&self, path: &RelPath, temp: &TempName) -> Result<(), StoreError>;

    /// Sets the metadata of a directory, when no more entries will be added to it. Returns the kinds of attributes that could not be kept.
    fn set_directory_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError>;

    /// The modification time of the directory at `path`, read from its file system now, because a network mount caches times for a while.
    fn time_of(&self, path: &RelPath) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.stat(path)?.map(|meta| meta.mtime))
    }

    /// Restores the time that the directory at `path` had before an entry was added and removed.
    fn restore_mtime(&self, path: &RelPath, mtime: Timestamp) -> Result<(), StoreError> {
        let _ = mtime;
        Err(StoreError::new(
            "set the time of",
            path,
            StoreErrorKind::Unsupported,
        ))
    }

    /// Removes the temporary files with this tag at and below `start`, except those whose own path `keep` accepts; returns how many were
    /// removed.
    fn sweep(
        &self,
        start: &RelPath,
        tag: u64,
        keep: &dyn Fn(&RelPath) -> bool,
    ) -> Result<u64, StoreError>;

    /// Lists the entries below `start`, a directory before its contents; temporary names are included. It reads as little as possible of
    /// each entry, so it is faster than a scan. Ends early when `each` returns `false`. For an absent `start` it lists nothing.
    fn survey(
        &self,
        start: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError>;

    /// Whether the directory at `path` keeps its name, so that it can neither be removed nor renamed.
    fn lasts(&self, path: &RelPath) -> bool {
        let _ = path;
        false
    }

    /// Whether a file system is mounted at `path`.
    fn is_mount(&self, path: &RelPath) -> bool {
        let _ = path;
        false
    }

    /// Lists the names in the directory at `path` in their exact spelling; temporary names are included. An absent directory has no names.
    fn names_in(&self, path: &RelPath, each: &mut dyn FnMut(&[u8])) -> Result<(), StoreError>;

    /// Whether the entry at `path` with the metadata `there` has the attributes of `wanted`, as far as this storage applies them.
    fn agrees(&self, path: &RelPath, there: &Meta, wanted: &FinalMeta) -> bool;

    /// Sets the metadata of an existing entry that is not a directory. Returns the kinds of attributes that could not be kept.
    fn set_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError>;

    /// Afterwards attributes set by [`Storage::set_meta`] survive a power cut.
    fn sync_attributes(&self) -> Result<(), StoreError>;

    /// Removes the name `path` of an empty directory, or of an entry of another kind. An absent name is fine.
    fn remove_entry(&self, path: &RelPath, is_directory: bool) -> Result<(), StoreError>;

    /// Removes an entry that was found before. Returns whether the entry was still the same; another entry with its name stays.
    fn remove_found(&self, path: &RelPath, found: &Meta) -> Result<bool, StoreError> {
        let now = self.stat(path)?;
        let is_same = now.is_some_and(|now| {
            (now.device, now.inode, now.kind) == (found.device, found.inode, found.kind)
        });
        if is_same {
            self.remove_entry(path, found.kind == Kind::Directory)?;
        }
        Ok(is_same)
    }

    /// Renames the entry at `from` to `to`, whose directory must exist. `Exists` if the name is taken and `replace` is `Never`, or if a
    /// directory with this name is not empty.
    fn rename(&self, from: &RelPath, to: &RelPath, replace: Replace) -> Result<(), StoreError> {
        let _ = (to, replace);
        Err(StoreError::new("rename", from, StoreErrorKind::Unsupported))
    }

    /// A new file without a name in the directory at `path`, for measuring this storage; it disappears when it is closed. `Unsupported` if
    /// the storage has no such files.
    fn scratch(&self, path: &RelPath) -> Result<File, StoreError> {
        Err(StoreError::new(
            "measure",
            path,
            StoreErrorKind::Unsupported,
        ))
    }

    /// From now on the storage asks `may` before each call that adds or removes a name, or changes attributes of a named entry. Once `may`
    /// returns false, such a call fails with `Fenced`. An entry to be removed is first moved into a directory in `base` whose temporary
    /// name has this tag. If `may` returns false by then, the entry is renamed back. Removing such a directory also removes its contents
    /// and ends the removals that use it. Only one transfer may use this storage.
    fn hold_to(&self, may: May, tag: u64, base: &RelPath) {
        let _ = (may, tag, base);
    }

    /// Features of this storage.
    fn capabilities(&self) -> Capabilities;
}

/// A listing in progress; its memory is bounded.
pub trait Scan: Send {
    /// Adds up to [`SCAN_BATCH_ITEMS`] items to `out` (possibly none); `false` when the listing is complete. Additional names of files come
    /// last: all names of one file together, the first of them as `Entry`.
    fn next_batch(&mut self, out: &mut Vec<ScanItem>) -> bool;

    /// Offers the memory of unused paths for reuse, each of some hundred bytes at most. Paths that the scan does not reuse stay in `paths`.
    fn reuse(&mut self, paths: &mut Vec<Vec<u8>>) {
        let _ = paths;
    }

    /// Processor time that the scan's own threads have used so far.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// One result of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanItem {
    /// An entry of any kind.
    Entry(ScanEntry),
    /// Another name of a file whose `first` name was returned as an `Entry`.
    Link {
        /// This name.
        entry: ScanEntry,
        /// The name that was reported as `Entry`.
        first: RelPath,
    },
    /// An entry that could not be listed or looked at; the scan continues.
    Fault(StoreError),
}

impl ScanItem {
    /// The memory of its paths, its target and its attributes, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let of_entry = |entry: &ScanEntry| {
            entry.path.as_bytes().len() + entry.target.len() + entry.extended.weight()
        };
        match self {
            Self::Entry(entry) => of_entry(entry),
            Self::Link { entry, first } => of_entry(entry) + first.as_bytes().len(),
            Self::Fault(error) => error.path.as_bytes().len(),
        }
    }
}

/// One result of a survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SurveyItem {
    /// A name of any kind.
    Entry {
        /// Relative to the storage's root.
        path: RelPath,
        /// Kind of the entry with this name.
        kind: Kind,
        /// Whether a file system is mounted there.
        is_mount: bool,
    },
    /// An entry that could not be listed; the survey continues.
    Fault(StoreError),
}

/// An entry in the state in which a scan found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanEntry {
    /// Relative to the storage's root.
    pub path: RelPath,
    /// State of the entry.
    pub meta: Meta,
    /// Target of a symbolic link; otherwise empty.
    pub target: Vec<u8>,
    /// The extended attributes that the storage was opened to read; empty for an additional name.
    pub extended: Extended,
    /// The kinds of attributes that could not be read.
    pub lost: Lost,
}

/// How `create` treats an existing temporary file, and what the caller guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Create {
    /// The file is empty and new. An old file is removed even if another writer made it. The caller is the only writer, because it holds
    /// the lock of the transfer's journal.
    Fresh,
    /// An old file is opened with its contents and its length; if there is none, a new file is made. The caller is the only writer, as for
    /// `Fresh`. If another kind of entry has the name, it is removed and the call fails with `NotFound`.
    Resume,
    /// The file is opened, or created if it does not exist. Other writers, also on other machines, may have the file open and write other
    /// ranges, so nothing is removed or cut off. If `bytes` is known, the file has this length from the start; all writers must pass the
    /// same length. If an entry that is no temporary file of ours has the name, the entry stays and the call fails with `TypeConflict`.
    Shared,
}

/// How to treat an entry that already has the final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replace {
    /// The old entry stays, and the operation fails with `Exists`.
    Never,
    /// The new entry replaces the old one in one step.
    Atomically,
}

/// An open file of a source, or a temporary file that is verified.
pub trait ReadFile: Send + Sync {
    /// The current state of the file.
    fn meta(&self) -> Result<Meta, StoreError>;

    /// Reads at `offset` until `buffer` is full or the file ends; returns how many bytes it read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError>;

    /// The next range of data that ends after `offset`, beginning there or later; `None` if only a hole (or nothing) follows.
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, StoreError>;

    /// Asks that later reads come from the device, not from the page cache. Best effort.
    fn drop_cache(&self);

    /// A handle that the system can copy from, if there is one.
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A temporary file being written, in any order and by any number of threads.
pub trait WriteFile: Send + Sync {
    /// Allocates space for `range` now, if the storage can; `NoSpace` if there is none.
    fn preallocate(&self, range: Range<u64>) -> Result<(), StoreError>;

    /// Writes all of `data` at `offset`; ranges between writes are holes.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError>;

    /// Copies a range of another file to the same offset in this file with the file system's own functions; the files may then share
    /// blocks. Returns how many bytes were copied from the start of the range; the rest must be read and written.
    fn copy_from(&self, from: &dyn ReadFile, range: Range<u64>) -> Result<u64, StoreError> {
        let _ = (from, range);
        Ok(0)
    }

    /// Asks the storage to start writing `range` to disk, so that the disk is not idle until a sync. This is a hint: the call guarantees
    /// nothing and waits only for room in a queue. The sync reports any error.
    fn write_out(&self, range: Range<u64>);

    /// Whether a later run finds under the temporary name what was written and synced. If not, only the whole file is worth a record.
    fn lasts(&self) -> bool {
        true
    }

    /// Sets the final length and metadata. The file still has to be synced and committed. Returns the kinds of attributes of `meta` that
    /// could not be kept.
    fn finish(&self, bytes: u64, meta: &FinalMeta) -> Result<Lost, StoreError>;
}
