//! Owns replicas over an in-memory carrier, with partitions between them.
//! Tests nothing itself.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use godwit_state::{
    Actor, Answer, Change, Command, Gate, Members, Op, Options, Peers, Replica, Site, Timestamp,
};
use tempfile::TempDir;

use super::at;

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// All replicas by address, and the group of each replica outside the first group. No message passes between groups.
#[derive(Clone, Debug, Default)]
struct Air {
    replicas: Arc<Mutex<BTreeMap<String, Weak<Replica>>>>,
    groups: Arc<Mutex<HashMap<String, u64>>>,
}

/// The carrier of one replica.
#[derive(Debug)]
struct Carrier {
    air: Air,
    own: String,
    from: u64,
}

impl Peers for Carrier {
    fn call(
        &self,
        number: u64,
        address: &str,
        kind: &'static str,
        message: Vec<u8>,
        _: Duration,
    ) -> Answer {
        let groups = self.air.groups.lock().expect("a lock");
        let is_cut = groups.get(&self.own) != groups.get(address);
        let to = self.air.replicas.lock().expect("a lock");
        let to = to.get(address).and_then(Weak::upgrade).filter(|_| !is_cut);
        let from = self.from;
        Box::pin(async move {
            let to = to.ok_or(io::ErrorKind::NotConnected)?;
            tokio::task::spawn_blocking(move || to.answer(from, number, kind, &message))
                .await
                .map_err(io::Error::other)?
        })
    }
}

/// Some replicas, with the directories of their states.
pub(crate) struct Cluster {
    air: Air,
    pub(crate) homes: TempDir,
    /// Free space that replicas need.
    free_bytes_min: u64,
    pub(crate) nodes: BTreeMap<u64, Arc<Replica>>,
    /// The gates of all nodes.
    pub(crate) gates: BTreeMap<u64, Gate>,
}

pub(crate) fn address(number: u64) -> String {
    format!("node-{number}")
}

impl Cluster {
    pub(crate) fn of_one() -> Self {
        Self::of_one_in(tempfile::tempdir().expect("a directory"), 0)
    }

    pub(crate) fn of_one_in(homes: TempDir, free_bytes_min: u64) -> Self {
        let mut cluster = Self {
            air: Air::default(),
            homes,
            free_bytes_min,
            nodes: BTreeMap::new(),
            gates: BTreeMap::new(),
        };
        cluster.open(1);
        cluster
    }

    pub(crate) fn open(&mut self, number: u64) {
        self.open_at(number, address(number));
    }

    /// Opens a replica at an address. Another replica may have had this address before.
    pub(crate) fn open_at(&mut self, number: u64, own: String) {
        let gate = Gate::default();
        self.gates.insert(number, gate.clone());
        let options = Options {
            gate,
            voter: number,
            address: own.clone(),
            joins: number != 1,
            free_bytes_min: self.free_bytes_min,
            peers: Arc::new(Carrier {
                air: self.air.clone(),
                own: own.clone(),
                from: number,
            }),
            now: || at(0),
            zone_trouble: |name| (name == "Nowhere/Land").then(|| "it is not known".to_owned()),
            ..Options::new(self.homes.path().join(&own))
        };
        let replica = Arc::new(Replica::open(options).expect("a replica"));
        let mut replicas = self.air.replicas.lock().expect("a lock");
        replicas.insert(own, Arc::downgrade(&replica));
        self.nodes.insert(number, replica);
    }

    /// Ends a replica like a kill, without finishing any work. Waits until its files are closed, as after the end of a process. SQLite
    /// removes its log by the name when a connection closes. A late close in this process would remove the log of a new state with that
    /// name. Readers of that state would get error 522 (a short read).
    pub(crate) fn kill(&mut self, number: u64) {
        let replica = self.nodes.remove(&number).expect("a node");
        let mut left = Some(replica);
        wait_until("nobody speaks to it any more", || {
            match Arc::try_unwrap(left.take().expect("a node")) {
                Ok(replica) => {
                    drop(replica);
                    true
                }
                Err(shared) => {
                    left = Some(shared);
                    false
                }
            }
        });
        let home = self.homes.path().join(address(number));
        let home = std::fs::canonicalize(home).expect("a directory");
        wait_until("its files are closed", || {
            let open = std::fs::read_dir("/proc/self/fd").expect("a list");
            let mut files = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
            !files.any(|file| file.starts_with(&home))
        });
    }

    /// Disconnects each of these from all other replicas.
    pub(crate) fn cut(&self, numbers: &[u64]) {
        let mut groups = self.air.groups.lock().expect("a lock");
        let alone = numbers.iter().map(|number| (address(*number), *number));
        *groups = alone.collect();
    }

    /// Disconnects these from all others, but not from each other.
    pub(crate) fn part(&self, numbers: &[u64]) {
        let mut groups = self.air.groups.lock().expect("a lock");
        *groups = numbers.iter().map(|number| (address(*number), 1)).collect();
    }

    pub(crate) fn leader(&self, among: &[u64]) -> u64 {
        let mut found = None;
        wait_until("a leader", || {
            found = among.iter().copied().find(|number| {
                self.nodes[number].readiness().check().is_ok() && self.nodes[number].is_leader()
            });
            found.is_some()
        });
        found.expect("a leader")
    }

    /// Opens more replicas, and makes the leader add them.
    pub(crate) fn grow(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.open(*number);
            let members = Members(&self.nodes[&1]);
            members.put(1, &address(1)).expect("an address");
            members.put(*number, &address(*number)).expect("a learner");
        }
        let all: Vec<u64> = self.nodes.keys().copied().collect();
        wait_until("all have what the leader has", || {
            let members = Members(&self.nodes[&1]).all();
            let last = self.nodes[&1].applied_index();
            all.iter()
                .all(|number| *number == 1 || members[number].matched.is_some_and(|at| at >= last))
        });
        Members(&self.nodes[&1]).vote(all).expect("voters");
    }

    pub(crate) fn sites(&self, number: u64) -> Vec<String> {
        let sites = self.nodes[&number].reader().objects::<Site>();
        sites
            .expect("sites")
            .into_iter()
            .map(|site| site.name)
            .collect()
    }
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn command(op: Op) -> Command {
    Command::new(Timestamp(1_000), Actor::node("test"), op)
}

pub(crate) fn site(name: &str) -> Command {
    command(Op::Site(Change::Put(Site {
        name: name.to_owned(),
        addresses: vec!["host:7272".to_owned()],
        identity: format!("gw1-{name}"),
        comment: String::new(),
        nodes: Vec::new(),
    })))
}
