//! What the sink knows of each file that is being written: made at its first bytes, noted slice by slice, given up.
//! Does not make anything durable (`commit`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use godwit_proto::{EntryId, Fault, FaultCode, Record, RecordFlags, Seq, Side, UNKNOWN_BYTES};
use godwit_store::digest::{Added, FileDigest};
use godwit_store::journal::PathKey;
use godwit_store::{FinalMeta, RelPath, Replace, StoreError, StoreErrorKind, TempName};

use super::commit::{SmallFile, Unnamed};
use super::floors::FLOOR_FAILED;
use super::open::{OpenFile, Progress};
use super::sink::{TreeSink, destination_fault};
use super::spelling::taken;
use super::undelivered::Undelivered;
use crate::sink::Slice;
use crate::{entry, limits, lock};

impl TreeSink {
    pub(super) fn mapped(&self, root: u16, path: &[u8]) -> Result<RelPath, Fault> {
        let mut mapped = RelPath::root();
        self.map_in(root, path, &mut mapped)?;
        Ok(mapped)
    }

    /// As [`TreeSink::mapped`], in the memory of `mapped`.
    pub(super) fn map_in(&self, root: u16, path: &[u8], mapped: &mut RelPath) -> Result<(), Fault> {
        let name =
            |message: &str| destination_fault(EntryId(0), FaultCode::NAME, message.to_owned());
        let prefix = self
            .config
            .mapping
            .get(usize::from(root))
            .ok_or_else(|| name("an entry of a root that was never named"))?;
        prefix
            .join_in(path, mapped)
            .map_err(|_error| name("the name is not allowed, or too long, at the destination"))
    }

    /// The open file of an entry, made when its first bytes come. `None` for bytes of an earlier attempt.
    pub(super) fn open_file(&self, record: &Record) -> Result<Option<Arc<OpenFile>>, Fault> {
        let mut files = lock(&self.files);
        if !lock(&self.floors).takes(record) {
            return Ok(None);
        }
        if let Some(file) = files.get(&record.id) {
            match file.attempt.cmp(&record.attempt) {
                std::cmp::Ordering::Equal if file.is_of(record) => {
                    return Ok(Some(Arc::clone(file)));
                }
                std::cmp::Ordering::Equal => {
                    let message = "the sender describes one file in two ways".to_owned();
                    return Err(destination_fault(record.id, FaultCode::IO, message));
                }
                std::cmp::Ordering::Greater => return Ok(None),
                std::cmp::Ordering::Less => {
                    self.abandon(file);
                    files.remove(&record.id);
                }
            }
        } else if files.len() >= limits::LARGE_FILES_OPEN_MAX {
            let message = "the sender has too many large files in progress at one time".to_owned();
            return Err(destination_fault(record.id, FaultCode::LIMIT, message));
        }
        if record.attempt > 0 {
            lock(&self.floors).raise(record.id, record.attempt);
        }
        let file = Arc::new(self.create(record)?);
        files.insert(record.id, Arc::clone(&file));
        Ok(Some(file))
    }

    fn create(&self, record: &Record) -> Result<OpenFile, Fault> {
        let path = self.mapped(record.root, &record.path)?;
        self.hold_before_making(record.id, &path)?;
        let temp = TempName::new(self.config.tag, &path);
        let key = PathKey::new(record.root, &record.path);
        let known = lock(&self.partial).remove(&key);
        // Of what was kept nobody may remember that it failed.
        let is_in_journal =
            known.is_some() || record.attempt > 0 || self.has_kept.load(Ordering::Relaxed);
        let held = known.filter(|partial| {
            partial.generation == record.generation.0
                && partial.digest.covered() > 0
                && record.attempt == 0
        });
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        if i64::try_from(record.bytes).is_err() && record.bytes != UNKNOWN_BYTES {
            let message = "no storage holds a file of that size".to_owned();
            return Err(destination_fault(record.id, FaultCode::LIMIT, message));
        }
        let storage = &self.config.storage;
        let made =
            self.within_its_directory(&path, &|| storage.create(&path, &temp, held.is_some()));
        let file = made.map_err(fault)?;
        if held.is_none() {
            // Of no other file: whoever writes into the journal waits for it to be synced, and all streams for whoever opens a file.
            if is_in_journal {
                self.committer.restart(key);
            }
            if record.flags & RecordFlags::DENSE != 0 && record.bytes != UNKNOWN_BYTES {
                file.preallocate(0..record.bytes).map_err(fault)?;
            }
        }
        let digest = held.map_or_else(
            || FileDigest::new(self.config.digest),
            |partial| partial.digest,
        );
        let mut share = self.ranges.share();
        if !share.set(digest.range_count()) {
            return Err(too_scattered(record.id));
        }
        let replace = if lock(&self.replace).contains(&record.id) {
            Replace::Atomically
        } else {
            Replace::Never
        };
        Ok(OpenFile {
            id: record.id,
            root: record.root,
            path,
            temp,
            key,
            generation: record.generation.0,
            bytes: record.bytes.into(),
            attempt: record.attempt,
            replace,
            record: self.to_tell(record),
            file,
            progress: Mutex::new(Progress {
                written: digest.clone(),
                durable: digest,
                share,
                counted: 0,
                end: None,
                meta: FinalMeta::default(),
                over: false,
            }),
        })
    }

