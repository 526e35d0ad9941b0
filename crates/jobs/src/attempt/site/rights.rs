//! Ends waiting and paused jobs between other sites, once their owner may no longer run them, and any job when it would begin.
//! See `scheduler` for running jobs, and `pending` for the reports to sites.
//!
//! Any other waiting job ends when it would begin, because no other site has a part of it. A job between other sites may wait
//! at one of these sites, and has access to the other site.

use godwit_api::failure::{Failure, FailureCode};
use godwit_api::rest::HERE;
use godwit_state::{Job, JobFilter, JobOp, JobQueue, JobState, ProposeError};

use super::Context;
use super::pending::PendingNotices;
use crate::basis::ends::{is_third_party, may_run_elsewhere};
use crate::basis::error::JobsError;
use crate::basis::pages::each_job;
use crate::basis::words::denied;
use crate::rights::{Rights, access};

/// Refuses an attempt whose owner has lost a right since the submission, before it asks any site about the places of the job.
pub(crate) fn check_rights(own: &Context, job: &Job) -> Result<(), Failure> {
    let Some(why) = access::denied(&own.rights, job) else {
        return Ok(());
    };
    if may_run_elsewhere(job) {
        // It may run at its sites already.
        own.notices.add(&job.id);
    }
    Err(Failure::new(FailureCode::AccessDenied, why))
}

/// Ends the waiting ones now.
pub(super) fn end_denied(rights: &Rights, notices: &PendingNotices) -> Result<(), JobsError> {
    let reader = rights.this.reader();
    // Without jobs at other sites, all waiting jobs need not be read.
    if !JobQueue(&reader).any_beyond(HERE)? {
        return Ok(());
    }
    let filter = JobFilter {
        states: vec![JobState::Queued, JobState::Scheduled, JobState::Paused],
        ..JobFilter::default()
    };
    each_job(&reader, filter, usize::MAX, &mut |job| {
        let denied = is_third_party(&job).then(|| access::denied(rights, &job));
        if let Some(why) = denied.flatten() {
            end(rights, notices, &job, &why)?;
        }
        Ok(true)
    })
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
        // The job was changed meanwhile; the next look sees the change.
        Err(ProposeError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
