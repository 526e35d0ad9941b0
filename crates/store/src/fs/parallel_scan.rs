//! Owns the threads of a scan that look at names. Does not know how a look works, nor how its results are used.
//!
//! Helpers start from the second batch on: one fewer than there are processors, three at most. Up to fifteen start if looks wait, as on a
//! network file system, where each look costs a round trip. The calling thread also looks at names while no results are ready. A directory
//! is returned before its contents.

mod shared_pages;
mod state;

use super::directories::Directories;
use super::pages::{PagesOfScan, SharedLook};
use super::walk::{Found, ListingBuffer};
use crate::error::StoreError;
use crate::path::RelPath;
use crate::spill::SpillSorter;
use crate::storage::ScanItem;
use crate::{thread_cpu_time, thread_cpu_waiting};
use rustix::fs::FileType;
use shared_pages::Looking;
pub(super) use state::Finds;
use state::{NameRange, State, Task};
use std::any::Any;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most helpers if looks keep the processor busy, because the threads that read and send also need processors.
const HELPERS_BUSY_MAX: usize = 3;
/// Most helpers if looks wait for a server or a disk.
const HELPERS_WAITING_MAX: usize = 15;
/// A look that takes longer than this has waited. A look that finds all data in memory takes a hundredth of this time.
const LOOK_WAITED: Duration = Duration::from_micros(100);

/// Looks at names, in several threads at once.
pub(super) trait Looker: Send + Sync {
    /// Buffers of one thread.
    type Tools;

    /// Makes the buffers of a thread.
    fn tools(&self) -> Self::Tools;

    /// Looks at a name and adds the results to `finds`.
    fn look(&self, found: Found<'_>, tools: &mut Self::Tools, finds: &mut Finds);

    /// The pages that this scan shares with others.
    fn pages(&self) -> Option<&PagesOfScan> {
        None
    }

    /// Like [`Looker::look`]; also returns what other scans may take.
    fn look_for_all(
        &self,
        found: Found<'_>,
        tools: &mut Self::Tools,
        finds: &mut Finds,
    ) -> SharedLook {
        self.look(found, tools, finds);
        SharedLook::Nothing
    }

    /// Adds the results of another scan's look to `finds`; false if this scan has to look, too.
    fn take_over(&self, listed: Listed<'_>, look: &SharedLook, finds: &mut Finds) -> bool {
        let _ = (listed, look, finds);
        false
    }
}

/// A name in a directory that need not be open.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    /// Path of the directory.
    pub(super) parent: &'a RelPath,
    /// The name.
    pub(super) name: &'a [u8],
    /// The file type from the listing; `Unknown` on some file systems.
    pub(super) kind: FileType,
}

/// A scan by several threads: helpers, and the calling thread, which looks at names while no results are ready. A directory is returned
/// before its contents.
pub(super) struct ParallelScan<L: Looker + 'static> {
    shared: Arc<Shared<L>>,
    tools: Tools<L>,
    /// The rest of the portion that the calling thread took.
    own: Option<NameRange>,
    /// Memory for the paths of the calling thread's results.
    paths: Vec<Vec<u8>>,
    asked: bool,
}

struct Tools<L: Looker> {
    buffer: ListingBuffer,
    own: L::Tools,
    /// The last portion was slow, so its threads may have waited for storage. The next portion is measured more exactly.
    suspects: bool,
}

struct Shared<L> {
    directories: Arc<Directories>,
    looker: L,
    inner: Mutex<Inner>,
    /// Signals helpers that there may be work.
    work: Condvar,
    /// Signals the calling thread that results may be ready, or that the scan has ended.
    found: Condvar,
    cpu_ns: AtomicU64,
}

struct Inner {
    state: State,
    helpers: Vec<JoinHandle<()>>,
    /// Number of waiting helpers, and how many of them wait only for room.
    idle: usize,
    held_up: usize,
    asking_waits: bool,
    /// The scan has ended; helpers stop.
    stopping: bool,
    /// A helper has panicked.
    broken: bool,
}

impl<L: Looker> Tools<L> {
    fn of(looker: &L) -> Self {
        Self {
            buffer: ListingBuffer::default(),
            own: looker.tools(),
            suspects: false,
        }
    }
}

