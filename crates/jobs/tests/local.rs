//! Jobs between two exports of one node, with a real state and real transfers: their states, their survival, and their records.
//! Reaches no other node.

#[path = "local/believed.rs"]
mod believed;
#[path = "local/clock.rs"]
mod clock;
#[path = "local/denied.rs"]
mod denied;
#[path = "local/faithless.rs"]
mod faithless;
#[path = "local/fickle.rs"]
mod fickle;
#[path = "local/listed.rs"]
mod listed;
#[path = "local/lone.rs"]
mod lone;
#[path = "local/mates.rs"]
mod mates;
#[path = "local/own_job.rs"]
mod own_job;
#[path = "local/probed.rs"]
mod probed;
#[path = "local/records.rs"]
mod records;
#[path = "local/settings.rs"]
mod settings;
#[path = "local/silent.rs"]
mod silent;
#[path = "local/verification.rs"]
mod verification;
#[path = "local/world.rs"]
mod world;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_api::rest::{ChangeJob, JobState, JobView, NewJob, SampleView};
use godwit_jobs::{Clock, Jobs, JobsError};
use godwit_state::{Change, Command, FEATURE_LEVEL, JobFilter, Op, ProposeError, Role, Schedule};
use world::{DEADLINE, World, alice, new, submit, wait_for};

#[track_caller]
fn ends(jobs: &Jobs, id: &str) -> JobView {
    wait_for(jobs, id, |job| job.ended.is_some())
}

fn assert_same(a: &Path, b: &Path) {
    assert!(
        fs::read(a).expect("there") == fs::read(b).expect("there"),
        "{b:?}"
    );
}

#[test]
fn a_job_runs_to_its_end_and_is_remembered() {
    let world = World::new();
    world.write("from/run42/a", b"alpha");
    world.write("from/run42/d/b", &vec![7; 3_000_000]);
    let jobs = world.start(2);
    let id = submit(&jobs, &new("here:/from/run42", "here:/to/copy"));
    let job = ends(&jobs, &id);
    assert_eq!(job.state, JobState::Complete, "{job:?}");
    assert_same(&world.path("from/run42/d/b"), &world.path("to/copy/d/b"));
    assert_eq!(job.summary.expect("a summary")["files"], 2);
    let attempts = jobs.records().attempts(&id).expect("attempts");
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].bytes, 3_000_005);
    let log = jobs.records().log(&id, 0, 100).expect("a log");
    assert!(
        log.lines
            .iter()
            .any(|line| line.event["event"] == "started")
    );
    assert!(
        log.lines
            .iter()
            .any(|line| line.event["event"] == "summary")
    );
    let report = jobs.records().report(&id).expect("a report");
    assert_eq!(report.bytes_moved, 3_000_005);
    assert!(
        report
            .time_line
            .iter()
            .any(|line| line.event["event"] == "summary")
    );
    let page = godwit_jobs::report_page(&jobs.records().report(&id).expect("a report"));
    assert!(
        page.contains("here:/from/run42") && !page.contains("http"),
        "{page}"
    );
    // The page says of which host no energy is known, and how to allow it.
    let mut unread = report;
    let figures = [(godwit_api::energy::UNREAD_FIGURE.to_owned(), 1.0)];
    unread.samples = vec![SampleView {
        host: figures.into(),
        ..SampleView::default()
    }];
    let page = godwit_jobs::report_page(&unread);
    for words in [
        "because the node there may not read the counters",
        godwit_api::energy::REMEDY,
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    jobs.stop();
    drop(jobs);
    // A finished job is known after a restart, and not run again.
    let jobs = world.start(2);
    assert_eq!(jobs.job(&id).expect("the job").state, JobState::Complete);
    let page = jobs.list(&JobFilter::default(), None, 10).expect("a list");
    assert_eq!(page.jobs.len(), 1);
    jobs.stop();
}

#[test]
fn an_attempt_that_panics_ends_its_job_and_no_other() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let panics = Arc::new(AtomicBool::new(true));
    let jobs = world.start_with(Clock::default(), 1, &panics);
    let id = submit(&jobs, &new("here:/from/a", "here:/to/a"));
    let job = ends(&jobs, &id);
    assert_eq!(job.state, JobState::Failed, "{job:?}");
    let reason = job.reason.expect("a reason");
    assert_eq!(reason.code, FailureCode::Internal, "{reason:?}");
    assert!(job.progress.is_none(), "it still runs: {:?}", job.progress);
    // Its place is free: the next job gets the place, and so does the same job.
    panics.store(false, Ordering::Relaxed);
    let next = submit(&jobs, &new("here:/from/a", "here:/to/b"));
    assert_eq!(ends(&jobs, &next).state, JobState::Complete);
    jobs.retry(alice(), &id).expect("run again");
    assert_eq!(ends(&jobs, &id).state, JobState::Complete);
    assert_same(&world.path("from/a"), &world.path("to/a"));
    jobs.stop();
}

