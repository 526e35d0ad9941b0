//! Decides which relays to a destination may be tried again, when the source is next, and which destinations reach no other end.
//! Reads no state, and no clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use godwit_api::failure::FailureCode;
use godwit_state::{AttemptOutcome, Job, JobState};

/// Attempts of one relay. Each reads the whole copy of the giver.
const TRIES_MAX: u32 = 3;

/// Relays to one destination that may fail, one after another. Then the source is next, because the fault may be the destination's.
const FAILURES_MAX: usize = 2;

/// How long a running destination may be without any stream before others stop waiting for it.
const STILL_MAX_MS: i64 = 30_000;

/// Complaints that are remembered.
const COMPLAINTS_MAX: usize = 1_024;

/// Facts of earlier passes about the destinations of jobs.
#[derive(Default)]
pub(crate) struct Complaints {
    /// The complaints that are in the log, by the job and its giver, with the start of the job's wait. A job that waits is
    /// looked at in
    /// each pass.
    said: Mutex<HashMap<(String, String), i64>>,
    /// Time since which a running job has no stream, with the epoch of its claim.
    still: Mutex<HashMap<String, (u64, i64)>>,
}

impl Complaints {
    /// Whether a complaint about a waiting job and its giver is new.
    pub(super) fn is_new(&self, job: &Job, giver: &Job) -> bool {
        let mut complaints = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if complaints.len() >= COMPLAINTS_MAX {
            complaints.clear();
        }
        let key = (job.id.clone(), giver.id.clone());
        complaints.insert(key, job.since.0) != Some(job.since.0)
    }

    /// Whether a running job has had no stream for too long. `moves` says whether it has one now.
    pub(super) fn is_still(&self, job: &Job, moves: bool, now: i64) -> bool {
        let mut still = self.still.lock().unwrap_or_else(PoisonError::into_inner);
        if moves {
            still.remove(&job.id);
            return false;
        }
        if still.len() >= COMPLAINTS_MAX {
            still.clear();
        }
        let since = still.entry(job.id.clone()).or_insert((job.epoch, now));
        if since.0 != job.epoch {
            *since = (job.epoch, now);
        }
        now.saturating_sub(since.1) >= STILL_MAX_MS
    }
}

/// Whether a relay has ended after its destination began to wait.
pub(super) fn has_ended(job: &Job, relay: &Job) -> bool {
    relay.ended.is_some_and(|ended| ended >= job.since)
}

/// Whether a destination that could take its data from others goes to the source. The source is next after a relay that
/// delivered the data or was cancelled, without room at the destination, and after too many failures.
pub(super) fn goes_to_source(job: &Job, relays: &[&Job]) -> bool {
    let ended = relays.iter().copied();
    let ended: Vec<&Job> = ended.filter(|relay| has_ended(job, relay)).collect();
    let is_decided = |relay: &&Job| {
        let why = relay.reason.as_ref();
        relay.state == JobState::Cancelled
            || why.is_some_and(|why| why.code == FailureCode::NoSpace)
    };
    let is_complete = |relay: &&Job| relay.state == JobState::Complete;
    relays.iter().any(is_complete) || ended.iter().any(is_decided) || ended.len() >= FAILURES_MAX
}

/// Whether a relay has delivered the data of a job, or has ended since the job's last attempt.
pub(super) fn is_spent(job: &Job, relay: &Job) -> bool {
    relay.state == JobState::Complete || has_ended(job, relay)
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
    use godwit_state::{Reason, Timestamp};

    use super::*;
    use crate::basis::examples::job;

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
    fn the_source_is_next_after_two_failures_or_one_that_is_the_destinations() {
        let mut taker = job("2", "alice", "c");
        taker.since = Timestamp(100);
        let ended = |id: &str, state: JobState| {
            let mut relay = job(id, "alice", "c");
            (relay.state, relay.ended) = (state, Some(Timestamp(150)));
            relay
        };
        let [one, two] = ["3", "4"].map(|id| ended(id, JobState::Failed));
        assert!(!goes_to_source(&taker, &[&one]));
        assert!(goes_to_source(&taker, &[&one, &two]));
        for state in [JobState::Complete, JobState::Cancelled] {
            assert!(goes_to_source(&taker, &[&ended("5", state)]));
        }
        let mut full = ended("6", JobState::Failed);
        full.reason = Some(Reason::new(FailureCode::NoSpace, "No room."));
        assert!(goes_to_source(&taker, &[&full]));
        // The source was next, and failed.
        taker.since = Timestamp(200);
        assert!(!goes_to_source(&taker, &[&one, &two, &full]));
    }

    #[test]
    fn a_destination_without_streams_is_not_waited_for_after_a_time() {
        let complaints = Complaints::default();
        let mut runs = job("1", "alice", "b");
        assert!(!complaints.is_still(&runs, false, 1_000));
        assert!(!complaints.is_still(&runs, false, 30_999));
        assert!(complaints.is_still(&runs, false, 31_000));
        assert!(!complaints.is_still(&runs, true, 32_000));
        assert!(!complaints.is_still(&runs, false, 33_000));
        assert!(complaints.is_still(&runs, false, 63_000));
        // Another attempt.
        runs.epoch += 1;
        assert!(!complaints.is_still(&runs, false, 64_000));
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
