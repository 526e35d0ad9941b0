//! Jobs with several destinations between nodes of the real binary: one read, a part that is missing and comes later, refusals.
//! See `each` for one command without jobs, and the tests of the state for what follows from a change.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::family::{children, ends, states, submit, with_sites};
use super::judge::assert_identical_to_rsync;
use super::rest::Caller;
use super::rig::Rig;
use super::sites::{fill, know, wait_for};

const FILES: u8 = 12;
const BYTES: usize = 2_000_000;
const ALL: u64 = FILES as u64 * BYTES as u64;

/// A node with a data set, and three sites that it may write to.
struct World {
    here: Rig,
    sites: [Rig; 3],
}

const NAMES: [&str; 3] = ["siteB", "siteC", "siteD"];

impl World {
    fn new() -> Self {
        Self::of(FILES, BYTES)
    }

    /// The same with this number of files of this size.
    fn of(files: u8, bytes: usize) -> Self {
        Self::with(files, bytes, &["--write"])
    }

    /// The same with these rights at the sites.
    fn with(files: u8, bytes: usize, rights: &[&str]) -> Self {
        let (here, sites) = with_sites(NAMES, rights);
        fill(&here, files, bytes);
        Self { here, sites }
    }

    /// Submits a job to the three sites; its id.
    #[track_caller]
    fn submit(&self, more: &[&str]) -> String {
        let mut line = vec!["here:/data/run42"];
        let places = NAMES.map(|name| format!("{name}:/data/copy"));
        for place in &places {
            line.extend(["--to", place]);
        }
        submit(&self.here, &[&line, more].concat())
    }

    #[track_caller]
    fn assert_identical(&self) {
        for site in &self.sites {
            let [one, other] = [self.here.export.join("run42"), site.export.join("copy")];
            assert_identical_to_rsync("-aHO", &one, &other);
        }
    }

    /// The same by divided jobs, to empty sites.
    #[track_caller]
    fn divided_jobs_read_once(&self, all: u64) {
        for site in &self.sites {
            fs::remove_dir_all(site.export.join("copy")).expect("removed");
        }
        let before = self.read();
        let id = self.submit(&["--divide", "always"]);
        let ended = ends(&self.here, &id);
        let read = self.read() - before;
        assert_eq!(ended["state"], "complete", "{ended}");
        self.assert_identical();
        for child in children(&self.here, &id) {
            let child = child["id"].as_str().expect("an id");
            let log = self.here.admin(&["job", "log", child]).out;
            assert!(log.contains("divided: "), "{log}");
        }
        // Three controllers and three workers read the state of the node, too.
        assert!(read >= all && read < 2 * all, "{read} of {all}");
    }

    /// Bytes that the node with the source has read so far, from files and sockets.
    fn read(&self) -> u64 {
        self.here.daemon().read().expect("it runs")
    }
}

