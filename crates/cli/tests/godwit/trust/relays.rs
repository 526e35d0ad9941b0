//! Rows of relays: A has a data set and sends it to B and C, which know nothing of each other. Data goes from B to C only if both let A read, and
//! neither can do more at the other site than this one job. So it is after a failure, and from the beginning.
//! See `relays` for the checks by digests.

use std::fs;

use serde_json::Value;

use super::super::sites::third::rules;
use super::super::sites::{fill, know, wait_for};
use super::{Trust, allow};

const FILES: u8 = 6;
const BYTES: usize = 500_000;

/// The rights of A at B and at C, and whether a relay may happen.
const ROWS: [(&[&str], &[&str], bool); 4] = [
    (&["--read", "--write"], &["--read", "--write"], true),
    (&["--write"], &["--read", "--write"], false),
    (&["--read", "--write"], &["--write"], false),
    (&["--write"], &["--write"], false),
];

#[track_caller]
fn output_of(trust: &Trust, line: &[&str]) -> String {
    let outcome = trust.a.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

/// C has the data set.
#[track_caller]
fn assert_arrived(trust: &Trust) {
    for n in 0..FILES {
        let name = format!("copy/d{}/f{n}", n % 3);
        let there = fs::read(trust.c.export.join(&name)).expect("it arrived");
        assert!(there == vec![n; BYTES], "{name}");
    }
}

/// The relays of A so far.
fn relays(trust: &Trust) -> Vec<Value> {
    let list = output_of(trust, &["job", "list", "--all", "--json"]);
    let jobs = list.lines().map(serde_json::from_str::<Value>);
    let jobs = jobs.map(|job| job.expect("a job"));
    let is_relay = |job: &Value| {
        let label = job["label"].as_str();
        label.is_some_and(|label| label.contains("relay to job") || label.contains("round "))
    };
    jobs.filter(is_relay).collect()
}

#[test]
fn a_destination_gives_its_data_only_where_both_sites_let_the_asker_read() {
    for (at_b, at_c, may) in ROWS {
        let mut trust = Trust::new();
        allow(&trust.b, &trust.a.identity, "data", at_b);
        allow(&trust.c, &trust.a.identity, "data", at_c);
        know(&trust.a, "siteB", &trust.b);
        know(&trust.a, "siteC", &trust.c);
        fill(&trust.a, FILES, BYTES);
        trust.c.kill_daemon();
        let line = [
            "job",
            "submit",
            "here:/data/run42",
            "--to",
            "siteB:/data/copy",
            "--to",
            "siteC:/data/copy",
            "--relay",
            "auto",
            "--retries",
            "0",
            "--setting",
            "retry-for=0s",
        ];
        let id = output_of(&trust, &line).trim().to_owned();
        wait_for(&trust.a, &id, |job| job["state"] == "partial");
        trust.c.serve(&[]);
        output_of(&trust, &["job", "retry", &id]);
        wait_for(&trust.a, &id, |job| job["state"] == "complete");
        let shown = output_of(&trust, &["job", "show", &id, "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("a job");
        let code = if may { "relayed" } else { "complete" };
        let child = &shown["jobs"][1];
        assert_eq!(child["reason"]["code"], code, "{at_b:?} {at_c:?}: {child}");
        assert_arrived(&trust);
        for relay in relays(&trust) {
            let bytes = relay["moved"]["bytes"].as_u64();
            assert_eq!(bytes > Some(0), may, "{at_b:?} {at_c:?}: {relay}");
        }
        // The access for the relay is gone, and B gets no further.
        assert_eq!((rules(&trust.b), rules(&trust.c)), (0, 0), "{shown}");
        let known = ["trust", trust.c.address(), &trust.c.identity];
        assert_eq!(trust.b.admin(&known).code, Some(0));
        for line in [
            ["cp", "export/copy", &trust.c.url("elsewhere")],
            ["cp", &trust.c.url("copy"), "stolen"],
        ] {
            let outcome = trust.b.admin(&line);
            assert_eq!(outcome.code, Some(4), "{outcome:?}");
        }
    }
}

#[test]
fn a_site_that_may_not_be_read_passes_nothing_on_from_the_beginning() {
    let trust = Trust::new();
    allow(&trust.b, &trust.a.identity, "data", &["--write"]);
    allow(&trust.c, &trust.a.identity, "data", &["--read", "--write"]);
    know(&trust.a, "siteB", &trust.b);
    know(&trust.a, "siteC", &trust.c);
    fill(&trust.a, FILES, BYTES);
    let line = [
        "job",
        "submit",
        "here:/data/run42",
        "--to",
        "siteB:/data/copy",
        "--to",
        "siteC:/data/copy",
        "--relay",
        "first",
    ];
    let id = output_of(&trust, &line).trim().to_owned();
    let ended = wait_for(&trust.a, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_arrived(&trust);
    for relay in relays(&trust) {
        let bytes = relay["moved"]["bytes"].as_u64();
        assert_eq!(bytes.unwrap_or(0), 0, "{relay}");
    }
    assert_eq!((rules(&trust.b), rules(&trust.c)), (0, 0), "{ended}");
}
