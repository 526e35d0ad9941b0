//! Answers manifests: counts and reports the sink's decision about each entry. Separate threads handle manifests that need digests. Does
//! not decide about entries.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use godwit_proto::{
    Answer, EntryKind, ErrorCode, Judge, Manifest, Record, RecordFlags, UNKNOWN_BYTES, Verdict,
};

use super::answers::{Answers, ManifestTask};
use super::shared::Shared;
use super::writers::scattered;
use crate::acks::Arrival;
use crate::counters::{Counters, CpuMeter};
use crate::{Action, entry, limits, lock};

/// Most threads that hash files at the destination.
const CHECKERS_MAX: usize = 8;

/// Outcome of a manifest.
pub(super) enum Answered {
    /// The frame of the answer was appended.
    Frame,
    /// No answer: the transfer has ended, and the destination may soon belong to another transfer.
    Over,
    /// The numbers of the sender's items violate the protocol.
    Scattered,
}

/// Manifests whose entries are compared by digest, each with the number of its stream.
#[derive(Default)]
struct CheckQueue {
    inner: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u64, Manifest)>,
    /// Memory of the manifests.
    bytes: usize,
    stopping: bool,
    threads: Vec<JoinHandle<()>>,
}

/// Counts of one manifest, collected before they are added to the counters that all streams share.
#[derive(Default)]
struct Tally {
    entries: u64,
    files: u64,
    bytes: u64,
    skipped: u64,
    skipped_bytes: u64,
}

impl Tally {
    fn add_to(&self, counters: &Counters) {
        counters.entries_scanned.add(self.entries);
        counters.files_scanned.add(self.files);
        counters.bytes_scanned.add(self.bytes);
        counters.files_skipped.add(self.skipped);
        counters.bytes_skipped.add(self.skipped_bytes);
    }
}

/// Answers manifests.
pub(super) struct Answerer {
    shared: Arc<Shared>,
    answers: Answers,
    checks: CheckQueue,
    comes_once: AtomicBool,
}

impl Answerer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            answers: Answers::default(),
            checks: CheckQueue::default(),
            comes_once: AtomicBool::new(false),
        }
    }

    /// Whether the data of some file comes from a pipe, so that no later run can send it again.
    pub(super) fn comes_once(&self) -> bool {
        self.comes_once.load(Ordering::Relaxed)
    }

    /// Passes a manifest that needs digests of local files to the hashing threads; returns any other manifest.
    pub(super) fn offer(&self, stream: u64, manifest: Manifest) -> Option<Manifest> {
        self.checks.offer(stream, manifest)
    }

    /// Appends the answer to `out`, or repeats the earlier answer to the same manifest.
    pub(super) fn answer_to(&self, manifest: &Manifest, out: &mut Vec<u8>) -> Answered {
        let planning = match self.answers.begin(manifest.seq.0) {
            ManifestTask::AnswerAgain(frame) => {
                out.extend_from_slice(&frame);
                return Answered::Frame;
            }
            ManifestTask::Plan(planning) => planning,
        };
        let first = match self.shared.acks.arrive_manifest(manifest.seq) {
            Arrival::Process => true,
            Arrival::Known => false,
            Arrival::Scattered => return Answered::Scattered,
        };
        let Some(_busy) = self.shared.begin_write() else {
            return Answered::Over;
        };
        if manifest
            .records
            .iter()
            .any(|record| record.bytes == UNKNOWN_BYTES)
        {
            self.comes_once.store(true, Ordering::Relaxed);
        }
        let start = Instant::now();
        let verdicts = self
            .shared
            .counters
            .storage_writing_ns
            .time(|| self.shared.sink.plan(&manifest.records));
        // If the sink failed, its entries are not reported one by one.
        if let Some(failure) = self.shared.sink.failure() {
            self.shared.fail(failure.code(), &failure.to_string());
            return Answered::Over;
        }
        if first {
            let mut tally = Tally::default();
            for (record, verdict) in manifest.records.iter().zip(&verdicts) {
                self.count(record, verdict, &mut tally);
                if self.shared.config.itemise
                    && let Some(action) = Action::of(record, verdict)
                {
                    self.shared
                        .config
                        .observer
                        .item(&entry::item(record, action));
                }
            }
            tally.add_to(&self.shared.counters);
        }
        self.shared.counters.writing_ns.add_since(start);
        self.encode_answer(manifest, verdicts, out);
        planning.answered(out);
        Answered::Frame
    }

    fn encode_answer(&self, manifest: &Manifest, verdicts: Vec<Verdict>, out: &mut Vec<u8>) {
        let mut answer = Answer {
            transfer: self.shared.config.transfer,
            seq: manifest.seq,
            verdicts,
        };
        if answer.encode(out).is_err() {
            // Files whose held ranges do not fit into one answer are sent whole; redundant data does no harm.
            for verdict in &mut answer.verdicts {
                if matches!(verdict, Verdict::Partial { .. }) {
                    *verdict = Verdict::Send;
                }
            }
            self.shared.encoded(answer.encode(out));
        }
    }

    fn count(&self, record: &Record, verdict: &Verdict, tally: &mut Tally) {
        if record.flags & RecordFlags::PASSED_OVER != 0 {
            tally.entries += 1;
            return;
        }
        let done = matches!(verdict, Verdict::Skip | Verdict::Done | Verdict::Adjusted);
        if done && self.shared.config.observer.wants_entries() {
            self.shared.config.observer.entry_done(record);
        }
        // The entry arrives again with its digest, and is counted then.
        if *verdict != Verdict::Digest {
            tally.entries += 1;
            tally.files += u64::from(record.kind != EntryKind::DIRECTORY);
            tally.bytes += entry::known_bytes(record);
        }
        match verdict {
            Verdict::Skip if record.kind != EntryKind::DIRECTORY => {
                tally.skipped += 1;
                tally.skipped_bytes += entry::known_bytes(record);
            }
            Verdict::Send | Verdict::Partial { .. } if self.is_dry() => {
                self.shared.counters.files_done.add(1);
                self.shared
                    .counters
                    .bytes_durable
                    .add(entry::known_bytes(record));
            }
            Verdict::Failed(fault) if self.shared.acks.count_failure(record.id) => {
                self.shared
                    .config
                    .observer
                    .entry_failed(&crate::FailedEntry {
                        root: Some(record.root),
                        path: &record.path,
                        shown: &self.shared.sink.display_path(record.root, &record.path),
                        fault,
                    });
            }
            _ => {}
        }
    }

    fn is_dry(&self) -> bool {
        self.shared
            .config
            .comparison
            .is_some_and(|comparison| comparison.dry_run)
    }

    /// Starts the hashing threads, if the comparison is by digest.
    pub(super) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let judge = self.shared.config.comparison.unwrap_or_default().judge();
        if judge != Judge::CHECKSUM {
            return Ok(());
        }
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        for index in 0..count.min(CHECKERS_MAX) {
            let checker = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name(format!("gw-check-{index}"))
                .spawn(move || checker.check_jobs())?;
            lock(&self.checks.inner).threads.push(thread);
        }
        Ok(())
    }

    fn check_jobs(&self) {
        let _panic = self.shared.if_panicking();
        let mut meter = CpuMeter::default();
        while let Some((stream, manifest)) = self.checks.next() {
            let mut answer = Vec::new();
            match self.answer_to(&manifest, &mut answer) {
                Answered::Frame => self.shared.acks.answer(stream, answer),
                Answered::Over => {}
                Answered::Scattered => self.shared.fail(
                    ErrorCode::PROTOCOL,
                    &format!("the sender broke the protocol: {}", scattered()),
                ),
            }
            meter.settle(&self.shared.counters);
        }
    }

    /// Stops the threads, and waits for them.
    pub(super) fn stop(&self) {
        let threads = {
            let mut queue = lock(&self.checks.inner);
            queue.stopping = true;
            queue.jobs.clear();
            queue.bytes = 0;
            std::mem::take(&mut queue.threads)
        };
        self.checks.changed.notify_all();
        for thread in threads {
            // A thread's panic was already printed, and has ended the transfer.
            let _ = thread.join();
        }
    }
}

