//! Reads entries of trees on many threads, computes their digests and compares them with the expectations. Does not know where
//! the expectations come from, nor how the results are used.
//!
//! It serves manifests (digests of skipped entries), `verify` on this machine, and `verify` at a daemon. A daemon receives
//! expectations in MANIFEST frames and sends only differences.

mod entry;
mod extra;
mod large;
mod synced;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use godwit_engine::counters::CpuMeter;
use godwit_engine::session::Examiner;
use godwit_engine::{Counters, IfPanicking, limits, lock};
use godwit_proto::{Fault, Record, Verdict};
use godwit_store::digest::{Digest, DigestKind};

pub use self::extra::{Expected, ExtraError};
use self::large::LargeFile;
use self::synced::{Batch, Held};
use crate::TreeRoot;

/// Unit of reading: a power of two, so that BLAKE3's tree can be combined, and small enough for a core's own cache.
const CHUNK_BYTES: usize = 512 << 10;

/// Most batches that are being checked or wait for a check.
pub const BATCHES_MAX: usize = 64;

/// Memory of these batches, beside the last one: 512 bytes for each entry of full manifests. A peer may send entries with long names.
const BATCHES_BYTES_MAX: usize = BATCHES_MAX * limits::MANIFEST_RECORDS * 512;

/// Configuration of a verifier.
pub struct VerifierConfig {
    /// Roots in the order of their numbers in records.
    pub roots: Vec<TreeRoot>,
    /// Digest of the files.
    pub digest: DigestKind,
    /// Only types, sizes, contents and link targets count, not modes and times.
    pub contents_only: bool,
    /// An entry counts as expected only once the file systems of its batch are synced. Then a batch is reported some seconds later.
    pub durable: bool,
    /// A directory, by device and inode, whose time does not count, because writing the manifest into it has changed the time.
    pub touched: Option<(u64, u64)>,
    /// Threads that read; at least one is used.
    pub threads: usize,
}

/// Result for one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The entry is as expected; for a file, its digest.
    Same(Option<Digest>),
    /// The entry differs, or cannot be read.
    Different(Fault),
}

/// A batch that was checked.
#[derive(Debug)]
pub struct Checked {
    /// The number that the caller chose.
    pub number: u64,
    /// The entries.
    pub records: Vec<Record>,
    /// One result for each entry, in order.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// The results in the form of a daemon's answer, without digests.
    pub fn into_verdicts(self) -> Vec<Verdict> {
        let findings = self.findings.into_iter();
        let verdicts = findings.map(|finding| match finding {
            Finding::Same(_) => Verdict::Skip,
            Finding::Different(fault) => Verdict::Failed(fault),
        });
        verdicts.collect()
    }
}

/// Called with each batch once it is completely checked, on one of the reading threads.
pub type OnChecked = Box<dyn Fn(Checked) + Send + Sync>;

/// Threads that check entries until this value is dropped.
pub struct Verifier {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

pub(super) struct Shared {
    config: VerifierConfig,
    on_checked: OnChecked,
    counters: Arc<Counters>,
    state: Mutex<State>,
    /// Signals that there is work, or that the work has ended.
    changed: Condvar,
    /// A batch is done.
    done: Condvar,
    bytes_done: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<Job>>,
    large: Vec<Arc<LargeFile>>,
    held: Held,
    in_flight: usize,
    /// Memory of the batches in flight.
    bytes: usize,
    stopping: bool,
    failed: bool,
}

impl State {
    fn has_room(&self) -> bool {
        self.in_flight < BATCHES_MAX && self.bytes < BATCHES_BYTES_MAX
    }
}

pub(super) struct Job {
    number: u64,
    records: Vec<Record>,
    /// Memory of the records.
    bytes: usize,
    progress: Mutex<JobProgress>,
}

struct JobProgress {
    next: usize,
    left: usize,
    findings: Vec<Option<Finding>>,
    /// A file of each file system with read files, by the number of its device.
    devices: BTreeMap<u64, usize>,
}

enum Task {
    Entry(Arc<Job>, usize),
    Window(Arc<LargeFile>, u64),
    Sync(Vec<Batch>),
}

impl Verifier {
    /// Starts the threads.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: VerifierConfig,
        counters: Arc<Counters>,
        on_checked: OnChecked,
    ) -> std::io::Result<Self> {
        let count = config.threads.max(1);
        let shared = Arc::new(Shared {
            config,
            on_checked,
            counters,
            state: Mutex::default(),
            changed: Condvar::new(),
            done: Condvar::new(),
            bytes_done: AtomicU64::new(0),
        });
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let own = Arc::clone(&shared);
            let spawned = std::thread::Builder::new()
                .name(format!("gw-verify-{index}"))
                .spawn(move || own.work());
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(Self { shared, threads })
    }

