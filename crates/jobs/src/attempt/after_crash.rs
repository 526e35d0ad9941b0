//! Owns the amounts of attempts that ended without a report, as by a crash: from their samples, and from the later answer of the
//! destination.
//! Runs nothing.

use godwit_state::{
    Agreed, Attempt, AttemptOutcome, JobAmounts, JobOp, LEVEL_EARLIER_AMOUNTS, LEVEL_MOVED, Moved,
};

use crate::attempt::record::Recording;
use crate::attempt::reports::Reports;
use crate::basis::this_node::ThisNode;

/// Reports to the state the amounts of an attempt whose claim ended first. Returns whether the state took the report.
pub(super) fn report_amounts(this: &ThisNode, id: &str, attempt: u32, moved: Moved) -> bool {
    let level = Agreed(&this.reader()).level();
    let is_known = level.is_ok_and(|level| level >= LEVEL_MOVED);
    if !is_known || moved == Moved::default() {
        return false;
    }
    let proposed = this.propose_for(id, JobOp::Moved { attempt, moved });
    if let Err(error) = &proposed {
        this.log(&format!(
            "job {id}: the amounts of attempt {attempt} could not be stored: {error}"
        ));
    }
    proposed.is_ok()
}

/// Reports the amounts of attempts that ended because this node stopped.
pub(crate) fn recover(reports: &Reports) {
    let reader = reports.this.reader();
    for id in godwit_history::job_ids(&reports.this.directory) {
        let Some(attempt) = reader.attempts(&id).ok().and_then(|mut all| all.pop()) else {
            continue;
        };
        if !is_lost(&reports.this, &attempt) || attempt.moved != Moved::default() {
            continue;
        }
        let samples = godwit_history::read_samples(&reports.this.directory, &id);
        let mut samples = samples.unwrap_or_default().into_iter().rev();
        let last = samples.find(|one| one.attempt == attempt.number && one.site.is_none());
        if let Some(last) = last
            && report_amounts(&reports.this, &id, attempt.number, last.moved)
        {
            account(reports, &id, &attempt, last.moved);
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
    if !report_amounts(&reports.this, id, number, due) {
        return None;
    }
    account(reports, id, &attempt, missing);
    JobAmounts(&reader).of(id).ok()
}

/// Credits amounts that the destination found to the latest attempt before `attempt`: its node was lost before it reported them.
pub(super) fn credit(reports: &Reports, id: &str, attempt: u32, unreported: Moved) {
    if unreported == Moved::default() {
        return;
    }
    let reader = reports.this.reader();
    let level = Agreed(&reader).level();
    let earlier = reader.attempts(id).unwrap_or_default().into_iter();
    let mut lost = earlier.rev().filter(|one| one.number < attempt);
    if let Some(lost) = lost.next()
        && level.is_ok_and(|level| level >= LEVEL_EARLIER_AMOUNTS)
        && report_amounts(&reports.this, id, lost.number, lost.moved.plus(unreported))
    {
        account(reports, id, &lost, unreported);
    }
}

fn is_lost(this: &ThisNode, attempt: &Attempt) -> bool {
    attempt.node == this.name && attempt.outcome == Some(AttemptOutcome::Restart)
}

/// A record for the accounts of this node.
fn account(reports: &Reports, id: &str, attempt: &Attempt, moved: Moved) {
    if moved != Moved::default()
        && let Ok(Some(job)) = reports.this.reader().job(id)
    {
        Recording::report_lost(&*reports.tells, &job, attempt, moved);
    }
}