impl CheckQueue {
    /// Takes a manifest that needs digests of local files, or returns it.
    fn offer(&self, stream: u64, manifest: Manifest) -> Option<Manifest> {
        if manifest
            .records
            .iter()
            .all(|record| record.digest.is_none())
        {
            return Some(manifest);
        }
        let bytes = memory_of(&manifest);
        let mut queue = lock(&self.inner);
        if queue.threads.is_empty()
            || queue.jobs.len() >= limits::CHECKS_WAITING_MAX
            || queue.bytes + bytes > limits::CHECKS_WAITING_BYTES_MAX
        {
            return Some(manifest);
        }
        queue.bytes += bytes;
        queue.jobs.push_back((stream, manifest));
        drop(queue);
        self.changed.notify_one();
        None
    }

    fn next(&self) -> Option<(u64, Manifest)> {
        let mut queue = lock(&self.inner);
        loop {
            if queue.stopping {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                queue.bytes -= memory_of(&job.1);
                return Some(job);
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

fn memory_of(manifest: &Manifest) -> usize {
    manifest.records.iter().map(Record::memory).sum()
}

#[cfg(test)]
mod tests {
    use godwit_proto::Digest;

    use super::*;

    /// A sender may announce far more than a correct one, with long names.
    #[test]
    fn manifests_that_wait_take_bounded_memory() {
        let checks = CheckQueue::default();
        let thread = std::thread::spawn(|| {});
        lock(&checks.inner).threads.push(thread);
        let offer = || {
            let record = Record {
                path: vec![b'x'; limits::CHECKS_WAITING_BYTES_MAX / 10],
                digest: Some(Digest([0; 32])),
                ..Record::default()
            };
            let manifest = Manifest {
                records: vec![record],
                ..Manifest::default()
            };
            checks.offer(1, manifest).is_none()
        };
        let taken = |count: usize| (0..count).filter(|_| offer()).count();
        assert_eq!(taken(20), 9);
        assert!(checks.next().is_some());
        assert_eq!(taken(20), 1);
    }
}
