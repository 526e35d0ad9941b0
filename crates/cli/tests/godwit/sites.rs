//! Jobs between the nodes of two sites, by the real binary: pushed, pulled, and with the node that runs them killed again and again.
//! See `jobs` for the commands themselves, and the tests of the API for the routes.

mod back;
mod clocks;
mod ends;
mod full;
mod kills;
mod left;
mod memory;
mod past;
mod places;
mod renewal;
mod rights;
mod seen;
mod table;
pub(crate) mod third;
mod users;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::judge::assert_identical_to_rsync;
use super::rig::Rig;

/// Time for jobs to end on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// A job that has ended changes within this time, if it changes.
const CHANGES_WITHIN: Duration = Duration::from_secs(40);

/// Two nodes that know each other; the first one may read from the second one and write to it.
pub(crate) fn two_sites() -> (Rig, Rig) {
    let (mut here, mut there) = (Rig::new(), Rig::new());
    here.serve(&[]);
    there.serve(&[]);
    allow(&there, &here.identity, &["--read", "--write"]);
    know(&here, "siteB", &there);
    (here, there)
}

/// Lets an identity in, in all exports.
#[track_caller]
pub(crate) fn allow(rig: &Rig, identity: &str, rights: &[&str]) {
    let line = [&["access", "allow", identity, "--all-exports"], rights].concat();
    let outcome = rig.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Takes back all that an identity was allowed.
#[track_caller]
fn deny(rig: &Rig, identity: &str) {
    let outcome = rig.admin(&["access", "deny", identity]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Names a node to another one.
#[track_caller]
pub(crate) fn know(rig: &Rig, name: &str, other: &Rig) {
    let line = [
        "site",
        "add",
        name,
        other.address(),
        "--identity",
        &other.identity,
    ];
    let outcome = rig.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Submits a job; its id.
#[track_caller]
pub(crate) fn submit(rig: &Rig, source: &str, destination: &str, more: &[&str]) -> String {
    let line = [&["job", "submit", source, destination], more].concat();
    let outcome = rig.admin(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.out.trim().to_owned()
}

/// The job's document; None while the node does not answer.
fn job(rig: &Rig, id: &str) -> Option<Value> {
    let outcome = rig.admin(&["job", "show", id, "--json"]);
    serde_json::from_str(&outcome.out).ok()
}

#[track_caller]
pub(crate) fn wait_for(rig: &Rig, id: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
    let until = Instant::now() + DEADLINE;
    let mut over = None;
    loop {
        let now = job(rig, id);
        if let Some(job) = now.as_ref().filter(|job| is_it(job)) {
            return job.clone();
        }
        let is_over = now.as_ref().is_some_and(|job| !job["ended"].is_null());
        over = is_over.then(|| over.unwrap_or_else(Instant::now));
        let in_vain = over.is_some_and(|since| since.elapsed() > CHANGES_WITHIN);
        assert!(
            Instant::now() < until && !in_vain,
            "it does not come: {now:?}"
        );
        // Each look starts a program.
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn moved(job: &Value) -> u64 {
    job["progress"]["bytes"].as_u64().unwrap_or(0)
}

pub(crate) fn fill(rig: &Rig, files: u8, bytes: usize) {
    for n in 0..files {
        rig.write(&format!("export/run42/d{}/f{n}", n % 3), vec![n; bytes]);
    }
}

#[test]
fn a_job_carries_a_data_set_to_another_site_and_back() {
    let (here, there) = two_sites();
    fill(&here, 9, 300_000);
    let push = submit(
        &here,
        "here:/data/run42",
        "siteB:/data/copy",
        &["--label", "night-42"],
    );
    let ended = wait_for(&here, &push, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_eq!(ended["label"], "night-42");
    assert_eq!(ended["summary"]["files"], 9);
    assert_identical_to_rsync(
        "-aHO",
        &here.export.join("run42"),
        &there.export.join("copy"),
    );
    let pull = submit(&here, "siteB:/data/copy", "here:/data/back", &[]);
    let ended = wait_for(&here, &pull, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_identical_to_rsync(
        "-aHO",
        &here.export.join("run42"),
        &here.export.join("back"),
    );
}

#[test]
fn a_job_whose_node_is_killed_again_and_again_arrives_whole_and_once() {
    let (mut here, there) = two_sites();
    fill(&here, 20, 500_000);
    let id = submit(
        &here,
        "here:/data/run42",
        "siteB:/data/copy",
        &["--limit", "2MB/s"],
    );
    let mut before = 0;
    for kills in 1..=3_u32 {
        // Each life of the node moves something, and is then ended without warning.
        let seen = wait_for(&here, &id, |job| {
            moved(job) > before && !job["ended"].is_string()
        });
        before = moved(&seen);
        here.kill_daemon();
        here.serve(&[]);
        let seen = wait_for(&here, &id, |job| {
            job["attempts"].as_u64() > Some(u64::from(kills))
        });
        assert_eq!(seen["ended"], Value::Null, "{seen}");
    }
    let outcome = here.admin(&["job", "limit", &id, "none"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let list = here.admin(&["job", "list", "--all", "--json"]);
    assert_eq!(list.out.matches(id.as_str()).count(), 1, "{list:?}");
    assert_identical_to_rsync(
        "-aHO",
        &here.export.join("run42"),
        &there.export.join("copy"),
    );
}

#[test]
fn a_site_that_is_away_is_waited_for_and_the_job_says_so() {
    let (here, mut there) = two_sites();
    fill(&here, 2, 1_000);
    there.end_daemon(Signal::TERM);
    let id = submit(
        &here,
        "here:/data/run42",
        "siteB:/data/copy",
        &["--setting", "retry-for=0s"],
    );
    let waiting = wait_for(&here, &id, |job| !job["next_attempt"].is_null());
    assert_eq!(waiting["state"], "queued", "{waiting}");
    let why = waiting["reason"]["text"].as_str().unwrap_or_default();
    assert!(why.contains(there.address()), "{waiting}");
    there.serve(&[]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
}
