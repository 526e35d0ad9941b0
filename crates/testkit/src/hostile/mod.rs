//! Owns a storage with faults: a wrapper around another storage that fails, loses data and crashes as configured. Does
//! not sleep: delays are the task of the caller's hook.

mod cache;
mod faults;
mod files;

pub use faults::{Faults, Hook, Operation, Rule, When};

use cache::Cache;
use faults::{Fate, Progress, failed};
use files::{HostileRead, HostileScan, HostileWrite};
use godwit_store::error::{StoreError, StoreErrorKind};
use godwit_store::extended::{Extended, Lost};
use godwit_store::meta::{FinalMeta, Kind, Meta};
use godwit_store::path::{RelPath, TempName};
use godwit_store::storage::{
    Capabilities, Choice, Create, ReadFile, Replace, Scan, Storage, SurveyItem, WriteFile,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A storage with faults. Clones are handles to the same storage.
#[derive(Clone)]
pub struct HostileStorage {
    shared: Arc<Shared>,
}

/// State that the storage and its open files share.
struct Shared {
    inner: Arc<dyn Storage>,
    state: Mutex<State>,
}

struct State {
    progress: Progress,
    cache: Cache,
}

impl HostileStorage {
    /// Wraps `inner`, to which only durable data is written.
    pub fn new(inner: Arc<dyn Storage>, faults: Faults) -> Self {
        let state = State {
            progress: Progress::new(faults),
            cache: Cache::default(),
        };
        Self {
            shared: Arc::new(Shared {
                inner,
                state: Mutex::new(state),
            }),
        }
    }

    /// Simulates a power failure: cached data is lost, but some names may have reached the disk; all later operations
    /// fail.
    pub fn crash(&self) {
        self.shared.lock().crash(&*self.shared.inner);
    }

    /// Whether the storage has crashed.
    pub fn crashed(&self) -> bool {
        self.shared.lock().progress.crashed()
    }

    /// Number of requested operations before the crash.
    pub fn operations(&self) -> u64 {
        self.shared.lock().progress.operations()
    }

    /// Changes the faults from now on, to repair an operation or to make more operations fail.
    pub fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(self.shared.lock().progress.faults_mut());
    }

    /// Writes back all cached data, as a system does after some time.
    pub fn settle(&self) -> Result<(), StoreError> {
        self.shared.lock().cache.settle_all(&*self.shared.inner)
    }

    fn inner(&self) -> &dyn Storage {
        &*self.shared.inner
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the operation; returns its error if it must fail.
    fn enter(
        &self,
        operation: Operation,
        path: &RelPath,
    ) -> Result<MutexGuard<'_, State>, StoreError> {
        let (mut state, fate) = self.decide(operation, path);
        if let Some(kind) = fate {
            return Err(failed(operation, path, kind));
        }
        state.settle_around(&*self.inner, operation, path)?;
        Ok(state)
    }

    /// Counts the operation; returns its error if it must fail.
    fn decide(
        &self,
        operation: Operation,
        path: &RelPath,
    ) -> (MutexGuard<'_, State>, Option<StoreErrorKind>) {
        let hook = self.lock().progress.faults().hook.clone();
        if let Some(hook) = hook {
            hook(operation, path);
        }
        let mut state = self.lock();
        let fate = match state.progress.next(operation) {
            Fate::Works => None,
            Fate::Fails(kind) => Some(kind),
            Fate::Crashes => {
                state.crash(&*self.inner);
                Some(StoreErrorKind::Io)
            }
        };
        (state, fate)
    }
}

impl State {
    fn caches(&self) -> bool {
        self.progress.faults().writer_cache
    }

    /// Writes back the cached names that must exist for the operation.
    fn settle_around(
        &mut self,
        inner: &dyn Storage,
        operation: Operation,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        let mut above = path.parent();
        while let Some(parent) = above {
            self.cache.settle(inner, &parent)?;
            above = parent.parent();
        }
        match operation {
            // These operations read through the cache.
            Operation::Stat | Operation::Open | Operation::Read => Ok(()),
            _ => self.cache.settle(inner, path),
        }
    }

    fn crash(&mut self, inner: &dyn Storage) {
        if !self.progress.crashed() {
            self.progress.crash();
            let progress = &mut self.progress;
            self.cache.crash(inner, || progress.draw(2) == 0);
        }
    }

    /// The number of `bytes` that are written before the write fails, and its error.
    fn cut(
        &mut self,
        bytes: usize,
        fails: Option<StoreErrorKind>,
    ) -> (usize, Option<StoreErrorKind>) {
        let wanted = match fails {
            Some(_) if self.progress.crashed() => 0,
            Some(_) => self.progress.draw(bytes as u64),
            None => bytes as u64,
        };
        let room = self.progress.take_space(wanted);
        let fails = if room < wanted {
            fails.or(Some(StoreErrorKind::NoSpace))
        } else {
            fails
        };
        (usize::try_from(room).unwrap_or(bytes), fails)
    }
}

