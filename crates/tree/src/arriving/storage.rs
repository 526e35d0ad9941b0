//! Owns the storage of an export whose files arrive on flash. All that concerns no arriving and no waiting file goes to the storage below.
//!
//! Lock order: `unnamed` and `landed` are locked for one call each, and not together.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use godwit_buffer::extent::FileKey;
use godwit_buffer::ledger::Mark;
use godwit_buffer::service::HeldArrival;
use godwit_engine::lock;
use godwit_store::{
    Capabilities, Choice, Create, Extended, FinalMeta, Kind, Known, Look, Lost, May, Meta,
    ReadFile, RelPath, Replace, Scan, Storage, StoreError, StoreErrorKind, SurveyItem, TempName,
    Timestamp, WriteFile,
};

use super::file::{ArrivingFile, Handle, Medium};
use super::what::What;
use super::{Arrivals, SETTLES_WITHIN, late};

/// A storage whose files arrive on flash.
pub(super) struct ArrivingStorage {
    below: Arc<dyn Storage>,
    arrivals: Arrivals,
    /// Whether flash takes files of this transfer.
    takes: AtomicBool,
    sender: Mutex<Vec<u8>>,
    /// Files under temporary names that flash has, or had.
    unnamed: Mutex<HashMap<(RelPath, TempName), Arc<ArrivingFile>>>,
    /// Files that have landed, whose records are not known to be durable, and the earlier files that they replace.
    landed: Mutex<Vec<(RelPath, Mark, Option<HeldArrival>)>>,
}

impl ArrivingStorage {
    pub(super) fn new(below: Arc<dyn Storage>, arrivals: Arrivals) -> Self {
        Self {
            below,
            takes: AtomicBool::new(arrivals.takes),
            arrivals,
            sender: Mutex::default(),
            unnamed: Mutex::default(),
            landed: Mutex::default(),
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
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        let arriving = arrivals.begin(*source, path.as_bytes(), bytes)?;
        let file = ArrivingFile::new(&self.below, path, temp, bytes, arriving);
        lock(&self.unnamed).insert((path.clone(), *temp), Arc::clone(&file));
        Some(file)
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
            held.forget();
        }
        Ok(done)
    }

