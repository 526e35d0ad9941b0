//! Tests the bounds of the fields that a joining node chooses, and the proof that it has the secret of an invitation.
//! See `members` for invitations.

mod support;

use godwit_state::{
    Actor, Agreed, Change, Command, CommandError, Effect, FEATURE_LEVEL, Invite, Join, Node, Op,
    PROPOSE, ProposeError, Role, Secret,
};
use serde_json::Value;
use support::air::{Cluster, address, wait_until};
use support::at;
use support::nodes::{actor, node, say, three};

type Edit = fn(&mut Node, String);

/// A valid invitation admits a node, but no text of unbounded length.
#[test]
fn each_field_of_a_join_is_bounded() {
    let cluster = Cluster::of_one();
    let node_alone = &cluster.nodes[&1];
    let propose = |op| node_alone.propose_blocking(Command::new(at(0), Actor::node("node1"), op));
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("good"),
        expires: at(1_000),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    // The level in the node's row.
    propose(Op::Level(3)).expect("raised");
    propose(Op::Invite(Change::Create(invite))).expect("invited");
    let index = node_alone.applied_index();
    let join = |change: Edit, text: &str| {
        let mut row = Node {
            addresses: Vec::new(),
            admins: Vec::new(),
            ..node("c", 0)
        };
        change(&mut row, text.to_owned());
        propose(Op::Join(Box::new(Join {
            hash: Secret::new("good"),
            secret: None,
            node: row,
        })))
    };
    let fields: [(&str, Edit); 4] = [
        ("name", |row, text| row.name = text),
        ("version", |row, text| row.version = text),
        ("identity", |row, text| row.identity = text),
        ("exports", |row, text| row.exports = vec![text]),
    ];
    let long = "x".repeat(10_000);
    for (field, change) in fields {
        for text in [&long, &long[..256], "", "a\u{7}"] {
            let refused = join(change, text).expect_err(field);
            let ProposeError::Refused(CommandError::Invalid { field: named, .. }) = &refused else {
                panic!("{field} {text:?}: {refused}");
            };
            assert_eq!(named, field, "{text:?}");
        }
    }
    let refused = join(|row, text| row.addresses = vec![text], &long).expect_err("refused");
    assert!(matches!(refused, ProposeError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("addresses"), "{refused}");
    assert_eq!(node_alone.applied_index(), index, "nothing is in the log");
    join(|_, _| (), "").expect("joined");
}

/// The secret of an invitation, in the form of a real one.
const SECRET: &str = "mzxw6ytboi2dgnrxhezteojqgezdgnbv";

/// A join with the digest of that invitation, which each member reads in the state.
fn join(secret: Option<&str>) -> Op {
    Op::Join(Box::new(Join {
        hash: Invite::hash_of(SECRET),
        secret: secret.map(Secret::new),
        node: Node {
            addresses: Vec::new(),
            admins: Vec::new(),
            level: FEATURE_LEVEL,
            ..node("d", 0)
        },
    }))
}

/// Whether a file of the state of this node contains the text.
fn stores(cluster: &Cluster, number: u64, text: &str) -> bool {
    let directory = cluster.homes.path().join(address(number));
    let mut files = std::fs::read_dir(directory).expect("a state");
    files.any(|file| {
        let content = std::fs::read(file.expect("a file").path()).expect("read");
        content
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[test]
fn a_member_passes_a_join_on_only_with_the_secret_which_no_node_stores() {
    let cluster = three();
    let leader = cluster.leader(&[1, 2, 3]);
    let leads = &cluster.nodes[&leader];
    let rows: Vec<Node> = leads.reader().objects().expect("rows");
    let name = |number: u64| {
        let row = rows.iter().find(|row| row.number == number);
        row.expect("a row").name.clone()
    };
    let by_leader = |actor: Actor, op: Op| {
        let command = Command::new(at(0), actor, op);
        leads.propose_blocking(command).expect("done");
    };
    for row in rows.clone() {
        let level = FEATURE_LEVEL;
        let put = Op::Node(Change::Put(Node { level, ..row }));
        by_leader(Actor::node(name(leader)), put);
    }
    by_leader(Actor::node(name(leader)), Op::Level(FEATURE_LEVEL));
    let invite = Invite {
        id: "i".to_owned(),
        hash: Invite::hash_of(SECRET),
        expires: at(1_000),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    let ada = actor("ada", Some(Role::Admin), leader);
    by_leader(ada, Op::Invite(Change::Create(invite)));
    let mut others = (1..=3).filter(|number| *number != leader);
    let (mallory, honest) = (others.next(), others.next());
    let (mallory, honest) = (mallory.expect("another"), honest.expect("a third"));
    let before = leads.applied_index();
    let digest = Invite::hash_of(SECRET);
    for secret in [None, Some("guessed"), Some(digest.expose())] {
        let command = Command::new(at(1), Actor::node(name(mallory)), join(secret));
        let command = serde_json::to_value(command).expect("JSON");
        let answer = say(leads, mallory, PROPOSE, &command).expect("an answer");
        let refused: Value = serde_json::from_slice(&answer).expect("JSON");
        let why = refused["refused"]["denied"].to_string();
        assert!(why.contains("without the secret"), "{refused}");
    }
    assert_eq!(leads.applied_index(), before, "nothing is in the log");
    // The node that made the invitation has the secret from the joining one.
    let follower = &cluster.nodes[&honest];
    wait_until("it has the invitation and the level", || {
        let reader = follower.reader();
        let invites: Vec<Invite> = reader.objects().expect("read");
        let level = Agreed(&reader).level().expect("read");
        level == FEATURE_LEVEL && invites.len() == 1
    });
    let command = Command::new(at(1), Actor::node(name(honest)), join(Some(SECRET)));
    let joined = follower.propose_blocking(command).expect("joined");
    let is_joined = matches!(&joined.effect, Effect::Joined { name, .. } if name == "d");
    assert!(is_joined, "{joined:?}");
    // The leader takes it from the joining node itself.
    let command = Command::new(at(1), Actor::node(name(leader)), join(Some(SECRET)));
    leads.propose_blocking(command).expect("the same node");
    for number in 1..=3 {
        wait_until("the join is stored", || {
            let row = cluster.nodes[&number].reader().object::<Node>("d");
            row.expect("read").is_some()
        });
        assert!(stores(&cluster, number, digest.expose()), "{number}");
        assert!(!stores(&cluster, number, SECRET), "{number}");
    }
}
