//! Tests one source that goes to several destinations by one read: what arrives, what is read, and what one destination does to the others.
//! The decisions about reads are tested in `hold`, whole transfers of one destination in the other modules.

mod apart;
mod read;

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::data::{Seeded, make_tree};
use super::judge::assert_identical;
use super::outage::wait_for_event;
use super::process::{Outcome, Process, wait_until};
use super::rig::Rig;
use super::terminal::Terminal;

const MIB: u64 = 1 << 20;

/// Destinations that mean the same before and after a run.
const ALL: [&str; 3] = ["a/", "b/", "c/"];

/// A rig with a tree `src`, and directories for its copies; returns the bytes of the tree.
fn rig_with_tree(megabytes: u64) -> (Rig, u64) {
    let rig = Rig::new();
    for name in ALL {
        rig.make_dirs(name);
    }
    let bytes = make_tree(&rig.path("src"), megabytes, &mut Seeded(37));
    (rig, bytes)
}

/// The last event with this name that is about this destination.
fn last_of(outcome: &Outcome, destination: &str, name: &str) -> Value {
    let events = outcome.events();
    let found = events
        .iter()
        .rfind(|event| event["each"] == destination && event["event"] == name);
    found.cloned().unwrap_or_else(|| {
        panic!("no {name} of {destination}: {}", outcome.said());
    })
}

/// The event about all destinations.
fn all_of(outcome: &Outcome) -> Value {
    let last = outcome.events().pop().expect("events");
    assert_eq!(last["event"], "all", "{}", outcome.said());
    last
}

/// Waits until a destination has this many bytes.
fn wait_for_bytes(process: &Process, destination: &str, bytes: u64) {
    wait_for_event(process, 0, |event| {
        event["event"] == "progress"
            && event["each"] == destination
            && event["bytes"].as_u64() >= Some(bytes)
    });
}

#[track_caller]
fn assert_all_identical(rig: &Rig) {
    for name in ALL {
        assert_identical(&rig.path("src"), &rig.path(name).join("src"));
    }
}

