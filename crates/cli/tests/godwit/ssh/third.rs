//! Owns the tests of transfers between two other machines, and of what becomes of both when something ends one.
//! Sets up no network of its own (`network` does).

use std::fs;

use rustix::process::Signal;

use super::super::judge::assert_identical as same;
use super::super::process::wait_until;
use super::far::{Far, random};

fn two() -> (Far, Far) {
    let (here, other) = (Far::new(), Far::new());
    here.know("other", &other);
    (here, other)
}

fn nobody_is_left(machines: [&Far; 2]) {
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
fn faults_of_either_machine_are_told_here() {
    let (here, other) = two();
    here.write("home/file", "content");
    let missing = here.cp(&["far:nothing", "other:copy"]);
    missing
        .expect(1, "failed")
        .says("nothing")
        .says("check the source's name");
    let nowhere = here.cp(&["far:file", "other:no/such/place"]);
    nowhere
        .expect(1, "failed")
        .says("this directory must exist");
    let usage = here.cp(&["--via-ssh", "far:file", "other:copy"]);
    assert_eq!(usage.code, Some(2), "{}", usage.said());
    usage.says("by way of this machine");
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
