//! Jobs that measure: from the memory of one node to that of another, here, at another site, and between two other sites; and refusals.
//! See `cluster/memory` for the nodes of a cluster.

use serde_json::json;

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::third::Three;
use super::{allow, deny, submit, two_sites, wait_for};

const SIZE: u64 = 64 << 20;

#[track_caller]
fn assert_measured(rig: &Rig, id: &str) {
    let job = wait_for(rig, id, |job| !job["ended"].is_null());
    let log = rig.admin(&["job", "log", id]).out;
    assert_eq!(job["state"], "complete", "{job}\n{log}");
    assert_eq!(job["summary"]["bytes"], SIZE, "{job}");
}

#[test]
fn memory_is_measured_here_at_a_site_and_from_it() {
    let (here, there) = two_sites();
    for (source, destination) in [
        ("here:mem:64MiB", "here:null:"),
        ("here:mem:64MiB", "siteB:null:"),
        ("siteB:mem:64MiB", "here:null:"),
        ("here:mem:64MiB", "siteB:/data/measured"),
    ] {
        let id = submit(&here, source, destination, &[]);
        assert_measured(&here, &id);
        // A user knows sites by their names, not by the addresses of their nodes.
        let log = here.admin(&["job", "log", &id]).out;
        assert!(!log.contains("godwit://"), "{log}");
        if source.starts_with("here:") && destination.starts_with("siteB:") {
            let line = format!(" to {destination}\n");
            assert!(log.contains(&line), "{log}");
        }
        let shown = here.admin(&["job", "show", &id]).out;
        assert!(
            shown.contains(source) && shown.contains(destination),
            "{shown}"
        );
    }
    let copy = std::fs::metadata(there.export.join("measured")).expect("a copy");
    assert_eq!(copy.len(), SIZE);
    let id = submit(
        &here,
        "here:mem:64MiB",
        "siteB:null:",
        &["--divide", "always"],
    );
    assert_measured(&here, &id);
    let log = here.admin(&["job", "log", &id]).out;
    assert!(log.contains("divided: 1 scans"), "{log}");
    for (source, destination, word) in [
        ("here:null:", "siteB:null:", "can only be a destination"),
        ("here:mem:1MiB", "siteB:mem:1MiB", "can only be a source"),
        ("here:mem:x", "siteB:null:", "mem:x"),
    ] {
        let no = here.admin(&["job", "submit", source, destination]);
        assert!(no.code != Some(0) && no.complaint.contains(word), "{no:?}");
    }
}

#[test]
fn a_measurement_shows_its_rate_its_total_and_its_end() {
    let (here, _there) = two_sites();
    for (source, destination) in [
        ("here:mem:1GiB", "here:null:"),
        ("here:mem:1GiB", "siteB:null:"),
        ("siteB:mem:1GiB", "here:null:"),
    ] {
        let id = submit(&here, source, destination, &["--limit", "50MB"]);
        wait_for(&here, &id, |job| {
            assert!(job["ended"].is_null(), "too early: {job}");
            let progress = &job["progress"];
            progress["bytes_total"] == 1_u64 << 30
                && progress["bytes_per_second"].as_f64() > Some(0.0)
                && progress["forecast"]["likely"].is_string()
        });
        let shown = here.admin(&["job", "show", &id]).out;
        for words in ["rate", " of 1.07 GB", "left"] {
            assert!(shown.contains(words), "{source}: {words}: {shown}");
        }
        let cancelled = here.admin(&["job", "cancel", &id]);
        assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
        wait_for(&here, &id, |job| !job["ended"].is_null());
    }
}

#[test]
fn two_other_sites_measure_for_users_with_the_right_only() {
    let three = Three::new();
    let measured = || submit(&three.asked, "siteS:mem:64MiB", "siteD:null:", &[]);
    assert_measured(&three.asked, &measured());
    // The right to write anywhere opens null:, and without any the job is refused.
    deny(&three.destination, &three.asked.identity);
    let job = measured();
    let ended = wait_for(&three.asked, &job, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
    allow(&three.destination, &three.asked.identity, &["--read"]);
    let job = measured();
    let ended = wait_for(&three.asked, &job, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
}

#[test]
fn a_viewer_does_not_measure_and_an_operator_needs_a_right_there() {
    let (here, _there) = two_sites();
    let body = json!({"sources": ["here:mem:1MiB"], "destination": "siteB:null:"});
    let vera = Caller::user(&here, "vera", "viewer");
    vera.post("jobs", &body).expect(403);
    let otto = Caller::user(&here, "otto", "operator");
    let no = otto.post("jobs", &body).expect(403);
    assert_eq!(no["code"], "not_granted", "{no}");
    for line in [
        ["access", "allow", "user:otto", "--export", "data", "--read"],
        [
            "access",
            "allow",
            "user:otto",
            "--site",
            "siteB:/data/x",
            "--write",
        ],
    ] {
        let outcome = here.admin(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    otto.post("jobs", &body).expect(201);
}
