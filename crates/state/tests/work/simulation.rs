//! Simulates nodes that divide a tree, with crashes, repetitions and delays chosen by seeds. No item is lost or settled twice, and the
//! work ends. No data is moved: a copied file is a name in a set.

use std::collections::{BTreeMap, BTreeSet};

use godwit_state::{
    Closed, Command, Effect, FEATURE_LEVEL, Found, JobOp, Op, OpenWork, Pair, Peer, Reader,
    SetPairs, Settle, Settled, Settlement, Store, TakeWork, Task, Work, WorkItem, WorkOp, WorkPath,
    WorkRoot, Works,
};

use super::support::{command, new_job, runner};
use super::tree::{ENTRIES_MAX, PART, Seeded, Tree, share_of};

/// Seeds of the usual run; `GODWIT_SEEDS` sets another number.
const SEEDS: u64 = 200;
/// Steps after which a simulation counts as endless.
const STEPS_MAX: u64 = 20_000;
const NODES: u64 = 3;

/// A node with its items. Some of its commands may be in flight.
struct Node {
    name: String,
    start: u64,
    held: Option<(u64, Vec<WorkItem>)>,
    /// Finds that must be reported before their items are settled.
    unreported: Vec<(u64, Found)>,
}

fn is_close(item: &WorkItem) -> bool {
    matches!(item.task, Task::Close {} | Task::Region { .. })
}

/// The root's directories, in this many shares of a close's region.
fn close(shares: u32) -> Found {
    let path = "".into();
    Found::Close { path, shares }
}

struct World<'a> {
    seeded: Seeded,
    store: &'a mut Store,
    reader: &'a Reader,
    index: u64,
    job: String,
    epoch: u64,
    controller: bool,
    tree: Tree,
    nodes: Vec<Node>,
    /// Commands that are delayed or repeated.
    late: Vec<Op>,
    delivered: BTreeSet<String>,
    parts: BTreeMap<(String, u64), u64>,
    settled: u64,
    /// Settled scans and parts, and assembled files, by their identity.
    once: BTreeSet<String>,
}

