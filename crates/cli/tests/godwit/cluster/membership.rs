//! Admission to a cluster, and the requests that a member may make, tested by clients with separate keys.
//! Runs one node; the clients speak the protocol of nodes by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Announce, Answer, AskSites as _, Carried, ClusterAnswer, ClusterQuestion, JoinCluster, Joined,
    KnownNode, Peer, Question, Refusal, code,
};
use godwit_api::rest::NodeResources;
use godwit_data_port::{Asker, Here};
use godwit_net::{Cipher, ClientTls, Identity};
use godwit_state::{Actor, Change, Command, Op, Role, Timestamp, User};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::rest::Caller;
use super::super::rig::Rig;
use super::{DEADLINE, invite, nodes, view};

/// A client with a separate key.
struct Client {
    asker: Asker,
    identity: String,
    _home: TempDir,
}

impl Client {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let key = Identity::load_or_create(home.path()).expect("a key");
        let tls = ClientTls::new(&key, &Cipher::ALL).expect("TLS");
        let here = Here::new(Vec::new(), home.path().to_owned(), Default::default());
        Self {
            asker: Asker::new(here, tls),
            identity: key.id().to_string(),
            _home: home,
        }
    }

    fn ask(&self, rig: &Rig, question: ClusterQuestion) -> Result<ClusterAnswer, Refusal> {
        let peer = Peer {
            name: "node".to_owned(),
            addresses: vec![rig.address().to_owned()],
            identity: rig.identity.clone(),
        };
        let until = Instant::now() + DEADLINE;
        let question = Question::Cluster(Box::new(question));
        let go_on = &mut |_| Instant::now() < until;
        match self.asker.ask(Some(&peer), &question, go_on)? {
            Answer::Cluster(answer) => Ok(*answer),
            other => panic!("{other:?}"),
        }
    }

    fn join(&self, rig: &Rig, token: &str, exports: &[String]) -> Result<Joined, Refusal> {
        let secret = token.split('-').nth(1).expect("a secret");
        let wish = JoinCluster {
            secret: secret.to_owned(),
            name: "mallory".to_owned(),
            exports: exports.to_vec(),
            version: "0.1.0".to_owned(),
            level: 6,
        };
        match self.ask(rig, ClusterQuestion::Join(Box::new(wish)))? {
            ClusterAnswer::Joined(joined) => Ok(*joined),
            other => panic!("{other:?}"),
        }
    }

    /// Carries a message for the consensus of the node with the number 1.
    fn carry(&self, rig: &Rig, kind: &str, message: Value) -> Result<Value, Refusal> {
        let carried = Carried {
            of: format!("{}/0", rig.identity),
            to: 1,
            kind: kind.to_owned(),
            once: false,
            is_short: false,
            message,
        };
        match self.ask(rig, ClusterQuestion::Carry(carried))? {
            ClusterAnswer::Carried(answer) => Ok(answer),
            other => panic!("{other:?}"),
        }
    }
}

/// Bytes of the state and of its log.
fn size(home: &Path) -> u64 {
    let files = std::fs::read_dir(home.join("state")).expect("a state");
    files
        .map(|file| file.expect("read").metadata().map_or(0, |meta| meta.len()))
        .sum()
}

fn audit(rig: &Rig) -> Vec<Value> {
    let lines = Caller::admin(rig).get("audit").expect(200);
    lines.as_array().expect("lines").clone()
}

