//! Jobs that this node runs for other nodes. The node that asked, or one that it let in for the job, starts, follows and steers the job.
//! Moves no data, and checks no grant itself: the caller that serves the question supplies the rights of the asker.
//!
//! A job for another node is a job like any other, whose owner is `site:IDENTITY` and whose
//! idempotency key is the asker's id of it. So the asker finds the job by that id even after a
//! crash, and the limits of this node apply to the job.

mod disclosure;
mod submission;

use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, AnswerJobs, JobSeen, MayUse, Question, ReachSite, Refusal, RunJob, RunningJob,
    SteerJob, SteerVerb, code,
};
use godwit_api::grant::Mandate;
use godwit_api::rest::{ChangeJob, JobView, is_request_id};
use godwit_state::{Actor, Fault, Job, JobState};

use crate::asking::manifest;
use crate::asking::reach::dial_again;
use crate::basis::error::refuse;
use crate::basis::owners::{actor, key, owner};
use crate::basis::spec;
use crate::rights::asker::{acts_for, check_kept_rights, check_left, check_rights};
use crate::rights::grants;
use crate::service::Jobs;
use submission::{PRIORITY_MAX, check_room, check_room_again, stored, submit_for};

/// Answers other nodes about the jobs that this node runs for them.
pub struct Guests(Jobs);

impl Guests {
    /// Those among these jobs.
    #[must_use]
    pub fn new(jobs: Jobs) -> Self {
        Self(jobs)
    }
}

impl AnswerJobs for Guests {
    fn answer(
        &self,
        asker: &str,
        mandate: Option<&Mandate>,
        question: &Question,
        may: &MayUse<'_>,
    ) -> Result<Answer, Refusal> {
        let jobs = &self.0;
        match question {
            Question::Reach(wish) => {
                // Nodes that an asker has admitted share its bound of dials.
                let giver = mandate.map_or(asker, |mandate| mandate.asker.as_str());
                self.reach(giver, wish, may).map(|()| Answer::Done {})
            }
            Question::Grant(wish) => {
                check_left(&jobs.parts.rights, asker, &wish.job)?;
                grants::grant(&jobs.parts.rights, asker, mandate, wish, may)
            }
            Question::Revoke { job, keep } => {
                check_left(&jobs.parts.rights, asker, job)?;
                let of = acts_for(&jobs.parts.rights, asker, mandate, job)?;
                grants::revoke(&jobs.parts.rights, asker, of, job, keep)
            }
            Question::Run(wish) if mandate.is_some() => {
                let of = acts_for(&jobs.parts.rights, asker, mandate, &wish.job)?;
                let found = known(jobs, of, &wish.job)?;
                go_on(jobs, of, Some(asker), wish, found)
            }
            Question::Run(wish) => run(jobs, asker, wish, may),
            Question::Job { job } => {
                let asker = acts_for(&jobs.parts.rights, asker, mandate, job)?;
                answer_about(jobs, &known(jobs, asker, job)?.id)
            }
            Question::Running {} => Ok(Answer::Running(running(jobs))),
            Question::Host {} => {
                let figures = jobs.parts.asking.hosts.own();
                Ok(Answer::Host(disclosure::host(figures)))
            }
            Question::Steer(wish) => {
                let of = acts_for(&jobs.parts.rights, asker, mandate, &wish.job)?;
                steer(jobs, of, mandate.map(|_| asker), wish)
            }
            Question::Past(wish) => {
                let is_of_cluster = mandate.is_none() && is_of_cluster(jobs, asker, &wish.job)?;
                let asker = acts_for(&jobs.parts.rights, asker, mandate, &wish.job)?;
                let id = match is_of_cluster {
                    true => wish.job.clone(),
                    false => known(jobs, asker, &wish.job)?.id,
                };
                let directory = &jobs.parts.this.directory;
                let past =
                    godwit_history::read_past(directory, &id, wish.attempt, wish.line, wish.sample);
                let past = past.map_err(|error| refuse(&error.into()))?;
                Ok(Answer::Past(match is_of_cluster {
                    true => past,
                    false => disclosure::past(past),
                }))
            }
            Question::Manifest(wish) => match is_of_cluster(jobs, asker, &wish.job)? {
                true => {
                    let chunk = manifest::chunk(&jobs.parts.this.directory, wish);
                    chunk.map(Answer::Manifest).map_err(|error| refuse(&error))
                }
                false => Err(Refusal::new(
                    code::NO_SUCH_JOB,
                    "only nodes of the same cluster may ask for manifests, and only for manifests of their own jobs",
                )),
            },
            _ => Err(Refusal::new(
                code::UNSUPPORTED,
                "this question is not about jobs",
            )),
        }
    }
}

