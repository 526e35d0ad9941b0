//! Sites that run a job for this node, and do not know yet that it was paused or given up here: told again until they know.
//! Starts and follows no job. Its thread also looks after the rights of waiting jobs (`rights`).
//!
//! A site may be away, or this node may end, between a user's word and the question that carries it to the site. At the start of the
//! node all jobs are looked at that were paused or ended of late: to tell a site twice changes nothing.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Question, SteerJob, SteerVerb};
use godwit_api::rest::HERE;
use godwit_state::{Job, JobFilter, JobState};

use super::rights::end_denied;
use super::{GRANT_FOR, brought, may_run_elsewhere, millis, site};
use crate::Shared;
use crate::error::JobsError;

/// Between two tries.
const AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Between two looks whether the node stops.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Jobs that are looked at at the start of the node: a page of the state.
const JOBS_MAX: usize = 1_000;

/// The ids of the jobs.
#[derive(Default)]
pub(crate) struct Untold(Mutex<HashSet<String>>);

impl Untold {
    /// The sites of this job are to be told.
    pub(crate) fn add(&self, id: &str) {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.insert(id.to_owned());
    }

    fn all(&self) -> Vec<String> {
        let ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter().cloned().collect()
    }

    fn remove(&self, id: &str) {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.remove(id);
    }
}

/// Body of the thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    if let Err(error) = look_back(shared) {
        (shared.config.log)(&format!(
            "jobs that were stopped before this start are not looked at: {error}"
        ));
    }
    while !shared.stopping.load(Ordering::SeqCst) {
        if let Err(error) = end_denied(shared) {
            (shared.config.log)(&format!(
                "waiting jobs are not looked at for the rights of their owners: {error}"
            ));
        }
        for id in shared.untold.all() {
            match tell(shared, &id) {
                Ok(true) => shared.untold.remove(&id),
                Ok(false) => {}
                Err(error) => (shared.config.log)(&format!("job {id}: {error}")),
            }
        }
        let until = Instant::now() + AGAIN_EVERY;
        while Instant::now() < until && !shared.stopping.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Remembers the jobs whose end or pause an earlier start of the node may not have passed on.
fn look_back(shared: &Shared) -> Result<(), JobsError> {
    let filter = JobFilter {
        states: vec![JobState::Paused, JobState::Cancelled, JobState::Failed],
        ..JobFilter::default()
    };
    let page = shared.replica.reader().jobs(&filter, None, JOBS_MAX)?;
    for job in page.jobs {
        if may_run_elsewhere(&job) && job.attempts > 0 && !is_old(shared, &job) {
            shared.untold.add(&job.id);
        }
    }
    Ok(())
}

/// Whether no access for the job can be left.
fn is_old(shared: &Shared, job: &Job) -> bool {
    job.since.after(millis(GRANT_FOR)) < shared.now()
}

/// Tells the sites of a job; whether there is nothing left to tell.
fn tell(shared: &Shared, id: &str) -> Result<bool, JobsError> {
    let reader = shared.replica.reader();
    let Some(job) = reader.job(id)? else {
        return Ok(true);
    };
    let verb = match job.state {
        JobState::Paused => SteerVerb::Pause,
        state if state.ended() => SteerVerb::Cancel,
        // An attempt does what is to be done.
        _ => return Ok(true),
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
    // A site that is not known any more cannot be told; its access ends by itself.
    let sites = names.into_iter().map(|name| site(shared, &job, name));
    let sites: Vec<_> = sites.filter_map(Result::ok).collect();
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
    if let Some(own) = (shared.config.own)().filter(|_| job.destination.site == HERE) {
        let revokes = questions
            .iter()
            .filter(|one| matches!(one, Question::Revoke { .. }));
        for revoke in revokes {
            let asked = brought::ask_here(shared, &own, revoke);
            all_told &= !asked.is_err_and(|refusal| refusal.retryable);
        }
    }
    for (site, _) in &sites {
        for question in &questions {
            let asked = shared.config.sites.ask(Some(site), question, &mut |_| {
                !shared.stopping.load(Ordering::SeqCst)
            });
            all_told &= !asked.is_err_and(|refusal| refusal.retryable);
        }
    }
    Ok(all_told)
}
