//! Deletes the history that is older than the node keeps, or more than it keeps of one owner, and the files of jobs that are gone.
//! Deletes nothing while the clock cannot be trusted.

use std::time::{Duration, Instant};

use godwit_state::{Effect, Kept, Op, Prune, SPEC_BYTES_OF_OWNER_MAX, Timestamp};

use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;

/// How often history is checked.
const EVERY: Duration = Duration::from_mins(10);

/// How far the clock may differ from the monotonic clock before it counts as set.
const DRIFT_MAX_MS: i64 = 600_000;

/// Commands of one pass: each deletes a bounded number of rows.
const COMMANDS_MAX: usize = 20;

/// Prunes old history. It notes when it looked last, and the clocks at the start.
pub(crate) struct Pruner {
    began: Instant,
    began_at: Timestamp,
    looked: Instant,
}

impl Pruner {
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            began: Instant::now(),
            began_at: at,
            looked: Instant::now(),
        }
    }

    /// Whether the clock was set since the start: then times of jobs and the present do not go together.
    fn is_clock_set(&self, at: Timestamp) -> bool {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let shown = at.0.saturating_sub(self.began_at.0);
        (shown.saturating_sub(passed)).abs() > DRIFT_MAX_MS
    }

    /// Deletes history that is too old, if it is time to look.
    pub(crate) fn prune(&mut self, this: &ThisNode, keep: Duration) -> Result<(), JobsError> {
        if self.looked.elapsed() < EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        let at = this.now();
        if self.is_clock_set(at) {
            this.log(
                "the clock was set while the node ran: no history is deleted until the node is restarted",
            );
            return Ok(());
        }
        match this.replica.is_leader() {
            true => delete(this, keep, at),
            // The leading node deletes for all; each node removes the files of deleted jobs.
            false => remove_files(this),
        }
    }
}

/// Deletes history older than the node keeps at `at`.
fn delete(this: &ThisNode, keep: Duration, at: Timestamp) -> Result<(), JobsError> {
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
            break;
        }
    }
    remove_files(this)
}

/// Removes the files of deleted jobs.
fn remove_files(this: &ThisNode) -> Result<(), JobsError> {
    let reader = this.reader();
    for id in godwit_history::ids(&this.directory) {
        if reader.job(&id)?.is_none() {
            // A file that cannot be removed is tried again.
            let _ = godwit_history::remove(&this.directory, &id);
        }
    }
    Ok(())
}
