//! Tests the stored amounts of attempts: the highest report counts, and only the node that ran the attempt may report.
//! See `commands` for other commands of jobs.

mod support;

use godwit_state::{
    Command, CommandError, FEATURE_LEVEL, FailureCode, JobAmounts, JobDetails, JobOp, Moved, Op,
    Outcome, Reason,
};
use support::nodes::{actor, denied, done, two_nodes};
use support::state::State;
use support::{at, claim, finish, new_job, runner};

fn moved(attempt: u32, bytes: u64, files: u64, again: u64) -> JobOp {
    JobOp::Moved {
        attempt,
        moved: Moved {
            bytes,
            files,
            bytes_again: again,
        },
    }
}

#[test]
fn the_log_keeps_its_spelling_of_amounts() {
    let json = r#"{"moved":{"attempt":1,"moved":{"bytes":2,"files":3,"again":4}}}"#;
    let op: JobOp = serde_json::from_str(json).expect("a command");
    assert_eq!(op, moved(1, 2, 3, 4));
    assert_eq!(serde_json::to_string(&op).expect("JSON"), json);
    // The spelling of the API is another.
    let amounts = Moved {
        bytes: 2,
        files: 3,
        bytes_again: 4,
    };
    let json = serde_json::to_string(&amounts).expect("JSON");
    assert_eq!(json, r#"{"bytes":2,"files":3,"bytes_again":4}"#);
}

#[test]
fn amounts_of_attempts_add_up_for_each_kind_of_end() {
    let mut state = State::new();
    let job = Op::Submit(Box::new(new_job("job")));
    state.op(0, job).expect("submit");
    state.job(1, claim(0)).expect("claim");
    let early = state.job(2, moved(1, 70, 2, 0)).expect_err("level 1");
    assert!(
        early.to_string().contains("needs cluster level 4"),
        "{early}"
    );
    state.op(2, Op::Level(FEATURE_LEVEL)).expect("alone");
    state.job(3, moved(2, 1, 1, 1)).expect_err("no attempt");
    // A user paused the job: its claim has ended, and the attempt still reports its amounts.
    state.job(4, JobOp::Pause).expect("paused");
    state.job(5, moved(1, 70, 2, 5)).expect("moved");
    state.job(6, moved(1, 60, 3, 4)).expect("less, and more");
    state.job(7, JobOp::Resume).expect("resumed");
    state.job(8, claim(3)).expect("claim");
    state.job(9, moved(2, 20, 1, 1)).expect("moved");
    let backoff = JobOp::Backoff {
        epoch: 4,
        reason: Reason::new(FailureCode::Unreachable, "siteB does not answer."),
        next_attempt: at(20),
        bytes: 10,
        files: 1,
    };
    state.job(10, backoff).expect("backoff");
    let attempts = state.reader.attempts("job").expect("attempts");
    let reported: Vec<Moved> = attempts.iter().map(|attempt| attempt.moved).collect();
    let figures = |bytes, files, again| Moved {
        bytes,
        files,
        bytes_again: again,
    };
    assert_eq!(reported, [figures(70, 3, 5), figures(20, 1, 1)]);
    let sum = JobAmounts(&state.reader).of("job").expect("read");
    assert_eq!(sum, figures(90, 4, 6));
}

#[test]
fn figures_beyond_all_measure_are_summed_up() {
    let mut state = State::new();
    let job = Op::Submit(Box::new(new_job("job")));
    state.op(0, job).expect("submit");
    state.op(1, Op::Level(FEATURE_LEVEL)).expect("alone");
    state.job(2, claim(0)).expect("claim");
    state.job(3, JobOp::Pause).expect("paused");
    state
        .job(4, moved(1, u64::MAX, u64::MAX, u64::MAX))
        .expect("moved");
    state.job(5, JobOp::Resume).expect("resumed");
    state.job(6, claim(3)).expect("claim");
    state
        .job(7, moved(2, u64::MAX, u64::MAX, u64::MAX))
        .expect("moved");
    let all = JobAmounts(&state.reader).of("job").expect("read");
    let details = JobDetails(&state.reader).of(["job"]).expect("read");
    let most = i64::MAX.unsigned_abs();
    assert!(all.bytes > most);
    assert_eq!(details["job"].moved, all);
    // The running attempt is not included.
    assert_eq!(details["job"].moved_before.bytes, most);
}

#[test]
fn the_report_of_a_claim_that_another_node_has_replaced_is_late_and_not_forbidden() {
    let mut state = two_nodes();
    let of_job = |op| Op::Job("j".to_owned(), op);
    let claim = |by: &str, seen| {
        let runner = runner(by, "first");
        of_job(JobOp::Claim { runner, seen })
    };
    let (a, b) = (|| actor("a", None, 1), || actor("b", None, 2));
    state
        .op(1, Op::Submit(Box::new(new_job("j"))))
        .expect("a job");
    done(&mut state, a(), claim("a", 0));
    state.op(2, of_job(JobOp::Pause)).expect("paused");
    state.op(2, of_job(JobOp::Resume)).expect("resumed");
    done(&mut state, b(), claim("b", 3));
    let end = |epoch| of_job(finish(epoch, Outcome::Complete));
    let late = state.apply(&Command::new(at(1), a(), end(1)));
    assert!(matches!(late, Err(CommandError::Stale { .. })), "{late:?}");
    denied(&mut state, a(), end(4), "job.finish");
    done(&mut state, b(), end(4));
}
