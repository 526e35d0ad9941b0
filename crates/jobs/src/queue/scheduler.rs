//! The thread that applies the state to jobs: it stops attempts whose claim has ended, and starts those that are due.
//! Changes no job for a user, and chooses by `order` alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_run::pulse;
use godwit_state::{
    Actor, Command, Effect, Finish, Follower, Job, JobOp, Op, Outcome, ProposeError, Reader,
    Reason, Timestamp,
};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::Shared;
use crate::attempt::{self, Claim};
use crate::basis::error::JobsError;
use crate::basis::zone::UnknownZones;
use crate::queue::away;
use crate::queue::nodes::{NO_NODE, Nodes, Seen};
use crate::queue::order::{self, Running};
use crate::queue::prune::Pruner;
use crate::queue::rules::Policy;
use crate::queue::schedule;
use crate::rights::access;
use crate::rights::access::Sight;

/// The longest sleep: time windows of limits begin within it, and a clock that was set is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Changes within this time are handled together.
const GATHER: Duration = Duration::from_millis(20);

/// While a worker of a divided job ends.
const WORKER_ENDS: Duration = Duration::from_millis(100);

/// Pause after the state could not be read or changed.
const PAUSE: Duration = Duration::from_secs(1);

/// Waiting jobs that one pass reads, and whose reasons it notes.
const WAITING_MAX: usize = 256;

/// Jobs of one owner among them where none is started.
const WAITING_EACH: u32 = 64;

/// Reasons that one pass writes down.
const EXPLAINED_MAX: usize = 32;

/// Body of the thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let runtime = match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            (shared.config.log)(&format!("jobs cannot be run: {error}; restart the node"));
            return;
        }
    };
    let reader = shared.replica.reader();
    let mut follower = shared.replica.follow(reader.last_event().unwrap_or(0));
    let mut complained = false;
    let mut history = Pruner::new(shared.now());
    let mut seen = Seen::default();
    let mut zones = UnknownZones::default();
    let mut restarted = false;
    while !shared.stopping.load(Ordering::SeqCst) {
        let ready = match restarted {
            true => Ok(()),
            // Other nodes of a cluster may have to be started before the state takes this.
            false => restart(shared),
        };
        if !restarted && ready.is_ok() {
            attempt::after_crash::recover(shared);
        }
        restarted = restarted || ready.is_ok();
        let passed = ready
            .and_then(|()| history.prune(shared))
            .and_then(|()| zones.tell(&reader, &*shared.config.log))
            .and_then(|()| pass(shared, &reader, &mut seen));
        let sleep = match passed {
            Ok(sleep) => {
                complained = false;
                sleep
            }
            Err(error) => {
                if !complained {
                    (shared.config.log)(&format!("jobs wait: {error}"));
                }
                complained = true;
                PAUSE
            }
        };
        runtime.block_on(wait(shared, &mut follower, sleep));
    }
}

/// Waits for a change of the state, or until the time has passed.
async fn wait(shared: &Shared, follower: &mut Follower, sleep: Duration) {
    let woken = timeout(sleep.min(SLEEP_MAX), follower.next()).await;
    if let Ok(Err(_)) = woken {
        // Events were missed: the pass reads the whole state anyway.
        let last = shared.replica.reader().last_event().unwrap_or(0);
        *follower = shared.replica.follow(last);
        tokio::time::sleep(PAUSE).await;
    } else if woken.is_ok() {
        tokio::time::sleep(GATHER).await;
        // The same pass handles the changes since.
        while follower.look().is_ok_and(|events| !events.is_empty()) {}
    }
}

/// Returns the jobs that an earlier start of this node ran to the queue.
fn restart(shared: &Shared) -> Result<(), JobsError> {
    let op = Op::Restart(shared.runner.clone());
    let command = Command::new(shared.now(), actor(shared), op);
    shared.replica.propose_blocking(command)?;
    Ok(())
}

/// Work that one node does for the cluster: ends jobs whose deadline has passed, and submits jobs of schedules. Returns the time of the next deadline or tick.
fn lead(shared: &Shared, reader: &Reader, at: Timestamp) -> Result<Option<Timestamp>, JobsError> {
    for job in reader.expired_jobs(at)? {
        let expire = Command::new(at, actor(shared), Op::Job(job.id, JobOp::Expire));
        settle(shared.replica.propose_blocking(expire))?;
    }
    schedule::fire(shared, reader, at)
}

