//! Tests the bounds of the fields that a joining node chooses.
//! See `members` for invitations.

mod support;

use godwit_state::{
    Actor, Change, Command, CommandError, Invite, Join, Node, Op, ProposeError, Secret,
};
use support::air::Cluster;
use support::at;
use support::nodes::node;

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
