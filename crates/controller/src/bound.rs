//! Chooses the nodes of one site that take part in a divided job, where the setting `nodes` bounds their number.
//! Asks no node and reads no clock: names, losses and times are arguments.
//!
//! The first nodes of the list take part. A node that takes part stays while it is listed and not lost. The next node of the list takes
//! the place of any other. If too few nodes remain, the job continues with fewer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use godwit_api::ask::Peer;

/// A lost node gives others precedence for this long.
const LOST_FOR: Duration = Duration::from_secs(60);

/// A node that could take part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered<'a> {
    /// Name or identity of the node.
    pub(crate) key: &'a str,
    /// Its name in the log of the job.
    pub(crate) name: &'a str,
}

/// The nodes of one site that take part.
#[derive(Debug)]
pub(crate) struct Bound {
    most: usize,
    /// The words for the site in the log of the job.
    site: &'static str,
    /// Keys of the nodes that take part.
    used: BTreeSet<String>,
    /// Lost nodes, each until then.
    lost: BTreeMap<String, Duration>,
    said: Option<String>,
}

impl Bound {
    /// At most this many nodes. Nodes whose identities are in `before` come first.
    pub(crate) fn new(most: usize, site: &'static str, before: &[Peer]) -> Self {
        Self {
            most,
            site,
            used: before.iter().map(|node| node.identity.clone()).collect(),
            lost: BTreeMap::new(),
            said: None,
        }
    }

    /// Whether a node takes part.
    pub(crate) fn uses(&self, key: &str) -> bool {
        self.used.contains(key)
    }

    /// Chooses among the nodes of a list. Returns whether others take part than before.
    pub(crate) fn choose(
        &mut self,
        now: Duration,
        offered: &[Offered<'_>],
        is_lost: impl Fn(&str) -> bool,
    ) -> bool {
        self.lost.retain(|_, until| *until > now);
        for key in self.used.iter().filter(|key| is_lost(key)) {
            self.lost.insert(key.clone(), now + LOST_FOR);
        }
        let mut order: Vec<(usize, &Offered<'_>)> = offered.iter().enumerate().collect();
        if order.len() > self.most {
            order.sort_by_cached_key(|(at, one)| {
                (self.lost.contains_key(one.key), !self.uses(one.key), *at)
            });
            order.truncate(self.most);
            order.sort_by_key(|(at, _)| *at);
        }
        let chosen: BTreeSet<String> = order.iter().map(|(_, one)| one.key.to_owned()).collect();
        let is_same = chosen == self.used;
        if offered.len() > self.most || self.said.is_some() {
            let names: Vec<&str> = order.iter().map(|(_, one)| one.name).collect();
            self.say(&names, offered.len());
        }
        self.used = chosen;
        !is_same
    }

    fn say(&mut self, names: &[&str], of: usize) {
        self.said = Some(format!(
            "{} of {of} nodes of {} take part, as the setting nodes says: {}",
            names.len(),
            self.site,
            names.join(", ")
        ));
    }

    /// The sentence for the log of the job that says which nodes take part. None if the bound leaves no node out.
    pub(crate) fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Keys of the nodes that take part.
    fn choose(bound: &mut Bound, now: u64, names: &[&str], lost: &[&str]) -> Vec<String> {
        let offered: Vec<Offered<'_>> = names
            .iter()
            .map(|name| Offered { key: name, name })
            .collect();
        bound.choose(at(now), &offered, |name| lost.contains(&name));
        bound.used.iter().cloned().collect()
    }

    fn bound(most: usize) -> Bound {
        Bound::new(most, "this site", &[])
    }

    #[test]
    fn the_first_nodes_of_the_list_take_part_and_the_log_names_them() {
        let mut bound = bound(3);
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(choose(&mut bound, 0, &names, &[]), ["a", "b", "c"]);
        assert_eq!(
            bound.said(),
            Some("3 of 8 nodes of this site take part, as the setting nodes says: a, b, c")
        );
    }

    #[test]
    fn a_bound_that_leaves_no_node_out_is_not_mentioned() {
        let mut bound = bound(2);
        assert_eq!(choose(&mut bound, 0, &["a", "b"], &[]), ["a", "b"]);
        assert_eq!(bound.said(), None);
        assert_eq!(choose(&mut bound, 1, &["a"], &[]), ["a"]);
        assert_eq!(bound.said(), None);
        assert_eq!(choose(&mut bound, 2, &["a", "b", "c"], &[]), ["a", "b"]);
        assert!(bound.said().is_some());
    }

    #[test]
    fn a_node_that_takes_part_keeps_its_place() {
        let mut bound = bound(2);
        assert_eq!(choose(&mut bound, 0, &["b", "c"], &[]), ["b", "c"]);
        assert_eq!(choose(&mut bound, 1, &["a", "b", "c"], &[]), ["b", "c"]);
        assert_eq!(choose(&mut bound, 2, &["a", "c"], &[]), ["a", "c"]);
    }

    #[test]
    fn a_node_that_was_left_out_replaces_a_lost_one() {
        let mut bound = bound(2);
        let names = ["a", "b", "c"];
        assert_eq!(choose(&mut bound, 0, &names, &[]), ["a", "b"]);
        assert_eq!(choose(&mut bound, 1, &names, &["b"]), ["a", "c"]);
        // The node that returns is left out, until a place is free.
        assert_eq!(choose(&mut bound, 90, &names, &[]), ["a", "c"]);
        assert_eq!(choose(&mut bound, 91, &names, &["a"]), ["b", "c"]);
    }

    #[test]
    fn lost_nodes_stay_if_no_other_is_left() {
        let mut bound = bound(2);
        let names = ["a", "b", "c"];
        choose(&mut bound, 0, &names, &[]);
        assert_eq!(choose(&mut bound, 1, &names, &["b"]), ["a", "c"]);
        // Both are lost, and neither is exchanged for the other again and again.
        assert_eq!(choose(&mut bound, 2, &names, &["b", "c"]), ["a", "c"]);
        assert_eq!(choose(&mut bound, 3, &names, &["b", "c"]), ["a", "c"]);
        assert_eq!(choose(&mut bound, 4, &["a"], &["a"]), ["a"]);
    }

    #[test]
    fn the_nodes_of_an_earlier_controller_stay() {
        let before = Peer {
            name: "node3".to_owned(),
            addresses: Vec::new(),
            identity: "c".to_owned(),
        };
        let mut bound = Bound::new(1, "the destination", &[before]);
        assert_eq!(choose(&mut bound, 0, &["a", "b", "c"], &[]), ["c"]);
    }
}
