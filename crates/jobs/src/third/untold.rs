//! Sites that run a job for this node, and do not know yet that it was paused or given up here: asked again until they know.
//! Starts and follows no job. Its thread also looks after the rights of waiting jobs (`rights`).
//!
//! A site may be away, or this node may end, between a user's word and the question that carries it to the site. A job that waits has no
//! attempt that could carry it. So each job that is paused or ends is looked at, and at the start of the node those of late: to ask a
//! site twice changes nothing. A job whose sites are being asked begins no attempt, or the question would stop that one.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Question, SteerJob, SteerVerb, code};
use godwit_api::rest::HERE;
use godwit_state::{Follower, Job, JobFilter, JobState, Topic};

use super::rights::end_denied;
use super::{GRANT_FOR, brought, is_passing, mates, millis, route, site};
use crate::Shared;
use crate::error::JobsError;

/// Between two tries.
const AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Between two looks at what changed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Jobs that are looked at at the start of the node: a page of the state.
const JOBS_MAX: usize = 1_000;

/// Changes after which a job goes on.
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
pub(crate) struct Untold {
    ids: Mutex<HashSet<String>>,
    /// The one whose sites are asked now.
    asked: Mutex<Option<String>>,
}

impl Untold {
    /// The sites of this job are to hear how it is.
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
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut follower = follow(shared);
    look_back(shared);
    let mut due = Instant::now();
    while !shared.stopping.load(Ordering::SeqCst) {
        let is_due = Instant::now() >= due;
        if is_due {
            due = Instant::now() + AGAIN_EVERY;
            if let Err(error) = end_denied(shared) {
                (shared.config.log)(&format!(
                    "waiting jobs are not looked at for the rights of their owners: {error}"
                ));
            }
        }
        if hear(shared, &mut follower) || is_due {
            tell_all(shared);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn follow(shared: &Shared) -> Follower {
    let last = shared.replica.reader().last_event().unwrap_or(0);
    shared.replica.follow(last)
}

/// Adds the jobs that another site may run and that were paused or ended since the last look. Whether there are any.
fn hear(shared: &Shared, follower: &mut Follower) -> bool {
    let reader = shared.replica.reader();
    let mut any = false;
    loop {
        let Ok(events) = follower.look() else {
            // Events were missed.
            *follower = follow(shared);
            look_back(shared);
            return true;
        };
        if events.is_empty() {
            return any;
        }
        let jobs = events.iter().filter(|event| event.topic == Topic::Job);
        for event in jobs.filter(|event| !GOES_ON.contains(&event.change.as_str())) {
            let job = reader.job(&event.object).ok().flatten();
            if let Some(job) =
                job.filter(|job| is_stopped(job) && route::may_be_elsewhere(shared, job))
            {
                shared.untold.add(&job.id);
                any = true;
            }
        }
    }
}

/// Whether nothing of the job is to go on anywhere, and its end was not that of its transfer.
const fn is_stopped(job: &Job) -> bool {
    matches!(
        job.state,
        JobState::Paused | JobState::Cancelled | JobState::Failed
    )
}

/// Remembers the jobs whose end or pause an earlier start of the node may not have passed on.
fn look_back(shared: &Shared) {
    let states = [
        JobState::Paused,
        JobState::Cancelled,
        JobState::Failed,
        JobState::Partial,
        JobState::Complete,
    ];
    let filter = JobFilter {
        states: states.to_vec(),
        ..JobFilter::default()
    };
    match shared.replica.reader().jobs(&filter, None, JOBS_MAX) {
        Ok(page) => {
            for job in page.jobs {
                if !is_old(shared, &job) && route::may_be_elsewhere(shared, &job) {
                    shared.untold.add(&job.id);
                }
            }
        }
        Err(error) => (shared.config.log)(&format!(
            "jobs that were stopped before this start are not looked at: {error}"
        )),
    }
}

/// Whether no access for the job can be left.
fn is_old(shared: &Shared, job: &Job) -> bool {
    job.since.after(millis(GRANT_FOR)) < shared.now()
}

/// Asks the sites of all of them. A site that does not answer is asked for one job only.
fn tell_all(shared: &Shared) {
    let mut away = HashSet::new();
    for id in shared.untold.all() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        // An attempt that ends says so itself, and what it says comes first.
        if shared.live.contains(&id) {
            continue;
        }
        *shared.untold.asked() = Some(id.clone());
        match tell(shared, &id, &mut away) {
            Ok(true) => shared.untold.remove(&id),
            Ok(false) => {}
            Err(error) => (shared.config.log)(&format!("job {id}: {error}")),
        }
        *shared.untold.asked() = None;
    }
}

/// Asks the sites of a job; whether nothing is left to say.
fn tell(shared: &Shared, id: &str, away: &mut HashSet<String>) -> Result<bool, JobsError> {
    let reader = shared.replica.reader();
    let Some(job) = reader.job(id)? else {
        return Ok(true);
    };
    let verb = match job.state {
        JobState::Paused => SteerVerb::Pause,
        state if state.ended() => SteerVerb::Cancel,
        // An attempt does what is to be done.
        state => return Ok(state.waits()),
    };
    if is_old(shared, &job) {
        return Ok(true);
    }
    let mut names: Vec<&str> = job
        .sources
        .iter()
        .map(|place| place.site.as_str())
        .collect();
    names.push(&job.destination.site);
    names.dedup();
    let mut questions = vec![Question::Steer(SteerJob {
        job: job.id.clone(),
        verb: Some(verb),
        ..SteerJob::default()
    })];
    if verb == SteerVerb::Cancel {
        let job = job.id.clone();
        questions.push(Question::Revoke { job });
    }
    let mut all_told = true;
    let others = mates::askers(shared, &job)?;
    if let Some(own) = (shared.config.own)().filter(|_| job.destination.site == HERE) {
        let revokes = questions
            .iter()
            .filter(|one| matches!(one, Question::Revoke { .. }));
        for revoke in revokes {
            let others = others.iter().map(|mandate| mandate.asker.as_str());
            for asker in std::iter::once(own.identity.as_str()).chain(others) {
                let asked = brought::ask_here(shared, asker, revoke);
                all_told &= !asked.is_err_and(|refusal| is_passing(&refusal));
            }
        }
    }
    for name in names {
        if away.contains(name) {
            all_told = false;
            continue;
        }
        // A site that is not known any more cannot be asked; its access ends by itself.
        let Ok((site, _)) = site(shared, &job, name) else {
            continue;
        };
        let mandates = std::iter::once(None).chain(others.iter().map(Some));
        let asked = mandates.flat_map(|mandate| questions.iter().map(move |one| (mandate, one)));
        for (mandate, question) in asked {
            let sites = &shared.config.sites;
            let asked = sites.ask_for(mandate, Some(&site), question, &mut |_| {
                !shared.stopping.load(Ordering::SeqCst)
            });
            let Err(refusal) = asked else {
                continue;
            };
            all_told &= !is_passing(&refusal);
            if refusal.code == code::UNREACHABLE {
                away.insert(name.to_owned());
                break;
            }
        }
    }
    Ok(all_told)
}
