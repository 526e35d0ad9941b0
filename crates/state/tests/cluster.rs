//! Tests several replicas over an in-memory carrier: joining, voting, loss of the leader, partitions, snapshots.
//! See the tests of the binary for real connections.

mod support;

use std::time::Duration;

use godwit_state::{
    Change, Command, Effect, FailureCode, Invite, JobOp, Join, Members, Node, Op, ProposeError,
    Secret, Timestamp,
};
use support::air::{Cluster, address, command, site, wait_until};

#[test]
fn any_node_takes_a_command_and_all_have_it() {
    let mut cluster = Cluster::of_one();
    cluster.nodes[&1]
        .propose_blocking(site("first"))
        .expect("done");
    cluster.grow(&[12, 13]);
    for number in [1, 12, 13] {
        let name = format!("by-{number}");
        cluster.nodes[&number]
            .propose_blocking(site(&name))
            .expect("done");
        // The proposer sees the change immediately.
        assert!(cluster.sites(number).contains(&name));
    }
    let refused = command(Op::Site(Change::Remove("none".to_owned())));
    let error = cluster.nodes[&13]
        .propose_blocking(refused)
        .expect_err("there is none");
    assert!(matches!(error, ProposeError::Refused(_)), "{error}");
    wait_until("all have all", || {
        [1, 12, 13]
            .iter()
            .all(|number| cluster.sites(*number).len() == 4)
    });
    assert!(cluster.nodes[&13].readiness().check().is_ok());
}

#[test]
fn the_death_of_a_leader_costs_a_moment_and_no_command() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    cluster.nodes[&2]
        .propose_blocking(site("before"))
        .expect("done");
    cluster.kill(1);
    // A follower accepts the command immediately, and holds it until there is a leader.
    let survivor = cluster.leader(&[2, 3]);
    cluster.nodes[&3]
        .propose_blocking(site("after"))
        .expect("done");
    wait_until("both have both", || {
        [2, 3]
            .iter()
            .all(|number| cluster.sites(*number) == ["after", "before"])
    });
    cluster.open(1);
    wait_until("the node that came back has what it missed", || {
        cluster.sites(1) == ["after", "before"]
    });
    assert_eq!(
        cluster.leader(&[1, 2, 3]),
        survivor,
        "a node that comes back deposes nobody"
    );
}

#[test]
fn the_smaller_half_of_a_partition_changes_nothing_and_says_what_is_needed() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    let old = cluster.leader(&[1, 2, 3]);
    let others: Vec<u64> = [1, 2, 3]
        .into_iter()
        .filter(|number| *number != old)
        .collect();
    cluster.cut(&[old]);
    let new = cluster.leader(&others);
    cluster.nodes[&new]
        .propose_blocking(site("majority"))
        .expect("done");
    let error = cluster.nodes[&old]
        .propose_blocking(site("minority"))
        .expect_err("cut off");
    assert!(
        matches!(
            error,
            ProposeError::NoMajority { .. } | ProposeError::Unknown
        ),
        "{error}"
    );
    wait_until("it knows", || {
        let ready = cluster.nodes[&old].readiness().check();
        ready.is_err_and(|error| error.to_string().contains("voters can be reached"))
    });
    let is_led = |number: u64| {
        let ready = cluster.nodes[&number].readiness();
        ready.is_led_within(Duration::from_secs(4))
    };
    assert!(is_led(new) && !is_led(old));
    let is_cut_off = |number: u64, time: Duration| {
        let ready = cluster.nodes[&number].readiness();
        assert!(!ready.is_outdated(), "a moment is not minutes");
        ready.is_cut_off(time)
    };
    wait_until("it is so for some time", || {
        is_cut_off(old, Duration::from_millis(100))
    });
    assert!(!is_cut_off(new, Duration::from_millis(100)));
    assert!(
        cluster.sites(old).is_empty(),
        "reads go on, of what was there"
    );
    cluster.cut(&[]);
    wait_until("it hears again", || !is_cut_off(old, Duration::ZERO));
    wait_until("all are of one mind", || {
        [1, 2, 3]
            .iter()
            .all(|number| cluster.sites(*number) == ["majority"])
    });
}

