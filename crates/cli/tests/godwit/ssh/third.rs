//! Owns the tests of transfers between two other machines, and of the fate of both when one ends.
//! Sets up no network; `network` does.

use std::fs;

use rustix::process::Signal;

use super::super::judge::assert_identical as same;
use super::super::process::{Process, wait_until};
use super::super::threads::decisions;
use super::far::{Far, random};
use super::faults::kill;

pub(super) fn two() -> (Far, Far) {
    let (here, other) = (Far::new(), Far::new());
    here.know("other", &other);
    (here, other)
}

pub(super) fn nobody_is_left(machines: [&Far; 2]) {
    for machine in machines {
        let left = || machine.processes("agent --").is_empty().then_some(());
        assert!(wait_until(left).is_some(), "an agent is left");
    }
}

#[test]
fn data_goes_straight_from_one_machine_to_another() {
    let (here, other) = two();
    here.write("home/tree/large", random(2_000_000, 5));
    here.write("home/tree/d/it's small", "x");
    let outcome = here.cp(&["--streams", "3", "far:tree", "other:copy"]);
    outcome.complete().says("far:tree").says("other:");
    assert_eq!(outcome.number("bytes"), 2_000_001, "{}", outcome.said());
    same(&here.home().join("tree"), &other.home().join("copy"));
    let again = here.cp(&["far:tree/", "far:~/tree/large", "other:many/"]);
    again.complete();
    assert_eq!(
        fs::read(other.home().join("many/tree/d/it's small")).expect("there"),
        b"x"
    );
    assert_eq!(
        fs::read(other.home().join("many/large"))
            .expect("there")
            .len(),
        2_000_000
    );
    nobody_is_left([&here, &other]);
}

#[test]
fn thread_decisions_of_both_machines_are_reported_here() {
    let (here, other) = two();
    here.write("home/file", "content");
    other.write("home/.godwit/config.toml", "writers = '2..3'\n");
    let outcome = here.cp(&["--readers", "4..5", "far:file", "other:copy"]);
    let reported = [
        "readers 0 -> 4: at least 4 were requested",
        "writers 0 -> 2: at least 2 were requested",
    ];
    assert_eq!(decisions(&outcome), reported);
    nobody_is_left([&here, &other]);
}

#[test]
fn faults_of_either_machine_are_reported_here() {
    let (here, other) = two();
    here.write("home/file", "content");
    let missing = here.cp(&["far:nothing", "other:copy"]);
    missing
        .expect(1, "failed")
        .says("nothing")
        .says("No such file or directory");
    let nowhere = here.cp(&["far:file", "other:no/such/place"]);
    nowhere
        .expect(1, "failed")
        .says("this directory must exist");
    let usage = here.cp(&["--via-ssh", "far:file", "other:copy"]);
    assert_eq!(usage.code, Some(2), "{}", usage.said());
    usage.says("copy through this machine");
    nobody_is_left([&here, &other]);
}

#[test]
fn an_interrupt_here_ends_both_machines_and_the_same_command_resumes() {
    let (here, other) = two();
    let content = random(24 << 20, 9);
    here.write("home/file", &content);
    let mut process = here.start(&[
        "--limit",
        "8MB",
        "--block-size",
        "64KiB",
        "far:file",
        "other:",
    ]);
    process.wait_for_bytes(1 << 20);
    process.signal(Signal::INT);
    process.wait().expect(5, "interrupted");
    nobody_is_left([&here, &other]);
    let resumed = here.cp(&["--block-size", "64KiB", "far:file", "other:"]);
    resumed.complete().says("\"resumed\":true");
    assert!(fs::read(other.home().join("file")).expect("there") == content);
}

/// A running transfer from the first to the second, and its content.
fn under_way(here: &Far, more: &[&str]) -> (Process, Vec<u8>) {
    let content = random(24 << 20, 9);
    here.write("home/file", &content);
    let mut line = vec![
        "--limit",
        "8MB",
        "--block-size",
        "64KiB",
        "far:file",
        "other:",
    ];
    line.extend(more);
    let mut process = here.start(&line);
    process.wait_for_bytes(1 << 20);
    (process, content)
}

fn arrived(here: &Far, other: &Far, content: &[u8]) {
    let there = fs::read(other.home().join("file")).expect("it has its name");
    assert!(there == content, "the content differs");
    nobody_is_left([here, other]);
}

/// Finds the ids of the processes of one kind on two machines.
type Find = fn(&Far, &Far) -> Vec<i32>;

/// The processes that carry out a transfer, each with the function that finds it.
const ROLES: [(&str, Find); 4] = [
    ("sending agent", |here, _| here.agents()),
    ("receiving agent", |_, other| other.agents()),
    ("ssh to the sender", |here, _| {
        here.processes("far godwit agent")
    }),
    ("ssh to the receiver", |here, _| {
        here.processes("other godwit agent")
    }),
];

#[test]
fn whatever_is_killed_between_two_other_machines_the_transfer_continues() {
    for (role, ids) in ROLES {
        let (here, other) = two();
        let (mut process, content) = under_way(&here, &[]);
        kill(&ids(&here, &other), Signal::KILL);
        let outcome = process.wait();
        outcome.complete();
        // Once data flows, the receiving agent needs no ssh.
        let begun = if role == "ssh to the receiver" { 1 } else { 2 };
        let said = outcome.said();
        assert_eq!(said.matches("\"started\"").count(), begun, "{role}: {said}");
        if begun == 2 {
            outcome.says("\"resumed\":true");
        }
        arrived(&here, &other, &content);
    }
}

#[test]
fn a_transfer_without_retries_ends_and_the_same_command_resumes() {
    for (role, ids) in &ROLES[..3] {
        let (here, other) = two();
        let (mut process, content) = under_way(&here, &["--retry-for", "0"]);
        kill(&ids(&here, &other), Signal::KILL);
        let outcome = process.wait();
        outcome.expect(5, "interrupted");
        let resumed = here.cp(&["--block-size", "64KiB", "far:file", "other:"]);
        resumed.complete();
        assert!(
            resumed.said().contains("\"resumed\":true"),
            "{role}: {}",
            resumed.said()
        );
        arrived(&here, &other, &content);
    }
}

#[test]
fn the_next_run_takes_over_when_the_client_of_two_other_machines_was_killed() {
    let (here, other) = two();
    let (mut process, content) = under_way(&here, &[]);
    process.signal(Signal::KILL);
    process.wait();
    let resumed = here.cp(&["--block-size", "64KiB", "far:file", "other:"]);
    resumed.complete().says("\"resumed\":true");
    arrived(&here, &other, &content);
}
