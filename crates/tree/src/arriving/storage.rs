//! Owns the storage of an export whose files arrive on flash. All that concerns no arriving and no waiting file goes to the storage below.
//!
//! The calls of the storage are in `calls`.
//!
//! Lock order: `confirming`, which is locked while records become durable, then `landed`. `unnamed`, `landed` and `open` are locked for one
//! call each, and not together.

mod aside;
mod calls;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_buffer::extent::FileKey;
use godwit_buffer::ledger::Mark;
use godwit_buffer::service::HeldArrival;
use godwit_engine::lock;
use godwit_store::{
    Kind, Look, Meta, RelPath, Replace, Storage, StoreError, StoreErrorKind, TempName,
};

use super::file::{ArrivingFile, Medium};
use super::what::What;
use super::{Arrivals, SETTLES_WITHIN, late};

/// Files that land before their records are awaited, also without a sync.
const LANDED_MAX: usize = 1_000;
/// The mode bits that the owner of a directory needs to make a file in it.
const MAKES_BITS: u32 = 0o300;
/// How long a directory that was open is not looked at again.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// A storage whose files arrive on flash.
pub(super) struct ArrivingStorage {
    below: Arc<dyn Storage>,
    arrivals: Arrivals,
    /// Whether flash takes files of this transfer.
    takes: AtomicBool,
    sender: Mutex<Vec<u8>>,
    /// Files under temporary names that flash has, or had.
    unnamed: Mutex<HashMap<(RelPath, TempName), Arc<ArrivingFile>>>,
    /// Files whose records are not known to be durable.
    landed: Mutex<Vec<Landed>>,
    /// The latest directory that was open, and when.
    open: Mutex<Option<(RelPath, Instant)>>,
    /// The first failure. It stays: the file may belong to a batch whose thread has not asked yet.
    confirming: Mutex<Option<StoreError>>,
}

/// A file that has landed.
struct Landed {
    path: RelPath,
    file: Arc<FileKey>,
    mark: Mark,
    /// The earlier file that it replaces.
    earlier: Option<HeldArrival>,
}

impl ArrivingStorage {
    pub(super) fn new(below: Arc<dyn Storage>, arrivals: Arrivals) -> Self {
        Self {
            below,
            takes: AtomicBool::new(arrivals.takes()),
            arrivals,
            sender: Mutex::default(),
            unnamed: Mutex::default(),
            landed: Mutex::default(),
            open: Mutex::default(),
            confirming: Mutex::default(),
        }
    }

    /// A file on flash; `None` if it passes the buffer by.
    fn begin(
        &self,
        path: &RelPath,
        temp: &TempName,
        bytes: Option<u64>,
    ) -> Option<Arc<ArrivingFile>> {
        let bytes = bytes.filter(|_| self.takes.load(Ordering::Relaxed))?;
        if !self.is_open_above(path) {
            return None;
        }
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        let arriving = arrivals.begin(*source, path.as_bytes(), bytes)?;
        let file = ArrivingFile::new(&self.below, path, temp, bytes, arriving);
        lock(&self.unnamed).insert((path.clone(), *temp), Arc::clone(&file));
        Some(file)
    }

    /// Whether the mode of the directory of a path lets its owner make files. A drain opens directories that are closed by then, so a file
    /// that could not be made at its place now must not go there by flash. Slow storage refuses it, or the transfer opens the directory.
    fn is_open_above(&self, path: &RelPath) -> bool {
        let directory = path.parent().unwrap_or_default();
        let now = Instant::now();
        let is_known = |(known, at): &(RelPath, Instant)| {
            *known == directory && now.saturating_duration_since(*at) < OPEN_FOR
        };
        if lock(&self.open).as_ref().is_some_and(is_known) {
            return true;
        }
        let there = self.below.stat(&directory).ok().flatten();
        let is_open = there.is_some_and(|there| {
            there.kind == Kind::Directory && there.mode & MAKES_BITS == MAKES_BITS
        });
        if is_open {
            *lock(&self.open) = Some((directory, now));
        }
        is_open
    }

    fn unnamed(&self, path: &RelPath, temp: &TempName) -> Option<Arc<ArrivingFile>> {
        let unnamed = lock(&self.unnamed);
        match unnamed.is_empty() {
            true => None,
            false => unnamed.get(&(path.clone(), *temp)).map(Arc::clone),
        }
    }

    /// Lets the file at a path drain, if one waits there.
    fn settle(&self, path: &RelPath) -> Result<(), StoreError> {
        self.arrivals.settle(path, false)
    }

    /// Whether a file waits for this path, also one that was put aside.
    fn is_waited_for(&self, path: &RelPath) -> bool {
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        arrivals.latest(*source, path.as_bytes()).is_some()
    }

    /// Keeps the waiting file at a path from draining.
    fn hold(&self, path: &RelPath) -> Result<Option<HeldArrival>, StoreError> {
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        match arrivals.latest(*source, path.as_bytes()) {
            None => Ok(None),
            Some((key, _)) => arrivals
                .hold(&key, SETTLES_WITHIN)
                .map_err(|_late| late(path)),
        }
    }

    /// Does something that replaces or removes the entry at a path. The waiting file of that path goes.
    fn instead<T>(
        &self,
        path: &RelPath,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let held = self.hold(path)?;
        let done = act()?;
        if let Some(held) = held {
            // Without a record it ends all the same: what is there now is not what it may replace.
            held.forget();
        }
        Ok(done)
    }

