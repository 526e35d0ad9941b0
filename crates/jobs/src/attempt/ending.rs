//! The end of an attempt, reported to the state: done, failed for good, or another attempt later.
//! Does not run the attempt, and keeps no delay: the policy of the job does.

use std::time::Duration;

use godwit_api::event::{Status, Summary, Verdict};
use godwit_api::failure::{Failure, FailureCode, Retry};
use godwit_api::units::counted;
use godwit_state::{CommandError, Finish, Job, JobOp, Outcome, ProposeError, Reason, Timestamp};

use super::events::Observed;
use super::veil::without_home;
use super::{AttemptEvents, after_crash, lack};
use crate::asking::Asking;
use crate::asking::reach::is_unproven;
use crate::basis::owners::asker_of;
use crate::basis::words::clip;

/// Pause between tries while the state does not accept the end of an attempt.
const PROPOSE_AGAIN: Duration = Duration::from_secs(1);

/// Reports the end of the attempt to the state. `last` acts at the end of the job, and may change what is reported. An attempt whose claim has ended reports nothing: a user paused or cancelled the job.
pub(super) fn conclude(
    asking: &Asking,
    job: &Job,
    epoch: u64,
    events: &AttemptEvents,
    ended: Result<Summary, Failure>,
    last: &dyn Fn(&mut Finish),
) {
    let this = &events.reports.this;
    let ended = ended.map_err(|failure| Failure {
        message: events
            .lock()
            .names
            .in_text(&without_home(&this.directory, &failure.message)),
        ..failure
    });
    let observed = events.lock();
    let lacks_space = match &ended {
        Ok(_) => observed.failed_with(FailureCode::NoSpace) > 0 && may_retry(job, this.now()),
        Err(failure) if failure.code == FailureCode::NoSpace => may_retry(job, this.now()),
        Err(failure) => failure.code.is_interruption() && observed.is_short(),
    };
    let mut op = match &ended {
        Err(failure) if failure.code.is_interruption() && this.is_stopping() => {
            // The next start of the node returns the job to the queue.
            let moved = observed.moved;
            drop(observed);
            after_crash::report_amounts(this, &job.id, job.attempts + 1, moved);
            return;
        }
        _ if lacks_space => {
            let shortage = observed.shortage();
            let reason = lack::reason(asking, job, &observed, shortage.as_ref());
            if let Some(shortage) = shortage.filter(|short| short.path.is_some()) {
                events.reports.live.is_short(&job.id, shortage);
            }
            backoff(job, this.now(), epoch, reason, &observed)
        }
        Ok(summary) => finish(epoch, summary, &observed),
        Err(failure) if passes(failure.code) || is_hidden(job, failure.code) => {
            let reason = Reason::new(failure.code, clip(&failure.message));
            backoff(job, this.now(), epoch, reason, &observed)
        }
        Err(failure) => {
            let code = failure.code;
            JobOp::Finish(Box::new(Finish {
                epoch,
                outcome: Outcome::Failed,
                reason: Some(Reason::new(code, clip(&failure.message))),
                summary: observed.summary.clone().unwrap_or_else(|| "{}".to_owned()),
                bytes: observed.moved.bytes,
                files: observed.moved.files,
                failures: observed.groups(),
            }))
        }
    };
    drop(observed);
    if let JobOp::Finish(finish) = &mut op {
        last(finish);
    }
    settle(job, &op, events);
}

/// Reports the end of an attempt to the state, until the state takes the report. Texts that the state refuses are left out. If the claim
/// has ended, the state learns the amounts of the attempt.
pub(super) fn settle(job: &Job, op: &JobOp, events: &AttemptEvents) {
    let this = &events.reports.this;
    let (id, attempt, moved) = (job.id.as_str(), job.attempts + 1, events.moved());
    if moved.bytes_again > 0 {
        after_crash::report_amounts(this, id, attempt, moved);
    }
    let mut plain = None;
    loop {
        let end = plain.as_ref().unwrap_or(op);
        match this.propose_for(id, end.clone()) {
            Ok(()) => return,
            // The claim has ended: a user stopped the job, or another node has it.
            Err(ProposeError::Refused(
                CommandError::Stale { .. } | CommandError::NotFound { .. },
            )) => {
                after_crash::report_amounts(this, id, attempt, moved);
                return;
            }
            Err(ProposeError::Refused(error)) => {
                this.log(&format!(
                    "job {id}: the end of the attempt could not be stored: {error}"
                ));
                if plain.is_some() {
                    after_crash::report_amounts(this, id, attempt, moved);
                    return;
                }
                plain = Some(without_words(op, &error));
            }
            Err(error) => {
                this.log(&format!("job {id}: {error}"));
                // The next start of the node finds the claim, and returns the job to the queue.
                if this.is_stopping() || matches!(error, ProposeError::Ended(_)) {
                    return;
                }
                std::thread::sleep(PROPOSE_AGAIN);
            }
        }
    }
}

