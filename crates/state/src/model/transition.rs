//! Owns the table of a job's states: for each state and cause, the allowed next states. Does not
//! change jobs; `apply` calls this module first.

use std::fmt::Write as _;

use super::JobState;

/// Cause of a change of a job's state.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cause {
    /// A node claims the job to run it.
    Claim,
    /// The node that runs the job reports its progress.
    Report,
    /// The attempt ended for a transient reason; the job waits for the next one.
    Backoff,
    /// The attempt ended for a permanent reason, or completed.
    Finish,
    /// The deadline passed while the job waited, or its retries are used up.
    Expire,
    /// The owner may no longer run the job.
    Deny,
    /// A user pauses the job.
    Pause,
    /// A user resumes a paused job.
    Resume,
    /// A user cancels the job.
    Cancel,
    /// A user retries an ended job, or one that waits for its next attempt after a failure.
    Retry,
    /// The node that ran the job was restarted.
    Restart,
}

use Cause::{Backoff, Cancel, Claim, Deny, Expire, Finish, Pause, Report, Restart, Resume, Retry};
use JobState::{
    Cancelled, Complete, Failed, Partial, Paused, Queued, Running, Scanning, Scheduled, Verifying,
};

const MOVING: &[JobState] = &[Scanning, Running, Verifying];
const WAITING: &[JobState] = &[Queued, Scheduled];
const ENDED: &[JobState] = &[Complete, Partial, Failed];

/// All transitions. STATES.md shows the table.
pub const TRANSITIONS: &[(JobState, Cause, &[JobState])] = &[
    (Queued, Claim, &[Scanning]),
    (Queued, Expire, &[Failed]),
    (Queued, Deny, &[Failed]),
    (Queued, Pause, &[Paused]),
    (Queued, Cancel, &[Cancelled]),
    (Queued, Retry, &[Queued]),
    (Scheduled, Claim, &[Scanning]),
    (Scheduled, Expire, &[Failed]),
    (Scheduled, Deny, &[Failed]),
    (Scheduled, Pause, &[Paused]),
    (Scheduled, Cancel, &[Cancelled]),
    (Scanning, Report, MOVING),
    (Scanning, Backoff, &[Queued]),
    (Scanning, Finish, ENDED),
    (Scanning, Expire, &[Failed]),
    (Scanning, Pause, &[Paused]),
    (Scanning, Cancel, &[Cancelled]),
    (Scanning, Restart, &[Queued]),
    (Running, Report, MOVING),
    (Running, Backoff, &[Queued]),
    (Running, Finish, ENDED),
    (Running, Expire, &[Failed]),
    (Running, Pause, &[Paused]),
    (Running, Cancel, &[Cancelled]),
    (Running, Restart, &[Queued]),
    (Verifying, Report, MOVING),
    (Verifying, Backoff, &[Queued]),
    (Verifying, Finish, ENDED),
    (Verifying, Expire, &[Failed]),
    (Verifying, Pause, &[Paused]),
    (Verifying, Cancel, &[Cancelled]),
    (Verifying, Restart, &[Queued]),
    (Paused, Resume, WAITING),
    (Paused, Expire, &[Failed]),
    (Paused, Deny, &[Failed]),
    (Paused, Cancel, &[Cancelled]),
    (Partial, Retry, WAITING),
    (Failed, Retry, WAITING),
    (Cancelled, Retry, WAITING),
];

/// Whether `cause` may move a job in state `from` to state `to`.
#[must_use]
pub fn allowed(from: JobState, cause: Cause, to: JobState) -> bool {
    TRANSITIONS
        .iter()
        .any(|(state, by, into)| *state == from && *by == cause && into.contains(&to))
}

/// The table as Markdown, with a row for each state and a column for each cause.
#[must_use]
pub fn transition_table() -> String {
    let causes = [
        Claim, Report, Backoff, Finish, Expire, Deny, Pause, Resume, Cancel, Retry, Restart,
    ];
    let mut table = String::from("| from |");
    for cause in causes {
        let _ = write!(table, " {} |", format!("{cause:?}").to_lowercase());
    }
    table.push_str("\n| --- |");
    table.push_str(&" --- |".repeat(causes.len()));
    table.push('\n');
    for from in JobState::ALL {
        let _ = write!(table, "| **{from}** |");
        for cause in causes {
            let into: Vec<&str> = JobState::ALL
                .into_iter()
                .filter(|to| allowed(from, cause, *to))
                .map(JobState::name)
                .collect();
            let into = if into.is_empty() {
                "–".to_owned()
            } else {
                into.join(", ")
            };
            let _ = write!(table, " {into} |");
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_shows_the_table() {
        let document = include_str!("../../STATES.md");
        let table = transition_table();
        assert!(document.contains(&table), "STATES.md must show:\n{table}");
    }

    #[test]
    fn each_pair_of_state_and_cause_has_one_row() {
        let mut pairs: Vec<_> = TRANSITIONS
            .iter()
            .map(|(from, cause, _)| (*from, *cause))
            .collect();
        pairs.sort();
        let count = pairs.len();
        pairs.dedup();
        assert_eq!(pairs.len(), count);
    }

    #[test]
    fn a_complete_job_stays_complete() {
        assert!(TRANSITIONS.iter().all(|(from, _, _)| *from != Complete));
    }
}
