//! Tests nodes of several program versions in one cluster: when its level rises, which programs work with it, and which commands it
//! refuses below a level. See the tests of the binary for what nodes announce.

mod support;

use godwit_state::{
    AccessRule, Actor, Agreed, Change, Command, CommandError, Invite, JobOp, Join,
    LEVEL_KEPT_PASSWORD, LEVEL_PROVEN, LEVEL_REVOKE, NewPassword, Node, Op, OpenError, Options,
    ProposeError, ProvenToken, Replica, RevokeTokens, Role, Secret, Timestamp, Token, User,
};
use support::state::State;
use support::{at, claim, command, new_job};

fn node(name: &str, number: u64, level: u32) -> Node {
    Node {
        name: name.to_owned(),
        number,
        identity: format!("gw1-{name}"),
        addresses: vec!["host:7272".to_owned()],
        exports: Vec::new(),
        version: "0.1.0".to_owned(),
        level,
        draining: false,
        voter: false,
        joined: Timestamp(0),
        admins: Vec::new(),
    }
}

fn put(node: Node) -> Op {
    Op::Node(Change::Put(node))
}

#[track_caller]
fn refused(result: Result<impl std::fmt::Debug, CommandError>, part: &str) {
    let error = result.expect_err("refused").to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn the_level_rises_with_the_last_node_and_never_falls() {
    let mut state = State::new();
    assert_eq!(Agreed(&state.reader).level().expect("read"), 1);
    state.op(0, put(node("a", 1, 3))).expect("put");
    state.op(0, put(node("b", 2, 2))).expect("put");
    refused(state.op(1, Op::Level(3)), "the node b knows levels up to 2");
    state.op(2, Op::Level(2)).expect("all know it");
    assert_eq!(Agreed(&state.reader).level().expect("read"), 2);
    refused(state.op(3, Op::Level(2)), "cannot decrease");
    refused(state.op(3, Op::Level(1)), "cannot decrease");
    // The node with the older version is removed, so the level can rise.
    let remove = Op::Node(Change::Remove("b".to_owned()));
    state.op(4, remove).expect("removed");
    state.op(5, Op::Level(3)).expect("all know it");
    assert_eq!(Agreed(&state.reader).level().expect("read"), 3);
}

#[test]
fn a_command_of_a_higher_level_waits_for_the_level() {
    let mut state = State::new();
    let submit = Op::Submit(Box::new(new_job("job")));
    state.op(0, submit).expect("submit");
    state.job(1, claim(0)).expect("claim");
    let placed = JobOp::Placed {
        epoch: 1,
        into: true,
        tag: 3,
    };
    refused(state.job(2, placed.clone()), "needs cluster level 2");
    state.op(3, Op::Level(2)).expect("alone");
    state.job(4, placed).expect("placed");
}

#[test]
fn a_node_joins_whose_program_is_of_the_level_or_of_the_next_one() {
    let mut state = State::new();
    state.op(0, put(node("a", 1, 5))).expect("put");
    state.op(0, Op::Level(5)).expect("all know it");
    for (level, part) in [
        (4, Some("update the program")),
        (5, None),
        (6, None),
        (7, Some("between")),
    ] {
        let hash = Secret::new(format!("hash{level}"));
        let invite = Invite {
            id: format!("i{level}"),
            hash: hash.clone(),
            expires: at(100),
            created: None,
            ended: None,
            used: None,
            via: None,
            by: None,
            tokens: Vec::new(),
        };
        state
            .op(1, Op::Invite(Change::Create(invite)))
            .expect("invited");
        let join = Join {
            hash,
            secret: None,
            node: Node {
                addresses: Vec::new(),
                ..node(&format!("n{level}"), 0, level)
            },
        };
        let joined = state.op(2, Op::Join(Box::new(join)));
        match part {
            Some(part) => refused(joined, part),
            None => drop(joined.expect("joined")),
        }
    }
}

#[test]
fn a_program_does_not_open_a_state_that_is_too_far_from_it() {
    let home = tempfile::tempdir().expect("a directory");
    let open = |level: u32| {
        Replica::open(Options {
            level,
            free_bytes_min: 0,
            ..Options::new(home.path())
        })
    };
    let why = |result: Result<Replica, OpenError>| result.expect_err("too far").to_string();
    let replica = open(2).expect("new");
    for op in [Op::Level(2), put(node("a", 1, 2))] {
        replica.propose_blocking(command(1, op)).expect("done");
    }
    replica.shutdown();
    assert!(why(open(1)).contains("knows levels up to 1"));
    // A single node may skip versions; several nodes go step by step.
    let replica = open(5).expect("alone");
    let other = put(node("b", 9, 2));
    replica.propose_blocking(command(2, other)).expect("done");
    replica.shutdown();
    assert!(why(open(5)).contains("between"));
    let replica = open(3).expect("the next one");
    let placed = Op::Level(3);
    let error = replica
        .propose_blocking(command(3, placed))
        .expect_err("the other one is behind");
    assert!(matches!(error, ProposeError::Refused(_)), "{error}");
}

#[test]
fn a_node_that_is_left_behind_ends_with_what_to_do() {
    let home = tempfile::tempdir().expect("a directory");
    let options = Options {
        level: 2,
        free_bytes_min: 0,
        ..Options::new(home.path())
    };
    let replica = Replica::open(options.clone()).expect("new");
    let (sender, reported) = std::sync::mpsc::sync_channel(64);
    replica.on_end(move |ended| sender.send(ended.to_string()).expect("heard"));
    replica
        .propose_blocking(command(1, Op::Level(3)))
        .expect_err("it ends");
    let ended = reported.recv().expect("an end");
    assert!(ended.contains("knows levels up to 2: update"), "{ended}");
    replica.shutdown();
    // A newer program reads the command from the log, and continues.
    let newer = Replica::open(Options {
        level: 3,
        ..options
    });
    let newer = newer.expect("the newer one");
    assert_eq!(Agreed(&newer.reader()).level().expect("read"), 3);
}

/// Rules from before rules had sites can be read, and are written unchanged.
#[test]
fn a_rule_of_an_older_program_is_read_as_it_was() {
    let text = r#"{"id":"r","subject":"user:a","export":"data","path":"","rights":["read"],"expires":null,"comment":"","job":null}"#;
    let rule: AccessRule = serde_json::from_str(text).expect("a rule");
    assert_eq!(rule.site, None);
    assert_eq!(serde_json::to_string(&rule).expect("text"), text);
}

/// A node checks a password and proposes the token. Its state may be older than the change of the password.
#[test]
fn a_token_made_with_an_earlier_password_is_refused() {
    let put = |password: Option<&str>, disabled: bool| {
        Op::User(Change::Put(User {
            name: "ada".to_owned(),
            role: Role::Viewer,
            password: password.map(Secret::new),
            disabled,
        }))
    };
    let sign_in = |id: &str, password: &str| {
        let token = Token {
            id: id.to_owned(),
            user: "ada".to_owned(),
            hash: Secret::new(format!("digest of {id}")),
            scope: "login".to_owned(),
            role: Role::Viewer,
            created: Timestamp(0),
            expires: None,
            revoked: None,
            last_digits: "abcd".to_owned(),
            comment: String::new(),
        };
        let op = Op::ProvenToken(Box::new(ProvenToken {
            token,
            password: Secret::new(password),
        }));
        let ada = Actor {
            name: "ada".to_owned(),
            role: Some(Role::Viewer),
            ..Actor::default()
        };
        Command::new(Timestamp(1), ada, op)
    };
    let mut state = State::new();
    state.op(0, Op::Level(LEVEL_PROVEN - 1)).expect("alone");
    state.op(1, put(Some("first"), false)).expect("a user");
    let below = state.apply(&sign_in("t0", "first")).expect_err("too early");
    assert!(below.to_string().contains("cluster level"), "{below}");
    state.op(2, Op::Level(LEVEL_PROVEN)).expect("alone");
    state.apply(&sign_in("t1", "first")).expect("a sign-in");
    state.op(3, put(Some("second"), false)).expect("a password");
    let late = state.apply(&sign_in("t2", "first")).expect_err("late");
    assert!(late.to_string().contains("changed it meanwhile"), "{late}");
    state.apply(&sign_in("t3", "second")).expect("a sign-in");
    state.op(4, put(None, true)).expect("disabled");
    state.apply(&sign_in("t4", "second")).expect_err("disabled");
    let remove = Op::User(Change::Remove("ada".to_owned()));
    state.op(5, remove).expect("removed");
    state.apply(&sign_in("t5", "second")).expect_err("removed");
    assert_eq!(state.reader.objects::<Token>().expect("read"), []);
}

/// A node that lags does not know the newest tokens of a user, and so names none.
#[test]
fn the_state_selects_the_tokens_of_a_user_that_end_together() {
    let mut state = State::new();
    for name in ["ada", "otto"] {
        let user = User {
            name: name.to_owned(),
            role: Role::Viewer,
            password: None,
            disabled: false,
        };
        state.op(0, Op::User(Change::Put(user))).expect("a user");
    }
    for (id, user, scope) in [
        ("own", "ada", "login"),
        ("other", "ada", "session"),
        ("made", "ada", ""),
        ("foreign", "otto", "login"),
    ] {
        let token = Token {
            id: id.to_owned(),
            user: user.to_owned(),
            hash: Secret::new(format!("digest of {id}")),
            scope: scope.to_owned(),
            role: Role::Viewer,
            created: Timestamp(0),
            expires: None,
            revoked: None,
            last_digits: "abcd".to_owned(),
            comment: String::new(),
        };
        let create = Op::Token(Change::Create(token));
        state.op(1, create).expect("a token");
    }
    let revoke = |made: bool, keep: &[&str]| {
        Op::Revoke(Box::new(RevokeTokens {
            user: "ada".to_owned(),
            made,
            keep: keep.iter().map(|id| (*id).to_owned()).collect(),
        }))
    };
    let good = |state: &State| -> Vec<String> {
        let tokens: Vec<Token> = state.reader.objects().expect("read");
        let good = tokens.into_iter().filter(|token| token.revoked.is_none());
        good.map(|token| token.id).collect()
    };
    state.op(2, Op::Level(LEVEL_REVOKE - 1)).expect("alone");
    refused(state.op(2, revoke(true, &[])), "cluster level");
    state.op(2, Op::Level(LEVEL_REVOKE)).expect("alone");
    state.op(3, revoke(false, &["own"])).expect("done");
    assert_eq!(good(&state), ["foreign", "made", "own"]);
    state.op(4, revoke(true, &["own"])).expect("done");
    assert_eq!(good(&state), ["foreign", "own"]);
    state.op(5, revoke(true, &[])).expect("done");
    assert_eq!(good(&state), ["foreign"]);
    let other: Option<Token> = state.reader.object("other").expect("read");
    assert_eq!(other.expect("there").revoked, Some(at(3)));
    let many = vec!["own"; 65];
    refused(state.op(6, revoke(true, &many)), "keep");
}

/// The node of the admin read the user before the user changed the password.
#[test]
fn a_new_role_keeps_the_password_that_the_user_has_changed_meanwhile() {
    let put = |role: Role, password: Option<&str>| {
        Op::User(Change::Put(User {
            name: "ada".to_owned(),
            role,
            password: password.map(Secret::new),
            disabled: false,
        }))
    };
    let kept = |level: u32| {
        let mut state = State::new();
        state.op(0, Op::Level(level)).expect("alone");
        let first = put(Role::Viewer, Some("first"));
        state.op(1, first).expect("a user");
        let own = NewPassword {
            user: "ada".to_owned(),
            earlier: Secret::new("first"),
            password: Secret::new("second"),
            keep: Vec::new(),
        };
        let own = Op::Password(Box::new(own));
        state.op(2, own).expect("the own password");
        state.op(3, put(Role::Operator, None)).expect("a role");
        let ada: Option<User> = state.reader.object("ada").expect("read");
        let ada = ada.expect("there");
        assert_eq!(ada.role, Role::Operator);
        // An admin may still set a password.
        let third = put(Role::Operator, Some("third"));
        state.op(4, third).expect("a password");
        let now: Option<User> = state.reader.object("ada").expect("read");
        let set = now.and_then(|ada| ada.password);
        assert_eq!(set, Some(Secret::new("third")));
        ada.password
    };
    assert_eq!(kept(LEVEL_KEPT_PASSWORD), Some(Secret::new("second")));
    // Older programs put the whole row.
    assert_eq!(kept(LEVEL_KEPT_PASSWORD - 1), None);
}
