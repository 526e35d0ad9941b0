//! Tests jobs that run at the same time in one process, controlled from other threads. `cli` tests
//! the binary and other machines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_api::event::{Event, EventSink, Status, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::{JobKind, JobSpec, ListForm, Selection};
use godwit_engine::governor::{Governor, Resources};
use godwit_run::{Control, Env, Home, Process, Runner};
use godwit_worlds::{
    BegunTransfer, DEADLINE, EventLog, TREE_FILES, begin, contents, copy, surroundings, tree,
};

/// Slow: a megabyte takes a quarter of an hour.
const SLOW: &str = "1kB";

/// A directory with a home and with space for sources and destinations.
struct World(tempfile::TempDir, Process);

impl World {
    fn new() -> Self {
        Self::of(Process::default())
    }

    fn of(process: Process) -> Self {
        let world = Self(tempfile::tempdir().expect("a directory"), process);
        Home::at(world.path("home")).make().expect("made");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn tree(&self, number: u8) {
        tree(&self.path(&format!("tree{number}")), number, 1_000_000);
    }

    fn env(&self) -> Env {
        Env {
            process: self.1.clone(),
            base: Some(self.0.path().to_owned()),
            ..surroundings(&self.path("home"))
        }
    }

    /// Copies the tree of this number, below the base directory of `Env`.
    fn begin(&self, number: u8, settings: &[(&str, &str)]) -> BegunTransfer {
        let spec = copy(&format!("tree{number}"), &format!("copy{number}"), settings);
        begin(spec, self.env())
    }

    #[track_caller]
    fn assert_copied(&self, number: u8) {
        let [tree, copy] =
            ["tree", "copy"].map(|name| contents(&self.path(&format!("{name}{number}"))));
        assert_eq!(tree.len(), TREE_FILES);
        assert!(tree == copy, "copy {number} is not what its source is");
    }
}

#[track_caller]
fn assert_complete(ended: Result<Summary, Failure>) {
    let Ok(Summary::Transfer(summary)) = &ended else {
        panic!("{ended:?}");
    };
    assert_eq!(summary.status, Status::Complete, "{summary:?}");
    assert_eq!((summary.files, summary.failed), (21, 0), "{summary:?}");
    // The figures of the process do not belong to a single job here.
    assert_eq!(summary.max_rss_bytes.destination, None);
}

fn has_begun(event: &Event) -> bool {
    matches!(event, Event::Progress(progress) if progress.streams > 0)
}

fn is_started(event: &Event) -> bool {
    matches!(event, Event::Started(_))
}

#[test]
fn jobs_of_one_process_do_not_disturb_each_other() {
    let world = World::new();
    for number in 0..8 {
        world.tree(number);
    }
    let cancelled = world.begin(0, &[("limit", SLOW)]);
    let limited = world.begin(1, &[("limit", SLOW)]);
    let paused = world.begin(2, &[("limit", SLOW)]);
    let free: Vec<BegunTransfer> = (3..8).map(|number| world.begin(number, &[])).collect();
    for slow in [&cancelled, &limited, &paused] {
        slow.event_log.wait_for(has_begun);
    }
    for (number, running) in (3..).zip(free) {
        assert_complete(running.end().result);
        world.assert_copied(number);
    }

    cancelled.control.cancel();
    let failure = cancelled.end().result.expect_err("cancelled");
    assert_eq!(failure.code, FailureCode::Cancelled, "{failure}");

    limited.control.confirm_limit(0, DEADLINE).expect("obeyed");
    assert_complete(limited.end().result);
    world.assert_copied(1);

    paused.control.pause();
    paused
        .event_log
        .wait_for(|event| matches!(event, Event::Paused {}));
    paused.control.set_limit(0);
    paused.control.resume();
    let event_log = Arc::clone(&paused.event_log);
    assert_complete(paused.end().result);
    world.assert_copied(2);
    assert_eq!(event_log.count(is_started), 2);
    assert_eq!(event_log.count(|event| matches!(event, Event::Error(_))), 0);
    assert_eq!(
        event_log.count(|event| matches!(event, Event::Summary(_))),
        1
    );
}

#[test]
fn a_paused_job_can_be_cancelled_and_the_same_job_resumes_it() {
    let world = World::new();
    world.tree(0);
    let paused = world.begin(0, &[("limit", SLOW)]);
    paused.event_log.wait_for(has_begun);
    paused.control.pause();
    paused
        .event_log
        .wait_for(|event| matches!(event, Event::Paused {}));
    // The job holds no resources of the process.
    let figures = world.1.governor.figures();
    assert_eq!((figures.running, figures.held), (0, 0));
    assert!(figures.held_most > 0);
    paused.control.cancel();
    let failure = paused.end().result.expect_err("cancelled");
    assert_eq!(failure.code, FailureCode::Cancelled, "{failure}");
    let again = world.begin(0, &[]);
    let event_log = Arc::clone(&again.event_log);
    let Ok(Summary::Transfer(summary)) = again.end().result else {
        panic!("it completes");
    };
    // Small files may have been delivered before the pause.
    let all = (
        summary.status,
        summary.files + summary.skipped,
        summary.failed,
    );
    assert_eq!(all, (Status::Complete, 21, 0), "{summary:?}");
    world.assert_copied(0);
    let is_resumed = |event: &Event| matches!(event, Event::Started(started) if started.resumed);
    assert_eq!(event_log.count(is_resumed), 1);
}

/// A process with room for one local copy at a time.
fn narrow() -> Process {
    let budget = Resources {
        memory: 8 << 20,
        threads: 100,
        files: 100,
    };
    Process {
        governor: Governor::new(budget),
        ..Process::default()
    }
}

#[test]
fn jobs_that_are_too_many_wait_for_their_turn_and_can_be_stopped_meanwhile() {
    let world = World::of(narrow());
    for number in 0..4 {
        world.tree(number);
    }
    let waits = |event: &Event| matches!(event, Event::Note { message } if message.contains("this transfer waits, with"));
    let first = world.begin(0, &[("limit", SLOW)]);
    first.event_log.wait_for(has_begun);
    let [cancelled, paused, last] = [1, 2, 3].map(|number| {
        let running = world.begin(number, &[]);
        running.event_log.wait_for(waits);
        running
    });
    assert_eq!(world.1.governor.figures().waiting, 3);
    cancelled.control.cancel();
    let failure = cancelled.end().result.expect_err("cancelled");
    assert_eq!(failure.code, FailureCode::Cancelled, "{failure}");
    paused.control.pause();
    paused
        .event_log
        .wait_for(|event| matches!(event, Event::Paused {}));
    assert_eq!(world.1.governor.figures().waiting, 1);
    assert_eq!(last.event_log.count(is_started), 0);
    first.control.set_limit(0);
    assert_complete(first.end().result);
    assert_complete(last.end().result);
    paused.control.resume();
    assert_complete(paused.end().result);
    for number in [0, 2, 3] {
        world.assert_copied(number);
    }
    let figures = world.1.governor.figures();
    assert_eq!((figures.running, figures.waiting, figures.held), (0, 0, 0));
    assert!(figures.held_most <= figures.budget.memory, "{figures:?}");
}

#[test]
fn destinations_of_one_process_share_the_syncs_of_their_file_system() {
    let world = World::new();
    for number in 0..2 {
        world.tree(number);
        assert_complete(world.begin(number, &[]).end().result);
    }
    assert_eq!(world.1.syncs.file_systems(), 1);
}

#[test]
fn paths_of_a_job_begin_at_its_base() {
    let world = World::new();
    world.tree(0);
    let (env, event_log) = (world.env(), Arc::new(EventLog::default()));
    let events = Arc::clone(&event_log) as Arc<dyn EventSink>;
    let spec = copy("tree0", "copy0", &[("manifest", "m"), ("failed", "f")]);
    let ended = Runner::run(&spec, &env, &events, &Control::default());
    assert_complete(ended);
    world.assert_copied(0);
    let named =
        |event: &Event| matches!(event, Event::Started(started) if started.sources == [b"tree0"]);
    assert_eq!(event_log.count(named), 1);
    let verify = JobSpec {
        kind: JobKind::Verify,
        ..copy("m", "copy0/", &[])
    };
    let same = |ended: Result<Summary, Failure>| matches!(ended, Ok(Summary::Verify(summary)) if summary.entries > 20 && summary.different == 0);
    assert!(same(Runner::run(
        &verify,
        &env,
        &events,
        &Control::default()
    )));
    let mode = fs::metadata(world.path("m")).expect("there").permissions();
    // The umask of the process differs from the umask of the job.
    assert_eq!(mode.mode() & 0o077, 0);
}

#[test]
fn failed_entries_are_reported_with_their_source_and_their_reason() {
    let world = World::new();
    let sockets = [0, 1].map(|number| {
        world.tree(number);
        let path = world.path(&format!("tree{number}")).join("d/socket");
        UnixListener::bind(path).expect("a socket")
    });
    fs::create_dir(world.path("copies")).expect("made");
    let spec = JobSpec {
        sources: vec![
            "tree0".parse().expect("an endpoint"),
            "tree1".parse().expect("an endpoint"),
        ],
        ..copy("tree0", "copies", &[("failed", "list")])
    };
    let event_log = Arc::new(EventLog::default());
    let events = Arc::clone(&event_log) as Arc<dyn EventSink>;
    let ended = Runner::run(&spec, &world.env(), &events, &Control::default());
    drop(sockets);
    let Ok(Summary::Transfer(summary)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((summary.status, summary.failed), (Status::Partial, 2));
    for root in [0, 1] {
        let reported = |event: &Event| match event {
            Event::Failed(failed) => {
                failed.root == Some(root)
                    && failed.path == format!("tree{root}/d/socket").into_bytes()
                    && failed.side.as_deref() == Some("source")
                    && failed.code == Some(FailureCode::NotRegular.into())
                    && failed.entry.is_some()
            }
            _ => false,
        };
        assert_eq!(event_log.count(reported), 1, "{root}");
    }
    let mut list = fs::read(world.path("list")).expect("written");
    list.pop();
    let mut names: Vec<&[u8]> = list.split(|byte| *byte == 0).collect();
    names.sort_unstable();
    assert_eq!(names, [b"tree0/d/socket", b"tree1/d/socket"]);
}

#[test]
fn an_invalid_job_is_refused_before_any_file_is_made() {
    let world = World::new();
    world.tree(0);
    let list = Selection {
        list: Some(ListForm::Lines),
        ..Selection::default()
    };
    for (spec, words) in [
        (copy("tree0", "mem:1", &[]), "can only be a source"),
        (copy("-", "copy0", &[]), "no standard input"),
        (copy("tree0", "copy0", &[("sign", "true")]), "--manifest"),
        (copy("tree0", "copy0", &[("limit", "fast")]), "--limit"),
        (copy("tree0", "copy0", &[("colour", "blue")]), "--colour"),
        (
            JobSpec {
                selection: Some(list),
                ..copy("tree0", "copy0", &[])
            },
            "the list is missing",
        ),
    ] {
        let event_log = Arc::new(EventLog::default());
        let events = Arc::clone(&event_log) as Arc<dyn EventSink>;
        let ended = Runner::run(&spec, &world.env(), &events, &Control::default());
        let failure = ended.expect_err("refused");
        assert_eq!(failure.code, FailureCode::Usage, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
        let reported = |event: &Event| matches!(event, Event::Error(error) if error.message == failure.message);
        assert_eq!(event_log.count(reported), 1, "{failure}");
        assert!(!world.path("copy0").exists());
    }
}
