//! What a node of a cluster may ask the state for, and in whose name: its own, and that of users who are users at that moment.
//! Leaves who is let in at the data port to the tests of the binary.

mod support;

use godwit_state::{
    AccessRight, AccessRule, Actor, AuditEntry, AuditFilter, Change, Command, CommandError, Invite,
    JobOp, Join, Limit, LimitScope, Members, NewJob, Node, Op, PROPOSE, ProposeError, Replica,
    Role, Schedule, Secret, Token, UnixMillis, User,
};
use serde_json::{Value, json};
use support::air::{Cluster, address, wait_until};
use support::state::State;
use support::{at, finish, new_job, runner};

fn node(name: &str, number: u64) -> Node {
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
        joined: UnixMillis(0),
        admins: vec!["root".to_owned(), "godwit".to_owned()],
    }
}

fn user(name: &str, role: Role) -> User {
    User {
        name: name.to_owned(),
        role,
        password: Some(Secret::new("hash")),
        disabled: false,
    }
}

fn token(user: &str, role: Role) -> Op {
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

fn actor(name: &str, role: Option<Role>, via: u64) -> Actor {
    Actor {
        name: name.to_owned(),
        role,
        via: Some(via),
        ..Actor::default()
    }
}

fn job(id: &str, owner: &str) -> NewJob {
    NewJob {
        owner: owner.to_owned(),
        ..new_job(id)
    }
}

fn submit(id: &str, owner: &str) -> Op {
    Op::Submit(Box::new(job(id, owner)))
}

fn rule(id: &str, of: Option<&str>) -> Op {
    Op::Access(Change::Put(AccessRule {
        site: None,
        id: id.to_owned(),
        subject: "gw1-x".to_owned(),
        export: "data".to_owned(),
        path: String::new(),
        rights: vec![AccessRight::Read],
        expires: None,
        comment: String::new(),
        job: of.map(ToOwned::to_owned),
    }))
}

/// A state of the nodes a (1) and b (2), and of a user of each role.
fn two_nodes() -> State {
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

#[track_caller]
fn denied(state: &mut State, actor: Actor, op: Op, part: &str) {
    let shown = format!("{actor:?} {op:?}");
    match state.apply(&Command::new(at(1), actor, op)) {
        Err(CommandError::Denied { what }) => {
            assert!(what.contains(part), "{shown}: {what}");
        }
        other => panic!("{shown}: {other:?}"),
    }
}

#[track_caller]
fn done(state: &mut State, actor: Actor, op: Op) {
    let shown = format!("{actor:?} {op:?}");
    let done = state.apply(&Command::new(at(1), actor, op));
    assert!(done.is_ok(), "{shown}: {done:?}");
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
        "no user asks",
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
        "no user asks",
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
    let own = Op::User(Change::Put(User {
        password: Some(Secret::new("new")),
        ..user("vera", Role::Viewer)
    }));
    done(&mut state, as_user("vera", Role::Viewer), own);
    let more = Op::User(Change::Put(user("vera", Role::Admin)));
    denied(
        &mut state,
        as_user("vera", Role::Viewer),
        more,
        "needs admin",
    );
    // An admin of the node's machine is none of the state.
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
fn a_node_acts_as_itself_and_makes_neither_users_nor_tokens() {
    let mut state = two_nodes();
    let node = |name: &str| actor(name, None, 2);
    state.op(1, submit("j", "alice")).expect("a job");
    denied(
        &mut state,
        node("a"),
        Op::Level(4),
        "acts as \"a\", which it is not",
    );
    for op in [
        Op::User(Change::Create(user("mallory", Role::Admin))),
        token("ada", Role::Admin),
        submit("k", "ada"),
        rule("r", None),
        Op::Job("j".to_owned(), JobOp::Pause),
        Op::Node(Change::Remove("a".to_owned())),
    ] {
        denied(&mut state, node("b"), op, "b does not ask for");
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
    // Its API, where nobody has proven who it is, and sites that ask it.
    let audit = || {
        Op::Audit(AuditEntry {
            action: "login".to_owned(),
            object: "ada".to_owned(),
            outcome: "wrong_password".to_owned(),
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

#[test]
fn a_removed_node_takes_its_invitations_along() {
    let mut state = two_nodes();
    let ada = |via| actor("ada", Some(Role::Admin), via);
    let invite = |id: &str| {
        Op::Invite(Change::Create(Invite {
            id: id.to_owned(),
            hash: Secret::new(format!("hash-{id}")),
            expires: at(1_000),
            used: None,
            via: Some(77),
        }))
    };
    let join = |by: &str, name: &str| {
        Op::Join(Box::new(Join {
            hash: Secret::new(format!("hash-{by}")),
            node: Node {
                addresses: Vec::new(),
                admins: Vec::new(),
                ..node(name, 0)
            },
        }))
    };
    let by_a = || actor("a", None, 1);
    done(&mut state, ada(1), invite("first"));
    done(&mut state, ada(1), invite("other"));
    done(&mut state, by_a(), join("first", "c"));
    // Before it has spoken as a member, the answer may have been lost.
    done(&mut state, by_a(), join("first", "c"));
    let mut row: Node = state.reader.object("c").expect("read").expect("a row");
    let number = row.number;
    row.addresses = vec!["host:1".to_owned()];
    done(&mut state, by_a(), Op::Node(Change::Put(row)));
    let again = |state: &mut State, by: &str, name: &str| {
        let refused = state.apply(&Command::new(at(2), by_a(), join(by, name)));
        refused.expect_err("refused").to_string()
    };
    let said = again(&mut state, "first", "c");
    assert!(said.contains("godwit cluster remove c"), "{said}");
    done(&mut state, ada(number), invite("of-c"));
    let of_c: Invite = state.reader.object("of-c").expect("read").expect("there");
    assert_eq!(of_c.via, Some(number), "the state says who made it");
    done(&mut state, ada(1), Op::Node(Change::Remove("c".to_owned())));
    let left: Vec<Invite> = state.reader.objects().expect("read");
    let ids: Vec<&str> = left.iter().map(|invite| invite.id.as_str()).collect();
    assert_eq!(ids, ["other"], "an invitation that another node made stays");
    for by in ["first", "of-c"] {
        let said = again(&mut state, by, "c");
        assert!(said.contains("no invite"), "{said}");
        let said = again(&mut state, by, "d");
        assert!(said.contains("no invite"), "{said}");
    }
    denied(
        &mut state,
        ada(number),
        invite("late"),
        "no node of the cluster",
    );
}

#[test]
fn a_used_invitation_of_an_older_state_readmits_nobody() {
    let mut state = State::new();
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("hash-i"),
        expires: at(1_000),
        used: None,
        via: None,
    };
    let join = || {
        Op::Join(Box::new(Join {
            hash: Secret::new("hash-i"),
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
    // The account makes the user that stands for it, and its tokens; nobody else does.
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
    // Neither is a node called as a user.
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("hash-i"),
        expires: at(1_000),
        used: None,
        via: None,
    };
    state
        .op(3, Op::Invite(Change::Create(invite)))
        .expect("invited");
    for name in ["ada", "root", "site:gw1-x"] {
        let join = Join {
            hash: Secret::new("hash-i"),
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

/// Three replicas with rows, at the level that knows origins.
fn three() -> Cluster {
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

fn say(to: &Replica, from: u64, kind: &str, message: &Value) -> std::io::Result<Vec<u8>> {
    let number = Members(to);
    let own = number.all().into_iter();
    let own = own
        .filter(|(_, member)| member.votes)
        .map(|(number, _)| number)
        .find(|number| {
            // A replica tells messages for another number from its own.
            let wrong = to.hear(from, *number, "probe", b"null");
            wrong.is_err_and(|error| error.kind() != std::io::ErrorKind::NotConnected)
        });
    let message = serde_json::to_vec(message).expect("JSON");
    to.hear(from, own.expect("a number"), kind, &message)
}

#[test]
fn a_member_says_nothing_in_the_name_of_another_one() {
    let cluster = three();
    let leader = cluster.leader(&[1, 2, 3]);
    let others: Vec<u64> = (1..=3).filter(|number| *number != leader).collect();
    let (mallory, target) = (others[0], &cluster.nodes[&others[1]]);
    let term = 1_000;
    let vote = |number: u64, committed: bool| json!({"leader_id": {"term": term, "node_id": number}, "committed": committed});
    let forged = |kind: &str, message: Value| {
        let error = say(target, mallory, kind, &message).expect_err("refused");
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::PermissionDenied,
            "{kind}: {error}"
        );
        assert!(
            error.to_string().contains("speaks for node number"),
            "{error}"
        );
    };
    for number in [leader, others[1], 99] {
        for kind in ["vote", "pre-vote"] {
            forged(
                kind,
                json!({"vote": vote(number, false), "last_log_id": null}),
            );
        }
        forged(
            "append",
            json!({"vote": vote(number, true), "prev_log_id": null, "entries": [], "leader_commit": null}),
        );
        let meta = json!({"last_log_id": null, "last_membership": {"log_id": null, "membership": {"configs": [], "nodes": {}}}, "snapshot_id": "x"});
        forged(
            "snapshot",
            json!({"vote": vote(number, true), "meta": meta, "offset": 0, "total": 1, "data": ""}),
        );
    }
    // That the leader gave its leave to depose it counts for nothing.
    let deposing = json!({"vote": vote(mallory, false), "last_log_id": {"leader_id": {"term": term, "node_id": mallory}, "index": 1_000_000}, "leadership_transfer": true});
    let answer = say(target, mallory, "vote", &deposing).expect("an answer");
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer["vote_granted"], false, "{answer}");
    assert_eq!(cluster.leader(&[1, 2, 3]), leader);
}

#[test]
fn the_leader_notes_who_proposed_a_command_and_refuses_what_only_leaders_do() {
    let cluster = three();
    let leader = cluster.leader(&[1, 2, 3]);
    let name = |number: u64| ["a", "b", "c"][usize::try_from(number - 1).expect("small")];
    let mallory = (1..=3).find(|number| *number != leader).expect("another");
    let target = &cluster.nodes[&leader];
    let propose = |actor: Actor, op: Op| -> Value {
        let command = serde_json::to_value(Command::new(at(1), actor, op)).expect("JSON");
        let answer = say(target, mallory, PROPOSE, &command).expect("an answer");
        serde_json::from_slice(&answer).expect("JSON")
    };
    // It claims that the leader proposed it.
    let as_ada = actor("ada", Some(Role::Admin), leader);
    let done = propose(
        as_ada,
        Op::User(Change::Create(user("otto", Role::Operator))),
    );
    assert!(done.get("done").is_some(), "{done}");
    let lines = target
        .reader()
        .audit(&AuditFilter::default(), 1)
        .expect("read");
    assert_eq!(lines[0].action, "user.create");
    assert_eq!(lines[0].via.as_deref(), Some(name(mallory)));
    let before = target.applied_index();
    let own = || actor(name(mallory), None, leader);
    let other = name(leader).to_owned();
    let fired = Op::Fired {
        schedule: "nightly".to_owned(),
        tick: at(5),
        job: Some(Box::new(job("f", "ada"))),
        reason: None,
    };
    for op in [
        Op::Lost(other.clone()),
        Op::Level(4),
        fired,
        Op::Node(Change::Put(node(&other, leader))),
        Op::User(Change::Create(user("mallory", Role::Admin))),
    ] {
        let refused = propose(own(), op);
        assert!(refused["refused"].get("denied").is_some(), "{refused}");
    }
    let refused = propose(actor("eve", Some(Role::Operator), leader), Op::Lost(other));
    assert!(refused["refused"].get("denied").is_some(), "{refused}");
    // An invitation that nobody made writes nothing either.
    let join = Op::Join(Box::new(Join {
        hash: Secret::new("guessed"),
        node: node("d", 0),
    }));
    let refused = propose(own(), join);
    assert!(refused["refused"].get("not_found").is_some(), "{refused}");
    assert_eq!(target.applied_index(), before, "nothing is in the log");
    // What a follower's own user wants goes the same way.
    let command = Command::new(
        at(2),
        Actor {
            name: "ada".to_owned(),
            role: Some(Role::Admin),
            ..Actor::default()
        },
        Op::User(Change::Remove("otto".to_owned())),
    );
    let follower = &cluster.nodes[&mallory];
    follower.propose_blocking(command).expect("done");
    wait_until("it is applied at the follower", || {
        let lines = follower
            .reader()
            .audit(&AuditFilter::default(), 1)
            .expect("read");
        lines[0].action == "user.remove" && lines[0].via.as_deref() == Some(name(mallory))
    });
}

#[test]
fn joins_without_a_good_invitation_leave_the_state_as_it_was() {
    let cluster = Cluster::of_one();
    let node_alone = &cluster.nodes[&1];
    let size = |name: &str| {
        let file = cluster.homes.path().join(address(1)).join(name);
        std::fs::metadata(file).map_or(0, |meta| meta.len())
    };
    let propose = |op| node_alone.propose_blocking(Command::new(at(0), Actor::node("node1"), op));
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("good"),
        expires: at(1_000),
        used: None,
        via: None,
    };
    propose(Op::Invite(Change::Create(invite))).expect("invited");
    let (index, log) = (
        node_alone.applied_index(),
        size("raft.db") + size("raft.db-wal"),
    );
    let exports = vec!["x".repeat(200); 64];
    let long = vec!["x".repeat(200); 65];
    for (hash, exports) in [("bad", &exports), ("good", &long)] {
        for number in 0..60 {
            let join = Join {
                hash: Secret::new(hash),
                node: Node {
                    exports: exports.clone(),
                    ..node(&format!("n{number}"), 0)
                },
            };
            let error = propose(Op::Join(Box::new(join))).expect_err("refused");
            assert!(matches!(error, ProposeError::Refused(_)), "{error}");
        }
    }
    assert_eq!(node_alone.applied_index(), index);
    assert_eq!(size("raft.db") + size("raft.db-wal"), log);
    let audited = node_alone.reader().audit(&AuditFilter::default(), 10);
    assert_eq!(audited.expect("read").len(), 1, "the invitation alone");
}