#[test]
fn a_storm_of_joins_leaves_state_and_log_as_they_were() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let (before, lines) = (size(&rig.daemon_home), audit(&rig));
    let exports = vec!["x".repeat(250); 64];
    let endless = vec!["x".repeat(250); 3_000];
    let mut codes = BTreeMap::new();
    for _ in 0..4 {
        let stranger = Client::new();
        for exports in [&exports, &endless].into_iter().cycle().take(16) {
            let refused = stranger.join(&rig, "gwi1-guessed-gw1", exports);
            let code = refused.expect_err("refused").code;
            *codes.entry(code).or_insert(0) += 1;
        }
    }
    assert!(
        codes.get(&code::BAD_INVITATION.into()) >= Some(&10),
        "{codes:?}"
    );
    assert!(codes.get(&code::BUSY.into()) > Some(&0), "{codes:?}");
    assert!(
        codes.get(&code::UNKNOWN_IDENTITY.into()) > Some(&0),
        "{codes:?}"
    );
    assert_eq!(audit(&rig), lines, "nothing is audited");
    let grown = size(&rig.daemon_home).saturating_sub(before);
    assert!(grown < 64 << 10, "the state grew by {grown} bytes");
    let said = rig.daemon().said();
    let about = said.lines().filter(|line| line.contains("refused"));
    // Clients that asked for more than to join have a line each, up to a bound.
    assert!(about.count() <= 21, "{said}");
    assert!(!said.contains("bad_invitation"), "{said}");
    assert!(!said.contains(code::BUSY.as_str()), "{said}");
}

