//! Tests bounds of a member whose program was changed: it proposes nothing for users that the API does not offer, does not end the
//! consensus, and does not fill the disks of others. See `origin` for the rights of users, and `members` for messages in another node's name.

mod support;

use godwit_state::{
    AccessRight, AccessRule, Actor, AuditFilter, Change, Command, CommandError, FEATURE_LEVEL,
    Invite, JobOp, Node, Op, OpenWork, Options, PROPOSE, Peer, Prune, Replica, Role, Secret,
    Setting, Share, Site, SiteNode, User, WorkOp, WorkRoot, recover,
};
use rusqlite::Connection;
use serde_json::{Value, json};
use support::air::{Cluster, address, site, wait_until};
use support::nodes::{actor, denied, done, node, say, three, two_nodes, user};
use support::state::State;
use support::{at, new_job, runner};

/// A cluster, its leader, and two other members.
fn parties() -> (Cluster, u64, u64, u64) {
    let cluster = three();
    let leader = cluster.leader(&[1, 2, 3]);
    let mut others = (1..=3).filter(|number| *number != leader);
    let (mallory, victim) = (others.next(), others.next());
    (
        cluster,
        leader,
        mallory.expect("another"),
        victim.expect("a third"),
    )
}

/// The leader's answer to a command that the member proposes in the name of the admin ada.
fn propose_as_ada(leader: &Replica, member: u64, op: Op) -> Value {
    let ada = actor("ada", Some(Role::Admin), member);
    let command = serde_json::to_value(Command::new(at(1), ada, op)).expect("JSON");
    let answer = say(leader, member, PROPOSE, &command).expect("an answer");
    serde_json::from_slice(&answer).expect("JSON")
}

fn setting() -> Op {
    Op::Setting(Change::Put(Setting {
        name: "any".to_owned(),
        value: "1".to_owned(),
    }))
}

/// Deletes the whole audit log.
fn prune() -> Op {
    Op::Prune(Prune {
        audit_before: Some(at(i64::from(i32::MAX))),
        ..Prune::default()
    })
}

/// Commands that no operation of the API proposes, whatever the user may do.
fn no_requests() -> Vec<Op> {
    let rule = AccessRule {
        id: "job:gw1-x:j:1".to_owned(),
        subject: "gw1-x".to_owned(),
        site: None,
        export: "data".to_owned(),
        path: String::new(),
        rights: vec![AccessRight::Read],
        expires: None,
        comment: String::new(),
        job: Some("j".to_owned()),
    };
    let named = SiteNode {
        peer: Peer {
            name: "second".to_owned(),
            identity: "gw1-second".to_owned(),
            addresses: vec!["host:1".to_owned()],
        },
        named: Some(at(i64::from(i32::MAX))),
        independent: false,
    };
    let site = Site {
        name: "siteB".to_owned(),
        addresses: vec!["host:2".to_owned()],
        identity: "gw1-first".to_owned(),
        comment: String::new(),
        nodes: vec![named],
    };
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
    vec![
        setting(),
        prune(),
        Op::Access(Change::Put(rule)),
        Op::Site(Change::Put(site)),
        Op::Invite(Change::Put(invite)),
    ]
}

#[test]
fn a_member_proposes_for_a_user_only_what_the_api_offers() {
    let (cluster, leader, mallory, victim) = parties();
    let target = &cluster.nodes[&leader];
    let rows: Vec<Node> = target.reader().objects().expect("rows");
    let row = |number: u64| rows.iter().find(|row| row.number == number);
    let of_victim = row(victim).expect("a row");
    let second_key = |name: &str| Node {
        identity: "gw1-second-key".to_owned(),
        ..node(name, victim)
    };
    let of_nodes = [
        Change::Create(second_key("zz")),
        Change::Put(second_key("zz")),
        Change::Put(second_key(&of_victim.name)),
        Change::Put(Node {
            addresses: vec!["elsewhere:1".to_owned()],
            ..of_victim.clone()
        }),
        Change::Put(Node {
            admins: vec!["mallory".to_owned()],
            ..of_victim.clone()
        }),
    ];
    let before = target.applied_index();
    for op in of_nodes.map(Op::Node).into_iter().chain(no_requests()) {
        let shown = format!("{op:?}");
        let refused = propose_as_ada(target, mallory, op);
        let why = refused["refused"]["denied"].to_string();
        assert!(why.contains("users may not request"), "{shown}: {refused}");
    }
    assert_eq!(target.applied_index(), before, "nothing is in the log");
    let drained = Node {
        draining: true,
        ..of_victim.clone()
    };
    let done = propose_as_ada(target, mallory, Op::Node(Change::Put(drained)));
    assert!(done.get("done").is_some(), "{done}");
    let remove = Op::Node(Change::Remove(of_victim.name.clone()));
    let done = propose_as_ada(target, mallory, remove);
    assert!(done.get("done").is_some(), "{done}");
}

