//! The thread that applies the state to jobs: it stops attempts whose claim has ended, and starts those that are due.
//! Changes no job for a user, and chooses by `order` alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_run::pulse;
use godwit_state::{
    Effect, Event, Finish, Follower, Job, JobOp, JobQueue, Op, Outcome, ProposeError, Reader,
    Reason, Replica, Timestamp,
};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::attempt::live::Live;
use crate::attempt::{Claim, after_crash, start};
use crate::basis::ends::sites_of;
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;
use crate::basis::words::denied;
use crate::basis::zone::UnknownZones;
use crate::queue::Queue;
use crate::queue::away;
use crate::queue::flow;
use crate::queue::kin;
use crate::queue::merging;
use crate::queue::nodes::{NO_NODE, Nodes, Seen};
use crate::queue::order::{self, ActiveJob, Rules};
use crate::queue::prune::Pruner;
use crate::queue::relay;
use crate::queue::rules::Policy;
use crate::queue::schedule;
use crate::rights::access::{self, RightsAtStart};

/// The longest sleep: time windows of limits begin within it, and a clock that was set is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Changes within this time are handled together.
const GATHER: Duration = Duration::from_millis(20);

/// The same while the node runs as many jobs as it may. A pass reads the whole queue, and can begin none.
const GATHER_WHILE_FULL: Duration = Duration::from_millis(180);

/// Changes by which no job ends.
const FREES_NO_PLACE: [&str; 4] = ["job.submit", "job.report", "job.placed", "job.explain"];

/// While a worker of a divided job ends.
const WORKER_ENDS: Duration = Duration::from_millis(100);

/// A node that has been cut off from the cluster for this time stops the attempts of merged sources.
const CUT_OFF: Duration = Duration::from_secs(10);

/// Pause after the state could not be read or changed.
const PAUSE: Duration = Duration::from_secs(1);

/// Waiting jobs that one pass reads, and whose reasons it notes.
const WAITING_MAX: usize = 256;

/// Jobs of one owner among them where none is started.
const WAITING_EACH: u32 = 64;

/// Reasons that one pass writes down.
const EXPLAINED_MAX: usize = 32;

/// The same in a pass that starts jobs: each is a command, and the next jobs wait for it.
const EXPLAINED_BESIDE_STARTS: usize = 4;

/// Body of the thread.
pub(crate) fn run(queue: &Queue) {
    let runtime = match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            queue
                .this
                .log(&format!("jobs cannot be run: {error}; restart the node"));
            return;
        }
    };
    let reader = queue.this.reader();
    let mut follower = queue.this.replica.follow(reader.last_event().unwrap_or(0));
    let mut complained = false;
    let mut history = Pruner::new(queue.this.now());
    let mut seen = Seen::default();
    let mut zones = UnknownZones::default();
    let mut restarted = false;
    while !queue.this.is_stopping() {
        let ready = match restarted {
            true => Ok(()),
            // Other nodes of a cluster may have to be started before the state takes this.
            false => restart(queue),
        };
        if !restarted && ready.is_ok() {
            after_crash::recover(&queue.attempts.reports);
        }
        restarted = restarted || ready.is_ok();
        let passed = ready
            .and_then(|()| history.prune(&queue.this, queue.keep_history))
            .and_then(|()| zones.report(&reader, &*queue.this.log))
            .and_then(|()| pass(queue, &reader, &mut seen));
        let sleep = match passed {
            Ok(sleep) => {
                complained = false;
                sleep
            }
            Err(error) => {
                if !complained {
                    queue.this.log(&format!("jobs wait: {error}"));
                }
                complained = true;
                PAUSE
            }
        };
        runtime.block_on(wait(queue, &mut follower, sleep));
    }
}

/// Waits for a change of the state, or until the time has passed.
async fn wait(queue: &Queue, follower: &mut Follower, sleep: Duration) {
    let sleep = sleep.min(SLEEP_MAX);
    let replica: &Replica = &queue.this.replica;
    match timeout(sleep, follower.next()).await {
        Err(_elapsed) => return,
        Ok(Err(_)) => {
            // Events were missed: the pass reads the whole state anyway.
            let last = replica.reader().last_event().unwrap_or(0);
            *follower = replica.follow(last);
            tokio::time::sleep(PAUSE).await;
            return;
        }
        Ok(Ok(events)) => {
            let is_full = queue.attempts.reports.live.count() >= queue.jobs_max;
            if is_full && events.iter().all(frees_no_place) {
                let within = GATHER_WHILE_FULL.min(sleep);
                // After this time, the pass notes why the new jobs wait.
                let _ = timeout(within, next_free_place(follower)).await;
            }
        }
    }
    tokio::time::sleep(GATHER).await;
    // The same pass handles the changes since.
    while follower.look().is_ok_and(|events| !events.is_empty()) {}
}