    /// Notes what was written, and passes the file on once it is whole.
    pub(super) fn note(
        &self,
        file: &Arc<OpenFile>,
        record: &Record,
        slice: Option<&Slice<'_>>,
        seq: Seq,
        epoch: u64,
    ) -> Result<(), Fault> {
        let mut progress = lock(&file.progress);
        if progress.over {
            self.acks.durable(&[seq]);
            return Ok(());
        }
        let Some(place) = self.committer.place(epoch) else {
            self.acks.resend(&[seq]);
            return Ok(());
        };
        if record.flags & RecordFlags::END != 0
            && let Some(digest) = &record.digest
        {
            progress.meta = self.config.keeper.final_meta(record)?;
            progress.end = Some((entry::digest_to_store(digest), record.data_bytes));
            if i64::try_from(record.bytes).is_err() {
                let message = "no storage holds a file of that size".to_owned();
                return Err(destination_fault(record.id, FaultCode::LIMIT, message));
            }
            file.bytes.store(record.bytes, Ordering::Relaxed);
        }
        let mut range = None;
        if let Some(slice) = slice {
            let (offset, bytes) = (slice.header.offset, u64::from(slice.header.length));
            let digest = entry::digest_to_store(&slice.header.digest);
            match progress.written.add(offset, bytes, digest) {
                Added::New | Added::Duplicate => range = Some((offset, bytes, digest)),
                Added::Overlap | Added::Misfit => {
                    let message = "the slices of one file do not fit together".to_owned();
                    return Err(destination_fault(record.id, FaultCode::IO, message));
                }
            }
            let count = progress.written.range_count();
            if !progress.share.set(count) {
                return Err(too_scattered(record.id));
            }
        }
        let complete = progress
            .end
            .as_ref()
            .is_some_and(|(_, covered)| progress.written.covered() >= *covered);
        progress.over = complete;
        // Under the progress lock: whoever completes the file must come into a batch after all its slices.
        self.committer.add_slice(
            place,
            file,
            range,
            slice.map_or(0, |slice| slice.payload.len() as u64),
            seq,
            complete,
        );
        Ok(())
    }

    /// What is delivered of a file that fails, or begins anew, is content of no file.
    fn abandon(&self, file: &OpenFile) {
        let counted = lock(&file.progress).abandon();
        self.counters.bytes_durable.take_back(counted);
    }

    pub(super) fn give_up(&self, record: &Record, keep: bool) {
        lock(&self.floors).raise(record.id, FLOOR_FAILED);
        self.note_undelivered(record, Undelivered::Failed);
        if let Some(file) = lock(&self.files).remove(&record.id) {
            self.abandon(&file);
        }
        lock(&self.replace).remove(&record.id);
        if let Ok(path) = self.mapped(record.root, &record.path) {
            if keep && !self.comes_once.load(Ordering::Relaxed) {
                self.keep_arrived(&path);
                return;
            }
            self.committer
                .restart(PathKey::new(record.root, &record.path));
            let temp = TempName::new(self.config.tag, &path);
            // What cannot be removed now is swept by the next complete run.
            let _ = self.config.storage.discard(&path, &temp);
        }
    }

    /// What has arrived of a file is for the next run, and the journal goes on vouching for it.
    pub(super) fn keep_arrived(&self, path: &RelPath) {
        self.has_kept.store(true, Ordering::Relaxed);
        self.leftovers.keep(TempName::new(self.config.tag, path));
    }

    /// The source has failed at an entry, and perhaps at all that is in it.
    pub(super) fn note_unseen(&self, record: &Record) {
        if self.resumed {
            let path = self.mapped(record.root, &record.path).unwrap_or_default();
            // A whole source may be away for a while, and what has arrived of it is worth keeping.
            let code = match record.path.is_empty() {
                true => FaultCode::IO,
                false => entry::fault_of(record).code,
            };
            self.leftovers.note_failure(&path, code);
        }
    }

    /// The last step of a finish. Returns what prevents it.
    pub(super) fn close(&self) -> Option<String> {
        for file in lock(&self.files).values() {
            self.leftovers.keep(file.temp);
        }
        // What the journal knows of files that nobody asked for again.
        let rest: Vec<PathKey> = lock(&self.partial).drain().map(|(key, _)| key).collect();
        self.committer
            .close(self.resumed, &self.config, &self.leftovers, &rest)
    }