/// A state of two nodes at the newest level.
fn newest() -> State {
    let mut state = two_nodes();
    for (name, number) in [("a", 1), ("b", 2)] {
        let row = Node {
            level: FEATURE_LEVEL,
            ..node(name, number)
        };
        state.op(0, Op::Node(Change::Put(row))).expect("a node");
    }
    state.op(0, Op::Level(FEATURE_LEVEL)).expect("all know it");
    state
}

#[test]
fn the_state_takes_of_a_users_node_its_wishes_alone() {
    let mut state = newest();
    let ada = || actor("ada", Some(Role::Admin), 2);
    let create = Op::Node(Change::Create(node("zz", 1)));
    for op in no_requests().into_iter().chain([create]) {
        denied(&mut state, ada(), op, "users may not request");
    }
    let row = |state: &State| -> Node { state.reader.object("a").expect("read").expect("a row") };
    let before = row(&state);
    let stale = Node {
        addresses: vec!["elsewhere:1".to_owned()],
        admins: vec!["mallory".to_owned()],
        voter: true,
        ..before.clone()
    };
    done(&mut state, ada(), Op::Node(Change::Put(stale)));
    let voter = true;
    assert_eq!(row(&state), Node { voter, ..before });
    // No leader gives a number twice, or makes a row without a join.
    let mut by_leader = |change: Change<Node>| {
        let command = Command::new(at(1), Actor::node("a"), Op::Node(change));
        state.apply(&command).expect_err("refused")
    };
    let twice = by_leader(Change::Put(node("zz", 2)));
    assert!(matches!(twice, CommandError::Conflict { .. }), "{twice}");
    let made = by_leader(Change::Create(node("zz", 9)));
    assert!(matches!(made, CommandError::Invalid { .. }), "{made}");
}

#[test]
fn a_node_without_reported_accounts_acts_under_no_name_but_that_of_an_account() {
    let mut state = newest();
    let bare = Node {
        admins: Vec::new(),
        level: FEATURE_LEVEL,
        ..node("b", 2)
    };
    let put = Command::new(at(1), Actor::node("a"), Op::Node(Change::Put(bare)));
    state.apply(&put).expect("put");
    let share = || {
        let (owner, weight) = ("otto".to_owned(), 2);
        Op::Share(Change::Put(Share { owner, weight }))
    };
    let admin = |name: &str| actor(name, Some(Role::Admin), 2);
    for name in ["a", "ghost", "site:gw1-x"] {
        denied(&mut state, admin(name), share(), "there is no user");
    }
    for name in ["root", "godwit", "ada"] {
        done(&mut state, admin(name), share());
    }
}

/// The job had no runner when the leader checked the command.
#[test]
fn only_the_runner_of_a_job_opens_its_work() {
    let open = || {
        let root = WorkRoot {
            source: "/data/run42".to_owned(),
            file: None,
            destination: "/elsewhere".to_owned(),
            observation: Vec::new(),
        };
        let open = WorkOp::Open(OpenWork {
            epoch: 1,
            claim: "claim".to_owned(),
            roots: vec![root],
            part_bytes: 1 << 20,
        });
        Op::Work("job".to_owned(), open)
    };
    let with_job = |mut state: State| {
        let submit = Op::Submit(Box::new(new_job("job")));
        state.op(0, submit).expect("submitted");
        let runner = runner("a", "i");
        let claim = JobOp::Claim { runner, seen: 0 };
        state.job(1, claim).expect("claimed");
        state
    };
    let mut state = with_job(newest());
    let refused = "b may not request work.open";
    denied(&mut state, actor("b", None, 2), open(), refused);
    done(&mut state, actor("a", None, 1), open());
    // Voters of the previous level apply it.
    let mut state = with_job(two_nodes());
    done(&mut state, actor("b", None, 2), open());
}

/// A leader reads the row of a node, then a user changes the node, and then the leader proposes the row with new exports.
#[test]
fn a_late_report_changes_no_wish_and_brings_no_removed_node_back() {
    let mut state = newest();
    let ada = || actor("ada", Some(Role::Admin), 1);
    let row = |state: &State| -> Option<Node> { state.reader.object("b").expect("read") };
    let before = row(&state).expect("a row");
    let report = Node {
        exports: vec!["data".to_owned()],
        ..before.clone()
    };
    let report = Command::new(at(1), Actor::node("a"), Op::Node(Change::Put(report)));
    let drained = Node {
        draining: true,
        voter: true,
        ..before
    };
    done(&mut state, ada(), Op::Node(Change::Put(drained)));
    state.apply(&report).expect("put");
    let after = row(&state).expect("a row");
    assert!(after.draining && after.voter, "{after:?}");
    assert_eq!(after.exports, ["data"]);
    let remove = Op::Node(Change::Remove("b".to_owned()));
    done(&mut state, ada(), remove);
    let late = state.apply(&report).expect_err("refused");
    assert!(matches!(late, CommandError::NotFound { .. }), "{late}");
    assert_eq!(row(&state), None);
}

