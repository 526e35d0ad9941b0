//! Writes received data under temporary names, and knows the missing ranges of each unfinished file. Does not compare (`planner`) or
//! commit (`commit`).
//!
//! Lock order: `files`, then `floors` or a file's `progress`, then the committer's locks.

mod create;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use godwit_engine::{SinkFailure, Slice, entry, limits, lock};
use godwit_proto::{EntryId, Fault, FaultCode, Portion, Record, RecordFlags, Seq, Side};
use godwit_store::digest::Added;
use godwit_store::journal::PathKey;
use godwit_store::{RelPath, StoreError};

use crate::files::finish::commit::{Committer, SmallFile, Unnamed};
use crate::files::finish::undelivered::{Undelivered, UndeliveredSet};
use crate::files::member::key_of;
use crate::files::plan::agenda::Agenda;
use crate::files::plan::awaited::Awaited;
use crate::files::plan::directories::Directories;
use crate::files::plan::spelling::taken;
use crate::files::target::{Target, destination_fault};
use crate::files::write::floors::{FLOOR_FAILED, Floors};
use crate::files::write::held::Held;
use crate::files::write::open::{OpenFile, OpenFiles, part_of};
use crate::files::write::ranges::RangeBudget;

/// Writes files and passes them to the committer.
pub(crate) struct Writer {
    pub(crate) target: Arc<Target>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) held: Arc<Held>,
    pub(crate) undelivered: Arc<UndeliveredSet>,
    pub(crate) committer: Arc<Committer>,
    /// Requested entries whose name is already taken.
    pub(crate) replace: Arc<Awaited>,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) ranges: Arc<RangeBudget>,
    /// Lowest valid attempts of failed or restarted entries whose older bytes may still arrive.
    pub(crate) floors: Mutex<Floors>,
}

