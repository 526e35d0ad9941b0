//! Tests reports between nodes: which accounts of a machine the leader takes into a row, and which ages of nodes others take from a leader.
//! The state does not choose the accounts here. See `state/tests/hostile.rs` for a state that does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_api::ask::{Announce, AnswerCluster as _, ClusterAnswer, ClusterQuestion, KnownNode};
use godwit_api::rest::NodeResources;
use godwit_state::{
    Actor, Change, Command, LEVEL_MEMBERS, Node, Op, Options, Replica, Role, Timestamp, User,
};
use godwit_worlds::Nowhere;

use super::{Announcing, beat};
use crate::{Cluster, ClusterConfig, ClusterHome};

const LEVEL: u32 = LEVEL_MEMBERS - 1;

fn now() -> Timestamp {
    Timestamp(1_800_000_000_000)
}

fn row(name: &str, number: u64) -> Node {
    Node {
        name: name.to_owned(),
        number,
        identity: format!("gw1-{name}"),
        addresses: Vec::new(),
        exports: Vec::new(),
        version: "0.1.0".to_owned(),
        level: LEVEL,
        draining: false,
        voter: false,
        joined: now(),
        admins: Vec::new(),
    }
}

/// The leader of a cluster below the level from which the state itself ignores accounts, and its log.
fn leader(directory: &Path) -> (Cluster, Arc<Mutex<Vec<String>>>) {
    let replica = Replica::open(Options {
        free_bytes_min: 0,
        ..Options::new(directory.join("state"))
    });
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&lines);
    let cluster = Cluster::new(ClusterConfig {
        replica: Arc::new(replica.expect("open")),
        home: ClusterHome::of_one("gw1-node1"),
        directory: directory.to_owned(),
        identity: "gw1-node1".to_owned(),
        exports: Vec::new(),
        watched: BTreeMap::new(),
        admins: vec!["root".to_owned()],
        version: "0.1.0".to_owned(),
        level: LEVEL,
        sites: Arc::new(Nowhere),
        now,
        left_behind: Arc::new(|_| {}),
        resources: Arc::new(NodeResources::default),
        look: Arc::new(BTreeMap::new),
        log: Arc::new(move |line| log.lock().expect("a lock").push(line.to_owned())),
    });
    (cluster, lines)
}

#[test]
fn a_node_takes_no_ages_of_nodes_that_have_no_row() {
    let directory = tempfile::tempdir().expect("a directory");
    let (cluster, _) = leader(directory.path());
    let shared = &cluster.shared;
    for row in [row("node1", 1), row("dtn2", 7), row("dtn3", 8)] {
        let op = Op::Node(Change::Put(row));
        let command = Command::new(now(), Actor::node("node1"), op);
        let done = shared.config.replica.propose_blocking(command);
        done.expect("done");
    }
    Announcing::new(shared).note_ages("gw1-dtn2", &[(1, 5), (8, 5), (99, 5)]);
    let mut known = shared.live.lock().ages(Instant::now());
    known.sort_unstable();
    let numbers: Vec<u64> = known.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [7, 8], "the leader, and the node that it named");
}

#[test]
fn the_leader_takes_no_user_for_an_account_below_the_level_of_the_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let (cluster, lines) = leader(directory.path());
    let replica = &cluster.shared.config.replica;
    let user = |name: &str, role| {
        Op::User(Change::Create(User {
            name: name.to_owned(),
            role,
            password: None,
            disabled: false,
        }))
    };
    for op in [
        Op::Level(LEVEL),
        user("carol", Role::Admin),
        user("vera", Role::Viewer),
        Op::Node(Change::Put(row("node1", 1))),
        Op::Node(Change::Put(row("dtn2", 7))),
    ] {
        let command = Command::new(now(), Actor::node("node1"), op);
        replica.propose_blocking(command).expect("done");
    }
    // The first beat of a leader forgets what it heard before.
    beat(&cluster.shared).expect("a beat");
    for (reported, admitted) in [
        (["carol", "svc"], vec!["svc"]),
        (["root", "vera"], vec!["root"]),
        (["root", "svc"], vec!["root", "svc"]),
    ] {
        let said = Announce {
            of: cluster.id().to_owned(),
            node: KnownNode {
                name: "dtn2".to_owned(),
                number: 7,
                identity: "gw1-dtn2".to_owned(),
                addresses: Vec::new(),
            },
            exports: Vec::new(),
            version: "0.1.0".to_owned(),
            level: LEVEL,
            resources: NodeResources::default(),
            observations: BTreeMap::new(),
            admins: reported.map(ToOwned::to_owned).to_vec(),
            problem: None,
        };
        let question = ClusterQuestion::Announce(Box::new(said));
        let answer = cluster.answer("gw1-dtn2", question).expect("heard");
        assert!(matches!(
            answer,
            ClusterAnswer::Announced { leads: true, .. }
        ));
        beat(&cluster.shared).expect("a beat");
        let row: Option<Node> = replica.reader().object("dtn2").expect("read");
        assert_eq!(row.expect("a row").admins, admitted, "{reported:?}");
        let logged = std::mem::take(&mut *lines.lock().expect("a lock"));
        let mut logged = logged.iter();
        let is_logged = logged.any(|line| line.contains("these accounts are ignored"));
        assert_eq!(is_logged, admitted.len() < reported.len(), "{reported:?}");
    }
}
