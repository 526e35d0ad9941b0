//! Tests a node whose log is not read: it continues its work, ends when it should, and later says how many lines are missing.
//! The contents of the lines are tested with their sources.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::Signal;

use super::process::wait_until;
use super::rig::Rig;

/// A pipe that the test holds open at both ends. It is never closed, and only the test reads it.
fn pipe(rig: &Rig) -> File {
    let path = rig.path("log");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success(), "made");
    let mut options = OpenOptions::new();
    let pipe = options.read(true).write(true).open(path).expect("opened");
    rustix::pipe::fcntl_setpipe_size(&pipe, 4096).expect("set");
    pipe
}

fn node_with_unread_log() -> (Rig, File) {
    let mut rig = Rig::new();
    let pipe = pipe(&rig);
    let script = format!("exec \"$@\" 2> '{}'", rig.path("log").display());
    rig.wrap_daemon(["sh", "-c", &script, "sh"]);
    rig.start(&[]);
    (rig, pipe)
}

/// Makes the node log two lines of some 2 KB: for the beginning of a transfer, and for its end.
fn talk(rig: &Rig) {
    let name = "x".repeat(200);
    let mut line = vec!["cp".to_owned(), "--json".to_owned()];
    for number in 0..8 {
        let name = format!("{number}-{name}");
        rig.write(&format!("export/{name}"), "");
        line.push(rig.url(&name));
    }
    line.push("to/".to_owned());
    let ended = rig.client(&line);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_log_that_is_not_read_stops_nothing_and_says_later_what_is_missing() {
    let (mut rig, mut pipe) = node_with_unread_log();
    rig.make_dirs("to");
    // More than the pipe and the buffer hold.
    for _ in 0..150 {
        talk(&rig);
    }
    // The node answers, takes changes, and moves files.
    let added = rig.admin(&["user", "add", "alice", "--role", "viewer"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    rig.write("file", "content");
    rig.cp(&["file", &rig.url("arrived")]).complete();
    // A reader comes back.
    rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK).expect("set");
    let mut said = String::new();
    let reported = wait_until(|| {
        let mut bytes = vec![0; 1 << 16];
        match pipe.read(&mut bytes) {
            Ok(count) => said.push_str(&String::from_utf8_lossy(&bytes[..count])),
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::AGAIN.raw_os_error())),
        }
        said.contains("lines were dropped here").then_some(())
    });
    assert!(reported.is_some(), "{} bytes: {said:.2000}", said.len());
    assert!(
        said.len() < 1 << 20,
        "the buffer is bounded: {}",
        said.len()
    );
    rig.end_daemon(Signal::TERM);
}

#[test]
fn a_node_whose_log_is_not_read_ends_by_a_signal() {
    let (mut rig, pipe) = node_with_unread_log();
    rig.make_dirs("to");
    for _ in 0..3 {
        talk(&rig);
    }
    let ended = rig.stop_daemon(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop(pipe);
}