impl Writer {
    /// Writes a slice: see [`godwit_engine::Sink::write_slice`].
    pub(crate) fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        let seq = slice.header.seq;
        let epoch = self.committer.epoch();
        let mut result = self.open_file(slice.record).and_then(|file| {
            let Some(file) = file else {
                self.target.acks.durable(&[seq]);
                return Ok(());
            };
            let fault =
                |error: StoreError| entry::fault(slice.record.id, Side::DESTINATION, &error);
            if !file.takes(slice.header.offset, u64::from(slice.header.length)) {
                return Err(outside_part(slice.record.id));
            }
            self.target.hold_fence(slice.record.id)?;
            if slice.ranges.is_empty() {
                file.file
                    .write_at(slice.header.offset, slice.payload)
                    .map_err(fault)?;
            } else {
                let mut rest = slice.payload;
                for range in slice.ranges {
                    let (bytes, tail) = rest.split_at(
                        usize::try_from(range.bytes)
                            .unwrap_or(usize::MAX)
                            .min(rest.len()),
                    );
                    file.file
                        .preallocate(range.offset..range.offset + range.bytes)
                        .map_err(fault)?;
                    file.file.write_at(range.offset, bytes).map_err(fault)?;
                    rest = tail;
                }
            }
            if !self.target.config.no_sync {
                // Starts writing to disk now, because a disk that is idle until the batch is synced loses time.
                let begin = slice.header.offset;
                file.file
                    .write_out(begin..begin + u64::from(slice.header.length));
            }
            self.note(&file, slice.record, Some(slice), seq, epoch)
        });
        if let Err(fault) = &mut result {
            fault.entry = slice.record.id;
            self.give_up_by(slice.record, fault.code);
            self.target.acks.durable(&[seq]);
        }
        result
    }

    /// Writes the files of a bundle: see [`godwit_engine::Sink::write_bundle`].
    pub(crate) fn write_bundle(
        &self,
        seq: Seq,
        records: &[Record],
        contents: &[&[u8]],
    ) -> Vec<Fault> {
        let epoch = self.committer.epoch();
        let mut faults = Vec::new();
        let mut files = Vec::with_capacity(records.len());
        let mut bytes = 0;
        let mut noted_ends = 0;
        let mut path = RelPath::root();
        for (record, content) in records.iter().zip(contents) {
            if record.flags & RecordFlags::SOURCE_FAILED != 0 {
                // A source that is unavailable for a whole run may come back; one that was removed during the transfer will not.
                let may_return = record.path.is_empty() && !self.has_gone(record);
                self.note_unseen(record, may_return);
                self.give_up(record, Undelivered::Failed, may_return);
            } else if record.flags & RecordFlags::END != 0 {
                let noted = self.open_file(record).and_then(|file| match file {
                    Some(file) => self.note(&file, record, None, seq, epoch).map(|()| true),
                    None => Ok(false),
                });
                match noted {
                    Ok(noted) => noted_ends += usize::from(noted),
                    Err(mut fault) => {
                        fault.entry = record.id;
                        self.give_up_by(record, fault.code);
                        faults.push(fault);
                    }
                }
            } else if entry::is_whole_file(record) && lock(&self.floors).takes(record) {
                if record.attempt > 0 {
                    self.begin_anew(record);
                }
                match self.write_small(record, content, &mut path) {
                    Ok(Some(file)) => {
                        bytes += content.len() as u64;
                        files.push(file);
                    }
                    Ok(None) => {}
                    Err(mut fault) => {
                        fault.entry = record.id;
                        self.settle(record.id);
                        let why = Undelivered::by(fault.code);
                        self.undelivered.note_record(record, why);
                        faults.push(fault);
                    }
                }
            }
        }
        if noted_ends == 0 || !files.is_empty() {
            self.committer.add_files(files, bytes, seq, epoch);
        }
        faults
    }

    /// The open file of an entry, created when its first bytes arrive. `None` for bytes of an earlier attempt.
    fn open_file(&self, record: &Record) -> Result<Option<Arc<OpenFile>>, Fault> {
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
        let Some(file) = self.create(record)?.map(Arc::new) else {
            return Ok(None);
        };
        files.insert(record.id, Arc::clone(&file));
        Ok(Some(file))
    }

    /// Records the written range, and passes the file on once it is complete.
    fn note(
        &self,
        file: &Arc<OpenFile>,
        record: &Record,
        slice: Option<&Slice<'_>>,
        seq: Seq,
        epoch: u64,
    ) -> Result<(), Fault> {
        let mut progress = lock(&file.progress);
        if progress.over {
            self.target.acks.durable(&[seq]);
            return Ok(());
        }
        let Some(place) = self.committer.place(epoch) else {
            self.target.acks.resend(&[seq]);
            return Ok(());
        };
        if record.flags & RecordFlags::END != 0
            && let Some(digest) = &record.digest
        {
            progress.meta = self.target.config.keeper.final_meta(record)?;
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
        }
        if !file.takes_share(&mut progress) {
            return Err(too_scattered(record.id));
        }
        let complete = progress
            .end
            .as_ref()
            .is_some_and(|(_, covered)| progress.written.covered() >= *covered);
        progress.over = complete;
        // Called under the progress lock: the thread that completes the file must add it to a batch after all its slices.
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

    /// Subtracts the delivered bytes of a file that fails or restarts, because they are no longer content of a file.
    fn abandon(&self, file: &OpenFile) {
        let counted = lock(&file.progress).abandon();
        self.target.counters.bytes_durable.take_back(counted);
    }

    /// Gives a file up; its data is kept only if the cause was lack of space.
    fn give_up_by(&self, record: &Record, code: FaultCode) {
        let why = Undelivered::by(code);
        self.give_up(record, why, why == Undelivered::NoRoom);
    }

    /// The reason why the transfer must end, if the sender leaves too many requested entries unsent.
    pub(crate) fn overrun(&self) -> Option<SinkFailure> {
        let deferred = self.agenda.deferred.files.failure();
        deferred.or_else(|| self.replace.failure())
    }

    /// The entry has failed, and is not awaited any more.
    fn settle(&self, id: EntryId) {
        self.agenda.deferred.files.settle([id]);
        self.replace.settle([id]);
    }

    pub(crate) fn give_up(&self, record: &Record, why: Undelivered, keep: bool) {
        lock(&self.floors).raise(record.id, FLOOR_FAILED);
        self.undelivered.note_record(record, why);
        if let Some(file) = lock(&self.files).remove(&record.id) {
            self.abandon(&file);
        }
        self.settle(record.id);
        let portion = record.portion().unwrap_or(Portion::Whole);
        if portion != Portion::Whole {
            // If others write to the temporary file, their data stays.
            if !keep {
                self.committer.restart(key_of(record, part_of(&portion)));
            }
            return;
        }
        if let Ok(path) = self.target.mapped(record.root, &record.path) {
            let temp = self.target.temp(&path);
            if keep && !self.held.comes_once() {
                self.held.keep(temp);
                return;
            }
            self.committer
                .restart(PathKey::new(record.root, &record.path));
            // The next complete run sweeps a file that cannot be removed now.
            let _ = self.target.config.storage.discard(&path, &temp);
        }
    }

    /// Writes a small file, using the memory of `path`, and names it if nothing has to be done before that. `None` if the transfer ended
    /// during the call: another attempt may have continued without this one, so the file is removed.
    fn write_small(
        &self,
        record: &Record,
        content: &[u8],
        path: &mut RelPath,
    ) -> Result<Option<SmallFile>, Fault> {
        self.target.map_in(record.root, &record.path, path)?;
        self.directories.hold_before_making(record.id, path)?;
        self.target.hold_fence(record.id)?;
        let temp = self.target.temp(path);
        let meta = self.target.config.keeper.final_meta(record)?;
        let replace = self.replace_of(record.id);
        // A file that is read back first, or waits for another entry to be removed, gets its name later.
        let later = self.target.config.verify || self.agenda.deferred.files.contains(record.id);
        let storage = &self.target.config.storage;
        let sync = !self.target.config.no_sync;
        let written = self.directories.within_its_directory(path, &|| {
            if later {
                let lost = storage.write_whole(path, &temp, &meta, content)?;
                return Ok((lost, false));
            }
            storage.write_named(path, &temp, &meta, content, replace, sync)
        });
        let is_late = !matches!(written, Ok((_, true))) && self.target.acks.over.is_set();
        if is_late {
            let _ = storage.discard(path, &temp);
            return Ok(None);
        }
        let is_named = match written {
            Ok((lost, is_named)) => {
                // The claim may have ended during the call. Then its sweep for temporary files is over, too, and does not remove this file.
                if !is_named && let Err(fault) = self.target.hold_fence(record.id) {
                    let _ = storage.discard(path, &temp);
                    return Err(fault);
                }
                self.target.counters.count_lost(lost);
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
        Ok(Some(SmallFile {
            id: record.id,
            key: PathKey::new(record.root, &record.path),
            generation: record.generation.0,
            bytes: record.bytes,
            record: self.to_report(record),
            unnamed: (!is_named).then(|| {
                Box::new(Unnamed {
                    root: record.root,
                    digest: record.digest.as_ref().map(entry::digest_to_store),
                    path: std::mem::take(path),
                    temp,
                    replace,
                })
            }),
        }))
    }

    fn to_report(&self, record: &Record) -> Option<Box<Record>> {
        self.target
            .acks
            .observer
            .wants_entries()
            .then(|| Box::new(record.clone()))
    }

    /// A file that was large in an earlier attempt is now sent as a whole: data of the earlier attempt is no longer accepted.
    fn begin_anew(&self, record: &Record) {
        let mut files = lock(&self.files);
        lock(&self.floors).raise(record.id, record.attempt);
        if let Some(file) = files.remove(&record.id) {
            self.abandon(&file);
        }
    }

    /// Records that the source has failed at an entry, and perhaps at everything below it.
    fn note_unseen(&self, record: &Record, may_return: bool) {
        if self.held.resumed {
            let path = self
                .target
                .mapped(record.root, &record.path)
                .unwrap_or_default();
            // A whole source may be unavailable for a while, and received data is worth keeping.
            let code = match may_return {
                true => FaultCode::IO,
                false => entry::fault_of(record).code,
            };
            self.held.leftovers.note_failure(&path, code);
        }
    }

    /// Whether a file that this run has begun to write no longer exists at the source.
    fn has_gone(&self, record: &Record) -> bool {
        entry::fault_of(record).code == FaultCode::NOT_FOUND
            && lock(&self.files).contains_key(&record.id)
    }

    /// Stops this end with the transfer unfinished. Files that no later run can resume are removed.
    pub(crate) fn suspend(&self) {
        let files = std::mem::take(&mut *lock(&self.files));
        if !self.held.comes_once() {
            return;
        }
        for file in files.values().filter(|file| !file.shared) {
            // The next complete run sweeps a file that cannot be removed now.
            let _ = self.target.config.storage.discard(&file.path, &file.temp);
        }
    }
}

fn too_scattered(id: EntryId) -> Fault {
    let message = format!(
        "the sender scatters this and other files over more than {} pieces with gaps, or gives them too many attributes; a larger --block makes fewer pieces",
        limits::FILE_RANGES_MAX
    );
    destination_fault(id, FaultCode::LIMIT, message)
}

fn outside_part(id: EntryId) -> Fault {
    let message = "the sender sends bytes outside the announced part".to_owned();
    destination_fault(id, FaultCode::IO, message)
}

#[cfg(test)]
mod tests;
