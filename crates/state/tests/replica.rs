//! Tests the replica with real files: acknowledged commands are kept, followers resume, two processes exclude each
//! other. Separate tests cover kills, full disks and damage.

mod support;

use std::future::Future;
use std::path::Path;

use godwit_state::{
    Change, CommandError, Effect, FaultKind, FollowError, JobChange, JobFilter, JobOp, JobState,
    Op, OpenError, Options, ProposeError, Replica, Role, User,
};
use support::{claim, command, finish, job_command, new_job, submit};

fn open(directory: &Path) -> Replica {
    Replica::open(Options::new(directory)).expect("open")
}

/// Runs a future without a tokio runtime, like a caller with another executor.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

#[test]
fn acknowledged_commands_are_there_after_reopening() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    assert!(replica.is_leader());
    assert_eq!(replica.leader_hint(), Some((1, String::new())));
    let done = replica.propose_blocking(submit(0, "job1")).expect("submit");
    let queued = Effect::Job {
        id: "job1".to_owned(),
        state: JobState::Queued,
        epoch: 0,
    };
    assert_eq!(done.effect, queued);
    let later = wait(replica.propose(job_command(1, "job1", claim(0)))).expect("claim");
    assert!(later.index > done.index);
    assert_eq!(replica.applied_index(), later.index);
    replica.shutdown();

    let replica = open(directory.path());
    let job = replica.reader().job("job1").expect("read").expect("there");
    assert_eq!((job.state, job.epoch), (JobState::Scanning, 1));
    assert_eq!(job.runner.expect("a runner").node, "node1");
    // A runner of an earlier epoch is refused; the current one is not.
    let stale = job_command(2, "job1", finish(0, godwit_state::Outcome::Complete));
    let error = replica.propose_blocking(stale).expect_err("stale");
    let expected = CommandError::Stale {
        id: "job1".to_owned(),
        given: 0,
        now: 1,
    };
    assert!(matches!(error, ProposeError::Refused(error) if error == expected));
    let end = job_command(3, "job1", finish(1, godwit_state::Outcome::Complete));
    replica.propose_blocking(end).expect("finish");
}

#[test]
fn a_repeated_submission_names_the_first_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let mut first = new_job("job1");
    first.idempotency_key = Some("key".to_owned());
    let mut same = first.clone();
    same.id = "job2".to_owned();
    let mut other = same.clone();
    other.spec = "{}".to_owned();
    let submit = |job| command(0, Op::Submit(Box::new(job)));
    replica.propose_blocking(submit(first)).expect("submit");
    for (job, same) in [(same, true), (other, false)] {
        let error = replica.propose_blocking(submit(job)).expect_err("twice");
        let expected = CommandError::Duplicate {
            job: "job1".to_owned(),
            same,
        };
        assert!(matches!(error, ProposeError::Refused(error) if error == expected));
    }
}

#[test]
fn a_follower_gets_each_event_once_and_resumes() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let mut follower = replica.follow(0);
    let mut seen = Vec::new();
    for number in 0..20 {
        let id = format!("job{number}");
        replica
            .propose_blocking(submit(number, &id))
            .expect("submit");
        if number % 3 == 0 {
            seen.extend(wait(follower.next()).expect("events"));
        }
    }
    let mut resumed = replica.follow(follower.position());
    seen.extend(wait(resumed.next()).expect("events"));
    let ids: Vec<String> = (0..20).map(|number| format!("job{number}")).collect();
    let objects: Vec<String> = seen.iter().map(|event| event.object.clone()).collect();
    assert_eq!(objects, ids);
    assert!(resumed.look().expect("nothing new").is_empty());
    // The number is beyond the database's last event, as after a restore of an older backup.
    let error = replica.follow(1_000).look().expect_err("ahead");
    assert!(matches!(error, FollowError::Gone { last: 20, .. }));
    // A waiting follower is informed of the end.
    let end = std::thread::spawn(move || wait(resumed.next()));
    replica.shutdown();
    let end = end.join().expect("no panic").expect_err("ended");
    assert!(matches!(end, FollowError::Ended), "{end}");
}

