//! Runs sixty-four transfers at once in one process with their daemon, and changes them while they run. `run` tests
//! single jobs, `cli` the binary.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::event::{Event, Status};
use godwit_api::failure::FailureCode;
use godwit_data_port::{Daemon, DaemonConfig};
use godwit_engine::governor::{Governor, Resources};
use godwit_engine::usage;
use godwit_net::Identity;
use godwit_run::{Env, Home, Process};
use godwit_worlds::{
    BegunTransfer, DEADLINE, TREE_FILES, begin, contents, copy, data_port, export, node_home,
    surroundings, tree, trust,
};

const TRANSFERS: usize = 64;

/// So slow that the second block of the large file waits for minutes.
const SLOW: &str = "1kB";

/// Memory for blocks of all transfers; with half of this memory, a third of the transfers can still move.
const MEMORY: u64 = 96 << 20;

/// Memory of a transfer besides its blocks: lists, paths, buffers of TLS, stacks.
const BESIDE: u64 = 4 << 20;

/// Directories, a daemon that exports them, and the shared parts of all transfers of this process.
struct World {
    directory: tempfile::TempDir,
    process: Process,
    daemon: Daemon,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        Home::at(path("home")).make().expect("made");
        for name in ["from", "to"] {
            fs::create_dir_all(path(name)).expect("made");
        }
        let budget = Resources {
            memory: MEMORY,
            threads: 100_000,
            files: 100_000,
        };
        let process = Process {
            governor: Governor::new(budget),
            ..Process::default()
        };
        let own = Identity::load_or_create(&path("home")).expect("a key");
        let identity = node_home(&path("node"), &own.id().to_string(), "read,write");
        let exports = ["from", "to"].map(|name| export(name, &path(name)));
        let config = DaemonConfig {
            process: process.clone(),
            transfers_per_peer: TRANSFERS,
            transfers_max: TRANSFERS,
            ..data_port(&path("node"), &identity, exports.to_vec())
        };
        let daemon = Daemon::start(config, &identity).expect("started");
        trust(&path("home"), &daemon, *identity.id());
        Self {
            directory,
            process,
            daemon,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Small files, and a large one of several blocks, different for each number.
    fn tree(&self, number: usize) {
        let byte = u8::try_from(number).expect("few trees");
        tree(&self.path(&format!("from/tree{number}")), byte, 3_000_000);
    }

    /// Starts a push, a pull or a copy here, each for a third of the numbers.
    fn begin(&self, number: usize, settings: &[(&str, &str)]) -> Numbered {
        let remote = |name: &str| format!("godwit://{}/{name}", self.daemon.addresses()[0]);
        let (source, destination) = (format!("from/tree{number}"), format!("to/copy{number}"));
        let (source, destination) = match number % 3 {
            0 => (source, remote(&destination)),
            1 => (remote(&source), destination),
            _ => (source, destination),
        };
        let env = Env {
            process: self.process.clone(),
            base: Some(self.directory.path().to_owned()),
            retries_first: true,
            ..surroundings(&self.path("home"))
        };
        let running = begin(copy(&source, &destination, settings), env);
        Numbered { number, running }
    }

    #[track_caller]
    fn assert_done(&self, transfer: Numbered) {
        let number = transfer.number;
        assert_eq!(self.done(transfer), TREE_FILES as u64, "{number}");
    }

    /// Waits for a transfer that must complete, and compares the delivered files; returns how many files it delivered.
    #[track_caller]
    fn done(&self, transfer: Numbered) -> u64 {
        let Numbered { number, running } = transfer;
        let ended = running.end();
        let summary = ended.summary();
        assert_eq!(summary.status, Status::Complete, "{number}: {summary:?}");
        assert_eq!(summary.failed, 0, "{number}");
        let [tree, copy] =
            ["from/tree", "to/copy"].map(|name| contents(&self.path(&format!("{name}{number}"))));
        assert!(
            tree.len() == TREE_FILES && tree == copy,
            "{number} is another"
        );
        summary.files
    }
}

/// A transfer, and the number of its tree.
struct Numbered {
    number: usize,
    running: BegunTransfer,
}

fn has_begun(event: &Event) -> bool {
    matches!(event, Event::Progress(progress) if progress.streams > 0 && progress.bytes > 0)
}

fn is_started(event: &Event) -> bool {
    matches!(event, Event::Started(_))
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("read").count()
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sixty_four_transfers_share_what_one_process_has_and_obey_while_they_run() {
    usage::reset_peak_rss();
    let before = usage::peak_rss_bytes().expect("told by the kernel");
    // The thread that detects a standstill runs until the process ends.
    let _ = godwit_run::pulse::stops();
    let threads_before = threads();
    let mut world = World::new();
    let governor = world.process.governor.clone();
    for number in 0..TRANSFERS {
        world.tree(number);
    }
    // Transfers of each kind: a push, a pull and a copy here; the other end of each is slow too.
    let mut slow = (0..12).map(|number| world.begin(number, &[("limit", SLOW)]));
    let mut three = || -> Vec<Numbered> { slow.by_ref().take(3).collect() };
    let [cancelled, paused, limited, changed] = [three(), three(), three(), three()];
    drop(slow);
    for slow in cancelled
        .iter()
        .chain(&paused)
        .chain(&limited)
        .chain(&changed)
    {
        slow.running.event_log.wait_for(has_begun);
    }
    let free: Vec<Numbered> = (12..TRANSFERS)
        .map(|number| world.begin(number, &[]))
        .collect();

    for Numbered { running, .. } in &paused {
        running.control.pause();
    }
    for Numbered { running, .. } in &cancelled {
        running.control.cancel();
    }
    for Numbered { number, running } in &limited {
        let obeyed = running.control.confirm_limit(0, DEADLINE);
        obeyed.unwrap_or_else(|why| panic!("{number}: {why:?}"));
    }
    for background in [true, false, true] {
        for Numbered { number, running } in &changed {
            let obeyed = running.control.confirm_background(background, DEADLINE);
            obeyed.unwrap_or_else(|why| panic!("{number}: {why:?}"));
            assert_eq!(running.control.figures().background, Some(background));
        }
    }
    for Numbered { running, .. } in &changed {
        running.control.set_limit(0);
    }
    for Numbered { number, running } in cancelled {
        let failure = running.end().result.expect_err("cancelled");
        assert_eq!(failure.code, FailureCode::Cancelled, "{number}: {failure}");
        let again = world.begin(number, &[]);
        let event_log = Arc::clone(&again.running.event_log);
        // Small files may have had their final names before it was cancelled.
        let delivered = world.done(again);
        assert!((1..=21).contains(&delivered), "{number}: {delivered}");
        let is_resumed =
            |event: &Event| matches!(event, Event::Started(started) if started.resumed);
        assert_eq!(event_log.count(is_resumed), 1, "{number} was not resumed");
    }
    for Numbered { running, .. } in &paused {
        running
            .event_log
            .wait_for(|event| matches!(event, Event::Paused {}));
    }
    for transfer in free.into_iter().chain(limited).chain(changed) {
        world.assert_done(transfer);
    }
    // Three are left, and use no resources.
    wait_until("the daemon keeps an end of a paused transfer", || {
        governor.figures().running == 0
    });
    assert_eq!(governor.figures().held, 0);
    for transfer in paused {
        let event_log = Arc::clone(&transfer.running.event_log);
        transfer.running.control.set_limit(0);
        transfer.running.control.resume();
        let number = transfer.number;
        // Not every file with its final name was acknowledged before the pause.
        let delivered = world.done(transfer);
        assert!((1..=21).contains(&delivered), "{number}: {delivered}");
        assert_eq!(event_log.count(is_started), 2);
    }

    world.daemon.stop();
    let figures = governor.figures();
    assert_eq!((figures.running, figures.waiting, figures.held), (0, 0, 0));
    assert!(figures.held_most > 0);
    assert!(figures.held_most <= MEMORY, "{figures:?}");
    let grown = usage::peak_rss_bytes().expect("told by the kernel") - before;
    assert!(
        grown <= MEMORY + BESIDE * TRANSFERS as u64,
        "{} MiB more, of which {} MiB are blocks",
        grown >> 20,
        figures.held_most >> 20
    );
    wait_until("a thread is left", || threads() <= threads_before);
}
