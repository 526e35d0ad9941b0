//! Jobs that gather several sites into one directory, between nodes of the real binary: below their names, or merged by a rule.
//! `destinations` tests jobs with several destinations. The tests of the state cover the consequences of a change.

use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

use godwit_api::failure::FailureCode;
use godwit_api::rest::Timestamp;
use serde_json::Value;

use super::family::{children, ends, states, submit, with_sites};
use super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::rig::Rig;
use super::sites::{fill, know, wait_for};

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
        let (here, sites) = with_sites(NAMES, &["--read"]);
        // The sites have the same names with different contents.
        for (site, bytes) in sites.iter().zip(BYTES) {
            fill(site, FILES, bytes);
        }
        std::fs::create_dir(here.export.join("archive")).expect("made");
        Self { here, sites }
    }

    #[track_caller]
    fn submit(&self, more: &[&str]) -> String {
        let mut line = vec!["--to", "here:/data/archive"];
        let places = NAMES.map(|name| format!("{name}:/data/run42"));
        for place in &places {
            line.extend(["--from", place]);
        }
        submit(&self.here, &[&line, more].concat())
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
    let ended = ends(&world.here, &id);
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
    let ended = ends(&world.here, &world.submit(&[]));
    assert_eq!(ended["state"], "complete", "{ended}");
    world.assert_gathered();
}

