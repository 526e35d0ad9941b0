//! What the state is told at the end of an attempt that another site ran.
//! Asks nobody.

use godwit_api::ask::{JobSeen, Refusal, code};
use godwit_api::failure::FailureCode;
use godwit_api::rest::JobState;
use godwit_state::{FailureGroup, Finish, Job, JobOp, Moved, Outcome, Reason};

use super::follow::moved;
use super::{SiteAttempt, unseen};
use crate::attempt::{AttemptEvents, LATE_CALLS, clip};
use crate::error::JobsError;
use crate::{Shared, border};

/// The end that the other site reports. Its words are within bounds already (`border`).
pub(super) fn ended(third: &SiteAttempt<'_>, seen: &JobSeen) -> JobOp {
    let view = &seen.view;
    let (outcome, lead) = match view.state {
        JobState::Complete => (Outcome::Complete, ""),
        JobState::Partial => (Outcome::Partial, ""),
        JobState::Cancelled => (Outcome::Failed, "the site that ran the job gave it up: "),
        _ => (Outcome::Failed, ""),
    };
    // Only a complete job needs no reason.
    let (code, text) = view.reason.as_ref().map_or(
        (border::OTHER, "the site that ran the job gives no reason"),
        |reason| (reason.code.as_str(), reason.text.as_str()),
    );
    let reason = border::reason(code, &format!("{lead}{text}"));
    let moved = third.told.ends(moved(seen));
    JobOp::Finish(Box::new(Finish {
        epoch: third.epoch,
        outcome,
        reason: (outcome != Outcome::Complete || code == LATE_CALLS).then_some(reason),
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
    shared: &Shared,
    job: &Job,
    epoch: u64,
    told: &AttemptEvents,
    refusal: &Refusal,
) -> JobOp {
    let word = match refusal.code.as_str() {
        code::NOT_GRANTED | code::PERMISSION => FailureCode::AccessDenied.as_str(),
        code::UNKNOWN_IDENTITY => FailureCode::Unauthorized.as_str(),
        code::NO_SUCH_EXPORT => FailureCode::NoSuchExport.as_str(),
        code::OUTSIDE => FailureCode::PathOutsideExport.as_str(),
        code::UNSUPPORTED => FailureCode::NotSupported.as_str(),
        code::UNREACHABLE => FailureCode::Unreachable.as_str(),
        other => other,
    };
    let reason = border::reason(word, &refusal.message);
    // A job that is not found any more was lost with the state of its site: the next attempt starts it anew.
    let is_not_let_in = refusal.code == code::NOT_LET_IN;
    let reason = match is_not_let_in {
        true => {
            shared.unseen.add(&job.id);
            border::reason(word, &unseen::why(&refusal.message))
        }
        false => reason,
    };
    let passing =
        refusal.retryable || [code::NO_SUCH_JOB, code::BROKEN].contains(&refusal.code.as_str());
    if passing || is_not_let_in {
        let Moved { bytes, files, .. } = told.moved();
        return JobOp::Backoff {
            epoch,
            reason,
            next_attempt: job.retry.next_attempt(job.retries, shared.now()),
            bytes,
            files,
        };
    }
    finish(epoch, told, reason)
}

/// This node failed.
pub(super) fn failed(epoch: u64, told: &AttemptEvents, error: &JobsError) -> JobOp {
    let word = match error {
        JobsError::Invalid { code, .. } => code,
        _ => FailureCode::LocalFailure.as_str(),
    };
    finish(epoch, told, Reason::new(word, clip(&error.to_string())))
}

/// The attempt failed for this reason.
pub(super) fn finish(epoch: u64, told: &AttemptEvents, reason: Reason) -> JobOp {
    let Moved { bytes, files, .. } = told.moved();
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
