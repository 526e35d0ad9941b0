//! Owns the path of files through the transfer buffer into an export: a storage that takes them on flash, and the steps that bring a waiting
//! file to its place. Decides nothing about room and order; the buffer does.
//!
//! A file is taken on flash if the buffer has room for all of it at once, and its length is known. All else goes to slow storage at once:
//! parts of shared files, sparse files, files that are read back, and files of members of a claim.
//!
//! Until a file has drained, this storage acts as if it was in place: its name is listed, and its metadata is compared. A call that needs
//! more lets the file drain first, and waits.

mod crew;
mod file;
mod place;
mod storage;
mod what;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use godwit_buffer::extent::{FileKey, SourceId};
use godwit_buffer::service::{Buffer, Drain, Settled};
use godwit_buffer::waiting::{Failing, Stall};
use godwit_engine::lock;
use godwit_store::{RelPath, Storage, StoreError, StoreErrorKind};

pub use crew::{Drains, drain};
pub use place::{Failed, place};

use storage::ArrivingStorage;
use what::What;

/// The longest wait for files to drain, and the bytes of a large file for which a reader waits a second more.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
const DRAINED_A_SECOND: u64 = 32 << 20;

/// The arrivals of one export.
#[derive(Clone, Debug)]
pub struct Arrivals {
    arrivals: godwit_buffer::service::Arrivals,
    source: SourceId,
    export: Arc<str>,
    /// Locked while a name is added and the time of its directory is restored.
    placing: Arc<Mutex<()>>,
    takes: bool,
    /// Other nodes serve the export, too, and would not see what waits here.
    is_shared: Arc<AtomicBool>,
}

impl Arrivals {
    /// The arrivals of the export with this name and origin. With `takes`, flash takes arriving files; in any case the files that wait count.
    #[must_use]
    pub fn new(buffer: &Buffer, export: &str, origin: [u8; 16], takes: bool) -> Self {
        Self {
            arrivals: buffer.arrivals(),
            source: SourceId(origin),
            export: export.into(),
            placing: Arc::default(),
            takes,
            is_shared: Arc::default(),
        }
    }

    /// Whether other nodes serve the export, too. Then arriving files go there at once. Returns whether that is news for files that would
    /// arrive on flash.
    pub fn share(&self, is_shared: bool) -> bool {
        let was_shared = self.is_shared.swap(is_shared, Ordering::SeqCst);
        self.takes && was_shared != is_shared
    }

    fn takes(&self) -> bool {
        self.takes && !self.is_shared.load(Ordering::SeqCst)
    }

    /// Waits until no file waits at or below a path; false if some still do.
    ///
    /// # Errors
    /// One was put aside.
    pub fn have_drained(&self, path: &RelPath, within: Duration) -> Result<bool, StoreError> {
        let settled = self.arrivals.settle(self.source, path.as_bytes(), within);
        match settled {
            Settled::All => Ok(true),
            Settled::Late => Ok(false),
            Settled::ButAside(_) => Err(aside(path)),
        }
    }

    /// Bytes of the waiting files at and below a path that arrived in this time since the Unix epoch.
    #[must_use]
    pub fn bytes(&self, path: &RelPath, arrived: &RangeInclusive<Duration>) -> u64 {
        let Self {
            arrivals, source, ..
        } = self;
        arrivals.bytes(*source, path.as_bytes(), arrived)
    }

    /// Whether the export is one of those where nothing moves.
    #[must_use]
    pub fn is_among(&self, stalls: &[Stall]) -> bool {
        stalls.iter().any(|stall| stall.source == self.source)
    }

    /// The storage of the export, through which files arrive.
    #[must_use]
    pub fn wrap(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(ArrivingStorage::new(storage, self.clone()))
    }