    /// Removes the entry at a path, and the waiting file of that path. Those below a removed directory that were put aside go with it.
    fn remove<T>(
        &self,
        path: &RelPath,
        is_directory: bool,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let held = self.hold(path)?;
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        // Files that arrive from now on are later than the removal.
        let mut below = match is_directory {
            true => arrivals.below(*source, path.as_bytes()),
            false => Vec::new(),
        };
        below.retain(|file| arrivals.is_aside(file));
        let done = act()?;
        let is_gone = held.is_none_or(HeldArrival::forget);
        let (_, left) = arrivals.give_up_files(&below);
        match is_gone && left == 0 {
            true => Ok(done),
            false => Err(StoreError::new(
                "remove for good (a volume of the transfer buffer fails, and still has the file)",
                path,
                StoreErrorKind::Io,
            )),
        }
    }

    /// The file has its name: it is queued, or goes to slow storage if the buffer cannot keep it.
    fn land(
        &self,
        file: &ArrivingFile,
        path: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        if file.is_slow() {
            return self.commit_below(path, temp, replace);
        }
        self.check_free(path, replace)?;
        let held = self.hold(path)?;
        let there = self.below.stat(path)?;
        if replace == Replace::Never && there.is_some() {
            return Err(exists(path));
        }
        let is_in_the_way = there.is_some_and(|there| there.kind == Kind::Directory);
        let mark = match file.meta().filter(|_| !is_in_the_way) {
            None => None,
            Some(meta) => {
                let what = What {
                    meta,
                    there: there.map(|there| there.generation()),
                    replace,
                    export: self.arrivals.export.as_bytes().to_vec(),
                    sender: lock(&self.sender).clone(),
                };
                match &*file.medium() {
                    Medium::Flash(arriving) if arriving.make_durable() => {
                        let mark = arriving.land(&what.encode()).ok();
                        mark.map(|mark| (mark, Arc::clone(arriving.file())))
                    }
                    _ => None,
                }
            }
        };
        if let Some((mark, file)) = mark {
            let mut landed = lock(&self.landed);
            landed.push(Landed {
                path: path.clone(),
                file,
                mark,
                earlier: held,
            });
            let are_many = landed.len() >= LANDED_MAX;
            drop(landed);
            return match are_many {
                true => self.confirm(),
                false => Ok(()),
            };
        }
        file.divert()?;
        self.below.sync_batch(&[(path, *temp)], 0)?;
        self.below.commit(path, temp, replace)?;
        if let Some(held) = held {
            held.forget();
        }
        Ok(())
    }

    /// Gives a file of slow storage its name. The waiting file of that path goes.
    fn commit_below(
        &self,
        path: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        self.check_free(path, replace)?;
        self.instead(path, || self.below.commit(path, temp, replace))
    }

    /// Refuses a name for which a file waits, if nothing may be replaced. A file that was put aside has no name: a later one wins.
    fn check_free(&self, path: &RelPath, replace: Replace) -> Result<(), StoreError> {
        match replace == Replace::Never && self.arrivals.waiting(path).is_some() {
            true => Err(exists(path)),
            false => Ok(()),
        }
    }

    /// Waits until the records of landed files are durable, also of files for which another thread waits.
    fn confirm(&self) -> Result<(), StoreError> {
        let mut failure = lock(&self.confirming);
        let landed = std::mem::take(&mut *lock(&self.landed));
        for one in landed {
            let Landed {
                path,
                file,
                mark,
                earlier,
            } = one;
            match self.arrivals.arrivals.confirm(mark) {
                true => {
                    if let Some(earlier) = earlier {
                        earlier.forget();
                    }
                }
                false => {
                    // Otherwise it could drain behind a later one, or come back after its removal.
                    self.arrivals.arrivals.withdraw(&file);
                    failure.get_or_insert_with(|| {
                        StoreError::new(
                            "make durable (a volume of the transfer buffer failed)",
                            &path,
                            StoreErrorKind::Io,
                        )
                    });
                }
            }
        }
        failure.clone().map_or(Ok(()), Err)
    }
}

impl Drop for ArrivingStorage {
    fn drop(&mut self) {
        // A transfer that does not sync asks for no record. Earlier files with the same names must go all the same.
        let _ = self.confirm();
    }
}

/// The error for a name that is taken.
fn exists(path: &RelPath) -> StoreError {
    StoreError::new("name", path, StoreErrorKind::Exists)
}

/// The metadata of a waiting file, as if it was in place.
fn shown(key: &FileKey, what: &What) -> Meta {
    Meta {
        kind: Kind::File,
        mode: what.meta.mode,
        bytes: key.generation.bytes,
        sparse: false,
        mtime: what.meta.mtime,
        ctime: what.meta.mtime,
        inode: key.generation.stamp,
        device: 0,
        links: 1,
        uid: what
            .meta
            .uid
            .unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: what
            .meta
            .gid
            .unwrap_or_else(|| rustix::process::getegid().as_raw()),
        rdev: 0,
    }
}

/// Looks at waiting files, and at all others below.
struct ArrivingLook<'a> {
    arrivals: &'a Arrivals,
    below: Box<dyn Look + 'a>,
}

impl Look for ArrivingLook<'_> {
    fn stat(&mut self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        match self.arrivals.waiting(path) {
            Some((key, what)) => Ok(Some(shown(&key, &what))),
            None => self.below.stat(path),
        }
    }
}