/// Waits for a change that may let a job begin at a node without a free place.
async fn next_free_place(follower: &mut Follower) {
    while let Ok(events) = follower.next().await {
        if !events.iter().all(frees_no_place) {
            return;
        }
    }
}

/// Whether no job ends or stops by this change.
fn frees_no_place(event: &Event) -> bool {
    FREES_NO_PLACE.contains(&event.change.as_str())
}

/// Returns the jobs that an earlier start of this node ran to the queue.
fn restart(queue: &Queue) -> Result<(), JobsError> {
    let op = Op::Restart(queue.runner.clone());
    queue.this.propose(op)?;
    Ok(())
}

/// Work that one node does for the cluster: ends jobs whose deadline has passed, and submits jobs of schedules and runs of flows. Returns the
/// time of the next tick or run.
fn lead(queue: &Queue, reader: &Reader, at: Timestamp) -> Result<Option<Timestamp>, JobsError> {
    for job in JobQueue(reader).expired(at)? {
        settle(queue.this.propose_at(at, Op::Job(job.id, JobOp::Expire)))?;
    }
    let tick = schedule::fire(queue, reader, at)?;
    let run = flow::run(queue, reader, at)?;
    Ok([tick, run].into_iter().flatten().min())
}

/// Applies the state; returns the time until the next event is due.
pub(crate) fn pass(queue: &Queue, reader: &Reader, seen: &mut Seen) -> Result<Duration, JobsError> {
    let at = queue.this.now();
    let leads = queue.this.replica.is_leader();
    let policy = Policy::read(reader, at)?;
    let Queue { this, attempts, .. } = queue;
    let nodes = Nodes::read(reader, &this.name, &this.exports)?;
    let running = follow_up(queue, reader, &policy, &nodes)?;
    let divided = &attempts.local.divided;
    let is_ending = divided
        .workers
        .follow_up(divided, reader, nodes.is_draining())?;
    // Jobs whose owner lost a right have stopped before the work for the cluster begins.
    let tick = match leads {
        true => lead(queue, reader, at)?,
        false => None,
    };
    if nodes.is_draining() {
        if leads {
            explain_no_node(
                this,
                &JobQueue(reader).due(at, WAITING_EACH, WAITING_MAX)?,
                &nodes,
            )?;
        }
        return drain(this, !running.is_empty());
    }
    // For each owner: as many jobs as could be started, and some jobs whose reason is shown.
    let each = u32::try_from(queue.jobs_max.saturating_add(EXPLAINED_MAX)).unwrap_or(u32::MAX);
    let mut due = JobQueue(reader).due(at, each, WAITING_MAX)?;
    // Jobs that waited for a relay keep their turn.
    due.sort_by(|a, b| (b.priority, a.created, &a.id).cmp(&(a.priority, b.created, &b.id)));
    due.extend(with_room(queue, reader, at)?);
    due.extend(queue.woken.jobs(reader, at)?);
    // Skips claimed jobs that do not show as running yet.
    let (live, site) = (&attempts.reports.live, &attempts.site);
    due.retain(|job| !live.contains(&job.id) && !site.notices.is_asking(&job.id));
    due.retain(|job| !site.unseen.contains(&job.id));
    let mut due = relay::without_strays(queue, reader, due)?;
    if leads {
        explain_no_node(this, &due, &nodes)?;
    }
    due.retain(|job| nodes.can_run(job));
    due.retain(|job| !away::keeps_waiting(this, &*queue.exported, job));
    let parted = merging::part(reader, due, (&this.name, at), &|id| live.contains(id))?;
    let (due, whole) = relay::sift(queue, reader, &nodes, parted.free)?;
    let kinship = kin::read(reader, &this.name, &due)?;
    let (due, again) = seen.sift(due, &nodes, (&kinship, running.len()), Instant::now());
    let elsewhere: Vec<ActiveJob> = nodes.elsewhere().cloned().collect();
    let rules = Rules {
        parents: parted.parents,
        ..policy.rules(queue.jobs_max)
    };
    let plan = order::choose(due, &running, &elsewhere, &rules);
    let running = [running, elsewhere].concat();
    let explained = match plan.start.is_empty() {
        true => EXPLAINED_MAX,
        false => EXPLAINED_BESIDE_STARTS,
    };
    for job in plan.start {
        start(queue, job, &policy, &running)?;
    }
    let new = plan
        .wait
        .into_iter()
        .chain(parted.waiting)
        .filter(|(job, why)| job.reason.as_ref() != Some(why));
    for (job, reason) in new.take(explained) {
        let explain = JobOp::Explain {
            seen: job.epoch,
            reason,
        };
        settle(this.propose_at(at, Op::Job(job.id, explain)))?;
    }
    let next = [
        tick,
        JobQueue(reader).next_due(at)?,
        JobQueue(reader).next_deadline()?,
    ];
    Ok(next
        .into_iter()
        .flatten()
        .map(|time| until(time, at))
        .chain(again)
        .chain(whole)
        .chain(is_ending.then_some(WORKER_ENDS))
        .min()
        .unwrap_or(SLEEP_MAX))
}

