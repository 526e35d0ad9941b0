//! Work that must wait for the end of a transfer: links, directory times, names that directories still have, and the lists that a deletion
//! compares.
//! The planner fills the agenda while the transfer runs, and the finisher works it off. The agenda performs nothing itself.
//!
//! Each list has its own lock, held for one call only; no two of them are held at a time.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_engine::lock;
use godwit_proto::Record;
use godwit_store::{Kind, RelPath, StoreError};

use crate::files::finish::deferred::Deferred;
use crate::files::finish::spill_list::{SpillList, encode_directory};
use crate::files::plan::announced::Announced;
use crate::files::plan::spared::Spared;
use crate::files::target::spill_error;

/// Work for the end of a transfer. Lists that do not fit in memory are on disk.
pub(crate) struct Agenda {
    /// Further names of files.
    pub(crate) links: Mutex<SpillList>,
    /// Directories that get their mode and times.
    directories: Mutex<SpillList>,
    /// Entries that made way for directories: kind and path of each.
    pub(crate) replaced: Mutex<SpillList>,
    /// The kind of the entry with the name of the whole destination, if another kind of entry is to replace it.
    pub(crate) way_at_root: Mutex<Option<Kind>>,
    /// The announced entries, if anything is to be deleted.
    pub(crate) announced: Announced,
    /// Entries that a deletion leaves alone with all their contents.
    pub(crate) spared: Spared,
    /// Names that a directory still has.
    pub(crate) deferred: Deferred,
    /// Attributes of files were set that belong to no batch.
    adjusted: AtomicBool,
}

impl Agenda {
    pub(crate) fn new(spill: &Path) -> Self {
        Self {
            links: Mutex::new(SpillList::new(spill)),
            directories: Mutex::new(SpillList::new(spill)),
            replaced: Mutex::new(SpillList::new(spill)),
            way_at_root: Mutex::default(),
            announced: Announced::new(spill),
            spared: Spared::new(spill),
            deferred: Deferred::new(spill),
            adjusted: AtomicBool::new(false),
        }
    }

    /// The directory gets its mode and times when nothing more is put into it.
    pub(crate) fn add_directory(&self, record: &Record, path: &RelPath) -> Result<(), StoreError> {
        encode_directory(record)
            .and_then(|item| lock(&self.directories).push(&item))
            .map_err(|error| spill_error(path, &error))
    }

    /// Calls `each` with every directory, those inside before those around them.
    pub(crate) fn directories_backward(&self, each: impl FnMut(&[u8])) -> std::io::Result<()> {
        lock(&self.directories).backward(each)
    }

    /// The directory that has an entry's name is to go at the end, if all else goes well.
    pub(crate) fn expect_way(&self, record: &Record, path: &RelPath) -> Result<(), StoreError> {
        if record.path.is_empty() {
            *lock(&self.way_at_root) = Some(Kind::Directory);
        }
        let noted = self.deferred.expect_way(path);
        noted.map_err(|error| spill_error(path, &error))
    }

    pub(crate) fn note_adjusted(&self) {
        self.adjusted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_adjusted(&self) -> bool {
        self.adjusted.load(Ordering::Relaxed)
    }
}
