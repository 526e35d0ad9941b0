//! Ends waiting and paused jobs between other sites, once their owner may no longer run them.
//! See `scheduler` for running jobs, and `pending` for the reports to sites.
//!
//! Any other waiting job ends when it would begin, because no other site has a part of it. A job between other sites may wait at one of
//! them, and has access to the other.

use godwit_state::{Command, Job, JobFilter, JobOp, JobState, Op, ProposeError};

use super::is_third_party;
use crate::Shared;
use crate::attempt::denied;
use crate::basis::error::JobsError;
use crate::queue::scheduler::actor;
use crate::rights::access;

/// Jobs of one look at the state: a page of it.
const PAGE: usize = 1_000;

/// Ends the waiting ones now.
pub(super) fn end_denied(shared: &Shared) -> Result<(), JobsError> {
    let reader = shared.replica.reader();
    let filter = JobFilter {
        states: vec![JobState::Queued, JobState::Scheduled, JobState::Paused],
        ..JobFilter::default()
    };
    let mut cursor = None;
    loop {
        let page = reader.jobs(&filter, cursor.as_ref(), PAGE)?;
        for job in page.jobs.iter().filter(|job| is_third_party(job)) {
            if let Some(why) = access::denied(shared, job) {
                end(shared, job, &why)?;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn end(shared: &Shared, job: &Job, why: &str) -> Result<(), JobsError> {
    let deny = JobOp::Deny {
        seen: job.epoch,
        reason: denied(why),
    };
    let command = Command::new(shared.now(), actor(shared), Op::Job(job.id.clone(), deny));
    match shared.replica.propose_blocking(command) {
        Ok(_) => {
            (shared.config.log)(&format!("job {}: ended: {why}", job.id));
            if job.attempts > 0 {
                shared.notices.add(&job.id);
            }
            Ok(())
        }
        // It was changed meanwhile; the next look sees it.
        Err(ProposeError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
