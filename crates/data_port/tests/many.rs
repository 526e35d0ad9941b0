//! Runs sixty-four transfers at once in one process with their daemon, and changes them while they run. `run` tests
//! single jobs, `cli` the binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use godwit_api::event::{Event, EventSink, Status, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::grant::Grant;
use godwit_api::job::{JOB_VERSION, JobKind, JobSpec, Text};
use godwit_data_port::{Announce, Daemon, DaemonConfig, Export, Grants};
use godwit_engine::governor::{Amounts, Governor};
use godwit_engine::session::{Connector, Refusal};
use godwit_engine::tuner::Bounds;
use godwit_engine::{limits, usage};
use godwit_net::{Cipher, Identity, IdentityId, KnownPeers, PeerAddress, ServerTls};
use godwit_run::{
    AgentOrder, Connectors, Control, Env, Home, Process, Runner, SshClient, SshWay, StartedAgent,
};

const TRANSFERS: usize = 64;

/// Limit of any wait; an expected event happens much sooner.
const DEADLINE: Duration = Duration::from_secs(240);

/// So slow that the second block of the large file waits for minutes.
const SLOW: &str = "1kB";

/// Memory for blocks of all transfers; with half of this memory, a third of the transfers can still move.
const MEMORY: u64 = 96 << 20;

/// Memory of a transfer besides its blocks: lists, paths, buffers of TLS, stacks.
const BESIDE: u64 = 4 << 20;

/// A connector that reaches no machine by ssh.
struct Nowhere;

impl Connectors for Nowhere {
    fn by_ssh(&self, _: SshWay<'_>, _: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        Err(Failure::usage("there are no other machines"))
    }

    fn start_agent(&self, _: SshWay<'_>, _: &AgentOrder) -> Result<StartedAgent, Refusal> {
        Err(godwit_run::refusal_of(Failure::usage(
            "there are no other machines",
        )))
    }

    fn trusts(&self, _: &PeerAddress, _: &IdentityId) -> Result<bool, Failure> {
        Ok(false)
    }
}

#[derive(Default)]
struct Heard {
    events: Mutex<Vec<Event>>,
    more: Condvar,
}

impl EventSink for Heard {
    fn tell(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        self.more.notify_all();
    }
}

impl Heard {
    #[track_caller]
    fn wait_for(&self, is_it: impl Fn(&Event) -> bool) {
        let until = Instant::now() + DEADLINE;
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        while !events.iter().any(&is_it) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not come: {events:?}");
            let waited = self.more.wait_timeout(events, left);
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|event| is_it(event)).count()
    }
}

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
        for name in ["home", "node"] {
            Home::at(path(name)).make().expect("made");
        }
        for name in ["from", "to", "node/journals", "node/spill"] {
            fs::create_dir_all(path(name)).expect("made");
        }
        let budget = Amounts {
            memory: MEMORY,
            threads: 100_000,
            files: 100_000,
        };
        let process = Process {
            governor: Governor::new(budget),
            ..Process::default()
        };
        let own = Identity::load_or_create(&path("home")).expect("a key");
        let identity = Identity::load_or_create(&path("node")).expect("a key");
        let line = format!("{} * read,write", own.id());
        let words: Vec<&str> = line.split(' ').collect();
        let grant = Grant::of_words(&words).expect("a grant");
        Grants::new(&path("node")).add(&grant).expect("granted");
        let export = |name: &str| Export {
            name: name.to_owned(),
            path: path(name),
            set_id: false,
            owner: false,
            security_xattrs: false,
            devices: false,
            require_mount: false,
            watched: godwit_api::watched::Watched::default(),
        };
        let config = DaemonConfig {
            process: process.clone(),
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            announce: Announce::None,
            exports: vec![export("from"), export("to")],
            home: path("node"),
            rules: Arc::new(|| Ok(Arc::default())),
            tls: ServerTls::new(&identity, &Cipher::ALL).expect("TLS"),
            plain_allowed: false,
            handshake_deadline: DEADLINE,
            connections_per_peer: 1024,
            connections_max: 1024,
            transfers_per_peer: TRANSFERS,
            transfers_max: TRANSFERS,
            stall_limit: DEADLINE,
            pool_bytes: limits::POOL_BYTES,
            readers: Bounds { least: 0, most: 4 },
            writers: Bounds { least: 0, most: 4 },
            keep_for: DEADLINE,
            claims: Arc::default(),
            jobs: None,
            cluster: None,
            web: None,
            tells: Arc::new(|_| {}),
            log: Arc::new(|_| {}),
        };
        let daemon = Daemon::start(config, &identity).expect("started");
        let address = daemon.addresses()[0];
        KnownPeers::new(&path("home"))
            .trust(
                &PeerAddress::new(&address.ip().to_string(), address.port()),
                *identity.id(),
            )
            .expect("trusted");
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
        let tree = self.path(&format!("from/tree{number}"));
        fs::create_dir_all(tree.join("d")).expect("made");
        let byte = u8::try_from(number).expect("few trees");
        for file in 0..20_u8 {
            let content = vec![byte ^ file; 1000 + usize::from(file)];
            fs::write(tree.join("d").join(file.to_string()), content).expect("written");
        }
        fs::write(tree.join("large"), vec![byte; 3_000_000]).expect("written");
    }

    /// Starts a push, a pull or a copy here, each for a third of the numbers.
    fn begin(&self, number: usize, settings: &[(&str, &str)]) -> Running {
        let remote = |name: &str| format!("godwit://{}/{name}", self.daemon.addresses()[0]);
        let (source, destination) = (format!("from/tree{number}"), format!("to/copy{number}"));
        let (source, destination) = match number % 3 {
            0 => (source, remote(&destination)),
            1 => (remote(&source), destination),
            _ => (source, destination),
        };
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), vec![Text::from(*value)]));
        let spec = JobSpec {
            version: JOB_VERSION,
            kind: JobKind::Copy,
            sources: vec![source.parse().expect("an endpoint")],
            destination: destination.parse().expect("an endpoint"),
            settings: settings.collect(),
            selection: None,
            member: None,
            items: Vec::new(),
        };
        let env = Env {
            process: self.process.clone(),
            home: Home::at(self.path("home")),
            base: Some(self.directory.path().to_owned()),
            exports: None,
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
            label: None,
            mandate: None,
            hides_names: false,
            hides_contents: false,
            attempts: None,
        };
        let (heard, control) = (Arc::new(Heard::default()), Control::default());
        let events = Arc::clone(&heard) as Arc<dyn EventSink>;
        let steered = control.clone();
        let thread = thread::spawn(move || Runner::run(&spec, &env, &events, &steered));
        Running {
            number,
            heard,
            control,
            thread,
        }
    }

    #[track_caller]
    fn assert_done(&self, running: Running) {
        let number = running.number;
        assert_eq!(self.done(running), 21, "{number}");
    }

    /// Waits for a transfer that must complete, and compares the delivered files; returns how many files it delivered.
    #[track_caller]
    fn done(&self, running: Running) -> u64 {
        let number = running.number;
        let ended = running.thread.join().expect("no panic");
        let Ok(Summary::Transfer(summary)) = &ended else {
            panic!("{number}: {ended:?}");
        };
        assert_eq!(summary.status, Status::Complete, "{number}: {summary:?}");
        assert_eq!(summary.failed, 0, "{number}");
        let [tree, copy] =
            ["from/tree", "to/copy"].map(|name| contents(&self.path(&format!("{name}{number}"))));
        assert!(tree.len() == 21 && tree == copy, "{number} is another");
        summary.files
    }
}

