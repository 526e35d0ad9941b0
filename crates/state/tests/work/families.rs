//! Tests the leases of two jobs of one family: a node gets the same items of both first, in one order.
//! See the tests of the rule for nodes of unequal rates.

use godwit_state::{Change, NewFamily, NewJob, Node};

use super::support::nodes::node;
use super::support::{job_command, place};
use super::*;

const CHILDREN: [&str; 2] = ["f1", "f2"];
const NODES: [&str; 2] = ["node1", "node2"];

/// Two jobs of one parent with open work, in a cluster of these nodes.
fn family(nodes: &[&str]) -> State {
    let to = |id: &str| {
        let mut new = new_job(id);
        new.destination = place("siteB", &format!("/archive/{id}"));
        new
    };
    submitted(nodes, to)
}

/// Two jobs of one parent with open work. The function describes each job.
fn submitted(nodes: &[&str], new: impl Fn(&str) -> NewJob) -> State {
    let mut state = State::new();
    for (number, name) in (1..).zip(nodes) {
        let row = Node {
            level: FEATURE_LEVEL,
            admins: Vec::new(),
            ..node(name, number)
        };
        state.op(0, Op::Node(Change::Put(row))).expect("put");
    }
    raise(&mut state);
    let family = NewFamily {
        parent: new("f0"),
        children: CHILDREN.map(&new).to_vec(),
    };
    let submit = Op::SubmitFamily(Box::new(family));
    state.op(1, submit).expect("submitted");
    for id in CHILDREN {
        let claimed = job_command(1, id, claim(0));
        state.apply(&claimed).expect("claimed");
        work_of(&mut state, id, open(1));
        work_of(&mut state, id, pairs(1));
    }
    state
}

#[track_caller]
fn work_of(state: &mut State, id: &str, op: WorkOp) -> Effect {
    state.op(2, Op::Work(id.to_owned(), op)).expect("taken")
}

#[track_caller]
fn lease_of(state: &mut State, id: &str, node: &str) -> (u64, Vec<WorkItem>) {
    match work_of(state, id, take(1, node)) {
        Effect::Leased { lease, items } => (lease, items),
        other => panic!("{other:?}"),
    }
}

/// Whether this node leases an item of the job first.
fn has_own(state: &State, id: &str, node: &str) -> bool {
    let works = Works(&state.reader);
    let work = works.of(id).expect("read").expect("open");
    works.has_own_ready(&work, node).expect("read")
}

/// Leases the scan of the root, and finds these.
fn scan_root(state: &mut State, id: &str, finds: Vec<Found>) {
    let (lease, items) = lease_of(state, id, "node1");
    assert_eq!(items.len(), 1);
    let number = items[0].number;
    let found = WorkOp::Found {
        number,
        lease,
        finds,
    };
    work_of(state, id, found);
    work_of(state, id, settle(lease, "node1", &[(number, done())]));
}

/// The tasks that each node gets until none is left. The nodes lease in turn.
fn tasks(state: &mut State, id: &str) -> [Vec<Task>; 2] {
    let mut tasks = [Vec::new(), Vec::new()];
    loop {
        let before = tasks.each_ref().map(Vec::len);
        for (node, tasks) in NODES.into_iter().zip(&mut tasks) {
            let (_, items) = lease_of(state, id, node);
            tasks.extend(items.into_iter().map(|item| item.task));
        }
        if before == tasks.each_ref().map(Vec::len) {
            return tasks;
        }
    }
}

#[test]
fn a_node_leases_the_same_items_of_each_job_in_one_order() {
    let mut state = family(&NODES);
    let scans = (0..40).map(|at| scan(&format!("d{at:02}"), 1));
    let mut finds: Vec<Found> = scans.chain([file("big", 16 * PART)]).collect();
    let mut all = Vec::new();
    for id in CHILDREN {
        scan_root(&mut state, id, finds.clone());
        all.push(tasks(&mut state, id));
        // The other job finds them in another order.
        finds.reverse();
    }
    assert_eq!(all[0], all[1]);
    let each = all[0].each_ref().map(Vec::len);
    assert_eq!(each.iter().sum::<usize>(), 40 + 16);
    assert!(each.iter().all(|tasks| *tasks > 14), "{each:?}");
    let of_both = all[0].concat();
    let path = |task: &Task| match task {
        Task::Scan { path, .. } => path.0.clone(),
        Task::Part { path, offset, .. } => [&path.0[..], &offset.to_le_bytes()].concat(),
        other => panic!("{other:?}"),
    };
    let mut paths: Vec<Vec<u8>> = of_both.iter().map(path).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 40 + 16, "each item once");
}

