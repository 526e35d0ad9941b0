//! Tests how often a job is started again.
//! See `commands` for the ends of attempts.

mod support;

use godwit_state::{ATTEMPTS_MAX, JobOp, LEVEL_ATTEMPTS, Op, Outcome};
use support::state::State;
use support::{claim, finish, new_job};

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
    // A cluster with an older program decides as that program does.
    failed(&mut state, ATTEMPTS_MAX + 1);
    let attempts = |state: &State| state.reader.attempts("job").expect("read").len();
    assert_eq!(attempts(&state), 1_001);
    state.op(4, Op::Level(LEVEL_ATTEMPTS)).expect("alone");
    failed(&mut state, 3);
    assert_eq!(attempts(&state), 1_002);
    let refused = state.job(5, JobOp::Retry).expect_err("too often");
    assert!(refused.to_string().contains("a new job"), "{refused}");
}
