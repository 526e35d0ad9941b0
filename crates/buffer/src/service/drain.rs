//! Owns the files that have arrived and are not at slow storage: their queue, those who wait for one, and the records about their end.
//! Writes to no slow storage; the caller of [`Arrivals::next`] does.

mod seen;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::arrive::Arriving;
use super::ended::Ended;
use super::flash::Arrived;
use super::lines::Lines;
use super::memory::Memory;
use super::{Shared, lock, now};
use crate::extent::{FileKey, Generation, PATH_BYTES_MAX, SourceId};
use crate::ledger::{Admission, IfFull, Incoming, Ledger, Mark, Whole};
use crate::waiting::{Failing, First, Sums, Waiting};

/// Waiting threads look at least this often.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Those who wait for this number of files do not look after each of them. With more files they look more rarely, up to this factor.
const MANY: u64 = 10_000;
const LOOKS_MAX: u32 = 10;

/// The part of a buffer for arrivals.
pub(super) struct Desk {
    waiting: Mutex<Waiting>,
    /// A file was added, ended, or may be tried again.
    changed: Condvar,
    memory: Arc<Memory>,
    /// Files that are being written.
    open: AtomicU64,
    /// The latest stamp of a file; later files have higher ones.
    stamp: AtomicU64,
    pub(super) ended: Ended,
    lines: Mutex<Lines>,
}

/// The files that arrive at a buffer. Clones are handles of the same files.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Shared>);

/// A file whose drain has begun. The file is ready again if this value is dropped without a result.
#[derive(Debug)]
pub struct Drain {
    shared: Arc<Shared>,
    file: Arc<FileKey>,
    what: Arc<[u8]>,
    has_ended: bool,
}

/// A file that does not drain while this value lives.
#[derive(Debug)]
#[must_use]
pub struct HeldArrival {
    shared: Arc<Shared>,
    file: Arc<FileKey>,
    has_ended: bool,
}

/// The end of a wait for files to drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// None waits any more.
    All,
    /// The others have drained; these were put aside.
    ButAside(u64),
    /// The time ended.
    Late,
}

impl Desk {
    /// Takes the files of the logs into the queue. If `are_all_here`, no volume is missing. Other dirty extents are then parts
    /// of files that did not arrive whole, and are removed. Otherwise files whose first extent is missing stay.
    pub(super) fn new(
        ledger: &mut Ledger,
        extent_bytes: u32,
        arrived: Vec<Arrived>,
        are_all_here: bool,
    ) -> Self {
        let mut waiting = Waiting::default();
        let mut latest = 0;
        for one in &arrived {
            latest = latest.max(one.file.generation.stamp);
            Incoming::of(ledger).load(&one.file, &one.what);
            waiting.add(&one.file, Arc::clone(&one.what), one.since);
        }
        for one in &arrived {
            let newest = waiting.latest(one.file.source, &one.file.path);
            // If two files have one name, the later file counts.
            if newest.is_some_and(|(newest, _)| newest != one.file) {
                waiting.remove(&one.file);
                let mut incoming = Incoming::of(ledger);
                let _ = incoming.cancel(&one.file);
                incoming.remove(&one.file);
            }
        }
        // A volume that is no longer named has its parts of the files that wait.
        let mut incoming = Incoming::of(ledger);
        let is_whole = |one: &Arrived| incoming.whole(&one.file) == Whole::Durable;
        let mut waits = arrived.iter().filter(|one| waiting.has(&one.file));
        let are_all_here = are_all_here && waits.all(is_whole);
        for file in incoming.others(!are_all_here, |file| waiting.has(file)) {
            incoming.remove(&file);
        }
        Self {
            waiting: Mutex::new(waiting),
            changed: Condvar::new(),
            memory: Arc::new(Memory::new(extent_bytes as usize)),
            open: AtomicU64::new(0),
            stamp: AtomicU64::new(latest),
            ended: Ended::default(),
            lines: Mutex::default(),
        }
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn open_one(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn close_one(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            // An idle node keeps no memory for arrivals.
            self.memory.trim();
        }
    }

    pub(super) fn sums(&self) -> Sums {
        lock(&self.waiting).sums()
    }

    pub(super) fn add(&self, file: &Arc<FileKey>, what: Arc<[u8]>, since: Duration) {
        lock(&self.waiting).add(file, what, since);
        self.changed.notify_all();
    }

    /// The log of a volume that was out names this file.
    pub(super) fn know_again(&self, shared: &Shared, file: &Arc<FileKey>, what: Arc<[u8]>) {
        if self.ended.has(file) {
            let mut ledger = shared.lock();
            let mut incoming = Incoming::of(&mut ledger);
            // The record comes before those about the extents. This thread writes it, and cannot wait for it.
            let _ = incoming.cancel(file);
            incoming.remove(file);
            return;
        }
        if !lock(&self.waiting).has(file) {
            Incoming::of(&mut shared.lock()).load(file, &what);
            self.add(file, what, now());
        }
        lock(&self.waiting).retry(file.source, &file.path);
    }

    pub(super) fn wake(&self) {
        drop(lock(&self.waiting));
        self.changed.notify_all();
    }

    pub(super) fn remove(&self, file: &FileKey) {
        lock(&self.waiting).remove(file);
        self.changed.notify_all();
    }

    fn next_stamp(&self) -> u64 {
        let time = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX);
        let before = self
            .stamp
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| {
                Some(time.max(last.saturating_add(1)))
            });
        time.max(before.unwrap_or_default().saturating_add(1))
    }
}

