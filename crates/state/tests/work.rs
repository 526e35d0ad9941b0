//! Tests the work of divided jobs: leases, finds, settlements, returned items, and seeded simulations with crashes.
//! Other tests cover the consensus log.

mod support;

#[path = "work/families.rs"]
mod families;
#[path = "work/leases.rs"]
mod leases;
#[path = "work/many.rs"]
mod many;
#[path = "work/simulation.rs"]
mod simulation;
#[path = "work/tree.rs"]
mod tree;
#[path = "work/usage.rs"]
mod usage;

use godwit_state::{
    Closed, CommandError, Effect, FEATURE_LEVEL, Found, HeldItems, JobOp, Op, OpenWork, Outcome,
    Pair, Peer, SetPairs, Settle, Settled, Settlement, TakeWork, Taken, Task, WorkItem, WorkKind,
    WorkOp, WorkRoot, Works,
};
use support::state::State;
use support::{claim, finish, new_job, runner};

const PART: u64 = 256 << 20;

fn open(epoch: u64) -> WorkOp {
    WorkOp::Open(OpenWork {
        epoch,
        claim: "claim".to_owned(),
        roots: vec![WorkRoot {
            source: "data/a".to_owned(),
            file: None,
            destination: "data/b".to_owned(),
            observation: Vec::new(),
        }],
        part_bytes: PART,
    })
}

fn pairs(epoch: u64) -> WorkOp {
    set_pairs(epoch, false, Vec::new())
}

fn set_pairs(epoch: u64, waits: bool, fenced: Vec<Taken>) -> WorkOp {
    let pair = |node: &str| Pair {
        node: node.to_owned(),
        to: vec![0],
        limit: 0,
    };
    WorkOp::Pairs(Box::new(SetPairs {
        epoch,
        targets: vec![Peer {
            name: "there".to_owned(),
            identity: "gw1-there".to_owned(),
            addresses: vec!["there:1".to_owned()],
        }],
        pairs: vec![pair("node1"), pair("node2")],
        waits,
        fenced,
    }))
}

fn take(epoch: u64, node: &str) -> WorkOp {
    WorkOp::Lease(TakeWork {
        epoch,
        runner: runner(node, "first"),
        scans_max: 4,
        bytes_max: 2 * PART,
    })
}

fn settle(lease: u64, node: &str, ended: &[(u64, Settlement)]) -> WorkOp {
    let settled = |(number, outcome): &(u64, Settlement)| Settled {
        number: *number,
        outcome: outcome.clone(),
    };
    WorkOp::Settle(Box::new(Settle {
        looked: None,
        runner: runner(node, "first"),
        lease,
        items: ended.iter().map(settled).collect(),
        files: 1,
        bytes: 10,
        trouble: None,
        cut: false,
    }))
}

fn done() -> Settlement {
    Settlement::Done { digest: None }
}

fn digest(text: &str) -> Settlement {
    Settlement::Done {
        digest: Some(text.to_owned()),
    }
}

fn closed() -> Settlement {
    Settlement::Closed(Box::new(Closed {
        root: 0,
        files: 3,
        bytes: 30,
        summary: "{}".to_owned(),
        failures: Vec::new(),
    }))
}

fn file(path: &str, bytes: u64) -> Found {
    Found::File {
        path: path.into(),
        bytes,
        generation: u64::MAX,
    }
}

fn scan(path: &str, shares: u32) -> Found {
    Found::Scan {
        path: path.into(),
        shares,
    }
}

/// A job of epoch 1 with open work.
fn divided() -> State {
    let mut state = State::new();
    let submit = Op::Submit(Box::new(new_job("job")));
    state.op(0, submit).expect("submitted");
    state.job(1, claim(0)).expect("claimed");
    work(&mut state, open(1));
    work(&mut state, pairs(1));
    state
}

/// Raises the cluster to the level of this program.
fn raise(state: &mut State) {
    state
        .op(2, Op::Level(FEATURE_LEVEL))
        .expect("no node is behind");
}

#[track_caller]
fn work(state: &mut State, op: WorkOp) -> Effect {
    state.op(2, Op::Work("job".to_owned(), op)).expect("taken")
}

