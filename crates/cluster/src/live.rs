//! Owns the contacts of the leader with the nodes: when the leader heard each node, and its last announcement. The table is in memory:
//! every node reports to a new leader within a second or two. The new leader knows from the announcements of the previous leader which
//! nodes lived
//! recently.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::Announce;

/// A node that has been silent for this time is lost: its jobs resume elsewhere. A node announces itself each second.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(5);

/// A voter that has been silent for this time may be replaced.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(60);

/// Contacts of this node with the others.
#[derive(Default)]
pub(crate) struct Live(Mutex<Contacts>);

#[derive(Default)]
pub(crate) struct Contacts {
    /// Time since which this node leads.
    leads_since: Option<Instant>,
    nodes: HashMap<u64, Entry>,
    /// When each node last lived, as this node or an earlier leader learned.
    seen: HashMap<u64, Instant>,
    /// The leader that last reported when it heard the others.
    reporter: Option<u64>,
    /// Nodes that were reported as lost and have been silent since.
    reported_lost: HashSet<u64>,
    /// Accounts that nodes reported and that are ignored, because users or other nodes have these names.
    ignored: HashMap<u64, Vec<String>>,
}

pub(crate) struct Entry {
    pub(crate) at: Instant,
    pub(crate) said: Announce,
}

impl Live {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Contacts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contacts {
    /// Records whether this node leads. A new term as the leader forgets the contacts of earlier terms.
    pub(crate) fn leads(&mut self, leads: bool, now: Instant) {
        if leads && self.leads_since.is_none() {
            self.nodes.clear();
            self.reported_lost.clear();
            self.leads_since = Some(now);
        } else if !leads {
            self.leads_since = None;
        }
    }

    pub(crate) fn announced(&mut self, said: Announce, now: Instant) {
        let number = said.node.number;
        self.reported_lost.remove(&number);
        self.seen.insert(number, now);
        self.nodes.insert(number, Entry { at: now, said });
    }

    /// Records that a leader heard the node at this time in the past.
    pub(crate) fn seen_by_leader(&mut self, number: u64, age: Duration, now: Instant) {
        let Some(at) = now.checked_sub(age) else {
            return;
        };
        let seen = self.seen.entry(number).or_insert(at);
        *seen = at.max(*seen);
    }

    /// Records that this leader lives and has reported the times of the others.
    pub(crate) fn reported(&mut self, leader: u64, now: Instant) {
        self.seen_by_leader(leader, Duration::ZERO, now);
        self.reporter = Some(leader);
    }

    /// Time in milliseconds since each node was heard.
    pub(crate) fn ages(&self, now: Instant) -> Vec<(u64, u64)> {
        let age = |at: &Instant| now.saturating_duration_since(*at).as_millis();
        let ages = self.seen.iter();
        ages.map(|(number, at)| (*number, u64::try_from(age(at)).unwrap_or(u64::MAX)))
            .collect()
    }

    /// Time since any leader last heard the node; `None` if no leader reported it.
    pub(crate) fn age(&self, number: u64, now: Instant) -> Option<Duration> {
        let at = self.seen.get(&number)?;
        Some(now.saturating_duration_since(*at))
    }

    /// Whether the leaders' reports show that the node is lost. While no leader reports, for example during an election, the last report
    /// decides, but for [`LOST_AFTER`] at most.
    pub(crate) fn is_silent(&self, number: u64, now: Instant) -> bool {
        let Some(age) = self.age(number, now) else {
            return false;
        };
        let reporter = self.reporter.filter(|reporter| *reporter != number);
        let since_report = reporter.and_then(|reporter| self.age(reporter, now));
        age.saturating_sub(since_report.unwrap_or_default().min(LOST_AFTER)) > LOST_AFTER
    }

    pub(crate) fn of(&self, number: u64) -> Option<&Entry> {
        self.nodes.get(&number)
    }

    /// Time since the node was heard; for a new leader at most the time since it became the leader.
    pub(crate) fn silent_for(&self, number: u64, now: Instant) -> Option<Duration> {
        let since = self.leads_since?;
        let last = self.nodes.get(&number).map_or(since, |entry| entry.at);
        Some(now.saturating_duration_since(last.max(since)))
    }

    /// Whether the node is lost.
    pub(crate) fn is_lost(&self, number: u64, now: Instant) -> bool {
        self.silent_for(number, now)
            .is_some_and(|silent| silent > LOST_AFTER)
    }

