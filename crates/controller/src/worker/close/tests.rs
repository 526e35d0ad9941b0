//! Tests, with a real replica, that a close uses the counts of its lease.
//! Brings nothing.

use std::sync::Arc;
use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_api::job::JobKind;
use godwit_state::{
    Effect, JobOp, NewJob, Op, OpenWork, Options, Pair, Peer, Replica, RetryPolicy, Runner,
    SetPairs, Settle, Settled, Settlement, StoredPlace, TakeWork, Timestamp, WorkItem, WorkOp,
    WorkRoot, Works,
};

use super::super::Shared;
use super::*;
use crate::Node;
use crate::batch::Base;

fn runner(node: &str) -> Runner {
    Runner {
        node: node.to_owned(),
        instance: "first".to_owned(),
    }
}

fn place(site: &str) -> StoredPlace {
    StoredPlace {
        site: site.to_owned(),
        path: "/data/x".to_owned(),
    }
}

/// Submits a job whose work is open, for two nodes.
fn submit_divided(node: &Node) {
    let new = NewJob {
        id: "job".to_owned(),
        label: "job".to_owned(),
        owner: "alice".to_owned(),
        spec: "{}".to_owned(),
        sources: vec![place("here")],
        destination: place("siteB"),
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retry: RetryPolicy::default(),
        idempotency_key: None,
    };
    let claim = JobOp::Claim {
        runner: runner("own"),
        seen: 0,
    };
    let root = WorkRoot {
        source: "data/x".to_owned(),
        file: None,
        destination: "data/x".to_owned(),
        observation: Vec::new(),
    };
    let open = OpenWork {
        epoch: 1,
        claim: "claim".to_owned(),
        roots: vec![root],
        part_bytes: 1 << 28,
    };
    let pair = |node: &str| Pair {
        node: node.to_owned(),
        to: vec![0],
        limit: 0,
    };
    let pairs = SetPairs {
        epoch: 1,
        targets: vec![Peer {
            name: "there".to_owned(),
            identity: "gw1-there".to_owned(),
            addresses: vec!["there:1".to_owned()],
        }],
        pairs: vec![pair("own"), pair("other")],
        waits: false,
        fenced: Vec::new(),
    };
    for op in [
        Op::Submit(Box::new(new)),
        Op::Job("job".to_owned(), claim),
        Op::Work("job".to_owned(), WorkOp::Open(open)),
        Op::Work("job".to_owned(), WorkOp::Pairs(Box::new(pairs))),
    ] {
        node.propose(op).expect("taken");
    }
}

fn lease(node: &Node, name: &str) -> (u64, Vec<WorkItem>) {
    let take = WorkOp::Lease(TakeWork {
        epoch: 1,
        runner: runner(name),
        scans_max: 1,
        bytes_max: 1,
    });
    match node.propose(Op::Work("job".to_owned(), take)) {
        Ok(Effect::Leased { lease, items }) => (lease, items),
        other => panic!("{other:?}"),
    }
}

fn node(directory: &std::path::Path) -> Node {
    let replica = Replica::open(Options::new(directory)).expect("open");
    Node {
        replica: Arc::new(replica),
        runner: runner("own"),
        now: Arc::new(|| Timestamp(1)),
        make_env: Arc::new(|_| panic!("nothing is brought")),
        hangs: Arc::new(|| false),
    }
}

fn base() -> Base {
    Base {
        kind: JobKind::Sync,
        settings: Default::default(),
        deletes: true,
        selection: None,
        manifest: None,
        retry_for: Duration::ZERO,
    }
}

/// Leases the only scan to the other node, which settles it with this result.
fn scanned(node: &Node, outcome: Settlement) {
    let (scan, items) = lease(node, "other");
    let settle = Settle {
        runner: runner("other"),
        lease: scan,
        items: vec![Settled {
            number: items[0].number,
            outcome,
        }],
        files: 0,
        bytes: 0,
        trouble: None,
        cut: false,
        looked: None,
    };
    let settle = WorkOp::Settle(Box::new(settle));
    node.propose(Op::Work("job".to_owned(), settle))
        .expect("taken");
}

#[test]
fn a_scan_that_failed_before_the_close_was_leased_keeps_the_close_from_deleting() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, base, shared) = (node(directory.path()), base(), Shared::default());
    submit_divided(&node);
    let context = JobContext {
        node: &node,
        job: "job",
        epoch: 1,
        base: &base,
        shared: &shared,
    };
    // The work as a worker reads it before it asks for a lease.
    let before = Works(&node.replica.reader()).of("job").expect("read");
    scanned(&node, Settlement::Failed {});
    let (close, items) = lease(&node, "own");
    assert_eq!(items.len(), 1);
    assert!(deletes(&before.expect("open")), "it knew of no failure");
    assert!(!deletes(&context.as_leased(close).expect("open")));
}

#[test]
fn after_a_refused_region_the_close_of_the_root_finishes_the_whole_tree() {
    let directory = tempfile::tempdir().expect("a directory");
    let (node, base, shared) = (node(directory.path()), base(), Shared::default());
    submit_divided(&node);
    let context = JobContext {
        node: &node,
        job: "job",
        epoch: 1,
        base: &base,
        shared: &shared,
    };
    scanned(&node, Settlement::Done { digest: None });
    let (close, items) = lease(&node, "own");
    let mut work = context.as_leased(close).expect("open");
    assert!(!was_refused(&work, 0));
    work.closed.push(refused(0));
    let (sum, failures) = crate::summed(&work);
    assert_eq!(sum.status, godwit_api::event::Status::Complete);
    assert_eq!(failures.len(), 0);
    let leased = Leased {
        work: &work,
        lease: close,
        root: 0,
        items: &items,
    };
    let part = |path: &str, shares, flat| {
        let task = Task::Region {
            path: WorkPath::from(path),
            share: 0,
            shares,
            flat,
        };
        match context.region(&leased, &task) {
            Ok(Part::Of(region, unread)) if unread.is_empty() => {
                region.map(|region| region.within.len())
            }
            _ => panic!("{task:?}"),
        }
    };
    assert_eq!(part("a", 1, true), Some(0));
    assert_eq!(part("a", 1, false), Some(0));
    assert_eq!(part("", 4, true), Some(0));
    assert_eq!(part("", 1, true), None, "the whole tree");
    let failure = |code| Err(Failure::new(code, "too old"));
    assert!(is_too_old(&failure(FailureCode::VersionMismatch)));
    assert!(!is_too_old(&failure(FailureCode::ConnectionLost)));
}

#[test]
fn a_close_is_not_left_to_one_directory_while_entries_beside_it_are_unknown() {
    let tally = |directories: &[&str], unread| Tally {
        directories: directories
            .iter()
            .map(|path| path.as_bytes().to_vec())
            .collect(),
        is_large: true,
        unread,
    };
    let unread = Unread {
        path: b"b".to_vec(),
        code: FailureCode::Io.into(),
        message: "stale".to_owned(),
    };
    assert!(left(&tally(&["a"], Vec::new()), b"", 1).is_some());
    assert!(left(&tally(&["a"], vec![unread.clone()]), b"", 1).is_none());
    assert!(left(&tally(&["a", "c"], vec![unread]), b"", 1).is_some());
}
