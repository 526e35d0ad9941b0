//! Owns the amounts of attempts that ended without a report, as by a crash: from their samples, and from the later answer of the
//! destination.
//! Runs nothing.

use godwit_state::{Agreed, Attempt, Delivered, JobOp, LEVEL_MOVED, Moved};

use super::propose;
use crate::Shared;
use crate::attempt::record::Recording;

/// End of an attempt in the state if its node was restarted.
const RESTART: &str = "restart";

/// Reports to the state the amounts of an attempt whose claim ended first. Returns whether the state took the report.
pub(super) fn tell(shared: &Shared, id: &str, attempt: u32, moved: Moved) -> bool {
    let level = Agreed(&shared.replica.reader()).level();
    let is_known = level.is_ok_and(|level| level >= LEVEL_MOVED);
    if !is_known || moved == Moved::default() {
        return false;
    }
    let told = propose(shared, id, JobOp::Moved { attempt, moved });
    if let Err(error) = &told {
        (shared.config.log)(&format!(
            "job {id}: the amounts of attempt {attempt} could not be stored: {error}"
        ));
    }
    told.is_ok()
}

/// Reports the amounts of attempts that ended because this node stopped.
pub(crate) fn recover(shared: &Shared) {
    let reader = shared.replica.reader();
    for id in godwit_history::ids(&shared.config.directory) {
        let Some(attempt) = reader.attempts(&id).ok().and_then(|mut all| all.pop()) else {
            continue;
        };
        if !is_lost(shared, &attempt) || attempt.moved != Moved::default() {
            continue;
        }
        let samples = godwit_history::read_samples(&shared.config.directory, &id);
        let mut samples = samples.unwrap_or_default().into_iter().rev();
        let last = samples.find(|one| one.attempt == attempt.number && one.site.is_none());
        if let Some(last) = last {
            let moved = Moved {
                bytes: last.moved.bytes,
                files: last.moved.files,
                again: last.moved.bytes_again,
            };
            if tell(shared, &id, attempt.number, moved) {
                account(shared, &id, &attempt, moved);
            }
        }
    }
}

/// An attempt moved at least this much. Returns the amounts of all attempts together, if that is news.
pub(super) fn amend(shared: &Shared, id: &str, number: u32, due: Moved) -> Option<Moved> {
    let reader = shared.replica.reader();
    let attempts = reader.attempts(id).ok()?;
    let attempt = attempts.into_iter().find(|one| one.number == number)?;
    let missing = due.minus(attempt.moved);
    // If an attempt was stopped, the destination may have kept more than the attempt reported.
    if attempt.node != shared.config.node || missing == Moved::default() {
        return None;
    }
    if !tell(shared, id, number, due) {
        return None;
    }
    account(shared, id, &attempt, missing);
    Delivered(&reader).of(id).ok()
}

fn is_lost(shared: &Shared, attempt: &Attempt) -> bool {
    attempt.node == shared.config.node && attempt.outcome.as_deref() == Some(RESTART)
}

/// A record for the accounts of this node.
fn account(shared: &Shared, id: &str, attempt: &Attempt, moved: Moved) {
    if moved != Moved::default()
        && let Ok(Some(job)) = shared.replica.reader().job(id)
    {
        Recording::tell_lost(shared, &job, attempt, moved);
    }
}