impl<L: Looker + 'static> ParallelScan<L> {
    /// A scan without a start; `enter` sets the start. Finds that exceed the memory bound go to `spill`.
    pub(super) fn new(
        directories: &Arc<Directories>,
        looker: L,
        spill: &Path,
        spill_bytes: usize,
    ) -> Self {
        let inner = Inner {
            state: State::new(spill, spill_bytes),
            helpers: Vec::new(),
            idle: 0,
            held_up: 0,
            asking_waits: false,
            stopping: false,
            broken: false,
        };
        Self {
            tools: Tools::of(&looker),
            shared: Arc::new(Shared {
                directories: Arc::clone(directories),
                looker,
                inner: Mutex::new(inner),
                work: Condvar::new(),
                found: Condvar::new(),
                cpu_ns: AtomicU64::new(0),
            }),
            own: None,
            paths: Vec::new(),
            asked: false,
        }
    }

    /// Lists this directory too.
    pub(super) fn enter(&self, path: &RelPath) -> Result<(), StoreError> {
        self.shared.lock().state.enter(path)
    }

    /// The files with several names, once.
    pub(super) fn take_aside(&self) -> Option<SpillSorter> {
        self.shared.lock().state.aside.take()
    }

    /// Takes memory of unused paths from the caller, for reuse.
    pub(super) fn reuse(&self, paths: &mut Vec<Vec<u8>>) {
        self.shared.lock().state.keep_paths(paths);
    }

    /// Processor time that the helpers have used so far.
    pub(super) fn helpers_cpu(&self) -> Duration {
        Duration::from_nanos(self.shared.cpu_ns.load(Ordering::Relaxed))
    }

    /// Adds a batch of results to `out`; `false` once there are none left.
    pub(super) fn next_batch(&mut self, out: &mut Vec<ScanItem>) -> bool {
        // The first batch starts no helper: a small tree is finished before a thread would start.
        if std::mem::replace(&mut self.asked, true) {
            Shared::grow(&self.shared, helpers_wanted());
        }
        let mut finds = Finds::behind(std::mem::take(out));
        finds.paths = std::mem::take(&mut self.paths);
        let more = loop {
            let task = match self.own.take() {
                Some(portion) => Task::Look(portion),
                None => match self.next_task(&mut finds) {
                    NextStep::Task(task) => task,
                    NextStep::Enough => break true,
                    NextStep::End => break false,
                },
            };
            self.perform(task, &mut finds);
            if finds.is_full() {
                break true;
            }
        };
        *out = finds.items;
        self.paths = finds.paths;
        more
    }

    fn perform(&mut self, task: Task, finds: &mut Finds) {
        self.own = Shared::perform(&self.shared, task, &mut self.tools, finds);
        let mut inner = self.shared.lock();
        inner.state.keep(finds);
        inner.state.supply(&mut finds.paths);
        inner.state.busy -= usize::from(self.own.is_none());
        self.shared.wake_helpers(&inner);
    }

    fn next_task(&self, finds: &mut Finds) -> NextStep {
        let mut inner = self.shared.lock();
        loop {
            // These results go first: nothing below a directory may be returned before the directory.
            inner.state.give(finds);
            self.shared.wake_helpers(&inner);
            if finds.is_full() {
                return NextStep::Enough;
            }
            if inner.broken {
                drop(inner);
                self.shared.end();
                return NextStep::End;
            }
            match inner.state.take() {
                Ok(Some(task)) => return NextStep::Task(task),
                Ok(None) if inner.state.busy == 0 => return NextStep::End,
                Ok(None) if finds.len() > 0 => return NextStep::Enough,
                Ok(None) => {
                    inner.asking_waits = true;
                    inner = wait(&self.shared.found, inner);
                    inner.asking_waits = false;
                }
                Err(error) => finds.push(ScanItem::Fault(error)),
            }
        }
    }
}

/// The next step of the calling thread.
enum NextStep {
    Task(Task),
    /// No work at the moment, but results to return.
    Enough,
    /// Nothing more will come.
    End,
}

impl<L: Looker + 'static> Drop for ParallelScan<L> {
    fn drop(&mut self) {
        // The panic has already been printed, and this scan is no longer used.
        let _ = self.shared.stop();
    }
}