struct Running {
    number: usize,
    heard: Arc<Heard>,
    control: Control,
    thread: JoinHandle<Result<Summary, Failure>>,
}

/// All files below a directory, by their names.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("read");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            let name = path.strip_prefix(directory).expect("below").to_owned();
            found.insert(name, fs::read(&path).expect("read"));
        }
    }
    found
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
    let mut three = || -> Vec<Running> { slow.by_ref().take(3).collect() };
    let [cancelled, paused, limited, changed] = [three(), three(), three(), three()];
    drop(slow);
    for running in cancelled
        .iter()
        .chain(&paused)
        .chain(&limited)
        .chain(&changed)
    {
        running.heard.wait_for(has_begun);
    }
    let free: Vec<Running> = (12..TRANSFERS)
        .map(|number| world.begin(number, &[]))
        .collect();

    for running in &paused {
        running.control.pause();
    }
    for running in &cancelled {
        running.control.cancel();
    }
    for running in &limited {
        let obeyed = running.control.confirm_limit(0, DEADLINE);
        obeyed.unwrap_or_else(|why| panic!("{}: {why:?}", running.number));
    }
    for background in [true, false, true] {
        for running in &changed {
            let obeyed = running.control.confirm_background(background, DEADLINE);
            obeyed.unwrap_or_else(|why| panic!("{}: {why:?}", running.number));
            assert_eq!(running.control.figures().background, Some(background));
        }
    }
    for running in &changed {
        running.control.set_limit(0);
    }
    for running in cancelled {
        let (number, ended) = (running.number, running.thread.join().expect("no panic"));
        let failure = ended.expect_err("cancelled");
        assert_eq!(failure.code, FailureCode::Cancelled, "{number}: {failure}");
        let again = world.begin(number, &[]);
        let heard = Arc::clone(&again.heard);
        // Small files may have had their final names before it was cancelled.
        let delivered = world.done(again);
        assert!((1..=21).contains(&delivered), "{number}: {delivered}");
        let is_resumed =
            |event: &Event| matches!(event, Event::Started(started) if started.resumed);
        assert_eq!(heard.count(is_resumed), 1, "{number} was not resumed");
    }
    for running in &paused {
        running
            .heard
            .wait_for(|event| matches!(event, Event::Paused {}));
    }
    for running in free.into_iter().chain(limited).chain(changed) {
        world.assert_done(running);
    }
    // Three are left, and use no resources.
    wait_until("the daemon keeps an end of a paused transfer", || {
        governor.figures().running == 0
    });
    assert_eq!(governor.figures().held, 0);
    for running in paused {
        let heard = Arc::clone(&running.heard);
        running.control.set_limit(0);
        running.control.resume();
        let number = running.number;
        // Not every file with its final name was acknowledged before the pause.
        let delivered = world.done(running);
        assert!((1..=21).contains(&delivered), "{number}: {delivered}");
        assert_eq!(heard.count(is_started), 2);
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
