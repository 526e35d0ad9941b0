//! Tests of the bound on the records of one user's jobs beside the state.
//! See the unit tests for the bound of another site.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use godwit_api::rest::{JobState, NewJob};
use godwit_state::{
    Actor, Command, FEATURE_LEVEL, JobOp, Op, OpenWork, Runner, WorkOp, WorkRoot, Works,
};

use crate::world::{DEADLINE, World, new, submit, wait_for};

/// More than one user has on a node.
const TOO_MUCH: u64 = (16 << 30) + 1;

/// A file with holes takes no room.
fn fill(world: &World, id: &str) {
    let path = world.path("home/jobs").join(id).join("manifest");
    let file = File::create(path).expect("made");
    file.set_len(TOO_MUCH).expect("long");
}

#[test]
fn the_oldest_records_of_a_user_make_way_and_its_log_says_so() {
    let world = World::new();
    world.write("from/a", &vec![7; 4_000_000]);
    let jobs = world.start(2);
    let old = submit(&jobs, &new("here:/from/a", "here:/to/old"));
    wait_for(&jobs, &old, |job| job.ended.is_some());
    jobs.stop();
    drop(jobs);
    fill(&world, &old);
    // A look is due where none was since the start.
    let jobs = world.start(2);
    let slow = NewJob {
        limit: Some(1_000_000),
        ..new("here:/from/a", "here:/to/new")
    };
    let running = submit(&jobs, &slow);
    let ended = wait_for(&jobs, &running, |job| job.ended.is_some());
    assert_eq!(ended.state, JobState::Complete, "{ended:?}");
    let log = jobs.records().log(&old, 0, 10).expect("a log").lines;
    let said = log.first().expect("a line").event.to_string();
    assert!(
        said.contains("were removed: the limit for one user is 17.2 GB"),
        "{said}"
    );
    assert_eq!(log.len(), 1, "{log:?}");
    let directory = world.path("home/jobs").join(&old);
    assert!(!directory.join("manifest").exists(), "it went");
    let has_log = fs::metadata(world.path("home/jobs").join(&running).join("log.jsonl"));
    assert!(has_log.expect("there").len() > 300, "the other one stays");
    jobs.stop();
}

#[test]
fn a_running_job_whose_records_fill_the_room_of_its_user_ends() {
    let world = World::new();
    world.write("from/a", &vec![7; 40_000_000]);
    let jobs = world.start(2);
    let slow = NewJob {
        limit: Some(1_000_000),
        ..new("here:/from/a", "here:/to/new")
    };
    let id = submit(&jobs, &slow);
    wait_for(&jobs, &id, |job| job.state == JobState::Running);
    jobs.stop();
    drop(jobs);
    fill(&world, &id);
    let jobs = world.start(2);
    let ended = wait_for(&jobs, &id, |job| job.ended.is_some());
    let why = ended.reason.expect("a reason").text;
    assert_eq!(ended.state, JobState::Failed, "{why}");
    assert!(why.contains("jobs for one user take 17.2 GB"), "{why}");
    jobs.stop();
}

/// Another node of the cluster runs the job, and this node works on it.
#[test]
fn a_node_that_works_on_a_divided_job_keeps_its_records_within_the_room() {
    let world = World::new();
    world.write("from/set/a", b"alpha");
    // The node begins no job itself.
    let jobs = world.start(0);
    let propose = |op: Op| {
        let command = Command::new(godwit_jobs::now(), Actor::node("node2"), op);
        jobs.replica().propose_blocking(command).expect("proposed");
    };
    propose(Op::Level(FEATURE_LEVEL));
    let id = submit(
        &jobs,
        &NewJob {
            manifest: true,
            ..new("here:/from/set", "here:/to/copy")
        },
    );
    let runner = Runner {
        node: "node2".to_owned(),
        instance: "first".to_owned(),
    };
    propose(Op::Job(id.clone(), JobOp::Claim { runner, seen: 0 }));
    let reader = jobs.replica().reader();
    let epoch = reader.job(&id).expect("read").expect("the job").epoch;
    fs::create_dir_all(world.path("home/jobs").join(&id)).expect("made");
    fill(&world, &id);
    propose(Op::Work(
        id.clone(),
        WorkOp::Open(OpenWork {
            epoch,
            claim: "claim".to_owned(),
            roots: vec![WorkRoot {
                source: "from/set".to_owned(),
                file: None,
                destination: "to/copy".to_owned(),
                observation: Vec::new(),
            }],
            part_bytes: 1 << 30,
        }),
    ));
    let until = Instant::now() + DEADLINE;
    let declined = loop {
        let work = Works(&reader).of(&id).expect("read").expect("open");
        if let Some((node, why)) = work.targets.declined.first() {
            break (node.clone(), why.text.clone());
        }
        assert!(Instant::now() < until, "it works on: {work:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(declined.0, "node1");
    assert!(declined.1.contains("take 17.2 GB"), "{}", declined.1);
    // The records of a job that moves are not those of a waiting one.
    let manifest = world.path("home/jobs").join(&id).join("manifest");
    assert!(manifest.exists(), "it stays while it is written");
    jobs.stop();
}
