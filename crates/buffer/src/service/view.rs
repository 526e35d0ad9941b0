//! Owns what others see of a buffer in use, and what a user may change: figures, files, pins. Serves and fills nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Buffer;
use crate::extent::{FileKey, Keep, SourceId, State};
use crate::health::Health;
use crate::ledger::{FileList, FileView};
use crate::waiting::Sums;

/// Figures of a buffer in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Size of an extent.
    pub extent_bytes: u32,
    /// Slots in each state, in the order of [`State::ALL`].
    pub slots: [u64; State::ALL.len()],
    /// Bytes of clean extents that stay, because their files do.
    pub kept_bytes: u64,
    /// Time since which the oldest extent is durable, counted from the Unix epoch.
    pub oldest: Option<Duration>,
    /// The same of the oldest dirty extent.
    pub oldest_dirty: Option<Duration>,
    /// Files with extents.
    pub files: u64,
    /// Files that stay until a user changes that.
    pub pinned_files: u64,
    /// The files that wait for slow storage.
    pub waiting: Sums,
    /// Bytes that slow storage got since the buffer was opened.
    pub drained_bytes: u64,
    /// Bytes that transfers got from the buffer since it was opened.
    pub hit_bytes: u64,
    /// Bytes that transfers had to read from slow storage.
    pub missed_bytes: u64,
    /// Bytes that transfers got from the buffers of other nodes.
    pub pooled_bytes: u64,
    /// Bytes written to flash.
    pub filled_bytes: u64,
    /// Bytes that passed the buffer by: it had no room, or flash was slower.
    pub passed_bytes: u64,
    /// Bytes that were not as they had been written. None of them was served.
    pub damaged_bytes: u64,
    /// Each volume.
    pub volumes: Vec<VolumeView>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    /// Its place.
    pub path: PathBuf,
    /// Its state.
    pub health: Health,
    /// Slots in each state, in the order of [`State::ALL`].
    pub slots: [u32; State::ALL.len()],
}

impl Figures {
    /// Bytes of the slots in a state.
    #[must_use]
    pub fn bytes(&self, state: State) -> u64 {
        self.slots[state as usize] * u64::from(self.extent_bytes)
    }
}

/// Files changed under one lock.
const FILES_AT_ONCE: usize = 256;

/// Files and extents looked at under one lock, for a list: some milliseconds. Transfers wait for the same lock.
const LISTED_AT_ONCE: usize = 1 << 16;

impl Buffer {
    /// The figures now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let status = self.0.lock().status();
        let counts = &self.0.counts;
        let views = status.volumes.into_iter().zip(&self.0.mounts);
        let volumes = views.map(|(one, mount)| VolumeView {
            path: mount.path.clone(),
            health: one.health,
            slots: one.slots,
        });
        Figures {
            extent_bytes: status.extent_bytes,
            slots: status.slots,
            kept_bytes: status.kept * u64::from(status.extent_bytes),
            oldest: status.oldest,
            oldest_dirty: status.oldest_dirty,
            files: status.files,
            pinned_files: status.pinned_files,
            waiting: self.0.desk.sums(),
            drained_bytes: status.drained_bytes,
            hit_bytes: counts.hit.load(Ordering::Relaxed),
            missed_bytes: counts.missed.load(Ordering::Relaxed),
            pooled_bytes: counts.pooled.load(Ordering::Relaxed),
            filled_bytes: counts.filled.load(Ordering::Relaxed),
            passed_bytes: counts.passed.load(Ordering::Relaxed),
            damaged_bytes: counts.damaged.load(Ordering::Relaxed),
            volumes: volumes.collect(),
        }
    }

    /// The next files at and below a path of a source, behind `after`, and whether further ones may follow.
    #[must_use]
    pub fn files(
        &self,
        source: SourceId,
        below: &[u8],
        after: Option<&FileKey>,
        most: usize,
    ) -> (Vec<FileView>, bool) {
        let mut list = FileList::new(source, below, after, most);
        loop {
            let is_complete = list.look(&self.0.lock(), LISTED_AT_ONCE);
            if is_complete {
                return list.into_page();
            }
            // Those that wait for the ledger come first.
            std::thread::yield_now();
        }
    }

    /// Sets how long the files at and below a path stay. Returns the number of files that stay, and of those for which there is no room.
    pub fn keep(&self, source: SourceId, below: &[u8], keep: Keep) -> (u64, u64) {
        let (mut kept, mut refused) = (0, 0);
        self.each(source, below, |ledger, file| {
            match ledger.keep(file, keep) {
                true => kept += 1,
                false => refused += 1,
            }
        });
        (kept, refused)
    }

    /// Removes the extents of files at and below a path. Extents whose data is not yet in slow storage stay. Returns how many
    /// files had extents.
    pub fn drop_files(&self, source: SourceId, below: &[u8]) -> u64 {
        let mut dropped = 0;
        self.each(source, below, |ledger, file| {
            ledger.abandon(file, false);
            dropped += 1;
        });
        dropped
    }

    fn each(
        &self,
        source: SourceId,
        below: &[u8],
        mut act: impl FnMut(&mut crate::ledger::Ledger, &FileKey),
    ) {
        let mut after: Option<Arc<FileKey>> = None;
        loop {
            let mut ledger = self.0.lock();
            let files = ledger.keys(source, below, after.as_deref(), FILES_AT_ONCE);
            for file in &files {
                act(&mut ledger, file);
            }
            drop(ledger);
            self.0.changed.notify_all();
            match files.last() {
                Some(last) if files.len() == FILES_AT_ONCE => after = Some(Arc::clone(last)),
                _ => return,
            }
        }
    }
}
