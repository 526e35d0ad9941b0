//! Decides the next step of the controller of a divided job: open the work, pair nodes, wait, end. Also decides the pairs of nodes.
//! Reads no clock and no state, and asks no node.

use std::time::Duration;

use godwit_api::ask::{Peer, Refusal};
use godwit_api::failure::FailureCode;
use godwit_state::{Pair, SetPairs, Taken, Work};

use crate::claims::Standing;
use crate::rates::Rates;

/// How often the work is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The next step of the controller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Opens the work, or takes it over.
    Open,
    /// Says which node sends where, and how fast.
    Pair(Box<SetPairs>),
    /// Waits a moment.
    Rest,
    /// All is settled: the claim is released, and the job ends.
    Done,
    /// The job is not to be divided after all.
    Undivided(String),
    /// The attempt ends because of a refusal.
    Refused(Refusal),
    /// The attempt ends because a node could not do its work: code and message.
    Troubled(FailureCode, String),
}

/// The next step. `wanted` are the pairs as they should be.
pub(crate) fn next(
    standing: Standing,
    is_open: bool,
    work: Option<&Work>,
    wanted: SetPairs,
) -> Step {
    // Done work is done, whether a claim holds or not.
    if is_open && work.is_some_and(Work::is_done) {
        return Step::Done;
    }
    match standing {
        Standing::Unsupported(why) => return Step::Undivided(why),
        Standing::Refused(refusal) => return Step::Refused(refusal),
        Standing::Held if !is_open => return Step::Open,
        Standing::Held | Standing::Open if !is_open => return Step::Rest,
        Standing::Held | Standing::Open => {}
    }
    let Some(work) = work else {
        return Step::Rest;
    };
    if let Some(why) = &work.trouble {
        let code = why.code.known().unwrap_or(FailureCode::LocalFailure);
        return Step::Troubled(code, why.text.clone());
    }
    let targets = &work.targets;
    let is_as_wanted = work.pairs == wanted.pairs
        && targets.nodes == wanted.targets
        && targets.waits == wanted.waits
        && wanted.fenced.is_empty();
    match is_as_wanted {
        true => Step::Rest,
        false => Step::Pair(Box::new(wanted)),
    }
}

/// Inputs of the pairing of nodes that the controller decides.
pub(crate) struct Ring<'a> {
    /// Epoch of the controller.
    pub(crate) epoch: u64,
    /// Nodes of the source by their names.
    pub(crate) crew: &'a [String],
    /// Nodes of the crew that begin no items for now.
    pub(crate) resting: &'a [String],
    /// The share of a node in the limit of the job, in bytes per second, where 0 is no limit. Without a share the node begins no items.
    pub(crate) share: &'a dyn Fn(&str) -> Option<u64>,
    /// Nodes of the destination that take members in.
    pub(crate) ready: &'a [Peer],
    /// All nodes of the destination at which a claim may hold.
    pub(crate) all: &'a [Peer],
    /// Members may write through a node that is out of reach.
    pub(crate) waits: bool,
    /// Leases whose late writes are ruled out.
    pub(crate) fenced: Vec<Taken>,
    /// The rates that nodes were seen to reach.
    pub(crate) rates: &'a Rates,
    /// The work, with the pairs that are in force.
    pub(crate) before: Option<&'a Work>,
}