impl Arrivals {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::clone(shared))
    }

    /// Sets order and rate of draining, in bytes a second.
    pub fn set(&self, first: First, rate: Option<u64>) {
        lock(&self.0.desk.waiting).set(first, rate);
        self.0.desk.changed.notify_all();
    }

    /// Room for a file of this size; `None` if the file passes the buffer by.
    #[must_use]
    pub fn begin(&self, source: SourceId, path: &[u8], bytes: u64) -> Option<Arriving> {
        let shared = &self.0;
        let is_short = path.len() <= PATH_BYTES_MAX;
        if bytes == 0 || !is_short || shared.is_closed() || shared.mounts.is_empty() {
            return None;
        }
        let extents = bytes.div_ceil(u64::from(shared.extent_bytes));
        let admission = shared.lock().reserve(extents, IfFull::PassThrough);
        let Admission::Granted(room) = admission else {
            shared.counts.passed.fetch_add(bytes, Ordering::Relaxed);
            return None;
        };
        let key = FileKey {
            source: arriving(source),
            path: path.to_vec(),
            generation: Generation {
                bytes,
                stamp: shared.desk.next_stamp(),
            },
        };
        Some(Arriving::new(shared, key, room))
    }

    /// Waits until a record is durable. Returns false if it is lost.
    #[must_use]
    pub fn confirm(&self, mark: Mark) -> bool {
        self.0.wait_until_durable(mark)
    }

    /// The latest waiting file of a path, and the words that say where it goes.
    #[must_use]
    pub fn latest(&self, source: SourceId, path: &[u8]) -> Option<(Arc<FileKey>, Arc<[u8]>)> {
        let waiting = lock(&self.0.desk.waiting);
        match waiting.sums().files {
            0 => None,
            _ => waiting.latest(arriving(source), path),
        }
    }

    /// The waiting files at and below a path.
    #[must_use]
    pub fn below(&self, source: SourceId, below: &[u8]) -> Vec<Arc<FileKey>> {
        lock(&self.0.desk.waiting).below(arriving(source), below)
    }

    /// Whether a file was put aside, so that it does not count as in place.
    #[must_use]
    pub fn is_aside(&self, file: &FileKey) -> bool {
        lock(&self.0.desk.waiting).is_aside(file)
    }

    /// Lets the files at and below a path drain before all others, and waits for them. A sender that continues holds no wait up: files that come
    /// below the path meanwhile do not count.
    #[must_use]
    pub fn settle(&self, source: SourceId, below: &[u8], within: Duration) -> Settled {
        let until = Instant::now() + within;
        let latest = self.0.desk.stamp.load(Ordering::SeqCst);
        let mut waiting = lock(&self.0.desk.waiting);
        if waiting.sums().files == 0 {
            return Settled::All;
        }
        loop {
            let (comes, aside, is_news) = waiting.want(arriving(source), below, latest);
            match (comes, aside) {
                (0, 0) => return Settled::All,
                (0, aside) => return Settled::ButAside(aside),
                _ => {}
            }
            if Instant::now() >= until || self.0.is_closed() {
                return Settled::Late;
            }
            // Those who wait would wake each other without an end.
            if is_news {
                self.0.desk.changed.notify_all();
            }
            // Each file that ends would wake this thread. To look through many files each time would keep the queue locked.
            if let looks @ 1.. = comes / MANY {
                drop(waiting);
                let wait = LOOK_EVERY * u32::try_from(looks).unwrap_or(LOOKS_MAX).min(LOOKS_MAX);
                std::thread::sleep(wait.min(until.saturating_duration_since(Instant::now())));
                waiting = lock(&self.0.desk.waiting);
                continue;
            }
            let waited = self.0.desk.changed.wait_timeout(waiting, LOOK_EVERY);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes a file out of the queue while a later one is written. Waits for its drain, if that has begun. `None` if the file has drained.
    ///
    /// # Errors
    /// The time ended.
    pub fn hold(
        &self,
        file: &Arc<FileKey>,
        within: Duration,
    ) -> Result<Option<HeldArrival>, Settled> {
        let until = Instant::now() + within;
        let mut waiting = lock(&self.0.desk.waiting);
        loop {
            if !waiting.has(file) {
                return Ok(None);
            }
            if waiting.hold(file) {
                return Ok(Some(HeldArrival {
                    shared: Arc::clone(&self.0),
                    file: Arc::clone(file),
                    has_ended: false,
                }));
            }
            if Instant::now() >= until || self.0.is_closed() {
                return Err(Settled::Late);
            }
            let waited = self.0.desk.changed.wait_timeout(waiting, LOOK_EVERY);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next file to bring to slow storage. Waits for one; `None` if none comes within this time, or the buffer is closed.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<Drain> {
        let until = Instant::now() + within;
        let mut waiting = lock(&self.0.desk.waiting);
        loop {
            if self.0.is_closed() {
                return None;
            }
            if let Some((file, what)) = waiting.poll(now()) {
                drop(waiting);
                Incoming::of(&mut self.0.lock()).begin_drain(&file);
                return Some(Drain {
                    shared: Arc::clone(&self.0),
                    file,
                    what,
                    has_ended: false,
                });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let due = waiting.due(now()).map(|due| due.saturating_sub(now()));
            let wait = due
                .unwrap_or(left)
                .clamp(Duration::from_millis(1), left.max(Duration::from_millis(1)));
            let waited = self.0.desk.changed.wait_timeout(waiting, wait);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Tries the files at and below a path again now, also those that were put aside. Returns their number.
    pub fn retry(&self, source: SourceId, below: &[u8]) -> u64 {
        let files = lock(&self.0.desk.waiting).retry(arriving(source), below);
        self.0.desk.changed.notify_all();
        files
    }

    /// Whether the buffer is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Writes a line to the log of the node, unless there were many lately.
    pub fn log(&self, line: &str) {
        let line = lock(&self.0.desk.lines).take(line, Instant::now());
        if let Some(line) = line {
            (self.0.log)(&line);
        }
    }
}

impl Drain {
    /// The place to which the file goes.
    #[must_use]
    pub fn source(&self) -> SourceId {
        arriving(self.file.source)
    }

    /// The path below that place.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.file.path
    }

    /// Length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.file.generation.bytes
    }

    /// A number that no other waiting file has.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.file.generation.stamp
    }

    /// The words that came with the file.
    #[must_use]
    pub fn what(&self) -> &[u8] {
        &self.what
    }

    /// Fills `out` with the bytes at `offset`. False if flash returns other bytes than were written.
    #[must_use]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        self.moves();
        self.shared.read(&self.file, offset, out)
    }

    /// Slow storage answers.
    fn moves(&self) {
        let mut waiting = lock(&self.shared.desk.waiting);
        waiting.turns.moves(self.file.source, now());
    }

    /// Slow storage has the file, durable, in this state. From now on the extents are clean, and belong to that state.
    pub fn placed(mut self, stamp: u64) {
        self.has_ended = true;
        let to = Arc::new(FileKey {
            source: self.source(),
            path: self.file.path.clone(),
            generation: Generation {
                bytes: self.file.generation.bytes,
                stamp,
            },
        });
        let mark = {
            let mut ledger = self.shared.lock();
            ledger.observe(to.source, &to.path, to.generation);
            Incoming::of(&mut ledger).place(&self.file, &to)
        };
        self.shared.changed.notify_all();
        match mark {
            Some(mark) if self.shared.wait_until_durable(mark) => {
                Incoming::of(&mut self.shared.lock()).settle(&self.file, &to);
                self.shared.changed.notify_all();
            }
            // The log still names the file. After a restart it is found at slow storage when it drains again.
            Some(_) => self.shared.desk.ended.note(&self.file),
            None => {
                self.shared.forget(&self.file);
            }
        }
        self.shared.desk.remove(&self.file);
    }

    /// The drain failed. With `may_pass`, a wait may help. Otherwise the file is put aside after some tries.
    pub fn failed(mut self, reason: String, may_pass: bool) -> Failing {
        self.has_ended = true;
        Incoming::of(&mut self.shared.lock()).end_drain(&self.file);
        let mut waiting = lock(&self.shared.desk.waiting);
        let failing = waiting.fail(&self.file, now(), reason, may_pass);
        drop(waiting);
        self.shared.desk.changed.notify_all();
        failing
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.moves();
        if !self.has_ended {
            Incoming::of(&mut self.shared.lock()).end_drain(&self.file);
            lock(&self.shared.desk.waiting).put_back(&self.file);
            self.shared.desk.changed.notify_all();
        }
        let is_idle = self.shared.open.load(Ordering::Relaxed) == 0;
        if is_idle && self.shared.desk.sums().files == 0 {
            self.shared.loads.clear();
            self.shared.memory.trim();
        }
    }
}

impl HeldArrival {
    /// Drops this file, because a later file of its name is in place. Returns whether that is durable.
    pub fn forget(mut self) -> bool {
        self.has_ended = true;
        let is_durable = self.shared.forget(&self.file);
        self.shared.desk.remove(&self.file);
        is_durable
    }
}

impl Drop for HeldArrival {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.shared.desk.waiting).let_go(&self.file);
            self.shared.desk.changed.notify_all();
        }
    }
}

/// The name of a place in the keys of files that are on their way there. No extent under it is mistaken for one that can be read again.
fn arriving(source: SourceId) -> SourceId {
    SourceId(source.0.map(|byte| !byte))
}