#[test]
fn two_admins_who_remove_each_others_node_leave_one() {
    let mut state = newest();
    let remove = |name: &str| Op::Node(Change::Remove(name.to_owned()));
    done(&mut state, actor("ada", Some(Role::Admin), 1), remove("b"));
    for name in ["a", "b"] {
        state
            .op(2, remove(name))
            .expect_err("the other admin came too late");
    }
    let said = state.op(2, remove("a")).expect_err("the last one");
    assert!(said.to_string().contains("a is the only node"), "{said}");
    let rows: Vec<Node> = state.reader.objects().expect("read");
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_reported_account_takes_no_user_over_and_disables_none() {
    let mut state = newest();
    let with = |name: &str, number: u64, admins: &[&str]| {
        let row = Node {
            admins: admins.iter().map(|name| (*name).to_owned()).collect(),
            level: FEATURE_LEVEL,
            ..node(name, number)
        };
        Command::new(at(1), Actor::node("a"), Op::Node(Change::Put(row)))
    };
    let of = |state: &State, name: &str| -> User {
        let user = state.reader.object(name).expect("read");
        user.expect("there")
    };
    let carol = User {
        password: None,
        ..user("carol", Role::Admin)
    };
    let made = Op::User(Change::Create(carol.clone()));
    state.op(1, made).expect("an admin without a password");
    let report = with("b", 2, &["root", "carol", "vera", "svc"]);
    state.apply(&report).expect("put");
    let row: Node = state.reader.object("b").expect("read").expect("there");
    assert_eq!(row.admins, ["root", "svc"]);
    denied(
        &mut state,
        actor("vera", Some(Role::Admin), 2),
        Op::Node(Change::Remove("a".to_owned())),
        "vera is viewer, not admin",
    );
    state.apply(&with("b", 2, &["root"])).expect("put");
    assert_eq!(of(&state, "carol"), carol);
    assert!(!of(&state, "vera").disabled);
    // An account makes its user. Other nodes with this account may report it, too.
    state.apply(&with("b", 2, &["root", "svc"])).expect("put");
    let own = User {
        password: None,
        ..user("svc", Role::Admin)
    };
    let own = Op::User(Change::Create(own));
    let made = Command::new(at(2), Actor::node("svc"), own);
    state.apply(&made).expect("an account makes its user");
    state.apply(&with("a", 1, &["root", "svc"])).expect("put");
    state.apply(&with("b", 2, &["root"])).expect("put");
    assert!(!of(&state, "svc").disabled, "another node has it");
    state.apply(&with("a", 1, &["root"])).expect("put");
    assert!(of(&state, "svc").disabled);
    let lines = state.reader.audit(&AuditFilter::default(), 1);
    let line = lines.expect("read").remove(0);
    let shown = (line.action.as_str(), line.object.as_str());
    assert_eq!(
        (shown, line.actor.as_str()),
        (("user.put", "user/svc"), "a")
    );
}

/// A message of each kind of the consensus, with a vote of that term. The entries in these messages have that term, too.
fn messages(term: u64, from: u64, to: u64) -> Vec<(&'static str, Value)> {
    let leader = json!({"term": term, "node_id": from});
    let vote = |committed: bool| json!({"leader_id": leader, "committed": committed});
    let id = json!({"leader_id": leader, "index": 0});
    let append = |entries: Value| json!({"vote": vote(true), "prev_log_id": null, "entries": entries, "leader_commit": null});
    let meta = json!({"last_log_id": id, "last_membership": {"log_id": null, "membership": {"configs": [], "nodes": {}}}});
    vec![
        ("append", append(json!([]))),
        (
            "append",
            append(json!([{"log_id": id, "payload": "Blank"}])),
        ),
        ("vote", json!({"vote": vote(false), "last_log_id": null})),
        (
            "pre-vote",
            json!({"vote": vote(false), "last_log_id": null}),
        ),
        (
            "transfer",
            json!({"from_leader": vote(true), "to_node_id": to, "last_log_id": null}),
        ),
        (
            "snapshot",
            json!({"vote": vote(true), "meta": meta, "offset": 0, "total": 4, "data": "AAAA"}),
        ),
    ]
}

#[test]
fn no_message_of_a_member_ends_the_consensus_of_others() {
    let (cluster, leader, mallory, other) = parties();
    let (leads, follows) = (&cluster.nodes[&leader], &cluster.nodes[&other]);
    let refused = |to: &Replica, kind: &str, message: &Value| {
        let error = say(to, mallory, kind, message).expect_err("refused");
        let shown = format!("{kind} {message}: {error}");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{shown}");
    };
    for term in [u64::MAX, 1 << 49, 1 << 21] {
        for (to, number) in [(follows, other), (leads, leader)] {
            for (kind, message) in messages(term, mallory, number) {
                refused(to, kind, &message);
            }
        }
    }
    // Entries have no gap.
    let leader_id = json!({"term": 20, "node_id": mallory});
    let vote = json!({"leader_id": leader_id, "committed": true});
    let id = json!({"leader_id": leader_id, "index": 1 << 30});
    let entries = json!([{"log_id": id, "payload": "Blank"}]);
    let append =
        json!({"vote": vote, "prev_log_id": null, "entries": entries, "leader_commit": null});
    refused(follows, "append", &append);
    for (number, node) in [(leader, leads), (other, follows)] {
        let ada = actor("ada", Some(Role::Admin), number);
        let later = Command::new(at(9), ada, site("later").op);
        node.propose_blocking(later).expect("done");
    }
}

#[test]
fn a_recovery_leaves_an_impossible_term_behind() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("state");
    let open = || Replica::open(Options::new(&directory));
    let replica = open().expect("open");
    replica.propose_blocking(site("kept")).expect("done");
    replica.shutdown();
    let text = |name: &str, select: &str| -> Value {
        let db = Connection::open(directory.join(name)).expect("open");
        let text: String = db.query_row(select, [], |row| row.get(0)).expect("a row");
        serde_json::from_str(&text).expect("JSON")
    };
    let write = |name: &str, update: &str, text: &Value| {
        let db = Connection::open(directory.join(name)).expect("open");
        db.execute(update, [text.to_string()]).expect("written");
    };
    let mut vote = text("raft.db", "SELECT body FROM marks WHERE name = 'vote'");
    vote["leader_id"]["term"] = u64::MAX.into();
    let update = "UPDATE marks SET body = ?1, sum = NULL WHERE name = 'vote'";
    write("raft.db", update, &vote);
    let error = open().expect_err("refused").to_string();
    assert!(error.contains("impossible term"), "{error}");
    let mut last = text("state.db", "SELECT position FROM applied");
    last["leader_id"]["term"] = u64::MAX.into();
    write(
        "state.db",
        "UPDATE applied SET position = ?1, sealed = 0",
        &last,
    );
    recover(&directory, 1, at(0)).expect("recovered");
    for name in ["later", "latest"] {
        let replica = open().expect("open");
        replica.propose_blocking(site(name)).expect("done");
        replica.shutdown();
    }
}

