//! Decides which relays to a destination may be tried again, and when the source is next.
//! Reads no state, and no clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use godwit_state::{AttemptOutcome, Job, JobState};

/// Attempts of one relay. Each reads the whole copy of the giver.
const TRIES_MAX: u32 = 3;

/// Complaints that are remembered.
const COMPLAINTS_MAX: usize = 1_024;

/// The complaints that are in the log, by the job and its giver, with the time since when the job waits. A job that waits is looked at in each
/// pass.
#[derive(Default)]
pub(crate) struct Complaints(Mutex<HashMap<(String, String), i64>>);

impl Complaints {
    /// Whether a complaint about a waiting job and its giver is new.
    pub(super) fn is_new(&self, job: &Job, giver: &Job) -> bool {
        let mut complaints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if complaints.len() >= COMPLAINTS_MAX {
            complaints.clear();
        }
        let key = (job.id.clone(), giver.id.clone());
        complaints.insert(key, job.since.0) != Some(job.since.0)
    }
}

/// Whether a relay has brought the data of a job, or has ended since the job's last attempt.
pub(super) fn is_spent(job: &Job, relay: &Job) -> bool {
    relay.state == JobState::Complete || relay.ended.is_some_and(|ended| ended >= job.since)
}

/// Whether a relay that failed may run again.
pub(super) const fn may_try_again(relay: &Job) -> bool {
    relay.attempts < TRIES_MAX
}

/// Whether an attempt failed. One that ended with its node, or by a pause, resumes where it was.
pub(super) const fn is_failure(outcome: &AttemptOutcome) -> bool {
    !matches!(
        outcome,
        AttemptOutcome::Restart | AttemptOutcome::State(JobState::Paused)
    )
}

/// For how many milliseconds a job could have begun.
pub(super) fn waits_since(job: &Job, now: i64) -> i64 {
    let times = [Some(job.since), job.next_attempt];
    let times = times.into_iter().flatten().map(|time| time.0);
    // A job whose site is back begins before the time of its next attempt.
    let since = times.filter(|time| *time <= now).max();
    now.saturating_sub(since.unwrap_or(i64::MIN))
}

#[cfg(test)]
mod tests {
    use godwit_state::Timestamp;

    use super::*;
    use crate::queue::order::tests::job;

    #[test]
    fn a_relay_is_tried_three_times_and_each_time_after_a_failure_of_the_destination() {
        let mut taker = job("2", "alice", "c");
        taker.since = Timestamp(100);
        let mut relay = job("3", "alice", "c");
        relay.state = JobState::Failed;
        relay.ended = Some(Timestamp(150));
        assert!(is_spent(&taker, &relay));
        taker.since = Timestamp(200);
        assert!(!is_spent(&taker, &relay));
        relay.state = JobState::Complete;
        assert!(is_spent(&taker, &relay));
        relay.attempts = 2;
        assert!(may_try_again(&relay));
        relay.attempts = 3;
        assert!(!may_try_again(&relay));
    }

    #[test]
    fn a_restart_of_the_node_and_a_pause_are_no_failures() {
        let is = |word: &str| is_failure(&AttemptOutcome::of_word(word));
        assert!(!is(AttemptOutcome::RESTART));
        assert!(!is(JobState::Paused.name()));
        assert!(is(AttemptOutcome::BACKOFF));
        assert!(is(JobState::Failed.name()));
    }

    #[test]
    fn a_job_waits_since_it_may_begin() {
        let mut taker = job("2", "alice", "c");
        taker.since = Timestamp(100);
        assert_eq!(waits_since(&taker, 1_000), 900);
        taker.next_attempt = Some(Timestamp(600));
        assert_eq!(waits_since(&taker, 1_000), 400);
        // Its site is back.
        taker.next_attempt = Some(Timestamp(5_000));
        assert_eq!(waits_since(&taker, 1_000), 900);
        // The clock of another node is ahead: this must not add to the wait.
        taker.since = Timestamp(5_000);
        assert_eq!(waits_since(&taker, 1_000), i64::MAX);
    }

    #[test]
    fn a_complaint_about_a_waiting_job_is_logged_once() {
        let complaints = Complaints::default();
        let (mut taker, giver) = (job("2", "alice", "c"), job("1", "alice", "b"));
        assert!(complaints.is_new(&taker, &giver));
        assert!(!complaints.is_new(&taker, &giver));
        taker.since = Timestamp(200);
        assert!(complaints.is_new(&taker, &giver));
        assert!(!complaints.is_new(&taker, &giver));
    }
}
