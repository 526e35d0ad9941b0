//! Tests five voters under partitions in which both halves are alive, with clocks minutes apart. Nothing is decided twice, and all replicas
//! are equal at the end. See the tests of the binary for connections.

mod support;

use godwit_seeded::Seeded;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use godwit_state::{Actor, Command, Effect, JobOp, Op, Replica, Runner, Timestamp};
use quorum_set::VecProgress;
use support::air::{Cluster, address, site, wait_until};

/// Numbers of the voters.
const VOTERS: [u64; 5] = [1, 2, 3, 4, 5];
/// Clock difference between each voter and the previous one.
const SKEW_MS: i64 = 7 * 60 * 1_000;
/// Seeds of partitions: the first one leaves the leader in the larger half, the second one cuts it off.
const SEEDS: [u64; 2] = [1, 2];

fn pick(seeded: &mut Seeded, bound: usize) -> usize {
    usize::try_from(seeded.below(bound as u64)).expect("small")
}

/// A command by the clock of a voter.
fn by(voter: u64, op: Op) -> Command {
    let offset = i64::try_from(voter).expect("small") - 3;
    let time = Timestamp(support::NOON + offset * SKEW_MS);
    Command::new(time, Actor::node(format!("dtn{voter}")), op)
}

fn claim(voter: u64, id: &str) -> Command {
    let runner = Runner {
        node: format!("dtn{voter}"),
        instance: "first".to_owned(),
    };
    by(
        voter,
        Op::Job(id.to_owned(), JobOp::Claim { runner, seen: 0 }),
    )
}

/// Lets all voters propose at once. Returns the effect for each voter that got one.
fn propose_at_all(
    nodes: &BTreeMap<u64, Arc<Replica>>,
    make: impl Fn(u64) -> Command,
) -> BTreeMap<u64, Effect> {
    let proposing: Vec<_> = nodes
        .iter()
        .map(|(voter, replica)| {
            let (voter, replica, command) = (*voter, Arc::clone(replica), make(*voter));
            let thread = thread::spawn(move || replica.propose_blocking(command));
            (voter, thread)
        })
        .collect();
    let ended = proposing.into_iter().map(|(voter, thread)| {
        let reported = thread.join().expect("no panic");
        (voter, reported.ok().map(|done| done.effect))
    });
    ended
        .filter_map(|(voter, effect)| effect.map(|effect| (voter, effect)))
        .collect()
}

/// All rows of all tables of a state, as text.
fn dump(state: &Path) -> String {
    let database = rusqlite::Connection::open(state).expect("opened");
    let tables: Vec<String> = database
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
        .expect("tables");
    let mut text = String::new();
    for table in tables {
        let mut rows = database
            .prepare(&format!("SELECT * FROM \"{table}\""))
            .expect("a table");
        let columns = rows.column_count();
        let lines: Vec<String> = rows
            .query_map([], |row| {
                let values = (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at));
                Ok(format!("{table}: {:?}\n", values.collect::<Vec<_>>()))
            })
            .and_then(Iterator::collect)
            .expect("rows");
        text.extend(lines);
    }
    text
}

