//! Tests how often a job is restarted. See `commands` for the ends of attempts.

mod support;

use godwit_state::{
    ATTEMPTS_MAX, FailureCode, JobOp, JobQueue, JobState, LEVEL_ATTEMPTS, LEVEL_TRY_NOW, Op,
    Outcome, Reason,
};
use support::state::State;
use support::{at, claim, finish, new_job};

#[test]
fn a_job_is_started_again_only_so_often() {
    let mut state = State::new();
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    let failed = |state: &mut State, times: u32| {
        for _ in 0..times {
            let epoch = state.epoch();
            state.job(1, claim(epoch)).expect("claim");
            let finish = finish(epoch + 1, Outcome::Failed);
            state.job(2, finish).expect("finish");
            if state.job(3, JobOp::Retry).is_err() {
                return;
            }
        }
    };
    // A cluster with an older program behaves as that program does.
    failed(&mut state, ATTEMPTS_MAX + 1);
    let attempts = |state: &State| state.reader.attempts("job").expect("read").len();
    assert_eq!(attempts(&state), 1_001);
    state.op(4, Op::Level(LEVEL_ATTEMPTS)).expect("alone");
    failed(&mut state, 3);
    assert_eq!(attempts(&state), 1_002);
    let refused = state.job(5, JobOp::Retry).expect_err("too often");
    assert!(refused.to_string().contains("a new job"), "{refused}");
}

#[test]
fn a_job_that_waits_after_a_failure_is_tried_now() {
    let mut state = State::new();
    state
        .op(0, Op::Submit(Box::new(new_job("job"))))
        .expect("submit");
    let fails = |state: &mut State| {
        let epoch = state.epoch();
        state.job(1, claim(epoch)).expect("claim");
        let backoff = JobOp::Backoff {
            epoch: epoch + 1,
            reason: Reason::new(FailureCode::Unreachable, "siteB does not answer."),
            next_attempt: at(9_000),
            bytes: 10,
            files: 1,
        };
        state.job(2, backoff).expect("backoff");
    };
    let due = |state: &State, time| {
        JobQueue(&state.reader)
            .due(at(time), 9, 9)
            .expect("read")
            .len()
    };
    let forbidden = |state: &mut State| {
        let error = state.job(3, JobOp::Retry).expect_err("refused");
        assert_eq!(error.code().as_str(), "forbidden_transition");
    };
    fails(&mut state);
    // A cluster with an older program behaves as that program does.
    forbidden(&mut state);
    assert_eq!(due(&state, 10), 0);
    state.op(4, Op::Level(LEVEL_TRY_NOW)).expect("alone");
    state.job(5, JobOp::Retry).expect("it waits");
    let job = state.reader.job("job").expect("read").expect("there");
    assert_eq!(job.state, JobState::Queued);
    assert_eq!((job.next_attempt, job.retries), (None, 1));
    assert_eq!(due(&state, 10), 1);
    // The job now waits for a node, not for an attempt.
    forbidden(&mut state);
    // A paused job does not wait for an attempt either.
    fails(&mut state);
    state.job(6, JobOp::Pause).expect("pause");
    forbidden(&mut state);
}
