//! Sites that run a job for this node, and do not know yet that it was paused or given up here: asked again until they know (`notify`).
//! Starts and follows no job. Its thread also checks the rights of waiting jobs (`rights`).
//!
//! A site may be away, or this node may end, between a user's command and the question that carries the command to the site. A waiting job
//! has no attempt that could carry it. So each job that is paused or ends is checked, and at the start of the node the recent ones: to ask
//! a site twice changes nothing. While its sites are being asked, a job begins no attempt: the question could stop that attempt. Waiting
//! jobs are checked when a node leaves the cluster, too: that node is to lose access for them.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_state::{Follower, Job, JobFilter, JobState, Topic};

use super::rights::end_denied;
use super::{Context, GRANT_FOR, millis, notify, route};
use crate::basis::pages::each_job;
use crate::basis::this_node::ThisNode;

/// Between two tries.
const AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Interval between two looks for changes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Jobs that are checked at the start of the node: a page of the state.
const JOBS_MAX: usize = 1_000;

/// States in which another site is to stop, or has ended.
const STOPPED: [JobState; 5] = [
    JobState::Paused,
    JobState::Cancelled,
    JobState::Failed,
    JobState::Partial,
    JobState::Complete,
];

/// States in which a job waits for its next attempt, and may run at another site.
const WAITING: [JobState; 3] = [JobState::Queued, JobState::Scheduled, JobState::Paused];

/// The change by which a node leaves the cluster.
const NODE_LEFT: &str = "node.remove";

/// Events after which a job continues.
const GOES_ON: [&str; 6] = [
    "job.submit",
    "job.claim",
    "job.report",
    "job.placed",
    "job.route",
    "job.explain",
];

/// The ids of the jobs.
#[derive(Default)]
pub(crate) struct PendingNotices {
    ids: Mutex<HashSet<String>>,
    /// The job whose sites are asked now.
    asked: Mutex<Option<String>>,
}

impl PendingNotices {
    /// The sites of this job must get its present state.
    pub(crate) fn add(&self, id: &str) {
        self.lock().insert(id.to_owned());
    }

    /// Whether the sites of this job are being asked to stop it.
    pub(crate) fn is_asking(&self, id: &str) -> bool {
        self.asked().as_deref() == Some(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Option<String>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.lock().iter().cloned().collect();
        ids.sort();
        ids
    }

    fn remove(&self, id: &str) {
        self.lock().remove(id);
    }
}

/// Body of the thread.
pub(crate) fn run(context: &Context) {
    let mut follower = follow(&context.this);
    look_back(context, &STOPPED);
    let mut due = Instant::now();
    let mut led = false;
    while !context.this.is_stopping() {
        let is_due = Instant::now() >= due;
        let leads = context.this.replica.is_leader();
        if leads && !led {
            // The leader speaks for nodes that do not answer.
            look_back(context, &STOPPED);
        }
        led = leads;
        if is_due {
            due = Instant::now() + AGAIN_EVERY;
            if let Err(error) = end_denied(&context.rights, &context.notices) {
                context.this.log(&format!(
                    "the rights of owners of waiting jobs are not checked now: {error}"
                ));
            }
        }
        if add_changed(context, &mut follower) || is_due {
            notify_all(context);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn follow(this: &ThisNode) -> Follower {
    let last = this.reader().last_event().unwrap_or(0);
    this.replica.follow(last)
}

/// Adds the jobs that another site may run and that were paused or ended since the last look. Whether there are any.
fn add_changed(context: &Context, follower: &mut Follower) -> bool {
    let reader = context.this.reader();
    let mut any = false;
    loop {
        let Ok(events) = follower.look() else {
            // Events were missed.
            *follower = follow(&context.this);
            look_back(context, &STOPPED);
            look_back(context, &WAITING);
            return true;
        };
        if events.is_empty() {
            return any;
        }
        if events.iter().any(|event| event.change == NODE_LEFT) {
            look_back(context, &WAITING);
            any = true;
        }
        let jobs = events.iter().filter(|event| event.topic == Topic::Job);
        for event in jobs.filter(|event| !GOES_ON.contains(&event.change.as_str())) {
            let job = reader.job(&event.object).ok().flatten();
            if let Some(job) =
                job.filter(|job| is_stopped(job) && route::may_be_elsewhere(&context.this, job))
            {
                context.notices.add(&job.id);
                any = true;
            }
        }
    }
}

/// Whether the job is to stop everywhere, and did not end with its transfer.
const fn is_stopped(job: &Job) -> bool {
    matches!(
        job.state,
        JobState::Paused | JobState::Cancelled | JobState::Failed
    )
}

/// Remembers the jobs in these states about which another site may not know all.
fn look_back(context: &Context, states: &[JobState]) {
    let filter = JobFilter {
        states: states.to_vec(),
        ..JobFilter::default()
    };
    let looked = each_job(&context.this.reader(), filter, JOBS_MAX, &mut |job| {
        if !is_old(&context.this, &job) && route::may_be_elsewhere(&context.this, &job) {
            context.notices.add(&job.id);
        }
        Ok(true)
    });
    if let Err(error) = looked {
        context.this.log(&format!(
            "jobs that were stopped before this start are not handled now: {error}"
        ));
    }
}

/// Whether no access for the job can be left.
pub(super) fn is_old(this: &ThisNode, job: &Job) -> bool {
    job.since.after(millis(GRANT_FOR)) < this.now()
}

/// Sends the notices of all jobs to their sites. A site that does not answer is asked for one job only.
fn notify_all(context: &Context) {
    let mut away = HashSet::new();
    for id in context.notices.all() {
        if context.this.is_stopping() {
            return;
        }
        // An attempt that ends makes its own report, and that comes first.
        if context.live.contains(&id) {
            continue;
        }
        *context.notices.asked() = Some(id.clone());
        match notify::notify(context, &id, &mut away) {
            Ok(true) => context.notices.remove(&id),
            Ok(false) => {}
            Err(error) => context.this.log(&format!("job {id}: {error}")),
        }
        *context.notices.asked() = None;
    }
}
