//! Owns the syncs of whole file systems: all threads that wait at the same moment share the next sync. Does not know files; `sync` decides
//! which files an error concerns.
//!
//! A sync serves all threads that began to wait before the sync began, because their data was already written. An error of that sync
//! reaches each of them.

use super::directories::{Directory, lock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// The file systems that the storages of a process sync together. Clones are handles of the same set.
///
/// A sync waits for all written data, of any program. Storages that share this value wait for a common sync, instead of one sync for each
/// storage.
#[derive(Debug, Clone, Default)]
pub struct Syncs {
    file_systems: Arc<Mutex<HashMap<u64, Weak<FileSystem>>>>,
}

impl Syncs {
    /// Number of file systems that storages have written to.
    pub fn file_systems(&self) -> usize {
        lock(&self.file_systems).len()
    }

    /// The member of one storage in the file system of `directory`, which is on `device` and can be synced.
    pub(super) fn join(&self, device: u64, directory: &Arc<Directory>) -> Member {
        let mut known = lock(&self.file_systems);
        let found = known.get(&device).and_then(Weak::upgrade);
        let file_system = found.unwrap_or_else(|| {
            known.retain(|_, file_system| file_system.strong_count() > 0);
            let file_system = Arc::new(FileSystem {
                directory: Arc::clone(directory),
                group: Group::default(),
            });
            known.insert(device, Arc::downgrade(&file_system));
            file_system
        });
        Member {
            seen: AtomicU64::new(file_system.group.failures()),
            file_system,
        }
    }
}

/// One file system, and the handle that every sync of it uses.
///
/// The kernel reports a failed write-back once to each handle. The group counts the failures that this handle reports, and each member
/// compares the count with the count that it has seen.
#[derive(Debug)]
struct FileSystem {
    /// Keeps the device number in use while this directory is open.
    directory: Arc<Directory>,
    group: Group,
}

/// The part of one storage in a file system.
#[derive(Debug)]
pub(super) struct Member {
    file_system: Arc<FileSystem>,
    /// Number of failures that the storage has handled.
    seen: AtomicU64,
}

impl Member {
    /// Makes everything durable that was written before this call. Reports an error that occurred since the storage last
    /// [accepted](Self::believe) one, or since this call, even if another member's sync got it.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        let sync = || rustix::fs::syncfs(&*self.file_system.directory);
        self.file_system.group.sync(&self.seen, sync)
    }

    /// Records that the storage treats all affected data as lost, so the failure is not reported again.
    pub(super) fn believe(&self, failure: Failure) {
        self.seen.fetch_max(failure.number, Ordering::SeqCst);
    }
}

/// A failed sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    number: u64,
    pub(super) errno: Errno,
}

/// The members that sync one file system.
#[derive(Debug, Default)]
struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    /// Callers that wait for a sync to end.
    waiting: usize,
    /// Number of syncs begun, and the number of the last finished one. Syncs are numbered from 1 and run one at a time.
    begun: u64,
    over: u64,
    failures: u64,
    last: Option<Errno>,
}

impl Group {
    fn failures(&self) -> u64 {
        lock(&self.state).failures
    }

    /// Returns when a `sync` that began after this call is over. One caller runs it for all waiting callers.
    fn sync(&self, seen: &AtomicU64, sync: impl Fn() -> Result<(), Errno>) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        // While this caller waits, another thread may accept (`believe`) a failure that also concerns this caller.
        let seen = seen.load(Ordering::SeqCst).min(state.failures);
        // A running sync may already have passed this caller's data.
        let wanted = state.begun + 1;
        while state.over < wanted {
            if state.running {
                state.waiting += 1;
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
                continue;
            }
            state.running = true;
            state.begun += 1;
            drop(state);
            let result = sync();
            state = lock(&self.state);
            state.running = false;
            state.over = state.begun;
            if let Err(errno) = result {
                state.failures += 1;
                state.last = Some(errno);
            }
            self.changed.notify_all();
        }
        match state.last {
            Some(errno) if state.failures > seen => Err(Failure {
                number: state.failures,
                errno,
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
