//! A job that is not divided, whose node is killed in the middle: another node finishes it as one run would have, and leaves nothing behind.
//! Leaves divided jobs to `divided`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::judge::{
    assert_identical_to_rsync, assert_no_temporaries, files_below, is_temporary,
};
use super::super::sites::{submit, wait_for};
use super::{DEADLINE, Site, archive, runner};

/// Eight files in two directories, the last larger than what moves in a moment.
fn fill(directory: &Path) {
    for n in 0..8_u8 {
        let below = directory.join(format!("d{}", n % 2));
        fs::create_dir_all(&below).expect("made");
        let bytes = if n == 7 { 6_000_000 } else { 400_000 };
        fs::write(below.join(format!("f{n}")), vec![n; bytes]).expect("written");
    }
}

#[track_caller]
fn wait_for_temporary(below: &Path) {
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
    // Not there before, so that the source becomes it; there before, so that the source goes into it.
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
