//! Tests the work of the leader for all nodes in one pass of the scheduler: it comes after the rights, and ends when the node stops.
//! Runs no job.

mod tests;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_run::local::{Access, DestinationPlace, ExportedFiles, LocalError, LocalSource};
use godwit_run::{Control, Env};
use godwit_state::{
    Actor, Amount, Change, Command, Effect, FEATURE_LEVEL, Finish, Flow, FlowRun, Hop, JobFilter,
    JobOp, JobState, NewJob, Op, Options, Outcome, Reason, Replica, RetryPolicy, Role, Schedule,
    Site, StoredPlace, Timestamp, User,
};
use godwit_worlds::Nowhere;

use super::{JobsConfig, Parts};
use crate::attempt::live::Attempt;
use crate::attempt::{Claim, ClaimFence};
use crate::basis::clock::Clock;
use crate::basis::this_node::{Log, ThisNode};
use crate::queue::nodes::Seen;
use crate::queue::schedule::fire;
use crate::queue::{Queue, flow, scheduler};
use crate::rights::FileGrants;
use crate::rights::access::RightsAtStart;

/// When users, jobs and schedules are made.
const BEFORE: Timestamp = Timestamp(1_800_000_000_000);

/// Two minutes later, when each schedule is due.
const NOW: Timestamp = Timestamp(BEFORE.0 + 120_000);

/// No files: no attempt begins.
struct NoFiles;

impl ExportedFiles for NoFiles {
    fn source(&self, _: &Path, _: Access) -> Result<LocalSource, LocalError> {
        unreachable!("no attempt reads")
    }

    fn destination(&self, _: &Path, _: Access) -> Result<DestinationPlace, LocalError> {
        unreachable!("no attempt writes")
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        None
    }
}

/// The parts of a lone node without threads.
fn parts(directory: &Path, log: Arc<Log>) -> (Parts, Queue) {
    parts_by(directory, log, Arc::new(|| Ok(Vec::new())))
}

/// The same with these grants in its home.
fn parts_by(directory: &Path, log: Arc<Log>, file_grants: Arc<FileGrants>) -> (Parts, Queue) {
    let replica = Replica::open(Options {
        free_bytes_min: 0,
        ..Options::new(directory.join("state"))
    });
    let config = JobsConfig {
        node: "node1".to_owned(),
        directory: directory.join("jobs"),
        exports: Vec::new(),
        file_grants,
        machine_admins: Vec::new(),
        keep_history: Duration::from_hours(24),
        jobs_max: 1,
        waiting_of_owner_max: 10,
        clock: Clock::new(|| NOW),
        sites: Arc::new(Nowhere),
        own: Arc::new(|| None),
        is_member: Arc::new(|_| Ok(false)),
        exported: Arc::new(NoFiles),
        make_env: Arc::new(|_: &[Site]| -> Env { unreachable!("no attempt begins") }),
        tells: Arc::new(|_| {}),
        log,
    };
    Parts::of(config, Arc::new(replica.expect("open")))
}

fn propose(queue: &Queue, op: Op) -> Effect {
    let command = Command::new(BEFORE, Actor::node("test"), op);
    let done = queue.this.replica.propose_blocking(command);
    done.expect("done").effect
}

/// A schedule that ticks each minute, and whose job cannot be read.
fn schedule(id: &str) -> Op {
    Op::Schedule(Change::Create(Schedule {
        id: id.to_owned(),
        cron: "* * * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        owner: "otto".to_owned(),
        role: None,
        template: "null".to_owned(),
        disabled: false,
        fired: None,
        reason: None,
        comment: String::new(),
    }))
}

/// A job of otto.
fn new_job(id: &str) -> NewJob {
    let place = |path: &str| StoredPlace {
        site: "here".to_owned(),
        path: path.to_owned(),
    };
    NewJob {
        id: id.to_owned(),
        label: String::new(),
        owner: "otto".to_owned(),
        spec: r#"{"sources":["here:/data/x"],"destination":"here:/data/y"}"#.to_owned(),
        sources: vec![place("/data/x")],
        destination: place("/data/y"),
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retry: RetryPolicy::default(),
        idempotency_key: None,
    }
}

