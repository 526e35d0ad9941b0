//! Makes written data durable and final, batch by batch: sync, check, rename, sync directories, journal, acknowledge. Does
//! not write contents; a batch fills while the previous one is synced.

mod batch;
mod closing;
mod filling;
mod naming;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use godwit_engine::counters::CpuMeter;
use godwit_engine::{IfPanicking, lock};
use godwit_proto::{EntryId, Record, Seq};
use godwit_store::digest::{self, FileDigest};
use godwit_store::journal::{DoneRecord, Journal, JournalError, PathKey, RangeRecord};
use godwit_store::{RelPath, StoreError, TempName};

use self::batch::Range;
pub(crate) use self::batch::{SmallFile, Unnamed};
use self::filling::{Filling, State};
use self::naming::{Ancestors, Checked, Naming};
use super::undelivered::UndeliveredSet;
use crate::files::error::CommitError;
use crate::files::plan::{agenda::Agenda, awaited::Awaited};
use crate::files::target::Target;
use crate::files::write::open::{OpenFile, OpenFiles};

/// A sync that fails this many times in a row ends the transfer: the storage is broken.
const SYNC_FAILURES_MAX: u32 = 3;

/// Most content bytes that arrive between two progress marks in the journal.
const MARK_BYTES: u64 = 4 << 20;

/// Makes batches durable on its own thread.
pub(crate) struct Committer {
    target: Arc<Target>,
    naming: Naming,
    files: Arc<OpenFiles>,
    replace: Arc<Awaited>,
    /// Changes when a sync failed: whatever was written under an earlier one is not to be trusted.
    epoch: AtomicU64,
    pub(crate) journal: Mutex<Option<Journal>>,
    received: AtomicU64,
    received_marked: AtomicU64,
    pub(crate) filling: Filling,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Keeps the batch that fills from being taken or lost until something was added to it.
pub(crate) struct BatchHold<'a>(MutexGuard<'a, State>);

#[derive(Default)]
struct Batch {
    seqs: Vec<Seq>,
    small: Vec<(Seq, SmallFile)>,
    ranges: Vec<Range>,
    complete: Vec<(Seq, Arc<OpenFile>)>,
    bytes: u64,
    /// Bytes of the paths of small files, and of their records.
    held_bytes: u64,
    began: Option<Instant>,
}

/// The parts that a committer shares with the rest of a sink.
pub(crate) struct CommitterParts {
    pub(crate) target: Arc<Target>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) replace: Arc<Awaited>,
    pub(crate) undelivered: Arc<UndeliveredSet>,
}

impl Committer {
    pub(crate) fn start(
        parts: CommitterParts,
        journal: Option<Journal>,
        received: u64,
    ) -> std::io::Result<Arc<Self>> {
        let naming = Naming {
            target: Arc::clone(&parts.target),
            agenda: parts.agenda,
            undelivered: parts.undelivered,
        };
        let committer = Arc::new(Self {
            target: parts.target,
            naming,
            files: parts.files,
            replace: parts.replace,
            epoch: AtomicU64::new(0),
            journal: Mutex::new(journal),
            received: AtomicU64::new(received),
            received_marked: AtomicU64::new(received),
            filling: Filling::default(),
            thread: Mutex::default(),
        });
        let own = Arc::clone(&committer);
        let thread = std::thread::Builder::new()
            .name("gw-commit".to_owned())
            .spawn(move || own.run())?;
        *lock(&committer.thread) = Some(thread);
        Ok(committer)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub(crate) fn is_epoch(&self, epoch: u64) -> bool {
        self.epoch() == epoch
    }

    /// A place in the current batch, for data written in `epoch`; `None` if a sync has failed since.
    pub(crate) fn place(&self, epoch: u64) -> Option<BatchHold<'_>> {
        let state = lock(&self.filling.state);
        self.is_epoch(epoch).then_some(BatchHold(state))
    }

    /// Adds a written slice, or a file that is complete without a new slice.
    pub(crate) fn add_slice(
        &self,
        place: BatchHold<'_>,
        file: &Arc<OpenFile>,
        range: Option<(u64, u64, digest::Digest)>,
        content: u64,
        seq: Seq,
        complete: bool,
    ) {
        let BatchHold(mut state) = place;
        state.batch.seqs.push(seq);
        if let Some((offset, bytes, digest)) = range {
            state.batch.ranges.push(Range {
                file: Arc::clone(file),
                offset,
                bytes,
                digest,
                content,
            });
        }
        if complete {
            state.batch.complete.push((seq, Arc::clone(file)));
        }
        self.filling.added(&mut state, content);
        drop(state);
        self.mark(content);
    }

