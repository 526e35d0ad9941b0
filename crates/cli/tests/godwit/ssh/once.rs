//! Owns the tests by ssh of standard input and output, which cannot restart, and of an other end that goes away.
//! The behaviour shared with nodes is tested in `unread` and `stdio`.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use super::super::process::{Process, wait_until};
use super::super::unread::{INPUTS, given};
use super::far::{Far, random};
use super::faults::{kill, nobody_is_left};

fn cp(far: &Far, line: &[&str]) -> Command {
    far.command(None, line)
}

#[test]
fn an_input_that_is_not_wanted_there_is_not_read_to_its_end() {
    let far = Far::new();
    far.write("home/file", "there");
    fs::create_dir_all(far.home().join("dd/stdin")).expect("made");
    for (line, code, why) in [
        (&["--existing", "-", "far:new"][..], 0, r#""skipped":1"#),
        (
            &["--dry-run", "-", "far:new"],
            0,
            r#""bytes":null,"files":1"#,
        ),
        (
            &["-", "far:dd"],
            3,
            "replace the directory with another entry",
        ),
        (
            &["-", "far:/dev/null"],
            3,
            "is a device, which is not replaced",
        ),
    ] {
        for input in INPUTS {
            let end = given(cp(&far, line), input);
            assert_eq!(end.code, Some(code), "{line:?}: {}", end.said());
            end.says(why);
            nobody_is_left(&far);
        }
    }
    assert!(!far.home().join("new").exists());
}

/// The agent is gone. No second ssh starts for a transfer that cannot restart, and no process remains.
fn goes_away(far: &Far, mut process: Process, why: &str) {
    let agents = wait_until(|| Some(far.agents()).filter(|agents| !agents.is_empty()));
    kill(&agents.expect("it runs"), Signal::KILL);
    let end = process.wait();
    assert_eq!(end.code, Some(1), "{}", end.said());
    end.says(why);
    assert_eq!(
        end.said().matches("\"started\"").count(),
        1,
        "{}",
        end.said()
    );
    nobody_is_left(far);
}

#[test]
fn an_agent_that_dies_ends_an_input_and_no_other_one_is_started() {
    for more in [&[][..], &["--via-ssh"]] {
        let far = Far::new();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = cp(&far, &[more, &["-", "far:x"]].concat());
        let process = Process::start_with(&mut command, reader);
        drop(command);
        process.wait_for("\"started\"");
        goes_away(&far, process, "standard input cannot be read again");
        drop(writer);
        let left: Vec<_> = fs::read_dir(far.home()).expect("ours").flatten().collect();
        assert!(
            left.iter().all(|entry| entry.file_name() == ".godwit"),
            "{left:?}"
        );
    }
}

#[test]
fn an_agent_that_dies_ends_an_output_and_no_other_one_is_started() {
    let far = Far::new();
    far.write("home/file", random(24 << 20, 5));
    let process = far.start(&["--limit", "12MB", "far:file", "-"]);
    process.wait_for("\"started\"");
    goes_away(&far, process, "cannot be taken back");
}

#[test]
fn an_agent_with_which_nothing_can_begin_is_asked_to_end() {
    let far = Far::new();
    far.write("file", "content");
    far.write("home/file", "content");
    for line in [["file", "far:x"], ["far:file", "x"]] {
        let refused = far.cp(&[&["--channel", "no-such"][..], &line].concat());
        refused.expect(1, "failed").says("--channel no-such: ");
        nobody_is_left(&far);
    }
}
