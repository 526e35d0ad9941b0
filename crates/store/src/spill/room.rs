//! Owns the disk space of spills: how much one spill, and all spills of one transfer, may take of the free space. Stores no records.
//!
//! Peers choose the number of records, so no spill may fill the disk. Ten transfers at once leave a tenth of the space.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A spill takes at most one part in this many of a file system's free space …
const SHARE_OF_ONE: u64 = 4;
/// … and all spills of one transfer together take at most one part in this many.
const SHARE_OF_ALL: u64 = 2;

/// Free bytes in the file system of a directory; `None` if unknown.
pub type Free = fn(&Path) -> Option<u64>;

/// A directory for the spills of one transfer. Clones count their bytes together.
#[derive(Clone, Debug)]
pub struct SpillRoom {
    directory: Arc<Path>,
    free: Free,
    /// Bytes on disk of all spills.
    held: Arc<AtomicU64>,
}

impl SpillRoom {
    /// The directory, without any spill.
    pub fn new(directory: &Path) -> Self {
        Self::with_free(directory, room_in)
    }

    /// Like [`SpillRoom::new`], with a different measure of the free space.
    pub fn with_free(directory: &Path, free: Free) -> Self {
        Self {
            directory: directory.into(),
            free,
            held: Arc::default(),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl From<&Path> for SpillRoom {
    fn from(directory: &Path) -> Self {
        Self::new(directory)
    }
}

impl From<&PathBuf> for SpillRoom {
    fn from(directory: &PathBuf) -> Self {
        Self::new(directory)
    }
}

impl From<&Self> for SpillRoom {
    fn from(room: &Self) -> Self {
        room.clone()
    }
}

pub(crate) fn room_in(directory: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(directory).ok()?;
    (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize))
}

/// The bytes on disk of one spill. Others may take them when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    room: SpillRoom,
    bytes: u64,
}

impl Taken {
    pub(crate) fn new(room: impl Into<SpillRoom>) -> Self {
        Self {
            room: room.into(),
            bytes: 0,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.room.directory()
    }

    /// Lets the file of the spill grow to this length.
    ///
    /// # Errors
    /// The spill, or all spills of the transfer, would exceed their share of the free space.
    pub(crate) fn reach(&mut self, bytes: u64) -> io::Result<()> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return Ok(());
        };
        let held = &self.room.held;
        let before = held.fetch_add(more, Ordering::Relaxed);
        let all = before.saturating_add(more);
        if let Some(free) = (self.room.free)(&self.room.directory)
            && (bytes > free.saturating_add(self.bytes) / SHARE_OF_ONE
                || all > free.saturating_add(before) / SHARE_OF_ALL)
        {
            held.fetch_sub(more, Ordering::Relaxed);
            let what = format!(
                "names and records that do not fit into memory take {before} bytes on disk, {free} are free. One list may take a quarter of the free space, and all lists of a transfer may take half. Free some space in the Godwit home of the machine that reports this, or transfer less at a time"
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
