//! Tests how long an invitation admits a node: it ends with the user and the tokens that made it.
//! `members` tests its end with a node, and `joins` the fields of the joining node.

mod support;

use godwit_state::{
    Agreed, AuditFilter, Change, Command, FEATURE_LEVEL, Invite, Join, LEVEL_INVITES, Node, Op,
    Role, Secret, Token, User,
};
use support::at;
use support::nodes::{actor, done, node, token, two_nodes, user};
use support::state::State;

fn join(hash: &str, name: &str) -> Op {
    Op::Join(Box::new(Join {
        hash: Secret::new(hash),
        secret: None,
        node: Node {
            addresses: Vec::new(),
            admins: Vec::new(),
            level: FEATURE_LEVEL,
            ..node(name, 0)
        },
    }))
}

fn row(tokens: &[&str]) -> Invite {
    Invite {
        id: "i".to_owned(),
        hash: Secret::new("hash-i"),
        expires: at(1_000),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: tokens.iter().map(|id| (*id).to_owned()).collect(),
    }
}

fn invite(tokens: &[&str]) -> Op {
    Op::Invite(Change::Create(row(tokens)))
}

/// A cluster with an invitation that this admin made.
fn invited(by: &str, tokens: &[&str]) -> State {
    let mut state = two_nodes();
    for row in [node("a", 1), node("b", 2)] {
        let level = FEATURE_LEVEL;
        let put = Op::Node(Change::Put(Node { level, ..row }));
        state.op(0, put).expect("a node");
    }
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("all know it");
    let other = Op::User(Change::Create(user("eve", Role::Admin)));
    state.op(0, other).expect("a user");
    state.op(0, token("ada", Role::Admin)).expect("a token");
    state.op(0, token("eve", Role::Admin)).expect("a token");
    done(&mut state, actor(by, Some(Role::Admin), 1), invite(tokens));
    state
}

fn joined(state: &mut State) -> Result<(), String> {
    joined_by(state, "hash-i")
}

fn joined_by(state: &mut State, hash: &str) -> Result<(), String> {
    let by_a = actor("a", None, 1);
    let joined = state.apply(&Command::new(at(50), by_a, join(hash, "c")));
    joined.map(drop).map_err(|error| error.to_string())
}

const BOTH: [&str; 2] = ["t-ada-admin", "t-eve-admin"];

#[test]
fn an_invitation_is_good_while_its_makers_are_admins() {
    for (by, tokens) in [("ada", &BOTH[..]), ("ada", &[]), ("root", &[])] {
        let mut state = invited(by, tokens);
        assert_eq!(joined(&mut state), Ok(()), "{by} {tokens:?}");
        // The answer may have been lost, but the node has joined.
        let gone = Op::User(Change::Remove("ada".to_owned()));
        state.op(2, gone).expect("removed");
        assert_eq!(joined(&mut state), Ok(()), "{by} {tokens:?}");
    }
    // An account of a machine is an admin there, even if its row is disabled.
    let mut state = invited("root", &[]);
    let row = |disabled| User {
        disabled,
        password: None,
        ..user("root", Role::Admin)
    };
    let root = || actor("root", Some(Role::Admin), 1);
    done(&mut state, root(), Op::User(Change::Create(row(false))));
    done(&mut state, root(), Op::User(Change::Put(row(true))));
    assert_eq!(joined(&mut state), Ok(()));
}

#[test]
fn an_invitation_ends_with_its_user_and_its_tokens() {
    let put = |user: User| Op::User(Change::Put(user));
    let removed = |name: &str| Op::User(Change::Remove(name.to_owned()));
    for (name, tokens) in [("ada", &[][..]), ("ada", &BOTH), ("eve", &BOTH)] {
        let disabled = User {
            disabled: true,
            ..user(name, Role::Admin)
        };
        for end in [
            removed(name),
            put(disabled),
            put(user(name, Role::Operator)),
        ] {
            let mut state = invited("ada", tokens);
            state.op(2, end.clone()).expect("changed");
            assert!(joined(&mut state).is_err(), "{end:?} {tokens:?}");
        }
    }
    let mut state = invited("ada", &[]);
    state.op(2, removed("ada")).expect("removed");
    let again = Op::User(Change::Create(user("ada", Role::Admin)));
    state.op(3, again).expect("a later user of the name");
    let said = joined(&mut state).expect_err("ended");
    assert!(said.contains("the invitation ended at"), "{said}");
    for id in BOTH {
        let mut state = invited("ada", &BOTH);
        let end = Op::Token(Change::Remove(id.to_owned()));
        state.op(2, end).expect("revoked");
        let said = joined(&mut state).expect_err("ended");
        assert!(said.contains("the invitation ended at"), "{id}: {said}");
        assert_eq!(stored(&state).ended, Some(at(2)), "{id}");
    }
}

fn stored(state: &State) -> Invite {
    let row: Option<Invite> = state.reader.object("i").expect("read");
    row.expect("a row")
}

fn revoked() -> Op {
    Op::Invite(Change::Remove("i".to_owned()))
}

