//! Decides which nodes of the destination are set aside because they could not write, and how long.
//! Reads no clock and asks no node: reports and their times are arguments.
//!
//! ```text
//! used ── reported ──▶ aside (20 s) ── time is over ──▶ tried ── 60 s without a report ──▶ used
//!                         ▲                               │
//!                         └── reported: twice as long, ◀──┘
//!                             at most 2 minutes
//! ```
//!
//! Workers report nodes ([`NodeFault`]). A node that is set aside keeps its claim and gets no
//! data. If all nodes are aside, all are used (`rates`): the job then ends as it does with one full destination.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use godwit_api::ask::{NodeFault, Peer};
use godwit_api::failure::FailureCode;
use godwit_state::Reason;

use crate::batch::clip;
use crate::watch::Traffic;

/// How long a node is set aside for the first time, and at most.
const WAIT: Duration = Duration::from_secs(20);
const WAIT_MAX: Duration = Duration::from_mins(2);
/// A node that is tried again, and is not reported for this long, is used like any other.
const PROVEN_AFTER: Duration = Duration::from_secs(60);
/// Most nodes that are remembered, and most reports of one worker that are read.
const NODES_MAX: usize = 256;

/// A node that was reported.
#[derive(Debug)]
struct Node {
    code: FailureCode,
    /// Until then it is aside, and after that it is tried.
    until: Duration,
    wait: Duration,
}

/// The nodes of the destination that could not write.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    nodes: BTreeMap<String, Node>,
    /// Number of reports read, by worker and node.
    read: BTreeMap<(String, String), u32>,
    decided: Vec<String>,
}

impl Aside {
    /// Takes the reports of workers. `name` returns the name of a node of the destination, if it is one.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        traffic: &[Traffic],
        name: impl Fn(&str) -> Option<String>,
    ) {
        for one in traffic {
            for fault in one.faults.iter().take(NODES_MAX) {
                let Some(name) = name(&fault.at) else {
                    continue;
                };
                let read = self.read.entry((one.node.clone(), fault.at.clone()));
                let read = read.or_default();
                if std::mem::replace(read, fault.times) != fault.times {
                    self.reported(now, fault, &name);
                }
            }
        }
        let proven = |node: &Node| now >= node.until + PROVEN_AFTER;
        self.nodes.retain(|_, node| !proven(node));
    }

    fn reported(&mut self, now: Duration, fault: &NodeFault, name: &str) {
        // A member may be newer: its code has no meaning here.
        let code = fault.code.known().unwrap_or(FailureCode::Other);
        let wait = match self.nodes.get(&fault.at) {
            // The report is about a try that began before.
            Some(node) if now < node.until => return,
            Some(node) => (node.wait * 2).min(WAIT_MAX),
            None if self.nodes.len() >= NODES_MAX => return,
            None => WAIT,
        };
        self.decided.push(format!(
            "the node {name} of the destination is set aside for {} s, as long as others can write: {}",
            wait.as_secs(),
            why(code)
        ));
        let until = now + wait;
        let node = Node { code, until, wait };
        self.nodes.insert(fault.at.clone(), node);
    }

    /// The nodes that get no data now.
    pub(crate) fn now(&self, now: Duration) -> BTreeSet<String> {
        let aside = self.nodes.iter().filter(|(_, node)| now < node.until);
        aside.map(|(node, _)| node.clone()).collect()
    }

    /// Sentences about the decisions.
    pub(crate) fn decided(&mut self) -> Vec<String> {
        std::mem::take(&mut self.decided)
    }

    /// Those of the given nodes that are set aside now, with the reason of the first; None if all given nodes are set aside.
    pub(crate) fn shown<'a>(
        &self,
        now: Duration,
        nodes: impl Iterator<Item = &'a Peer>,
    ) -> Option<Reason> {
        let now = self.now(now);
        let (aside, used): (Vec<&Peer>, Vec<&Peer>) =
            nodes.partition(|peer| now.contains(&peer.identity));
        if used.is_empty() {
            return None;
        }
        let code = |peer: &&Peer| Some(self.nodes.get(&peer.identity)?.code);
        let of = |peer: &&Peer| Some(format!("{}: {}", peer.name, why(code(peer)?)));
        let first = aside.first().and_then(code)?;
        let nodes: Vec<String> = aside.iter().filter_map(of).collect();
        Some(Reason::new(first, clip(&nodes.join("; "))))
    }
}