#[test]
fn a_job_with_three_destinations_reads_its_source_once() {
    // Less than is kept for the slowest. A divided job asks for the destination, so it needs the right to see it.
    let world = World::with(FILES, 5_000_000, &["--read", "--write"]);
    let all = u64::from(FILES) * 5_000_000;
    let before = world.read();
    let id = world.submit(&["--label", "night-42"]);
    let ended = ends(&world.here, &id);
    let read = world.read() - before;
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(ended["destinations"]["complete"], 3, "{ended}");
    assert_eq!(ended["moved"]["bytes"], 3 * all, "{ended}");
    world.assert_identical();
    assert!(read >= all, "{read} of {all}: the judge counts nothing");
    assert!(read < all * 3 / 2, "{read} of {all}");
    for child in children(&world.here, &id) {
        assert_eq!(child["parent"], id.as_str(), "{child}");
        assert_eq!(child["label"], "night-42", "{child}");
    }
    let list = world
        .here
        .admin(&["job", "list", "--all", "--parent", &id])
        .out;
    assert_eq!(list.matches("complete").count(), 3, "{list}");
    let report = world.here.admin(&["job", "report", &id]).out;
    for name in NAMES {
        assert!(report.contains(&format!("{name}:/data/copy")), "{report}");
    }
    let watched = world.here.admin(&["job", "watch", &id]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    world.divided_jobs_read_once(all);
}

#[test]
fn a_parent_adds_up_its_destinations_and_nothing_counts_it_beside_them() {
    let world = World::new();
    let id = world.submit(&["--limit", "1MB/s"]);
    let parent = wait_for(&world.here, &id, |job| {
        let progress = &job["progress"];
        progress["bytes_total"] == 3 * ALL && progress["bytes_per_second"].as_f64() > Some(0.0)
    });
    assert_eq!(parent["progress"]["files_total"], 3 * u64::from(FILES));
    let top = world.here.admin(&["top", "--once"]).out;
    assert!(top.contains("3 running, 0 waiting"), "{top}");
    let figures = Caller::admin(&world.here).metrics();
    let running = [
        "godwit_jobs{state=\"running\",asked=\"here\"} 3",
        "godwit_jobs{state=\"scanning\",asked=\"here\"} 0",
    ];
    for line in running {
        assert!(figures.contains(line), "{line}: {figures}");
    }
    assert!(!figures.contains(&format!("job_id=\"{id}\"")), "{figures}");
    let outcome = world.here.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = ends(&world.here, &id);
    assert_eq!(ended["moved"]["bytes"], 3 * ALL, "{ended}");
}

#[test]
fn a_destination_that_is_too_slow_for_the_others_is_said_to_be_behind() {
    // More than is kept for the slowest, and long enough that it is behind for seconds.
    let world = World::of(12, 16_000_000);
    let id = world.submit(&["--limit", "1MB/s"]);
    let children: Vec<String> = (children(&world.here, &id).iter())
        .map(|job| job["id"].as_str().expect("an id").to_owned())
        .collect();
    let limit = |id: &str, rate: &str| {
        let outcome = world.here.admin(&["job", "limit", id, rate]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    children[..2].iter().for_each(|id| limit(id, "24MB/s"));
    let last = &children[2];
    wait_for(&world.here, last, |job| job["progress"]["behind"] == true);
    let shown = world.here.admin(&["job", "show", last]).out;
    assert!(shown.contains("it reads again"), "{shown}");
    let figure = format!("godwit_job_behind{{job_id=\"{last}\",runs=\"here\"}} 1");
    let figures = Caller::admin(&world.here).metrics();
    assert!(figures.contains(&figure), "{figures}");
    limit(&id, "none");
    assert_eq!(ends(&world.here, &id)["state"], "complete");
    world.assert_identical();
}

#[test]
fn a_site_that_is_away_is_missing_and_comes_with_a_retry() {
    let mut world = World::new();
    world.sites[1].kill_daemon();
    let id = world.submit(&["--retries", "0"]);
    let ended = ends(&world.here, &id);
    assert_eq!(ended["state"], "partial", "{ended}");
    assert_eq!(states(&world.here, &id), ["complete", "failed", "complete"]);
    let why = ended["reason"]["text"].as_str().expect("a reason");
    assert!(
        why.starts_with("2 of 3 destinations are complete."),
        "{why}"
    );
    let watched = world.here.admin(&["job", "watch", &id]);
    assert_eq!(watched.code, Some(3), "{watched:?}");
    let report = world.here.admin(&["job", "report", &id]).out;
    assert!(report.contains("siteC:/data/copy"), "{report}");
    world.sites[1].serve(&[]);
    let outcome = world.here.admin(&["job", "retry", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = wait_for(&world.here, &id, |job| job["state"] == "complete");
    assert_eq!(ended["destinations"]["complete"], 3, "{ended}");
    let attempts: Vec<Value> = children(&world.here, &id)
        .iter()
        .map(|child| child["attempts"].clone())
        .collect();
    assert_eq!(attempts, [1, 2, 1]);
    world.assert_identical();
}

#[test]
fn a_site_that_is_killed_and_back_costs_no_further_read() {
    let mut world = World::new();
    let before = world.read();
    let id = world.submit(&["--limit", "6MB/s"]);
    wait_for(&world.here, &id, |_| {
        let all = children(&world.here, &id);
        let moved = |job: &Value| job["progress"]["bytes"].as_u64().unwrap_or(0);
        all.iter().all(|child| moved(child) > ALL / 6)
    });
    world.sites[2].end_daemon(Signal::KILL);
    world.sites[2].serve(&[]);
    let ended = ends(&world.here, &id);
    let read = world.read() - before;
    assert_eq!(ended["state"], "complete", "{ended}");
    world.assert_identical();
    assert!(read < ALL * 3 / 2, "{read} of {ALL}");
}

#[test]
fn a_parent_is_steered_with_its_children_and_they_alone() {
    let world = World::new();
    let id = world.submit(&["--limit", "500KB/s"]);
    wait_for(&world.here, &id, |job| job["state"] == "running");
    let change = |verb: &str, id: &str| {
        let outcome = world.here.admin(&["job", verb, id]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    change("pause", &id);
    assert_eq!(states(&world.here, &id), ["paused"; 3]);
    let first = children(&world.here, &id)[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    change("cancel", &first);
    change("resume", &id);
    let outcome = world.here.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = ends(&world.here, &id);
    assert_eq!(ended["state"], "partial", "{ended}");
    assert_eq!(
        states(&world.here, &id),
        ["cancelled", "complete", "complete"]
    );
}

#[test]
fn destinations_that_meet_each_other_or_their_source_are_refused() {
    let world = World::new();
    // Another name of a known site.
    know(&world.here, "alias", &world.sites[0]);
    for (one, other, word) in [
        ("siteB:/data/copy", "siteB:/data/copy/", "are one place"),
        ("siteB:/data/copy", "alias:/data/copy", "are one place"),
        (
            "siteB:/data/copy",
            "alias:/data/copy/deep",
            "inside the other",
        ),
        ("siteB:/data", "siteB:/data/copy", "inside the other"),
        (
            "siteB:/data/copy",
            "here:/data/run42/x",
            "inside the source",
        ),
        ("siteB:/data/copy", "siteX:/data/copy", "siteX"),
        ("siteB:/data/copy", "here:/none/copy", "no export"),
    ] {
        let line = [
            "job",
            "submit",
            "here:/data/run42",
            "--to",
            one,
            "--to",
            other,
        ];
        let outcome = world.here.admin(&line);
        assert_ne!(outcome.code, Some(0), "{one} {other}");
        assert!(outcome.complaint.contains(word), "{outcome:?}");
    }
    let list = world.here.admin(&["job", "list", "--all", "--json"]).out;
    assert_eq!(list, "");
    // One destination is an ordinary job.
    let line = [
        "job",
        "submit",
        "here:/data/run42",
        "--to",
        "siteB:/data/copy",
    ];
    let outcome = world.here.admin(&line);
    let ended = ends(&world.here, outcome.out.trim());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert!(ended["destinations"].is_null(), "{ended}");
}
