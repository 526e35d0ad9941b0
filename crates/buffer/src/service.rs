//! Owns a buffer in use: its volumes, the threads that fill and keep them, and the reads that it serves. Decides nothing; the ledger does.
//! Knows no transfers and no exports.
//!
//! A reader asks first, and hands over what it then had to read from slow storage. Neither call waits for flash that is full or fails: data
//! without room in memory or on a volume bypasses the buffer.
//!
//! Lock order: gatherings (`fill`), one gathering, the parts of one arriving file (`arrive`), loads (`serve`), ledger, memory. The queue of
//! arrivals (`drain`) is locked alone. No lock is held across I/O, except that of an arriving file, which has one writer.

mod arrive;
mod drain;
mod ended;
mod fill;
mod flash;
mod keeper;
mod lines;
mod memory;
mod pooled;
mod serve;
mod view;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::extent::{FileKey, Keep};
use crate::ledger::{DrainSettings, Ledger, Settings};
use crate::pool::Mates;

pub use arrive::{Arriving, Unfit};
pub use drain::{Arrivals, Drain, HeldArrival, Settled};
pub use fill::{Filled, Patience};
pub use flash::{FailedVolume, Mounted, open_volumes};
pub use view::{Figures, VolumeView};

use drain::Desk;
use fill::Fills;
use flash::Mount;
use keeper::Threads;
use memory::Memory;
use serve::Loads;

/// Receives lines for the log of the node.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// A buffer in use. Clones are handles of the same buffer.
#[derive(Clone)]
pub struct Buffer(Arc<Shared>);

/// One file of a transfer, in the generation that it has now.
#[derive(Debug)]
pub struct BufferedFile {
    shared: Arc<Shared>,
    key: Arc<FileKey>,
    keep: Keep,
}

struct Shared {
    ledger: Mutex<Ledger>,
    /// Something happened that the keeper must look at.
    changed: Condvar,
    mounts: Vec<Mount>,
    failed: Vec<FailedVolume>,
    extent_bytes: u32,
    memory: Arc<Memory>,
    fills: Fills,
    loads: Loads,
    desk: Desk,
    counts: Counts,
    /// Files of transfers that are open now.
    open: AtomicU64,
    is_closed: AtomicBool,
    threads: Mutex<Option<Threads>>,
    /// The other nodes of the pool; none of a node that is alone.
    pool: OnceLock<Weak<dyn Mates>>,
    log: Log,
}

/// The work of the buffer so far, in bytes.
#[derive(Debug, Default)]
struct Counts {
    hit: AtomicU64,
    missed: AtomicU64,
    pooled: AtomicU64,
    filled: AtomicU64,
    passed: AtomicU64,
    damaged: AtomicU64,
}

impl Buffer {
    /// Begins to use these volumes. `failed` are shown beside them.
    ///
    /// # Errors
    /// There are no threads.
    pub fn start(
        mounted: Vec<Mounted>,
        failed: Vec<FailedVolume>,
        log: Log,
    ) -> std::io::Result<Self> {
        let first = mounted.first().map(|one| one.extent_bytes());
        let extent_bytes = first.unwrap_or(crate::layout::EXTENT_BYTES_DEFAULT);
        let mut ledger = Ledger::new(Settings {
            extent_bytes,
            drain: DrainSettings {
                at_once: 0,
                ..DrainSettings::default()
            },
            ..Settings::default()
        });
        let mut mounts = Vec::with_capacity(mounted.len());
        let mut arrived = Vec::new();
        for one in mounted {
            arrived.extend(one.arrived());
            mounts.push(one.attach(&mut ledger));
        }
        let desk = Desk::new(&mut ledger, extent_bytes, arrived, failed.is_empty());
        let (fills, queue) = Fills::new();
        let shared = Arc::new(Shared {
            ledger: Mutex::new(ledger),
            changed: Condvar::new(),
            mounts,
            failed,
            extent_bytes,
            memory: Arc::new(Memory::new(extent_bytes as usize)),
            fills,
            loads: Loads::default(),
            desk,
            counts: Counts::default(),
            open: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            threads: Mutex::new(None),
            pool: OnceLock::new(),
            log,
        });
        let threads = keeper::start(&shared, queue)?;
        *lock(&shared.threads) = Some(threads);
        Ok(Self(shared))
    }

