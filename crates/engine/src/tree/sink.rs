//! Writes what arrives under temporary names, and remembers what each file still lacks.
//! Does not compare (`plan`) and does not make anything durable or final (`commit`).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use godwit_proto::{EntryId, Fault, FaultCode, Record, RecordFlags, Seq, Side, Verdict};
use godwit_store::digest::{self, Added, FileDigest};
use godwit_store::journal::{DoneSet, Journal, Partial, PathKey, Recovered};
use godwit_store::{
    FinalMeta, RelPath, Replace, Storage, StoreError, StoreErrorKind, TempName, WriteFile,
};

use super::commit::Committer;
use super::floors::{FLOOR_FAILED, Floors};
use super::later::Later;
use crate::sink::{FinishReport, Sink, Slice};
use crate::{Acks, Counters, entry, limits, lock};

/// What a tree sink is told at its beginning.
pub struct TreeSinkConfig {
    /// Where the files go.
    pub storage: Arc<dyn Storage>,
    /// For each root of the source, its name in the storage.
    pub mapping: Vec<RelPath>,
    /// Marks the temporary names of this transfer.
    pub tag: u64,
    /// Digest of blocks and files.
    pub digest: digest::DigestKind,
    /// Send entries even if size and time match.
    pub force: bool,
    /// Read every file back before it gets its name.
    pub verify: bool,
    /// Do not wait for storage: what was delivered may not survive a power cut.
    pub no_sync: bool,
    /// Where what does not fit in memory is kept.
    pub spill_directory: PathBuf,
    /// How the destination is called in messages.
    pub display: Vec<u8>,
}

/// A tree of files as a destination.
pub struct TreeSink {
    pub(super) config: TreeSinkConfig,
    pub(super) acks: Arc<Acks>,
    pub(super) counters: Arc<Counters>,
    pub(super) done: DoneSet,
    pub(super) partial: Mutex<HashMap<PathKey, Partial>>,
    resumed: bool,
    /// Directories that this transfer made: nothing in them needs to be looked at.
    pub(super) fresh: Mutex<HashSet<RelPath>>,
    /// Wanted entries whose name is taken already.
    pub(super) replace: Arc<Mutex<HashSet<EntryId>>>,
    /// What may still come of entries that failed or were begun anew.
    floors: Mutex<Floors>,
    files: Arc<OpenFiles>,
    pub(super) committer: Arc<Committer>,
    pub(super) links: Mutex<Later>,
    pub(super) directories: Mutex<Later>,
}

/// Large files that are not durable as a whole yet.
pub(super) type OpenFiles = Mutex<HashMap<EntryId, Arc<OpenFile>>>;

/// A large file that is not complete yet.
pub(super) struct OpenFile {
    pub(super) id: EntryId,
    pub(super) path: RelPath,
    pub(super) temp: TempName,
    pub(super) key: PathKey,
    pub(super) generation: u64,
    pub(super) bytes: u64,
    pub(super) attempt: u16,
    pub(super) replace: Replace,
    pub(super) meta: FinalMeta,
    pub(super) file: Box<dyn WriteFile>,
    /// Held while writing: the kernel lets one thread write into a file at a time and has the others spin for it.
    turn: Mutex<()>,
    pub(super) progress: Mutex<Progress>,
}

impl OpenFile {
    fn is_of(&self, record: &Record) -> bool {
        self.generation == record.generation.0
            && self.bytes == record.bytes
            && self.key == PathKey::new(record.root, &record.path)
    }
}

pub(super) struct Progress {
    pub(super) written: FileDigest,
    pub(super) durable: FileDigest,
    /// Digest of the whole, and how much of the file its slices cover.
    pub(super) end: Option<(digest::Digest, u64)>,
    pub(super) over: bool,
}

impl TreeSink {
    /// Starts the thread that makes things durable.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        config: TreeSinkConfig,
        journal: Journal,
        recovered: Recovered,
        acks: Arc<Acks>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Arc<Self>> {
        let files = Arc::new(OpenFiles::default());
        let replace = Arc::default();
        let committer = Committer::start(
            &config,
            journal,
            recovered.vouched_bytes,
            &acks,
            &counters,
            &files,
            &replace,
        )?;
        Ok(Arc::new(Self {
            links: Mutex::new(Later::new(&config.spill_directory)),
            directories: Mutex::new(Later::new(&config.spill_directory)),
            config,
            acks,
            counters,
            done: recovered.done,
            partial: Mutex::new(recovered.partial),
            resumed: recovered.resumed,
            fresh: Mutex::default(),
            replace,
            floors: Mutex::default(),
            files,
            committer,
        }))
    }