#[test]
fn one_node_gets_an_item_first_and_the_other_one_if_it_asks() {
    let mut state = family(&NODES);
    let first = |state: &State, id: &str| NODES.map(|node| has_own(state, id, node));
    let of_one = first(&state, "f1");
    assert!(of_one == [true, false] || of_one == [false, true]);
    assert_eq!(first(&state, "f2"), of_one);
    let other = NODES[usize::from(of_one[0])];
    assert_eq!(lease_of(&mut state, "f1", other).1.len(), 1);
    // No item is left, and none is the node's own.
    assert_eq!(first(&state, "f1"), [false, false]);
    // The jobs of a gather read different files.
    let gather = submitted(&NODES, |id| {
        let mut new = new_job(id);
        new.sources = vec![place("siteA", &format!("/data/{id}"))];
        new.destination = place("siteB", &format!("/archive/{id}"));
        new
    });
    assert_eq!(first(&gather, "f1"), [true, true]);
    // A job of no family has no such order.
    let mut lone = divided();
    raise(&mut lone);
    assert_eq!(first(&lone, "job"), [true, true]);
}

#[test]
fn a_node_that_begins_a_job_waits_for_the_other_nodes_of_its_cluster() {
    for nodes in [&NODES[..1], &NODES[..]] {
        let mut state = family(nodes);
        let WorkOp::Pairs(mut set) = pairs(1) else {
            panic!("pairs");
        };
        set.pairs.retain(|pair| pair.node == "node1");
        work_of(&mut state, "f1", WorkOp::Pairs(set));
        assert_eq!(has_own(&state, "f1", "node1"), nodes.len() == 1);
        let (lease, items) = lease_of(&mut state, "f1", "node1");
        let [root] = items.as_slice() else {
            panic!("{items:?}");
        };
        let finds = vec![scan("d", 1)];
        let found = WorkOp::Found {
            number: root.number,
            lease,
            finds,
        };
        work_of(&mut state, "f1", found);
        // The others had their time.
        assert!(has_own(&state, "f1", "node1"));
    }
}

/// Leases items to the node, which returns them.
fn return_items(state: &mut State, id: &str, node: &str) -> Vec<u64> {
    let (lease, items) = lease_of(state, id, node);
    let numbers: Vec<u64> = items.iter().map(|item| item.number).collect();
    let back = numbers.iter().map(|number| (*number, Settlement::Back {}));
    let back: Vec<(u64, Settlement)> = back.collect();
    work_of(state, id, settle(lease, node, &back));
    numbers
}

#[test]
fn an_item_that_a_node_returns_is_next_for_the_other_one() {
    let mut state = family(&NODES);
    let first = |state: &State, id: &str| NODES.map(|node| has_own(state, id, node));
    let of_both = first(&state, "f2");
    for _ in 0..2 {
        let before = first(&state, "f1");
        let own = NODES[usize::from(!before[0])];
        assert_eq!(return_items(&mut state, "f1", own).len(), 1);
        assert_eq!(first(&state, "f1"), before.map(|is_own| !is_own));
    }
    // Each had its turn. A node that finds nothing else gets the item again, so no item stays.
    let own = NODES[usize::from(!of_both[0])];
    assert_eq!(first(&state, "f1"), of_both);
    return_items(&mut state, "f1", own);
    assert_eq!(return_items(&mut state, "f1", own).len(), 1);
    // The other job is not affected, and no node holds the item.
    assert_eq!(first(&state, "f2"), of_both);
    let open = Works(&state.reader).open_items("f1").expect("read");
    assert!(open.iter().all(|items| items.node.is_none()), "{open:?}");
    // If the other node leaves, the item comes back at once.
    let WorkOp::Pairs(mut set) = pairs(1) else {
        panic!("pairs");
    };
    set.pairs.retain(|pair| pair.node == own);
    work_of(&mut state, "f1", WorkOp::Pairs(set));
    assert!(has_own(&state, "f1", own));
}

#[test]
fn a_node_leases_what_it_returned_after_all_else() {
    let mut state = family(&NODES);
    let finds = (0..40).map(|at| scan(&format!("d{at:02}"), 1)).collect();
    scan_root(&mut state, "f1", finds);
    let mut returned = return_items(&mut state, "f1", "node1");
    let mut leased = Vec::new();
    loop {
        let (_, items) = lease_of(&mut state, "f1", "node1");
        if items.is_empty() {
            break;
        }
        leased.extend(items.into_iter().map(|item| item.number));
    }
    assert_eq!((leased.len(), returned.len()), (40, 4));
    let mut last = leased.split_off(36);
    returned.sort_unstable();
    last.sort_unstable();
    assert_eq!(last, returned);
}