#[test]
fn the_end_of_the_consensus_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let ended = replica.ended();
    let watcher = std::thread::spawn(move || wait(ended));
    replica.shutdown();
    let ended = watcher.join().expect("no panic");
    assert!(ended.to_string().contains("Restart the node"), "{ended}");
}

#[test]
fn two_processes_keep_apart() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let error = Replica::open(Options::new(directory.path())).expect_err("locked");
    assert!(
        matches!(&error, OpenError::Fault(fault) if matches!(fault.kind, FaultKind::Locked)),
        "{error}"
    );
    drop(replica);
}

#[test]
fn the_log_is_cut_behind_a_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let users = 2_500;
    std::thread::scope(|scope| {
        for part in 0..25 {
            let replica = &replica;
            scope.spawn(move || {
                for number in 0..users / 25 {
                    let user = User {
                        name: format!("user{part}-{number}"),
                        role: Role::Viewer,
                        password: None,
                        disabled: false,
                    };
                    let put = command(0, Op::User(Change::Put(user)));
                    replica.propose_blocking(put).expect("put");
                }
            });
        }
    });
    replica.compact().expect("compact");
    let entries = || -> u64 {
        let log = rusqlite::Connection::open(directory.path().join("raft.db")).expect("open");
        let count: i64 = log
            .query_row("SELECT count(*) FROM entries", [], |row| row.get(0))
            .expect("count");
        count.unsigned_abs()
    };
    let cut = (0..6_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        entries() <= 1_300
    });
    assert!(cut, "{} entries are left", entries());
    replica.shutdown();
    // Without the state, the cut log is useless. The node must not start with an empty state.
    let state = directory.path().join("state.db");
    let aside = directory.path().join("aside");
    std::fs::rename(&state, &aside).expect("rename");
    let error = Replica::open(Options::new(directory.path())).expect_err("apart");
    assert!(error.to_string().contains("are lost"), "{error}");
    std::fs::rename(&aside, &state).expect("rename");
    let replica = open(directory.path());
    let there = replica.reader().objects::<User>().expect("read").len();
    assert_eq!(there, users);
}

#[test]
fn a_command_that_is_too_long_is_refused_before_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let replica = open(directory.path());
    let before = replica.applied_index();
    let label = "x".repeat(godwit_state::COMMAND_BYTES_MAX);
    let long = job_command(
        0,
        "job1",
        JobOp::Change(JobChange {
            label: Some(label),
            ..JobChange::default()
        }),
    );
    let error = replica.propose_blocking(long).expect_err("too long");
    assert!(matches!(error, ProposeError::TooLarge { .. }), "{error}");
    assert_eq!(replica.applied_index(), before);
    let page = replica.reader().jobs(&JobFilter::default(), None, 10);
    assert!(page.expect("read").jobs.is_empty());
}

#[test]
fn a_slow_disk_leaves_a_proposal_unknown_and_not_undone() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = Options::new(directory.path());
    options.propose_within = std::time::Duration::from_millis(50);
    let replica = Replica::open(options).expect("open");
    let mut follower = replica.follow(0);
    // Another connection blocks writes to the log, like a disk that hangs.
    let mut slow = rusqlite::Connection::open(directory.path().join("raft.db")).expect("open");
    let held = slow
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .expect("hold");
    let error = replica
        .propose_blocking(submit(0, "job1"))
        .expect_err("no answer");
    assert!(matches!(error, ProposeError::Unknown), "{error}");
    drop(held);
    let events = wait(follower.next()).expect("an event");
    assert_eq!(events[0].object, "job1");
}

#[test]
fn the_lock_of_a_process_that_is_about_to_end_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    Replica::open(Options::new(directory.path()))
        .expect("open")
        .shutdown();
    let file = directory.path().join("state.lock");
    let lock = std::fs::File::open(file).expect("there");
    lock.try_lock().expect("free");
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(lock);
    });
    Replica::open(Options::new(directory.path()))
        .expect("open")
        .shutdown();
    holder.join().expect("no panic");
}