    pub(super) fn mapped(&self, root: u16, path: &[u8]) -> Result<RelPath, Fault> {
        let name =
            |message: &str| destination_fault(EntryId(0), FaultCode::NAME, message.to_owned());
        let prefix = self
            .config
            .mapping
            .get(usize::from(root))
            .ok_or_else(|| name("an entry of a root that was never named"))?;
        if path.is_empty() {
            return Ok(prefix.clone());
        }
        prefix
            .join(path)
            .map_err(|_error| name("the name is not allowed, or too long, at the destination"))
    }

    /// The open file of an entry, made when its first bytes come. `None` for bytes of an earlier attempt.
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
                    lock(&file.progress).over = true;
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
        let temp = TempName::new(self.config.tag, &path);
        let key = PathKey::new(record.root, &record.path);
        let held = lock(&self.partial)
            .remove(&key)
            .filter(|partial| partial.generation == record.generation.0 && record.attempt == 0);
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        if i64::try_from(record.bytes).is_err() {
            let message = "no storage holds a file of that size".to_owned();
            return Err(destination_fault(record.id, FaultCode::LIMIT, message));
        }
        let storage = &self.config.storage;
        let mut made = storage.create(&path, &temp, held.is_some());
        if matches!(&made, Err(error) if error.kind == StoreErrorKind::NotFound) {
            // The manifest with its directory may still be on its way, on another stream.
            self.make_parents(&path).map_err(fault)?;
            made = storage.create(&path, &temp, held.is_some());
        }
        let file = made.map_err(fault)?;
        if held.is_none() {
            self.committer.restart(key);
            if record.flags & RecordFlags::DENSE != 0 {
                file.preallocate(0..record.bytes).map_err(fault)?;
            }
        }
        let digest = held.map_or_else(
            || FileDigest::new(self.config.digest),
            |partial| partial.digest,
        );
        let replace = if lock(&self.replace).contains(&record.id) {
            Replace::Atomically
        } else {
            Replace::Never
        };
        Ok(OpenFile {
            id: record.id,
            path,
            temp,
            key,
            generation: record.generation.0,
            bytes: record.bytes,
            attempt: record.attempt,
            replace,
            meta: entry::final_meta(record),
            file,
            turn: Mutex::default(),
            progress: Mutex::new(Progress {
                written: digest.clone(),
                durable: digest,
                end: None,
                over: false,
            }),
        })
    }

    /// Notes what was written, and passes the file on once it is whole.
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
            progress.end = Some((entry::digest_to_store(digest), record.data_bytes));
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

    fn give_up(&self, record: &Record, keep: bool) {
        lock(&self.floors).raise(record.id, FLOOR_FAILED);
        if let Some(file) = lock(&self.files).remove(&record.id) {
            lock(&file.progress).over = true;
        }
        lock(&self.replace).remove(&record.id);
        if keep {
            return;
        }
        if let Ok(path) = self.mapped(record.root, &record.path) {
            self.committer
                .restart(PathKey::new(record.root, &record.path));
            let temp = TempName::new(self.config.tag, &path);
            // What cannot be removed now is swept by the next complete run.
            let _ = self.config.storage.discard(&path, &temp);
        }
    }

    fn write_small(
        &self,
        record: &Record,
        content: &[u8],
    ) -> Result<super::commit::SmallFile, Fault> {
        let path = self.mapped(record.root, &record.path)?;
        let temp = TempName::new(self.config.tag, &path);
        let meta = entry::final_meta(record);
        let storage = &self.config.storage;
        let mut result = storage.write_whole(&path, &temp, &meta, content);
        if matches!(&result, Err(error) if error.kind == StoreErrorKind::NotFound) {
            // Its directory was made when it was announced, and somebody has removed it since.
            self.make_parents(&path)
                .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))?;
            result = storage.write_whole(&path, &temp, &meta, content);
        }
        if let Err(error) = result {
            let _ = storage.discard(&path, &temp);
            return Err(entry::fault(record.id, Side::DESTINATION, &error));
        }
        let replace = if lock(&self.replace).contains(&record.id) {
            Replace::Atomically
        } else {
            Replace::Never
        };
        Ok(super::commit::SmallFile {
            id: record.id,
            key: PathKey::new(record.root, &record.path),
            generation: record.generation.0,
            bytes: record.bytes,
            digest: record.digest.as_ref().map(entry::digest_to_store),
            path,
            temp,
            replace,
        })
    }

    /// A file that was large in an earlier attempt comes whole: nothing of the earlier one is taken any more.
    fn begin_anew(&self, record: &Record) {
        let mut files = lock(&self.files);
        lock(&self.floors).raise(record.id, record.attempt);
        if let Some(file) = files.remove(&record.id) {
            lock(&file.progress).over = true;
        }
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

impl Sink for TreeSink {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        records.iter().map(|record| self.plan_one(record)).collect()
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        let seq = slice.header.seq;
        let epoch = self.committer.epoch();
        let result = self.open_file(slice.record).and_then(|file| {
            let Some(file) = file else {
                self.acks.durable(&[seq]);
                return Ok(());
            };
            let fault =
                |error: StoreError| entry::fault(slice.record.id, Side::DESTINATION, &error);
            let turn = lock(&file.turn);
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
            drop(turn);
            self.note(&file, slice.record, Some(slice), seq, epoch)
        });
        if let Err(fault) = &result {
            // What did arrive of it is worth keeping if only room was lacking.
            self.give_up(slice.record, fault.code == FaultCode::NO_SPACE);
            self.acks.durable(&[seq]);
        }
        result
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        let epoch = self.committer.epoch();
        let mut faults = Vec::new();
        let mut files = Vec::with_capacity(records.len());
        let mut bytes = 0;
        let mut noted_ends = 0;
        for (record, content) in records.iter().zip(contents) {
            if record.flags & RecordFlags::SOURCE_FAILED != 0 {
                self.give_up(record, false);
            } else if record.flags & RecordFlags::END != 0 {
                let noted = self.open_file(record).and_then(|file| match file {
                    Some(file) => self.note(&file, record, None, seq, epoch).map(|()| true),
                    None => Ok(false),
                });
                match noted {
                    Ok(noted) => noted_ends += usize::from(noted),
                    Err(fault) => {
                        self.give_up(record, fault.code == FaultCode::NO_SPACE);
                        faults.push(fault);
                    }
                }
            } else if entry::is_whole_file(record) && lock(&self.floors).takes(record) {
                if record.attempt > 0 {
                    self.begin_anew(record);
                }
                match self.write_small(record, content) {
                    Ok(file) => {
                        bytes += content.len() as u64;
                        files.push(file);
                    }
                    Err(mut fault) => {
                        fault.entry = record.id;
                        lock(&self.replace).remove(&record.id);
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

    fn has_room(&self) -> bool {
        self.committer.has_room()
    }

    fn hurry(&self) {
        self.committer.hurry();
    }

    fn failure(&self) -> Option<String> {
        self.committer.failure()
    }

    fn finish(&self) -> FinishReport {
        let failure = self.committer.flush();
        if let Some(message) = failure {
            return FinishReport {
                failure: Some(message),
                ..FinishReport::default()
            };
        }
        self.make_links();
        let failure = self.set_directories();
        if failure.is_some() {
            return FinishReport {
                failure,
                ..FinishReport::default()
            };
        }
        let failure = self.committer.close(self.resumed, &self.config);
        FinishReport {
            synced: !self.config.no_sync,
            failure,
        }
    }

    fn suspend(&self) {
        self.committer.stop();
    }

    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let mut name = self.config.display.clone();
        if let Ok(mapped) = self.mapped(root, path) {
            if !name.is_empty() && !name.ends_with(b"/") {
                name.push(b'/');
            }
            name.extend_from_slice(mapped.as_bytes());
        }
        name
    }
}

pub(super) fn destination_fault(entry: EntryId, code: FaultCode, message: String) -> Fault {
    Fault {
        entry,
        side: Side::DESTINATION,
        code,
        errno: None,
        message,
    }
}