impl<L: Looker + 'static> Shared<L> {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts helpers until there are `wanted`; there are fewer if the system refuses threads.
    fn grow(shared: &Arc<Self>, wanted: usize) {
        let mut inner = shared.lock();
        while inner.helpers.len() < wanted && !inner.stopping {
            let helper = Arc::clone(shared);
            let started = std::thread::Builder::new()
                .name(format!("gw-look-{}", inner.helpers.len()))
                .spawn(move || Self::help(&helper));
            let Ok(thread) = started else {
                return;
            };
            inner.helpers.push(thread);
        }
    }

    /// Ends all helpers; returns the panic of one if there was any.
    fn stop(&self) -> Option<Box<dyn Any + Send>> {
        let helpers = {
            let mut inner = self.lock();
            inner.stopping = true;
            std::mem::take(&mut inner.helpers)
        };
        self.work.notify_all();
        helpers
            .into_iter()
            .fold(None, |panic, helper| helper.join().err().or(panic))
    }

    /// Ends all helpers, and continues the panic of a helper in the calling thread, because a scan without a part would be wrong.
    fn end(&self) {
        if let Some(panic) = self.stop() {
            std::panic::resume_unwind(panic);
        }
    }

    /// The main function of a helper.
    fn help(shared: &Arc<Self>) {
        let guard = Helping(shared);
        let mut tools = Tools::of(&shared.looker);
        let mut counted = Duration::ZERO;
        let mut own = None;
        let mut paths = Vec::new();
        while let Some(task) = shared.next_task(&mut own) {
            let mut finds = Finds {
                paths: std::mem::take(&mut paths),
                ..Finds::default()
            };
            own = Self::perform(shared, task, &mut tools, &mut finds);
            let now = thread_cpu_time();
            shared.count(now.saturating_sub(std::mem::replace(&mut counted, now)));
            let mut inner = shared.lock();
            inner.state.keep(&mut finds);
            paths = std::mem::take(&mut finds.paths);
            inner.state.supply(&mut paths);
            inner.state.add_ready(finds);
            inner.state.busy -= usize::from(own.is_none());
            shared.wake_helpers(&inner);
            shared.wake_asking(&inner);
        }
        std::mem::forget(guard);
    }

    fn count(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.cpu_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Waits for room, and for a task other than the rest of `own`; `None` once the scan has ended.
    fn next_task(&self, own: &mut Option<NameRange>) -> Option<Task> {
        let mut inner = self.lock();
        loop {
            if inner.stopping {
                return None;
            }
            if inner.state.has_room() {
                if let Some(portion) = own.take() {
                    return Some(Task::Look(portion));
                }
                match inner.state.take() {
                    Ok(Some(task)) => return Some(task),
                    Ok(None) => {}
                    Err(error) => {
                        let mut finds = Finds::default();
                        finds.push(ScanItem::Fault(error));
                        inner.state.add_ready(finds);
                        self.wake_asking(&inner);
                        continue;
                    }
                }
            }
            let held_up = usize::from(own.is_some());
            inner.idle += 1;
            inner.held_up += held_up;
            inner = wait(&self.work, inner);
            inner.held_up -= held_up;
            inner.idle -= 1;
        }
    }

    // Wakes helpers only if some wait, because waking is a system call.
    fn wake_helpers(&self, inner: &Inner) {
        let wanted = inner.held_up > 0 || inner.state.has_work();
        if inner.idle > 0 && wanted && inner.state.has_room() {
            self.work.notify_all();
        }
    }

    fn wake_asking(&self, inner: &Inner) {
        if inner.asking_waits {
            self.found.notify_one();
        }
    }

    /// Carries out a task. Returns the rest of the task when its finds have become too heavy.
    fn perform(
        shared: &Arc<Self>,
        task: Task,
        tools: &mut Tools<L>,
        finds: &mut Finds,
    ) -> Option<NameRange> {
        let portion = match task {
            Task::Look(portion) => portion,
            Task::Continue(listing) => shared.list(listing, &mut tools.buffer, finds)?,
            Task::List(path) => shared.open(path, &mut tools.buffer, finds)?,
        };
        let looking = shared.begin_looks(&portion, tools, finds)?;
        Self::look_at(shared, portion, looking, tools, finds)
    }

    fn look_at(
        shared: &Arc<Self>,
        mut portion: NameRange,
        mut looking: Looking<'_>,
        tools: &mut Tools<L>,
        finds: &mut Finds,
    ) -> Option<NameRange> {
        let directory = match portion.listing.fd(&shared.directories) {
            Ok(directory) => directory,
            Err(error) => {
                finds.push(ScanItem::Fault(error));
                return None;
            }
        };
        finds.items.reserve(portion.range.len());
        // If other programs use the processor, a thread loses it for longer than many looks last. More threads would not help then, so
        // this time is not counted.
        let before = tools.suspects.then(time_awake);
        let start = Instant::now();
        let mut looks = 0;
        while !finds.is_heavy()
            && let Some(index) = portion.range.next()
        {
            let (name, kind) = portion.names.get(index);
            let found = Found {
                directory,
                parent: &portion.listing.path,
                name,
                kind,
            };
            looking.look(&shared.looker, found, &mut tools.own, finds);
            looks += 1;
        }
        let took = start.elapsed();
        if portion.range.is_empty() {
            looking.end();
        }
        tools.suspects = took > LOOK_WAITED * looks;
        if tools.suspects
            && let Some(before) = before
            && took.saturating_sub(time_awake().saturating_sub(before)) > LOOK_WAITED * looks
        {
            let helpers = shared.lock().helpers.len();
            Self::grow(shared, (helpers + 1).min(HELPERS_WAITING_MAX));
        }
        (!portion.range.is_empty()).then_some(portion)
    }
}

/// Marks the scan as broken if a helper panics, so that no thread waits for that helper.
struct Helping<'a, L>(&'a Shared<L>);

impl<L> Drop for Helping<'_, L> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.broken = true;
        drop(inner);
        self.0.found.notify_all();
    }
}

/// How long the calling thread has run or was ready to run.
fn time_awake() -> Duration {
    thread_cpu_time() + thread_cpu_waiting().unwrap_or_default()
}

fn helpers_wanted() -> usize {
    // Computed once: the number of processors comes from several system files, and reading them takes longer than scanning a small
    // directory.
    static WANTED: LazyLock<usize> = LazyLock::new(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores - 1).clamp(1, HELPERS_BUSY_MAX)
    });
    *WANTED
}

fn wait<'a>(condition: &Condvar, guard: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