/// Applies the state; returns the time until the next event is due.
fn pass(shared: &Arc<Shared>, reader: &Reader, seen: &mut Seen) -> Result<Duration, JobsError> {
    let at = shared.now();
    let leads = shared.replica.is_leader();
    let tick = match leads {
        true => lead(shared, reader, at)?,
        false => None,
    };
    let policy = Policy::read(reader, at)?;
    let config = &shared.config;
    let nodes = Nodes::read(reader, &config.node, &config.exports)?;
    let running = follow_up(shared, reader, &policy, &nodes)?;
    let is_ending = shared
        .workers
        .follow_up(shared, reader, nodes.is_draining())?;
    if nodes.is_draining() {
        if leads {
            explain_nobody(
                shared,
                &reader.due_jobs(at, WAITING_EACH, WAITING_MAX)?,
                &nodes,
            )?;
        }
        return drain(shared, !running.is_empty());
    }
    // Of each owner as many as could be started, and some whose reason is shown.
    let each =
        u32::try_from(shared.config.jobs_max.saturating_add(EXPLAINED_MAX)).unwrap_or(u32::MAX);
    let mut due = reader.due_jobs(at, each, WAITING_MAX)?;
    due.extend(with_room(shared, reader, at)?);
    due.extend(shared.woken.jobs(reader, at)?);
    // Skips claimed jobs that do not show as running yet.
    due.retain(|job| !shared.live.contains(&job.id) && !shared.notices.is_asking(&job.id));
    due.retain(|job| !shared.unseen.contains(&job.id));
    if leads {
        explain_nobody(shared, &due, &nodes)?;
    }
    due.retain(|job| nodes.can_run(job));
    due.retain(|job| !away::keeps_waiting(shared, job));
    let (due, again) = seen.sift(due, &nodes, running.len(), Instant::now());
    let elsewhere: Vec<Running> = nodes.elsewhere().cloned().collect();
    let rules = policy.rules(shared.config.jobs_max);
    let plan = order::choose(due, &running, &elsewhere, &rules);
    let running = [running, elsewhere].concat();
    for job in plan.start {
        start(shared, job, &policy, &running)?;
    }
    let new = plan
        .wait
        .into_iter()
        .filter(|(job, why)| job.reason.as_ref() != Some(why));
    for (job, reason) in new.take(EXPLAINED_MAX) {
        let explain = JobOp::Explain {
            seen: job.epoch,
            reason,
        };
        let command = Command::new(at, actor(shared), Op::Job(job.id, explain));
        settle(shared.replica.propose_blocking(command))?;
    }
    let next = [tick, reader.next_due(at)?, reader.next_deadline()?];
    Ok(next
        .into_iter()
        .flatten()
        .map(|time| until(time, at))
        .chain(again)
        .chain(is_ending.then_some(WORKER_ENDS))
        .min()
        .unwrap_or(SLEEP_MAX))
}

/// Notes the reason for jobs that no node of the cluster takes.
fn explain_nobody(shared: &Shared, due: &[Job], nodes: &Nodes) -> Result<(), JobsError> {
    let unable = due.iter().filter_map(|job| Some((job, nodes.nobody(job)?)));
    let is_told = |job: &Job, why: &Reason| why.code == NO_NODE && away::is_told(job);
    let new = unable.filter(|(job, why)| job.reason.as_ref() != Some(why) && !is_told(job, why));
    for (job, reason) in new.take(EXPLAINED_MAX) {
        let explain = JobOp::Explain {
            seen: job.epoch,
            reason,
        };
        let command = Command::new(
            shared.now(),
            actor(shared),
            Op::Job(job.id.clone(), explain),
        );
        settle(shared.replica.propose_blocking(command))?;
    }
    Ok(())
}

/// Returns the jobs of this draining node to the queue; the next pass stops their attempts.
fn drain(shared: &Shared, runs: bool) -> Result<Duration, JobsError> {
    if runs {
        let lost = Op::Lost(shared.config.node.clone());
        let command = Command::new(shared.now(), actor(shared), lost);
        settle(shared.replica.propose_blocking(command))?;
        return Ok(PAUSE);
    }
    Ok(SLEEP_MAX)
}