/// The same end with this node's own texts only.
fn without_words(op: &JobOp, error: &CommandError) -> JobOp {
    let text = format!("The attempt ended. This node refused the job's own report: {error}");
    let plain = Reason::new(FailureCode::LocalFailure, clip(&text));
    match op.clone() {
        JobOp::Finish(finish) => JobOp::Finish(Box::new(Finish {
            reason: (finish.outcome != Outcome::Complete).then_some(plain),
            summary: "{}".to_owned(),
            failures: Vec::new(),
            ..*finish
        })),
        JobOp::Backoff {
            epoch,
            next_attempt,
            bytes,
            files,
            ..
        } => JobOp::Backoff {
            epoch,
            reason: plain,
            next_attempt,
            bytes,
            files,
        },
        other => other,
    }
}

/// Whether the policy of the job allows another attempt.
fn may_retry(job: &Job, now: Timestamp) -> bool {
    let next = job.retry.next_attempt(job.retries, now);
    job.retry.retries_max.is_none_or(|max| job.retries < max)
        && job.deadline.is_none_or(|deadline| next <= deadline)
}

/// Whether the same job may succeed later. The node's own disk may be full for a time, and a job shall outlive that.
fn passes(code: FailureCode) -> bool {
    let of_the_node = matches!(
        code,
        FailureCode::JournalUnusable | FailureCode::HomeUnusable | FailureCode::SpillUnusable
    );
    of_the_node || code.retry() == Retry::Transient
}

/// Whether the state of the job must hide from its asker how the addresses of the other end answer.
fn is_hidden(job: &Job, code: FailureCode) -> bool {
    asker_of(job).is_some() && is_unproven(code)
}

fn backoff(job: &Job, now: Timestamp, epoch: u64, reason: Reason, observed: &Observed) -> JobOp {
    JobOp::Backoff {
        epoch,
        reason,
        next_attempt: job.retry.next_attempt(job.retries, now),
        bytes: observed.moved.bytes,
        files: observed.moved.files,
    }
}

/// The end of a job that was done.
fn finish(epoch: u64, summary: &Summary, observed: &Observed) -> JobOp {
    let (complete, text) = match summary {
        Summary::Transfer(summary) => (
            summary.status == Status::Complete,
            format!(
                "{} failed; all others arrived. See them with: godwit job report.",
                counted(summary.failed, "entry")
            ),
        ),
        Summary::Verify(summary) => (
            summary.status == Verdict::Same,
            format!(
                "{} different from the manifest; all others match. See them with: godwit job report.",
                match summary.different + summary.extra {
                    1 => "1 entry is".to_owned(),
                    wrong => format!("{wrong} entries are"),
                }
            ),
        ),
    };
    JobOp::Finish(Box::new(Finish {
        epoch,
        outcome: if complete {
            Outcome::Complete
        } else {
            Outcome::Partial
        },
        reason: match (&observed.late, complete) {
            (None, true) => observed.without.clone(),
            (Some(late), true) => Some(Reason::new(FailureCode::LateCalls, clip(late))),
            (late, false) => {
                let late = late.iter().map(|late| format!(" {late}."));
                let text = late.fold(text, |text, late| text + &late);
                Some(Reason::new(FailureCode::EntriesFailed, clip(&text)))
            }
        },
        summary: observed.summary.clone().unwrap_or_else(|| "{}".to_owned()),
        bytes: observed.moved.bytes,
        files: observed.moved.files,
        failures: observed.groups(),
    }))
}
