//! Tests which commands a node of a cluster may propose: for itself, and for users that exist at that moment.
//! See `members` for joining and the messages of the consensus.

mod support;

use godwit_state::{
    AccessRight, AccessRule, Actor, AuditEntry, AuditFilter, AuditOutcome, Change, Command,
    CommandError, Invite, JobOp, Join, LEVEL_PROVEN, LEVEL_SCHEDULE_OWNERS, Limit, LimitScope,
    NewPassword, Node, Op, PROPOSE, ProvenToken, RevokeTokens, Role, Schedule, Secret, User,
};
use serde_json::Value;
use support::nodes::{actor, denied, done, job, node, say, submit, three, token, two_nodes, user};
use support::state::State;
use support::{at, finish, nightly, runner};

fn rule(id: &str, of: Option<&str>) -> Op {
    Op::Access(Change::Put(AccessRule {
        site: None,
        id: id.to_owned(),
        subject: "gw1-x".to_owned(),
        export: "data".to_owned(),
        path: String::new(),
        rights: vec![AccessRight::Read],
        expires: of.map(|_| at(86_400)),
        comment: String::new(),
        job: of.map(ToOwned::to_owned),
    }))
}

#[test]
fn a_command_in_a_users_name_needs_that_user_and_that_role_at_that_moment() {
    let mut state = two_nodes();
    let new = || Op::User(Change::Create(user("mallory", Role::Admin)));
    let as_user = |name: &str, role| actor(name, Some(role), 2);
    denied(
        &mut state,
        as_user("nobody", Role::Admin),
        new(),
        "there is no user nobody",
    );
    denied(
        &mut state,
        as_user("vera", Role::Admin),
        new(),
        "vera is viewer, not admin",
    );
    denied(
        &mut state,
        as_user("otto", Role::Operator),
        new(),
        "needs admin",
    );
    denied(
        &mut state,
        as_user("vera", Role::Viewer),
        submit("j", "vera"),
        "needs operator",
    );
    denied(
        &mut state,
        as_user("otto", Role::Operator),
        submit("j", "ada"),
        "users may not request",
    );
    denied(
        &mut state,
        as_user("otto", Role::Operator),
        token("ada", Role::Admin),
        "needs admin",
    );
    denied(
        &mut state,
        as_user("ada", Role::Admin),
        Op::Lost("a".to_owned()),
        "users may not request",
    );
    denied(
        &mut state,
        actor("ada", Some(Role::Admin), 9),
        new(),
        "no node of the cluster",
    );
    done(
        &mut state,
        as_user("otto", Role::Operator),
        submit("j", "otto"),
    );
    done(
        &mut state,
        as_user("otto", Role::Operator),
        token("otto", Role::Operator),
    );
    done(
        &mut state,
        as_user("vera", Role::Viewer),
        token("vera", Role::Viewer),
    );
    done(
        &mut state,
        as_user("otto", Role::Operator),
        Op::Job("j".to_owned(), JobOp::Pause),
    );
    // A user may change only the own password.
    let password = |name: &str| {
        Op::Password(Box::new(NewPassword {
            user: name.to_owned(),
            earlier: Secret::new("old"),
            password: Secret::new("new"),
            keep: Vec::new(),
        }))
    };
    let earlier = User {
        password: Some(Secret::new("old")),
        ..user("vera", Role::Viewer)
    };
    let put = Op::User(Change::Put(earlier));
    done(&mut state, as_user("ada", Role::Admin), put);
    done(&mut state, as_user("vera", Role::Viewer), password("vera"));
    denied(
        &mut state,
        as_user("vera", Role::Viewer),
        password("otto"),
        "users may not request",
    );
    let more = Op::User(Change::Put(user("vera", Role::Admin)));
    denied(
        &mut state,
        as_user("vera", Role::Viewer),
        more,
        "needs admin",
    );
    // An admin of the node's machine is not an admin of the state.
    done(&mut state, as_user("root", Role::Admin), new());
    let disabled = Op::User(Change::Put(User {
        disabled: true,
        ..user("otto", Role::Operator)
    }));
    done(&mut state, as_user("ada", Role::Admin), disabled);
    denied(
        &mut state,
        as_user("otto", Role::Operator),
        submit("k", "otto"),
        "is disabled",
    );
    let lines = state
        .reader
        .audit(&AuditFilter::default(), 1)
        .expect("read");
    let line = &lines[0];
    assert_eq!(
        (
            line.actor.as_str(),
            line.outcome.as_str(),
            line.via.as_deref()
        ),
        ("otto", "denied", Some("b")),
        "the audit log names the node"
    );
}