#[test]
fn both_halves_of_a_partition_decide_nothing_twice_and_end_the_same() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3, 4, 5]);
    for seed in SEEDS {
        let mut seeded = Seeded(seed);
        let id = format!("job{seed}");
        cluster.nodes[&1]
            .propose_blocking(support::submit(0, &id))
            .expect("submitted");
        // Every other time, the leader is in the smaller half.
        let leader = cluster.leader(&VOTERS);
        let mut others: Vec<u64> = VOTERS.into_iter().filter(|one| *one != leader).collect();
        let other = others.remove(pick(&mut seeded, others.len()));
        let small = match seed % 2 {
            0 => [leader, other],
            _ => [others.remove(pick(&mut seeded, others.len())), other],
        };
        cluster.part(&small);
        // Both run at the same time, because a disconnected voter answers only after some seconds.
        let (named, claimed) = thread::scope(|scope| {
            let nodes = &cluster.nodes;
            let names = scope.spawn(move || {
                propose_at_all(nodes, |voter| {
                    by(voter, site(&format!("s{seed}-{voter}")).op)
                })
            });
            let claims = propose_at_all(nodes, |voter| claim(voter, &id));
            (names.join().expect("no panic"), claims)
        });
        for voter in small {
            let alone = [&named, &claimed].map(|reported| reported.contains_key(&voter));
            assert_eq!(alone, [false; 2], "seed {seed}: {voter} decided alone");
        }
        let is_claim = |effect: &&Effect| matches!(effect, Effect::Job { .. });
        let claims = claimed.values().filter(is_claim).count();
        assert!(claims <= 1, "seed {seed}: {claimed:?}");
        cluster.part(&[]);
        cluster.leader(&VOTERS);
        // By now the job has a runner: the voter whose claim succeeded.
        let late = propose_at_all(&cluster.nodes, |voter| claim(voter, &id));
        let reported = claimed.iter().chain(&late);
        let reported: BTreeSet<u64> = reported
            .filter(|(_, effect)| is_claim(effect))
            .map(|(voter, _)| *voter)
            .collect();
        assert!(reported.len() <= 1, "seed {seed}: {reported:?}");
        let last = cluster.nodes[&1]
            .propose_blocking(by(1, site(&format!("last{seed}")).op))
            .expect("all are together");
        assert_eq!(last.effect, Effect::Done);
        let name = format!("last{seed}");
        wait_until("all have all", || {
            VOTERS
                .iter()
                .all(|voter| cluster.sites(*voter).contains(&name))
        });
        for voter in VOTERS {
            let job = cluster.nodes[&voter].reader().job(&id).expect("read");
            let job = job.expect("there");
            if let Some(reported) = reported.first() {
                let runner = job.runner.as_ref().map(|runner| runner.node.as_str());
                assert_eq!(runner, Some(&*format!("dtn{reported}")), "seed {seed}");
            }
            for proposer in named.keys() {
                let name = format!("s{seed}-{proposer}");
                assert!(
                    cluster.sites(voter).contains(&name),
                    "seed {seed}: {name} is lost"
                );
            }
        }
    }
    let index = |voter: &u64| cluster.nodes[voter].applied_index();
    wait_until("all have applied the same", || {
        VOTERS.iter().all(|voter| index(voter) == index(&1))
    });
    let dumps = VOTERS.map(|voter| {
        let home = cluster.homes.path().join(address(voter));
        dump(&home.join("state.db"))
    });
    for (voter, dump) in VOTERS.iter().zip(&dumps) {
        assert_eq!(dump, &dumps[0], "the state of {voter} differs");
    }
    assert!(dumps[0].contains("job2") && dumps[0].contains("last2"));
}

/// Tests how the library counts a majority. An earlier version committed an entry that two of five voters had, if a voter already had
/// entries beyond the committed one (openraft#1802).
#[test]
fn an_entry_that_two_of_five_voters_have_is_not_committed() {
    let voters = VOTERS.into_iter().collect::<BTreeSet<u64>>();
    let mut progress = VecProgress::<(u64, u64), _>::new(voters, [], |voter| (voter, 0));
    let steps = [
        (1, 3, 0),
        (2, 5, 0),
        (1, 7, 0),
        (3, 6, 5),
        (4, 6, 6),
        (2, 9, 6),
        (5, 8, 7),
    ];
    let mut reached = BTreeMap::new();
    for (voter, index, expected) in steps {
        let committed = progress.update_progress(&voter, index).copied();
        assert_eq!(committed, Some(expected), "voter {voter} has {index}");
        reached.insert(voter, index);
        let have = reached.values().filter(|index| **index >= expected).count();
        assert!(
            expected == 0 || have >= 3,
            "{expected} is with {have} of five"
        );
    }
}