    /// The file has its name: it is queued, or goes to slow storage if the buffer cannot keep it.
    fn land(
        &self,
        file: &ArrivingFile,
        path: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        let slow = || self.instead(path, || self.below.commit(path, temp, replace));
        if file.is_slow() {
            return slow();
        }
        let held = self.hold(path)?;
        let there = self.below.stat(path)?;
        if replace == Replace::Never && (there.is_some() || held.is_some()) {
            return Err(StoreError::new("name", path, StoreErrorKind::Exists));
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
                        arriving.land(&what.encode()).ok()
                    }
                    _ => None,
                }
            }
        };
        if let Some(mark) = mark {
            lock(&self.landed).push((path.clone(), mark, held));
            return Ok(());
        }
        drop(held);
        file.divert()?;
        self.below.sync_batch(&[(path, *temp)], 0)?;
        slow()
    }

    /// Waits until the records of landed files are durable.
    fn confirm(&self) -> Result<(), StoreError> {
        let landed = std::mem::take(&mut *lock(&self.landed));
        let mut failure = None;
        for (path, mark, earlier) in landed {
            match self.arrivals.arrivals.confirm(mark) {
                true => {
                    if let Some(earlier) = earlier {
                        earlier.forget();
                    }
                }
                false => {
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
        failure.map_or(Ok(()), Err)
    }
}

impl Drop for ArrivingStorage {
    fn drop(&mut self) {
        // A transfer that does not sync asks for no record. Earlier files with the same names must go all the same.
        let _ = self.confirm();
    }
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

impl Storage for ArrivingStorage {
    fn free_bytes(&self) -> Option<u64> {
        self.below.free_bytes()
    }

    fn note_sender(&self, name: &[u8]) {
        *lock(&self.sender) = name.to_vec();
    }

    fn origin(&self) -> Option<[u8; 16]> {
        self.below.origin()
    }

    fn scan_chosen(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        self.arrivals.settle(start, true)?;
        self.below.scan_chosen(start, choice)
    }

    fn stat(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        match self.arrivals.waiting(path) {
            Some((key, what)) => Ok(Some(shown(&key, &what))),
            None => self.below.stat(path),
        }
    }

    fn look(&self) -> Box<dyn Look + '_> {
        Box::new(ArrivingLook {
            arrivals: &self.arrivals,
            below: self.below.look(),
        })
    }

    fn extended(&self, path: &RelPath) -> Result<(Extended, Lost), StoreError> {
        self.settle(path)?;
        self.below.extended(path)
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>, StoreError> {
        self.settle(path)?;
        self.below.read_link(path)
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn ReadFile>, StoreError> {
        self.settle(path)?;
        self.below.open(path)
    }

    fn reads_apart(&self, path: &RelPath) -> bool {
        self.below.reads_apart(path)
    }

    fn read_whole(&self, path: &RelPath, buffer: &mut [u8]) -> Result<(Meta, usize), StoreError> {
        self.settle(path)?;
        self.below.read_whole(path, buffer)
    }

    fn read_known(
        &self,
        path: &RelPath,
        known: Known,
        buffer: &mut [u8],
    ) -> Result<usize, StoreError> {
        self.settle(path)?;
        self.below.read_known(path, known, buffer)
    }

    fn make_directory(&self, path: &RelPath, mode_now: u32) -> Result<bool, StoreError> {
        if self.arrivals.waiting(path).is_some() {
            self.settle(path)?;
        }
        self.below.make_directory(path, mode_now)
    }

    fn open_directory(&self, path: &RelPath) -> Result<(), StoreError> {
        self.below.open_directory(path)
    }

    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &FinalMeta,
        temp: &TempName,
        replace: Replace,
    ) -> Result<Lost, StoreError> {
        self.instead(path, || {
            self.below.make_symlink(path, target, meta, temp, replace)
        })
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
        self.instead(path, || {
            self.below
                .make_special(path, kind, rdev, meta, temp, replace)
        })
    }

    fn make_link(
        &self,
        path: &RelPath,
        first: &RelPath,
        temp: &TempName,
        replace: Replace,
    ) -> Result<(), StoreError> {
        self.settle(first)?;
        self.instead(path, || self.below.make_link(path, first, temp, replace))
    }

    fn create(
        &self,
        path: &RelPath,
        temp: &TempName,
        how: Create,
        bytes: Option<u64>,
    ) -> Result<Box<dyn WriteFile>, StoreError> {
        // An earlier attempt may have left a file on flash.
        lock(&self.unnamed).remove(&(path.clone(), *temp));
        match self.begin(path, temp, bytes.filter(|_| how == Create::Fresh)) {
            Some(file) => Ok(Box::new(Handle(file))),
            None => self.below.create(path, temp, how, bytes),
        }
    }

    fn write_whole(
        &self,
        path: &RelPath,
        temp: &TempName,
        meta: &FinalMeta,
        content: &[u8],
    ) -> Result<Lost, StoreError> {
        let bytes = content.len() as u64;
        match self.begin(path, temp, Some(bytes).filter(|_| !meta.strict)) {
            Some(file) => {
                file.write(0, content)?;
                file.finish(bytes, meta)
            }
            None => self.below.write_whole(path, temp, meta, content),
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
        let bytes = content.len() as u64;
        if let Some(file) = self.begin(path, temp, Some(bytes).filter(|_| !meta.strict)) {
            file.write(0, content)?;
            let lost = file.finish(bytes, meta)?;
            if !sync {
                self.commit(path, temp, replace)?;
            }
            return Ok((lost, !sync));
        }
        if self.arrivals.waiting(path).is_some() {
            let lost = self.below.write_whole(path, temp, meta, content)?;
            return Ok((lost, false));
        }
        self.below
            .write_named(path, temp, meta, content, replace, sync)
    }

    fn sync_batch(&self, files: &[(&RelPath, TempName)], bytes: u64) -> Result<(), StoreError> {
        let mut slow = Vec::with_capacity(files.len());
        for (path, temp) in files {
            let Some(file) = self.unnamed(path, temp).filter(|file| !file.is_slow()) else {
                slow.push((*path, *temp));
                continue;
            };
            // A file that is not finished has no record yet: if this process ends, all of it is sent again.
            if file.meta().is_none() {
                continue;
            }
            let is_durable = match &*file.medium() {
                Medium::Flash(arriving) => arriving.make_durable(),
                Medium::Slow(_) | Medium::Broken => false,
            };
            if !is_durable {
                file.divert()?;
                slow.push((*path, *temp));
            }
        }
        match slow.is_empty() {
            true => Ok(()),
            false => self.below.sync_batch(&slow, bytes),
        }
    }

    fn commit(&self, path: &RelPath, temp: &TempName, replace: Replace) -> Result<(), StoreError> {
        let file = self.unnamed(path, temp);
        let done = match file {
            Some(file) => self.land(&file, path, temp, replace),
            None => self.instead(path, || self.below.commit(path, temp, replace)),
        };
        if done.is_ok() {
            lock(&self.unnamed).remove(&(path.clone(), *temp));
        }
        done
    }

    fn sync_directories(&self, directories: &[RelPath]) -> Result<(), StoreError> {
        self.confirm()?;
        self.below.sync_directories(directories)
    }

    fn open_temp(&self, path: &RelPath, temp: &TempName) -> Result<Box<dyn ReadFile>, StoreError> {
        if let Some(file) = self.unnamed(path, temp).filter(|file| !file.is_slow()) {
            // The caller wants to read back what slow storage has.
            file.divert()?;
            self.below.sync_batch(&[(path, *temp)], 0)?;
        }
        self.below.open_temp(path, temp)
    }

    fn discard(&self, path: &RelPath, temp: &TempName) -> Result<(), StoreError> {
        let file = lock(&self.unnamed).remove(&(path.clone(), *temp));
        match file.is_some_and(|file| matches!(*file.medium(), Medium::Flash(_))) {
            true => Ok(()),
            false => self.below.discard(path, temp),
        }
    }

    fn set_directory_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        let _placing = self.arrivals.placing();
        self.below.set_directory_meta(path, meta)
    }

    fn time_of(&self, path: &RelPath) -> Result<Option<Timestamp>, StoreError> {
        self.below.time_of(path)
    }

    fn restore_mtime(&self, path: &RelPath, mtime: Timestamp) -> Result<(), StoreError> {
        let _placing = self.arrivals.placing();
        self.below.restore_mtime(path, mtime)
    }

    fn sweep(
        &self,
        start: &RelPath,
        tag: u64,
        keep: &dyn Fn(&RelPath) -> bool,
    ) -> Result<u64, StoreError> {
        self.below.sweep(start, tag, keep)
    }

    fn survey(
        &self,
        start: &RelPath,
        each: &mut dyn FnMut(SurveyItem) -> bool,
    ) -> Result<(), StoreError> {
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        let waiting = arrivals.below(*source, start.as_bytes());
        let waiting = waiting.iter().filter(|file| file.path != start.as_bytes());
        let mut waiting: BTreeSet<&[u8]> = waiting.map(|file| &file.path[..]).collect();
        let mut goes_on = true;
        self.below.survey(start, &mut |item| {
            if let SurveyItem::Entry { path, .. } = &item
                && !waiting.is_empty()
            {
                waiting.remove(path.as_bytes());
            }
            goes_on = each(item);
            goes_on
        })?;
        // Their directories came before.
        for path in waiting {
            let Ok(path) = RelPath::parse(path) else {
                continue;
            };
            if !goes_on {
                break;
            }
            goes_on = each(SurveyItem::Entry {
                path,
                kind: Kind::File,
                is_mount: false,
            });
        }
        Ok(())
    }

    fn lasts(&self, path: &RelPath) -> bool {
        self.below.lasts(path)
    }

    fn is_mount(&self, path: &RelPath) -> bool {
        self.below.is_mount(path)
    }

    fn names_in(&self, path: &RelPath, each: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        let Arrivals {
            arrivals, source, ..
        } = &self.arrivals;
        let files = arrivals.below(*source, path.as_bytes());
        let skip = path.as_bytes().len() + usize::from(!path.is_root());
        let names = files.iter().filter_map(|file| file.path.get(skip..));
        let names = names.filter(|name| !name.is_empty() && !name.contains(&b'/'));
        let mut waiting: BTreeSet<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        self.below.names_in(path, &mut |name| {
            if !waiting.is_empty() {
                waiting.remove(name);
            }
            each(name);
        })?;
        waiting.iter().for_each(|name| each(name));
        Ok(())
    }

    fn agrees(&self, path: &RelPath, there: &Meta, wanted: &FinalMeta) -> bool {
        let Some((key, what)) = self.arrivals.waiting(path) else {
            return self.below.agrees(path, there, wanted);
        };
        let meta = &what.meta;
        let has = |wanted: Option<u32>, own: Option<u32>| wanted.is_none() || wanted == own;
        there.inode == key.generation.stamp
            && meta.mode == wanted.mode
            && has(wanted.uid, meta.uid)
            && has(wanted.gid, meta.gid)
            && (wanted.extended.is_unasked() || wanted.extended == meta.extended)
    }

    fn set_meta(&self, path: &RelPath, meta: &FinalMeta) -> Result<Lost, StoreError> {
        self.settle(path)?;
        self.below.set_meta(path, meta)
    }

    fn sync_attributes(&self) -> Result<(), StoreError> {
        self.below.sync_attributes()
    }

    fn remove_entry(&self, path: &RelPath, is_directory: bool) -> Result<(), StoreError> {
        if is_directory {
            self.arrivals.settle(path, true)?;
        }
        self.instead(path, || self.below.remove_entry(path, is_directory))
    }

    fn remove_found(&self, path: &RelPath, found: &Meta) -> Result<bool, StoreError> {
        if let Some((key, _)) = self.arrivals.waiting(path) {
            if found.inode != key.generation.stamp {
                return Ok(false);
            }
            self.remove_entry(path, false)?;
            return Ok(true);
        }
        self.arrivals.settle(path, true)?;
        self.below.remove_found(path, found)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: Replace) -> Result<(), StoreError> {
        self.arrivals.settle(from, false)?;
        self.arrivals.settle(to, false)?;
        self.below.rename(from, to, replace)
    }

    fn scratch(&self, path: &RelPath) -> Result<File, StoreError> {
        self.below.scratch(path)
    }

    fn hold_to(&self, may: May, tag: u64, base: &RelPath) {
        // Other nodes finish such a transfer, and they do not see what waits here.
        self.takes.store(false, Ordering::Relaxed);
        self.below.hold_to(may, tag, base);
    }

    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
}