    /// Adds the written files of a bundle.
    pub(crate) fn add_files(&self, files: Vec<SmallFile>, content: u64, seq: Seq, epoch: u64) {
        let mut state = lock(&self.filling.state);
        if !self.is_epoch(epoch) {
            drop(state);
            self.expect_again(files.iter());
            self.target.acks.resend(&[seq]);
            return;
        }
        state.batch.seqs.push(seq);
        state.batch.add_small(seq, files);
        self.filling.added(&mut state, content);
        drop(state);
        self.mark(content);
    }

    /// Notes in the journal how much has arrived, so that a later run can report the loss of a crash. Vouches for nothing.
    fn mark(&self, content: u64) {
        let received = self.received.fetch_add(content, Ordering::Relaxed) + content;
        if received < self.received_marked.load(Ordering::Relaxed) + MARK_BYTES {
            return;
        }
        if let Ok(mut journal) = self.journal.try_lock() {
            self.received_marked.store(received, Ordering::Relaxed);
            if let Some(journal) = journal.as_mut() {
                // A failure affects only a report of a later run.
                let _ = journal.append_received(received);
            }
        }
    }

    /// Cancels the journal's records of an unfinished file.
    pub(crate) fn restart(&self, key: PathKey) {
        if let Some(journal) = lock(&self.journal).as_mut()
            && let Err(error) = journal.append_restart(key)
        {
            self.fail(CommitError::Journal(Arc::new(error)));
        }
    }

    fn run(&self) {
        let _panic = IfPanicking(|| self.fail(CommitError::Panicked));
        let mut meter = CpuMeter::default();
        let mut failures = 0;
        while let Some(batch) = self.filling.next_batch() {
            let start = Instant::now();
            let synced = self.process(batch);
            self.target.counters.syncing_ns.add_since(start);
            meter.settle(&self.target.counters);
            failures = if synced { 0 } else { failures + 1 };
            let mut state = lock(&self.filling.state);
            state.syncing = false;
            state.syncing_bytes = 0;
            state.syncing_entries = 0;
            if failures >= SYNC_FAILURES_MAX && state.failure.is_none() {
                state.failure = Some(CommitError::Sync);
            }
            let wake = std::mem::take(&mut state.had_no_room);
            drop(state);
            self.filling.changed.notify_all();
            if wake {
                self.target.acks.wake_all();
            }
        }
    }

    /// False if the storage could not be synced; then the batch counts as unwritten.
    fn process(&self, mut batch: Batch) -> bool {
        if self.is_fenced(&batch) {
            return true;
        }
        let stop = || self.filling.is_stopping();
        let mut rejected: HashSet<EntryId> = HashSet::new();
        batch.complete.retain(|(seq, file)| {
            let checked = self.naming.finalise(*seq, file, &stop);
            if checked == Checked::Restart {
                self.restart(file.key);
            }
            let good = checked == Checked::Good;
            if !good {
                lock(&self.files).remove(&file.id);
                rejected.insert(file.id);
            }
            good
        });
        self.settle(rejected.iter().copied());
        // These files have no data left to sync.
        batch
            .ranges
            .retain(|range| !rejected.contains(&range.file.id));
        if !self.target.config.no_sync
            && let Err(error) = self.sync(&batch)
        {
            self.lose(batch, &error);
            return false;
        }
        // The sync may have taken long.
        if self.is_fenced(&batch) {
            return true;
        }
        self.naming.count(&batch);
        let mut directories = Ancestors::default();
        let mut done = Vec::with_capacity(batch.small.len() + batch.complete.len());
        let mut finished: Vec<Record> = Vec::new();
        for (seq, file) in &batch.small {
            if self.naming.commit_small(*seq, file, &stop) {
                finished.extend(file.record.as_deref().cloned());
                // A file that already has its name is in a place where names cannot be, or need not be, made durable.
                if let Some(unnamed) = &file.unnamed {
                    directories.add_of(&unnamed.path);
                }
                done.push(DoneRecord {
                    key: file.key,
                    generation: file.generation,
                    bytes: file.bytes,
                });
            }
        }
        for (seq, file) in &batch.complete {
            match self.naming.commit_large(*seq, file, &stop) {
                Checked::Good => {
                    finished.extend(file.finished_record());
                    directories.add_of(&file.path);
                    done.extend(file.done_record());
                }
                Checked::Left => {}
                Checked::Restart => self.restart(file.key),
            }
        }
        if self.is_fenced(&batch) {
            return true;
        }
        if !self.target.config.no_sync
            && let Err(error) = self
                .target
                .config
                .storage
                .sync_directories(&directories.into_paths())
        {
            self.fail(CommitError::Names(error));
            return true;
        }
        if let Err(error) = self.record(&batch, &done) {
            self.fail(CommitError::Journal(Arc::new(error)));
            return true;
        }
        done.iter()
            .for_each(|it| self.naming.undelivered.prove(|| it.key));
        let mut files = lock(&self.files);
        for (_, file) in &batch.complete {
            files.remove(&file.id);
        }
        drop(files);
        self.settle(batch.small.iter().map(|(_, file)| file.id));
        self.settle(batch.complete.iter().map(|(_, file)| file.id));
        self.target.counters.files_done.add(done.len() as u64);
        for record in &finished {
            self.target.acks.observer.entry_done(record);
        }
        self.target.acks.durable(&batch.seqs);
        true
    }

