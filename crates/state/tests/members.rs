//! Tests which nodes become and stay members of a cluster, and that a member's messages can concern
//! only itself. `origin` tests the rights of a member.

mod support;

use godwit_state::{
    AccessRight, AccessRule, Actor, AuditEntry, AuditFilter, AuditOutcome, Change, Command,
    FailureCode, Invite, Join, LEVEL_LEFT, Limit, LimitScope, Node, Op, PROPOSE, ProposeError,
    Prune, Reason, Role, Schedule, Secret, Share, TakeWork, Token, User, WorkOp,
};
use serde_json::{Value, json};
use support::air::{Cluster, address, wait_until};
use support::nodes::{actor, denied, done, job, node, say, three, two_nodes, user};
use support::state::State;
use support::{at, runner};

#[test]
fn a_removed_node_takes_its_invitations_along() {
    let mut state = two_nodes();
    let ada = |via| actor("ada", Some(Role::Admin), via);
    let invite = |id: &str| {
        Op::Invite(Change::Create(Invite {
            id: id.to_owned(),
            hash: Secret::new(format!("hash-{id}")),
            expires: at(1_000),
            created: None,
            ended: None,
            used: None,
            via: Some(77),
            by: None,
            tokens: Vec::new(),
        }))
    };
    let join = |by: &str, name: &str| {
        Op::Join(Box::new(Join {
            hash: Secret::new(format!("hash-{by}")),
            secret: None,
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
    // Until the node has sent a message as a member, the answer may have been lost.
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
    // The false claim that the leader agreed to be deposed has no effect.
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
    // The node falsely names the leader as proposer.
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
    let work = |op: WorkOp| Op::Work("j".to_owned(), op);
    let fired = Op::Fired {
        schedule: "nightly".to_owned(),
        tick: at(5),
        job: Some(Box::new(job("f", "ada"))),
        children: Vec::new(),
        reason: None,
    };
    for op in [
        Op::Lost(other.clone()),
        Op::Level(4),
        fired,
        Op::Node(Change::Put(node(&other, leader))),
        // The proposer may not lease, settle or return the divided work of another node.
        work(WorkOp::Return {
            node: other.clone(),
        }),
        work(WorkOp::Decline {
            epoch: 1,
            node: other.clone(),
            why: Reason::new(FailureCode::NoSpace, "it is full"),
        }),
        work(WorkOp::Lease(TakeWork {
            epoch: 1,
            runner: runner(&other, "i"),
            scans_max: 1,
            bytes_max: 1,
        })),
        Op::User(Change::Create(user("mallory", Role::Admin))),
    ] {
        let refused = propose(own(), op);
        assert!(refused["refused"].get("denied").is_some(), "{refused}");
    }
    let refused = propose(actor("eve", Some(Role::Operator), leader), Op::Lost(other));
    assert!(refused["refused"].get("denied").is_some(), "{refused}");
    // An invalid invitation writes nothing either.
    let join = Op::Join(Box::new(Join {
        hash: Secret::new("guessed"),
        secret: None,
        node: node("d", 0),
    }));
    let refused = propose(own(), join);
    assert!(refused["refused"].get("not_found").is_some(), "{refused}");
    assert_eq!(target.applied_index(), before, "nothing is in the log");
    // Commands for a follower's own user take the same path.
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
fn a_member_chooses_no_time() {
    let cluster = three();
    let leader = cluster.leader(&[1, 2, 3]);
    let mallory = (1..=3).find(|number| *number != leader).expect("another");
    let name = ["a", "b", "c"][usize::try_from(mallory - 1).expect("small")];
    let target = &cluster.nodes[&leader];
    // The leader's clock shows `at(0)`.
    let far = 400 * 86_400_000;
    let ends_later = Op::Token(Change::Create(Token {
        id: "t".to_owned(),
        user: "ada".to_owned(),
        hash: Secret::new("hash-t"),
        scope: String::new(),
        role: Role::Admin,
        created: at(0),
        expires: Some(at(1)),
        revoked: None,
        last_digits: String::new(),
        comment: String::new(),
    }));
    let propose_here = |op| {
        let command = Command::new(at(-2), actor("ada", Some(Role::Admin), 1), op);
        target.propose_blocking(command).expect("done");
    };
    propose_here(ends_later);
    let propose = |millis: i64, actor: Actor, op: Op| -> Value {
        let command = serde_json::to_value(Command::new(at(millis), actor, op)).expect("JSON");
        let answer = say(target, mallory, PROPOSE, &command).expect("an answer");
        serde_json::from_slice(&answer).expect("JSON")
    };
    let prune = |before: i64| {
        Op::Prune(Prune {
            tokens_before: Some(at(before)),
            ..Prune::default()
        })
    };
    for actor in [actor(name, None, 1), actor("api", None, 1)] {
        let done = propose(far, actor, prune(far));
        assert!(done.get("done").is_some(), "{done}");
    }
    let kept = target.reader().object::<Token>("t").expect("read");
    assert!(kept.is_some(), "the token has not ended");
    // Access for a job lasts at most a day from now, even if the command has a later time.
    let rule = |expires: i64| {
        Op::Access(Change::Put(AccessRule {
            id: "job:gw1-x:j:1".to_owned(),
            subject: "gw1-x".to_owned(),
            site: None,
            export: "data".to_owned(),
            path: String::new(),
            rights: vec![AccessRight::Read],
            expires: Some(at(expires)),
            comment: String::new(),
            job: Some("j".to_owned()),
        }))
    };
    let refused = propose(far, actor(name, None, 1), rule(far));
    assert!(refused["refused"].get("denied").is_some(), "{refused}");
    let done = propose(far, actor(name, None, 1), rule(3_600_000));
    assert!(done.get("done").is_some(), "{done}");
    // An expired invitation does not become valid again.
    let invite = Invite {
        id: "i".to_owned(),
        hash: Secret::new("late"),
        expires: at(-1),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    };
    propose_here(Op::Invite(Change::Create(invite)));
    let join = Op::Join(Box::new(Join {
        hash: Secret::new("late"),
        secret: None,
        node: Node {
            addresses: Vec::new(),
            admins: Vec::new(),
            ..node("d", 0)
        },
    }));
    let refused = propose(-far, actor(name, None, 1), join);
    assert!(
        refused.to_string().contains("the invitation ended"),
        "{refused}"
    );
    let entry = AuditEntry {
        action: "login".to_owned(),
        object: "ada".to_owned(),
        outcome: AuditOutcome::Done,
    };
    propose(-far, actor("anonymous", None, 1), Op::Audit(entry));
    let lines = target.reader().audit(&AuditFilter::default(), 1);
    assert_eq!(lines.expect("read")[0].at, at(0), "no line is backdated");
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
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
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
                secret: None,
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

/// A state with a schedule, a limit and a share of the removed user otto, and with another limit.
fn left_by_otto(level: u32) -> State {
    let mut state = State::new();
    state.op(0, Op::Level(level)).expect("alone");
    let otto = user("otto", Role::Operator);
    state.op(0, Op::User(Change::Create(otto))).expect("made");
    let schedule = Schedule {
        id: "nightly".to_owned(),
        cron: "0 2 * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        owner: "otto".to_owned(),
        role: None,
        template: "{}".to_owned(),
        disabled: false,
        fired: None,
        reason: None,
        comment: String::new(),
    };
    let limit = |scope: LimitScope| Limit {
        scope,
        name: "otto".to_owned(),
        rate: Some(1),
        jobs_max: None,
        windows: Vec::new(),
        time_zone: "UTC".to_owned(),
    };
    let share = Share {
        owner: "otto".to_owned(),
        weight: 3,
    };
    for op in [
        Op::Schedule(Change::Create(schedule)),
        Op::Limit(Change::Put(limit(LimitScope::Owner))),
        Op::Limit(Change::Put(limit(LimitScope::Site))),
        Op::Share(Change::Put(share)),
        Op::User(Change::Remove("otto".to_owned())),
    ] {
        state.op(1, op).expect("done");
    }
    state
}

#[test]
fn a_later_user_of_a_name_gets_nothing_of_an_earlier_one() {
    let again = || Op::User(Change::Put(user("otto", Role::Operator)));
    let mut state = left_by_otto(LEVEL_LEFT);
    let limits: Vec<Limit> = state.reader.objects().expect("read");
    let scopes: Vec<LimitScope> = limits.iter().map(|limit| limit.scope).collect();
    assert_eq!(scopes, [LimitScope::Site], "a limit of a site is no user's");
    let shares: Vec<Share> = state.reader.objects().expect("read");
    assert_eq!(shares, []);
    let refused = state.op(2, again()).expect_err("a schedule is left");
    assert!(refused.to_string().contains("\"nightly\""), "{refused}");
    let remove = Op::Schedule(Change::Remove("nightly".to_owned()));
    state.op(3, remove).expect("removed");
    let mut of_otto = support::new_job("job");
    of_otto.owner = "otto".to_owned();
    state
        .op(4, Op::Submit(Box::new(of_otto)))
        .expect("submitted");
    let refused = state.op(5, again()).expect_err("a job is left");
    assert!(refused.to_string().contains("in the history"), "{refused}");
    // An existing user can be changed.
    let other = user("vera", Role::Viewer);
    state.op(6, Op::User(Change::Put(other))).expect("made");
    let other = user("vera", Role::Operator);
    state.op(7, Op::User(Change::Put(other))).expect("changed");

    // A program of the previous level behaves as before.
    let mut state = left_by_otto(LEVEL_LEFT - 1);
    assert_eq!(state.reader.objects::<Limit>().expect("read").len(), 2);
    assert_eq!(state.reader.objects::<Share>().expect("read").len(), 1);
    state.op(2, again()).expect("made");
}

#[test]
fn the_user_of_an_account_is_disabled_with_the_last_node_that_has_the_account() {
    let with = |name: &str, number: u64, admins: &[&str]| {
        let admins = admins.iter().map(|name| (*name).to_owned()).collect();
        Op::Node(Change::Put(Node {
            admins,
            level: LEVEL_LEFT,
            ..node(name, number)
        }))
    };
    let is_disabled = |state: &State, name: &str| {
        let user: Option<User> = state.reader.object(name).expect("read");
        user.expect("there").disabled
    };
    let mut state = State::new();
    state.op(0, Op::Level(LEVEL_LEFT)).expect("alone");
    let nodes = [
        with("a", 1, &["root", "godwit"]),
        with("b", 2, &["root", "godwit", "daemon"]),
        with("c", 3, &["root", "moved"]),
    ];
    for node in nodes {
        state.op(1, node).expect("put");
    }
    for name in ["godwit", "daemon", "moved"] {
        let user = User {
            password: None,
            ..user(name, Role::Admin)
        };
        let by = Actor::node(name);
        let made = Command::new(at(2), by, Op::User(Change::Create(user)));
        state.apply(&made).expect("an account makes its user");
    }
    let remove = Op::Node(Change::Remove("b".to_owned()));
    state.op(3, remove).expect("removed");
    assert!(is_disabled(&state, "daemon"));
    assert!(!is_disabled(&state, "godwit"), "another node has it");
    assert!(!is_disabled(&state, "moved"));
    // A node that runs as another account is handled in the same way.
    state.op(4, with("c", 3, &["root"])).expect("put");
    assert!(is_disabled(&state, "moved"));
}