#[test]
fn jobs_that_ran_when_the_node_stopped_continue_by_themselves() {
    let world = World::new();
    for n in 0..4 {
        world.write(&format!("from/set/{n}"), &vec![n; 1_000_000]);
    }
    let jobs = world.start(2);
    let mut slow = new("here:/from/set", "here:/to/set");
    slow.limit = Some(1_000_000);
    let id = submit(&jobs, &slow);
    wait_for(&jobs, &id, |job| {
        job.progress
            .as_ref()
            .is_some_and(|progress| progress.bytes > 0)
    });
    jobs.stop();
    drop(jobs);
    let jobs = world.start(2);
    let wish = ChangeJob {
        limit: Some(0),
        ..ChangeJob::default()
    };
    jobs.change(alice(), &id, &wish).expect("changed");
    let job = ends(&jobs, &id);
    assert_eq!(job.state, JobState::Complete, "{job:?}");
    assert_eq!(job.attempts, 2, "{job:?}");
    for n in 0..4 {
        assert_same(
            &world.path(&format!("from/set/{n}")),
            &world.path(&format!("to/set/{n}")),
        );
    }
    jobs.stop();
}

#[test]
fn a_paused_job_frees_its_place_and_continues_where_it_was() {
    let world = World::new();
    world.write("from/large", &vec![1; 4_000_000]);
    world.write("from/small", b"small");
    let jobs = world.start(1);
    let mut slow = new("here:/from/large", "here:/to/large");
    slow.limit = Some(500_000);
    let id = submit(&jobs, &slow);
    wait_for(&jobs, &id, |job| {
        job.progress
            .as_ref()
            .is_some_and(|progress| progress.bytes > 0)
    });
    // Only one job can run, so the other job waits, with a reason.
    let other = submit(&jobs, &new("here:/from/small", "here:/to/small"));
    let waiting = wait_for(&jobs, &other, |job| {
        job.reason
            .as_ref()
            .is_some_and(|reason| reason.code == FailureCode::JobsOfNode)
    });
    assert_eq!(waiting.state, JobState::Queued);
    let paused = jobs.pause(alice(), &id).expect("paused");
    assert_eq!(paused.state, JobState::Paused);
    assert_eq!(ends(&jobs, &other).state, JobState::Complete);
    assert!(!world.path("to/large").exists());
    let wish = ChangeJob {
        limit: Some(0),
        ..ChangeJob::default()
    };
    jobs.change(alice(), &id, &wish).expect("changed");
    jobs.resume(alice(), &id).expect("resumed");
    assert_eq!(ends(&jobs, &id).state, JobState::Complete);
    assert_same(&world.path("from/large"), &world.path("to/large"));
    jobs.stop();
}

#[test]
fn a_cancelled_job_stops_and_can_be_run_again() {
    let world = World::new();
    world.write("from/large", &vec![1; 4_000_000]);
    let jobs = world.start(1);
    let mut slow = new("here:/from/large", "here:/to/large");
    slow.limit = Some(500_000);
    let id = submit(&jobs, &slow);
    wait_for(&jobs, &id, |job| job.progress.is_some());
    let words = Some("not needed".to_owned());
    let job = jobs.cancel(alice(), &id, words).expect("cancelled");
    assert_eq!(job.state, JobState::Cancelled);
    assert!(job.reason.expect("a reason").text.contains("not needed"));
    wait_for(&jobs, &id, |job| job.progress.is_none());
    jobs.retry(alice(), &id).expect("retried");
    // The limit of the job holds for the next attempt, too; without it the job ends soon.
    let error = jobs
        .change(alice(), "nojob", &ChangeJob::default())
        .expect_err("no such job");
    assert!(matches!(error, JobsError::NoJob(_)), "{error}");
    let wish = ChangeJob {
        limit: Some(0),
        ..ChangeJob::default()
    };
    jobs.change(alice(), &id, &wish).expect("changed");
    assert_eq!(ends(&jobs, &id).state, JobState::Complete);
    jobs.stop();
}

#[test]
fn unreadable_sources_fail_with_their_reason_and_the_rest_arrives() {
    let world = World::new();
    world.write("from/set/good", b"good");
    // A name that leads out of the export is never followed.
    std::os::unix::fs::symlink("/etc", world.path("from/out")).expect("a link");
    let jobs = world.start(2);
    let missing = submit(&jobs, &new("here:/from/nothing", "here:/to/x"));
    let escape = submit(&jobs, &new("here:/from/out/passwd", "here:/to/y"));
    for id in [&missing, &escape] {
        let job = ends(&jobs, id);
        assert_eq!(job.state, JobState::Failed, "{job:?}");
        assert_eq!(job.attempts, 1, "{job:?}");
        assert_eq!(job.reason.expect("a reason").code, FailureCode::NoSource);
    }
    assert!(!world.path("to/x").exists());
    assert!(!world.path("to/y").exists());
    let two: NewJob = serde_json::from_value(serde_json::json!({
        "sources": ["here:/from/set", "here:/from/nothing"], "destination": "here:/to/two/"
    }))
    .expect("a job");
    let id = submit(&jobs, &two);
    let job = ends(&jobs, &id);
    assert_eq!(job.state, JobState::Partial, "{job:?}");
    assert_same(&world.path("from/set/good"), &world.path("to/two/set/good"));
    let failures = jobs.records().failures(&id).expect("failures");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].count, 1);
    jobs.stop();
}