/// Claims a job for this node; returns the epoch of the claim.
fn claim(queue: &Queue, job: &str) -> u64 {
    let claim = JobOp::Claim {
        runner: queue.runner.clone(),
        seen: 0,
    };
    let Effect::Job { epoch, .. } = propose(queue, Op::Job(job.to_owned(), claim)) else {
        panic!("the job is claimed");
    };
    epoch
}

#[test]
fn a_node_that_stops_handles_no_further_ticks() {
    let directory = tempfile::tempdir().expect("a directory");
    let this: Arc<OnceLock<Weak<ThisNode>>> = Arc::default();
    let own = Arc::clone(&this);
    // The first line is about the first tick. The node is asked to stop while it handles that tick.
    let log = move |_: &str| {
        let this = own.get().and_then(Weak::upgrade).expect("a node");
        this.stopping.store(true, Ordering::SeqCst);
    };
    let (_parts, queue) = parts(directory.path(), Arc::new(log));
    assert!(this.set(Arc::downgrade(&queue.this)).is_ok());
    for id in ["one", "two", "three"] {
        propose(&queue, schedule(id));
    }
    let reader = queue.this.reader();
    for number in 1..=3 {
        queue.this.stopping.store(false, Ordering::SeqCst);
        fire(&queue, &reader, NOW).expect("a pass");
        let all = reader.objects::<Schedule>().expect("read");
        let fired = all.iter().filter(|one| one.fired == Some(NOW));
        assert_eq!(fired.count(), number);
    }
}

/// The ticks of hundreds of schedules take long, and a job without rights must not run meanwhile.
#[test]
fn a_job_without_rights_ends_before_the_ticks_of_schedules() {
    let directory = tempfile::tempdir().expect("a directory");
    let (parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    let user = User {
        name: "otto".to_owned(),
        role: Role::Operator,
        password: None,
        disabled: false,
    };
    propose(&queue, Op::User(Change::Create(user)));
    propose(&queue, Op::Submit(Box::new(new_job("j"))));
    let epoch = claim(&queue, "j");
    let control = Control::default();
    let claim = Claim { epoch, stops: 0 };
    let attempt = Attempt {
        owner: "otto".to_owned(),
        sites: Vec::new(),
        epoch,
        at_start: RightsAtStart::default(),
        fence: Arc::new(ClaimFence::new(&queue.this, "j", claim, &control)),
        control,
        limit: 0,
        ahead: Arc::default(),
        progress: Arc::default(),
    };
    parts.live().insert("j", attempt);
    propose(&queue, schedule("each-minute"));
    let reader = queue.this.reader();
    scheduler::pass(&queue, &reader, &mut Seen::default()).expect("a pass");
    let events = queue.this.replica.follow(0).look().expect("events");
    let at = |change: &str| {
        let found = events.iter().position(|event| event.change == change);
        found.unwrap_or_else(|| panic!("no {change} in {events:?}"))
    };
    assert!(at("job.finish") < at("schedule.fired"), "{events:?}");
}

#[test]
fn a_relay_that_no_node_can_run_ends_once_its_destination_does_not_wait() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    propose(&queue, Op::Submit(Box::new(new_job("taker"))));
    let relay = NewJob {
        idempotency_key: Some("relay:taker:giver".to_owned()),
        ..new_job("relay")
    };
    propose(&queue, Op::Submit(Box::new(relay)));
    let reader = queue.this.reader();
    let passed = || {
        scheduler::pass(&queue, &reader, &mut Seen::default()).expect("a pass");
        let relay = reader.job("relay").expect("read").expect("there");
        relay.state
    };
    assert_eq!(passed(), JobState::Queued);
    let cancel = JobOp::Cancel { comment: None };
    propose(&queue, Op::Job("taker".to_owned(), cancel));
    assert_eq!(passed(), JobState::Cancelled);
}