#[track_caller]
fn lease(state: &mut State, epoch: u64, node: &str) -> (u64, Vec<WorkItem>) {
    match work(state, take(epoch, node)) {
        Effect::Leased { lease, items } => (lease, items),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_settled(effect: &Effect, items: u64) {
    assert_eq!(*effect, Effect::Settled { items });
}

fn find(state: &mut State, number: u64, lease: u64, finds: Vec<Found>) -> Effect {
    work(
        state,
        WorkOp::Found {
            number,
            lease,
            finds,
        },
    )
}

#[test]
fn a_tree_is_scanned_cut_put_together_and_closed() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    let root = Task::Scan {
        path: "".into(),
        share: 0,
        shares: 1,
    };
    assert_eq!((items.len(), &items[0].task), (1, &root));
    let finds = vec![scan("d", 1), file("big", 2 * PART + 5)];
    let found = find(&mut state, items[0].number, first, finds.clone());
    assert_settled(&found, 1 + 4);
    // A repetition finds nothing new.
    assert_settled(&find(&mut state, items[0].number, first, finds), 0);

    // The large parts are leased before the rest of the file, and no more than requested.
    let (second, mut parts) = lease(&mut state, 1, "node2");
    // Parts are leased in any order.
    parts.sort_by_key(|item| (matches!(item.task, Task::Scan { .. }), item.number));
    let offsets: Vec<u64> = parts
        .iter()
        .filter_map(|item| match item.task {
            Task::Part { offset, .. } => Some(offset),
            _ => None,
        })
        .collect();
    assert_eq!((offsets, parts.len()), (vec![0, PART], 3));
    let held = |kind, node: Option<&str>, waits, items, part_bytes| HeldItems {
        kind,
        waits,
        node: node.map(str::to_owned),
        items,
        part_bytes,
    };
    let held_items = [
        held(WorkKind::Close, None, true, 1, 0),
        held(WorkKind::Scan, Some("node1"), false, 1, 0),
        held(WorkKind::Scan, Some("node2"), false, 1, 0),
        held(WorkKind::Part, None, false, 1, 5),
        held(WorkKind::Part, Some("node2"), false, 2, 2 * PART),
        held(WorkKind::Assemble, None, true, 1, 0),
    ];
    assert_eq!(
        Works(&state.reader).open_items("job").expect("read"),
        held_items
    );
    let ended = settle(first, "node1", &[(items[0].number, done())]);
    assert_settled(&work(&mut state, ended.clone()), 1);
    assert_settled(&work(&mut state, ended), 0);
    let ended = [
        (parts[0].number, digest("one")),
        (parts[1].number, digest("two")),
        (parts[2].number, done()),
    ];
    assert_settled(&work(&mut state, settle(second, "node2", &ended)), 3);
    let (third, rest) = lease(&mut state, 1, "node1");
    assert_eq!(rest.len(), 1, "{rest:?}");
    let ended = [(rest[0].number, digest("three"))];
    assert_settled(&work(&mut state, settle(third, "node1", &ended)), 1);

    let (fourth, whole) = lease(&mut state, 1, "node1");
    let Task::Assemble { parts, .. } = &whole[0].task else {
        panic!("{whole:?}");
    };
    let parts: Vec<_> = parts
        .iter()
        .map(|part| (part.offset, part.bytes, part.digest.as_str()))
        .collect();
    let expected = [
        (0, PART, "one"),
        (PART, PART, "two"),
        (2 * PART, 5, "three"),
    ];
    assert_eq!(parts, expected);
    assert_eq!(lease(&mut state, 1, "node2").1, [], "it closes too early");
    let ended = [(whole[0].number, done())];
    assert_settled(&work(&mut state, settle(fourth, "node1", &ended)), 1);

    let (fifth, close) = lease(&mut state, 1, "node2");
    assert_eq!(close[0].task, Task::Close {});
    let ended = [(close[0].number, closed())];
    assert_settled(&work(&mut state, settle(fifth, "node2", &ended)), 1);
    let ended = Works(&state.reader)
        .of("job")
        .expect("read")
        .expect("there");
    assert!(ended.is_done(), "{ended:?}");
    let counts = ended.counts;
    assert_eq!((counts.scans, counts.parts, counts.assembled), (2, 3, 1));
    assert_eq!((counts.files, counts.bytes, counts.leases), (5, 50, 5));
    assert_eq!(Works(&state.reader).items("job").expect("read"), 0);
    // An attempt that continues although all items are settled gets its closes again.
    state.job(3, JobOp::Pause).expect("paused");
    state.job(4, JobOp::Resume).expect("resumed");
    state.job(5, claim(3)).expect("claimed");
    work(&mut state, open(4));
    work(&mut state, pairs(4));
    let again = Works(&state.reader)
        .of("job")
        .expect("read")
        .expect("there");
    assert_eq!(
        (again.closes, again.counts.files, again.closed.len()),
        (1, 8, 0)
    );
    let (sixth, close) = lease(&mut state, 4, "node1");
    let ended = [(close[0].number, closed())];
    assert_settled(&work(&mut state, settle(sixth, "node1", &ended)), 1);
    state.job(6, finish(4, Outcome::Complete)).expect("ended");
    assert_eq!(Works(&state.reader).of("job").expect("read"), None);
}

#[test]
fn a_part_that_fails_leaves_its_file_to_the_close() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    find(
        &mut state,
        items[0].number,
        first,
        vec![file("big", 5 * PART)],
    );
    let (second, parts) = lease(&mut state, 1, "node2");
    assert_eq!(parts.len(), 2);
    let failed = [(parts[0].number, Settlement::Failed {})];
    work(&mut state, settle(second, "node2", &failed));
    let ended = [(items[0].number, done())];
    work(&mut state, settle(first, "node1", &ended));
    // No other closes start, but the holder of one may end it.
    assert_eq!(lease(&mut state, 1, "node1").1, []);
    let late = [(parts[1].number, digest("late"))];
    work(&mut state, settle(second, "node2", &late));
    let (_, close) = lease(&mut state, 1, "node1");
    assert_eq!(close[0].task, Task::Close {});
    let counts = Works(&state.reader)
        .of("job")
        .expect("read")
        .expect("there");
    let counts = counts.counts;
    assert_eq!((counts.parts, counts.parts_left), (1, 4));
    assert_eq!((counts.assembled, counts.files_left), (0, 1));
}