#[test]
fn a_source_that_is_away_is_missing_and_comes_with_a_retry() {
    let mut world = World::new();
    world.sites[1].kill_daemon();
    let id = world.submit(&["--retries", "0"]);
    let ended = ends(&world.here, &id);
    assert_eq!(ended["state"], "partial", "{ended}");
    let why = ended["reason"]["text"].as_str().expect("a reason");
    assert!(why.starts_with("1 of 2 sources are complete."), "{why}");
    world.sites[1].serve(&[]);
    let outcome = world.here.admin(&["job", "retry", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    wait_for(&world.here, &id, |job| job["state"] == "complete");
    let all = children(&world.here, &id);
    let attempts: Vec<&Value> = all.iter().map(|child| &child["attempts"]).collect();
    assert_eq!(attempts, [1, 2]);
    world.assert_gathered();
}

/// Gives a file of a source this time, in seconds.
fn set_time(site: &Rig, name: &str, seconds: u64) {
    let path = site.export.join("run42").join(name);
    let file = File::options().write(true).open(path);
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    file.and_then(|file| file.set_modified(time)).expect("set");
}

/// The length of a file in the archive.
fn length(world: &World, name: &str) -> usize {
    world.here.read(&format!("export/archive/{name}")).len()
}

/// The end of each job is not after the beginning of the next one.
#[track_caller]
fn assert_in_turn(children: &[Value]) {
    let time = |job: &Value, field: &str| -> Timestamp {
        serde_json::from_value(job[field].clone()).expect("a time")
    };
    let span = |job: &Value| (time(job, "started").0, time(job, "ended").0);
    let mut spans: Vec<(i64, i64)> = children.iter().map(span).collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{spans:?}");
    }
}

#[test]
fn of_merged_sources_the_newest_file_of_each_name_stays() {
    let world = World::new();
    // The first site has the newer file of the first name; the second site has the newer file of the second name.
    for (name, seconds) in [("d0/f0", [2_000, 1_000]), ("d1/f1", [1_000, 2_000])] {
        for (site, seconds) in world.sites.iter().zip(seconds) {
            set_time(site, name, seconds);
        }
    }
    world.sites[0].write("export/run42/only/first", "first");
    world.sites[1].write("export/run42/only/second", "second");
    for round in ["the first", "the same"] {
        let id = world.submit(&["--merge", "newest"]);
        let ended = ends(&world.here, &id);
        assert_eq!(ended["state"], "complete", "{round}: {ended}");
        assert_eq!(length(&world, "d0/f0"), BYTES[0], "{round}");
        assert_eq!(length(&world, "d1/f1"), BYTES[1], "{round}");
        assert_eq!(length(&world, "only/first"), "first".len(), "{round}");
        assert_eq!(length(&world, "only/second"), "second".len(), "{round}");
        assert_in_turn(&children(&world.here, &id));
        let report = world.here.admin(&["job", "report", &id]).out;
        assert!(report.contains("the newest stays"), "{report}");
        for name in NAMES {
            assert!(report.contains(&format!("{name}:/data/run42")), "{report}");
        }
    }
    assert_no_temporaries(&world.here.export);
}

#[test]
fn a_merge_that_refuses_overwrites_nothing_and_names_the_others() {
    let world = World::new();
    for site in &world.sites {
        site.write("export/run42/same", "same");
        set_time(site, "same", 1_000);
    }
    world.here.write("export/archive/d0/f0", "there before");
    for round in ["the first", "the same"] {
        let id = world.submit(&["--merge", "refuse", "--retries", "0"]);
        let ended = ends(&world.here, &id);
        assert_eq!(ended["state"], "partial", "{round}: {ended}");
        let all = children(&world.here, &id);
        assert_in_turn(&all);
        let failed = |job: &Value| job["summary"]["failed"].as_u64();
        let mut counts: Vec<_> = all.iter().map(failed).collect();
        counts.sort_unstable();
        // Each source has the name that was there before. The later one has the names of the earlier one.
        assert_eq!(counts, [Some(1), Some(u64::from(FILES))], "{round}");
        let (first, later) = match failed(&all[0]) {
            Some(1) => (0, 1),
            _ => (1, 0),
        };
        assert_eq!(length(&world, "d0/f0"), "there before".len(), "{round}");
        assert_eq!(length(&world, "d1/f1"), BYTES[first], "{round}");
        assert_eq!(length(&world, "same"), "same".len(), "{round}");
        let later = all[later]["id"].as_str().expect("an id");
        let report = world.here.admin(&["job", "report", later]).out;
        for name in ["d1/f1", "d2/f2"] {
            assert!(report.contains(name), "{report}");
        }
        assert!(!report.contains("/same"), "{report}");
        let report = world.here.admin(&["job", "report", later, "--json"]).out;
        let report: Value = serde_json::from_str(&report).expect("a report");
        let code = &report["failures"][0]["reason"]["code"];
        assert_eq!(*code, FailureCode::Collision.as_str(), "{report}");
    }
    assert_no_temporaries(&world.here.export);
}

#[test]
fn a_source_waits_while_another_one_is_merged_and_says_so() {
    let world = World::new();
    let id = world.submit(&["--merge", "newest", "--limit", "300KB/s"]);
    let waits = FailureCode::OtherSource.as_str();
    wait_for(&world.here, &id, |_| {
        let all = children(&world.here, &id);
        let is_queued = |job: &Value| job["state"] == "queued" && job["reason"]["code"] == waits;
        all.iter().filter(|job| is_queued(job)).count() == 1
    });
    let outcome = world.here.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = ends(&world.here, &id);
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_in_turn(&children(&world.here, &id));
}

#[test]
fn a_site_with_many_files_and_sources_keeps_no_other_one_waiting() {
    let mut world = World::new();
    for number in 0..10_000 {
        let half = ["a", "b"][number % 2];
        world.sites[0].write(&format!("export/{half}/{number}"), [7_u8; 400]);
    }
    world.sites[1].write("export/one/file", [7_u8; 400]);
    // Two jobs at once: the first site alone could fill both places.
    world.here.kill_daemon();
    world.here.serve(&["--jobs", "2"]);
    let words = [
        ["--from", "siteB:/data/a"],
        ["--from", "siteB:/data/b"],
        ["--from", "siteC:/data/one"],
        ["--to", "here:/data/archive"],
        ["--limit", "200KB/s"],
    ];
    let id = submit(&world.here, words.as_flattened());
    let all = children(&world.here, &id);
    let last = all[2]["id"].as_str().expect("an id");
    wait_for(&world.here, last, |job| job["state"] == "complete");
    let states = states(&world.here, &id);
    assert!(states[..2].iter().all(|it| it != "complete"), "{states:?}");
    let outcome = world.here.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = ends(&world.here, &id);
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(ended["moved"]["files"], 10_001, "{ended}");
}

#[test]
fn a_rule_without_a_gather_or_with_a_sync_is_refused() {
    let world = World::new();
    let gathers = ["--from", "siteB:/data/run42", "--from", "siteC:/data/run42"];
    let one = ["siteB:/data/run42"];
    for (sources, more, word) in [
        (
            &gathers[..],
            &["--merge", "oldest"][..],
            "by-site, refuse, newest",
        ),
        (
            &gathers,
            &["--merge", "newest", "--sync"],
            "the files of the others",
        ),
        (
            &gathers,
            &["--merge", "refuse", "--setting", "size-only"],
            "size-only",
        ),
        (
            &gathers,
            &["--merge", "refuse", "--setting", "force"],
            "contradict",
        ),
        (&one, &["--merge", "refuse"], "--from"),
    ] {
        let to = ["--to", "here:/data/archive"];
        let outcome = world
            .here
            .admin(&[&["job", "submit"], sources, &to, more].concat());
        assert_ne!(outcome.code, Some(0), "{more:?}");
        assert!(outcome.complaint.contains(word), "{outcome:?}");
    }
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
