//! Progress of the jobs that other nodes of the cluster run. It is requested while a client watches, and dropped when outdated.
//! Runs no job, and keeps nothing in the state.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, Question, RunningJob};
use godwit_api::rest::{JobProgress, ProgressView};
use godwit_state::{JobFilter, Node};

use crate::asking::{Asking, reached};
use crate::basis::pages::each_job;
use crate::basis::this_node::ThisNode;

/// The pause between two questions to a node.
const EVERY: Duration = Duration::from_secs(1);

/// The age from which an answer is not shown.
const OLD_AFTER: Duration = Duration::from_secs(5);

/// How long the questions continue after the last look of a client.
const LOOKS_FOR: Duration = Duration::from_secs(10);

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(3);

/// Bound of jobs from other nodes: a page of the API.
const JOBS_MAX: usize = 1_000;

/// Progress of jobs that run elsewhere.
#[derive(Default)]
pub(crate) struct RemoteProgress {
    seen: Mutex<Seen>,
    /// A client looks, or the node stops.
    woken: Condvar,
}

#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    jobs: HashMap<String, (ProgressView, Instant)>,
}

impl RemoteProgress {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a client looks.
    fn look(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.lock();
        if !seen.is_wanted() {
            self.woken.notify_all();
        }
        seen.looked = Some(Instant::now());
        seen
    }

    /// Ends the thread that asks, once `stopping` is set.
    pub(crate) fn stop(&self) {
        let _seen = self.lock();
        self.woken.notify_all();
    }

    /// The progress of the job, if known; from now on this node asks for it.
    pub(crate) fn progress(&self, id: &str) -> Option<ProgressView> {
        let seen = self.look();
        let (progress, at) = seen.jobs.get(id)?;
        (at.elapsed() < OLD_AFTER).then(|| progress.clone())
    }

    /// The progress of all these jobs; from now on this node asks for it.
    pub(crate) fn all(&self) -> Vec<JobProgress> {
        let seen = self.look();
        let new = seen.jobs.iter();
        let new = new.filter(|(_, (_, at))| at.elapsed() < OLD_AFTER);
        new.map(|(id, (progress, _))| JobProgress {
            id: id.clone(),
            progress: progress.clone(),
        })
        .collect()
    }

    /// Waits until it is time to ask; false where the node stops.
    fn wait(&self, stopping: &AtomicBool) -> bool {
        let mut seen = self.lock();
        if seen.is_wanted() && !stopping.load(Ordering::SeqCst) {
            let waited = self.woken.wait_timeout(seen, EVERY);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        while !seen.is_wanted() && !stopping.load(Ordering::SeqCst) {
            let woken = self.woken.wait(seen);
            seen = woken.unwrap_or_else(PoisonError::into_inner);
        }
        !stopping.load(Ordering::SeqCst)
    }

    fn update(&self, running: Vec<(String, ProgressView)>) {
        let mut seen = self.lock();
        let now = Instant::now();
        seen.jobs.retain(|_, (_, at)| at.elapsed() < OLD_AFTER);
        let running = running.into_iter();
        seen.jobs
            .extend(running.map(|(id, progress)| (id, (progress, now))));
    }
}

impl Seen {
    fn is_wanted(&self) -> bool {
        self.looked.is_some_and(|at| at.elapsed() < LOOKS_FOR)
    }
}

/// Body of the thread that asks.
pub(crate) fn run(asking: &Asking) {
    while asking.elsewhere.wait(&asking.this.stopping) {
        for node in runners(&asking.this) {
            // Without an answer the earlier reports get old, and are shown no more.
            let jobs = ask(asking, &node, &|| true).unwrap_or_default();
            let run = jobs.into_iter().filter(|job| !job.works);
            let running = run.map(|job| (job.id, job.progress)).collect();
            asking.elsewhere.update(running);
        }
    }
}

/// The other nodes that run jobs.
fn runners(this: &ThisNode) -> Vec<Node> {
    let reader = this.reader();
    let own = &this.name;
    // While the state cannot be read, nothing is shown.
    let rows: Vec<Node> = reader.objects().unwrap_or_default();
    if rows.len() < 2 {
        return Vec::new();
    }
    let filter = JobFilter::moving();
    let mut running = HashSet::new();
    let read = each_job(&reader, filter, JOBS_MAX, &mut |job| {
        running.extend(job.runner.map(|runner| runner.node));
        Ok(true)
    });
    if read.is_err() {
        return Vec::new();
    }
    let runs = |row: &Node| row.name != *own && running.contains(&row.name);
    rows.into_iter().filter(runs).collect()
}

/// The jobs that a node runs and works on now; None if it does not answer.
pub(crate) fn ask(
    asking: &Asking,
    node: &Node,
    goes_on: &dyn Fn() -> bool,
) -> Option<Vec<RunningJob>> {
    let node = reached::node(node);
    match reached::ask(asking, &node, &Question::Running {}, WITHIN, goes_on) {
        Ok(Answer::Running(jobs)) => Some(jobs),
        _ => None,
    }
}