impl Guests {
    /// Whether the other end of a job is reached from here: for an asker with the rights that the job needs here.
    fn reach(&self, asker: &str, wish: &ReachSite, may: &MayUse<'_>) -> Result<(), Refusal> {
        let Self(jobs) = self;
        if wish.paths.is_empty() {
            let message = "paths: name the paths that the job reads or writes here; if the asking node has an older version, update it";
            return Err(Refusal::new(code::INVALID, message));
        }
        grants::check_paths(&wish.paths)?;
        let now = jobs.parts.this.now();
        for path in &wish.paths {
            may(path, wish.write, now)?;
        }
        jobs.parts.asking.reached_for(asker, &wish.peer)
    }
}

/// How long the answer to an asker that stops its job waits for the attempt to end.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// The same, with the node that acts for the asker of a job, if there is one. An audit line names both: it counts as the asker's, and the
/// number of lines of one asker is bounded.
fn for_asker(asker: &str, mate: Option<&str>) -> Actor {
    Actor {
        remote: mate.map(str::to_owned),
        ..actor(asker)
    }
}

fn find(jobs: &Jobs, asker: &str, job: &str) -> Result<Option<Job>, Refusal> {
    let reader = jobs.parts.this.reader();
    let found = reader.job_by_key(&owner(asker), &key(job));
    found.map_err(|error| refuse(&error.into()))
}

/// Whether the asker is a node of this cluster, and the id names a job of this cluster.
fn is_of_cluster(jobs: &Jobs, asker: &str, job: &str) -> Result<bool, Refusal> {
    // The asker may have been removed from the cluster long ago.
    if jobs.replica().readiness().is_outdated() {
        return Ok(false);
    }
    let found = jobs.parts.this.reader().job(job);
    let unread = |error: Fault| refuse(&error.into());
    let found = found.map_err(unread)?.is_some();
    Ok(found && jobs.parts.rights.cluster.has(asker).map_err(unread)?)
}

fn known(jobs: &Jobs, asker: &str, job: &str) -> Result<Job, Refusal> {
    find(jobs, asker, job)?.ok_or_else(|| {
        Refusal::new(
            code::NO_SUCH_JOB,
            format!("no job runs here for job {job} of {asker}"),
        )
    })
}

/// Runs a job for the asker, or finds the running one.
fn run(jobs: &Jobs, asker: &str, wish: &RunJob, may: &MayUse<'_>) -> Result<Answer, Refusal> {
    grants::check_job(&wish.job)?;
    if wish.request.as_ref().is_some_and(|id| !is_request_id(id)) {
        return Err(Refusal::new(code::INVALID, "request: not a request id"));
    }
    spec::check_source_count(wish.new.sources.len())
        .map_err(|what| Refusal::new(code::INVALID, what))?;
    let stored = stored(&jobs.parts.this, asker, wish)?;
    check_rights(&stored.new, jobs.parts.this.now(), may)?;
    if let Some(found) = find(jobs, asker, &wish.job)? {
        return go_on(jobs, asker, None, wish, found);
    }
    check_once(jobs, asker, &wish.job)?;
    let _turn = jobs.turn("jobs", asker);
    check_room(&jobs.parts.this.reader(), &jobs.parts.records, asker)?;
    take_change(jobs, asker)?;
    let id = submit_for(&jobs.parts.this, asker, wish, stored).map_err(|error| refuse(&error))?;
    let request = wish.request.as_deref();
    let request = request.map_or_else(String::new, |request| format!(", request {request}"));
    jobs.parts.this.log(&format!(
        "job {id}: runs for job {} of {asker}{request}",
        wish.job
    ));
    answer_about(jobs, &id)
}

/// Has an existing job run again, if the asker wants that. The attempt checks the rights of the asker first.
fn go_on(
    jobs: &Jobs,
    asker: &str,
    mate: Option<&str>,
    wish: &RunJob,
    found: Job,
) -> Result<Answer, Refusal> {
    let by = || for_asker(asker, mate);
    let state = found.state;
    if state != JobState::Complete {
        check_kept_rights(&jobs.parts.this.reader(), &found, wish)?;
    }
    if wish.again {
        let is_paused = state == JobState::Paused;
        if is_paused || (state.ended() && state != JobState::Complete) {
            check_once(jobs, asker, &wish.job)?;
            let _turn = jobs.turn("jobs", asker);
            if !is_paused {
                check_room_again(&jobs.parts.this.reader(), asker)?;
            }
            take_change(jobs, asker)?;
            let changed = match is_paused {
                true => jobs.resume(by(), &found.id),
                false => jobs.retry(by(), &found.id),
            };
            changed.map_err(|error| refuse(&error))?;
        }
    }
    answer_about(jobs, &found.id)
}

