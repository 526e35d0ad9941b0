//! Amounts of jobs whose attempts are paused, or whose nodes are killed: they are those of the whole job, as rsync counts them.
//! See `totals` for the attempts of a lone node.

use std::fs;

use serde_json::Value;

use super::super::process::wait_until;
use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::super::totals::{accounted, counted, figures, json};
use super::sites::know;
use super::{Site, archive, runner};

const FILES: u64 = 160;
const FILE_BYTES: u64 = 500_000;
const LIMIT: f64 = 5e6;

fn fill(site: &Site) {
    let set = site.nodes[0].export.join("set");
    for n in 0..FILES {
        let directory = set.join(format!("d{}", n % 16));
        fs::create_dir_all(&directory).expect("made");
        let content: Vec<u8> = (0..FILE_BYTES / 4)
            .flat_map(|at| u32::try_from(at ^ n).expect("small").to_le_bytes())
            .collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
}

/// Waits until this amount of the job is done.
fn done(rig: &Rig, id: &str, least: u64) -> Value {
    wait_for(rig, id, |job| {
        assert!(job["ended"].is_null(), "too early: {job}");
        job["progress"]["bytes"].as_u64().unwrap_or(0) >= least
    })
}

/// The job, its summary, its report and the sum of its attempts have the amounts of the whole data set.
#[track_caller]
fn assert_whole(rig: &Rig, id: &str, copy: &std::path::Path) {
    let job = wait_for(rig, id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    let all = counted(copy);
    assert_eq!(all, (FILES * FILE_BYTES, FILES));
    let report = json(rig, &["job", "report", id, "--json"]);
    let attempts = report["attempts"].as_array().expect("attempts");
    let sum = attempts.iter().map(figures);
    let sum = sum.fold((0, 0), |(bytes, files), one| (bytes + one.0, files + one.1));
    assert_eq!(figures(&job["summary"]), all, "{job:#}\n{attempts:#?}");
    assert_eq!(job["summary"]["skipped"], 0, "{job:#}");
    assert_eq!(figures(&job["moved"]), all, "{job:#}\n{attempts:#?}");
    assert_eq!(sum, all, "{attempts:#?}");
    assert_eq!(report["bytes_moved"], all.0, "{report:#}");
    // Files that an attempt finds complete are no rate of it. Each transfer begins with a burst.
    let samples = report["samples"].as_array().expect("samples");
    let rates = samples.iter().map(|one| one["bytes_per_second"].as_f64());
    let rates: Vec<f64> = rates.map(|rate| rate.expect("a rate")).collect();
    assert!(rates.iter().any(|rate| *rate > 0.0), "{rates:?}");
    assert!(rates.iter().all(|rate| *rate < 2.0 * LIMIT), "{rates:?}");
}

/// The accounts of all nodes of the site together have the amounts of the whole data set.
#[track_caller]
fn assert_accounted(site: &Site, id: &str) {
    let sum = || {
        let all = site.nodes.iter().map(|node| accounted(node, id));
        all.fold((0, 0), |(bytes, files), one| (bytes + one.0, files + one.1))
    };
    let all = (FILES * FILE_BYTES, FILES);
    // The record follows the end of the job.
    let seen = wait_until(|| (sum() == all).then_some(()));
    assert!(seen.is_some(), "{:?}, not {all:?}", sum());
}

#[test]
fn a_divided_job_counts_what_paused_attempts_and_killed_nodes_delivered() {
    let (mut from, to) = (Site::of(3), Site::of(2));
    know(&from, &to);
    fill(&from);
    let line = ["--divide", "always", "--limit", "5MB"];
    let id = submit(&from.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let third = FILES * FILE_BYTES / 5;
    done(&from.nodes[0], &id, third);
    let outcome = from.nodes[0].admin(&["job", "pause", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = from.nodes[0].admin(&["job", "resume", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let job = done(&from.nodes[0], &id, 2 * third);
    let controller = from.place_of(runner(&job).expect("a runner"));
    let worker = (controller + 1) % 3;
    from.nodes[worker].kill_daemon();
    let left = (controller + 2) % 3;
    done(&from.nodes[left], &id, 3 * third);
    from.nodes[worker].serve(&[]);
    from.nodes[controller].kill_daemon();
    wait_for(&from.nodes[left], &id, |job| {
        runner(job).is_some_and(|node| from.place_of(node) != controller)
    });
    from.nodes[controller].serve(&[]);
    assert_whole(&from.nodes[left], &id, &to.nodes[0].export.join("copy"));
    assert_accounted(&from, &id);
}

#[test]
fn an_undivided_job_counts_what_a_killed_node_delivered() {
    let mut site = Site::of(3);
    let there = archive(&site);
    fill(&site);
    let line = ["--divide", "never", "--limit", "5MB"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let job = done(&site.nodes[0], &id, FILES * FILE_BYTES / 3);
    let first = site.place_of(runner(&job).expect("a runner"));
    site.nodes[first].kill_daemon();
    let other = (first + 1) % 3;
    assert_whole(&site.nodes[other], &id, &there.export.join("copy"));
    site.nodes[first].serve(&[]);
    assert_accounted(&site, &id);
}
