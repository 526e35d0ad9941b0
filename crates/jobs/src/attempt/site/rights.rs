//! Ends waiting and paused jobs between other sites, once their owner may no longer run them.
//! See `scheduler` for running jobs, and `pending` for the reports to sites.
//!
//! Any other waiting job ends when it would begin, because no other site has a part of it. A job between other sites may wait at one of
//! them, and has access to the other.

use godwit_state::{Job, JobFilter, JobOp, JobState, ProposeError};

use super::pending::PendingNotices;
use crate::basis::ends::is_third_party;
use crate::basis::error::JobsError;
use crate::basis::words::denied;
use crate::rights::{Rights, access};

/// Jobs of one look at the state: a page of it.
const PAGE: usize = 1_000;

/// Ends the waiting ones now.
pub(super) fn end_denied(rights: &Rights, notices: &PendingNotices) -> Result<(), JobsError> {
    let reader = rights.this.reader();
    let filter = JobFilter {
        states: vec![JobState::Queued, JobState::Scheduled, JobState::Paused],
        ..JobFilter::default()
    };
    let mut cursor = None;
    loop {
        let page = reader.jobs(&filter, cursor.as_ref(), PAGE)?;
        for job in page.jobs.iter().filter(|job| is_third_party(job)) {
            if let Some(why) = access::denied(rights, job) {
                end(rights, notices, job, &why)?;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn end(rights: &Rights, notices: &PendingNotices, job: &Job, why: &str) -> Result<(), JobsError> {
    let deny = JobOp::Deny {
        seen: job.epoch,
        reason: denied(why),
    };
    match rights.this.propose_for(&job.id, deny) {
        Ok(()) => {
            rights.this.log(&format!("job {}: ended: {why}", job.id));
            if job.attempts > 0 {
                notices.add(&job.id);
            }
            Ok(())
        }
        // It was changed meanwhile; the next look sees it.
        Err(ProposeError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