    /// Whether [`submit`](Self::submit) would return without waiting.
    pub fn has_room(&self) -> bool {
        lock(&self.shared.state).has_room()
    }

    /// Submits entries for checking; waits while as many as possible are in progress. A file without a digest may have any contents.
    pub fn submit(&self, number: u64, records: Vec<Record>) {
        let count = records.len();
        if count == 0 {
            (self.shared.on_checked)(Checked {
                number,
                records,
                findings: Vec::new(),
            });
            return;
        }
        let job = Arc::new(Job {
            number,
            bytes: records.iter().map(Record::memory).sum(),
            records,
            progress: Mutex::new(JobProgress {
                next: 0,
                left: count,
                findings: vec![None; count],
                devices: BTreeMap::new(),
            }),
        });
        let mut state = lock(&self.shared.state);
        while !state.has_room() && !state.stopping {
            state = self
                .shared
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight += 1;
        state.bytes += job.bytes;
        state.queue.push_back(job);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until all submitted entries are checked and reported.
    pub fn wait_idle(&self) {
        let mut state = lock(&self.shared.state);
        while state.in_flight > 0 && !state.stopping {
            state = self
                .shared
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops: entries that are not checked yet will not be checked. Returns at once.
    pub fn stop(&self) {
        self.shared.stop(false);
    }

    /// Whether a checking thread has panicked. Then the entry of that thread is never reported, and the verification stops.
    pub fn has_failed(&self) -> bool {
        lock(&self.shared.state).failed
    }

    /// Content bytes of the files compared so far, including holes.
    pub fn bytes_done(&self) -> u64 {
        self.shared.bytes_done.load(Ordering::Relaxed)
    }
}

impl Examiner for Verifier {
    fn has_room(&self) -> bool {
        self.has_room()
    }

    fn submit(&self, number: u64, records: Vec<Record>) {
        self.submit(number, records);
    }

    fn has_failed(&self) -> bool {
        self.has_failed()
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // A panic there was already printed, and has stopped the other threads.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn stop(&self, failed: bool) {
        let mut state = lock(&self.state);
        state.stopping = true;
        state.failed |= failed;
        state.queue.clear();
        drop(state);
        self.changed.notify_all();
        self.done.notify_all();
    }

    fn work(&self) {
        let _panic = IfPanicking(|| self.stop(true));
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut meter = CpuMeter::default();
        while let Some(task) = self.take() {
            match task {
                Task::Entry(job, index) => self.check_entry(&job, index, &mut buffer),
                Task::Window(large, offset) => self.check_window(&large, offset, &mut buffer),
                Task::Sync(batches) => self.sync(batches),
            }
            meter.settle(&self.counters);
        }
    }

    /// A sync that is due comes first. Then come windows of files that are being read, so that few files are open at a time.
    fn take(&self) -> Option<Task> {
        let mut state = lock(&self.state);
        loop {
            if state.stopping {
                return None;
            }
            let now = Instant::now();
            if let Some(batches) = state.held.begin(now) {
                return Some(Task::Sync(batches));
            }
            while let Some(large) = state.large.first().cloned() {
                if let Some(offset) = large.take_window() {
                    return Some(Task::Window(large, offset));
                }
                state.large.remove(0);
            }
            if let Some(job) = state.queue.front().cloned() {
                let mut progress = lock(&job.progress);
                let index = progress.next;
                progress.next += 1;
                if progress.next >= job.records.len() {
                    state.queue.pop_front();
                }
                drop(progress);
                return Some(Task::Entry(job, index));
            }
            state = match state.held.pause(now) {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    let waited = self.changed.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Lets other threads help with a large file.
    fn share(&self, large: LargeFile) {
        lock(&self.state).large.push(Arc::new(large));
        self.changed.notify_all();
    }

    fn file(&self, job: &Job, index: usize, finding: Finding) {
        self.bytes_done
            .fetch_add(job.records[index].bytes, Ordering::Relaxed);
        let mut progress = lock(&job.progress);
        progress.findings[index] = Some(finding);
        progress.left -= 1;
        if progress.left > 0 {
            return;
        }
        let findings = std::mem::take(&mut progress.findings)
            .into_iter()
            .map(|finding| finding.unwrap_or(Finding::Same(None)));
        let findings: Vec<Finding> = findings.collect();
        let devices = std::mem::take(&mut progress.devices);
        drop(progress);
        let batch = Batch {
            checked: Checked {
                number: job.number,
                records: job.records.clone(),
                findings,
            },
            bytes: job.bytes,
            devices,
        };
        // Only a durable verification has noted devices.
        if batch.devices.is_empty() {
            return self.report(batch);
        }
        lock(&self.state).held.add(batch);
        self.changed.notify_all();
    }

    /// Reports a batch, which leaves its room for others.
    fn report(&self, batch: Batch) {
        let Batch { checked, bytes, .. } = batch;
        (self.on_checked)(checked);
        let mut state = lock(&self.state);
        state.in_flight -= 1;
        state.bytes -= bytes;
        drop(state);
        self.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use godwit_testkit::MemoryStorage;

    use super::*;

    #[test]
    fn the_batches_in_progress_take_bounded_memory() {
        let mut state = State::default();
        let record = Record {
            path: vec![b'x'; BATCHES_BYTES_MAX / 4],
            ..Record::default()
        };
        for _ in 0..4 {
            assert!(state.has_room());
            state.in_flight += 1;
            state.bytes += record.memory();
        }
        assert!(!state.has_room());
    }

    /// A batch that was reported leaves its room for others.
    #[test]
    fn batches_with_long_names_are_checked_one_after_another() {
        let config = VerifierConfig {
            roots: vec![empty_root()],
            digest: DigestKind::Crc64Nvme,
            contents_only: true,
            durable: false,
            touched: None,
            threads: 1,
        };
        let verifier = Verifier::start(config, Arc::default(), Box::new(|_| {})).unwrap();
        for number in 0..4 {
            let long = Record {
                target: vec![0; BATCHES_BYTES_MAX],
                ..Record::default()
            };
            verifier.submit(number, vec![long]);
        }
        verifier.wait_idle();
        assert!(verifier.has_room());
    }

    fn empty_root() -> TreeRoot {
        TreeRoot {
            storage: Arc::new(MemoryStorage::new()),
            start: godwit_store::RelPath::default(),
        }
    }

    #[test]
    fn a_thread_that_panics_leaves_no_thread_waiting() {
        let config = VerifierConfig {
            roots: vec![empty_root()],
            digest: DigestKind::Crc64Nvme,
            contents_only: true,
            durable: false,
            touched: None,
            threads: 2,
        };
        let on_checked =
            Box::new(|checked: Checked| assert_ne!(checked.number, 1, "as a mistake might"));
        let verifier = Verifier::start(config, Arc::default(), on_checked).unwrap();
        verifier.submit(0, vec![Record::default()]);
        verifier.wait_idle();
        assert!(!verifier.has_failed());
        verifier.submit(1, vec![Record::default()]);
        verifier.wait_idle();
        assert!(verifier.has_failed());
        // Later callers do not wait either.
        for number in 0..=BATCHES_MAX as u64 {
            verifier.submit(number, vec![Record::default()]);
        }
        verifier.wait_idle();
    }
}