    /// These entries have their names, wait for the end, or have failed.
    fn settle(&self, ids: impl Iterator<Item = EntryId> + Clone) {
        self.naming.agenda.deferred.files.settle(ids.clone());
        self.replace.settle(ids);
    }

    /// Whether the claim of this member has ended: then this end fails.
    fn is_fenced(&self, batch: &Batch) -> bool {
        let fenced = self.naming.is_fenced(batch);
        if fenced {
            self.fail(CommitError::Fenced);
        }
        fenced
    }

    fn sync(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut seen = HashSet::new();
        let mut files: Vec<(&RelPath, TempName)> = batch
            .small
            .iter()
            .filter_map(|(_, file)| file.unnamed.as_deref())
            .map(|unnamed| (&unnamed.path, unnamed.temp))
            .collect();
        let large = batch
            .ranges
            .iter()
            .map(|range| &range.file)
            .chain(batch.complete.iter().map(|(_, file)| file));
        for file in large {
            if seen.insert(file.id) && !self.is_stale(file) {
                files.push((&file.path, file.temp));
            }
        }
        match files.is_empty() {
            true => Ok(()),
            false => self.target.config.storage.sync_batch(&files, batch.bytes),
        }
    }

    /// Whether the file was restarted or given up while its slices waited here; its temporary name may be gone.
    fn is_stale(&self, file: &OpenFile) -> bool {
        lock(&file.progress).is_stale()
    }

    fn record(&self, batch: &Batch, done: &[DoneRecord]) -> Result<(), JournalError> {
        // A part gets no `done` record: the journal knows it by its ranges.
        let done_files = batch
            .complete
            .iter()
            .filter(|(_, file)| file.part.is_none());
        let finished: HashSet<EntryId> = done_files.map(|(_, file)| file.id).collect();
        let mut ranges = Vec::with_capacity(batch.ranges.len());
        for range in &batch.ranges {
            let file = &range.file;
            if finished.contains(&file.id) || self.is_stale(file) {
                continue;
            }
            let mut progress = lock(&file.progress);
            progress
                .durable
                .add(range.offset, range.bytes, range.digest);
            drop(progress);
            if !file.file.lasts() {
                continue;
            }
            ranges.push(RangeRecord {
                key: file.key,
                generation: file.generation,
                offset: range.offset,
                bytes: range.bytes,
                digest: range.digest,
            });
        }
        let mut journal = lock(&self.journal);
        let Some(journal) = journal.as_mut() else {
            return Ok(());
        };
        journal.append_ranges(&ranges)?;
        journal.append_done(done)?;
        if self.target.config.no_sync {
            Ok(())
        } else {
            journal.sync()
        }
    }

    /// A failed sync does not identify files: the batch, and data written during the sync, are requested again.
    fn lose(&self, batch: Batch, error: &StoreError) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let second = std::mem::take(&mut lock(&self.filling.state).batch);
        let note = format!(
            "a batch of {} could not be synced and is sent again: {error}",
            batch.seqs.len() + second.seqs.len()
        );
        self.target.acks.observer.note(&note);
        for batch in [batch, second] {
            let files = batch
                .ranges
                .iter()
                .map(|range| &range.file)
                .chain(batch.complete.iter().map(|(_, file)| file));
            for file in files {
                self.forget_undurable(file);
            }
            self.expect_again(batch.small.iter().map(|(_, file)| file));
            self.target.acks.resend(&batch.seqs);
        }
    }

    /// These files are sent again although this transfer has already named them, so existing entries of these names are expected.
    fn expect_again<'a>(&self, files: impl Iterator<Item = &'a SmallFile>) {
        let named = files.filter(|file| file.unnamed.is_none());
        self.replace.expect_again(named.map(|file| file.id));
    }

    /// Resets progress to the durable data and the data written since the failure.
    fn forget_undurable(&self, file: &Arc<OpenFile>) {
        let mut progress = lock(&file.progress);
        let mut written: FileDigest = progress.durable.clone();
        let state = lock(&self.filling.state);
        for range in &state.batch.ranges {
            if Arc::ptr_eq(&range.file, file) {
                written.add(range.offset, range.bytes, range.digest);
            }
        }
        progress.written = written;
        progress.over = false;
    }

    fn fail(&self, error: CommitError) {
        let mut state = lock(&self.filling.state);
        state.failure.get_or_insert(error);
        drop(state);
        self.filling.changed.notify_all();
        self.target.acks.wake_all();
    }
}
