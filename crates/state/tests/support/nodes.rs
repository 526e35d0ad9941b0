//! Owns the nodes and users of the tests about the rights of cluster members.
//! Tests nothing itself.

use godwit_state::{
    Actor, Change, Command, CommandError, Members, NewJob, Node, Op, Replica, Role, Secret,
    Timestamp, Token, User,
};
use serde_json::Value;

use super::air::{Cluster, address, wait_until};
use super::state::State;
use super::{at, new_job};

pub(crate) fn node(name: &str, number: u64) -> Node {
    Node {
        name: name.to_owned(),
        number,
        identity: format!("gw1-{name}"),
        addresses: vec![address(number)],
        exports: Vec::new(),
        version: "0.1.0".to_owned(),
        level: 3,
        draining: false,
        voter: false,
        joined: Timestamp(0),
        admins: vec!["root".to_owned(), "godwit".to_owned()],
    }
}

pub(crate) fn user(name: &str, role: Role) -> User {
    User {
        name: name.to_owned(),
        role,
        password: Some(Secret::new("hash")),
        disabled: false,
    }
}

pub(crate) fn token(user: &str, role: Role) -> Op {
    Op::Token(Change::Create(Token {
        id: format!("t-{user}-{}", role.name()),
        user: user.to_owned(),
        hash: Secret::new(format!("hash-{user}-{}", role.name())),
        scope: String::new(),
        role,
        created: at(0),
        expires: None,
        revoked: None,
        last_digits: String::new(),
        comment: String::new(),
    }))
}

pub(crate) fn actor(name: &str, role: Option<Role>, via: u64) -> Actor {
    Actor {
        name: name.to_owned(),
        role,
        via: Some(via),
        ..Actor::default()
    }
}

pub(crate) fn job(id: &str, owner: &str) -> NewJob {
    NewJob {
        owner: owner.to_owned(),
        ..new_job(id)
    }
}

pub(crate) fn submit(id: &str, owner: &str) -> Op {
    Op::Submit(Box::new(job(id, owner)))
}

/// A state of the nodes a (1) and b (2), and of a user of each role.
pub(crate) fn two_nodes() -> State {
    let mut state = State::new();
    for row in [node("a", 1), node("b", 2)] {
        let bare = Node {
            admins: Vec::new(),
            ..row
        };
        state.op(0, Op::Node(Change::Put(bare))).expect("a node");
    }
    state.op(0, Op::Level(3)).expect("all know it");
    for row in [node("a", 1), node("b", 2)] {
        state.op(0, Op::Node(Change::Put(row))).expect("a node");
    }
    for (name, role) in [
        ("vera", Role::Viewer),
        ("otto", Role::Operator),
        ("ada", Role::Admin),
    ] {
        let user = Op::User(Change::Create(user(name, role)));
        state.op(0, user).expect("a user");
    }
    state
}

/// Three replicas with rows, at the level that supports origins.
pub(crate) fn three() -> Cluster {
    let mut cluster = Cluster::of_one();
    let first = &cluster.nodes[&1];
    let propose = |op| {
        let command = Command::new(at(0), Actor::node("a"), op);
        first.propose_blocking(command).expect("done");
    };
    propose(Op::User(Change::Create(user("ada", Role::Admin))));
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        let bare = Node {
            admins: Vec::new(),
            ..node(name, number)
        };
        propose(Op::Node(Change::Put(bare)));
    }
    propose(Op::Level(3));
    cluster.grow(&[2, 3]);
    cluster
}

/// Sends a message to a voter as the node with the number `from`, which may differ from the voter's
/// number.
pub(crate) fn say(
    to: &Replica,
    from: u64,
    kind: &str,
    message: &Value,
) -> std::io::Result<Vec<u8>> {
    let mut own = None;
    wait_until("it is a voter, as it knows", || {
        let mut members = Members(to).all().into_iter();
        own = members.find_map(|(number, member)| {
            // A replica recognises that a message is for another number.
            let wrong = to.answer(from, number, "probe", b"null");
            let is_own = wrong.is_err_and(|error| error.kind() != std::io::ErrorKind::NotConnected);
            (member.votes && is_own).then_some(number)
        });
        own.is_some()
    });
    let message = serde_json::to_vec(message).expect("JSON");
    to.answer(from, own.expect("a number"), kind, &message)
}

#[track_caller]
pub(crate) fn denied(state: &mut State, actor: Actor, op: Op, part: &str) {
    let shown = format!("{actor:?} {op:?}");
    match state.apply(&Command::new(at(1), actor, op)) {
        Err(CommandError::Denied { what }) => {
            assert!(what.contains(part), "{shown}: {what}");
        }
        other => panic!("{shown}: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn done(state: &mut State, actor: Actor, op: Op) {
    let shown = format!("{actor:?} {op:?}");
    let done = state.apply(&Command::new(at(1), actor, op));
    assert!(done.is_ok(), "{shown}: {done:?}");
}