/// Notes the reason for jobs that no node of the cluster takes.
fn explain_no_node(this: &ThisNode, due: &[Job], nodes: &Nodes) -> Result<(), JobsError> {
    let unable = due.iter().filter_map(|job| Some((job, nodes.nobody(job)?)));
    let is_reported = |job: &Job, why: &Reason| why.code == NO_NODE && away::is_reported(job);
    let new =
        unable.filter(|(job, why)| job.reason.as_ref() != Some(why) && !is_reported(job, why));
    for (job, reason) in new.take(EXPLAINED_MAX) {
        let explain = JobOp::Explain {
            seen: job.epoch,
            reason,
        };
        settle(this.propose(Op::Job(job.id.clone(), explain)))?;
    }
    Ok(())
}

/// Returns the jobs of this draining node to the queue; the next pass stops their attempts.
fn drain(this: &ThisNode, runs: bool) -> Result<Duration, JobsError> {
    if runs {
        settle(this.propose(Op::Lost(this.name.clone())))?;
        return Ok(PAUSE);
    }
    Ok(SLEEP_MAX)
}

/// The jobs that waited for space at an export of this node and fit now, before their next attempt is due.
fn with_room(queue: &Queue, reader: &Reader, at: Timestamp) -> Result<Vec<Job>, JobsError> {
    let live = &queue.attempts.reports.live;
    let short = live.short();
    if short.is_empty() {
        return Ok(Vec::new());
    }
    let mut fitting = Vec::new();
    for (id, shortage) in short {
        let job = reader.job(&id)?.filter(|job| {
            let reason = job.reason.as_ref();
            job.state.waits() && reason.is_some_and(|reason| reason.code == FailureCode::NoSpace)
        });
        let (Some(job), Some(path)) = (job, shortage.path.clone()) else {
            live.fits(&id);
            continue;
        };
        let exports = Arc::clone(&queue.exported);
        let place = path.clone();
        let look = move || exports.free_bytes(&place);
        let free = queue.rooms.free(&path, look);
        let is_due = job.next_attempt.is_none_or(|next| next <= at);
        if !is_due && free.is_some_and(|free| shortage.is_over(free)) {
            fitting.push(job);
        }
    }
    Ok(fitting)
}