/// The jobs that waited for space at an export of this node and fit now, before their next attempt is due.
fn with_room(shared: &Shared, reader: &Reader, at: Timestamp) -> Result<Vec<Job>, JobsError> {
    let short = shared.live.short();
    if short.is_empty() {
        return Ok(Vec::new());
    }
    let mut fitting = Vec::new();
    for (id, shortage) in short {
        let job = reader.job(&id)?.filter(|job| {
            let reason = job.reason.as_ref();
            job.state.waits() && reason.is_some_and(|reason| reason.code == FailureCode::NoSpace)
        });
        let Some(job) = job else {
            shared.live.fits(&id);
            continue;
        };
        let exports = Arc::clone(&shared.config.exported);
        let path = shortage.path.clone();
        let look = move || exports.free_bytes(&path);
        let free = shared.rooms.free(&shortage.path, look);
        let is_due = job.next_attempt.is_none_or(|next| next <= at);
        if !is_due && free.is_some_and(|free| shortage.is_over(free)) {
            fitting.push(job);
        }
    }
    Ok(fitting)
}

/// Stops attempts whose claim has ended, and gives the others their limits.
fn follow_up(
    shared: &Shared,
    reader: &Reader,
    policy: &Policy,
    nodes: &Nodes,
) -> Result<Vec<Running>, JobsError> {
    let mut running = Vec::new();
    let mut claimed: Vec<(Job, Sight)> = Vec::new();
    for (id, attempt) in shared.live.all() {
        match reader.job(&id)? {
            Some(job) if job.epoch == attempt.epoch && job.state.moves() => {
                claimed.push((job, attempt.sight));
            }
            job => {
                if job.is_some_and(|job| job.epoch != attempt.epoch) {
                    attempt.fence.ends();
                }
                attempt.control.cancel();
            }
        }
        // One that still stops takes its place until it has.
        running.push(Running {
            owner: attempt.owner,
            sites: attempt.sites,
        });
    }
    // Limits apply to the whole cluster.
    let all: Vec<Running> = running.iter().chain(nodes.elsewhere()).cloned().collect();
    for (job, sight) in claimed {
        if away::leaves(shared, reader, &job)? {
            continue;
        }
        let denied = access::denied(shared, &job).or_else(|| sight.lost(shared, &job));
        if let Some(why) = denied {
            end(shared, &job, &why, attempt::denied(&why))?;
            continue;
        }
        let sites = order::sites_of(&job);
        let limit = policy.rate(job.limit, &job.owner, &sites, &all);
        shared.live.set_limit(&job.id, limit);
        let ahead = policy.ahead(job.limit, &job.owner, &sites, &all);
        shared.live.set_ahead(&job.id, ahead);
    }
    Ok(running)
}

/// Ends a running job that may not continue. The next pass stops its attempt, because the claim has ended.
pub(crate) fn end(shared: &Shared, job: &Job, why: &str, reason: Reason) -> Result<(), JobsError> {
    (shared.config.log)(&format!("job {}: stopped: {why}", job.id));
    let progress = shared.live.progress(&job.id);
    let finish = JobOp::Finish(Box::new(Finish {
        epoch: job.epoch,
        outcome: Outcome::Failed,
        reason: Some(reason),
        summary: "{}".to_owned(),
        bytes: progress.as_ref().map_or(0, |progress| progress.bytes),
        files: progress.as_ref().map_or(0, |progress| progress.files),
        failures: Vec::new(),
    }));
    let command = Command::new(shared.now(), actor(shared), Op::Job(job.id.clone(), finish));
    settle(shared.replica.propose_blocking(command)).map(drop)
}

/// Claims a job and starts its attempt.
fn start(
    shared: &Arc<Shared>,
    job: Job,
    policy: &Policy,
    running: &[Running],
) -> Result<(), JobsError> {
    let claim = JobOp::Claim {
        runner: shared.runner.clone(),
        seen: job.epoch,
    };
    let command = Command::new(shared.now(), actor(shared), Op::Job(job.id.clone(), claim));
    shared.live.fits(&job.id);
    let stops = pulse::stops();
    let Some(Effect::Job { epoch, .. }) = settle(shared.replica.propose_blocking(command))? else {
        // The job was changed meanwhile; the next pass sees that.
        return Ok(());
    };
    let sites = order::sites_of(&job);
    let mut with = running.to_vec();
    with.push(Running {
        owner: job.owner.clone(),
        sites: sites.clone(),
    });
    let limit = policy.rate(job.limit, &job.owner, &sites, &with);
    let claim = Claim { epoch, stops };
    attempt::start(shared, job, claim, sites, limit);
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

pub(crate) fn actor(shared: &Shared) -> Actor {
    Actor::node(shared.config.node.clone())
}

fn until(time: Timestamp, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(time.0.saturating_sub(at.0)).unwrap_or(0))
}
