//! Owns the names of the files of the state, and their lock.
//! Does not read the files, except to check that they belong together.

use std::fs::{OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fault::{Fault, FaultKind};
use crate::raft::{Guard, Log, NUMBER_MAX, read_position};
use crate::store::{Store, make_directory};

/// How long to wait for the lock of another process. A killed process holds it until its last write ends.
const LOCKED_MAX: Duration = Duration::from_secs(5);

/// Interval between attempts to get the lock.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The directory of the state, locked for this process.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    guard: Arc<Guard>,
}

impl Directory {
    /// Creates the directory if it is missing, and excludes other processes.
    pub(super) fn lock(path: &Path) -> Result<Self, Fault> {
        make_directory(path)?;
        let file = path.join("state.lock");
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&file)
            .map_err(|error| Fault::io(&file, error))?;
        let until = Instant::now() + LOCKED_MAX;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    return Ok(Self {
                        path: path.to_owned(),
                        guard: Guard::new(lock),
                    });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(LOOK_EVERY);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Fault::new(&file, FaultKind::Locked));
                }
                Err(TryLockError::Error(error)) => return Err(Fault::io(&file, error)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The lock that excludes other processes, for work that may outlast the replica.
    pub(super) fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("raft.db")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.path.join("state.db")
    }

    pub(super) fn snapshot(&self) -> PathBuf {
        self.path.join("snapshot.db")
    }

    /// File in which a snapshot of another node is assembled.
    pub(super) fn incoming(&self) -> PathBuf {
        self.path.join("incoming.db")
    }

    /// Directory in which a restored state is assembled.
    pub(super) fn restored(&self) -> PathBuf {
        self.path.join("restored")
    }

    /// Refuses a directory with an interrupted restore, which may already have moved the earlier files away.
    pub(super) fn check_restored(&self) -> Result<(), Fault> {
        let restored = self.restored();
        if restored.exists() {
            let what = "a restore into this directory was interrupted".to_owned();
            return Err(Fault::new(&restored, FaultKind::Apart(what)));
        }
        Ok(())
    }

    /// Refuses a log and a state with missing commands between them, as after one of the files was lost or replaced.
    pub(super) fn check_together(&self, log: &Log, store: &Store) -> Result<(), Fault> {
        let io = |error| Fault::io(&self.log(), error);
        let apart = |what: String| Err(Fault::new(&self.path, FaultKind::Apart(what)));
        let term = log.term().map_err(io)?;
        if term > NUMBER_MAX {
            return apart(format!(
                "raft.db has the impossible term {term}, which another node sent; continue alone with `godwit cluster recover`"
            ));
        }
        let (purged, last) = log.ends().map_err(io)?;
        let (applied, _) = read_position(store.position()?.as_ref()).map_err(io)?;
        let index = |log_id: Option<crate::raft::LogId>| log_id.map(|log_id| log_id.index);
        let (purged, last, applied) = (index(purged), index(last), index(applied));
        if applied < purged {
            return apart(format!(
                "state.db ends with command {}, raft.db begins after {}; commands between them are lost",
                number(applied),
                number(purged)
            ));
        }
        if applied > last {
            return apart(format!(
                "state.db ends with command {}, raft.db with {}; the two files do not belong together",
                number(applied),
                number(last)
            ));
        }
        Ok(())
    }
}

fn number(index: Option<u64>) -> String {
    index.map_or_else(|| "none".to_owned(), |index| index.to_string())
}
