//! A node is killed at seeded moments while its jobs run: none is lost or doubled, each arrives whole, and its attempts are counted.
//! Kills no peer and no client.
//!
//! `GODWIT_KILLS=100` kills more often than the usual run.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::data::{Seeded, first_seed, write_file};
use super::judge::assert_identical_to_rsync;
use super::rig::Rig;
use super::sites::two_sites;

/// Time for jobs to end on a busy machine.
const DEADLINE: Duration = Duration::from_secs(180);

/// Kills while one set of jobs runs.
const KILLS_OF_A_ROUND: u64 = 5;

/// The longest life between two kills: all jobs are running then, and none has ended.
const LIFE_MS: u64 = 700;

/// Content of each job: two seconds at the limit.
const BYTES: u64 = 8 << 20;
const LIMIT: &str = "4MiB/s";

/// A job, and where it copies from and to.
struct Submitted {
    id: String,
    source: PathBuf,
    destination: PathBuf,
}

/// One large file and some small ones.
fn fill(directory: &std::path::Path, seeded: &mut Seeded) {
    fs::create_dir_all(directory.join("d")).expect("made");
    write_file(&directory.join("large"), BYTES * 3 / 4, seeded);
    for number in 0..32 {
        let name = directory.join(format!("d/{number}"));
        write_file(&name, BYTES / 128, seeded);
    }
}

/// Submits a job of each kind: within the node, to the other site, and from there.
fn submit(here: &Rig, there: &Rig, round: u64, seeded: &mut Seeded) -> Vec<Submitted> {
    let ways = [
        ("local", here, here),
        ("push", here, there),
        ("pull", there, here),
    ];
    ways.map(|(name, from, to)| {
        let (source, destination) = (format!("{name}-{round}"), format!("{name}-{round}-copy"));
        fill(&from.export.join(&source), seeded);
        let place = |rig: &Rig, path: &str| {
            let is_here = std::ptr::eq(rig, here);
            format!("{}:/data/{path}", if is_here { "here" } else { "siteB" })
        };
        let (from_place, to_place) = (place(from, &source), place(to, &destination));
        let line = ["job", "submit", &from_place, &to_place, "--limit", LIMIT];
        let outcome = here.admin(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        Submitted {
            id: outcome.out.trim().to_owned(),
            source: from.export.join(source),
            destination: to.export.join(destination),
        }
    })
    .into()
}

fn documents(rig: &Rig, line: &[&str]) -> Vec<Value> {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let parse = |line| serde_json::from_str(line).expect("a document");
    outcome.out.lines().map(parse).collect()
}

/// Waits until all jobs have ended; they must be complete.
fn wait_for_all(rig: &Rig, jobs: &[Submitted]) {
    let until = Instant::now() + DEADLINE;
    for job in jobs {
        loop {
            let shown = documents(rig, &["job", "show", &job.id, "--json"]);
            if !shown[0]["ended"].is_null() {
                assert_eq!(shown[0]["state"], "complete", "{shown:?}");
                break;
            }
            assert!(Instant::now() < until, "it does not end: {shown:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Checks that attempts are numbered from 1. All but the last ended by a restart, or waited for the locks of a killed one. Returns how
/// many ended by a restart.
fn restarts(rig: &Rig, job: &Submitted) -> u64 {
    let report = documents(rig, &["job", "report", &job.id, "--json"]);
    let attempts = report[0]["attempts"].as_array().expect("attempts");
    assert_eq!(report[0]["job"]["attempts"], attempts.len(), "{report:?}");
    let (last, earlier) = attempts.split_last().expect("one at least");
    assert_eq!(last["outcome"], "complete", "{last}");
    for (number, attempt) in (1..).zip(attempts) {
        assert_eq!(attempt["number"], number, "{attempts:?}");
        assert!(!attempt["ended"].is_null(), "{attempt}");
    }
    let ended_by = |what: &str| earlier.iter().filter(|one| one["outcome"] == what).count();
    let (restarted, retried) = (ended_by("restart"), ended_by("backoff"));
    assert_eq!(restarted + retried, earlier.len(), "{attempts:?}");
    restarted as u64
}

#[test]
fn jobs_of_a_node_that_is_killed_again_and_again_all_arrive_once() {
    let kills_max = std::env::var("GODWIT_KILLS")
        .map_or(KILLS_OF_A_ROUND, |kills| kills.parse().expect("a number"));
    let seed = first_seed(2_511);
    let mut seeded = Seeded(seed);
    let (mut here, there) = two_sites();
    let (mut kills, mut restarted, mut round) = (0, 0, 0);
    let mut ids = BTreeSet::new();
    while kills < kills_max {
        let jobs = submit(&here, &there, round, &mut seeded);
        let now = KILLS_OF_A_ROUND.min(kills_max - kills);
        for _ in 0..now {
            std::thread::sleep(Duration::from_millis(seeded.below(LIFE_MS)));
            here.kill_daemon();
            here.serve(&[]);
        }
        kills += now;
        wait_for_all(&here, &jobs);
        for job in &jobs {
            let restarts = restarts(&here, job);
            assert!(restarts <= now, "{restarts} of {now} kills");
            restarted += restarts;
            assert_identical_to_rsync("-aHO", &job.source, &job.destination);
            assert!(ids.insert(job.id.clone()), "{} came twice", job.id);
            for tree in [&job.source, &job.destination] {
                fs::remove_dir_all(tree).expect("ours");
            }
        }
        round += 1;
    }
    let listed = documents(&here, &["job", "list", "--all", "--json"]);
    let listed: Vec<&str> = listed.iter().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(listed.len(), ids.len(), "{listed:?}");
    assert!(listed.iter().all(|id| ids.contains(*id)), "{listed:?}");
    assert!(restarted > 0, "no kill met a job that ran");
    eprintln!(
        "{kills} kills from seed {seed}: {} jobs complete, none lost or doubled, {restarted} attempts ended by a kill",
        ids.len()
    );
}