impl Storage for HostileStorage {
    fn scan_chosen(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        self.shared
            .enter(Operation::Scan, start)?
            .cache
            .settle_all(self.inner())?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(HostileScan {
            scan: self.inner().scan_chosen(start, choice)?,
            shared,
        }))
    }

    fn stat(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let state = self.shared.enter(Operation::Stat, path)?;
        let (dirty, temp) = state.cache.named(path);
        let below = match temp {
            Some(temp) => Some(self.inner().open_temp(path, &temp)?.meta()?),
            None => self.inner().stat(path)?,
        };
        Ok(below.map(|below| dirty.map_or(below, |dirty| dirty.meta(below))))
    }

    fn extended(&self, path: &RelPath) -> Result<(Extended, Lost), StoreError> {
        drop(self.shared.enter(Operation::Stat, path)?);
        self.inner().extended(path)
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>, StoreError> {
        drop(self.shared.enter(Operation::ReadLink, path)?);
        self.inner().read_link(path)
    }

    fn reads_apart(&self, path: &RelPath) -> bool {
        self.inner().reads_apart(path)
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn ReadFile>, StoreError> {
        let state = self.shared.enter(Operation::Open, path)?;
        let (dirty, temp) = state.cache.named(path);
        let file = match temp {
            Some(temp) => self.inner().open_temp(path, &temp)?,
            None => self.inner().open(path)?,
        };
        let dirty = dirty.cloned();
        Ok(Box::new(HostileRead {
            file,
            dirty,
            shared: Arc::clone(&self.shared),
            path: path.clone(),
        }))
    }

    fn read_whole(&self, path: &RelPath, buffer: &mut [u8]) -> Result<(Meta, usize), StoreError> {
        let state = self.shared.enter(Operation::Read, path)?;
        if let (None, None) = state.cache.named(path) {
            drop(state);
            return self.inner().read_whole(path, buffer);
        }
        drop(state);
        let file = self.open(path)?;
        let meta = file.meta()?;
        let bytes = usize::try_from(meta.bytes)
            .ok()
            .filter(|bytes| *bytes <= buffer.len());
        let bytes = bytes.ok_or_else(|| failed(Operation::Read, path, StoreErrorKind::Changed))?;
        let read = file.read_at(0, &mut buffer[..bytes])?;
        Ok((meta, read))
    }

    fn make_directory(&self, path: &RelPath, mode_now: u32) -> Result<bool, StoreError> {
        drop(self.shared.enter(Operation::MakeDirectory, path)?);
        self.inner().make_directory(path, mode_now)
    }

    fn open_directory(&self, path: &RelPath) -> Result<(), StoreError> {
        drop(self.shared.enter(Operation::MakeDirectory, path)?);
        self.inner().open_directory(path)
    }

    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        drop(self.shared.enter(Operation::MakeSymlink, path)?);
        self.inner().make_symlink(path, target, meta, temp, replace)
    }

    fn make_special(
        &self,
        path: &RelPath,
        kind: Kind,
        rdev: u64,
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        drop(self.shared.enter(Operation::MakeSymlink, path)?);
        self.inner()
            .make_special(path, kind, rdev, meta, temp, replace)
    }

    fn make_link(
        &self,
        path: &RelPath,
        first: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        let mut state = self.shared.enter(Operation::MakeLink, path)?;
        state.settle_around(self.inner(), Operation::MakeLink, first)?;
        self.inner().make_link(path, first, temp, replace)
    }

    fn create(
        &self,
        path: &RelPath,
        temp: &TempName,
        how: Create,
        bytes: Option<u64>,
    ) -> Result<Box<dyn WriteFile>, StoreError> {
        let mut state = self.shared.enter(Operation::Create, path)?;
        let kept = how != Create::Fresh && self.inner().open_temp(path, temp).is_ok();
        let file = self.inner().create(path, temp, how, bytes)?;
        if state.caches() {
            state.cache.begin(path, temp, kept);
            state.cache.lengthen(path, how, bytes);
        }
        Ok(Box::new(HostileWrite {
            file,
            shared: Arc::clone(&self.shared),
            path: path.clone(),
            temp: *temp,
        }))
    }

    fn write_whole(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
    ) -> Result<Lost, StoreError> {
        let (mut state, fails) = self.shared.decide(Operation::Write, path);
        let (bytes, fails) = state.cut(content.len(), fails);
        match fails {
            // A file that cannot be written completely is removed, as in a file system.
            Some(kind) => Err(failed(Operation::Write, path, kind)),
            None if state.caches() => {
                state.settle_around(self.inner(), Operation::Write, path)?;
                self.inner().create(path, temp, Create::Fresh, None)?;
                state.cache.begin(path, temp, false);
                state.cache.write(path, temp, 0, &content[..bytes]);
                state.cache.finish(path, temp, bytes as u64, meta);
                Ok(Lost::NOTHING)
            }
            None => self.inner().write_whole(path, temp, meta, content),
        }
    }

    fn write_named(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
        replace: Replace,
        sync: bool,
    ) -> Result<(Lost, bool), StoreError> {
        let in_memory = self.shared.lock().progress.faults().in_memory;
        let at_once = !sync || in_memory.is_some_and(|in_memory| in_memory(path));
        let lost = self.write_whole(path, temp, meta, content)?;
        if at_once {
            self.commit(path, temp, replace)?;
        }
        Ok((lost, at_once))
    }

    fn sync_batch(&self, files: &[(&RelPath, TempName)], bytes: u64) -> Result<(), StoreError> {
        let path = files
            .first()
            .map_or_else(RelPath::root, |(path, _)| (*path).clone());
        let (mut state, fails) = self.shared.decide(Operation::SyncBatch, &path);
        if let Some(kind) = fails {
            files.iter().for_each(|(path, _)| state.cache.lose(path));
            return Err(failed(Operation::SyncBatch, &path, kind));
        }
        for (path, _) in files {
            state.settle_around(self.inner(), Operation::SyncBatch, path)?;
            state.cache.write_back(self.inner(), path)?;
        }
        drop(state);
        self.inner().sync_batch(files, bytes)
    }

    fn commit(&self, path: &RelPath, temp: &TempName, replace: Replace) -> Result<(), StoreError> {
        let mut state = self.shared.enter(Operation::Commit, path)?;
        if !state.caches() {
            return self.inner().commit(path, temp, replace);
        }
        self.inner().open_temp(path, temp)?;
        let there = self.inner().stat(path)?;
        let refused = |kind| failed(Operation::Commit, path, kind);
        let taken = there.is_some() || state.cache.named(path).1.is_some();
        if taken && replace == Replace::Never {
            return Err(refused(StoreErrorKind::Exists));
        }
        if there.is_some_and(|there| there.kind == Kind::Directory) {
            return Err(refused(StoreErrorKind::TypeConflict));
        }
        let at_once = state.progress.faults().names_at_once;
        state.cache.rename(path, temp, replace);
        state.cache.settle_if(at_once, self.inner(), path)
    }

    fn sync_directories(&self, directories: &[RelPath]) -> Result<(), StoreError> {
        let path = directories.first().cloned().unwrap_or_default();
        let mut state = self.shared.enter(Operation::SyncDirectories, &path)?;
        for directory in directories {
            state.settle_around(self.inner(), Operation::SyncDirectories, directory)?;
            state.cache.settle_names(self.inner(), directory)?;
        }
        drop(state);
        self.inner().sync_directories(directories)
    }

    fn open_temp(&self, path: &RelPath, temp: &TempName) -> Result<Box<dyn ReadFile>, StoreError> {
        let state = self.shared.enter(Operation::OpenTemp, path)?;
        let file = self.inner().open_temp(path, temp)?;
        let dirty = state.cache.unnamed(path).cloned();
        Ok(Box::new(HostileRead {
            file,
            dirty,
            shared: Arc::clone(&self.shared),
            path: path.clone(),
        }))
    }

    fn discard(&self, path: &RelPath, temp: &TempName) -> Result<(), StoreError> {
        let mut state = self.shared.enter(Operation::Discard, path)?;
        state.cache.lose(path);
        self.inner().discard(path, temp)
    }

    fn set_directory_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let mut state = self.shared.enter(Operation::SetDirectoryMeta, path)?;
        // A name that is set later would change the time of the directory again.
        state.cache.settle_names(self.inner(), path)?;
        self.inner().set_directory_meta(path, meta)
    }

    fn sweep(
        &self,
        start: &RelPath,
        tag: u64,
        keep: &dyn Fn(&RelPath) -> bool,
    ) -> Result<u64, StoreError> {
        self.shared
            .enter(Operation::Sweep, start)?
            .cache
            .settle_all(self.inner())?;
        self.inner().sweep(start, tag, keep)
    }

    fn survey(
        &self,
        start: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError> {
        self.shared
            .enter(Operation::Scan, start)?
            .cache
            .settle_all(self.inner())?;
        self.inner().survey(start, each)
    }

    fn names_in(&self, path: &RelPath, each: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        self.shared
            .enter(Operation::Scan, path)?
            .cache
            .settle_all(self.inner())?;
        self.inner().names_in(path, each)
    }

    fn agrees(&self, path: &RelPath, there: &Meta, wanted: &FinalMeta) -> bool {
        self.inner().agrees(path, there, wanted)
    }

    fn set_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let mut state = self.shared.enter(Operation::SetMeta, path)?;
        state.cache.settle_all(self.inner())?;
        self.inner().set_meta(path, meta)
    }

    fn sync_attributes(&self) -> Result<(), StoreError> {
        drop(
            self.shared
                .enter(Operation::SyncDirectories, &RelPath::root())?,
        );
        self.inner().sync_attributes()
    }

    fn remove_entry(&self, path: &RelPath, is_directory: bool) -> Result<(), StoreError> {
        let mut state = self.shared.enter(Operation::Remove, path)?;
        state.cache.settle_all(self.inner())?;
        self.inner().remove_entry(path, is_directory)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }
}