impl World<'_> {
    fn apply(&mut self, op: Op) -> Option<Effect> {
        self.index += 1;
        let command: Command = command(i64::try_from(self.index).expect("small"), op);
        self.store
            .apply(self.index, &command)
            .expect("applied")
            .ok()
    }

    fn work(&mut self, op: WorkOp) -> Option<Effect> {
        let op = Op::Work(self.job.clone(), op);
        // The message is delayed or repeated.
        let is_late = self.seeded.one_in(12);
        if is_late || self.seeded.one_in(6) {
            self.late.push(op.clone());
        }
        if is_late {
            return None;
        }
        let effect = self.apply(op);
        // The answer is lost.
        effect.filter(|_| !self.seeded.one_in(12))
    }

    /// Repeats a command until it is answered.
    fn insist(&mut self, op: &WorkOp) {
        while self.work(op.clone()).is_none() {}
    }

    fn read(&self) -> Option<Work> {
        Works(self.reader).of(&self.job).expect("read")
    }

    /// A node takes the job, and its controller starts or takes over.
    fn control(&mut self) {
        let node = self.seeded.below(NODES);
        let seen = self.epoch;
        let claim = JobOp::Claim {
            runner: runner(
                &format!("node{node}"),
                &self.nodes[usize::try_from(node).expect("small")]
                    .start
                    .to_string(),
            ),
            seen,
        };
        let Some(Effect::Job { epoch, .. }) = self.apply(Op::Job(self.job.clone(), claim)) else {
            panic!("seed: the claim is refused");
        };
        self.epoch = epoch;
        self.controller = true;
        self.insist(&WorkOp::Open(OpenWork {
            epoch,
            claim: "claim".to_owned(),
            roots: vec![WorkRoot {
                source: "data/a".to_owned(),
                file: None,
                destination: "data/b".to_owned(),
                observation: Vec::new(),
            }],
            part_bytes: PART,
        }));
        self.pair();
    }

    /// The controller has fenced all items taken from nodes.
    fn pair(&mut self) {
        let Some(work) = self.read() else {
            return;
        };
        let pairs = (0..NODES).map(|node| Pair {
            node: format!("node{node}"),
            to: vec![0],
            limit: 0,
        });
        let set = SetPairs {
            epoch: self.epoch,
            targets: vec![Peer {
                name: "there".to_owned(),
                identity: "gw1-there".to_owned(),
                addresses: Vec::new(),
            }],
            pairs: pairs.collect(),
            waits: false,
            fenced: work.targets.taken,
        };
        self.insist(&WorkOp::Pairs(Box::new(set)));
    }

    /// The controller dies, or a user pauses the job: the job returns to the queue in a higher epoch.
    fn lose_controller(&mut self) {
        let steps = [JobOp::Pause, JobOp::Resume];
        for op in steps {
            match self.apply(Op::Job(self.job.clone(), op)) {
                Some(Effect::Job { epoch, .. }) => self.epoch = epoch,
                other => panic!("{other:?}"),
            }
        }
        self.controller = false;
    }

    /// A node dies with all its items, and restarts.
    fn crash(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.held = None;
        node.unreported.clear();
        node.start += 1;
        let new = runner(&node.name, &node.start.to_string());
        let before = self.epoch;
        self.apply(Op::Restart(new));
        let reader = self.reader;
        let job = reader.job(&self.job).expect("read").expect("there");
        self.epoch = job.epoch;
        if self.epoch != before {
            self.controller = false;
        }
    }

    fn step(&mut self, at: usize) {
        let (node, start) = (
            self.nodes[at].name.clone(),
            self.nodes[at].start.to_string(),
        );
        let Some((lease, items)) = self.nodes[at].held.clone() else {
            // A lease whose answer was lost.
            if Works(self.reader).holds(&self.job, &node).expect("read") {
                self.work(WorkOp::Return { node });
                return;
            }
            let taken = self.work(WorkOp::Lease(TakeWork {
                epoch: self.epoch,
                runner: runner(&node, &start),
                scans_max: 2,
                bytes_max: 2 * PART,
            }));
            if let Some(Effect::Leased { lease, items }) = taken
                && !items.is_empty()
            {
                let finishes =
                    |item: &WorkItem| is_close(item) || matches!(item.task, Task::Assemble { .. });
                let fenced = self.read().is_some_and(|work| work.targets.is_fenced());
                assert!(fenced || !items.iter().any(finishes), "{items:?}");
                let unreported = items.iter().flat_map(|item| self.bring(item)).collect();
                self.nodes[at].unreported = unreported;
                self.nodes[at].held = Some((lease, items));
            }
            return;
        };
        if !self.nodes[at].unreported.is_empty() {
            let (number, find) = self.nodes[at].unreported[0].clone();
            let reported = self.work(WorkOp::Found {
                number,
                lease,
                finds: vec![find],
            });
            if reported.is_some() {
                self.nodes[at].unreported.remove(0);
            }
            return;
        }
        let outcomes: Vec<Settled> = items.iter().map(|item| self.outcome(item)).collect();
        let effect = self.work(WorkOp::Settle(Box::new(Settle {
            looked: None,
            runner: runner(&node, &start),
            lease,
            items: outcomes.clone(),
            files: 0,
            bytes: 0,
            trouble: None,
            cut: false,
        })));
        let Some(effect) = effect else {
            // The node will repeat the command.
            return;
        };
        if let Effect::Settled { items: settled } = effect {
            let all = settled == outcomes.len() as u64;
            assert!(all || settled == 0, "half of a lease was settled");
            for (item, reported) in items.iter().zip(&outcomes) {
                if all && reported.outcome != (Settlement::Back {}) && !is_close(item) {
                    self.settled += 1;
                    let identity = format!("{:?}", item.task);
                    assert!(
                        self.once.insert(identity),
                        "{:?} was settled twice",
                        item.task
                    );
                }
            }
        }
        self.nodes[at].held = None;
    }

    /// Does the task of an item. Returns the finds that its scan leaves to others.
    fn bring(&mut self, item: &WorkItem) -> Vec<(u64, Found)> {
        let text = |path: &WorkPath| String::from_utf8(path.0.clone()).expect("text");
        match &item.task {
            Task::Scan {
                path,
                share,
                shares,
            } => self
                .scan(&text(path), *share, *shares)
                .into_iter()
                .map(|find| (item.number, find))
                .collect(),
            Task::Part {
                path,
                offset,
                bytes,
                ..
            } => {
                self.parts.insert((text(path), *offset), *bytes);
                Vec::new()
            }
            Task::Assemble { path, parts, .. } => {
                let path = text(path);
                let mut end = 0;
                for part in parts {
                    assert_eq!((part.offset, part.digest.as_str()), (end, "digest"));
                    assert!(self.parts.contains_key(&(path.clone(), part.offset)));
                    end += part.bytes;
                }
                assert_eq!(
                    Some(&end),
                    self.tree.files().get(&path),
                    "parts are missing"
                );
                self.delivered.insert(path);
                Vec::new()
            }
            Task::Close {} => vec![(item.number, close(3))],
            Task::Region {
                flat: false,
                shares: 3,
                ..
            } => vec![(item.number, close(2))],
            Task::Region {
                flat, path, shares, ..
            } => {
                let open = self.read().expect("it has not ended").closes;
                let is_last = *flat && path.0.is_empty() && *shares == 1;
                assert_eq!(is_last, open == 1, "what is around a region comes after it");
                Vec::new()
            }
        }
    }

    fn scan(&mut self, path: &str, share: u32, shares: u32) -> Vec<Found> {
        let directory = &self.tree.0[path];
        let entries = directory.directories.len() + directory.files.len();
        let scan = |path: &str, shares| Found::Scan {
            path: path.into(),
            shares,
        };
        if shares == 1 && entries > ENTRIES_MAX {
            return vec![scan(path, 3)];
        }
        let is_ours = |path: &str| share_of(path, shares) == share;
        let mut found = Vec::new();
        for below in directory.directories.iter().filter(|path| is_ours(path)) {
            found.push(scan(below, 1));
        }
        for (file, bytes) in directory.files.iter().filter(|(path, _)| is_ours(path)) {
            if *bytes > PART {
                found.push(Found::File {
                    path: file.as_str().into(),
                    bytes: *bytes,
                    generation: 1,
                });
            } else {
                self.delivered.insert(file.clone());
            }
        }
        found
    }

    fn outcome(&mut self, item: &WorkItem) -> Settled {
        let outcome = if self.seeded.one_in(10) {
            Settlement::Back {}
        } else {
            match &item.task {
                Task::Part { .. } => Settlement::Done {
                    digest: Some("digest".to_owned()),
                },
                // The close has left all of its region to others.
                Task::Close {}
                | Task::Region {
                    flat: false,
                    shares: 3,
                    ..
                } => Settlement::Back {},
                Task::Region { .. } => Settlement::Closed(Box::new(Closed {
                    root: item.root,
                    files: 3,
                    bytes: 30,
                    summary: "{}".to_owned(),
                    failures: Vec::new(),
                })),
                _ => Settlement::Done { digest: None },
            }
        };
        Settled {
            number: item.number,
            outcome,
        }
    }

    fn run(&mut self, seed: u64) {
        let submit = Op::Submit(Box::new(new_job(&self.job)));
        assert!(self.apply(submit).is_some());
        // The command is refused if an earlier simulation has raised the level.
        self.apply(Op::Level(FEATURE_LEVEL));
        for step in 0.. {
            assert!(step < STEPS_MAX, "seed {seed}: it does not end");
            // Faults stop, so that the work can end.
            let trouble = step < 400;
            if !self.controller {
                self.control();
            }
            match self.seeded.below(40) {
                0 if trouble => self.lose_controller(),
                1 if trouble => {
                    let at = self.node();
                    self.crash(at);
                }
                2 if trouble => {
                    let node = self.node();
                    let node = self.nodes[node].name.clone();
                    self.work(WorkOp::Return { node });
                }
                3..=8 if !self.late.is_empty() => {
                    let at = self.seeded.below(self.late.len() as u64);
                    let op = self.late.swap_remove(usize::try_from(at).expect("small"));
                    // The controller proposes nothing new before the state has applied its last command.
                    if !matches!(op, Op::Work(_, WorkOp::Pairs(_))) {
                        self.apply(op);
                    }
                }
                9..=12 => {
                    if self.read().is_some_and(|work| !work.targets.is_fenced()) {
                        self.pair();
                    }
                }
                _ => {
                    let at = self.node();
                    self.step(at);
                }
            }
            if step % 16 == 0 && self.read().is_some_and(|work| work.is_done()) {
                break;
            }
        }
        let work = self.read().expect("it has not ended");
        let all: BTreeSet<String> = self.tree.files().into_keys().collect();
        assert_eq!(self.delivered, all, "seed {seed}");
        let counts = work.counts;
        // The tree, its three shares, and two shares of each.
        assert_eq!(work.closed[0].files, 3 * (1 + 3 + 6), "seed {seed}");
        let settled = counts.scans + counts.parts + counts.assembled + work.closed.len() as u64;
        assert!(
            settled >= self.settled,
            "seed {seed}: {counts:?} {}",
            self.settled
        );
        let mut large = self.tree.files();
        large.retain(|_, bytes| *bytes > PART);
        let part = PART.next_power_of_two();
        let parts: u64 = large.values().map(|bytes| bytes.div_ceil(part)).sum();
        assert_eq!(counts.parts, parts, "seed {seed}");
        assert_eq!(counts.assembled, large.len() as u64, "seed {seed}");
        let scans: usize = self
            .tree
            .0
            .values()
            .map(|directory| {
                let entries = directory.directories.len() + directory.files.len();
                if entries > ENTRIES_MAX { 4 } else { 1 }
            })
            .sum();
        assert_eq!(counts.scans, scans as u64, "seed {seed}");
        assert_eq!(
            (work.closed.len(), counts.scans_failed, counts.parts_left),
            (1, 0, 0)
        );
        let reader = self.reader;
        assert_eq!(
            Works(reader).items(&self.job).expect("read"),
            0,
            "seed {seed}"
        );
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.seeded.below(NODES)).expect("small")
    }
}

