//! Makes the report to the state at the end of an attempt that another site ran.
//! Asks no node.

use godwit_api::ask::{JobSeen, Refusal, code};
use godwit_api::failure::FailureCode;
use godwit_api::rest::JobState;
use godwit_state::{FailureGroup, Finish, Job, JobOp, Moved, Outcome, Reason};

use super::follow::moved;
use super::{Context, SiteAttempt, unseen};
use crate::asking::border;
use crate::attempt::AttemptEvents;
use crate::basis::error::JobsError;
use crate::basis::words::clip;

/// The end that the other site reports. Its texts are within bounds already (`border`).
pub(super) fn ended(attempt: &SiteAttempt<'_>, seen: &JobSeen) -> JobOp {
    let view = &seen.view;
    let (outcome, lead) = match view.state {
        JobState::Complete => (Outcome::Complete, ""),
        JobState::Partial => (Outcome::Partial, ""),
        JobState::Cancelled => (Outcome::Failed, "the site that ran the job stopped it: "),
        _ => (Outcome::Failed, ""),
    };
    // Only a complete job needs no reason.
    let (code, text) = match &view.reason {
        Some(reason) => (reason.code.clone(), reason.text.as_str()),
        None => (
            border::OTHER.into(),
            "the site that ran the job gives no reason",
        ),
    };
    let reason = border::reason(&code, &format!("{lead}{text}"));
    let moved = attempt.events.ends(moved(seen));
    JobOp::Finish(Box::new(Finish {
        epoch: attempt.epoch,
        outcome,
        reason: (outcome != Outcome::Complete || code == FailureCode::LateCalls).then_some(reason),
        summary: match &view.summary {
            Some(summary) => summary.to_string(),
            None => "{}".to_owned(),
        },
        bytes: moved.bytes,
        files: moved.files,
        failures: seen
            .failures
            .iter()
            .map(|group| FailureGroup {
                reason: border::reason(&group.reason.code, &group.reason.text),
                count: group.count,
                examples: group.examples.clone(),
            })
            .collect(),
    }))
}

/// A site refused, or cannot be reached.
pub(super) fn refused(
    context: &Context,
    job: &Job,
    epoch: u64,
    events: &AttemptEvents,
    refusal: &Refusal,
) -> JobOp {
    let of_job = match refusal.code.known() {
        Some(code::NOT_GRANTED | code::PERMISSION) => FailureCode::AccessDenied.into(),
        Some(code::UNKNOWN_IDENTITY) => FailureCode::Unauthorized.into(),
        Some(code::OUTSIDE) => FailureCode::PathOutsideExport.into(),
        Some(code::UNSUPPORTED) => FailureCode::NotSupported.into(),
        _ => refusal.code.clone(),
    };
    let reason = border::reason(&of_job, &refusal.message);
    // A job that is not found any more was lost with the state of its site: the next attempt starts it again.
    let is_not_let_in = refusal.code == code::NOT_LET_IN;
    let reason = match is_not_let_in {
        true => {
            context.unseen.add(&job.id);
            border::reason(&of_job, &unseen::why(&refusal.message))
        }
        false => reason,
    };
    let passing = refusal.retryable || refusal.code.is_one_of(&[code::NO_SUCH_JOB, code::BROKEN]);
    if passing || is_not_let_in {
        let Moved { bytes, files, .. } = events.moved();
        return JobOp::Backoff {
            epoch,
            reason,
            next_attempt: job.retry.next_attempt(job.retries, context.this.now()),
            bytes,
            files,
        };
    }
    finish(epoch, events, reason)
}

/// This node failed.
pub(super) fn failed(epoch: u64, events: &AttemptEvents, error: &JobsError) -> JobOp {
    let code = match error {
        JobsError::Invalid { code, .. } => *code,
        _ => FailureCode::LocalFailure,
    };
    finish(epoch, events, Reason::new(code, clip(&error.words())))
}

/// The attempt failed for this reason.
pub(super) fn finish(epoch: u64, events: &AttemptEvents, reason: Reason) -> JobOp {
    let Moved { bytes, files, .. } = events.moved();
    JobOp::Finish(Box::new(Finish {
        epoch,
        outcome: Outcome::Failed,
        reason: Some(reason),
        summary: "{}".to_owned(),
        bytes,
        files,
        failures: Vec::new(),
    }))
}