/// A user, and a site.
fn otto_and_site(queue: &Queue, role: Role, site: &str) {
    let user = User {
        name: "otto".to_owned(),
        role,
        password: None,
        disabled: false,
    };
    propose(queue, Op::User(Change::Put(user)));
    let site = Site {
        name: site.to_owned(),
        addresses: vec!["192.0.2.1".to_owned()],
        identity: format!("gw1-{site}"),
        comment: String::new(),
        nodes: Vec::new(),
    };
    propose(queue, Op::Site(Change::Put(site)));
}

/// A flow of the user with the jobs of these hops.
fn flow_of(id: &str, templates: &[&str]) -> Op {
    let hop = |template: &&str| Hop {
        template: (*template).to_owned(),
        ..Hop::default()
    };
    Op::Flow(Change::Put(Flow {
        id: id.to_owned(),
        owner: "otto".to_owned(),
        role: Some(Role::Admin),
        hops: templates.iter().map(hop).collect(),
        every: 60,
        paused: false,
        comment: String::new(),
        created: None,
    }))
}

#[test]
fn a_hop_that_may_not_start_stops_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let log = move |line: &str| kept.lock().expect("unspoilt").push(line.to_owned());
    let (parts, queue) = parts(directory.path(), Arc::new(log));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Admin, "siteS");
    otto_and_site(&queue, Role::Admin, "siteD");
    let good = r#"{"sources":["siteS:/raw/."],"destination":"siteD:/in/"}"#;
    propose(&queue, flow_of("a", &["null", good]));
    propose(&queue, flow_of("b", &[good, good]));
    let reader = queue.this.reader();
    let next = flow::run(&queue, &reader, NOW).expect("a pass");
    assert!(next.is_some_and(|next| next > NOW), "{next:?}");
    let jobs = reader
        .jobs(&JobFilter::default(), None, 10)
        .expect("read")
        .jobs;
    let owners: Vec<(&str, &str)> = jobs
        .iter()
        .map(|job| (job.owner.as_str(), job.label.as_str()))
        .collect();
    // The second hop of a flow waits for the first one.
    assert_eq!(owners, [("otto", "flow b, hop 1")]);
    let spec = reader.job_spec(&jobs[0].id).expect("read").expect("there");
    assert!(spec.contains(".godwit-[0-9a-f]"), "{spec}");
    let reported = lines.lock().expect("unspoilt").clone();
    assert!(
        matches!(reported.as_slice(), [line] if line.starts_with("flow a: hop 1 does not start")),
        "{reported:?}"
    );
    let flow: Flow = reader.object("a").expect("read").expect("there");
    let hops = parts_of(&parts).hops(&flow).expect("read");
    let states: Vec<&str> = hops.iter().map(|hop| hop.state.word()).collect();
    assert_eq!(states, ["refused", "waiting"]);
}

#[test]
fn a_flow_starts_nothing_that_its_owner_may_not_submit_now() {
    let directory = tempfile::tempdir().expect("a directory");
    let (parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Operator, "siteS");
    otto_and_site(&queue, Role::Operator, "siteD");
    let template = r#"{"sources":["siteS:/raw/."],"destination":"siteD:/in/"}"#;
    propose(&queue, flow_of("night", &[template]));
    let reader = queue.this.reader();
    flow::run(&queue, &reader, NOW).expect("a pass");
    let jobs = reader
        .jobs(&JobFilter::default(), None, 10)
        .expect("read")
        .jobs;
    assert_eq!(jobs, [], "an operator without a rule");
    let flow: Flow = reader.object("night").expect("read").expect("there");
    let hop = parts_of(&parts).hops(&flow).expect("read").remove(0);
    let reason = hop.reason.expect("a reason");
    assert_eq!((hop.state.word(), hop.next), ("refused", None));
    assert_eq!(reason.code.as_str(), "not_granted", "{reason:?}");
    assert!(
        reason.text.contains("may not read siteS:/raw/"),
        "{reason:?}"
    );
}

