//! Tests the state with random commands: states follow the table, and counts, epochs, keys and replicas are consistent.
//! Other tests cover the consensus log.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use godwit_state::{
    Cause, Change, Code, Command, Job, JobFilter, JobOp, JobState, Op, Outcome, Position, Prune,
    Reader, Reason, Store, Webhook, allowed,
};
use proptest::prelude::*;
use support::{at, command, finish, job_command, new_job, nightly, runner};

const JOBS: u8 = 6;

#[derive(Clone, Debug)]
enum Step {
    Submit {
        job: u8,
        key: Option<u8>,
        later: bool,
        deadline: bool,
    },
    Job {
        job: u8,
        what: u8,
        stale: bool,
    },
    Restart {
        node: u8,
        instance: u8,
    },
    Fired {
        tick: u8,
        job: u8,
    },
    Prune,
    Webhook {
        on: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..JOBS, proptest::option::of(0..3_u8), any::<bool>(), any::<bool>())
            .prop_map(|(job, key, later, deadline)| Step::Submit { job, key, later, deadline }),
        12 => (0..JOBS, 0..17_u8, proptest::bool::weighted(0.1))
            .prop_map(|(job, what, stale)| Step::Job { job, what, stale }),
        1 => (0..2_u8, 0..2_u8).prop_map(|(node, instance)| Step::Restart { node, instance }),
        1 => (0..4_u8, 0..JOBS).prop_map(|(tick, job)| Step::Fired { tick, job }),
        1 => Just(Step::Prune),
        1 => any::<bool>().prop_map(|on| Step::Webhook { on }),
    ]
}

/// The command of a step, made like a caller that has read the job.
fn make(step: &Step, millis: i64, jobs: &BTreeMap<String, Job>) -> Command {
    match step {
        Step::Submit {
            job,
            key,
            later,
            deadline,
        } => {
            let mut new = new_job(&format!("job{job}"));
            new.idempotency_key = key.map(|key| format!("key{key}"));
            new.not_before = later.then(|| at(millis + 50));
            new.deadline = deadline.then(|| at(millis + 100));
            new.retry.retries_max = Some(2);
            command(millis, Op::Submit(Box::new(new)))
        }
        Step::Job { job, what, stale } => {
            let id = format!("job{job}");
            let epoch = jobs.get(&id).map_or(0, |job| job.epoch);
            let epoch = if *stale { epoch.wrapping_sub(1) } else { epoch };
            let reason = Reason::new(Code::of_word("test"), "A test.");
            let report = |state| JobOp::Report {
                epoch,
                state,
                reason: None,
            };
            let op = match what {
                0..=3 => JobOp::Claim {
                    runner: runner(&format!("node{}", what % 2), &format!("start{}", what / 2)),
                    seen: epoch,
                },
                4 => report(JobState::Running),
                5 => report(JobState::Verifying),
                6 => JobOp::Backoff {
                    epoch,
                    reason,
                    next_attempt: at(millis + 40),
                    bytes: 5,
                    files: 1,
                },
                7 => finish(epoch, Outcome::Complete),
                8 => finish(epoch, Outcome::Partial),
                9 => JobOp::Pause,
                10 => JobOp::Resume,
                11 => JobOp::Cancel { comment: None },
                12 => JobOp::Retry,
                13 => JobOp::Expire,
                14 => JobOp::Explain {
                    seen: epoch,
                    reason,
                },
                15 => JobOp::Deny {
                    seen: epoch,
                    reason,
                },
                _ => report(JobState::Complete),
            };
            job_command(millis, &id, op)
        }
        Step::Restart { node, instance } => {
            let runner = runner(&format!("node{node}"), &format!("start{instance}"));
            command(millis, Op::Restart(runner))
        }
        Step::Fired { tick, job } => command(
            millis,
            Op::Fired {
                schedule: "nightly".to_owned(),
                tick: at(1_000 + i64::from(*tick)),
                job: Some(Box::new(new_job(&format!("job{job}")))),
                children: Vec::new(),
                reason: None,
            },
        ),
        Step::Prune => {
            let jobs_before = Some(at(millis - 200));
            command(
                millis,
                Op::Prune(Prune {
                    jobs_before,
                    ..Prune::default()
                }),
            )
        }
        Step::Webhook { on } => command(
            millis,
            Op::Webhook(Change::Put(Webhook {
                id: "hook".to_owned(),
                url: "https://example.org/hook".to_owned(),
                events: vec!["complete".to_owned(), "failed".to_owned()],
                owner: None,
                secret: godwit_state::Secret::new("secret"),
                disabled: !on,
            })),
        ),
    }
}