    fn placing(&self) -> MutexGuard<'_, ()> {
        lock(&self.placing)
    }

    /// The waiting file at a path that counts as in place.
    fn waiting(&self, path: &RelPath) -> Option<(Arc<FileKey>, What)> {
        let (key, what) = self.arrivals.latest(self.source, path.as_bytes())?;
        let counts = !self.arrivals.is_aside(&key);
        counts.then_some((key, What::decode(&what)?))
    }

    /// The waiting files at and below a path that count as in place.
    fn waiting_below(&self, path: &RelPath) -> Vec<Arc<FileKey>> {
        let mut files = self.arrivals.below(self.source, path.as_bytes());
        files.retain(|file| !self.arrivals.is_aside(file));
        files
    }

    /// Waits until no file waits at or below a path, except those that were put aside if `may_be_aside`.
    fn settle(&self, path: &RelPath, may_be_aside: bool) -> Result<(), StoreError> {
        let file = self.arrivals.latest(self.source, path.as_bytes());
        let bytes = file.map_or(0, |(file, _)| file.generation.bytes);
        let within = SETTLES_WITHIN + Duration::from_secs(bytes / DRAINED_A_SECOND);
        let settled = self.arrivals.settle(self.source, path.as_bytes(), within);
        match settled {
            Settled::All => Ok(()),
            Settled::ButAside(_) if may_be_aside => Ok(()),
            Settled::ButAside(_) => Err(aside(path)),
            Settled::Late => Err(late(path)),
        }
    }
}

/// The error for files that were put aside.
fn aside(path: &RelPath) -> StoreError {
    StoreError::new(
        "use (it is in the transfer buffer, and could not be written to its place: see `godwit buffer list --waiting`)",
        path,
        StoreErrorKind::Io,
    )
}

/// The error for a file that drains for too long.
fn late(path: &RelPath) -> StoreError {
    StoreError::new(
        "use (files there still wait in the transfer buffer for slow storage; try again later)",
        path,
        StoreErrorKind::Io,
    )
}

/// The files that wait for slow storage, of all exports.
#[derive(Clone, Debug)]
pub struct Queue(godwit_buffer::service::Arrivals);

impl Queue {
    /// Those of this buffer.
    #[must_use]
    pub fn of(buffer: &Buffer) -> Self {
        Self(buffer.arrivals())
    }

    /// The next file to bring to its place. Waits for one; `None` if none comes within this time, or the buffer is closed.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<Due> {
        let drain = self.0.next(within)?;
        Some(Due {
            drain,
            queue: self.0.clone(),
        })
    }

    /// Whether the buffer is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The exports to which files drain, and where nothing moves.
    #[must_use]
    pub fn stalls(&self) -> Vec<Stall> {
        self.0.stalls()
    }

    /// Writes a line to the log of the node.
    pub fn log(&self, line: &str) {
        self.0.log(line);
    }
}

/// A file whose drain has begun.
#[derive(Debug)]
pub struct Due {
    drain: Drain,
    queue: godwit_buffer::service::Arrivals,
}

impl Due {
    /// Whether the file goes to this export.
    #[must_use]
    pub fn is_for(&self, arrivals: &Arrivals) -> bool {
        self.drain.source() == arrivals.source
    }

    /// The reason why a file waits whose export is gone.
    #[must_use]
    pub fn homeless(&self) -> String {
        let what = What::decode(self.drain.what());
        let export = what.map(|what| what.export).unwrap_or_default();
        format!(
            "the node has no export {} with the same directory any more; add it again",
            export.escape_ascii()
        )
    }

    /// Ends the drain, with the generation that the file has in place. The log gets the first failure, and each file that is put aside.
    pub fn end(self, placed: Result<u64, Failed>) {
        match placed {
            Ok(stamp) => self.drain.placed(stamp),
            Err(failed) => {
                let path = self.drain.path().escape_ascii().to_string();
                let reason = failed.reason.clone();
                let then = match self.drain.failed(failed.reason, failed.may_pass) {
                    Failing::Aside => "it was put aside; see `godwit buffer list --waiting`",
                    Failing::First => {
                        "it stays in the transfer buffer, and is tried again; see `godwit buffer list --waiting`"
                    }
                    Failing::Again => return,
                };
                self.queue.log(&format!(
                    "buffer: {path} cannot go to its place: {reason}; {then}"
                ));
            }
        }
    }
}
