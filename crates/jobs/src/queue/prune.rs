//! Deletes the history that is older than the node keeps, or more than it keeps of one owner, and the files of jobs that are gone.
//! Deletes nothing while the clock cannot be trusted.

use std::time::{Duration, Instant};

use godwit_state::{Effect, Kept, Op, Prune, SPEC_BYTES_OF_OWNER_MAX, Timestamp};

use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;

/// How often history is checked.
const EVERY: Duration = Duration::from_mins(10);

/// How often it is checked while more is left to delete than one pass deletes. Users add up to 12.5 jobs a second each.
const EVERY_WITH_MORE: Duration = Duration::from_mins(1);

/// How far the clock may differ from the monotonic clock before it counts as set.
const DRIFT_MAX_MS: i64 = 600_000;

/// Commands of one pass: each deletes a bounded number of rows.
const COMMANDS_MAX: usize = 20;

/// Prunes old history. It notes when to look next, and the clocks at the start.
pub(crate) struct Pruner {
    began: Instant,
    began_at: Timestamp,
    look_at: Instant,
}

impl Pruner {
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            began: Instant::now(),
            began_at: at,
            look_at: after(false),
        }
    }

    /// Whether the clock was set since the start. Then times of jobs cannot be compared with the present.
    fn is_clock_set(&self, at: Timestamp) -> bool {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let shown = at.0.saturating_sub(self.began_at.0);
        (shown.saturating_sub(passed)).abs() > DRIFT_MAX_MS
    }

    /// Deletes history that is too old, if it is time to look.
    pub(crate) fn prune(&mut self, this: &ThisNode, keep: Duration) -> Result<(), JobsError> {
        if Instant::now() < self.look_at {
            return Ok(());
        }
        self.look_at = after(false);
        let at = this.now();
        if self.is_clock_set(at) {
            this.log(
                "the clock was set while the node ran: no history is deleted until the node is restarted",
            );
            return Ok(());
        }
        // The leading node deletes for all; each node removes the files of deleted jobs.
        if this.replica.is_leader() {
            self.look_at = after(delete(this, keep, at)?);
        }
        remove_files(this)
    }
}

/// When to look next.
fn after(has_more: bool) -> Instant {
    Instant::now() + pause(has_more)
}

const fn pause(has_more: bool) -> Duration {
    match has_more {
        true => EVERY_WITH_MORE,
        false => EVERY,
    }
}

/// Deletes history older than the node keeps at `at`. Returns whether more is left.
fn delete(this: &ThisNode, keep: Duration, at: Timestamp) -> Result<bool, JobsError> {
    let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
    let before = Some(Timestamp(at.0.saturating_sub(keep)));
    let reader = this.reader();
    let prune = Prune {
        jobs_before: before,
        audit_before: before,
        deliveries_before: before,
        tokens_before: before,
        of_owners: Kept(&reader).surplus(SPEC_BYTES_OF_OWNER_MAX)?,
    };
    for _ in 0..COMMANDS_MAX {
        let done = this.propose_at(at, Op::Prune(prune.clone()))?;
        if !matches!(done.effect, Effect::Pruned { more: true, .. }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the files of deleted jobs.
fn remove_files(this: &ThisNode) -> Result<(), JobsError> {
    let reader = this.reader();
    for id in godwit_history::job_ids(&this.directory) {
        if reader.job(&id)?.is_none() {
            // A file that cannot be removed is tried again.
            let _ = godwit_history::remove(&this.directory, &id);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command deletes 1,000 jobs.
    #[test]
    fn jobs_are_deleted_faster_than_twenty_users_add_them() {
        let deleted = u64::try_from(COMMANDS_MAX).expect("small") * 1_000;
        let added = |pause: Duration| 20 * pause.as_secs() * 125 / 10;
        assert!(deleted > added(pause(true)));
        assert!(deleted < added(pause(false)), "one pass is not enough");
    }
}
