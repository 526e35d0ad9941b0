//! Tests leases: even shares, parts in random order, nothing for resting nodes. Does not test
//! settlements.

use super::*;

#[test]
fn parts_of_a_file_leave_in_no_order_over_the_nodes() {
    let mut state = divided();
    raise(&mut state);
    let (first, items) = lease(&mut state, 1, "node1");
    find(
        &mut state,
        items[0].number,
        first,
        vec![file("big", 64 * PART)],
    );
    let ended = settle(first, "node1", &[(items[0].number, done())]);
    assert_settled(&work(&mut state, ended), 1);
    let mut taken = Vec::new();
    for node in ["node1", "node2"].into_iter().cycle() {
        let (_, parts) = lease(&mut state, 1, node);
        let parts = parts.iter().filter_map(|item| match item.task {
            Task::Part { offset, .. } => Some(offset / PART),
            _ => None,
        });
        let before = taken.len();
        taken.extend(parts);
        if taken.len() == before {
            break;
        }
    }
    let steps = taken.windows(2).filter(|pair| pair[1] == pair[0] + 1);
    assert!(steps.count() < 16, "{taken:?}");
    taken.sort_unstable();
    assert_eq!(taken, (0..64).collect::<Vec<_>>());
}

#[test]
fn a_node_that_rests_gets_nothing_and_has_no_share() {
    for rises in [false, true] {
        let mut state = divided();
        if rises {
            raise(&mut state);
        }
        let (first, items) = lease(&mut state, 1, "node1");
        let found = vec![file("big", 8 * PART)];
        find(&mut state, items[0].number, first, found);
        let ended = settle(first, "node1", &[(items[0].number, done())]);
        assert_settled(&work(&mut state, ended), 1);
        let WorkOp::Pairs(mut set) = pairs(1) else {
            panic!("pairs");
        };
        for pair in set.pairs.iter_mut().filter(|pair| pair.node == "node1") {
            pair.to.clear();
        }
        work(&mut state, WorkOp::Pairs(set));
        // The effect of a command depends only on the level of the cluster.
        assert_eq!(lease(&mut state, 1, "node1").1.is_empty(), rises);
    }
}

#[test]
fn no_node_gets_more_than_an_even_share_of_what_waits() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    let scans = (0..5).map(|at| scan(&format!("d{at}"), 1));
    let finds: Vec<Found> = scans.chain([file("big", 5 * PART)]).collect();
    find(&mut state, items[0].number, first, finds);
    let counts = |items: &[WorkItem]| {
        let of = |is: fn(&Task) -> bool| items.iter().filter(|item| is(&item.task)).count();
        let parts = of(|task| matches!(task, Task::Part { .. }));
        (parts, of(|task| matches!(task, Task::Scan { .. })))
    };
    let mut given = Vec::new();
    for node in ["node2", "node1", "node2", "node1"] {
        let op = WorkOp::Lease(TakeWork {
            epoch: 1,
            runner: runner(node, "first"),
            scans_max: 4,
            bytes_max: 100 * PART,
        });
        let Effect::Leased { items, .. } = work(&mut state, op) else {
            panic!("no lease");
        };
        given.push(counts(&items));
    }
    assert_eq!(given, [(3, 3), (1, 1), (1, 1), (0, 0)]);
}

/// The work of two files, all of whose scans are done.
fn scanned_job_of_two_files(is_raised: bool) -> State {
    let mut state = State::new();
    if is_raised {
        raise(&mut state);
    }
    let submit = Op::Submit(Box::new(new_job("job")));
    state.op(0, submit).expect("submitted");
    state.job(1, claim(0)).expect("claimed");
    let root = |file: &str| WorkRoot {
        source: "data/a".to_owned(),
        file: Some(file.to_owned()),
        destination: "data/b".to_owned(),
        observation: Vec::new(),
    };
    let open = OpenWork {
        epoch: 1,
        claim: "claim".to_owned(),
        roots: vec![root("one"), root("two")],
        part_bytes: PART,
    };
    work(&mut state, WorkOp::Open(open));
    work(&mut state, pairs(1));
    for node in ["node1", "node2"] {
        let (number, items) = lease(&mut state, 1, node);
        let ended: Vec<_> = items.iter().map(|item| (item.number, done())).collect();
        work(&mut state, settle(number, node, &ended));
    }
    state
}

#[test]
fn a_close_that_must_wait_for_another_one_is_not_ready() {
    for is_raised in [true, false] {
        let mut state = scanned_job_of_two_files(is_raised);
        let is_ready = |state: &State| {
            let works = Works(&state.reader);
            let work = works.of("job").expect("read").expect("open");
            works.has_ready(&work).expect("read")
        };
        assert!(is_ready(&state));
        let (_, items) = lease(&mut state, 1, "node1");
        assert_eq!(items.len(), 1, "{items:?}");
        // A node that is ready for work leases some.
        assert_eq!(is_ready(&state), !is_raised);
        let (_, items) = lease(&mut state, 1, "node2");
        assert_eq!(items.is_empty(), is_raised, "{items:?}");
    }
}

#[test]
fn files_of_the_largest_size_have_a_sum() {
    let mut state = divided();
    let (first, items) = lease(&mut state, 1, "node1");
    let largest = i64::MAX.cast_unsigned();
    let found = ["one", "two"].map(|path| file(path, largest)).to_vec();
    find(&mut state, items[0].number, first, found);
    let open = Works(&state.reader).open_items("job").expect("read");
    let parts = open.iter().find(|items| items.kind == WorkKind::Part);
    assert_eq!(parts.expect("parts").part_bytes, 2 * largest);
}