/// Its leader does not know of another leader, and sends heartbeats without end.
#[test]
fn a_node_that_hears_only_a_leader_without_a_majority_is_cut_off() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3, 4]);
    let old = cluster.leader(&[1, 2, 3, 4]);
    let near = if old == 1 { 2 } else { 1 };
    let is_cut_off = |time: Duration| cluster.nodes[&near].readiness().is_cut_off(time);
    wait_until("it is led", || !is_cut_off(Duration::ZERO));
    cluster.part(&[old, near]);
    wait_until("it knows", || is_cut_off(Duration::from_millis(100)));
    let error = cluster.nodes[&near].readiness().check();
    assert!(error.is_err(), "it accepts no command");
    cluster.cut(&[]);
    wait_until("it is led again", || !is_cut_off(Duration::ZERO));
}

#[test]
fn a_node_that_joins_late_gets_a_snapshot() {
    let mut cluster = Cluster::of_one();
    for number in 0..3_000 {
        cluster.nodes[&1]
            .propose_blocking(site(&format!("s{}", number % 50)))
            .expect("done");
    }
    cluster.nodes[&1].compact().expect("a snapshot");
    cluster.grow(&[2]);
    assert_eq!(cluster.sites(2).len(), 50);
    // The log before the snapshot was not sent, so the state was sent as a file.
    assert!(cluster.homes.path().join("node-2/snapshot.db").exists());
}

#[test]
fn entries_of_the_greatest_length_pass_one_by_one() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    let old = cluster.leader(&[1, 2, 3]);
    let away = [1, 2, 3]
        .into_iter()
        .find(|number| *number != old)
        .expect("another");
    cluster.kill(away);
    for number in 0..4 {
        let mut long = site(&format!("long{number}"));
        if let Op::Site(Change::Put(site)) = &mut long.op {
            site.comment = "x".repeat(4_000);
            site.addresses = vec!["a".repeat(255); 64];
        }
        for _ in 0..40 {
            cluster.nodes[&old]
                .propose_blocking(long.clone())
                .expect("done");
        }
    }
    cluster.open(away);
    wait_until("it has all", || cluster.sites(away).len() == 4);
}

fn invite(id: &str, expires: i64) -> Command {
    command(Op::Invite(Change::Create(Invite {
        id: id.to_owned(),
        hash: Secret::new(format!("hash-{id}")),
        expires: Timestamp(expires),
        created: None,
        ended: None,
        used: None,
        via: None,
        by: None,
        tokens: Vec::new(),
    })))
}

fn join(invite: &str, name: &str, identity: &str) -> Command {
    command(Op::Join(Box::new(Join {
        hash: Secret::new(format!("hash-{invite}")),
        secret: None,
        node: Node {
            name: name.to_owned(),
            identity: identity.to_owned(),
            ..row(0)
        },
    })))
}

#[test]
fn an_invitation_is_good_for_one_node_and_for_its_time() {
    let cluster = Cluster::of_one();
    let node = &cluster.nodes[&1];
    let refusal = |command| {
        node.propose_blocking(command)
            .expect_err("refused")
            .to_string()
    };
    node.propose_blocking(invite("a", 2_000)).expect("done");
    node.propose_blocking(invite("b", 2_000)).expect("done");
    node.propose_blocking(invite("old", 1_000)).expect("done");
    let joined = |command| match node.propose_blocking(command).expect("joined").effect {
        Effect::Joined { name, number } => (name, number),
        other => panic!("{other:?}"),
    };
    let (name, number) = joined(join("a", "dtn2", "gw1-2"));
    assert_eq!(name, "dtn2");
    assert!(number > 1);
    assert_eq!(
        joined(join("a", "dtn2", "gw1-2")).1,
        number,
        "it may ask again"
    );
    assert!(refusal(join("a", "dtn3", "gw1-3")).contains("another node has joined with"));
    assert!(refusal(join("old", "dtn3", "gw1-3")).contains("ended at"));
    assert!(refusal(join("none", "dtn3", "gw1-3")).contains("no invite"));
    assert!(refusal(join("b", "dtn2", "gw1-3")).contains("the node \"dtn2\" already exists"));
    assert_eq!(
        joined(join("b", "dtn2", "gw1-2")),
        ("dtn2".to_owned(), number),
        "it is a member"
    );
    assert!(joined(join("b", "dtn3", "gw1-3")).1 > number);
}