/// Possible causes of a change of a job, given the command.
fn causes(op: &Op) -> Vec<Cause> {
    match op {
        Op::Restart(_) => vec![Cause::Restart],
        Op::Job(_, op) => match op {
            JobOp::Claim { .. } => vec![Cause::Claim],
            JobOp::Report { .. } => vec![Cause::Report],
            JobOp::Backoff { .. } => vec![Cause::Backoff, Cause::Expire],
            JobOp::Finish(_) => vec![Cause::Finish],
            JobOp::Expire => vec![Cause::Expire],
            JobOp::Deny { .. } => vec![Cause::Deny],
            JobOp::Pause => vec![Cause::Pause],
            JobOp::Resume => vec![Cause::Resume],
            JobOp::Cancel { .. } => vec![Cause::Cancel],
            JobOp::Retry => vec![Cause::Retry],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn all(reader: &Reader) -> BTreeMap<String, Job> {
    let page = reader
        .jobs(&JobFilter::default(), None, 100)
        .expect("a page");
    assert!(page.next.is_none());
    page.jobs
        .into_iter()
        .map(|job| (job.id.clone(), job))
        .collect()
}

fn assert_whole(jobs: &BTreeMap<String, Job>, reader: &Reader) {
    let mut keys = BTreeSet::new();
    let mut counts = BTreeMap::new();
    for job in jobs.values() {
        *counts.entry(job.state).or_insert(0_u64) += 1;
        assert_eq!(job.runner.is_some(), job.state.moves(), "{job:?}");
        assert_eq!(job.ended.is_some(), job.state.ended(), "{job:?}");
        assert!(job.state.moves() || job.reason.is_some(), "{job:?}");
        assert!(job.next_attempt.is_none() || job.state.waits(), "{job:?}");
        assert!(job.retries <= 2, "{job:?}");
        if let Some(key) = &job.idempotency_key {
            assert!(keys.insert((job.owner.clone(), key.clone())), "{job:?}");
        }
        let attempts = reader.attempts(&job.id).expect("attempts");
        assert_eq!(attempts.len(), job.attempts as usize);
        let running = attempts
            .iter()
            .filter(|attempt| attempt.ended.is_none())
            .count();
        assert_eq!(
            running,
            usize::from(job.state.moves()),
            "{job:?} {attempts:?}"
        );
    }
    let reported: BTreeMap<_, _> = reader
        .job_counts(None)
        .expect("counts")
        .into_iter()
        .collect();
    assert_eq!(reported, counts);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_commands_keep_the_state_whole(steps in proptest::collection::vec(step(), 1..120), batch in 1_usize..9) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("state.db");
        let mut store = Store::open(&file).expect("open");
        let reader = Reader::new(file);
        let mut commands = vec![command(0, Op::Schedule(Change::Create(nightly())))];
        store.apply(1, &commands[0]).expect("apply").expect("created");
        let mut jobs = BTreeMap::new();
        let mut ticks = BTreeSet::new();
        for (index, step) in (2_i32..).zip(&steps) {
            let command = make(step, i64::from(index) * 10, &jobs);
            let dump = store.dump().expect("dump");
            let applied = store.apply(index.unsigned_abs().into(), &command).expect("apply");
            let after = all(&reader);
            if applied.is_err() {
                let without_audit = |dump: &str| -> Vec<String> {
                    dump.lines()
                        .filter(|line| !line.starts_with("audit|") && !line.starts_with("sqlite_sequence|audit|"))
                        .map(ToOwned::to_owned)
                        .collect()
                };
                prop_assert_eq!(without_audit(&dump), without_audit(&store.dump().expect("dump")));
            } else if let Op::Fired { tick, .. } = &command.op {
                prop_assert!(ticks.last().is_none_or(|last| last < tick), "a tick fired twice");
                ticks.insert(*tick);
            }
            for (id, job) in &after {
                let Some(before): Option<&Job> = jobs.get(id) else {
                    prop_assert!(job.state.waits() && job.epoch == 0);
                    continue;
                };
                // A job that was pruned and submitted again starts with a new epoch.
                prop_assert!(job.epoch >= before.epoch);
                let by = causes(&command.op);
                let report = matches!(command.op, Op::Job(_, JobOp::Report { .. }));
                if before.state != job.state {
                    prop_assert!(by.iter().any(|cause| allowed(before.state, *cause, job.state)), "{before:?} {job:?}");
                    prop_assert!(report || job.epoch > before.epoch, "{before:?} {job:?}");
                }
            }
            assert_whole(&after, &reader);
            jobs = after;
            commands.push(command);
        }
        // Another replica, with several commands in each transaction.
        let mut other = Store::open(&directory.path().join("other.db")).expect("open");
        for (number, chunk) in commands.chunks(batch).enumerate() {
            let mut transaction = other.batch().expect("batch");
            for (offset, command) in chunk.iter().enumerate() {
                let index = number * batch + offset + 1;
                let _ = transaction.apply(index as u64, command).expect("apply");
                transaction.mark(&Position { index: index as u64, ..Position::default() }).expect("mark");
            }
            transaction.commit().expect("commit");
        }
        prop_assert_eq!(store.dump().expect("dump"), other.dump().expect("dump"));
        prop_assert_eq!(store.position().expect("position"), other.position().expect("position"));
    }
}