#[test]
fn three_local_destinations_equal_the_source() {
    let (rig, bytes) = rig_with_tree(24);
    let outcome = rig.cp(&["--each", "-a", "src", "a/", "b/", "null:", "c/"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    assert_all_identical(&rig);
    for name in ["a/", "b/", "null:", "c/"] {
        let summary = last_of(&outcome, name, "summary");
        assert_eq!(summary["status"], "complete", "{summary}");
    }
    let all = all_of(&outcome);
    assert_eq!(all["destinations"].as_array().map(Vec::len), Some(4));
    assert!(all["read_bytes"].as_u64() >= Some(bytes), "{all}");
    // Nothing is read for a second run.
    let again = rig.cp(&["--each", "-a", "src", "a/", "b/", "c/"]);
    assert_eq!(again.code, Some(0), "{}", again.said());
    assert_eq!(all_of(&again)["read_bytes"], 0, "{}", again.said());
    rig.write("c/src/stale", "only here");
    let line = ["sync", "--json", "--each", "-a", "--delete", "src"];
    let outcome = rig.client(&[&line[..], &["a/src", "new", "c/src"]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    assert_all_identical(&rig);
    assert_identical(&rig.path("src"), &rig.path("new"));
}

#[test]
fn people_see_a_line_for_each_destination_and_one_for_all() {
    let (rig, _) = rig_with_tree(1);
    rig.write("file", "no directory");
    let outcome = rig.client(&["cp", "--each", "src", "a/", "b/", "file/c"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.said());
    let lines: Vec<&str> = outcome.out.lines().collect();
    for start in ["a/: copied: ", "b/: copied: "] {
        assert!(
            lines.iter().any(|line| line.starts_with(start)),
            "{lines:?}"
        );
    }
    let last = lines.last().expect("lines");
    let start = "2 of 3 destinations complete; file/c failed: ";
    assert!(last.starts_with(start), "{lines:?}");
    assert!(last.contains(" read from the source for "), "{lines:?}");
    outcome.says("file/c: ");
}

#[test]
fn a_terminal_has_a_line_for_each_destination() {
    let (rig, _) = rig_with_tree(24);
    let mut command = rig.client_command();
    command
        .args(["cp", "--each", "--limit", "6MB", "src"])
        .args(ALL);
    let mut terminal = Terminal::start(&mut command, 80);
    let drawn = wait_until(|| {
        let screen = terminal.screen();
        let has = |name: &&str| {
            let is_whole = |line: &&String| {
                line.starts_with(name) && line.contains("% ") && line.contains("MB/s")
            };
            screen.iter().filter(is_whole).count() == 1
        };
        ALL.iter().all(has).then_some(())
    });
    assert!(drawn.is_some(), "{:#?}", terminal.screen());
    assert_eq!(terminal.wait(), Some(0));
    let left = wait_until(|| terminal.screen().concat().trim().is_empty().then_some(()));
    assert!(left.is_some(), "{:#?}", terminal.screen());
}

#[test]
fn reports_have_the_number_of_their_destination() {
    let (rig, _) = rig_with_tree(1);
    let line = [
        "--each",
        "--manifest",
        "m",
        "--failed",
        "f",
        "src",
        "a/",
        "b/",
    ];
    let outcome = rig.cp(&line);
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    for (manifest, copy) in [("m.1", "a/src"), ("m.2", "b/src")] {
        let verified = rig.client(&["verify", manifest, copy]);
        assert_eq!(verified.code, Some(0), "{}", verified.said());
    }
    assert!(!rig.path("m").exists());
}

#[test]
fn an_interrupt_stops_all_and_each_resumes() {
    let (rig, _) = rig_with_tree(48);
    let line = ["--each", "-a", "--limit", "16MB", "src", "a/", "b/", "c/"];
    let mut client = rig.begin_cp(&rig.path(""), &line);
    wait_for_bytes(&client, "b/", 12 * MIB);
    client.signal(Signal::INT);
    let outcome = client.wait();
    assert_eq!(outcome.code, Some(5), "{}", outcome.said());
    for name in ALL {
        let summary = last_of(&outcome, name, "summary");
        assert_eq!(summary["status"], "interrupted", "{summary}");
    }
    let again = rig.cp(&["--each", "-a", "src", "a/", "b/", "c/"]);
    assert_eq!(again.code, Some(0), "{}", again.said());
    for name in ALL {
        let started = last_of(&again, name, "started");
        assert_eq!(started["resumed"], true, "{started}");
    }
    assert_all_identical(&rig);
}

#[test]
fn a_killed_command_resumes_each_destination() {
    let (rig, _) = rig_with_tree(48);
    let line = ["--each", "-a", "--limit", "24MB", "src", "a/", "b/", "c/"];
    let mut client = rig.begin_cp(&rig.path(""), &line);
    wait_for_bytes(&client, "c/", 24 * MIB);
    client.signal(Signal::KILL);
    client.wait();
    let again = rig.cp(&["--each", "-a", "src", "a/", "b/", "c/"]);
    assert_eq!(again.code, Some(0), "{}", again.said());
    assert_all_identical(&rig);
}

#[test]
fn contradictions_are_refused_before_any_data_moves() {
    let (mut rig, _) = rig_with_tree(1);
    rig.make_dirs("export/deep");
    let inner = format!("inner={}", rig.path("export/deep").display());
    rig.start(&["--export", &inner]);
    rig.make_dirs("real/deep");
    std::os::unix::fs::symlink("real", rig.path("link")).expect("made");
    let node = |path: &str| rig.url(path);
    // Another export leads to a directory of the first one.
    let inner = |path: &str| format!("godwit://{}/inner/{path}", rig.address());
    let cases: [(&[&str], &str); 18] = [
        (&["src", "x"], "at least two destinations"),
        (&["src", "x", "x"], "x and x are one place"),
        (&["src", "real", "link"], "real and link are one place"),
        (&["src", "x", "./x"], "x and ./x are one place"),
        (&["src", "x", "real/../x"], "x and real/../x are one place"),
        (&["src", "x", "x/in/"], "x/in/ is inside x"),
        (
            &["src", "real/src/in/", "link"],
            "real/src/in/ is inside link",
        ),
        (&["src", "x", "src/in"], "src/in: "),
        (&["src", "x", "."], ".: "),
        (&["src", "x", "-"], "-: with --each"),
        (&["-", "x", "y"], "-: --each reads a source of this machine"),
        (&[&node("src"), "x", "y"], "run the command on that machine"),
        (&["far:src", "x", "y"], "run the command on that machine"),
        (&["src", &node("x"), &node("x/")], "are one place"),
        (&["src", &node("x"), &node("x/y/")], "is inside"),
        (&["src", &node("deep/x"), &inner("x/")], "are one place"),
        (
            &["src", &node("deep/x/y/"), &inner("x")],
            "one is inside the other",
        ),
        (&["--order", "random", "src", "x", "y"], "--order random"),
    ];
    for (line, words) in cases {
        let outcome = rig.cp(&[&["--each"], line].concat());
        let code = outcome.code;
        assert!(
            code == Some(2) || code == Some(1),
            "{line:?}: {}",
            outcome.said()
        );
        outcome.says(words);
    }
    for name in [
        "x",
        "y",
        "real/src",
        "src/in",
        "src/src",
        "export/x",
        "export/deep/x",
    ] {
        assert!(!rig.path(name).exists(), "{name} was made");
    }
    assert!(
        fs::read_dir(rig.path("real/deep"))
            .expect("there")
            .next()
            .is_none()
    );
}