#[test]
fn jobs_of_a_lost_or_removed_node_return_to_the_queue() {
    let cluster = Cluster::of_one();
    let node = &cluster.nodes[&1];
    node.propose_blocking(invite("a", 2_000)).expect("done");
    node.propose_blocking(join("a", "dtn2", "gw1-2"))
        .expect("joined");
    for op in [
        Op::Lost("dtn2".to_owned()),
        Op::Node(Change::Remove("dtn2".to_owned())),
    ] {
        let id = format!("job of {}", op.action());
        node.propose_blocking(support::submit(0, &id))
            .expect("submitted");
        let claim = JobOp::Claim {
            runner: support::runner("dtn2", "first"),
            seen: 0,
        };
        node.propose_blocking(support::job_command(1, &id, claim))
            .expect("claimed");
        let done = node.propose_blocking(command(op)).expect("done");
        assert!(
            matches!(done.effect, Effect::Restarted { jobs: 1 } | Effect::Done),
            "{done:?}"
        );
        let job = node.reader().job(&id).expect("read").expect("a job");
        assert!(job.state.waits(), "{job:?}");
        assert_eq!(
            job.reason.and_then(|reason| reason.code.known()),
            Some(FailureCode::NodeLost)
        );
    }
    let gone = node.propose_blocking(command(Op::Lost("dtn2".to_owned())));
    assert!(gone.expect_err("gone").to_string().contains("no node"));
}

/// The row of a node.
fn row(number: u64) -> Node {
    Node {
        name: format!("dtn{number}"),
        number,
        identity: format!("gw1-{number}"),
        addresses: Vec::new(),
        exports: Vec::new(),
        version: "1".to_owned(),
        level: 1,
        draining: false,
        voter: false,
        joined: Timestamp(0),
        admins: Vec::new(),
    }
}

#[test]
fn a_node_that_joins_again_is_not_taken_for_its_earlier_number() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    cluster.nodes[&1]
        .propose_blocking(site("kept"))
        .expect("done");
    wait_until("it is everywhere", || cluster.sites(3) == ["kept"]);
    cluster.kill(3);
    std::fs::remove_dir_all(cluster.homes.path().join(address(3))).expect("removed");
    // The leader still sends to number 3 at this address.
    cluster.open_at(4, address(3));
    let members = Members(&cluster.nodes[&1]);
    members.put(4, &address(3)).expect("taken in");
    wait_until("it gets the state", || cluster.sites(4) == ["kept"]);
    members.vote([1, 2, 4]).expect("it votes");
    members.remove(3).expect("removed");
    cluster.nodes[&1]
        .propose_blocking(site("later"))
        .expect("done");
    wait_until("it goes on", || cluster.sites(4) == ["kept", "later"]);
}

#[test]
fn a_member_that_is_restored_keeps_its_number_and_is_alone() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    cluster.nodes[&1]
        .propose_blocking(site("kept"))
        .expect("done");
    for number in [2, 3] {
        let row = Op::Node(Change::Create(row(number)));
        cluster.nodes[&1]
            .propose_blocking(command(row))
            .expect("done");
    }
    wait_until("it is everywhere", || {
        let nodes: Vec<Node> = cluster.nodes[&3].reader().objects().expect("read");
        nodes.len() == 2
    });
    let copy = cluster.homes.path().join("copy.db");
    cluster.nodes[&3].backup(&copy).expect("backup");
    for number in [1, 2, 3] {
        cluster.kill(number);
    }
    let directory = cluster.homes.path().join(address(3));
    let identity = row(3).identity;
    let restored =
        godwit_state::restore(&directory, &copy, &identity, Timestamp(5_000)).expect("restored");
    assert_eq!(restored.node.map(|node| node.number), Some(3));
    assert_eq!(restored.others, 1);
    cluster.open(3);
    wait_until("it leads", || cluster.nodes[&3].readiness().check().is_ok());
    assert_eq!(cluster.sites(3), ["kept"]);
    let members = Members(&cluster.nodes[&3]).all();
    assert_eq!(members.keys().collect::<Vec<_>>(), [&3]);
}

#[test]
fn the_last_survivor_is_made_the_only_voter() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    cluster.nodes[&1]
        .propose_blocking(site("kept"))
        .expect("done");
    wait_until("it is everywhere", || cluster.sites(3) == ["kept"]);
    for number in [1, 2, 3] {
        cluster.kill(number);
    }
    let directory = cluster.homes.path().join(address(3));
    let kept = godwit_state::recover(&directory, 3, Timestamp(5_000)).expect("recovered");
    assert!(kept.kept.is_some_and(|kept| kept.join("raft.db").exists()));
    cluster.open(3);
    wait_until("it leads", || cluster.nodes[&3].readiness().check().is_ok());
    cluster.nodes[&3]
        .propose_blocking(site("later"))
        .expect("done");
    assert_eq!(cluster.sites(3), ["kept", "later"]);
    assert_eq!(Members(&cluster.nodes[&3]).all().len(), 1);
}