    /// Whether the loss of the node has yet to be reported. Marks the loss as reported.
    pub(crate) fn report_lost(&mut self, number: u64, now: Instant) -> bool {
        self.is_lost(number, now) && self.reported_lost.insert(number)
    }

    /// Records the ignored accounts of a node. Returns whether they are others than before.
    pub(crate) fn ignore(&mut self, number: u64, accounts: &[String]) -> bool {
        let before = self.ignored.insert(number, accounts.to_vec());
        !accounts.is_empty() && before.as_deref() != Some(accounts)
    }

    /// The state did not accept the report, so it must be sent again.
    pub(crate) fn report_again(&mut self, number: u64) {
        self.reported_lost.remove(&number);
    }

    /// Forgets nodes that no longer belong to the cluster.
    pub(crate) fn keep(&mut self, is_node: impl Fn(u64) -> bool) {
        self.nodes.retain(|number, _| is_node(*number));
        self.seen.retain(|number, _| is_node(*number));
        self.reported_lost.retain(|number| is_node(*number));
        self.ignored.retain(|number, _| is_node(*number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_api::ask::KnownNode;
    use godwit_api::rest::NodeResources;

    fn said(number: u64) -> Announce {
        Announce {
            of: String::new(),
            node: KnownNode {
                name: String::new(),
                number,
                identity: String::new(),
                addresses: Vec::new(),
            },
            exports: Vec::new(),
            version: String::new(),
            level: 1,
            resources: NodeResources::default(),
            observations: std::collections::BTreeMap::new(),
            admins: Vec::new(),
            problem: None,
        }
    }

    #[test]
    fn a_node_is_lost_once_for_each_silence() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut contacts = Contacts::default();
        assert!(
            !contacts.is_lost(2, after(100)),
            "only the leader knows of losses"
        );
        contacts.leads(true, start);
        contacts.announced(said(2), after(1));
        assert!(!contacts.report_lost(2, after(6)));
        assert!(contacts.report_lost(2, after(7)));
        assert!(!contacts.report_lost(2, after(8)));
        contacts.announced(said(2), after(9));
        assert!(!contacts.is_lost(2, after(10)));
        assert!(contacts.report_lost(2, after(15)));
    }

    #[test]
    fn a_new_leader_knows_the_nodes_that_lived_a_moment_ago() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut contacts = Contacts::default();
        // The earlier leader, number 1, heard node 2 two seconds ago; then the leader dies.
        contacts.seen_by_leader(1, Duration::ZERO, after(10));
        contacts.seen_by_leader(2, Duration::from_secs(2), after(10));
        contacts.leads(true, after(11));
        assert_eq!(contacts.age(2, after(11)), Some(Duration::from_secs(3)));
        assert_eq!(contacts.age(3, after(11)), None);
        contacts.announced(said(2), after(12));
        assert_eq!(contacts.age(2, after(12)), Some(Duration::ZERO));
        assert!(contacts.age(1, after(16)).expect("told") > LOST_AFTER);
        // Jobs of that node resume elsewhere no earlier than before.
        assert!(!contacts.is_lost(1, after(16)));
        assert!(contacts.is_lost(1, after(17)));
        let mut ages = contacts.ages(after(13));
        ages.sort_unstable();
        assert_eq!(ages, [(1, 3_000), (2, 1_000)]);
    }

    #[test]
    fn while_no_leader_reports_the_last_report_counts() {
        let start = Instant::now();
        let after = |tenths: u64| start + Duration::from_millis(tenths * 100);
        let mut contacts = Contacts::default();
        contacts.seen_by_leader(2, Duration::from_millis(900), after(10));
        contacts.seen_by_leader(3, Duration::from_millis(5_100), after(10));
        contacts.reported(1, after(10));
        let silent = |tenths| [1, 2, 3].map(|number| contacts.is_silent(number, after(tenths)));
        assert_eq!(silent(10), [false, false, true]);
        // The leader died, and the election lasts: no node can report that node 2 lives.
        assert_eq!(silent(60), [false, false, true]);
        assert_eq!(silent(61), [true, false, true]);
        assert_eq!(silent(101), [true, false, true]);
        assert_eq!(silent(102), [true, true, true]);
    }

    #[test]
    fn a_new_leader_gives_everybody_time() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut contacts = Contacts::default();
        contacts.leads(true, start);
        contacts.announced(said(2), start);
        contacts.leads(false, after(1));
        contacts.leads(true, after(60));
        assert!(!contacts.is_lost(2, after(64)));
        assert!(contacts.is_lost(2, after(66)));
    }
}