    /// A file whose generation is the present one. Earlier generations are no longer served, and are removed. `None` if the buffer cannot
    /// have it: the file is empty, larger than the buffer, or has a longer path than the log takes.
    #[must_use]
    pub fn file(&self, key: FileKey, keep: Keep) -> Option<BufferedFile> {
        let shared = &self.0;
        let bytes = key.generation.bytes;
        let is_short = key.path.len() <= crate::extent::PATH_BYTES_MAX;
        if bytes == 0 || bytes > self.room() || !is_short || shared.is_closed() {
            return None;
        }
        {
            let mut ledger = shared.lock();
            ledger.observe(key.source, &key.path, key.generation);
            if keep != Keep::No {
                ledger.keep_at_least(&key, keep);
            }
        }
        shared.changed.notify_all();
        shared.open.fetch_add(1, Ordering::Relaxed);
        Some(BufferedFile {
            shared: Arc::clone(shared),
            key: Arc::new(key),
            keep,
        })
    }

    /// Number of bytes that the buffer holds before it evicts the oldest ones.
    #[must_use]
    pub fn room(&self) -> u64 {
        let slots: u64 = self.0.mounts.iter().map(|one| u64::from(one.slots)).sum();
        // Below the low watermark.
        slots * 9 / 10 * u64::from(self.0.extent_bytes)
    }

    /// Size of an extent.
    #[must_use]
    pub fn extent_bytes(&self) -> u32 {
        self.0.extent_bytes
    }

    /// The files that arrive.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        Arrivals::of(&self.0)
    }

    /// The places that could not be opened.
    #[must_use]
    pub fn failed(&self) -> &[FailedVolume] {
        &self.0.failed
    }

    /// The places of the volumes in use.
    #[must_use]
    pub fn places(&self) -> Vec<PathBuf> {
        self.0.mounts.iter().map(|one| one.path.clone()).collect()
    }

    /// Makes durable what it has, and ends its threads. Reads bypass the buffer from now on.
    pub fn close(&self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        self.0.fills.close();
        self.0.desk.wake();
        let threads = lock(&self.0.threads).take();
        if let Some(threads) = threads {
            threads.end(&self.0);
        }
    }
}

impl BufferedFile {
    /// Fills `out` with the bytes at `offset`, if the buffer has all of them and none has changed.
    #[must_use]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let shared = &self.shared;
        if shared.is_closed() {
            return false;
        }
        let is_hit = shared.read(&self.key, offset, out);
        let bytes = out.len() as u64;
        let count = match is_hit {
            true => &shared.counts.hit,
            false => &shared.counts.missed,
        };
        count.fetch_add(bytes, Ordering::Relaxed);
        is_hit
    }

    /// Copies bytes that the caller read at `offset` of this generation. Complete extents go to flash by [`Self::store`]; before that, the
    /// caller must make sure that the file still has this generation.
    #[must_use]
    pub fn fill(&self, offset: u64, data: &[u8]) -> Filled {
        match self.shared.is_closed() {
            true => Filled::default(),
            false => self.shared.fill(&self.key, self.keep, offset, data),
        }
    }

    /// Hands complete extents over to flash, if it keeps up.
    pub fn store(&self, filled: Filled, patience: Patience) {
        self.shared.store(filled, patience);
    }
}

impl Drop for BufferedFile {
    fn drop(&mut self) {
        if self.shared.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            // An idle node keeps no memory for the buffer.
            self.shared.fills.clear();
            self.shared.loads.clear();
            self.shared.memory.trim();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("places", &self.places())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The time since the Unix epoch.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
