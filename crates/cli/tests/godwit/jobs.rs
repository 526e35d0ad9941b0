//! Jobs by the commands that people type, at a real node.
//! See the tests of the API for the routes themselves.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::process::{Outcome, Process};
use super::rig::Rig;

/// A time after the end of the test, so that a job that waits for it never begins.
const FAR: &str = "2099-01-01T22:00Z";

/// A node without clients: jobs need none.
fn node() -> Rig {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig
}

/// Runs a command at the node, which must succeed; returns the output.
#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

#[track_caller]
fn refused(rig: &Rig, line: &[&str], code: i32, words: &str) {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(code), "{line:?}: {outcome:?}");
    assert!(outcome.complaint.contains(words), "{line:?}: {outcome:?}");
}

/// Submits a job that waits; its id.
fn waiting(rig: &Rig) -> String {
    let line = [
        "job",
        "submit",
        "here:/data/a",
        "here:/data/b",
        "--after",
        FAR,
    ];
    output_of(rig, &line).trim().to_owned()
}

/// A command at the node, not yet waited for.
fn begin(rig: &Rig, line: &[&str]) -> Process {
    let mut command = rig.client_command();
    Process::start(command.env("GODWIT_HOME", &rig.daemon_home).args(line))
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_job_is_submitted_watched_listed_and_reported() {
    let rig = node();
    rig.write("export/run42/a", "one");
    rig.write("export/run42/b/c", "two");
    let line = [
        "job",
        "submit",
        "here:/data/run42",
        "here:/data/copy",
        "--label",
        "night",
        "--wait",
    ];
    let outcome = rig.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(rig.read("export/copy/b/c"), b"two");
    let id = outcome.out.lines().next().expect("an id").to_owned();
    assert_eq!(id.len(), 11, "{outcome:?}");
    outcome.says("state       complete");

    let list = output_of(&rig, &["job", "list"]);
    assert!(list.contains("--all lists those that have ended"), "{list}");
    let list = output_of(&rig, &["job", "list", "--all"]);
    let row = list.lines().nth(1).expect("a row");
    assert!(row.starts_with(&format!("{id}  complete")), "{list}");
    assert!(
        row.ends_with("night  here:/data/run42 -> here:/data/copy"),
        "{list}"
    );
    let none = output_of(&rig, &["job", "list", "--all", "--label", "day"]);
    assert_eq!(none, "no job fits\n");

    // The first ten signs are a beginning that no other job has.
    let shown = output_of(&rig, &["job", "show", &id[..10]]);
    assert!(shown.contains("copied      6 B in 2 files"), "{shown}");
    let shown = document(&output_of(&rig, &["job", "show", &id, "--json"]));
    assert_eq!(shown["state"], "complete");
    assert_eq!(shown["label"], "night");
    let watched = rig.admin(&["job", "watch", &id]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let log = output_of(&rig, &["job", "log", "--follow", &id]);
    assert!(
        log.contains("#1 ended complete: 2 files and 6 B, 0 failed"),
        "{log}"
    );
    let report = output_of(&rig, &["job", "report", &id]);
    assert!(report.contains("ATTEMPT"), "{report}");
}

#[test]
fn a_job_that_waits_says_why_and_can_be_changed() {
    let rig = node();
    let id = waiting(&rig);
    let list = output_of(&rig, &["job", "list"]);
    assert!(list.contains(&format!("{id}  scheduled")), "{list}");
    assert!(list.contains("    waits since "), "{list}");

    let output_of = |line: &[&str]| output_of(&rig, line);
    assert!(output_of(&["job", "limit", &id, "300MB"]).contains("limit 300 MB/s"));
    assert!(output_of(&["job", "limit", &id, "none"]).contains("no limit"));
    assert!(output_of(&["job", "priority", &id, "-3"]).contains("priority -3"));
    assert!(output_of(&["job", "label", &id, "other"]).contains("label other"));
    let shown = document(&output_of(&["job", "show", &id, "--json"]));
    assert_eq!(shown["priority"], -3);
    assert_eq!(shown["label"], "other");
    assert!(output_of(&["job", "pause", &id]).starts_with(&format!("{id} paused")));
    let resumed = output_of(&["job", "resume", &id]);
    assert!(!resumed.contains("paused"), "{resumed}");
    let top = output_of(&["top"]);
    assert!(
        top.contains("0 running, 1 waiting") && top.contains(&id),
        "{top}"
    );
    let cancelled = output_of(&["job", "cancel", &id, "--comment", "wrong run"]);
    assert!(
        cancelled.starts_with(&format!("{id} cancelled")),
        "{cancelled}"
    );
    let watched = rig.admin(&["job", "watch", &id]);
    assert_eq!(watched.code, Some(1), "{watched:?}");
    // The failure of one job does not stop the other.
    let other = waiting(&rig);
    let both = rig.admin(&["job", "cancel", "zzzzzzzzzzz", &other]);
    assert_eq!(both.code, Some(1), "{both:?}");
    assert!(
        both.out.starts_with(&format!("{other} cancelled")),
        "{both:?}"
    );
    assert!(both.complaint.contains("zzzzzzzzzzz"), "{both:?}");
}

#[test]
fn a_refusal_is_shown_in_the_words_of_the_node() {
    let rig = node();
    refused(&rig, &["job", "show", "zzz"], 1, "zzz");
    refused(
        &rig,
        &["job", "submit", "nowhere:/x/a", "here:/data/b"],
        2,
        "nowhere",
    );
    let (one, other) = (waiting(&rig), waiting(&rig));
    refused(&rig, &["job", "show", &one[..1]], 2, &other);
    let line = [
        "job",
        "submit",
        "here:/data/a",
        "here:/data/b",
        "--setting",
        "streams=0",
    ];
    refused(&rig, &line, 2, "streams");
    refused(&rig, &["site", "remove", "nowhere"], 1, "nowhere");
}

#[test]
fn a_name_steers_no_terminal_and_stays_what_it_is_in_documents() {
    let rig = node();
    let label = "\u{1b}[2J\u{7}in\u{202e}gpj.exe\u{2066}";
    let escaped = "\\u{1b}[2J\\u{7}in\\u{202e}gpj.exe\\u{2066}";
    let name = "a\u{202e}\u{1b}]0;x\u{7}";
    let from = "here:/data/from\u{202e}";
    rig.write(&format!("export/from\u{202e}/{name}"), "alpha");
    // A full directory is in the place of the file, so its name is in the report.
    rig.write(&format!("export/to/from\u{202e}/{name}/full"), "x");
    let line = ["job", "submit", from, "here:/data/to/"];
    let line = [&line[..], &["--label", label, "--wait"]].concat();
    let outcome = rig.admin(&line);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let id = document(&output_of(&rig, &["job", "list", "--all", "--json"]))["id"].clone();
    let id = id.as_str().expect("an id").to_owned();
    let job = |what: &str, more: &[&str]| output_of(&rig, &[&["job", what], more].concat());
    let texts = [
        outcome.said(),
        job("show", &[&id]),
        job("report", &[&id]),
        job("report", &[&id, "--html", "-"]),
        job("log", &[&id]),
        output_of(&rig, &["ls", from]),
        rig.daemon().said(),
    ];
    for text in texts {
        let raw = |sign: char| "\u{1b}\u{7}\u{202e}\u{2066}".contains(sign);
        assert!(!text.contains(raw), "{text:?}");
        assert!(text.contains("\\u{202e}"), "{text:?}");
    }
    assert!(job("show", &[&id]).contains(escaped));
    let kept = document(&job("show", &[&id, "--json"]));
    assert_eq!(kept["label"], label);
}

#[test]
fn a_repeated_key_submits_once() {
    let rig = node();
    let submit = || {
        let line = [
            "job",
            "submit",
            "here:/data/a",
            "here:/data/b",
            "--after",
            FAR,
            "--idempotency-key",
            "night-42",
        ];
        output_of(&rig, &line)
    };
    assert_eq!(submit(), submit());
    assert_eq!(
        output_of(&rig, &["job", "list", "--json"]).lines().count(),
        1
    );
}

#[test]
fn sites_users_and_tokens_are_kept_by_the_node() {
    let rig = node();
    let output_of = |line: &[&str]| output_of(&rig, line);
    let line = [
        "site",
        "add",
        "siteB",
        "dtn1.siteb.org",
        "--identity",
        &rig.identity,
    ];
    output_of(&line);
    let sites = output_of(&["site", "list"]);
    assert!(
        sites.contains("siteB") && sites.contains("dtn1.siteb.org"),
        "{sites}"
    );
    output_of(&["site", "remove", "siteB"]);
    assert!(output_of(&["site", "list"]).contains("no other site"));

    rig.write("password", "correct horse battery\n");
    let password = rig.path("password");
    let password = password.to_str().expect("text");
    let line = [
        "user",
        "add",
        "alice",
        "--role",
        "operator",
        "--password-file",
        password,
    ];
    set_mode(password, 0o644);
    refused(&rig, &line, 2, "chmod 600");
    set_mode(password, 0o600);
    assert!(output_of(&line).contains("alice is operator and has a password"));
    assert!(output_of(&["user", "list"]).contains("alice  operator  yes"));

    let line = [
        "token",
        "create",
        "--role",
        "operator",
        "--user",
        "alice",
        "--expires",
        "90d",
    ];
    let secret = output_of(&line);
    assert!(
        secret.starts_with("gwt_") && secret.lines().count() == 1,
        "{secret}"
    );
    let tokens = output_of(&["token", "list", "--json"]);
    let token = document(&tokens);
    assert!(!tokens.contains(secret.trim()), "{tokens}");
    let id = token["id"].as_str().expect("an id");
    output_of(&["token", "revoke", id]);
    assert!(output_of(&["token", "list"]).contains("revoked"));
    output_of(&["user", "remove", "alice"]);

    let status = output_of(&["node", "status"]);
    assert!(
        status.contains(&rig.identity) && status.contains("export      data"),
        "{status}"
    );
}

fn set_mode(file: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn a_watcher_outlives_its_node() {
    let mut rig = node();
    rig.write("export/big", vec![7; 8 << 20]);
    let line = [
        "job",
        "submit",
        "here:/data/big",
        "here:/data/copy",
        "--limit",
        "256KiB",
    ];
    let id = output_of(&rig, &line).trim().to_owned();
    let mut watcher = begin(&rig, &["job", "watch", &id]);
    watcher.wait_for("running");
    rig.end_daemon(Signal::KILL);
    rig.serve(&[]);
    output_of(&rig, &["job", "limit", &id, "none"]);
    let outcome: Outcome = watcher.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(rig.read("export/copy"), vec![7; 8 << 20]);
}