#[test]
fn a_removed_node_does_not_come_back_by_its_invitation() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let (token, other) = (invite(&rig), invite(&rig));
    let client = Client::new();
    let joined = client.join(&rig, &token, &[]).expect("joined");
    let again = client.join(&rig, &token, &[]).expect("the answer was lost");
    assert_eq!(joined.number, again.number);
    let removed = rig.admin(&["cluster", "remove", "mallory", "--force"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let refused = client.join(&rig, &token, &[]).expect_err("refused");
    assert_eq!(refused.code, code::BAD_INVITATION, "{refused:?}");
    assert_eq!(nodes(&view(&rig).expect("a view")).len(), 1);
    // Messages of identities that are no members are refused.
    let said = client
        .carry(&rig, "vote", Value::Null)
        .expect_err("refused");
    assert_eq!(said.code, code::OTHER_CLUSTER, "{said:?}");
    // A new invitation readmits it, under a new number.
    let joined_again = client.join(&rig, &other, &[]).expect("joined");
    assert!(joined_again.number > joined.number);
}

#[test]
fn a_stranger_learns_neither_node_nor_cluster_and_who_was_left_behind_learns_of_the_recovery() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let (member, stranger) = (Client::new(), Client::new());
    let joined = member.join(&rig, &invite(&rig), &[]).expect("joined");
    let status = |client: &Client, rig: &Rig, of: &str| {
        let of = of.to_owned();
        let answered = client.ask(rig, ClusterQuestion::Status { of });
        answered.expect_err("refused")
    };
    let hides = |rig: &Rig, of: &str| {
        let no = status(&stranger, rig, of);
        assert_eq!(no.code, code::OTHER_CLUSTER, "{no:?}");
        for secret in ["node1", &rig.identity, &joined.cluster] {
            assert!(!no.message.contains(secret), "{of}: {no:?}");
        }
    };
    let another = "gw1-another/0";
    hides(&rig, &joined.cluster);
    hides(&rig, another);
    let no = status(&member, &rig, another);
    assert_eq!(no.code, code::OTHER_CLUSTER, "{no:?}");
    assert!(no.message.contains(&joined.cluster), "{no:?}");
    rig.kill_daemon();
    let recovered = rig.admin(&["cluster", "recover", "--yes"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    rig.serve(&[]);
    hides(&rig, &joined.cluster);
    let no = status(&member, &rig, &joined.cluster);
    assert_eq!(no.code, code::RECOVERED, "{no:?}");
    assert!(no.message.contains("node1 became the only one"), "{no:?}");
}

#[test]
fn the_first_node_leaves_once_its_operator_has_said_yes() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    rig.kill_daemon();
    let refused = rig.admin(&["cluster", "leave"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused
        .says("this node was the first of its cluster")
        .says("godwit cluster leave --yes");
    let left = rig.admin(&["cluster", "leave", "--yes"]);
    assert_eq!(left.code, Some(0), "{left:?}");
}

#[test]
fn a_job_with_too_many_sources_is_refused_before_it_is_sent() {
    let rig = Rig::new();
    let mut line = vec!["job".to_owned(), "submit".to_owned()];
    line.extend((0..1026).map(|number| format!("here:/data/{number}")));
    let refused = rig.client(&line);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused.says("a job takes at most 1024");
}

#[test]
fn a_member_speaks_for_itself_and_the_audit_log_names_it() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let admin = Caller::admin(&rig);
    let user = json!({"role": "admin"});
    admin.put("users/ada", &user).expect(200);
    let token = invite(&rig);
    let member = Client::new();
    let joined = member.join(&rig, &token, &[]).expect("joined");
    let until = Instant::now() + DEADLINE;
    while view(&rig).is_none_or(|view| view["level"] != 6) {
        assert!(Instant::now() < until, "the level stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    let vote = |number: u64| json!({"vote": {"leader_id": {"term": 1_000, "node_id": number}, "committed": false}, "last_log_id": null});
    let said = member.carry(&rig, "vote", vote(1)).expect_err("refused");
    assert!(
        said.message.contains("speaks for node number 1"),
        "{said:?}"
    );
    // In the name of an unknown user, and of a known one.
    let make = |by: &str, name: &str| {
        let user = User {
            name: name.to_owned(),
            role: Role::Admin,
            password: None,
            disabled: false,
        };
        let actor = Actor {
            name: by.to_owned(),
            role: Some(Role::Admin),
            remote: Some("local uid 0".to_owned()),
            request: None,
            via: Some(1),
        };
        let op = Op::User(Change::Create(user));
        serde_json::to_value(Command::new(Timestamp(1_000), actor, op)).expect("JSON")
    };
    let op = |actor: Actor, op: Op| {
        serde_json::to_value(Command::new(Timestamp(1_000), actor, op)).expect("JSON")
    };
    let lost = op(Actor::node("node1"), Op::Lost("node1".to_owned()));
    let answer = member.carry(&rig, "propose", lost).expect("an answer");
    assert!(answer["refused"].get("denied").is_some(), "{answer}");
    let answer = member.carry(&rig, "propose", make("ada", "eve"));
    let answer = answer.expect("an answer");
    assert!(answer.get("done").is_some(), "{answer}");
    let line = audit(&rig).remove(0);
    assert_eq!(line["object"], "user/eve", "{line}");
    assert_eq!(
        (&line["actor"], &line["via"]),
        (&json!("ada"), &json!("mallory"))
    );
    // The node announces only itself, and nothing that the leader could not write down.
    let announce = |node: KnownNode, exports: Vec<String>| {
        ClusterQuestion::Announce(Box::new(Announce {
            of: joined.cluster.clone(),
            node,
            exports,
            version: "0.1.0".to_owned(),
            level: 6,
            resources: NodeResources::default(),
            observations: BTreeMap::new(),
            admins: Vec::new(),
            problem: None,
        }))
    };
    let own = KnownNode {
        name: joined.name.clone(),
        number: joined.number,
        identity: member.identity.clone(),
        addresses: vec!["127.0.0.1:9".to_owned()],
    };
    let first = KnownNode {
        name: "node1".to_owned(),
        number: 1,
        ..own.clone()
    };
    let said = member.ask(&rig, announce(first, Vec::new()));
    let said = said.expect_err("refused");
    assert!(
        said.message.contains("can announce only itself"),
        "{said:?}"
    );
    let said = member.ask(&rig, announce(own, vec![String::new(); 65]));
    let said = said.expect_err("refused");
    assert_eq!(said.code, code::INVALID, "{said:?}");
}

#[test]
fn no_user_is_called_as_a_node_an_account_of_the_machine_or_a_site() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let admin = Caller::admin(&rig);
    for name in ["root", "node1", "site:gw1-abc", "anonymous", "a%20b"] {
        let put = admin.put(&format!("users/{name}"), &json!({"role": "viewer"}));
        assert_eq!(put.status, 422, "{name}: {put:?}");
    }
    // A token of the account itself works as before, and a user of an ordinary name, too.
    let made = admin.post("tokens", &json!({"role": "admin"})).expect(201);
    let account = Caller::with_token(&rig, made["secret"].as_str().expect("a secret"));
    account.get("users").expect(200);
    Caller::user(&rig, "alice", "viewer")
        .get("jobs")
        .expect(200);
}
