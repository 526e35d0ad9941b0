//! Owns durability: how a batch is synced, and how a write error reaches every transfer that it concerns. Does not decide which files
//! form a batch.

use super::directories::{Directories, Trouble, lock};
use super::write::open_temp;
use crate::error::StoreError;
use crate::path::{RelPath, TempName};
use crate::storage::SYNC_EACH_MAX;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;

/// Files with at least this many bytes on average are also synced one by one, to avoid waiting for other programs' data.
const SYNC_EACH_BYTES: u64 = 8 << 20;

/// Temporary files that are remembered: those of two batches and the open files are 101,400.
const LIVE_MAX: usize = 1 << 18;

/// Temporary files that are written but not yet committed.
///
/// The kernel reports a failed write-back once to a handle, and then treats the pages as clean. A failed sync of a whole file system is
/// therefore remembered for each temporary file that existed then, until it is reported for the file.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    /// Temporary files, and whether a sync has failed since the last report for that file.
    files: HashMap<TempName, bool>,
    /// At least one file may be marked as failed.
    any_failed: bool,
    /// There were more than [`LIVE_MAX`] files. From then on, a file that is not remembered counts as one that failed.
    has_forgotten: bool,
}

impl Live {
    fn begin(&mut self, temp: &TempName, max: usize) {
        if self.files.len() < max {
            self.files.entry(*temp).or_insert(false);
        } else {
            self.has_forgotten |= !self.files.contains_key(temp);
        }
    }
}

impl SyncState {
    /// Records that a temporary file is about to be written.
    pub(super) fn begin(&self, temp: &TempName) {
        lock(&self.live).begin(temp, LIVE_MAX);
    }

    /// Records that a temporary file got its final name or was removed.
    pub(super) fn end(&self, temp: &TempName) {
        let mut live = lock(&self.live);
        live.files.remove(temp);
        if live.files.is_empty() && !live.has_forgotten {
            live.any_failed = false;
        }
    }

    /// Whether a failed sync concerned one of `files`. The failure then counts as reported for them.
    fn take_failed(&self, files: &[(&RelPath, TempName)]) -> bool {
        let mut live = lock(&self.live);
        // Checked first, because looking up each file would cost as much as adding it did.
        let (any, unknown) = (live.any_failed, live.has_forgotten);
        any && files.iter().fold(false, |failed, (_, temp)| {
            live.files.get_mut(temp).map_or(unknown, std::mem::take) || failed
        })
    }

    fn fail_all(&self) {
        let mut live = lock(&self.live);
        live.files.values_mut().for_each(|failed| *failed = true);
        live.any_failed = true;
    }

    /// Syncs the contents and attributes of `files`.
    pub(super) fn sync_files(
        &self,
        directories: &Directories,
        files: &[(&RelPath, TempName)],
        bytes: u64,
    ) -> Result<(), StoreError> {
        let Some((first, _)) = files.first() else {
            return Ok(());
        };
        let each = files.len() <= SYNC_EACH_MAX || bytes / files.len() as u64 >= SYNC_EACH_BYTES;
        let result = match each.then(|| sync_each(directories, files)) {
            Some(Err(error)) if is_forbidden(&error) => self.sync_all(directories, first),
            Some(result) => result,
            None => match self.sync_all(directories, first) {
                Err(error) if error.errno == Some(Errno::XDEV.raw_os_error()) => {
                    sync_each(directories, files)
                }
                result => result,
            },
        };
        let failed = self.take_failed(files);
        result?;
        if failed {
            Err(StoreError::from_errno("sync", first, Errno::IO))
        } else {
            Ok(())
        }
    }

    /// Syncs the names in directories.
    pub(super) fn sync_directories(
        &self,
        directories: &Directories,
        paths: &[RelPath],
    ) -> Result<(), StoreError> {
        let Some(first) = paths.first() else {
            return Ok(());
        };
        if paths.len() > SYNC_EACH_MAX {
            match self.sync_all(directories, first) {
                Err(error) if error.errno == Some(Errno::XDEV.raw_os_error()) => {
                    // The caller may have left out directories above these.
                    let (mut synced, state) = (HashSet::new(), RandomState::new());
                    for path in paths {
                        // Hashes, because all these paths may be long. Directories above a known directory are known, too.
                        for above in path.above() {
                            if !synced.insert(state.hash_one(&above)) {
                                break;
                            }
                            sync_directory(directories, &above)?;
                        }
                    }
                }
                result => return result,
            }
        }
        for path in paths {
            match sync_directory(directories, path) {
                // We may not read the directory, or the file system cannot sync directories.
                Err(error) if is_forbidden(&error) => return self.sync_all(directories, path),
                result => result?,
            }
        }
        Ok(())
    }

