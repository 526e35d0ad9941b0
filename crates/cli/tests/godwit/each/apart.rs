//! Tests destinations on other machines, and that a slow or lost one does nothing to the others.
//! Does not judge rates; the order of events does.

use super::super::data::{Seeded, make_tree};
use super::super::judge::assert_identical;
use super::super::outage::{events, wait_for_event};
use super::super::process::wait_until;
use super::super::rig::Rig;
use super::super::ssh::far::Far;
use super::{MIB, all_of, last_of, wait_for_bytes};

/// Lets the client of `far` use the node of `rig`.
fn introduce(far: &Far, rig: &mut Rig) {
    rig.start(&[]);
    let us = far.run(&["id"]).out;
    let allow = [
        "access",
        "allow",
        us.trim(),
        "--all-exports",
        "--read",
        "--write",
    ];
    let allowed = rig.admin(&allow);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let trusted = far.run(&["trust", rig.address(), &rig.identity]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
}

#[test]
fn two_nodes_and_a_machine_behind_ssh_get_it_by_one_read() {
    let far = Far::new();
    let (mut one, mut other) = (Rig::new(), Rig::new());
    introduce(&far, &mut one);
    introduce(&far, &mut other);
    let bytes = make_tree(&far.path("src"), 32, &mut Seeded(5));
    let [to_one, to_other] = [&one, &other].map(|rig| rig.url("to"));
    let limited = ["--each", "-a", "--limit", "40MB", "src"];
    let outcome = far.cp(&[&limited[..], &[&to_one, &to_other, "far:to"]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    for rig in [&one, &other] {
        assert_identical(&far.path("src"), &rig.export.join("to"));
    }
    assert_identical(&far.path("src"), &far.home().join("to"));
    let read = all_of(&outcome)["read_bytes"].as_u64().expect("a number");
    assert!(
        read < bytes * 11 / 10,
        "{read} of {bytes}: {}",
        outcome.said()
    );
}

#[test]
fn a_slow_destination_falls_behind_and_the_others_end_before_it() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let bytes = make_tree(&rig.path("src"), 160, &mut Seeded(6));
    let slow = rig.url("slow");
    rig.make_dirs("a");
    rig.make_dirs("b");
    let slow_down = ["--limit", "20MB", "--memory", "16MiB"];
    let line = [&["--each", "-a", "src", "a/", "b/", &slow][..], &slow_down].concat();
    let mut client = rig.begin_cp(&rig.path(""), &line);
    let (_, started) = wait_for_event(&client, 0, |event| {
        event["event"] == "started" && event["each"] == slow.as_str()
    });
    let transfer = started["transfer"].as_str().expect("text").to_owned();
    let limit = |rate: &str| {
        let set = wait_until(|| {
            let outcome = rig.client(&["limit", &transfer, rate]);
            (outcome.code == Some(0)).then_some(())
        });
        assert!(set.is_some(), "the limit is not confirmed");
    };
    limit("2MB");
    for fast in ["a/", "b/"] {
        wait_for_event(&client, 0, |event| {
            event["event"] == "summary" && event["each"] == fast && event["status"] == "complete"
        });
    }
    let reported = events(&client);
    let last = reported
        .iter()
        .rfind(|event| event["event"] == "progress" && event["each"] == slow.as_str());
    let last = last.expect("progress is told");
    assert!(
        last["bytes"].as_u64() < Some(bytes / 2),
        "it is slow: {last}"
    );
    let is_behind =
        |event: &serde_json::Value| event["each"] == slow.as_str() && event["behind"] == true;
    assert!(reported.iter().any(is_behind), "it is behind");
    limit("none");
    let outcome = client.wait();
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    for destination in [
        rig.path("a/src"),
        rig.path("b/src"),
        rig.export.join("slow"),
    ] {
        assert_identical(&rig.path("src"), &destination);
    }
}

#[test]
fn after_a_lost_destination_only_that_one_is_read_for() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let bytes = make_tree(&rig.path("src"), 64, &mut Seeded(7));
    let lost = rig.url("lost");
    rig.make_dirs("a");
    rig.make_dirs("b");
    let soon_over = ["--limit", "16MB", "--retry-for", "1s"];
    let line = [&["--each", "-a", "src", "a/", "b/", &lost][..], &soon_over].concat();
    let mut client = rig.begin_cp(&rig.path(""), &line);
    wait_for_bytes(&client, &lost, 40 * MIB);
    rig.kill_daemon();
    let outcome = client.wait();
    assert_eq!(outcome.code, Some(5), "{}", outcome.said());
    for name in ["a/", "b/"] {
        let summary = last_of(&outcome, name, "summary");
        assert_eq!(summary["status"], "complete", "{summary}");
        assert_identical(&rig.path("src"), &rig.path(name).join("src"));
    }
    assert_eq!(last_of(&outcome, &lost, "summary")["status"], "interrupted");
    rig.start(&[]);
    let again = rig.cp(&["--each", "-a", "src", "a/", "b/", &lost]);
    assert_eq!(again.code, Some(0), "{}", again.said());
    for name in ["a/", "b/"] {
        assert_eq!(
            last_of(&again, name, "summary")["bytes"],
            0,
            "{}",
            again.said()
        );
    }
    assert_eq!(last_of(&again, &lost, "started")["resumed"], true);
    assert_identical(&rig.path("src"), &rig.export.join("lost"));
    // The source is read for what the node had not made durable.
    let read = all_of(&again)["read_bytes"].as_u64().expect("a number");
    assert!(read < bytes * 9 / 10, "{read} of {bytes}: {}", again.said());
}
