//! Tests that a lost connection behind ssh is reported like any other: to one machine, and between two others.
//! Does not test that the transfer survives (`faults`, `third`).

use rustix::process::Signal;

use super::super::outage::{wait_for_loss, wait_for_return};
use super::super::process::Process;
use super::far::{Far, random};
use super::faults::kill;
use super::third::two;

const BYTES: usize = 200 << 20;
const SLOWLY: [&str; 4] = ["--limit", "2MB", "--block-size", "64KiB"];

fn begin(far: &Far, from: &str, to: &str) -> Process {
    let mut process = far.start(&[&SLOWLY[..], &[from, to]].concat());
    process.wait_for_bytes(1 << 20);
    process
}

/// Stops the agents of `machine`, lets them continue, then kills them. Each loss is reported here.
fn output_of(process: &mut Process, machine: &Far) {
    kill(&machine.agents(), Signal::STOP);
    let at = wait_for_loss(process, 0, true);
    kill(&machine.agents(), Signal::CONT);
    let at = wait_for_return(process, at);
    kill(&machine.agents(), Signal::KILL);
    let at = wait_for_loss(process, at, false);
    wait_for_return(process, at);
    process.signal(Signal::INT);
    process.wait().expect(5, "interrupted");
}

#[test]
fn an_agent_that_stands_still_or_is_killed() {
    let far = Far::new();
    far.write("file", random(BYTES, 3));
    let mut process = begin(&far, "file", "far:");
    output_of(&mut process, &far);
}

#[test]
fn the_receiving_one_of_two_other_machines() {
    let (here, other) = two();
    here.write("home/file", random(BYTES, 3));
    let mut process = begin(&here, "far:file", "other:");
    output_of(&mut process, &other);
}

#[test]
fn the_sending_one_of_two_other_machines() {
    let (here, _other) = two();
    here.write("home/file", random(BYTES, 3));
    let mut process = begin(&here, "far:file", "other:");
    output_of(&mut process, &here);
}
