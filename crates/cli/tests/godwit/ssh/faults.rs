//! Owns the tests of failures in the middle: ssh, the agent, the client, the user's patience.
//! Sets up no network.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::super::process::{Process, wait_until};
use super::far::{Far, random};

/// Long enough to be interrupted at this rate, in both senses.
const BYTES: usize = 24 << 20;
const RATE: &str = "12MB";

/// A running push, and its content.
fn under_way(far: &Far, more: &[&str]) -> (Process, Vec<u8>) {
    let content = random(BYTES, 3);
    far.write("file", &content);
    let mut line = vec!["--limit", RATE, "--block-size", "64KiB", "file", "far:"];
    line.extend(more);
    let mut process = far.start(&line);
    process.wait_for_bytes(1 << 20);
    (process, content)
}

pub(super) fn kill(ids: &[i32], signal: Signal) {
    assert!(!ids.is_empty(), "it runs");
    for id in ids {
        // The process may end at this moment.
        let _ = kill_process(Pid::from_raw(*id).expect("not 0"), signal);
    }
}

fn arrived(far: &Far, content: &[u8]) {
    let there = fs::read(far.home().join("file")).expect("it has its name");
    assert!(there == content, "the content differs");
    nobody_is_left(far);
}

pub(super) fn nobody_is_left(far: &Far) {
    let left = || far.processes("agent --").is_empty().then_some(());
    assert!(
        wait_until(left).is_some(),
        "{:?}",
        far.processes("agent --")
    );
}

#[test]
fn the_transfer_continues_when_ssh_is_killed() {
    let far = Far::new();
    let (mut process, content) = under_way(&far, &[]);
    let agents = far.processes("godwit agent --stdio");
    kill(&far.processes("ssh -F"), Signal::KILL);
    let outcome = process.wait();
    outcome.complete();
    assert_eq!(
        outcome.said().matches("\"started\"").count(),
        1,
        "the same transfer: {agents:?} {}",
        outcome.said()
    );
    arrived(&far, &content);
}

#[test]
fn a_killed_agent_is_restarted_and_arrived_data_is_kept() {
    let far = Far::new();
    let (mut process, content) = under_way(&far, &[]);
    kill(&far.agents(), Signal::KILL);
    let outcome = process.wait();
    outcome.complete();
    assert_eq!(
        outcome.said().matches("\"started\"").count(),
        2,
        "{}",
        outcome.said()
    );
    arrived(&far, &content);
}

#[test]
fn an_interrupt_ends_both_sides_and_the_same_command_resumes() {
    for more in [&[][..], &["--via-ssh"]] {
        let far = Far::new();
        let (mut process, content) = under_way(&far, more);
        process.signal(Signal::INT);
        process.wait().expect(5, "interrupted");
        nobody_is_left(&far);
        let resumed = far.cp(&["--block-size", "64KiB", "file", "far:"]);
        resumed.complete().says("\"resumed\":true");
        arrived(&far, &content);
    }
}

#[test]
fn the_next_run_takes_over_from_an_agent_whose_client_was_killed() {
    let far = Far::new();
    let (mut process, content) = under_way(&far, &[]);
    process.signal(Signal::KILL);
    process.wait();
    let resumed = far.cp(&["--block-size", "64KiB", "file", "far:"]);
    resumed.complete().says("\"resumed\":true");
    arrived(&far, &content);
}

/// An ssh that hangs: before anything came, and behind the noise of a shell.
const HANGING: [(&str, &str); 2] = [
    ("exec sleep 1000", "no answer comes through ssh"),
    ("echo Welcome; exec sleep 1000", "no agent answers"),
];

#[test]
fn an_ssh_that_hangs_is_given_up() {
    let far = Far::new();
    far.write("file", "content");
    for (script, what) in HANGING {
        far.script("hanging", script);
        let rsh = far.path("bin/hanging").display().to_string();
        let limits = ["--retry-for", "0s", "--handshake-deadline", "1s"];
        let mut line = vec!["--rsh", &rsh, "file", "far:"];
        line.extend(limits);
        // Without a terminal, for each user that runs the tests.
        let mut command = far.command(None, &line);
        let mut detached = Command::new("setsid");
        detached.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => detached.env(name, value),
                None => detached.env_remove(name),
            };
        }
        detached.env_remove("SSH_ASKPASS");
        if let Some(directory) = command.get_current_dir() {
            detached.current_dir(directory);
        }
        let outcome = Process::start(&mut detached).wait();
        outcome.expect(1, "failed").says(what).says("far: ");
        // An interrupt ends the wait for it.
        let mut process = Process::start(command.args(["--retry-for", "1h"]));
        let started = || far.processes("sleep 1000").first().copied();
        let hanging = wait_until(started).expect("it runs");
        kill(&[hanging], Signal::STOP);
        process.signal(Signal::INT);
        process.wait().expect(5, "interrupted");
        assert!(far.processes("sleep 1000").is_empty());
    }
}

#[test]
fn an_ssh_that_others_use_outlives_the_transfer_that_started_it() {
    for interrupt in [false, true] {
        let far = Far::new();
        let shared = format!(
            " ControlMaster auto\n ControlPath {}\n",
            far.path("master").display()
        );
        let config = fs::read_to_string(far.path("etc/ssh_config")).expect("ours");
        fs::write(far.path("etc/ssh_config"), config + &shared).expect("ours");
        let (mut process, content) = under_way(&far, &[]);
        let mut other = Command::new("ssh")
            .arg("-F")
            .arg(far.path("etc/ssh_config"))
            .args(["-T", "far", "echo it runs; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ssh runs");
        let mut lines = BufReader::new(other.stdout.take().expect("piped")).lines();
        let mut next = || lines.next().expect("a line").expect("text");
        assert_eq!(next(), "it runs");
        if interrupt {
            process.signal(Signal::INT);
            process.wait().expect(5, "interrupted");
        } else {
            process.wait().complete();
            assert!(fs::read(far.home().join("file")).expect("there") == content);
        }
        let mut input = other.stdin.take().expect("piped");
        input.write_all(b"and goes on\n").expect("taken");
        assert_eq!(next(), "and goes on");
        drop(input);
        assert!(other.wait().expect("ours").success());
        let left = || far.processes("ssh -F").is_empty().then_some(());
        assert!(wait_until(left).is_some(), "an ssh is left");
        nobody_is_left(&far);
    }
}
