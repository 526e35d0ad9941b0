//! Voters that a recovery left behind: from that moment on they decide nothing, not even together.
//! See the tests of the binary for how they learn of it.

mod support;

use godwit_state::ProposeError;
use support::air::{Cluster, address, site, wait_until};

const VOTERS: [u64; 3] = [1, 2, 3];

#[test]
fn a_voter_behind_its_closed_gate_leads_nothing_and_gives_no_vote() {
    let mut cluster = Cluster::of_one();
    cluster.grow(&[2, 3]);
    let first = cluster.leader(&VOTERS);
    cluster.gates[&first].close("dtn3 became the only one");
    let left = &cluster.nodes[&first];
    assert!(!left.is_leader() && !left.takes_part());
    let change = left.propose_blocking(site("refused"));
    assert!(
        matches!(&change, Err(ProposeError::LeftBehind(why)) if why.contains("dtn3")),
        "{change:?}"
    );
    assert!(matches!(
        left.readiness().check(),
        Err(ProposeError::LeftBehind(_))
    ));
    // The other two are a majority, and need no vote of the first one.
    let others: Vec<u64> = VOTERS.into_iter().filter(|one| *one != first).collect();
    let second = cluster.leader(&others);
    let change = cluster.nodes[&second].propose_blocking(site("without"));
    assert!(change.is_ok(), "{change:?}");
    assert!(cluster.sites(first).is_empty(), "it hears nothing");
    // The last node has only its own vote.
    cluster.gates[&second].close("dtn3 became the only one");
    let last = others.into_iter().find(|one| *one != second);
    let last = &cluster.nodes[&last.expect("a third voter")];
    wait_until("the last one misses the others", || {
        last.readiness().check().is_err()
    });
    let change = last.propose_blocking(site("alone"));
    assert!(change.is_err(), "{}: {change:?}", address(second));
}
