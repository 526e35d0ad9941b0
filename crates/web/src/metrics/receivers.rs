//! Owns the labels of the nodes that receive in a job: names of nodes of this site, and numbers of others.
//! Knows no figure.
//!
//! Another site chose the names of its nodes, and viewers may not see those. A number stays with its node while this node runs.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Jobs whose numbers are kept, latest last. Those that run have time series, and paused ones may run again.
const JOBS_MAX: usize = 1_000;

/// Nodes of a job that have numbers. A further one has the label `other`.
const NODES_MAX: usize = 64;

/// The numbered nodes of each job. The place of a name is its number.
#[derive(Default)]
pub(super) struct Receivers(Mutex<VecDeque<(String, Vec<String>)>>);

impl Receivers {
    /// The label of each of these receivers of a job, in their order. `own` are the names of the nodes of this site, if the job ends here.
    pub(super) fn labels(&self, job: &str, names: &[&str], own: &BTreeSet<String>) -> Vec<String> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = jobs.iter().position(|(id, _)| id == job);
        let known = place.and_then(|place| jobs.remove(place));
        let mut known = known.map_or_else(Vec::new, |(_, known)| known);
        let is_other = |name: &&str| !name.is_empty() && !own.contains(*name);
        // Nodes that are new together get their numbers in the order of their names.
        let others: BTreeSet<&str> = names.iter().copied().filter(is_other).collect();
        for name in others {
            if known.len() < NODES_MAX && known.iter().all(|one| one != name) {
                known.push(name.to_owned());
            }
        }
        let label = |name: &&str| match known.iter().position(|one| one == name) {
            _ if !is_other(name) => (*name).to_owned(),
            Some(place) => format!("receiver {}", place + 1),
            None => "other".to_owned(),
        };
        let labels = names.iter().map(label).collect();
        if jobs.len() >= JOBS_MAX {
            jobs.pop_front();
        }
        if !known.is_empty() {
            jobs.push_back((job.to_owned(), known));
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_receiver_stays_when_others_come_and_go() {
        let receivers = Receivers::default();
        let label = |names: &[&str]| receivers.labels("j", names, &BTreeSet::new());
        assert_eq!(label(&["b2", "", "b3"]), ["receiver 1", "", "receiver 2"]);
        assert_eq!(label(&["b1", "b3"]), ["receiver 3", "receiver 2"]);
        assert_eq!(label(&["b3"]), ["receiver 2"]);
        // Each job numbers its nodes apart.
        assert_eq!(
            receivers.labels("k", &["b3"], &BTreeSet::new()),
            ["receiver 1"]
        );
        assert_eq!(label(&["b2"]), ["receiver 1"]);
    }

    #[test]
    fn a_node_of_this_site_has_its_name() {
        let receivers = Receivers::default();
        let own = BTreeSet::from(["a1".to_owned()]);
        let labels = receivers.labels("j", &["a1", "b1"], &own);
        assert_eq!(labels, ["a1", "receiver 1"]);
    }

    #[test]
    fn jobs_and_nodes_are_bounded() {
        let receivers = Receivers::default();
        let none = BTreeSet::new();
        for job in 0..2 * JOBS_MAX {
            receivers.labels(&job.to_string(), &["b1"], &none);
        }
        assert_eq!(receivers.0.lock().expect("no panic").len(), JOBS_MAX);
        let names: Vec<String> = (0..100).map(|n| format!("b{n:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let labels = receivers.labels("j", &names, &none);
        assert_eq!(labels[63], "receiver 64");
        assert!(labels[64..].iter().all(|label| label == "other"));
    }
}