#[test]
fn a_hop_whose_job_the_state_would_refuse_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let (parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Admin, "siteS");
    otto_and_site(&queue, Role::Admin, "siteD");
    let template = r#"{"sources":["siteS:/raw/."],"destination":"siteD:/in/","limit":0}"#;
    propose(&queue, flow_of("night", &[template]));
    let reader = queue.this.reader();
    let next = flow::run(&queue, &reader, NOW).expect("a pass");
    let soon = NOW.after(5_000);
    assert!(next.is_some_and(|next| next > soon), "{next:?}");
    let flow: Flow = reader.object("night").expect("read").expect("there");
    let hop = parts_of(&parts).hops(&flow).expect("read").remove(0);
    let reason = hop.reason.expect("a reason");
    assert_eq!(hop.state.word(), "refused", "{reason:?}");
    assert!(reason.text.contains("limit"), "{reason:?}");
}

/// Runs the first hop of a flow once, which moves one file.
fn run_first(queue: &Queue, flow: &str, id: &str, outcome: Outcome) {
    let run = FlowRun {
        flow: flow.to_owned(),
        hop: 0,
        job: new_job(id),
        seen: Amount::default(),
    };
    propose(queue, Op::FlowRun(Box::new(run)));
    let epoch = claim(queue, id);
    let finish = Finish {
        epoch,
        outcome,
        reason: (outcome != Outcome::Complete)
            .then(|| Reason::new(FailureCode::NoSpace, "A test.")),
        summary: "{}".to_owned(),
        bytes: 1,
        files: 1,
        failures: Vec::new(),
    };
    propose(
        queue,
        Op::Job(id.to_owned(), JobOp::Finish(Box::new(finish))),
    );
}

/// Compared with a part of the files, the others at the last place would be extra ones.
#[test]
fn a_hop_that_deletes_waits_for_a_complete_run_of_the_hop_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let (parts, queue) = parts(directory.path(), Arc::new(|_: &str| {}));
    propose(&queue, Op::Level(FEATURE_LEVEL));
    otto_and_site(&queue, Role::Admin, "siteS");
    otto_and_site(&queue, Role::Admin, "siteD");
    let first = r#"{"sources":["siteS:/raw/."],"destination":"siteD:/in/"}"#;
    let keeps = r#"{"kind":"sync","sources":["siteD:/in/."],"destination":"siteS:/out/"}"#;
    let deletes = r#"{"kind":"sync","sources":["siteD:/in/."],"destination":"siteS:/out/","settings":{"delete":["true"]}}"#;
    propose(&queue, flow_of("keeps", &[first, keeps]));
    propose(&queue, flow_of("deletes", &[first, deletes]));
    let reader = queue.this.reader();
    let second = |flow: &str| {
        let flow: Flow = reader.object(flow).expect("read").expect("there");
        let hop = parts_of(&parts).hops(&flow).expect("read").remove(1);
        (hop.state.word(), hop.next.is_some())
    };
    assert_eq!(second("keeps"), ("waiting", false));
    assert_eq!(second("deletes"), ("waiting", false));
    run_first(&queue, "keeps", "k", Outcome::Partial);
    run_first(&queue, "deletes", "d1", Outcome::Partial);
    assert_eq!(second("keeps"), ("waiting", true));
    assert_eq!(second("deletes"), ("waiting", false));
    run_first(&queue, "deletes", "d2", Outcome::Complete);
    assert_eq!(second("deletes"), ("waiting", true));
}

/// The questions of flows to these parts.
fn parts_of(parts: &Parts) -> super::Flows<'_> {
    super::Flows::of(parts)
}
