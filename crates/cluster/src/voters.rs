//! Chooses the voters: a pure function of the nodes and their liveness.
//! Changes nothing.

use std::collections::BTreeSet;

/// The properties of a node that matter for voting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) number: u64,
    /// The node votes now.
    pub(crate) votes: bool,
    /// The operator wants the node to vote.
    pub(crate) wanted: bool,
    /// The node has the state, and its last message is recent.
    pub(crate) fit: bool,
    /// The node has been silent for so long that another node may take its seat.
    pub(crate) gone: bool,
}

/// Number of voters for this number of nodes. Two voters are worse than one, because both must live.
const fn seats(nodes: usize) -> usize {
    match nodes {
        0..=2 => 1,
        3..=4 => 3,
        _ => 5,
    }
}

/// The nodes that will vote. Voters keep their seats unless they are gone or other nodes are preferred. Only a fit node gets a seat.
pub(crate) fn choose(candidates: &[Candidate]) -> BTreeSet<u64> {
    let seats = seats(candidates.len());
    let mut order: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| candidate.votes || candidate.fit)
        .collect();
    // Preferred nodes come first, then present voters, then the oldest nodes.
    order.sort_by_key(|candidate| {
        (
            candidate.gone,
            !(candidate.wanted && (candidate.fit || candidate.votes)),
            !candidate.votes,
            candidate.number,
        )
    });
    let chosen: BTreeSet<u64> = order
        .iter()
        .take(seats)
        .map(|candidate| candidate.number)
        .collect();
    // An even number of voters survives no more losses than one voter less, and costs more messages.
    if chosen.len().is_multiple_of(2) {
        let fewer = chosen.len().saturating_sub(1);
        return order
            .iter()
            .take(fewer)
            .map(|candidate| candidate.number)
            .collect();
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u64, votes: bool) -> Candidate {
        Candidate {
            number,
            votes,
            wanted: false,
            fit: true,
            gone: false,
        }
    }

    fn chosen(candidates: &[Candidate]) -> Vec<u64> {
        choose(candidates).into_iter().collect()
    }

    #[test]
    fn one_three_or_five_vote() {
        let all: Vec<Candidate> = (1..=9).map(|number| node(number, number == 1)).collect();
        for (nodes, voters) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)] {
            assert_eq!(choose(&all[..nodes]).len(), voters, "{nodes} nodes");
        }
    }

    #[test]
    fn a_node_without_the_state_does_not_vote() {
        let mut all = [node(1, true), node(2, false), node(3, false)];
        all[2].fit = false;
        assert_eq!(chosen(&all), [1]);
        all[2].fit = true;
        assert_eq!(chosen(&all), [1, 2, 3]);
    }

    #[test]
    fn a_voter_that_is_gone_makes_way_for_a_node_that_lives() {
        let mut all = [node(1, true), node(2, true), node(3, true), node(4, false)];
        all[1].fit = false;
        assert_eq!(chosen(&all), [1, 2, 3], "it may come back");
        all[1].gone = true;
        assert_eq!(chosen(&all), [1, 3, 4]);
        all[3].fit = false;
        assert_eq!(chosen(&all), [1, 2, 3], "nobody can take its place");
    }

    #[test]
    fn a_preferred_node_votes() {
        let mut all = [node(1, true), node(2, true), node(3, true), node(4, false)];
        all[3].wanted = true;
        assert_eq!(chosen(&all), [1, 2, 4]);
    }
}
