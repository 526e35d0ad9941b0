//! A job goes to the site that it names: the identity of the site decides, and nothing that is known of its address.
//! See `own` for commands of users, which use known peers.

use std::fs;

use serde_json::Value;

use super::super::rig::Rig;
use super::super::sites::{submit, two_sites, wait_for};

#[track_caller]
fn site_is(rig: &Rig, name: &str, address: &str, identity: &str) {
    let outcome = rig.admin(&["site", "add", name, address, "--identity", identity]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[track_caller]
fn end_of(rig: &Rig, to: &str, divide: &str) -> Value {
    let more = [
        "--divide",
        divide,
        "--setting",
        "retry-for=0s",
        "--retries",
        "0",
    ];
    let id = submit(rig, "here:/data/run42", to, &more);
    wait_for(rig, &id, |job| !job["ended"].is_null())
}

#[test]
fn a_job_reaches_only_the_identity_of_its_site() {
    let (here, there) = two_sites();
    let mut other = Rig::new();
    other.serve(&[]);
    here.write("export/run42/f", b"data");
    // Known by hand, as a user of the node's account may have done.
    let outcome = here.admin(&["trust", there.address(), &there.identity]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let known = || fs::read(here.daemon_home.join("known_peers")).unwrap_or_default();
    let before = known();
    site_is(&here, "bad", there.address(), &other.identity);
    for divide in ["never", "always"] {
        let ended = end_of(&here, "bad:/data/copy", divide);
        assert_eq!(ended["state"], "failed", "{ended}");
        assert!(!there.export.join("copy").exists(), "{ended}");
        let why = ended["reason"]["text"].as_str().unwrap_or_default();
        assert!(
            why.contains(&other.identity) || why.contains("bad"),
            "{ended}"
        );
    }
    let ended = end_of(&here, "siteB:/data/copy", "never");
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(known(), before, "jobs write nothing into known_peers");
}

#[test]
fn a_site_with_a_new_key_is_reached_once_the_site_names_it() {
    let (here, there) = two_sites();
    let mut other = Rig::new();
    other.serve(&[]);
    here.write("export/run42/f", b"data");
    let outcome = here.admin(&["trust", there.address(), &other.identity]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for (to, divide) in [("siteB:/data/one", "never"), ("siteB:/data/two", "always")] {
        let ended = end_of(&here, to, divide);
        assert_eq!(
            ended["state"], "complete",
            "known_peers has the old key: {ended}"
        );
    }
}

#[test]
fn the_test_of_a_site_says_who_answers_and_what_may_be_used() {
    let (here, there) = two_sites();
    let test = |name: &str| here.admin(&["site", "test", name]);
    let outcome = test("siteB");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome
            .out
            .contains("siteB answers; you may use data (read and write)"),
        "{outcome:?}"
    );
    // Adding a site tests the site. The site is added, whatever the result.
    let mut other = Rig::new();
    other.serve(&[]);
    let add = |address: &str, identity: &str| {
        here.admin(&["site", "add", "bad", address, "--identity", identity])
    };
    let outcome = add(there.address(), &other.identity);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.complaint.contains(&there.identity), "{outcome:?}");
    // So it is for programs, whose standard output has the document only.
    let line = ["site", "add", "bad", there.address(), "--json"];
    for (identity, said) in [
        (&other.identity, there.identity.as_str()),
        (&there.identity, "bad answers; you may use data"),
    ] {
        let outcome = here.admin(&[&line[..], &["--identity", identity]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.complaint.contains(said), "{outcome:?}");
        let site: Value = serde_json::from_str(&outcome.out).expect("a document");
        assert_eq!(site["name"], "bad", "{site}");
    }
    // A site that does not know this node lets it in nowhere.
    let outcome = add(other.address(), &other.identity);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = format!("{}{}", outcome.out, outcome.complaint);
    assert!(
        said.contains("access allow") && said.contains(&here.identity),
        "{outcome:?}"
    );
    let outcome = add(there.address(), "gw1-short");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome.complaint.contains("52 letters and digits"),
        "{outcome:?}"
    );
    other.end_daemon(rustix::process::Signal::KILL);
    let outcome = test("bad");
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.complaint.contains("cannot be reached"),
        "{outcome:?}"
    );
}