#[test]
fn a_revoked_invitation_admits_no_node_whatever_the_clock_says() {
    let mut state = invited("ada", &[]);
    let agreed = |state: &State, time: i64| {
        let admits = Agreed(&state.reader).admits(&stored(state), at(time));
        admits.expect("read")
    };
    assert!(agreed(&state, 50));
    let by_operator = actor("otto", Some(Role::Operator), 1);
    let refused = state.apply(&Command::new(at(60), by_operator, revoked()));
    assert!(refused.is_err(), "an operator revokes nothing");
    let eve = actor("eve", Some(Role::Admin), 1);
    for time in [60, 70] {
        let again = Command::new(at(time), eve.clone(), revoked());
        state.apply(&again).expect("revoked");
    }
    assert_eq!(stored(&state).ended, Some(at(60)), "the first time counts");
    assert!(!agreed(&state, 50));
    // The join has an earlier time than the end, because the clocks of two leaders differ.
    let said = joined(&mut state).expect_err("ended");
    assert!(said.contains("the invitation ended at"), "{said}");
    let lines = state.reader.audit(&AuditFilter::default(), 9);
    let lines = lines.expect("read").into_iter();
    let revocations = lines.filter(|line| line.action == "invite.remove");
    let seen: Vec<(String, String, String)> = revocations
        .map(|line| (line.actor, line.object, line.outcome.as_str().to_owned()))
        .collect();
    let line = |actor: &str, outcome: &str| {
        let [actor, object, outcome] = [actor, "invite/i", outcome].map(ToOwned::to_owned);
        (actor, object, outcome)
    };
    let expected = [line("eve", "ok"), line("eve", "ok"), line("otto", "denied")];
    assert_eq!(seen, expected);
    let gone = Op::Invite(Change::Remove("x".to_owned()));
    let said = state.op(80, gone).expect_err("unknown").to_string();
    assert!(said.contains("no invite"), "{said}");
}

#[test]
fn a_used_invitation_is_not_revoked_and_ends_with_its_node() {
    let mut state = invited("ada", &[]);
    assert_eq!(joined(&mut state), Ok(()));
    let said = state.op(60, revoked()).expect_err("used").to_string();
    assert!(said.contains("godwit cluster remove c"), "{said}");
    assert_eq!(stored(&state).ended, None);
    let remove = Op::Node(Change::Remove("c".to_owned()));
    state.op(70, remove).expect("removed");
    assert_eq!(stored(&state).ended, Some(at(70)));
    let said = joined(&mut state).expect_err("ended");
    assert!(said.contains("the invitation ended at"), "{said}");
    state.op(80, revoked()).expect("ended already");
}

#[test]
fn below_its_level_a_revoked_invitation_is_deleted() {
    let mut state = two_nodes();
    let level = LEVEL_INVITES - 1;
    for name in ["a", "b"] {
        let row: Option<Node> = state.reader.object(name).expect("read");
        let put = Op::Node(Change::Put(Node {
            level,
            ..row.expect("a node")
        }));
        state.op(0, put).expect("a node");
    }
    state.op(0, Op::Level(level)).expect("all know it");
    let ada = || actor("ada", Some(Role::Admin), 1);
    done(&mut state, ada(), invite(&[]));
    let stored = stored(&state);
    assert_eq!((stored.created, stored.by), (None, None));
    done(&mut state, ada(), revoked());
    assert_eq!(state.reader.objects::<Invite>().expect("read"), []);
    for set in [
        Invite {
            created: Some(at(1)),
            ..row(&[])
        },
        Invite {
            ended: Some(at(1)),
            ..row(&[])
        },
    ] {
        let early = Op::Invite(Change::Create(set));
        let said = state.op(1, early).expect_err("too early").to_string();
        assert!(said.contains("needs cluster level 6"), "{said}");
    }
}

#[test]
fn an_invitation_ends_with_an_expired_or_forgotten_token() {
    for id in ["late", "forgotten"] {
        let mut state = invited("eve", &["t-eve-admin"]);
        let late = Token {
            id: "late".to_owned(),
            user: "ada".to_owned(),
            hash: Secret::new("hash-late"),
            scope: String::new(),
            role: Role::Admin,
            created: at(0),
            expires: Some(at(40)),
            revoked: None,
            last_digits: String::new(),
            comment: String::new(),
        };
        state.op(1, Op::Token(Change::Create(late))).expect("made");
        let other = Invite {
            id: "j".to_owned(),
            hash: Secret::new("hash-j"),
            ..row(&[id])
        };
        let other = Op::Invite(Change::Create(other));
        done(&mut state, actor("ada", Some(Role::Admin), 1), other);
        let said = joined_by(&mut state, "hash-j").expect_err("ended");
        assert!(said.contains("the invitation has ended"), "{said}");
    }
}

#[test]
fn a_used_invitation_of_an_older_state_readmits_no_node() {
    let mut state = State::new();
    let invite = row(&[]);
    let join = || {
        Op::Join(Box::new(Join {
            hash: Secret::new("hash-i"),
            secret: None,
            node: Node {
                addresses: Vec::new(),
                admins: Vec::new(),
                ..node("c", 0)
            },
        }))
    };
    state.op(0, Op::Level(2)).expect("alone");
    state
        .op(0, Op::Invite(Change::Create(invite)))
        .expect("invited");
    state.op(1, join()).expect("joined");
    state
        .op(2, Op::Node(Change::Remove("c".to_owned())))
        .expect("removed");
    state.op(3, Op::Level(3)).expect("alone");
    let said = state.op(4, join()).expect_err("refused").to_string();
    assert!(said.contains("was removed"), "{said}");
}
