//! Tests sources that are merged into one directory: no two of them are written there at the same time.
//! See `families` for the states of parents and children.

mod support;

use godwit_state::{FEATURE_LEVEL, JobOp, JobQueue, NewFamily, NewJob, Op, Outcome};
use support::state::State;
use support::{at, backoff, claim, command, finish, job_command, new_job, place, runner};

/// A state with three sources that are merged into one directory, none of which has begun.
fn waiting() -> State {
    let mut state = State::new();
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("alone");
    let child = |number: u8| NewJob {
        sources: vec![place(&format!("site{number}"), "/raw/.")],
        destination: place("here", "/archive/"),
        ..new_job(&format!("f{number}"))
    };
    let new = NewFamily {
        parent: child(0),
        children: (1..=3).map(child).collect(),
    };
    let submit = Op::SubmitFamily(Box::new(new));
    state.op(1, submit).expect("submitted");
    state
}

/// A scheduler reads a bounded number of jobs of each owner.
#[test]
fn merged_sources_that_wait_keep_no_later_job_of_their_owner_out() {
    let mut state = waiting();
    let later = Op::Submit(Box::new(new_job("later")));
    state.op(2, later).expect("submitted");
    let due = |state: &State, each: u32, limit: usize| -> Vec<String> {
        let due = JobQueue(&state.reader).due(at(20), each, limit);
        due.expect("read").into_iter().map(|job| job.id).collect()
    };
    let change = |state: &mut State, op: JobOp| {
        state.apply(&job_command(3, "f1", op)).expect("changed");
    };
    assert_eq!(due(&state, 2, 10), ["f1", "f2"]);
    change(&mut state, claim(0));
    assert_eq!(due(&state, 1, 10), ["later"]);
    assert_eq!(due(&state, 3, 1), ["later"]);
    assert_eq!(due(&state, 3, 10), ["later", "f2", "f3"]);
    change(&mut state, finish(1, Outcome::Complete));
    assert_eq!(due(&state, 3, 10), ["f2", "f3", "later"]);
}

/// A node learns later than the state that a user has stopped a job, or that its jobs have moved.
#[test]
fn another_node_claims_a_merged_source_once_the_earlier_attempt_must_have_stopped() {
    let by = |node: &str, seen: u64| JobOp::Claim {
        runner: runner(node, "first"),
        seen,
    };
    let merged = || {
        let mut state = waiting();
        let claimed = job_command(1_000, "f1", by("node1", 0));
        state.apply(&claimed).expect("claimed");
        state
    };
    let claim = |state: &mut State, millis: i64, node: &str| {
        let claimed = state.apply(&job_command(millis, "f2", by(node, 0)));
        claimed.map(drop).map_err(|error| error.to_string())
    };
    let stop = |op: JobOp| job_command(2_000, "f1", op);
    for end in [
        stop(JobOp::Pause),
        stop(JobOp::Cancel { comment: None }),
        stop(finish(1, Outcome::Failed)),
        command(2_000, Op::Restart(runner("node1", "second"))),
    ] {
        for (millis, node, is_early) in [
            (2_001, "node2", true),
            (31_999, "node2", true),
            // The clock of the next leader is behind.
            (1_990, "node2", true),
            (32_000, "node2", false),
            (2_001, "node1", false),
        ] {
            let mut state = merged();
            state.apply(&end).expect("ended");
            let claimed = claim(&mut state, millis, node);
            assert_eq!(claimed.is_err(), is_early, "{end} {millis} {node}");
        }
    }
    // These are reports of the attempt at its own end.
    for end in [
        stop(finish(1, Outcome::Complete)),
        stop(finish(1, Outcome::Partial)),
        stop(backoff(1, 9_000)),
    ] {
        let mut state = merged();
        state.apply(&end).expect("ended");
        assert_eq!(claim(&mut state, 2_001, "node2"), Ok(()), "{end}");
    }
    // Another attempt since then changes nothing.
    let mut state = merged();
    state.apply(&stop(JobOp::Pause)).expect("paused");
    let resumed = job_command(2_050, "f1", JobOp::Resume);
    state.apply(&resumed).expect("resumed");
    let job = state.reader.job("f1").expect("read");
    let epoch = job.expect("there").epoch;
    let again = job_command(2_100, "f1", by("node2", epoch));
    state.apply(&again).expect("the same job");
    let done = job_command(2_200, "f1", finish(epoch + 1, Outcome::Complete));
    state.apply(&done).expect("done");
    claim(&mut state, 2_300, "node2").expect_err("node1 may be stopping");
    claim(&mut state, 32_000, "node2").expect("it has stopped");
}