#[test]
fn a_token_made_with_a_password_needs_the_rights_of_any_token() {
    let mut state = two_nodes();
    for row in [node("a", 1), node("b", 2)] {
        let level = LEVEL_PROVEN;
        let put = Op::Node(Change::Put(Node { level, ..row }));
        state.op(0, put).expect("a node");
    }
    state
        .op(0, Op::Level(LEVEL_PROVEN))
        .expect("all nodes know it");
    let proven = |user: &str, role: Role| {
        let Op::Token(Change::Create(token)) = token(user, role) else {
            panic!("a token");
        };
        let password = Secret::new("hash");
        Op::ProvenToken(Box::new(ProvenToken { token, password }))
    };
    let vera = || actor("vera", Some(Role::Viewer), 2);
    done(&mut state, vera(), proven("vera", Role::Viewer));
    for (user, role) in [("vera", Role::Operator), ("otto", Role::Viewer)] {
        denied(&mut state, vera(), proven(user, role), "needs admin");
    }
    let node = actor("b", None, 2);
    let own = proven("otto", Role::Operator);
    denied(&mut state, node, own, "may not request");
    // An admin proves the own password, and makes the token for another user.
    let ada = || actor("ada", Some(Role::Admin), 2);
    done(&mut state, ada(), proven("otto", Role::Operator));
    // Anyone may end the own tokens, and an admin those of others.
    let revoke = |user: &str| {
        Op::Revoke(Box::new(RevokeTokens {
            user: user.to_owned(),
            made: true,
            keep: Vec::new(),
        }))
    };
    done(&mut state, vera(), revoke("vera"));
    denied(&mut state, vera(), revoke("otto"), "needs admin");
    let node = actor("b", None, 2);
    denied(&mut state, node, revoke("otto"), "may not request");
    done(&mut state, ada(), revoke("otto"));
}

#[test]
fn a_node_acts_as_itself_and_makes_neither_users_nor_tokens() {
    let mut state = two_nodes();
    let node = |name: &str| actor(name, None, 2);
    state.op(1, submit("j", "alice")).expect("a job");
    denied(
        &mut state,
        node("a"),
        Op::Level(4),
        "acts as \"a\" but is not that user",
    );
    for op in [
        Op::User(Change::Create(user("mallory", Role::Admin))),
        token("ada", Role::Admin),
        submit("k", "ada"),
        rule("r", None),
        Op::Job("j".to_owned(), JobOp::Pause),
        Op::Node(Change::Remove("a".to_owned())),
    ] {
        denied(&mut state, node("b"), op, "b may not request");
    }
    let claim = |by: &str| JobOp::Claim {
        runner: runner(by, "first"),
        seen: 0,
    };
    let of_job = |op| Op::Job("j".to_owned(), op);
    denied(&mut state, node("b"), of_job(claim("a")), "job.claim");
    denied(
        &mut state,
        node("b"),
        Op::Restart(runner("a", "x")),
        "node.restart",
    );
    done(&mut state, actor("a", None, 1), of_job(claim("a")));
    let end = || of_job(finish(1, godwit_state::Outcome::Complete));
    denied(&mut state, node("b"), end(), "job.finish");
    done(&mut state, actor("a", None, 1), end());
    // The node may act for unauthenticated callers of its API, and for sites that ask it.
    let audit = || {
        Op::Audit(AuditEntry {
            action: "login".to_owned(),
            object: "ada".to_owned(),
            outcome: AuditOutcome::of_word("wrong_password"),
        })
    };
    done(&mut state, node("anonymous"), audit());
    denied(
        &mut state,
        node("anonymous"),
        submit("k", "ada"),
        "job.submit",
    );
    done(&mut state, node("site:gw1-x"), submit("s", "site:gw1-x"));
    denied(
        &mut state,
        node("site:gw1-x"),
        submit("k", "site:gw1-y"),
        "job.submit",
    );
    denied(
        &mut state,
        node("site:gw1-y"),
        Op::Job("s".to_owned(), JobOp::Pause),
        "job.pause",
    );
    done(
        &mut state,
        node("site:gw1-x"),
        rule("job:gw1-x:s:1", Some("s")),
    );
    denied(
        &mut state,
        node("site:gw1-x"),
        rule("r", None),
        "access.put",
    );
    let limit = Op::Limit(Change::Put(Limit {
        scope: LimitScope::Owner,
        name: "ada".to_owned(),
        rate: Some(1),
        jobs_max: None,
        windows: Vec::new(),
        time_zone: "UTC".to_owned(),
    }));
    denied(&mut state, node("site:gw1-x"), limit, "limit.put");
}

