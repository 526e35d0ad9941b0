//! Owns the amounts of attempts that ended without a report, as by a crash: from their samples, and from the later answer of the
//! destination.
//! Runs nothing.

use godwit_state::{Agreed, Attempt, Delivered, JobOp, LEVEL_MOVED, Moved};

use crate::attempt::record::Recording;
use crate::attempt::reports::Reports;
use crate::basis::this_node::ThisNode;

/// End of an attempt in the state if its node was restarted.
const RESTART: &str = "restart";

/// Reports to the state the amounts of an attempt whose claim ended first. Returns whether the state took the report.
pub(super) fn tell(this: &ThisNode, id: &str, attempt: u32, moved: Moved) -> bool {
    let level = Agreed(&this.reader()).level();
    let is_known = level.is_ok_and(|level| level >= LEVEL_MOVED);
    if !is_known || moved == Moved::default() {
        return false;
    }
    let told = this.propose_for(id, JobOp::Moved { attempt, moved });
    if let Err(error) = &told {
        this.log(&format!(
            "job {id}: the amounts of attempt {attempt} could not be stored: {error}"
        ));
    }
    told.is_ok()
}

/// Reports the amounts of attempts that ended because this node stopped.
pub(crate) fn recover(reports: &Reports) {
    let reader = reports.this.reader();
    for id in godwit_history::ids(&reports.this.directory) {
        let Some(attempt) = reader.attempts(&id).ok().and_then(|mut all| all.pop()) else {
            continue;
        };
        if !is_lost(&reports.this, &attempt) || attempt.moved != Moved::default() {
            continue;
        }
        let samples = godwit_history::read_samples(&reports.this.directory, &id);
        let mut samples = samples.unwrap_or_default().into_iter().rev();
        let last = samples.find(|one| one.attempt == attempt.number && one.site.is_none());
        if let Some(last) = last {
            let moved = Moved {
                bytes: last.moved.bytes,
                files: last.moved.files,
                again: last.moved.bytes_again,
            };
            if tell(&reports.this, &id, attempt.number, moved) {
                account(reports, &id, &attempt, moved);
            }
        }
    }
}

/// An attempt moved at least this much. Returns the amounts of all attempts together, if that is news.
pub(super) fn amend(reports: &Reports, id: &str, number: u32, due: Moved) -> Option<Moved> {
    let reader = reports.this.reader();
    let attempts = reader.attempts(id).ok()?;
    let attempt = attempts.into_iter().find(|one| one.number == number)?;
    let missing = due.minus(attempt.moved);
    // If an attempt was stopped, the destination may have kept more than the attempt reported.
    if attempt.node != reports.this.name || missing == Moved::default() {
        return None;
    }
    if !tell(&reports.this, id, number, due) {
        return None;
    }
    account(reports, id, &attempt, missing);
    Delivered(&reader).of(id).ok()
}

fn is_lost(this: &ThisNode, attempt: &Attempt) -> bool {
    attempt.node == this.name && attempt.outcome.as_deref() == Some(RESTART)
}

/// A record for the accounts of this node.
fn account(reports: &Reports, id: &str, attempt: &Attempt, moved: Moved) {
    if moved != Moved::default()
        && let Ok(Some(job)) = reports.this.reader().job(id)
    {
        Recording::tell_lost(&*reports.tells, &job, attempt, moved);
    }
}
