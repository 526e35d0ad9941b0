//! Lists of failures, the log, and figures, by the real binary.
//! Manifests are in `manifest`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use godwit_api::failure::FailureCode;
use serde_json::{Value, json};

use super::judge::assert_identical_to_rsync;
use super::rig::{Rig, is_root};
use super::sites::{submit, two_sites, wait_for};

/// A tree with some entries that no user can copy: sockets.
fn tree(world: &Rig, failing: &[&str]) {
    world.write("tree/good", "1");
    for name in failing {
        let path = world.path("tree").join(name);
        fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
        drop(UnixListener::bind(path).expect("a socket"));
    }
}

#[test]
fn failures_are_listed_by_names_that_nothing_can_confuse() {
    let failing = ["a\nb", "sub/c d", "e\\t"];
    let mut world = Rig::new();
    tree(&world, &failing);
    world.start(&[]);
    let push = world.url("");
    for destination in ["copy", push.as_str()] {
        let outcome = world.cp(&["--failed", "list", "tree", destination]);
        outcome
            .expect(3, "partial")
            .expect_code(FailureCode::NotRegular);
        let reported = outcome.events();
        let reported = reported.iter().filter(|event| event["event"] == "failed");
        let reported: Vec<_> = reported
            .map(|event| {
                assert!(event["entry"].as_u64().is_none_or(|entry| entry > 0));
                (&event["root"], &event["side"], &event["code"])
            })
            .collect();
        let expected = (&json!(0), &json!("source"), &json!("not_regular"));
        assert_eq!(reported, [expected; 3], "{destination}");
        let mut names: Vec<String> = String::from_utf8(world.read("list"))
            .expect("text")
            .split_terminator('\0')
            .map(str::to_owned)
            .collect();
        names.sort();
        assert_eq!(names, ["a\nb", "e\\t", "sub/c d"], "{destination}");
        let reasons = String::from_utf8(world.read("list.reasons")).expect("text");
        assert_eq!(reasons.lines().count(), 3, "{reasons}");
        let line = reasons
            .lines()
            .find(|line| line.starts_with("a\\nb\tsource\tnot_regular\t"))
            .unwrap_or_else(|| panic!("{reasons}"));
        assert!(line.contains("socket"), "{line}");
    }
}

#[test]
fn failures_of_a_pull_are_listed_below_the_source() {
    let mut world = Rig::new();
    tree(&world, &["sub/s"]);
    fs::rename(world.path("tree"), world.path("export/tree")).expect("moved");
    world.start(&[]);
    world
        .cp(&["--failed", "list", &world.url("tree"), "back"])
        .expect(3, "partial");
    assert_eq!(world.read("list"), b"sub/s\0");
}

#[test]
fn a_source_that_is_missing_is_listed() {
    let world = Rig::new();
    tree(&world, &[]);
    world.make_dirs("to");
    world
        .cp(&["--failed", "list", "tree", "nowhere", "to"])
        .expect(3, "partial");
    assert_eq!(world.read("list"), b"nowhere\0");
}

#[test]
fn nothing_failed_is_an_empty_list() {
    let world = Rig::new();
    tree(&world, &[]);
    world.write("list", "old");
    world.cp(&["--failed", "list", "tree", "copy"]).complete();
    assert_eq!(world.read("list"), b"");
    assert_eq!(world.read("list.reasons"), b"");
}

#[test]
fn the_log_has_every_event_with_its_time_and_grows() {
    let world = Rig::new();
    tree(&world, &["s"]);
    let line = ["cp", "--log-file", "log", "tree", "copy"];
    assert_eq!(world.client(&line).code, Some(3));
    let outcome = world.cp(&line[1..]);
    outcome.expect(3, "partial");
    let text = String::from_utf8(world.read("log")).expect("text");
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!(
        (named("started"), named("failed"), named("summary")),
        (2, 2, 2),
        "{text}"
    );
    for (event, line) in events.iter().zip(text.lines()) {
        let time = event["time"].as_str().expect("a time");
        assert!(
            line.starts_with(&format!("{{\"time\":\"{time}\",\"event\":")),
            "{line}"
        );
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    }
    let last = events.last().expect("events");
    assert_eq!(last["failed"], outcome.summary()["failed"]);
    // Made with the user's own mask, not ours.
    let mode = fs::metadata(world.path("log"))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o022, 0, "{mode:o}");
}

#[test]
fn figures_of_both_sides_are_printed_on_demand() {
    let mut world = Rig::new();
    world.write("tree/x", vec![7; 3_000_000]);
    world.start(&[]);
    let outcome = world.cp(&["--stats", "tree", &world.url("")]);
    outcome.complete();
    let events = outcome.events();
    let stats = events
        .iter()
        .find(|event| event["event"] == "stats")
        .unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(stats["source"]["bytes_read"], 3_000_000);
    assert_eq!(stats["destination"]["bytes_durable"], 3_000_000);
    assert_eq!(stats["source"]["bytes_resent"], 0);
    let outcome = world.client(&["cp", "--stats", "tree", "copy"]);
    assert_eq!(outcome.code, Some(0));
    outcome
        .says("stage           source")
        .says("read            3.00 MB, ");
    outcome.says("processor  ");
}