    /// Syncs the whole tree below the root, and as little else as possible; used where single files cannot be synced.
    pub(super) fn sync_whole(&self, directories: &Directories) -> Result<(), StoreError> {
        match self.sync_all(directories, &RelPath::root()) {
            // There are too many file systems to keep open; the system writes the attributes back within seconds.
            Err(error) if error.errno == Some(Errno::XDEV.raw_os_error()) => Ok(()),
            result => result,
        }
    }

    /// Syncs every file system below the root. `XDEV` if there are too many of them.
    fn sync_all(&self, directories: &Directories, path: &RelPath) -> Result<(), StoreError> {
        let Some(devices) = directories.devices() else {
            return Err(StoreError::from_errno("sync", path, Errno::XDEV));
        };
        // Syncs all devices, even after an error, because every failure must be known.
        let failures: Vec<_> = devices
            .iter()
            .filter_map(|device| Some((device, device.sync().err()?)))
            .collect();
        let Some((_, first)) = failures.first() else {
            return Ok(());
        };
        self.fail_all();
        // Files are marked only after all syncs: another thread that waited for the same sync must not see unmarked files.
        for (device, failure) in &failures {
            device.believe(*failure);
        }
        Err(StoreError::from_errno("sync", path, first.errno))
    }
}

fn is_forbidden(error: &StoreError) -> bool {
    [Errno::ACCESS, Errno::BADF, Errno::INVAL, Errno::OPNOTSUPP]
        .iter()
        .any(|errno| error.errno == Some(errno.raw_os_error()))
}

fn sync_each(directories: &Directories, files: &[(&RelPath, TempName)]) -> Result<(), StoreError> {
    files.iter().try_for_each(|(path, temp)| {
        directories.within("sync", path, |directory, _| {
            let fd = open_temp(directory, temp, OFlags::RDONLY)?;
            // Not fdatasync, because modes and times must be durable too.
            Ok(rustix::fs::fsync(&fd)?)
        })
    })
}

fn sync_directory(directories: &Directories, path: &RelPath) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_errno("sync the directory", path, error);
    let (directory, kept) = directories.get(path.as_bytes()).map_err(failed)?;
    let directory = if kept && directory.is_gone() {
        directories.forget(path.as_bytes());
        directories.get(path.as_bytes()).map_err(failed)?.0
    } else {
        directory
    };
    if directory.is_search_only() {
        return Err(failed(Errno::ACCESS));
    }
    rustix::fs::fsync(&*directory)
        .map_err(Trouble::from)
        .map_err(|trouble| trouble.at("sync the directory", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> (RelPath, TempName) {
        let path = RelPath::parse(name.as_bytes()).unwrap();
        let temp = TempName::new(1, &path);
        (path, temp)
    }

    fn borrow(file: &(RelPath, TempName)) -> (&RelPath, TempName) {
        (&file.0, file.1)
    }

    #[test]
    fn a_failed_sync_is_reported_to_every_file_that_existed_and_only_once() {
        let state = SyncState::default();
        let (before, committed, after) = (file("before"), file("committed"), file("after"));
        state.begin(&before.1);
        state.begin(&committed.1);
        state.end(&committed.1);
        state.fail_all();
        state.begin(&after.1);
        // Further writes do not restore the lost data.
        state.begin(&before.1);
        assert!(!state.take_failed(&[borrow(&committed), borrow(&after)]));
        assert!(state.take_failed(&[borrow(&after), borrow(&before)]));
        assert!(!state.take_failed(&[borrow(&before)]));
    }

    #[test]
    fn a_failed_sync_is_not_forgotten_with_the_first_file_that_ends() {
        let state = SyncState::default();
        let (ended, other, later) = (file("ended"), file("other"), file("later"));
        state.begin(&ended.1);
        state.begin(&other.1);
        state.fail_all();
        state.end(&ended.1);
        assert!(state.take_failed(&[borrow(&other)]));
        state.end(&other.1);
        state.begin(&later.1);
        assert!(!state.take_failed(&[borrow(&later)]));
    }

    #[test]
    fn a_file_beyond_the_bound_counts_as_one_that_failed() {
        let state = SyncState::default();
        let (known, beyond) = (file("known"), file("beyond"));
        lock(&state.live).begin(&known.1, 1);
        lock(&state.live).begin(&beyond.1, 1);
        assert_eq!(lock(&state.live).files.len(), 1);
        assert!(!state.take_failed(&[borrow(&known), borrow(&beyond)]));
        state.fail_all();
        assert!(state.take_failed(&[borrow(&beyond)]));
        assert!(state.take_failed(&[borrow(&known)]));
        assert!(!state.take_failed(&[borrow(&known)]));
    }
}
