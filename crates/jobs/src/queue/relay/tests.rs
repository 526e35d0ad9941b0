//! Tests of the form of relays, and of the jobs that may have some.
//! Submits none.

use godwit_api::job::JobKind;
use serde_json::{Value, json};

use super::*;
use crate::basis::relay::RETRY_FOR;

fn new(change: impl Fn(&mut Value)) -> NewJob {
    let mut new = json!({
        "sources": ["here:/data/run"], "destination": "b:/in", "more_destinations": ["c:/in"], "relay": "auto",
    });
    change(&mut new);
    serde_json::from_value(new).expect("a job")
}

#[test]
fn a_job_relays_if_digests_of_its_source_vouch_for_each_copy() {
    check_form(&new(|_| {})).expect("good");
    let refused = |change: &dyn Fn(&mut Value), word: &str| {
        let why = check_form(&new(change)).expect_err(word).to_string();
        assert!(why.contains(word), "{why}");
    };
    refused(&|new| new["more_destinations"] = json!([]), "several");
    refused(&|new| new["gather"] = json!(true), "several");
    refused(&|new| new["list"] = json!(["a"]), "list");
    refused(&|new| new["divide"] = json!("always"), "divide");
    refused(
        &|new| new["sources"] = json!(["a:/data/run"]),
        "another site",
    );
    // A relay would replace what the owner wants to keep.
    assert!(EXCLUDED.contains(&"no-replace"));
    for name in EXCLUDED {
        refused(&|new| new["settings"] = json!({name: ["true"]}), name);
    }
    // Without a relay, all of these are allowed.
    let plain = new(|new| {
        new["relay"] = json!("never");
        new["settings"] = json!({"update": ["true"]});
    });
    check_form(&plain).expect("good");
}

#[test]
fn digests_cannot_be_forged_unless_the_owner_chose_others() {
    let mut job = new(|_| {});
    harden(&mut job);
    assert_eq!(job.settings["digest"], [Text::from("blake3")]);
    let mut job = new(|new| new["settings"] = json!({"digest": ["crc64-nvme"]}));
    harden(&mut job);
    assert_eq!(job.settings["digest"], [Text::from("crc64-nvme")]);
    let mut job = new(|new| new["relay"] = json!("never"));
    harden(&mut job);
    assert_eq!(job.settings.get("digest"), None);
}

#[test]
fn a_relay_copies_contents_and_deletes_nothing() {
    let taker = crate::basis::examples::job("2zq", "alice", "c");
    let of = new(|new| {
        new["kind"] = json!("sync");
        new["settings"] = json!({"delete": ["true"], "xattrs": ["true"], "retry-for": ["0s"]});
    });
    let place = |text: &str| -> Place { text.parse().expect("a place") };
    let (from, to) = (place("b:/in/run"), place("c:/in/run"));
    let relay = describe(&taker, &of, (&from, &to));
    assert_eq!(relay.kind, JobKind::Copy);
    assert_eq!(relay.sources, ["b:/in/run/."]);
    assert_eq!(relay.destination, "c:/in/run/");
    let settings: Vec<&str> = relay.settings.keys().map(String::as_str).collect();
    assert_eq!(settings, ["checksum", "retry-for", "xattrs"]);
    // Its only attempt outlives the loss of a connection.
    assert_eq!(relay.settings["retry-for"], [Text::from(RETRY_FOR)]);
    assert!(relay.label.contains("2zq"), "{}", relay.label);
}

#[test]
fn a_destination_says_that_its_relay_is_paused() {
    let giver = crate::basis::examples::job("1zq", "alice", "b");
    let mut relay = crate::basis::examples::job("3zq", "alice", "c");
    let moves = explanation_of(&giver, &relay, false);
    relay.state = JobState::Paused;
    let paused = explanation_of(&giver, &relay, true);
    for text in [&moves, &paused] {
        assert!(
            text.contains("job 1zq") && text.contains("job 3zq"),
            "{text}"
        );
    }
    assert!(!moves.contains("paused") && paused.contains("paused"));
}

#[test]
fn a_round_takes_whole_files_and_compares_none() {
    let taker = crate::basis::examples::job("2zq", "alice", "c");
    let of = new(|new| new["settings"] = json!({"verify": ["true"]}));
    let place = |text: &str| -> Place { text.parse().expect("a place") };
    let relay = describe(&taker, &of, (&place("b:/in/run"), &place("c:/in/run")));
    let round = describe::of_round(relay.clone(), &taker, 3);
    assert!(
        round.label.contains("round 3 to job 2zq"),
        "{}",
        round.label
    );
    let settings: Vec<&str> = round.settings.keys().map(String::as_str).collect();
    assert_eq!(settings, ["retry-for", "verify"]);
    let rules = round.selection.expect("a rule").rules;
    assert_eq!(rules, [whole::without_unfinished()]);
    assert_eq!(
        (round.sources, round.destination),
        (relay.sources, relay.destination)
    );
}

#[test]
fn files_that_are_passed_on_are_read_back() {
    let of = |relay: &str| {
        let mut job = new(|new| new["relay"] = json!(relay));
        harden(&mut job);
        job.settings.get("verify").cloned()
    };
    assert_eq!(of("first"), Some(vec![Text::from("true")]));
    assert_eq!(of("auto"), None);
}
