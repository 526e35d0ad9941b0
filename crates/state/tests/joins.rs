//! Tests the bounds of the fields that a joining node chooses.
//! See `members` for invitations.

mod support;

use godwit_state::{
    Actor, Change, Command, CommandError, Invite, Join, Node, Op, ProposeError, Secret,
};
use support::air::Cluster;
use support::at;
use support::nodes::node;
use support::state::State;

#[test]
fn a_join_has_no_field_that_is_too_long() {
    let cluster = Cluster::of_one();
    let node_alone = &cluster.nodes[&1];
    let propose = |op| node_alone.propose_blocking(Command::new(at(0), Actor::node("node1"), op));
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("good"),
        expires: at(1_000),
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    // That of the row.
    propose(Op::Level(3)).expect("raised");
    propose(Op::Invite(Change::Create(invite))).expect("invited");
    let index = node_alone.applied_index();
    let long = || "x".repeat(10_000);
    let join = |change: &dyn Fn(&mut Node)| {
        let mut row = Node {
            addresses: Vec::new(),
            admins: Vec::new(),
            ..node("c", 0)
        };
        change(&mut row);
        propose(Op::Join(Box::new(Join {
            hash: Secret::new("good"),
            node: row,
        })))
    };
    type Edit<'a> = &'a dyn Fn(&mut Node);
    let fields: [(&str, Edit<'_>); 5] = [
        ("name", &|row| row.name = long()),
        ("version", &|row| row.version = long()),
        ("identity", &|row| row.identity = long()),
        ("exports", &|row| row.exports = vec![long()]),
        ("addresses", &|row| row.addresses = vec![long()]),
    ];
    for (field, change) in fields {
        let error = join(change).expect_err("refused");
        assert!(
            matches!(error, ProposeError::Refused(_)),
            "{field}: {error}"
        );
        assert!(error.to_string().contains(field), "{error}");
    }
    assert_eq!(node_alone.applied_index(), index, "nothing is in the log");
    join(&|_| {}).expect("joined");
}

/// A good invitation lets a node in, and nothing of unbounded length with it.
#[test]
fn each_field_of_a_join_is_bounded() {
    let mut state = State::new();
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("good"),
        expires: at(1_000),
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    state
        .op(0, Op::Invite(Change::Create(invite)))
        .expect("invited");
    let joining = || Node {
        addresses: Vec::new(),
        admins: Vec::new(),
        ..node("b", 0)
    };
    let join = |node: Node| {
        Op::Join(Box::new(Join {
            hash: Secret::new("good"),
            node,
        }))
    };
    let long = || "x".repeat(256);
    type Field = (&'static str, fn(&mut Node, String));
    let fields: [Field; 4] = [
        ("name", |node, text| node.name = text),
        ("identity", |node, text| node.identity = text),
        ("version", |node, text| node.version = text),
        ("exports", |node, text| node.exports = vec![text]),
    ];
    for (field, set) in fields {
        for text in [long(), String::new(), "a\u{7}".to_owned()] {
            let mut node = joining();
            set(&mut node, text.clone());
            let refused = state.op(1, join(node)).expect_err(field);
            let CommandError::Invalid { field: named, .. } = &refused else {
                panic!("{field} {text:?}: {refused}");
            };
            assert_eq!(named, field, "{text:?}");
        }
    }
}