#[test]
fn nothing_is_lost_or_settled_twice_whatever_crashes_and_repeats() {
    let seeds =
        std::env::var("GODWIT_SEEDS").map_or(SEEDS, |seeds| seeds.parse().expect("a number"));
    let memory = std::path::Path::new("/dev/shm");
    let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let mut store = Store::open(&directory.path().join("state.db")).expect("open");
    let reader = Reader::new(store.file().to_owned());
    let mut index = 0;
    for seed in 0..seeds {
        let mut seeded = Seeded(seed);
        let tree = Tree::new(&mut seeded);
        let node = |number| Node {
            name: format!("node{number}"),
            start: 0,
            held: None,
            unreported: Vec::new(),
        };
        let mut world = World {
            seeded,
            store: &mut store,
            reader: &reader,
            index,
            job: format!("job{seed}"),
            epoch: 0,
            controller: false,
            tree,
            nodes: (0..NODES).map(node).collect(),
            late: Vec::new(),
            delivered: BTreeSet::new(),
            parts: BTreeMap::new(),
            settled: 0,
            once: BTreeSet::new(),
        };
        world.run(seed);
        index = world.index;
        // The next job does not see the work of an ended job.
        let end = super::finish(world.epoch, super::Outcome::Complete);
        world.apply(Op::Job(world.job.clone(), end));
        index += 1;
    }
}
