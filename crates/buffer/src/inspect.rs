//! Owns the examination of a volume that is not open: both superblocks, the log, and the contents of all extents. Repairs nothing.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use godwit_sys::page_buffer::PageBuffer;

use crate::backing::Backing;
use crate::extent::Recovered;
use crate::replay::{self, Damage};
use crate::superblock::Superblock;
use crate::volume::{GetError, OpenError, get};

/// Threads that read extents.
const THREADS: usize = 4;

/// The state of a volume according to its bytes.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The superblock in force.
    pub superblock: Superblock,
    /// Whether each of the two superblocks is valid. A power cut may leave one superblock invalid.
    pub are_valid: [bool; 2],
    /// Whether a power cut tore the last frame. Its changes were not acknowledged.
    pub is_torn: bool,
    /// Bytes of the log area in use.
    pub log_bytes: u64,
    /// Damage of the log.
    pub damage: Vec<Damage>,
    /// The extents in the readable part of the log.
    pub extents: Vec<Recovered>,
}

/// An extent whose bytes are damaged.
#[derive(Debug)]
pub struct BadExtent {
    /// The extent.
    pub extent: Recovered,
    /// Why.
    pub error: GetError,
}

/// Reads superblocks and log.
///
/// # Errors
/// The bytes cannot be read, or there is no buffer. Damage is no error here.
pub fn survey(backing: &dyn Backing) -> Result<Survey, OpenError> {
    let both = replay::superblocks(backing)?;
    let superblock = replay::newer(&both, backing)?;
    let replayed = replay::replay(backing, &superblock)?;
    Ok(Survey {
        superblock,
        are_valid: [both[0].is_some(), both[1].is_some()],
        is_torn: replayed.is_torn,
        log_bytes: replayed.next_at,
        damage: replayed.damage,
        extents: replayed.table.extents(),
    })
}

/// Reads all extents, and compares each with its digest. Returns the damaged extents by slot.
///
/// # Errors
/// There is no memory.
pub fn check(backing: &dyn Backing, survey: &Survey) -> io::Result<Vec<BadExtent>> {
    let layout = &survey.superblock.layout;
    let next = AtomicUsize::new(0);
    let bad = Mutex::new(Vec::new());
    let read = || -> io::Result<()> {
        let mut buffer = PageBuffer::new(layout.extent_bytes as usize)?;
        while let Some(extent) = survey.extents.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = get(backing, layout, extent.slot, &extent.content, &mut buffer);
            if let Err(error) = read {
                let extent = extent.clone();
                let mut bad = bad.lock().unwrap_or_else(PoisonError::into_inner);
                bad.push(BadExtent { extent, error });
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    })?;
    let mut bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
    bad.sort_by_key(|bad| bad.extent.slot);
    Ok(bad)
}