#[test]
fn an_invalid_submission_is_refused_with_advice() {
    let world = World::new();
    let jobs = world.start(1);
    for (source, destination, says) in [
        ("from/x", "here:/to/x", "SITE:/EXPORT/PATH"),
        ("here:/none/x", "here:/to/x", "it has: from, to"),
        ("here:/from/x", "siteB:/to/x", "godwit site add siteB"),
        ("here:/from/../x", "here:/to/x", "would lead out"),
    ] {
        let error = jobs
            .submit(alice(), "alice", &new(source, destination), None)
            .expect_err("refused");
        assert!(error.to_string().contains(says), "{error}");
    }
    let mut odd = new("here:/from/x", "here:/to/x");
    odd.settings = serde_json::from_str(r#"{"nonsense": ["1"]}"#).expect("settings");
    assert!(jobs.submit(alice(), "alice", &odd, None).is_err());
    jobs.stop();
}

#[test]
fn the_same_key_submits_once() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let jobs = world.start(1);
    let job = new("here:/from/a", "here:/to/a");
    let key = || Some("night-42".to_owned());
    let (first, created) = jobs.submit(alice(), "alice", &job, key()).expect("new");
    assert!(created);
    let (again, created) = jobs.submit(alice(), "alice", &job, key()).expect("known");
    assert!(!created);
    assert_eq!(first.id, again.id);
    let other = new("here:/from/a", "here:/to/b");
    let error = jobs
        .submit(alice(), "alice", &other, key())
        .expect_err("another job under the same key");
    assert!(
        matches!(&error, JobsError::Propose(ProposeError::Refused(_))),
        "{error}"
    );
    jobs.stop();
}

#[test]
fn a_schedule_submits_its_job_by_itself() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let jobs = world.start(1);
    let template = new("here:/from/a", "here:/to/a");
    jobs.schedules()
        .check(
            "* * * * * *",
            "Europe/Berlin",
            &template,
            "alice",
            Role::Admin,
        )
        .expect("it makes sense");
    propose(&jobs, Op::Schedule(Change::Put(each_second(&template))));
    complete_by_schedule(&jobs, |_| true);
    assert_same(&world.path("from/a"), &world.path("to/a"));
    jobs.stop();
}

#[test]
fn a_schedule_submits_a_job_with_several_destinations() {
    let world = World::new();
    world.write("from/a", b"alpha");
    let jobs = world.start(2);
    propose(&jobs, Op::Level(FEATURE_LEVEL));
    let template = NewJob {
        more_destinations: vec!["here:/to/two".to_owned()],
        ..new("here:/from/a", "here:/to/one")
    };
    let check = |template: &NewJob| {
        jobs.schedules()
            .check("* * * * * *", "UTC", template, "alice", Role::Admin)
    };
    check(&template).expect("it makes sense");
    let twice = NewJob {
        more_destinations: vec!["here:/to/one".to_owned()],
        ..template.clone()
    };
    check(&twice).expect_err("one place");
    propose(&jobs, Op::Schedule(Change::Put(each_second(&template))));
    let parent = complete_by_schedule(&jobs, |job| job.destinations.is_some());
    assert_eq!(parent.destinations.map(|count| count.total), Some(2));
    for name in ["to/one", "to/two"] {
        assert_same(&world.path("from/a"), &world.path(name));
    }
    jobs.stop();
}

fn propose(jobs: &Jobs, op: Op) {
    jobs.replica()
        .propose_blocking(Command::new(godwit_jobs::now(), alice(), op))
        .expect("applied");
}

/// A schedule that submits this job each second.
fn each_second(template: &NewJob) -> Schedule {
    Schedule {
        id: "nightly".to_owned(),
        cron: "* * * * * *".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        owner: "alice".to_owned(),
        role: None,
        template: serde_json::to_string(template).expect("JSON"),
        disabled: false,
        fired: None,
        reason: None,
        comment: String::new(),
    }
}

/// Waits until such a job is complete.
#[track_caller]
fn complete_by_schedule(jobs: &Jobs, is_meant: impl Fn(&JobView) -> bool) -> JobView {
    let until = Instant::now() + DEADLINE;
    loop {
        let page = jobs.list(&JobFilter::default(), None, 100).expect("a list");
        let mut complete = page.jobs.iter();
        if let Some(job) = complete.find(|job| job.state == JobState::Complete && is_meant(job)) {
            return job.clone();
        }
        assert!(Instant::now() < until, "{page:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