    /// Writes a small file, in the memory of `path`, and gives it its name where nothing has to come before that.
    pub(super) fn write_small(
        &self,
        record: &Record,
        content: &[u8],
        path: &mut RelPath,
    ) -> Result<SmallFile, Fault> {
        self.map_in(record.root, &record.path, path)?;
        self.hold_before_making(record.id, path)?;
        let temp = TempName::new(self.config.tag, path);
        let meta = self.config.keeper.final_meta(record)?;
        let replace = if lock(&self.replace).contains(&record.id) {
            Replace::Atomically
        } else {
            Replace::Never
        };
        // What is read back first, or waits for others to go, gets its name later.
        let later = self.config.verify || self.deferred.expects(record.id);
        let storage = &self.config.storage;
        let sync = !self.config.no_sync;
        let written = self.within_its_directory(path, &|| {
            if later {
                let lost = storage.write_whole(path, &temp, &meta, content)?;
                return Ok((lost, false));
            }
            storage.write_named(path, &temp, &meta, content, replace, sync)
        });
        let is_named = match written {
            Ok((lost, is_named)) => {
                self.counters.count_lost(lost);
                is_named
            }
            Err(error) => {
                let _ = storage.discard(path, &temp);
                let fault = entry::fault(record.id, Side::DESTINATION, &error);
                return Err(match fault.code {
                    FaultCode::COLLISION => taken(record.id, path),
                    _ => fault,
                });
            }
        };
        Ok(SmallFile {
            id: record.id,
            key: PathKey::new(record.root, &record.path),
            generation: record.generation.0,
            bytes: record.bytes,
            record: self.to_tell(record),
            unnamed: (!is_named).then(|| {
                Box::new(Unnamed {
                    root: record.root,
                    digest: record.digest.as_ref().map(entry::digest_to_store),
                    path: std::mem::take(path),
                    temp,
                    replace,
                })
            }),
        })
    }

    fn to_tell(&self, record: &Record) -> Option<Box<Record>> {
        self.acks.wants_entries().then(|| Box::new(record.clone()))
    }

    /// A file that was large in an earlier attempt comes whole: nothing of the earlier one is taken any more.
    pub(super) fn begin_anew(&self, record: &Record) {
        let mut files = lock(&self.files);
        lock(&self.floors).raise(record.id, record.attempt);
        if let Some(file) = files.remove(&record.id) {
            self.abandon(&file);
        }
    }

    /// Does something in the directory of `path`, and what is needed for that if it cannot be done at once.
    pub(super) fn within_its_directory<T>(
        &self,
        path: &RelPath,
        act: &dyn Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.opening(path, act) {
            // The manifest with its directory may still be on its way, on another stream; or somebody has removed it since.
            Err(error) if error.kind == StoreErrorKind::NotFound => {
                self.make_parents(path)?;
                act()
            }
            Err(error)
                if self.comparison().delete
                    && matches!(
                        error.kind,
                        StoreErrorKind::TypeConflict | StoreErrorKind::Escape
                    ) =>
            {
                self.make_way(path)?;
                act()
            }
            result => result,
        }
    }

    /// Does something in the directory of `path`; if we may not although it is ours, its owner is let in first. Its mode is set in
    /// the end.
    pub(super) fn opening<T>(
        &self,
        path: &RelPath,
        act: &dyn Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match act() {
            Err(error) if error.kind == StoreErrorKind::Permission => {
                let parent = path.parent().unwrap_or_default();
                if !self.sets_mode_of(&parent) {
                    return Err(self.closed(&parent).unwrap_or(error));
                }
                if self.config.storage.open_directory(&parent).is_err() {
                    return Err(error);
                }
                act()
            }
            result => result,
        }
    }

    /// Whether the directory is one of the data set, which gets its mode in the end. What is around it was closed by somebody for a
    /// reason, and would stay open; the storage's own root is nobody's copy.
    pub(super) fn sets_mode_of(&self, directory: &RelPath) -> bool {
        let mut roots = self.config.mapping.iter();
        !directory.is_root() && roots.any(|root| directory.starts_with(root))
    }

    /// What to say of a directory in which its own mode lets nothing be made.
    fn closed(&self, directory: &RelPath) -> Option<StoreError> {
        let there = self.config.storage.stat(directory).ok().flatten()?;
        (there.mode & 0o300 != 0o300).then(|| StoreError {
            operation: "write in the directory (its mode does not allow it, and is not this transfer's to change)",
            path: directory.clone(),
            kind: StoreErrorKind::Permission,
            errno: None,
        })
    }

    pub(super) fn make_parents(&self, path: &RelPath) -> Result<(), StoreError> {
        match path.parent() {
            Some(parent) if !parent.as_bytes().is_empty() => self
                .config
                .storage
                .make_directory(&parent, 0o755)
                .map(|_| ()),
            _ => Ok(()),
        }
    }
}

fn too_scattered(id: EntryId) -> Fault {
    let message = format!(
        "the sender scatters it, and others with it, over more than {} pieces with gaps between; with a larger --block there are fewer",
        limits::FILE_RANGES_MAX
    );
    destination_fault(id, FaultCode::LIMIT, message)
}

#[cfg(test)]
mod tests;