#[test]
fn directories_that_an_earlier_run_left_closed_are_opened_for_what_is_below() {
    let world = Rig::for_user(is_root());
    let closed: Vec<String> = (0..200).map(|n| format!("shut{n}")).collect();
    for name in &closed {
        world.write(&format!("tree/{name}/a/b/deep"), name);
        world.write(&format!("copy/{name}/x"), "of an earlier run");
    }
    let mode = fs::Permissions::from_mode(0o000);
    for name in &closed {
        fs::set_permissions(world.path(format!("copy/{name}")), mode.clone()).expect("ours");
    }
    // Entries below a directory may be announced on another stream, and before the directory.
    world.write("list", closed.join("\n"));
    let outcome = world.cp(&["--recursive", "--files-from", "list", "tree", "copy"]);
    outcome.complete();
    assert_eq!(outcome.number("files"), 200, "{outcome:?}");
}

#[test]
fn failed_files_arrive_by_their_list_once_they_are_readable() {
    let mut world = Rig::for_user(is_root());
    for name in ["good", "un\nreadable", "sub/closed file", "shut/a/b/deep"] {
        world.write(&format!("tree/{name}"), name);
    }
    world.start(&[]);
    // The files have changed hands by now, so their user cannot read them.
    let closed = ["tree/un\nreadable", "tree/sub/closed file", "tree/shut"];
    let close = |mode| {
        for name in closed {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(world.path(name), mode).expect("ours");
        }
    };
    for destination in ["copy", world.url("copy").as_str()] {
        close(0);
        let outcome = world.cp(&["--failed", "list", "tree", destination]);
        outcome.expect(3, "partial");
        assert_eq!(outcome.number("failed"), 3, "{outcome:?}");
        close(0o755);
        let again = [
            "--from0",
            "--recursive",
            "--files-from",
            "list",
            "--failed",
            "left",
            "tree",
            destination,
        ];
        let outcome = world.cp(&again);
        outcome.complete();
        assert_eq!(outcome.number("files"), 3, "{outcome:?}");
        // Complete entries are not compared again.
        assert_eq!(outcome.number("skipped"), 0, "{outcome:?}");
        assert_eq!(world.read("left"), b"");
    }
    // The root itself, which got an entry late, is not in a list.
    for copy in ["copy", "export/copy"] {
        assert_identical_to_rsync("-aHO", &world.path("tree"), &world.path(copy));
    }
}

#[test]
fn reports_of_transfers_and_jobs_name_the_cipher_and_its_library() {
    let mut world = Rig::new();
    world.write("file", "content");
    world.start(&["--encryption", "any"]);
    let encryption = |line: &[&str]| {
        let outcome = world.cp(line);
        outcome.complete().summary()["encryption"].clone()
    };
    let library =
        |reported: &Value| matches!(reported["library"].as_str(), Some("aws-lc" | "ring"));
    let [push, pull] = [world.url("pushed"), world.url("pushed")];
    for line in [["file", push.as_str()], [pull.as_str(), "pulled"]] {
        let reported = encryption(&[&["--cipher", "chacha20-poly1305"], &line[..]].concat());
        assert_eq!(reported["cipher"], "chacha20-poly1305", "{reported}");
        assert!(library(&reported), "{reported}");
        assert!(reported.get("plain_contents").is_none(), "{reported}");
    }
    let plain = encryption(&["--encryption", "none", "file", &world.url("plain")]);
    assert_eq!(plain["plain_contents"], true, "{plain}");
    // The node records the same, with its own library.
    let records = world.admin(&["accounting", "--json"]).out;
    let records = records.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record");
        record["encryption"].clone()
    });
    let records: Vec<Value> = records.collect();
    assert_eq!(records.len(), 3, "{records:?}");
    assert_eq!(records[0]["cipher"], "chacha20-poly1305", "{records:?}");
    assert!(records[0].get("plain_contents").is_none(), "{records:?}");
    assert_eq!(records[2]["plain_contents"], true, "{records:?}");
    assert!(
        encryption(&["file", "copy"]).is_null(),
        "within one machine"
    );
    let (here, _there) = two_sites();
    here.write("export/file", "content");
    let mut id = String::new();
    for (divide, to) in [("never", "whole"), ("always", "divided")] {
        let to = format!("siteB:/data/{to}");
        id = submit(&here, "here:/data/file", &to, &["--divide", divide]);
        let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
        let reported = &ended["summary"]["encryption"];
        assert!(
            library(reported) && reported["cipher"].is_string(),
            "{ended}"
        );
        let records = here.admin(&["accounting", "--json"]).out;
        let last = records.lines().last().expect("a record");
        let last: Value = serde_json::from_str(last).expect("a record");
        assert_eq!(&last["encryption"], reported, "{records}");
    }
    let shown = here.admin(&["job", "show", &id]).out;
    assert!(shown.contains("encrypted"), "{shown}");
    let page = here.admin(&["job", "report", &id, "--html", "-"]).out;
    assert!(page.contains("<th>Encryption<td>"), "{page}");
}
