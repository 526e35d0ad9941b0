//! Owns the way of files through the transfer buffer into an export: a storage that takes them on flash, and the steps that bring a waiting
//! file to its place. Decides nothing about room and order; the buffer does.
//!
//! A file is taken on flash if the buffer has room for all of it at once, and its length is known. All else goes to slow storage at once:
//! parts of shared files, sparse files, files that are read back, and files of members of a claim.
//!
//! Until a file has drained, this storage acts as if it was in place: its name is listed, and its metadata is compared. A call that needs
//! more lets the file drain first, and waits.

mod file;
mod place;
mod storage;
mod what;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use godwit_buffer::extent::{FileKey, SourceId};
use godwit_buffer::service::{Buffer, Settled};
use godwit_buffer::waiting::First;
use godwit_engine::lock;
use godwit_store::{RelPath, Storage, StoreError, StoreErrorKind};

pub use place::{Failed, place};

use storage::ArrivingStorage;
use what::What;

/// The longest wait for a file to drain.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);

/// The arrivals of one export.
#[derive(Clone, Debug)]
pub struct Arrivals {
    arrivals: godwit_buffer::service::Arrivals,
    source: SourceId,
    export: Arc<str>,
    /// Locked while a name is added and the time of its directory is restored.
    placing: Arc<Mutex<()>>,
}

impl Arrivals {
    /// The arrivals of the export with this name and origin. `placing` belongs to the export.
    #[must_use]
    pub fn new(buffer: &Buffer, export: &str, origin: [u8; 16]) -> Self {
        Self {
            arrivals: buffer.arrivals(),
            source: SourceId(origin),
            export: export.into(),
            placing: Arc::default(),
        }
    }

    /// The storage of the export, which takes arriving files on flash if it `takes` them. In any case it knows the files that wait.
    #[must_use]
    pub fn over(&self, storage: Arc<dyn Storage>, takes: bool) -> Arc<dyn Storage> {
        Arc::new(ArrivingStorage::new(storage, self.clone(), takes))
    }

    /// Whether this export has this origin.
    #[must_use]
    pub fn is_of(&self, source: SourceId) -> bool {
        self.source == source
    }

    fn placing(&self) -> MutexGuard<'_, ()> {
        lock(&self.placing)
    }

    /// The waiting file at a path.
    fn waiting(&self, path: &RelPath) -> Option<(Arc<FileKey>, What)> {
        let (key, what) = self.arrivals.latest(self.source, path.as_bytes())?;
        Some((key, What::decode(&what)?))
    }

    /// Waits until no file waits at or below a path, except those that were put aside if `may_be_aside`.
    fn settle(&self, path: &RelPath, may_be_aside: bool) -> Result<(), StoreError> {
        let settled = self
            .arrivals
            .settle(self.source, path.as_bytes(), SETTLES_WITHIN);
        match settled {
            Settled::All => Ok(()),
            Settled::ButAside(_) if may_be_aside => Ok(()),
            Settled::ButAside(_) => Err(StoreError::new(
                "use (it is in the transfer buffer, and could not be written to its place: see `godwit buffer list --waiting`)",
                path,
                StoreErrorKind::Io,
            )),
            Settled::Late => Err(late(path)),
        }
    }
}

/// The error for a file that drains for too long.
fn late(path: &RelPath) -> StoreError {
    StoreError::new(
        "use (files there still wait in the transfer buffer for slow storage; try again later)",
        path,
        StoreErrorKind::Io,
    )
}

/// Sets order and rate of draining for all exports.
pub fn set_drain(buffer: &Buffer, first: First, rate: Option<u64>) {
    buffer.arrivals().set(first, rate);
}
