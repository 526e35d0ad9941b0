//! Tests the state without disk space: a full file system, and a limit on the length of files. See `crash` for
//! kills.

mod support;

use std::env;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use godwit_state::{FaultKind, Op, OpenError, Options, ProposeError, Replica};
use support::{command, new_job, submit};

const DIRECTORY: &str = "GODWIT_STATE_TEST_DIRECTORY";
const ROOM: &str = "GODWIT_STATE_TEST_ROOM";

/// A submission that needs some space.
fn large(number: i64) -> godwit_state::Command {
    let mut job = new_job(&format!("job{number}"));
    job.spec = format!("\"{}\"", "x".repeat(20_000));
    command(number, Op::Submit(Box::new(job)))
}

/// Directory from the parent test, if that test started this process with little space.
fn given() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Runs the test of that name with `directory`, after the commands of a shell.
fn run(name: &str, directory: &Path, room: u64, before: &[&str], script: &str) -> Output {
    let program = env::current_exe().expect("this program");
    let mut words: Vec<&str> = before.to_vec();
    words.extend(["sh", "-c", script, "sh"]);
    Command::new(words[0])
        .args(&words[1..])
        .arg(directory)
        .arg(program)
        .args(["--exact", name, "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROOM, room.to_string())
        .output()
        .expect("run")
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Proposes until there is no space, then frees space and continues. Uses a small file system if possible.
#[test]
fn without_room_changes_are_refused_and_reading_continues() {
    let own = tempfile::tempdir().expect("a directory");
    let directory = given().unwrap_or_else(|| own.path().to_owned());
    let filler = directory.join("filler");
    let mut options = Options::new(directory.join("state"));
    options.free_bytes_min = if given().is_some() {
        fs::write(&filler, vec![1; 4 << 20]).expect("fill");
        2 << 20
    } else {
        // No file system has this much space, so this machine's counts as full.
        u64::MAX
    };
    let replica = Replica::open(options).expect("open");
    let mut number = 0;
    let error = loop {
        match replica.propose_blocking(large(number)) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000, "the file system is not small");
    };
    assert!(matches!(error, ProposeError::Full { .. }), "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
    // Every viewer of the node and of the cluster can read the message, so it must not contain the path.
    let path = directory.to_string_lossy();
    assert!(!error.to_string().contains(&*path), "{error}");
    assert!(replica.is_leader(), "the node goes on");
    let reader = replica.reader();
    let last = number;
    for number in 0..last {
        assert!(reader.job(&format!("job{number}")).expect("read").is_some());
    }
    assert!(reader.job(&format!("job{last}")).expect("read").is_none());
    if given().is_some() {
        // There is no space for a snapshot either. An attempt to write one would end the consensus.
        replica.compact().expect("compact");
        let ended = replica.ended();
        let soon = async { tokio::time::timeout(Duration::from_millis(300), ended).await };
        assert!(wait(soon).is_err(), "the consensus goes on");
        fs::remove_file(&filler).expect("make room");
        replica
            .propose_blocking(large(last))
            .expect("there is room");
    }
}

#[test]
fn a_full_file_system_loses_nothing() {
    if given().is_some() {
        return fill_up();
    }
    let directory = tempfile::tempdir().expect("a directory");
    let before: &[&str] = if rustix::process::geteuid().is_root() {
        &["unshare", "--mount", "--propagation=slave"]
    } else {
        &[
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--propagation=slave",
        ]
    };
    let script = "mount -t tmpfs -o size=24m none \"$1\" || exit 77; shift; exec \"$@\"";
    for name in [
        "without_room_changes_are_refused_and_reading_continues",
        "a_full_file_system_loses_nothing",
    ] {
        let output = run(name, directory.path(), 0, before, script);
        // If mounting is not permitted, the limit on files below tests the same code.
        if output.status.code() == Some(77) && !rustix::process::geteuid().is_root() {
            return godwit_testkit::skip("it needs a namespace to mount in");
        }
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
    }
}

#[test]
fn a_file_that_must_not_grow_loses_nothing() {
    if given().is_some() {
        return fill_up();
    }
    // Lengths at which the log, the state, or SQLite's own logs of them reach the limit first.
    for kib in [300_u64, 1_100, 3_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!("shift; trap '' XFSZ; ulimit -f {}; exec \"$@\"", kib * 2);
        let name = "a_file_that_must_not_grow_loses_nothing";
        let output = run(name, directory.path(), 1, &["env"], &script);
        assert!(output.status.success(), "{output:?}");
        // With space again, all acknowledged commands are present.
        let acknowledged = fs::read_to_string(directory.path().join("acknowledged"));
        let acknowledged: i64 = acknowledged.expect("read").parse().expect("a number");
        let state = directory.path().join("state");
        let replica = Replica::open(Options::new(&state)).expect("open");
        for number in 0..acknowledged {
            let job = replica.reader().job(&format!("job{number}")).expect("read");
            assert!(job.is_some(), "job{number} of {acknowledged} is lost");
        }
        replica
            .propose_blocking(submit(0, "after"))
            .expect("goes on");
    }
}

/// Proposes until the consensus ends because the disk is full, and records the number of acknowledged commands.
fn fill_up() {
    let directory = given().expect("given");
    let mut options = Options::new(directory.join("state"));
    options.free_bytes_min = 0;
    let replica = Replica::open(options.clone()).expect("open");
    let ended = replica.ended();
    let mut number = 0;
    let error = loop {
        match replica.propose_blocking(large(number)) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000, "there is room without end");
    };
    assert!(matches!(error, ProposeError::Ended(_)), "{error}");
    // From the first failed write on, the node is not ready.
    let ready = replica.readiness().check().expect_err("not ready");
    assert!(ready.to_string().contains(".db: "), "{ready}");
    // The process learns that it must end, and why.
    let ended = wait(ended).to_string();
    assert!(ended.contains(".db: "), "names the file: {ended}");
    assert!(ended.contains("Restart the node"), "{ended}");
    for number in 0..number {
        let job = replica.reader().job(&format!("job{number}")).expect("read");
        assert!(job.is_some(), "job{number} is lost");
    }
    replica.shutdown();
    if env::var(ROOM).is_ok_and(|room| room == "1") {
        fs::write(directory.join("acknowledged"), number.to_string()).expect("note");
        return;
    }
    // A start without space fails with a clear message or succeeds. In both cases no command is lost.
    match Replica::open(options) {
        Ok(replica) => {
            assert!(replica.reader().job("job0").expect("read").is_some());
        }
        Err(OpenError::Fault(fault)) => {
            assert!(matches!(fault.kind, FaultKind::Full(_)), "{fault}");
        }
        Err(OpenError::Start(what)) => assert!(what.contains("full"), "{what}"),
    }
}
