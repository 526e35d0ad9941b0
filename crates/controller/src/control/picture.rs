//! Owns the knowledge of the controller of a divided job at a moment: claims, members, rates.
//! Asks no node: `asking` does.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use godwit_api::ask::Peer;
use godwit_state::{Reason, Taken, Work};

use super::Mate;
use crate::aside::Aside;
use crate::bound::Bound;
use crate::claims::Claims;
use crate::questions::Site;
use crate::rates::Rates;
use crate::shares::Shares;
use crate::watch::Watch;

/// A node of this cluster that is to work on the job.
pub(super) struct Member {
    pub(super) mate: Mate,
    /// When access is to be asked for; none while that is being asked.
    pub(super) ask_at: Option<Instant>,
    pub(super) is_let_in: bool,
    /// It is this node, which may write wherever the job may.
    pub(super) is_own: bool,
    /// The independent nodes that were last asked, and below those that let this node in. Each has separate grants.
    pub(super) asked: HashSet<String>,
    pub(super) at: HashSet<String>,
    /// The nodes whose refusals were noted.
    pub(super) refused: HashSet<String>,
}

/// The controller's knowledge at a moment.
pub(super) struct Picture {
    pub(super) began: Instant,
    pub(super) claims: Claims,
    pub(super) members: Vec<Member>,
    /// Leases taken from nodes, as of the order in which claims are set.
    pub(super) taken: Vec<Taken>,
    /// Nodes that cannot work on the job.
    pub(super) declined: Vec<String>,
    /// Nodes that were let in and no longer work on the job.
    pub(super) gone: Vec<Mate>,
    /// Identities of nodes of the destination that were noted because they do not let this node in.
    pub(super) shut: HashSet<String>,
    /// The nodes of the source and of the destination that take part.
    pub(super) here: Bound,
    pub(super) there: Bound,
    /// The nodes that serve the destination, by the latest answer of its site.
    pub(super) listed: Vec<Peer>,
    pub(super) watch: Watch,
    /// Nodes of the destination that could not write, and the words of the job about them.
    pub(super) aside: Aside,
    pub(super) shown: Option<Reason>,
    pub(super) rates: Rates,
    pub(super) shares: Shares,
    pub(super) crew_at: Instant,
    /// When to ask for the nodes of the destination; none while that is being asked.
    pub(super) nodes_at: Option<Instant>,
    pub(super) asked: usize,
}

impl Picture {
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The nodes that are members of the claim.
    pub(super) fn crew(&self) -> impl Iterator<Item = &Mate> {
        let let_in = self.members.iter().filter(|member| member.is_let_in);
        let_in.map(|member| &member.mate)
    }

    /// Divides the limit of the job among the members; also among those that are not let in yet, until they are idle.
    pub(super) fn share(&mut self, limit: u64, work: Option<&Work>) {
        let now = self.now();
        let names = self.members.iter().map(|member| &member.mate.name);
        let pairs = work.map_or(&[][..], |work| work.pairs.as_slice());
        self.shares.divide(now, limit, names, pairs);
    }

    /// The nodes of the destination that members may send to.
    pub(super) fn targets(&self, site: &Site) -> Vec<Peer> {
        let ready = self.claims.ready();
        ready
            .filter(|node| self.is_open(site, node))
            .cloned()
            .collect()
    }

    /// Whether all members may write at a node.
    fn is_open(&self, site: &Site, node: &Peer) -> bool {
        let open = |member: &Member| member.is_own || member.at.contains(&node.identity);
        site.believed.independent.is_empty()
            || self
                .members
                .iter()
                .filter(|member| member.is_let_in)
                .all(open)
    }
}