/// Stops attempts whose claim has ended, and gives the others their limits.
fn follow_up(
    queue: &Queue,
    reader: &Reader,
    policy: &Policy,
    nodes: &Nodes,
) -> Result<Vec<ActiveJob>, JobsError> {
    let mut running = Vec::new();
    let mut claimed: Vec<(Job, RightsAtStart)> = Vec::new();
    let reports = &queue.attempts.reports;
    let live = &reports.live;
    for (id, attempt) in live.all() {
        match reader.job(&id)? {
            Some(job) if job.epoch == attempt.epoch && job.state.moves() => {
                claimed.push((job, attempt.at_start));
            }
            job => {
                if job.is_some_and(|job| job.epoch != attempt.epoch) {
                    attempt.fence.ends();
                }
                attempt.control.cancel();
            }
        }
        // An attempt that is stopping keeps its place until it has stopped.
        running.push(ActiveJob {
            owner: attempt.owner,
            sites: attempt.sites,
        });
    }
    // Limits apply to the whole cluster.
    let all: Vec<ActiveJob> = running.iter().chain(nodes.elsewhere()).cloned().collect();
    let is_led = queue.this.replica.readiness().is_led_within(CUT_OFF);
    for (job, at_start) in claimed {
        // It may have been stopped, and the other nodes wait for a time only.
        if !is_led && merging::is_merged(reader, &job)? {
            live.leave(&job.id);
            continue;
        }
        if away::leaves(reports, &*queue.exported, reader, &job)?
            || relay::ends_stray(queue, reader, &job)?
            || relay::leaves(queue, reader, &job)?
        {
            continue;
        }
        let rights = &queue.rights;
        let why = access::denied(rights, &job).or_else(|| at_start.lost(rights, &job));
        if let Some(why) = why {
            end(&queue.this, live, &job, &why, denied(&why))?;
            continue;
        }
        let sites = sites_of(&job);
        let limit = policy.rate(job.limit, &job.owner, &sites, &all);
        live.set_limit(&job.id, limit);
        let ahead = policy.ahead(job.limit, &job.owner, &sites, &all);
        live.set_ahead(&job.id, ahead);
    }
    Ok(running)
}

/// Ends a running job that may not continue. The next pass stops its attempt, because the claim has ended.
pub(crate) fn end(
    this: &ThisNode,
    live: &Live,
    job: &Job,
    why: &str,
    reason: Reason,
) -> Result<(), JobsError> {
    this.log(&format!("job {}: stopped: {why}", job.id));
    let progress = live.progress(&job.id);
    let finish = JobOp::Finish(Box::new(Finish {
        epoch: job.epoch,
        outcome: Outcome::Failed,
        reason: Some(reason),
        summary: "{}".to_owned(),
        bytes: progress.as_ref().map_or(0, |progress| progress.bytes),
        files: progress.as_ref().map_or(0, |progress| progress.files),
        failures: Vec::new(),
    }));
    settle(this.propose(Op::Job(job.id.clone(), finish))).map(drop)
}

/// Claims a job and starts its attempt.
fn start(queue: &Queue, job: Job, policy: &Policy, running: &[ActiveJob]) -> Result<(), JobsError> {
    let claim = JobOp::Claim {
        runner: queue.runner.clone(),
        seen: job.epoch,
    };
    let claim = Op::Job(job.id.clone(), claim);
    queue.attempts.reports.live.fits(&job.id);
    let stops = pulse::stops();
    let Some(Effect::Job { epoch, .. }) = settle(queue.this.propose(claim))? else {
        // The job was changed meanwhile; the next pass sees that.
        return Ok(());
    };
    let sites = sites_of(&job);
    let mut with = running.to_vec();
    with.push(ActiveJob {
        owner: job.owner.clone(),
        sites: sites.clone(),
    });
    let limit = policy.rate(job.limit, &job.owner, &sites, &with);
    let claim = Claim { epoch, stops };
    start::start(&queue.attempts, job, claim, sites, limit);
    Ok(())
}

/// A refusal means that the job changed meanwhile, which is no error.
fn settle(done: Result<godwit_state::Done, ProposeError>) -> Result<Option<Effect>, JobsError> {
    match done {
        Ok(done) => Ok(Some(done.effect)),
        Err(ProposeError::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn until(time: Timestamp, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(time.0.saturating_sub(at.0)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use godwit_state::JobState;

    use super::*;

    #[test]
    fn only_changes_that_end_no_job_free_no_place() {
        let reason = Reason::new(FailureCode::JobsOfNode, "Full.");
        let (epoch, seen) = (1, 1);
        let (state, into, tag) = (JobState::Running, false, 1);
        let is_named = |op: JobOp| {
            let action = Op::Job("job".to_owned(), op).action();
            FREES_NO_PLACE.contains(&action.as_str())
        };
        assert!(is_named(JobOp::Explain { seen, reason }));
        assert!(is_named(JobOp::Placed { epoch, into, tag }));
        let reason = None;
        assert!(is_named(JobOp::Report {
            epoch,
            state,
            reason
        }));
        assert!(!is_named(JobOp::Pause) && !is_named(JobOp::Drained));
    }
}
