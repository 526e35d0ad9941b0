//! The calls of a storage whose files arrive on flash: each goes to flash, lets a waiting file drain, or goes to the storage below.
//! Decides nothing about room.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use godwit_engine::lock;
use godwit_store::{
    Capabilities, Choice, Create, Extended, FinalMeta, Kind, Known, Look, Lost, May, Meta,
    ReadFile, RelPath, Replace, Scan, ScanSeat, Storage, StoreError, SurveyItem, TempName,
    Timestamp, WriteFile,
};

use super::super::file::{Handle, Medium};
use super::aside::WithAside;
use super::{ArrivingLook, ArrivingStorage, shown};

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
        self.scan_shared(start, choice, None)
    }

    fn scan_shared(
        &self,
        start: &RelPath,
        choice: Option<Arc<dyn Choice>>,
        seat: Option<&ScanSeat>,
    ) -> Result<Box<dyn Scan>, StoreError> {
        self.arrivals.settle(start, true)?;
        let aside = self.aside(start, choice.as_deref());
        // Pages of other scans may lack files that waited then.
        let seat = seat.map(ScanSeat::from_now);
        let below = self.below.scan_shared(start, choice, seat.as_ref())?;
        Ok(match aside.is_empty() {
            true => below,
            false => Box::new(WithAside { aside, below }),
        })
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
        if self.is_waited_for(path) {
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
            None => self.commit_below(path, temp, replace),
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
        let waiting = self.arrivals.waiting_below(start);
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
        let files = self.arrivals.waiting_below(path);
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
        let act = || self.below.remove_entry(path, is_directory);
        self.remove(path, is_directory, act)
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
        if !self.below.remove_found(path, found)? {
            return Ok(false);
        }
        let is_directory = found.kind == Kind::Directory;
        self.remove(path, is_directory, || Ok(true))
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
        // They would send again what they do not see. If it cannot drain now, the later file wins.
        let _ = self.arrivals.settle(base, true);
        self.below.hold_to(may, tag, base);
    }

    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
}
