//! Jobs that gather several sites into one directory, between nodes of the real binary: each below its name, a site that is away, refusals.
//! See `destinations` for the mirror image, and the tests of the state for what follows from a change.

use serde_json::Value;

use super::judge::assert_identical_to_rsync;
use super::rig::Rig;
use super::sites::{allow, fill, know, wait_for};

const FILES: u8 = 6;
const BYTES: [usize; 2] = [300_000, 200_000];
const NAMES: [&str; 2] = ["siteB", "siteC"];

/// A node with a directory, and two sites with data that it may read.
struct World {
    here: Rig,
    sites: [Rig; 2],
}

impl World {
    fn new() -> Self {
        let mut here = Rig::new();
        here.serve(&[]);
        let sites = NAMES.map(|name| {
            let mut site = Rig::new();
            site.serve(&[]);
            allow(&site, &here.identity, &["--read"]);
            know(&here, name, &site);
            site
        });
        // The sites have the same names with different contents.
        for (site, bytes) in sites.iter().zip(BYTES) {
            fill(site, FILES, bytes);
        }
        std::fs::create_dir(here.export.join("archive")).expect("made");
        Self { here, sites }
    }

    #[track_caller]
    fn submit(&self, more: &[&str]) -> String {
        let mut line = vec!["job", "submit", "--to", "here:/data/archive"];
        let places = NAMES.map(|name| format!("{name}:/data/run42"));
        for place in &places {
            line.extend(["--from", place]);
        }
        let outcome = self.here.admin(&[&line, more].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.out.trim().to_owned()
    }

    /// The job of each source, in their order.
    fn children(&self, id: &str) -> Vec<Value> {
        let outcome = self.here.admin(&["job", "show", id, "--json"]);
        let shown: Value = serde_json::from_str(&outcome.out).expect("a job");
        shown["jobs"].as_array().expect("jobs").clone()
    }

    #[track_caller]
    fn ends(&self, id: &str) -> Value {
        wait_for(&self.here, id, |job| !job["ended"].is_null())
    }

    #[track_caller]
    fn assert_gathered(&self) {
        let archive = self.here.export.join("archive");
        for (site, name) in self.sites.iter().zip(NAMES) {
            let source = site.export.join("run42");
            assert_identical_to_rsync("-aHO", &source, &archive.join(name));
        }
        let entries = std::fs::read_dir(archive).expect("listed");
        assert_eq!(entries.count(), NAMES.len());
    }
}

#[test]
fn two_sites_are_gathered_each_below_its_name() {
    let world = World::new();
    let id = world.submit(&[]);
    let ended = world.ends(&id);
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(ended["destinations"]["complete"], 2, "{ended}");
    assert_eq!(ended["destinations"]["gather"], true, "{ended}");
    world.assert_gathered();
    let report = world.here.admin(&["job", "report", &id]).out;
    for name in NAMES {
        let place = format!("here:/data/archive/{name}");
        assert!(report.contains(&place), "{report}");
    }
    // The next round goes to the same places.
    let ended = world.ends(&world.submit(&[]));
    assert_eq!(ended["state"], "complete", "{ended}");
    world.assert_gathered();
}

#[test]
fn a_source_that_is_away_is_missing_and_comes_with_a_retry() {
    let mut world = World::new();
    world.sites[1].kill_daemon();
    let id = world.submit(&["--retries", "0"]);
    let ended = world.ends(&id);
    assert_eq!(ended["state"], "partial", "{ended}");
    let why = ended["reason"]["text"].as_str().expect("a reason");
    assert!(why.starts_with("1 of 2 sources are complete."), "{why}");
    world.sites[1].serve(&[]);
    let outcome = world.here.admin(&["job", "retry", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    wait_for(&world.here, &id, |job| job["state"] == "complete");
    let children = world.children(&id);
    let attempts: Vec<&Value> = children.iter().map(|child| &child["attempts"]).collect();
    assert_eq!(attempts, [1, 2]);
    world.assert_gathered();
}

#[test]
fn sources_that_meet_each_other_or_the_destination_are_refused() {
    let world = World::new();
    // Another name of a known site.
    know(&world.here, "alias", &world.sites[0]);
    for (one, other, word) in [
        ("siteB:/data/run42", "alias:/data/run42/", "are one place"),
        ("siteB:/data/a/x", "siteB:/data/b/x", "would both be"),
        (
            "siteB:/data/run42",
            "here:/data/archive/x",
            "inside the destination",
        ),
        ("siteB:/data/run42", "here:/data", "inside the source"),
        ("siteB:/data/run42", "siteX:/data/run42", "siteX"),
    ] {
        let line = ["job", "submit", "--from", one, "--from", other];
        let to = ["--to", "here:/data/archive"];
        let outcome = world.here.admin(&[&line[..], &to].concat());
        assert_ne!(outcome.code, Some(0), "{one} {other}");
        assert!(outcome.complaint.contains(word), "{outcome:?}");
    }
    let alone = ["job", "submit", "--from", "siteB:/data/run42"];
    let outcome = world.here.admin(&alone);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    let list = world.here.admin(&["job", "list", "--all", "--json"]).out;
    assert_eq!(list, "");
}