impl Ring<'_> {
    /// The pairs: each node of the source sends to one node of the destination, or to some in turn where there are more of those, by the
    /// rates of nodes ([`Rates::spread`]). A resting node finishes its lease and takes nothing more.
    pub(crate) fn pairs(self) -> SetPairs {
        let places: Vec<u32> = self
            .ready
            .iter()
            .filter_map(|peer| {
                let place = self
                    .all
                    .iter()
                    .position(|one| one.identity == peer.identity);
                place.and_then(|place| u32::try_from(place).ok())
            })
            .collect();
        let named = |place: &u32| usize::try_from(*place).ok().and_then(|at| self.all.get(at));
        let ready = places.iter().filter_map(named);
        let ready: Vec<&str> = ready.map(|peer| peer.identity.as_str()).collect();
        let rests = |node: &String| self.resting.contains(node) || (self.share)(node).is_none();
        let sending: Vec<&str> = self
            .crew
            .iter()
            .filter(|node| !rests(node))
            .map(String::as_str)
            .collect();
        let before: Vec<Option<usize>> = sending
            .iter()
            .map(|node| self.sent_to(node, &ready))
            .collect();
        let spread = self.rates.spread(&sending, &ready, &before);
        let mut spread = spread.into_iter();
        let pairs = self.crew.iter().map(|node| Pair {
            node: node.clone(),
            to: match rests(node) {
                true => Vec::new(),
                false => spread
                    .next()
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(|place| places.get(place).copied())
                    .collect(),
            },
            // 0 would be no limit.
            limit: (self.share)(node).unwrap_or(1),
        });
        SetPairs {
            epoch: self.epoch,
            pairs: match places.is_empty() {
                true => Vec::new(),
                false => pairs.collect(),
            },
            targets: self.all.to_vec(),
            waits: self.waits,
            fenced: self.fenced,
        }
    }

    /// The node of the destination that `node` was paired with, if it is ready.
    fn sent_to(&self, node: &str, ready: &[&str]) -> Option<usize> {
        let before = self.before?;
        let pair = before.pairs.iter().find(|pair| pair.node == node)?;
        let [place] = pair.to.as_slice() else {
            return None;
        };
        let target = before.targets.nodes.get(usize::try_from(*place).ok()?)?;
        ready.iter().position(|one| *one == target.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::ask::code;
    use godwit_state::{Reason, WorkCounts, WorkTargets};

    fn peer(name: &str) -> Peer {
        Peer {
            name: name.to_owned(),
            addresses: Vec::new(),
            identity: name.to_owned(),
        }
    }

    fn ring(crew: usize, ready: &[&str], all: &[&str], share: u64) -> SetPairs {
        let crew: Vec<String> = (0..crew).map(|node| format!("s{node}")).collect();
        let peers = |names: &[&str]| names.iter().map(|name| peer(name)).collect::<Vec<_>>();
        Ring {
            epoch: 1,
            crew: &crew,
            resting: &[],
            share: &|_| Some(share),
            ready: &peers(ready),
            all: &peers(all),
            waits: false,
            fenced: Vec::new(),
            rates: &Rates::default(),
            before: None,
        }
        .pairs()
    }

    fn to(set: &SetPairs) -> Vec<&[u32]> {
        set.pairs.iter().map(|pair| pair.to.as_slice()).collect()
    }

    fn work(set: &SetPairs) -> Work {
        Work {
            job: "job".to_owned(),
            epoch: 1,
            claim: String::new(),
            roots: Vec::new(),
            pairs: set.pairs.clone(),
            targets: WorkTargets {
                nodes: set.targets.clone(),
                ..WorkTargets::default()
            },
            trouble: None,
            closed: Vec::new(),
            open: 1,
            closes: 1,
            counts: WorkCounts::default(),
        }
    }

    #[test]
    fn nodes_are_paired_in_a_ring() {
        assert_eq!(to(&ring(2, &["a", "b"], &["a", "b"], 0)), [[0], [1]]);
        assert_eq!(to(&ring(3, &["a", "b"], &["a", "b"], 0)), [[0], [1], [0]]);
        let wide = ring(2, &["a", "b", "c", "d"], &["a", "b", "c", "d"], 5);
        assert_eq!(to(&wide), [[0, 2], [1, 3]]);
        assert!(wide.pairs.iter().all(|pair| pair.limit == 5));
        // A node that is out of reach is known, and not sent to.
        assert_eq!(to(&ring(2, &["b"], &["a", "b"], 0)), [[1], [1]]);
        assert_eq!(ring(2, &[], &["a"], 0).pairs, []);
    }

    #[test]
    fn a_node_that_rests_or_has_no_share_yet_begins_nothing() {
        let crew: Vec<String> = ["s0", "s1", "s2", "s3"].map(ToOwned::to_owned).to_vec();
        let ready = ["a", "b"].map(peer);
        let set = Ring {
            epoch: 1,
            crew: &crew,
            resting: &crew[1..2],
            share: &|node| (node != "s3").then_some(5),
            ready: &ready,
            all: &ready,
            waits: false,
            fenced: Vec::new(),
            rates: &Rates::default(),
            before: None,
        }
        .pairs();
        assert_eq!(to(&set), [&[0][..], &[], &[1], &[]]);
        let limits: Vec<u64> = set.pairs.iter().map(|pair| pair.limit).collect();
        assert_eq!(limits, [5, 5, 5, 1]);
    }

    #[test]
    fn the_destination_is_claimed_before_anybody_works() {
        let wanted = ring(1, &["a"], &["a"], 0);
        let step =
            |standing, is_open, work: Option<&Work>| next(standing, is_open, work, wanted.clone());
        assert_eq!(step(Standing::Open, false, None), Step::Rest);
        assert_eq!(step(Standing::Held, false, None), Step::Open);
        let mut work = work(&wanted);
        assert_eq!(step(Standing::Held, true, Some(&work)), Step::Rest);
        work.pairs.clear();
        let pair = Step::Pair(Box::new(wanted.clone()));
        assert_eq!(step(Standing::Held, true, Some(&work)), pair);
        (work.open, work.closes) = (0, 0);
        assert_eq!(step(Standing::Open, true, Some(&work)), Step::Done);
    }

    #[test]
    fn fenced_work_is_reported() {
        let mut wanted = ring(1, &["a"], &["a"], 0);
        let work = work(&wanted);
        wanted.fenced.push(Taken {
            node: "s0".to_owned(),
            index: 7,
        });
        let step = next(Standing::Held, true, Some(&work), wanted.clone());
        assert_eq!(step, Step::Pair(Box::new(wanted)));
    }

    #[test]
    fn refusals_and_trouble_end_the_attempt() {
        let wanted = || ring(1, &["a"], &["a"], 0);
        let no = Refusal::new(code::NOT_GRANTED, "no");
        let refused = next(Standing::Refused(no.clone()), true, None, wanted());
        assert_eq!(refused, Step::Refused(no));
        let old = Standing::Unsupported("old".to_owned());
        let undivided = Step::Undivided("old".to_owned());
        assert_eq!(next(old, false, None, wanted()), undivided);
        let mut work = work(&wanted());
        work.trouble = Some(Reason::new(FailureCode::NoSpace, "full"));
        let troubled = Step::Troubled(FailureCode::NoSpace, "full".to_owned());
        assert_eq!(next(Standing::Held, true, Some(&work), wanted()), troubled);
    }
}
