//! Owns the tests of output of machines and their shells before an agent answers: noise, nothing, the wrong thing.
//! Cuts no connection.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::far::Far;

#[test]
fn noise_of_a_shell_and_a_banner_are_ignored() {
    let far = Far::new();
    far.write("file", "content");
    far.write(
        "home/.bashrc",
        "echo Welcome to the machine; printf 'no newline \\000\\377godwit'; echo careful >&2\n",
    );
    far.cp(&["file", "far:"]).complete();
    let loud = "printf 'Loading modules...\\n\\000\\377godwit agent\\r'; godwit";
    let outcome = far.cp(&["--remote-command", loud, "file", "far:again"]);
    outcome.complete();
    assert!(
        !outcome.said().contains("Welcome") && !outcome.said().contains("Loading"),
        "{}",
        outcome.said()
    );
    assert_eq!(
        fs::read(far.home().join("again")).expect("there"),
        b"content"
    );
    // Endless output is a failure.
    let endless = far.cp(&["--remote-command", "yes noise #", "file", "far:never"]);
    endless
        .expect(1, "failed")
        .says("prints much")
        .says("noise");
}

#[test]
fn a_machine_without_godwit_is_explained() {
    let far = Far::new();
    far.write("file", "content");
    let outcome = far.cp(&["--remote-command", "no-such-godwit", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("far: there is no `no-such-godwit`: install godwit there");
    outcome.says("--remote-command");
    fs::write(far.path("bin/data"), "no program").expect("written");
    let plain = format!("{}/data", far.path("bin").display());
    let outcome = far.cp(&["--remote-command", &plain, "file", "far:"]);
    outcome.expect(1, "failed").says("cannot run there");
    let outcome = far.cp(&["--remote-command", "cat #", "file", "far:"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.said());
}

#[test]
fn other_versions_are_explained() {
    let far = Far::new();
    far.write("file", "content");
    // A version without agents answers as to any unknown command.
    far.script(
        "first",
        "echo \"error: unrecognized subcommand '$1'\" >&2; exit 2",
    );
    let outcome = far.cp(&["--remote-command", "first", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("unrecognized subcommand 'agent'")
        .says("install this version there");
    far.script(
        "older",
        r"printf '\000\377godwit agent\r\n\016\000\000\000\032\014godwit 0.0.9'",
    );
    let outcome = far.cp(&["--remote-command", "older", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("the godwit there (godwit 0.0.9) is too much older than this one");
    far.script(
        "newer",
        r"printf '\000\377godwit agent\r\n\022\000\000\000\010\007\020\007\032\014godwit 9.0.0'",
    );
    let outcome = far.cp(&["--remote-command", "newer", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("the godwit there (godwit 9.0.0) is too much newer than this one");
    far.script(
        "odd",
        r"printf '\000\377godwit agent\r\n\002\000\000\000\377\377'",
    );
    let outcome = far.cp(&["--remote-command", "odd", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("its agent broke the protocol");
}

#[test]
fn a_refused_login_shows_the_error_of_ssh() {
    let far = Far::new();
    far.write("file", "content");
    fs::write(far.path("etc/authorized"), "").expect("ours");
    let outcome = far.cp(&["file", "far:"]);
    outcome.expect(4, "failed").says("Permission denied");
    fs::write(far.path("etc/known"), "").expect("ours");
    let outcome = far.cp(&["file", "far:"]);
    outcome
        .expect(4, "failed")
        .says("Host key verification failed");
    let outcome = far.cp(&["--rsh", "no-such-ssh", "file", "far:"]);
    outcome
        .expect(1, "failed")
        .says("no-such-ssh is not installed here");
}

#[test]
fn an_agent_without_a_peer_ends_at_once() {
    let far = Far::new();
    for words in [
        &b""[..],
        b"ls -l\n",
        b"\0\xffgodwit agent\r\n\xff\xff\xff\xff",
    ] {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_godwit"))
            .args(["agent", "--stdio"])
            .env("GODWIT_HOME", far.agent_home())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let mut input = agent.stdin.take().expect("piped");
        input.write_all(words).expect("taken");
        drop(input);
        let output = agent.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(
            output.stdout.starts_with(b"\0\xffgodwit agent\r\n"),
            "{output:?}"
        );
    }
}