#[test]
fn the_job_of_a_schedule_belongs_to_its_owner() {
    let mut state = two_nodes();
    let schedule = Schedule {
        id: "nightly".to_owned(),
        cron: "0 22 * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        owner: "otto".to_owned(),
        role: None,
        template: "{}".to_owned(),
        disabled: false,
        fired: None,
        reason: None,
        comment: String::new(),
    };
    let otto = || actor("otto", Some(Role::Operator), 2);
    done(
        &mut state,
        otto(),
        Op::Schedule(Change::Put(schedule.clone())),
    );
    let of_ada = Schedule {
        owner: "ada".to_owned(),
        ..schedule
    };
    denied(
        &mut state,
        otto(),
        Op::Schedule(Change::Put(of_ada)),
        "needs admin",
    );
    let fired = |owner: &str| Op::Fired {
        schedule: "nightly".to_owned(),
        tick: at(5),
        job: Some(Box::new(job("f", owner))),
        children: Vec::new(),
        reason: None,
    };
    denied(
        &mut state,
        actor("a", None, 1),
        fired("ada"),
        "schedule.fired",
    );
    done(&mut state, actor("a", None, 1), fired("otto"));
}

/// Each user read no schedule of the id, and so proposed a new one.
#[test]
fn the_first_of_two_users_gets_the_id_of_a_schedule() {
    let made_by = |name: &str, role: Role, owner: &str| {
        let schedule = Schedule {
            owner: owner.to_owned(),
            ..nightly()
        };
        let by = Actor {
            name: name.to_owned(),
            role: Some(role),
            ..Actor::default()
        };
        Command::new(at(1), by, Op::Schedule(Change::Put(schedule)))
    };
    let second = |level: u32, by: &Command| {
        let mut state = State::new();
        state.op(0, Op::Level(level)).expect("alone");
        let first = made_by("otto", Role::Operator, "otto");
        state.apply(&first).expect("made");
        let done = state.apply(by).map_err(|error| error.to_string());
        let row: Option<Schedule> = state.reader.object("nightly").expect("read");
        (done.map(drop), row.expect("there").owner)
    };
    let no = Err("schedule \"nightly\" belongs to otto".to_owned());
    let refused = (no, "otto".to_owned());
    let vera = made_by("vera", Role::Operator, "vera");
    assert_eq!(second(LEVEL_SCHEDULE_OWNERS, &vera), refused);
    let ada = made_by("ada", Role::Admin, "ada");
    assert_eq!(second(LEVEL_SCHEDULE_OWNERS, &ada), refused);
    let kept = made_by("ada", Role::Admin, "otto");
    let done = (Ok(()), "otto".to_owned());
    assert_eq!(second(LEVEL_SCHEDULE_OWNERS, &kept), done);
    let taken = (Ok(()), "vera".to_owned());
    assert_eq!(second(LEVEL_SCHEDULE_OWNERS - 1, &vera), taken);
}

