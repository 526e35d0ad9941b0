//! Tests that as many threads read and write beside the streams as was asked for, and that events report the number.
//! Measures no speed.

use std::fs;

use rustix::process::Signal;

use super::process::{Outcome, Process, wait_until};
use super::rig::Rig;

/// A file at either side, and a daemon with these settings.
fn rig(daemon: &[&str]) -> Rig {
    let mut rig = Rig::new();
    rig.make_dirs("to");
    for place in ["file", "export/from/file"] {
        rig.write(place, vec![7; 4 << 20]);
    }
    rig.start(daemon);
    rig
}

/// The number of threads of a process whose names begin with `name`.
fn threads(process: &Process, name: &str) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).expect("it runs");
    // A thread that has just ended has no name.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(name)).count()
}

/// Waits until there are exactly this many.
#[track_caller]
fn expect_threads(process: &Process, name: &str, count: usize) {
    let found = wait_until(|| (threads(process, name) == count).then_some(()));
    let said = || format!("{} {name}: {}", threads(process, name), process.said());
    assert!(found.is_some(), "{}", said());
}

/// The decisions on such threads, in order.
pub(crate) fn decisions(outcome: &Outcome) -> Vec<String> {
    let mut events = outcome.complete().events();
    events.retain(|event| event["event"] == "tuning" && event["what"] != "streams");
    let reported = events.iter().map(|event| {
        let text = |name: &str| event[name].as_str().expect("text").to_owned();
        let (what, reason) = (text("what"), text("reason"));
        format!("{what} {} -> {}: {reason}", event["from"], event["to"])
    });
    reported.collect()
}

#[test]
fn as_many_threads_as_were_asked_for_read_and_write() {
    let rig = rig(&["--readers", "3..4", "--writers", "2..4"]);
    // Slow, so that it can be looked at.
    let begin = |more: [&str; 4]| {
        let flags = ["--limit", "1MB", "--block-size", "64KiB"];
        let mut client = rig.begin_cp(&rig.path(""), &[flags, more].concat());
        client.wait_for_bytes(1);
        client
    };
    let end = |mut client: Process| {
        client.signal(Signal::INT);
        client.wait().expect(5, "interrupted");
    };
    let push = begin(["--readers", "4..8", "file", &rig.url("")]);
    expect_threads(&push, "gw-read-", 4);
    expect_threads(rig.daemon(), "gw-write-", 2);
    // Checked while it runs: this transfer ends without a summary.
    push.wait_for("\"writers\",\"from\":0,\"to\":2,");
    end(push);
    let pull = begin(["--writers", "5", &rig.url("from/file"), "to/"]);
    expect_threads(&pull, "gw-write-", 5);
    expect_threads(rig.daemon(), "gw-read-", 3);
    pull.wait_for("\"readers\",\"from\":0,\"to\":3,");
    end(pull);
}

#[test]
fn given_bounds_are_shown_and_a_number_is_not() {
    let rig = rig(&[]);
    let ways = |name: &str| {
        [
            ["file".to_owned(), rig.url(name)],
            [rig.url("from/file"), format!("to/{name}")],
            ["file".to_owned(), format!("to/local-{name}")],
        ]
    };
    let run = |flags: &[&str], way: &[String; 2]| {
        let way = way.iter().map(String::as_str);
        decisions(&rig.cp(&flags.iter().copied().chain(way).collect::<Vec<_>>()))
    };
    let bounds = ["--readers", "2..3", "--writers", "4..5"];
    let [push, pull, local] = ways("bounded").map(|way| run(&bounds, &way));
    let readers = "readers 0 -> 2: at least 2 were requested";
    let writers = "writers 0 -> 4: at least 4 were requested";
    assert_eq!(push, [readers]);
    assert_eq!(pull, [writers]);
    // Two ends in one process report the same as two ends in separate processes.
    assert_eq!(local, [readers, writers]);
    for way in ways("fixed") {
        let reported = run(&["--readers", "2", "--writers", "4"], &way);
        assert_eq!(reported, [""; 0], "{way:?}");
    }
}

#[test]
fn the_client_shows_the_decisions_of_the_other_end() {
    let rig = rig(&["--readers", "2..3", "--writers", "4..5"]);
    let push = [
        "--readers",
        "6..7",
        "--log-file",
        "log",
        "file",
        &rig.url(""),
    ];
    let pull = ["--writers", "8..9", &rig.url("from/file"), "to/"];
    let own = [
        "readers 0 -> 6: at least 6 were requested",
        "writers 0 -> 8: at least 8 were requested",
    ];
    let theirs = [
        "writers 0 -> 4: at least 4 were requested",
        "readers 0 -> 2: at least 2 were requested",
    ];
    let outcome = rig.cp(&push);
    assert_eq!(decisions(&outcome), [own[0], theirs[0]]);
    let log = String::from_utf8(rig.read("log")).expect("text");
    let logged = log.lines().filter(|line| line.contains("\"tuning\""));
    assert_eq!(logged.count(), 2, "{log}");
    assert_eq!(decisions(&rig.cp(&pull)), [own[1], theirs[1]]);
    // The log of a node has the node's decision once, and not the client's.
    for line in theirs {
        rig.daemon().wait_for(line);
        assert_eq!(rig.daemon().said().matches(line).count(), 1, "{line}");
    }
    for line in own {
        assert!(!rig.daemon().said().contains(line), "{line}");
    }
    // On the screen for interested people.
    let line = ["cp", "--force", "--readers", "0", "file", &rig.url("")];
    let reported = |more: &[&str]| rig.client(&[&line[..], more].concat()).said();
    let (quiet, verbose) = (reported(&[]), reported(&["-v"]));
    assert!(!quiet.contains(theirs[0]), "{quiet}");
    assert!(verbose.contains(theirs[0]), "{verbose}");
}