/// A job of a cluster runs for one of its nodes at a time. The asker has named the other nodes of its cluster by letting them in.
fn check_once(jobs: &Jobs, asker: &str, job: &str) -> Result<(), Refusal> {
    for mate in grants::let_in_by(&jobs.parts.rights, asker, job)? {
        let other = find(jobs, &mate, job)?;
        if mate != asker && other.is_some_and(|other| !other.state.ended()) {
            return Err(Refusal::later(
                code::BUSY,
                format!("job {job} has not ended here, where it runs for {mate}"),
            ));
        }
    }
    Ok(())
}

/// Takes one of the changes that the asker may make.
fn take_change(jobs: &Jobs, asker: &str) -> Result<(), Refusal> {
    jobs.parts.rights.pace.take(asker, 1, Instant::now())
}

fn answer_about(jobs: &Jobs, id: &str) -> Result<Answer, Refusal> {
    let view = jobs.job(id).map_err(|error| refuse(&error))?;
    let failures = match view.ended {
        Some(_) => jobs
            .records()
            .failures(id)
            .map_err(|error| refuse(&error))?,
        None => Vec::new(),
    };
    let seen = disclosure::seen(JobSeen { view, failures });
    Ok(Answer::Job(Box::new(seen)))
}

/// The progress of the jobs that run here.
fn running(jobs: &Jobs) -> Vec<RunningJob> {
    let live = jobs.parts.live();
    let ids = live.all().into_iter().map(|(id, _)| id);
    ids.filter_map(|id| {
        let progress = live.progress(&id)?;
        Some(RunningJob {
            id,
            progress,
            works: false,
            to: String::new(),
            faults: Vec::new(),
            written: 0,
        })
    })
    .chain(jobs.parts.workers().flights(&jobs.parts.asking))
    .collect()
}

fn steer(jobs: &Jobs, asker: &str, mate: Option<&str>, wish: &SteerJob) -> Result<Answer, Refusal> {
    let by = || for_asker(asker, mate);
    let found = known(jobs, asker, &wish.job)?;
    let id = &found.id;
    let is = |view: &JobView, state: JobState| view.state == state || view.ended.is_some();
    let view = jobs.job(id).map_err(|error| refuse(&error))?;
    let waits = view.state == JobState::Queued && view.next_attempt.is_some();
    let is_wanted = match wish.verb {
        Some(SteerVerb::TryNow) => waits,
        Some(SteerVerb::Pause) => !is(&view, JobState::Paused),
        Some(SteerVerb::Resume) => view.state == JobState::Paused,
        _ => false,
    };
    if is_wanted {
        take_change(jobs, asker)?;
    }
    let steered = match wish.verb {
        // A command that has no effect any more is a repetition after a crash.
        Some(SteerVerb::Pause) if !is(&view, JobState::Paused) => jobs.pause(by(), id).map(|_| ()),
        Some(SteerVerb::Resume) if view.state == JobState::Paused => {
            jobs.resume(by(), id).map(|_| ())
        }
        Some(SteerVerb::TryNow) if waits => {
            dial_again(&jobs.parts.asking, id);
            jobs.retry(by(), id).map(|_| ())
        }
        Some(SteerVerb::Cancel) if view.ended.is_none() => {
            let comment = Some("the site that asked for the job stopped it".to_owned());
            jobs.cancel(by(), id, comment).map(|_| ())
        }
        _ => Ok(()),
    };
    steered.map_err(|error| refuse(&error))?;
    if matches!(wish.verb, Some(SteerVerb::Pause | SteerVerb::Cancel)) {
        // The asker relies on the end of all writes.
        jobs.parts.live().wait_for_end(id, STOPS_WITHIN);
    }
    // An unchanged value is no change.
    let limit = wish.limit;
    let limit = limit.filter(|limit| *limit != view.limit.unwrap_or(0));
    let priority = wish.priority.map(|priority| priority.min(PRIORITY_MAX));
    let priority = priority.filter(|priority| *priority != view.priority);
    if (limit.is_some() || priority.is_some()) && view.ended.is_none() {
        take_change(jobs, asker)?;
        let change = ChangeJob {
            limit,
            priority,
            ..ChangeJob::default()
        };
        let changed = jobs.change(by(), id, &change);
        changed.map_err(|error| refuse(&error))?;
    }
    answer_about(jobs, id)
}