#[test]
fn no_user_is_called_as_a_node_or_an_account_of_a_machine() {
    let mut state = two_nodes();
    for name in [
        "root",
        "godwit",
        "a",
        "b",
        "node1",
        "site:gw1-x",
        "\u{202e}ada",
    ] {
        for role in [Role::Viewer, Role::Admin] {
            let put = Op::User(Change::Put(user(name, role)));
            let refused = state.op(1, put);
            assert!(
                matches!(refused, Err(CommandError::Invalid { .. })),
                "{name}: {refused:?}"
            );
        }
    }
    // Only the account itself may make the user with its name, and the tokens of that user.
    let own = || {
        Op::User(Change::Create(User {
            password: None,
            ..user("root", Role::Admin)
        }))
    };
    let by = |name: &str, op| Command::new(at(2), actor(name, Some(Role::Admin), 2), op);
    assert!(state.apply(&by("ada", own())).is_err());
    state.apply(&by("root", own())).expect("its own");
    assert!(state.apply(&by("ada", token("root", Role::Admin))).is_err());
    state
        .apply(&by("root", token("root", Role::Admin)))
        .expect("its own");
    // A node cannot have the name of a user either.
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("hash-i"),
        expires: at(1_000),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    state
        .op(3, Op::Invite(Change::Create(invite)))
        .expect("invited");
    for name in ["ada", "root", "site:gw1-x"] {
        let join = Join {
            hash: Secret::new("hash-i"),
            secret: None,
            node: Node {
                addresses: Vec::new(),
                admins: Vec::new(),
                identity: "gw1-new".to_owned(),
                ..node(name, 0)
            },
        };
        assert!(state.op(4, Op::Join(Box::new(join))).is_err(), "{name}");
    }
}

#[test]
fn no_member_makes_a_limit_or_a_schedule_in_an_unknown_time_zone() {
    let cluster = three();
    let leader = cluster.leader(&[1, 2, 3]);
    let mallory = (1..=3).find(|number| *number != leader).expect("another");
    let (target, ada) = (&cluster.nodes[&leader], || {
        actor("ada", Some(Role::Admin), 1)
    });
    let limit = |zone: &str| {
        Op::Limit(Change::Put(Limit {
            scope: LimitScope::Owner,
            name: "ada".to_owned(),
            rate: Some(1),
            jobs_max: None,
            windows: Vec::new(),
            time_zone: zone.to_owned(),
        }))
    };
    let schedule = |zone: &str| {
        Op::Schedule(Change::Put(Schedule {
            id: "nightly".to_owned(),
            cron: "0 22 * * *".to_owned(),
            time_zone: zone.to_owned(),
            owner: "ada".to_owned(),
            role: None,
            template: "{}".to_owned(),
            disabled: false,
            fired: None,
            reason: None,
            comment: String::new(),
        }))
    };
    let before = target.applied_index();
    for op in [limit("Nowhere/Land"), schedule("Nowhere/Land")] {
        let command = Command::new(at(0), ada(), op);
        let own = target.propose_blocking(command.clone());
        let own = own.expect_err("refused").to_string();
        assert!(own.contains("time_zone"), "{own}");
        let command = serde_json::to_value(&command).expect("JSON");
        let answer = say(target, mallory, PROPOSE, &command).expect("an answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(
            answer["refused"]["invalid"]["field"], "time_zone",
            "{answer}"
        );
    }
    assert_eq!(target.applied_index(), before, "nothing is in the log");
    for op in [limit("Europe/Berlin"), schedule("UTC")] {
        target
            .propose_blocking(Command::new(at(0), ada(), op))
            .expect("done");
    }
}