#[test]
fn returned_work_is_settled_only_by_its_new_holder() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    let number = items[0].number;
    find(&mut state, number, first, vec![scan("d", 3)]);
    let back = WorkOp::Return {
        node: "node1".to_owned(),
    };
    assert_settled(&work(&mut state, back), 1);
    let late = settle(first, "node1", &[(number, done())]);
    assert_settled(&work(&mut state, late.clone()), 0);
    assert_settled(&find(&mut state, number, first, vec![scan("e", 1)]), 0);
    // The only node of the job gets all items.
    let WorkOp::Pairs(mut alone) = pairs(1) else {
        panic!("these are pairs");
    };
    alone.pairs.retain(|pair| pair.node == "node2");
    work(&mut state, WorkOp::Pairs(alone));
    let (second, items) = lease(&mut state, 1, "node2");
    assert!(items.iter().any(|item| item.number == number));
    let other = settle(second, "node1", &[(number, done())]);
    assert_settled(&work(&mut state, other), 0);
    assert_settled(&work(&mut state, late), 0);
    // The same scan by another node finds the same entries, which exist already, settled or not.
    let all: Vec<(u64, Settlement)> = items
        .iter()
        .filter(|item| item.number != number)
        .map(|item| (item.number, done()))
        .collect();
    assert_settled(&work(&mut state, settle(second, "node2", &all)), 3);
    assert_settled(&find(&mut state, number, second, vec![scan("d", 3)]), 0);
    let last = settle(second, "node2", &[(number, done())]);
    assert_settled(&work(&mut state, last), 1);
    let work = Works(&state.reader)
        .of("job")
        .expect("read")
        .expect("there");
    assert_eq!((work.open, work.counts.scans), (0, 4));
}

#[test]
fn a_restart_and_a_higher_epoch_return_what_was_leased() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    state
        .op(3, Op::Restart(runner("node1", "second")))
        .expect("restarted");
    let stale = state.op(4, Op::Work("job".to_owned(), take(1, "node2")));
    assert!(
        matches!(stale, Err(CommandError::Stale { .. })),
        "{stale:?}"
    );
    let ended = settle(first, "node1", &[(items[0].number, done())]);
    assert_settled(&work(&mut state, ended), 0);
    state.job(5, claim(2)).expect("claimed");
    // No node works until the new controller has claimed the destinations.
    work(&mut state, open(3));
    assert_eq!(lease(&mut state, 3, "node2").1, []);
    work(&mut state, pairs(3));
    let (second, again) = lease(&mut state, 3, "node2");
    assert_eq!(again, items);
    state.job(6, JobOp::Pause).expect("paused");
    // Settled items stay settled, even if the job changes.
    let ended = settle(second, "node2", &[(again[0].number, done())]);
    assert_settled(&work(&mut state, ended), 1);
    let old = state.op(7, Op::Work("job".to_owned(), open(1)));
    assert!(matches!(old, Err(CommandError::Stale { .. })), "{old:?}");
}

