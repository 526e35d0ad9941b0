//! Jobs between two exports of one node, with a real state and real transfers: their states, their survival, what is kept of them.
//! Reaches no other node.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::failure::Failure;
use godwit_api::rest::{ChangeJob, JobStateName, JobView, NewJob};
use godwit_engine::session::{Connector, Refusal};
use godwit_jobs::{Jobs, JobsConfig, JobsError};
use godwit_net::{IdentityId, PeerAddress};
use godwit_node::{Export, Exported};
use godwit_run::{
    AgentOrder, Connectors, Env, Home, Process, SshClient, SshWay, StartedAgent, refusal_of,
};
use godwit_state::{
    Actor, Change, Command, JobFilter, Op, Options, ProposeError, Replica, Role, Schedule,
};

const DEADLINE: Duration = Duration::from_secs(60);

/// No way to any other machine.
struct Nowhere;

impl Connectors for Nowhere {
    fn by_ssh(&self, _: SshWay<'_>, _: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        Err(Failure::usage("no ssh here"))
    }

    fn start_agent(&self, _: SshWay<'_>, _: &AgentOrder) -> Result<StartedAgent, Refusal> {
        Err(refusal_of(Failure::usage("no ssh here")))
    }

    fn trusts(&self, _: &PeerAddress, _: &IdentityId) -> Result<bool, Failure> {
        Ok(false)
    }
}