/// The meaning of a fault, without names of entries: users of other sites may read it.
fn why(code: FailureCode) -> &'static str {
    match code {
        FailureCode::NoSpace => "its storage or a quota is full",
        FailureCode::ReadOnly => "its file system is read-only",
        FailureCode::SyncFailed => "its storage does not make data durable",
        FailureCode::JournalUnusable | FailureCode::SpillUnusable => "it cannot write its journals",
        FailureCode::DestinationUnusable => "it cannot use the destination",
        _ => "its storage reports errors",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn peers(names: &[&str]) -> Vec<Peer> {
        let peer = |name: &&str| Peer {
            name: format!("siteB.{name}"),
            addresses: Vec::new(),
            identity: (*name).to_owned(),
        };
        names.iter().map(peer).collect()
    }

    /// The number of reports on `node` by the worker `by`.
    fn report(aside: &mut Aside, now: u64, by: &str, node: &str, times: u32) {
        let traffic = Traffic {
            node: by.to_owned(),
            faults: vec![NodeFault {
                at: node.to_owned(),
                times,
                code: FailureCode::NoSpace.into(),
            }],
            ..Traffic::default()
        };
        let name = |node: &str| (node != "stranger").then(|| format!("siteB.{node}"));
        aside.take(at(now), &[traffic], name);
    }

    fn used(aside: &Aside, now: u64) -> Vec<String> {
        let aside = aside.now(at(now));
        let all = ["a", "b", "c"].map(str::to_owned).into_iter();
        all.filter(|node| !aside.contains(node)).collect()
    }

    #[test]
    fn a_node_that_cannot_write_gets_no_data_for_a_time_and_longer_the_next_time() {
        let mut aside = Aside::default();
        assert_eq!(used(&aside, 0), ["a", "b", "c"]);
        report(&mut aside, 10, "s1", "a", 1);
        assert_eq!(used(&aside, 10), ["b", "c"]);
        let [said] = aside.decided().try_into().expect("one sentence");
        assert!(said.contains("siteB.a") && said.contains("full"), "{said}");
        // The same report is read each second, and others are about the same time.
        report(&mut aside, 11, "s1", "a", 1);
        report(&mut aside, 12, "s2", "a", 1);
        assert_eq!(used(&aside, 29), ["b", "c"]);
        assert_eq!(used(&aside, 30), ["a", "b", "c"]);
        report(&mut aside, 31, "s1", "a", 1);
        assert_eq!(used(&aside, 31), ["a", "b", "c"], "that is known");
        report(&mut aside, 32, "s1", "a", 2);
        assert_eq!(used(&aside, 71), ["b", "c"]);
        assert_eq!(used(&aside, 72), ["a", "b", "c"]);
        assert_eq!(aside.decided().len(), 1);
        // A node is never set aside for longer than two minutes.
        let mut now = 72;
        for times in 3..10 {
            report(&mut aside, now, "s1", "a", times);
            now += 120;
            assert_eq!(used(&aside, now), ["a", "b", "c"]);
        }
    }

    #[test]
    fn a_node_that_writes_again_is_used_like_any_other() {
        let mut aside = Aside::default();
        report(&mut aside, 0, "s1", "a", 1);
        report(&mut aside, 20, "s1", "a", 2);
        // After 60 s and 60 s without a report.
        report(&mut aside, 120, "s1", "a", 2);
        report(&mut aside, 130, "s1", "a", 3);
        assert_eq!(used(&aside, 149), ["b", "c"]);
        assert_eq!(used(&aside, 150), ["a", "b", "c"]);
    }

    #[test]
    fn the_nodes_that_are_aside_are_named_with_their_reasons() {
        let mut aside = Aside::default();
        for node in ["a", "b"] {
            report(&mut aside, 0, "s1", node, 1);
        }
        assert_eq!(used(&aside, 1), ["c"]);
        let shown = aside.shown(at(1), peers(&["a", "b", "c"]).iter());
        let shown = shown.expect("two nodes");
        assert_eq!(shown.code, FailureCode::NoSpace);
        assert!(shown.text.contains("siteB.a: its storage"), "{shown:?}");
        assert!(!shown.text.contains("siteB.c"), "{shown:?}");
        assert_eq!(aside.shown(at(1), peers(&["a", "b"]).iter()), None);
        assert_eq!(aside.shown(at(40), peers(&["a", "c"]).iter()), None);
    }

    #[test]
    fn only_nodes_of_the_destination_are_set_aside() {
        let mut aside = Aside::default();
        report(&mut aside, 0, "s1", "stranger", 1);
        assert!(aside.decided().is_empty());
        assert!(aside.nodes.is_empty() && aside.read.is_empty());
    }
}
