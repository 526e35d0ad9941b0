//! Holds work that must wait for the end of a transfer: links, directory times, names of existing directories, and the lists that a
//! deletion compares. The planner fills the agenda while the transfer runs, and the finisher does the work. The agenda performs nothing
//! itself.
//!
//! Each list has its own lock, held for one call only; no two locks are held at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_engine::lock;
use godwit_proto::{Comparison, EntryKind, Record};
use godwit_store::spill::{SpillList, SpillRoom};
use godwit_store::{Kind, Meta, RelPath, StoreError};

use crate::files::finish::deferred::Deferred;
use crate::files::finish::spill_list::{DIRECTORY_OWN_BYTES, LINK_OWN_BYTES, encode_directory};
use crate::files::plan::announced::Announced;
use crate::files::plan::spared::Spared;
use crate::files::target::{spill_error, stays_out};

/// Work for the end of a transfer. Lists that do not fit in memory are on disk.
pub(crate) struct Agenda {
    /// Additional names of files.
    pub(crate) links: Mutex<SpillList>,
    /// Directories whose mode and times are set at the end.
    directories: Mutex<SpillList>,
    /// Entries that were replaced by directories: kind and path of each.
    pub(crate) replaced: Mutex<SpillList>,
    /// The kind of the existing entry with the name of the whole destination, if another kind of entry will replace it.
    pub(crate) way_at_root: Mutex<Option<Kind>>,
    /// The announced entries, if anything may be deleted.
    pub(crate) announced: Announced,
    /// Entries that a deletion must not touch, with all their contents.
    pub(crate) spared: Spared,
    /// Entries whose names an existing directory still has.
    pub(crate) deferred: Deferred,
    /// Whether attributes of files were set outside of any batch.
    adjusted: AtomicBool,
}

impl Agenda {
    pub(crate) fn new(room: &SpillRoom, awaited_max: usize) -> Self {
        Self {
            links: Mutex::new(SpillList::new(room, LINK_OWN_BYTES)),
            directories: Mutex::new(SpillList::new(room, DIRECTORY_OWN_BYTES)),
            // The kind of an entry precedes its path.
            replaced: Mutex::new(SpillList::new(room, 1)),
            way_at_root: Mutex::default(),
            announced: Announced::new(room),
            spared: Spared::new(room),
            deferred: Deferred::new(room, awaited_max),
            adjusted: AtomicBool::new(false),
        }
    }

    /// Whether an option for existing or missing entries excludes the entry. An excluded directory stays with all its contents, even
    /// where the source has another kind of entry, and vice versa.
    pub(crate) fn keeps(&self, record: &Record, there: Option<&Meta>, wanted: Comparison) -> bool {
        let keeps = stays_out(wanted, record.kind, there);
        let is_other =
            |there: &Meta| (there.kind == Kind::Directory) != (record.kind == EntryKind::DIRECTORY);
        if keeps && wanted.delete && there.is_some_and(is_other) {
            self.spared.add(&record.path);
        }
        keeps
    }

    /// Adds a directory whose mode and times are set when nothing more is put into it.
    pub(crate) fn add_directory(&self, record: &Record, path: &RelPath) -> Result<(), StoreError> {
        encode_directory(record)
            .and_then(|item| lock(&self.directories).push(&item))
            .map_err(|error| spill_error(path, &error))
    }

    /// Calls `each` with every directory, inner before outer ones.
    pub(crate) fn directories_backward(&self, each: impl FnMut(&[u8])) -> std::io::Result<()> {
        lock(&self.directories).backward(each)
    }

    /// Records that the directory with an entry's name will be removed at the end, if no entry fails.
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
