//! An undivided job whose node is killed in the middle: another node finishes the job as one run would have, and leaves nothing behind.
//! The same for a job that another site runs. See `divided` for divided jobs of the own nodes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::judge::{
    assert_identical_to_rsync, assert_no_temporaries, files_below, is_temporary,
};
use super::super::rig::Rig;
use super::super::sites::{allow, know, submit, wait_for};
use super::guests::rules;
use super::left::remove;
use super::{DEADLINE, Site, archive, runner};

/// Eight files in two directories, the last larger than the data that moves in a moment.
pub(super) fn fill(directory: &Path) {
    for n in 0..8_u8 {
        let below = directory.join(format!("d{}", n % 2));
        fs::create_dir_all(&below).expect("made");
        let bytes = if n == 7 { 6_000_000 } else { 400_000 };
        fs::write(below.join(format!("f{n}")), vec![n; bytes]).expect("written");
    }
}

#[track_caller]
pub(super) fn wait_for_temporary(below: &Path) {
    let until = Instant::now() + DEADLINE;
    while !below.exists() || !files_below(below).iter().any(|file| is_temporary(file)) {
        assert!(Instant::now() < until, "nothing is half there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Submits the job, kills its node once a file is half there, and has another node finish the job.
#[track_caller]
fn take_over(site: &mut Site, source: &str, destination: &str, copy: &Path) {
    let line = ["--divide", "never", "--limit", "1MB"];
    let id = submit(&site.nodes[0], source, destination, &line);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["state"] == "running" && !job["node"].is_null()
    });
    let first = site.place_of(runner(&job).expect("a runner"));
    wait_for_temporary(copy);
    site.nodes[first].kill_daemon();
    let other = (first + 1) % site.nodes.len();
    let ended = wait_for(&site.nodes[other], &id, |job| !job["ended"].is_null());
    let log = site.nodes[other].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_ne!(
        runner(&ended),
        Some(runner(&job).expect("a runner")),
        "another node ended it: {ended}"
    );
    site.nodes[first].serve(&[]);
}

#[test]
fn a_pushed_job_of_a_killed_node_ends_as_one_run_would() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let source = site.nodes[0].export.join("set");
    fill(&source);
    // Once missing before, so that the source becomes the copy; once existing, so that the source goes into it.
    let copy = there.export.join("copy");
    take_over(&mut site, "here:/data/set", "siteB:/data/copy", &copy);
    assert_identical_to_rsync("-aH", &source, &copy);
    let into = there.export.join("into");
    fs::create_dir(&into).expect("made");
    take_over(&mut site, "here:/data/set", "siteB:/data/into", &into);
    assert_identical_to_rsync("-aH", &source, &into.join("set"));
    assert_no_temporaries(&there.export);
}

#[test]
fn a_pulled_job_of_a_killed_node_ends_as_one_run_would() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let source = there.export.join("set");
    fill(&source);
    let export = site.nodes[0].export.clone();
    let copy = export.join("copy");
    take_over(&mut site, "siteB:/data/set", "here:/data/copy", &copy);
    assert_identical_to_rsync("-aH", &source, &copy);
    assert_no_temporaries(&export);
}

/// Kills the node that had another site run the job, for good. Another node continues with the same job there.
#[track_caller]
fn goes_on(site: &mut Site, runs: &Rig, from: &str, to: &str, into: &Path) {
    fs::create_dir(into).expect("made");
    let line = ["--limit", "1MB", "--divide", "always"];
    let id = submit(&site.nodes[0], from, to, &line);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["state"] == "running" && !job["node"].is_null()
    });
    let first = site.place_of(runner(&job).expect("a runner"));
    wait_for_temporary(into);
    site.nodes[first].kill_daemon();
    let other = &site.nodes[(first + 1) % site.nodes.len()];
    let ended = wait_for(other, &id, |job| !job["ended"].is_null());
    let log = other.admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert_eq!(ended["attempts"], 2, "{ended}");
    let list = runs.admin(&["job", "list", "--all", "--json"]).out;
    assert_eq!(list.lines().count(), 1, "one job runs there: {list}");
    assert_eq!(fs::read_dir(into).expect("there").count(), 1);
    let until = Instant::now() + DEADLINE;
    while rules(other) + rules(runs) > 0 {
        assert!(Instant::now() < until, "rights stay");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_job_that_another_site_brings_is_followed_by_another_node() {
    let mut site = Site::of(3);
    let there = archive(&site);
    let source = there.export.join("set");
    fill(&source);
    let into = site.nodes[0].export.join("into");
    let (from, to) = ("siteB:/data/set", "here:/data/into");
    goes_on(&mut site, &there, from, to, &into);
    assert_identical_to_rsync("-aHO", &source, &into.join("set"));
    assert_no_temporaries(&into);
}

/// A cluster that knows two other sites: one with the set, and one that it may write to.
pub(super) fn between() -> (Site, Rig, Rig) {
    let site = Site::of(3);
    let (source, mut there) = (archive(&site), Rig::new());
    there.serve(&["--keep-for", "1s"]);
    for node in &site.nodes {
        allow(&there, &node.identity, &["--read", "--write"]);
    }
    know(&site.nodes[0], "siteC", &there);
    fill(&source.export.join("set"));
    (site, source, there)
}

#[test]
fn a_job_between_two_other_sites_is_followed_by_another_node() {
    let (mut site, source, there) = between();
    let into = there.export.join("into");
    let (from, to) = ("siteB:/data/set", "siteC:/data/into");
    goes_on(&mut site, &source, from, to, &into);
    assert_identical_to_rsync("-aHO", &source.export.join("set"), &into.join("set"));
    assert_no_temporaries(&into);
    assert_eq!(rules(&there), 0, "no right stays at the destination");
}

/// The rules at a site that are for a job of this node.
pub(super) fn subjects(rig: &Rig) -> Vec<String> {
    let list = rig.admin(&["access", "list", "--json"]).out;
    let rules = list.lines().map(|line| {
        let rule: serde_json::Value = serde_json::from_str(line).expect("a rule");
        rule
    });
    let of_jobs = rules.filter(|rule| rule["job"].is_string());
    of_jobs.map(|rule| rule["subject"].to_string()).collect()
}

#[test]
fn a_node_that_leaves_the_cluster_has_no_access_for_its_jobs_any_more() {
    let (site, source, there) = between();
    fs::create_dir(there.export.join("into")).expect("made");
    let line = ["--limit", "300KB/s"];
    let (from, to) = ("siteB:/data/set", "siteC:/data/into");
    let id = submit(&site.nodes[0], from, to, &line);
    let job = wait_for(&site.nodes[0], &id, |job| {
        job["state"] == "running" && !job["node"].is_null()
    });
    let first = site.place_of(runner(&job).expect("a runner"));
    wait_for_temporary(&there.export.join("into"));
    let gone = (1..3).find(|at| *at != first).expect("another");
    let identity = &site.nodes[gone].identity;
    let has = |rig: &Rig| {
        subjects(rig)
            .iter()
            .any(|subject| subject.contains(identity))
    };
    assert!(has(&there) && has(&source), "each node is let in");
    let name = format!("dtn{}", gone + 1);
    remove(&site.nodes[first], &name);
    let until = Instant::now() + DEADLINE;
    while has(&there) || has(&source) {
        assert!(Instant::now() < until, "{:?}", subjects(&there));
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = wait_for(&site.nodes[first], &id, |job| !job["ended"].is_null());
    let log = site.nodes[first].admin(&["job", "log", &id]).out;
    assert!(log.contains("has left this cluster"), "{log}");
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
}