#[test]
fn nothing_is_put_together_or_closed_while_something_may_be_written_late() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    let number = items[0].number;
    find(&mut state, number, first, vec![file("f", PART)]);
    work(&mut state, settle(first, "node1", &[(number, done())]));
    // A node other than the controller's is lost with the only part.
    let (_, lost) = lease(&mut state, 1, "node2");
    assert!(matches!(lost[0].task, Task::Part { .. }), "{lost:?}");
    state
        .op(3, Op::Restart(runner("node2", "second")))
        .expect("restarted");
    let targets = |state: &State| {
        let work = Works(&state.reader).of("job").expect("read");
        work.expect("there").targets
    };
    let taken = targets(&state).taken;
    assert_eq!(taken.len(), 1);
    let (second, part) = lease(&mut state, 1, "node1");
    assert_eq!(part, lost);
    work(
        &mut state,
        settle(second, "node1", &[(part[0].number, digest("d"))]),
    );
    assert_eq!(lease(&mut state, 1, "node1").1, []);
    // An earlier fence does not cover this one.
    let other = Taken {
        index: taken[0].index - 1,
        ..taken[0].clone()
    };
    work(&mut state, set_pairs(1, false, vec![other]));
    assert_eq!(lease(&mut state, 1, "node1").1, []);
    work(&mut state, set_pairs(1, true, taken));
    assert_eq!(lease(&mut state, 1, "node1").1, []);
    work(&mut state, pairs(1));
    let (third, whole) = lease(&mut state, 1, "node1");
    assert!(matches!(whole[0].task, Task::Assemble { .. }), "{whole:?}");
    let ended = [(whole[0].number, done())];
    work(&mut state, settle(third, "node1", &ended));
    work(&mut state, set_pairs(1, true, Vec::new()));
    assert_eq!(lease(&mut state, 1, "node1").1, []);
    work(&mut state, pairs(1));
    let (_, close) = lease(&mut state, 1, "node1");
    assert_eq!(close[0].task, Task::Close {});
}

#[test]
fn commands_beyond_the_bounds_are_refused() {
    let mut state = divided();
    let (lease, items) = lease(&mut state, 1, "node1");
    let number = items[0].number;
    let long = "x".repeat(4_000);
    let many = (0..2_000).map(|_| scan("d", 1)).collect();
    let large = (0..40).map(|at| scan(&format!("{at}{long}"), 1)).collect();
    let odd = vec![scan("d", 0)];
    let odder = vec![scan("d", 5_000)];
    let empty = vec![file("f", 0)];
    for finds in [many, large, odd, odder, empty] {
        let op = WorkOp::Found {
            number,
            lease,
            finds,
        };
        let refused = state.op(3, Op::Work("job".to_owned(), op));
        assert!(
            matches!(refused, Err(CommandError::Invalid { .. })),
            "{refused:?}"
        );
    }
    // A file of 64 TiB has no more parts than any other.
    let found = find(&mut state, number, lease, vec![file("f", 64 << 40)]);
    assert_settled(&found, 1_025);
    let wrong = settle(lease, "node1", &[(number, closed())]);
    let refused = state.op(4, Op::Work("job".to_owned(), wrong));
    assert!(
        matches!(refused, Err(CommandError::Invalid { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_job_that_ends_removes_its_work_and_may_be_divided_again() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    find(&mut state, items[0].number, first, vec![scan("d", 1_000)]);
    state
        .job(3, JobOp::Cancel { comment: None })
        .expect("ended");
    assert_eq!(Works(&state.reader).all().expect("read"), []);
    let gone = state.op(4, Op::Work("job".to_owned(), take(1, "node1")));
    assert!(
        matches!(gone, Err(CommandError::NotFound { .. })),
        "{gone:?}"
    );
    state.job(5, JobOp::Retry).expect("again");
    state.job(6, claim(3)).expect("claimed");
    work(&mut state, open(4));
    assert_eq!(Works(&state.reader).items("job").expect("read"), 2);
}