#[test]
fn only_a_leader_sends_a_snapshot_and_only_if_there_is_room() {
    let (cluster, leader, mallory, _) = parties();
    let directory = cluster.homes.path().join(address(leader));
    let file = directory.join("incoming.db");
    let send = |term: u64, committed: bool, total: u64| {
        let vote = json!({"leader_id": {"term": term, "node_id": mallory}, "committed": committed});
        let meta = json!({"last_log_id": null, "last_membership": {"log_id": null, "membership": {"configs": [], "nodes": {}}}});
        let piece =
            json!({"vote": vote, "meta": meta, "offset": 0, "total": total, "data": "AAAA"});
        say(&cluster.nodes[&leader], mallory, "snapshot", &piece)
    };
    for (term, committed) in [(0, false), (0, true), (1_000, false), (1_000, true)] {
        let error = send(term, committed, 4).expect_err("refused").to_string();
        assert!(error.contains("does not lead"), "{error}");
    }
    assert!(!file.exists(), "nothing is stored");
    // A member may depose the leader. No node answers meanwhile, so no election ends its term.
    cluster.cut(&[leader]);
    let vote = json!({"leader_id": {"term": 1_000, "node_id": mallory}, "committed": true});
    let append = json!({"vote": vote, "prev_log_id": null, "entries": [], "leader_commit": null});
    say(&cluster.nodes[&leader], mallory, "append", &append).expect("it leads");
    let disk = rustix::fs::statvfs(&directory).expect("a file system");
    wait_until("the node knows its leader", || send(1_000, true, 4).is_ok());
    send(1_000, true, disk.f_blocks * disk.f_frsize + 1).expect_err("no room");
    send(1_000, true, 4).expect("taken");
    assert!(file.exists());
}

#[test]
fn a_part_of_a_snapshot_does_not_outlive_the_node() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("state");
    let open = || Replica::open(Options::new(&directory)).expect("open");
    open().shutdown();
    let part = directory.join("incoming.db");
    std::fs::write(&part, "part").expect("written");
    let replica = open();
    assert!(!part.exists(), "a part is left");
    replica.shutdown();
}
