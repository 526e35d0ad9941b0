//! Jobs by a clock that is set back and forward while the node runs.
//! Reaches no other node: the only site has no listener.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use godwit_api::failure::FailureCode;
use godwit_api::job::Text;
use godwit_api::rest::JobState;
use godwit_jobs::{Clock, Jobs};
use godwit_state::{Command, Timestamp};

use crate::world::{World, alice, new, site, submit, wait_for};

/// 2026-11-24 in the morning.
const MORNING: i64 = 1_795_503_600_000;

const HOUR: i64 = 3_600_000;

/// A clock that stands still until it is set.
#[derive(Clone)]
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(MORNING)))
    }

    fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let own = self.clone();
        Clock::new(move || Timestamp(own.0.load(Ordering::SeqCst)))
    }
}

/// A job with a site without a listener; its first attempt is over.
fn failed_once(jobs: &Jobs) -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let free = free.expect("an address").to_string();
    let op = site("away", &free, "gw1-nobody");
    let put = Command::new(Timestamp(MORNING), alice(), op);
    jobs.replica().propose_blocking(put).expect("put");
    let mut away = new("away:/data/x", "here:/to/x");
    let never = vec![Text::from("0s")];
    away.settings.insert("retry-for".to_owned(), never);
    let id = submit(jobs, &away);
    let waits = wait_for(jobs, &id, |job| job.next_attempt.is_some());
    assert_eq!(waits.state, JobState::Queued, "{waits:?}");
    assert_eq!(waits.attempts, 1);
    let reason = waits.reason.expect("a reason");
    assert_eq!(reason.code, FailureCode::Unreachable, "{reason:?}");
    id
}

#[test]
fn a_clock_that_is_set_back_holds_up_no_retry() {
    let world = World::new();
    let hands = Hands::new();
    let jobs = world.start_by(hands.clock(), 1);
    let id = failed_once(&jobs);
    // The next attempt lies a day ahead now.
    hands.set(MORNING - 24 * HOUR);
    wait_for(&jobs, &id, |job| job.attempts > 1);
    jobs.stop();
}

#[test]
fn a_job_that_waits_for_its_time_does_not_begin_by_a_clock_that_is_set_back() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let hands = Hands::new();
    let jobs = world.start_by(hands.clock(), 1);
    let mut later = new("here:/from/a", "here:/to/a");
    later.not_before = Some(Timestamp(MORNING + HOUR));
    let later = submit(&jobs, &later);
    let id = failed_once(&jobs);
    hands.set(MORNING - 24 * HOUR);
    // The retry shows that the node has checked all jobs since.
    wait_for(&jobs, &id, |job| job.attempts > 1);
    let waits = jobs.job(&later).expect("the job");
    assert_eq!(waits.state, JobState::Scheduled, "{waits:?}");
    jobs.stop();
}

#[test]
fn a_clock_that_is_set_forward_begins_what_is_due_and_ends_what_is_too_late() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let hands = Hands::new();
    let jobs = world.start_by(hands.clock(), 1);
    let mut later = new("here:/from/a", "here:/to/a");
    later.not_before = Some(Timestamp(MORNING + HOUR));
    let mut late = later.clone();
    late.not_before = Some(Timestamp(MORNING + 3 * HOUR));
    late.deadline = Some(Timestamp(MORNING + HOUR));
    let (later, late) = (submit(&jobs, &later), submit(&jobs, &late));
    hands.set(MORNING + 2 * HOUR);
    let done = wait_for(&jobs, &later, |job| job.ended.is_some());
    assert_eq!(done.state, JobState::Complete, "{done:?}");
    let given_up = wait_for(&jobs, &late, |job| job.ended.is_some());
    assert_eq!(given_up.state, JobState::Failed, "{given_up:?}");
    let reason = given_up.reason.expect("a reason");
    assert_eq!(reason.code, FailureCode::DeadlinePassed, "{reason:?}");
    jobs.stop();
}