/// A node's directories: a home, and the exports `from` and `to`.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().expect("a directory"));
        for name in ["from", "to"] {
            fs::create_dir(world.path(name)).expect("made");
        }
        Home::at(world.path("home")).make().expect("made");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    /// Starts the node's jobs on the state that is there.
    fn start(&self, jobs_max: usize) -> Jobs {
        let home = Home::at(self.path("home"));
        let export = |name: &str| Export {
            name: name.to_owned(),
            path: self.path(name),
            set_id: false,
            owner: false,
            security_xattrs: false,
            devices: false,
        };
        let exports = vec![export("from"), export("to")];
        let spill = home.spill().expect("made");
        let process = Process::default();
        let exported = Arc::new(Exported::new(exports, spill, process.syncs.clone()));
        let make_env = move |_: &[godwit_state::Site]| Env {
            process: process.clone(),
            home: home.clone(),
            base: None,
            exports: Some(exported.clone()),
            umask: 0o077,
            started: Instant::now(),
            alone: false,
            retries_first: true,
            connectors: Arc::new(Nowhere),
            input: None,
            output: None,
            list: None,
            kept_out: Vec::new(),
            tells: None,
        };
        let config = JobsConfig {
            node: "node1".to_owned(),
            directory: self.path("home/jobs"),
            exports: vec!["from".to_owned(), "to".to_owned()],
            file_grants: Arc::new(|| Ok(Vec::new())),
            keep_history: Duration::from_hours(24),
            jobs_max,
            make_env: Arc::new(make_env),
            log: Arc::new(|_| {}),
        };
        Jobs::start(config, Arc::new(self.replica())).expect("started")
    }

    /// The state; the threads of one that was dropped a moment ago may still hold it.
    fn replica(&self) -> Replica {
        let until = Instant::now() + DEADLINE;
        loop {
            match Replica::open(Options::new(self.path("home/state"))) {
                Ok(replica) => return replica,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn alice() -> Actor {
    Actor::node("alice")
}

fn new(source: &str, destination: &str) -> NewJob {
    serde_json::from_value(serde_json::json!({
        "sources": [source], "destination": destination
    }))
    .expect("a job")
}

fn submit(jobs: &Jobs, new: &NewJob) -> String {
    let (job, created) = jobs.submit(alice(), "alice", new, None).expect("submitted");
    assert!(created);
    job.id
}

#[track_caller]
fn wait_for(jobs: &Jobs, id: &str, is_it: impl Fn(&JobView) -> bool) -> JobView {
    let until = Instant::now() + DEADLINE;
    loop {
        let job = jobs.job(id).expect("the job");
        if is_it(&job) {
            return job;
        }
        assert!(Instant::now() < until, "it does not come: {job:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

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
    assert_eq!(job.state, JobStateName::Complete, "{job:?}");
    assert_same(&world.path("from/run42/d/b"), &world.path("to/copy/d/b"));
    assert_eq!(job.summary.expect("a summary")["files"], 2);
    let attempts = jobs.attempts(&id).expect("attempts");
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].bytes, 3_000_005);
    let log = jobs.log(&id, 0, 100).expect("a log");
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
    let report = jobs.report(&id).expect("a report");
    assert_eq!(report.bytes_moved, 3_000_005);
    assert!(
        report
            .time_line
            .iter()
            .any(|line| line.event["event"] == "summary")
    );
    let page = jobs.report_html(&id).expect("a page");
    assert!(
        page.contains("here:/from/run42") && !page.contains("http"),
        "{page}"
    );
    jobs.stop();
    drop(jobs);
    // What was done is known after a restart, and not done again.
    let jobs = world.start(2);
    assert_eq!(
        jobs.job(&id).expect("the job").state,
        JobStateName::Complete
    );
    let page = jobs.list(&JobFilter::default(), None, 10).expect("a list");
    assert_eq!(page.jobs.len(), 1);
    jobs.stop();
}

#[test]
fn jobs_that_ran_when_the_node_stopped_go_on_by_themselves() {
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
    assert_eq!(job.state, JobStateName::Complete, "{job:?}");
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
fn a_paused_job_frees_its_place_and_goes_on_where_it_was() {
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
    // There is one place, so the other one waits, and says why.
    let other = submit(&jobs, &new("here:/from/small", "here:/to/small"));
    let waiting = wait_for(&jobs, &other, |job| {
        job.reason
            .as_ref()
            .is_some_and(|reason| reason.code == "jobs_of_node")
    });
    assert_eq!(waiting.state, JobStateName::Queued);
    let paused = jobs.pause(alice(), &id).expect("paused");
    assert_eq!(paused.state, JobStateName::Paused);
    assert_eq!(ends(&jobs, &other).state, JobStateName::Complete);
    assert!(!world.path("to/large").exists());
    let wish = ChangeJob {
        limit: Some(0),
        ..ChangeJob::default()
    };
    jobs.change(alice(), &id, &wish).expect("changed");
    jobs.resume(alice(), &id).expect("resumed");
    assert_eq!(ends(&jobs, &id).state, JobStateName::Complete);
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
    assert_eq!(job.state, JobStateName::Cancelled);
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
    assert_eq!(ends(&jobs, &id).state, JobStateName::Complete);
    jobs.stop();
}

#[test]
fn what_cannot_be_read_is_told_by_reason_and_the_rest_arrives() {
    let world = World::new();
    world.write("from/set/good", b"good");
    // A name that leads out of the export is never followed.
    std::os::unix::fs::symlink("/etc", world.path("from/out")).expect("a link");
    let jobs = world.start(2);
    let missing = submit(&jobs, &new("here:/from/nothing", "here:/to/x"));
    let escape = submit(&jobs, &new("here:/from/out/passwd", "here:/to/y"));
    for id in [&missing, &escape] {
        let job = ends(&jobs, id);
        assert_eq!(job.state, JobStateName::Failed, "{job:?}");
        assert_eq!(job.attempts, 1, "{job:?}");
        assert_eq!(job.reason.expect("a reason").code, "no_source");
    }
    assert!(!world.path("to/x").exists());
    assert!(!world.path("to/y").exists());
    let two: NewJob = serde_json::from_value(serde_json::json!({
        "sources": ["here:/from/set", "here:/from/nothing"], "destination": "here:/to/two/"
    }))
    .expect("a job");
    let id = submit(&jobs, &two);
    let job = ends(&jobs, &id);
    assert_eq!(job.state, JobStateName::Partial, "{job:?}");
    assert_same(&world.path("from/set/good"), &world.path("to/two/set/good"));
    let failures = jobs.failures(&id).expect("failures");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].count, 1);
    jobs.stop();
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
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
    jobs.check_schedule(
        "* * * * * *",
        "Europe/Berlin",
        &template,
        "alice",
        Role::Admin,
    )
    .expect("it makes sense");
    let schedule = Schedule {
        id: "nightly".to_owned(),
        cron: "* * * * * *".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        owner: "alice".to_owned(),
        template: serde_json::to_string(&template).expect("JSON"),
        disabled: false,
        fired: None,
        comment: String::new(),
    };
    let put = Op::Schedule(Change::Put(schedule));
    jobs.replica()
        .propose_blocking(Command::new(godwit_jobs::now(), alice(), put))
        .expect("put");
    let until = Instant::now() + DEADLINE;
    loop {
        let page = jobs.list(&JobFilter::default(), None, 10).expect("a list");
        if page
            .jobs
            .iter()
            .any(|job| job.state == JobStateName::Complete)
        {
            break;
        }
        assert!(Instant::now() < until, "{page:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_same(&world.path("from/a"), &world.path("to/a"));
    jobs.stop();
}
