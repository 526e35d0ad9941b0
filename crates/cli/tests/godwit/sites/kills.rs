//! Kills of nodes while another site sends a job here, and while one end of a job is another site: no job runs twice, nothing
//! remains.
//! See `third` for jobs of which neither end is at the node that is asked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use godwit_api::ask::{Question, SteerJob, SteerVerb};

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries, files_below};
use super::super::trust::ask;
use super::third::{Three, only_job, rules};
use super::{fill, moved, submit, two_sites, wait_for};

/// The other site sends the data of a divided pull. The node that asked for it is killed again and again, and is started at
/// once.
#[test]
fn a_divided_pull_whose_node_is_killed_continues_where_it_runs() {
    let (mut here, there) = two_sites();
    fill(&there, 30, 300_000);
    std::fs::create_dir(here.export.join("e")).expect("made");
    let line = ["--divide", "always", "--limit", "700KB/s"];
    let id = submit(&here, "siteB:/data/run42", "here:/data/e/", &line);
    wait_for(&here, &id, |job| moved(job) > 0);
    for _ in 0..6 {
        here.kill_daemon();
        here.serve(&[]);
        std::thread::sleep(Duration::from_millis(700));
    }
    here.admin(&["job", "limit", &id, "none"]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    let log = here.admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert!(!log.contains("not divided"), "{log}");
    assert_eq!(only_job(&there)["state"], "complete");
    assert_eq!(rules(&here), 0);
    let (from, to) = (there.export.join("run42"), here.export.join("e/run42"));
    assert_identical_to_rsync("-aHO", &from, &to);
    // A later change by a user stays: no attempt continues at either site.
    let files: Vec<PathBuf> = files_below(&to).iter().map(|file| to.join(file)).collect();
    assert_eq!(files.len(), 30);
    for file in &files {
        std::fs::write(file, "edited").expect("written");
    }
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        for file in &files {
            assert_eq!(std::fs::read(file).expect("read"), b"edited", "{file:?}");
        }
        assert_eq!(files_below(&here.export.join("e")).len(), 30);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_no_temporaries(&here.export);
}

/// A job has rights at its destination alone, and that is not there yet.
#[test]
fn a_divided_job_makes_a_name_that_is_not_there() {
    let three = Three::new();
    fill(&three.source, 6, 50_000);
    let id = three.submit(&["--divide", "always"]);
    three.complete(&id);
    let there = only_job(&three.source)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let log = three.source.admin(&["job", "log", &there]).out;
    assert!(log.contains("divided: "), "{log}");
    let (here, there) = two_sites();
    fill(&there, 6, 50_000);
    let id = submit(
        &here,
        "siteB:/data/run42",
        "here:/data/new",
        &["--divide", "always"],
    );
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let (from, to) = (there.export.join("run42"), here.export.join("new"));
    assert_identical_to_rsync("-aHO", &from, &to);
    let log = there
        .admin(&[
            "job",
            "log",
            only_job(&there)["id"].as_str().expect("an id"),
        ])
        .out;
    assert!(log.contains("divided: "), "{log}");
    for rig in [&three.destination, &here] {
        assert_no_temporaries(&rig.export);
        assert_eq!(rules(rig), 0);
    }
}

/// The stopped attempt has already made the destination. The next attempt is not affected.
#[test]
fn a_divided_job_that_runs_again_has_the_same_destination() {
    let (here, there) = two_sites();
    fill(&here, 30, 100_000);
    let line = ["--divide", "always", "--limit", "1MB/s"];
    let id = submit(&here, "here:/data/run42", "siteB:/data/new", &line);
    let copy = there.export.join("new");
    wait_for(&here, &id, |job| moved(job) > 0 && copy.exists());
    for line in [
        ["job", "cancel", &id].as_slice(),
        &["job", "retry", &id],
        &["job", "limit", &id, "none"],
    ] {
        let outcome = here.admin(line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    assert_identical_to_rsync("-aHO", &here.export.join("run42"), &copy);
    assert_no_temporaries(&there.export);
}

/// A question that stops the job may still be on the network while a later attempt starts the job.
#[test]
fn a_word_that_comes_late_does_not_hold_up_the_next_attempt() {
    let three = Three::new();
    fill(&three.source, 30, 100_000);
    let id = three.submit(&["--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    for verb in [SteerVerb::Pause, SteerVerb::Cancel] {
        let late = Question::Steer(SteerJob {
            job: id.clone(),
            verb: Some(verb),
            ..SteerJob::default()
        });
        ask(&three.asked, &three.source, None, &late).expect("stopped");
        let state = only_job(&three.source)["state"].clone();
        assert!(state == "paused" || state == "cancelled", "{state}");
        let until = Instant::now() + super::DEADLINE;
        while ["paused", "cancelled"]
            .contains(&only_job(&three.source)["state"].as_str().expect("a state"))
        {
            assert!(
                Instant::now() < until,
                "it stands still: {}",
                three.log(&id)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    three.asked.admin(&["job", "limit", &id, "none"]);
    three.complete(&id);
    // The operator of the site stops it for good.
    let id = three.submit(&["--limit", "300KB/s"]);
    three.wait_for(&id, |job| moved(job) > 0);
    let list = three.source.admin(&["job", "list", "--json"]).out;
    let there: serde_json::Value = serde_json::from_str(list.trim()).expect("one job");
    let there = there["id"].as_str().expect("an id");
    let paused = three.source.admin(&["job", "pause", there]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    std::thread::sleep(Duration::from_secs(3));
    let now = three.source.admin(&["job", "show", there, "--json"]).out;
    assert!(now.contains("\"paused\""), "{now}");
    three.asked.admin(&["job", "cancel", &id]);
}

/// A user who has the answer works with the data that has arrived.
#[test]
fn a_job_stands_still_where_it_runs_by_the_answer_to_a_pause_or_cancel() {
    let three = Three::new();
    fill(&three.source, 30, 600_000);
    let id = three.submit(&["--limit", "300KB/s"]);
    let moves = |three: &Three| {
        let there = only_job(&three.source);
        let state = there["state"].as_str().expect("a state").to_owned();
        ["scanning", "running"].contains(&state.as_str())
    };
    for verbs in [["pause", "resume"], ["cancel", "retry"]].repeat(3) {
        three.wait_for(&id, |job| job["state"] == "running" && moves(&three));
        for verb in verbs {
            let outcome = three.asked.admin(&["job", verb, &id]);
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            assert!(verb == verbs[1] || !moves(&three), "{verb}");
        }
    }
    three.asked.admin(&["job", "limit", &id, "none"]);
    three.complete(&id);
}
