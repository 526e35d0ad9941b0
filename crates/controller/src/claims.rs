//! Owns what the controller knows of its claim at each node of the destination: where it holds, where it may hold, and what to ask next.
//! Asks nobody, and reads no clock.
//!
//! A claim is set at each node that serves the destination, so that any of them takes members in. Before a second node is used, it has
//! to see the mark that another one made there: else the export of that name is another file system. A node that does not answer may
//! still have members that write, until its lease is over; so long nothing is put together.

use std::time::Duration;

use godwit_api::ask::{Mark, Peer, Refusal, code};

/// How long a claim lasts without being renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// How often a claim is renewed: often, so that a destination that was restarted is claimed again within seconds.
const RENEW_EVERY: Duration = Duration::from_secs(3);
/// After a claim that failed.
const CLAIM_AGAIN: Duration = Duration::from_millis(500);
/// After a claim that was refused for good, while other nodes hold it.
const REFUSED_AGAIN: Duration = Duration::from_secs(2);
/// How long no node may take the claim before the attempt ends.
const CLAIM_WITHIN: Duration = Duration::from_secs(120);

/// What to ask a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ask {
    /// Sets the claim rather than lets it last longer.
    pub(crate) sets: bool,
    /// Ends the transfers of all members there, for nobody knows what the node has missed.
    pub(crate) fences_all: bool,
    /// The node is the one with which the others are compared.
    pub(crate) is_first: bool,
    /// What becomes of the mark.
    pub(crate) mark: Mark,
    /// The members that the claim is set for.
    pub(crate) order: u64,
}

/// How the claim stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// A node holds it.
    Held,
    /// No node does for the time being.
    Open,
    /// The destination knows no claims.
    Unsupported(String),
    /// No node takes it.
    Refused(Refusal),
}

/// The claim at one node.
#[derive(Debug)]
struct At {
    peer: Peer,
    /// The site says that the node serves the destination.
    serves: bool,
    is_asked: bool,
    is_held: bool,
    /// The node sees what the others see.
    is_same: bool,
    /// Until then members may write there, whatever is known.
    may_hold_until: Duration,
    ask_at: Duration,
    /// The members that the node knows.
    order: u64,
    refused: Option<Refusal>,
    /// The refusal that was told last.
    told: Option<String>,
}

/// Where the mark is on its way.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Marked {
    /// It is not there.
    No,
    /// It is there.
    Made,
    /// It cannot be made, so one node is used.
    Never,
}

/// The claim at all nodes of the destination.
#[derive(Debug)]
pub(crate) struct Claims {
    nodes: Vec<At>,
    order: u64,
    marked: Marked,
    was_held: bool,
    open_since: Duration,
}

impl Claims {
    /// No claim yet. At the nodes of an earlier controller its claim may hold.
    pub(crate) fn new(now: Duration, earlier: Vec<Peer>) -> Self {
        let mut claims = Self {
            nodes: Vec::new(),
            order: 1,
            marked: Marked::No,
            was_held: false,
            open_since: now,
        };
        for peer in earlier {
            let at = claims.add(peer, now);
            at.may_hold_until = now + LEASE;
        }
        claims
    }

    fn add(&mut self, peer: Peer, now: Duration) -> &mut At {
        let mut found = self.nodes.iter();
        let place = found
            .position(|at| at.peer.identity == peer.identity)
            .unwrap_or(self.nodes.len());
        if place == self.nodes.len() {
            self.nodes.push(At {
                peer,
                serves: true,
                is_asked: false,
                is_held: false,
                is_same: false,
                may_hold_until: Duration::ZERO,
                ask_at: now,
                order: 0,
                refused: None,
                told: None,
            });
        } else {
            self.nodes[place].peer = peer;
        }
        &mut self.nodes[place]
    }

    /// The site says which nodes serve the destination.
    pub(crate) fn serving(&mut self, now: Duration, peers: Vec<Peer>) {
        for at in &mut self.nodes {
            at.serves = peers.iter().any(|peer| peer.identity == at.peer.identity);
        }
        for peer in peers {
            let at = self.add(peer, now);
            if !at.serves {
                (at.serves, at.ask_at) = (true, now);
            }
        }
        self.nodes
            .retain(|at| at.serves || at.is_asked || at.may_hold_until > now);
    }

    /// Other members are to be let in, or some are to be fenced.
    pub(crate) fn members_changed(&mut self, now: Duration) {
        self.order += 1;
        for at in &mut self.nodes {
            at.ask_at = at.ask_at.min(now);
        }
    }

    /// The members that claims are set for now.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Whom to ask what now. Each of them is being asked from then on.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<(Peer, Ask)> {
        let unseen = |at: &At| at.serves && at.is_held && !at.is_same;
        let are_unseen = self.nodes.iter().any(unseen);
        let first = self.first();
        let mut asks = Vec::new();
        for (place, at) in self.nodes.iter_mut().enumerate() {
            let is_first = first == Some(place);
            let mark = match self.marked {
                Marked::No if is_first && at.is_held && are_unseen => Mark::Make,
                Marked::Made if is_first && at.is_held && !are_unseen => Mark::Remove,
                Marked::Made if unseen(at) => Mark::Expect,
                _ => Mark::Untouched,
            };
            let is_due = now >= at.ask_at
                || mark != Mark::Untouched
                || (is_first && at.is_held && !at.is_same);
            if !at.serves || at.is_asked || !is_due {
                continue;
            }
            let sets = !at.is_held || at.order != self.order || mark != Mark::Untouched;
            let ask = Ask {
                sets,
                fences_all: !at.is_held,
                is_first,
                mark,
                order: self.order,
            };
            at.is_asked = true;
            asks.push((at.peer.clone(), ask));
        }
        asks
    }

    /// The node with which the others are compared.
    fn first(&self) -> Option<usize> {
        let serving = self.nodes.iter().enumerate().filter(|(_, at)| at.serves);
        serving
            .min_by_key(|(_, at)| (!(at.is_held && at.is_same), at.refused.is_some()))
            .map(|(place, _)| place)
    }

    /// A node answered.
    pub(crate) fn answered(
        &mut self,
        now: Duration,
        identity: &str,
        ask: Ask,
        answer: Result<(), Refusal>,
    ) {
        let is_known = self.nodes.iter().any(|at| at.is_held && at.is_same);
        let Some(at) = self
            .nodes
            .iter_mut()
            .find(|at| at.peer.identity == identity)
        else {
            return;
        };
        at.is_asked = false;
        match answer {
            Ok(()) => {
                at.is_held = true;
                at.refused = None;
                at.ask_at = now + RENEW_EVERY;
                if ask.sets {
                    at.order = ask.order;
                }
                // The first one of all is what the others have to be.
                at.is_same |= ask.mark == Mark::Expect || (ask.is_first && !is_known);
                // No member sends to a node that is not known to be the same.
                if at.is_same {
                    at.may_hold_until = now + LEASE;
                }
                match ask.mark {
                    Mark::Make => self.marked = Marked::Made,
                    Mark::Remove => self.marked = Marked::No,
                    Mark::Expect | Mark::Untouched => {}
                }
                if at.order != self.order {
                    at.ask_at = now;
                }
                self.was_held = true;
            }
            Err(refusal) => {
                let is_lost = [code::NO_SUCH_CLAIM, code::OTHER_PLACE];
                // Who was not reached has not renewed it.
                let was_reached = refusal.code != code::UNREACHABLE;
                if was_reached && !is_lost.contains(&refusal.code.as_str()) && at.is_held {
                    at.may_hold_until = now + LEASE;
                }
                let cannot_make = [code::PERMISSION, code::NO_SPACE];
                if ask.mark == Mark::Make && cannot_make.contains(&refusal.code.as_str()) {
                    self.marked = Marked::Never;
                }
                let is_other = refusal.code == code::OTHER_PLACE && !is_known;
                if ask.mark == Mark::Remove || is_other {
                    // Whoever cleans the place removes it.
                    self.marked = Marked::No;
                }
                at.is_held = false;
                at.is_same = false;
                at.ask_at = match may_pass(&refusal) {
                    true => now + CLAIM_AGAIN,
                    false => now + REFUSED_AGAIN,
                };
                at.refused = Some(refusal);
            }
        }
        if self.nodes.iter().any(|at| at.is_held) {
            self.open_since = now;
        }
    }

    /// The nodes that members may send to.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Peer> {
        let nodes = self.nodes.iter();
        nodes
            .filter(|at| at.serves && at.is_held && at.is_same)
            .map(|at| &at.peer)
    }

    /// The nodes at which a claim may hold.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Peer> {
        self.nodes.iter().map(|at| &at.peer)
    }

    /// Whether members may write through a node that does not know what the others know.
    pub(crate) fn waits(&self, now: Duration) -> bool {
        self.nodes
            .iter()
            .any(|at| !at.is_held && at.may_hold_until > now)
    }

    /// Whether each node that holds the claim knows the members of this order.
    pub(crate) fn all_know(&self, order: u64) -> bool {
        let mut held = self.nodes.iter().filter(|at| at.is_held).peekable();
        held.peek().is_some() && held.all(|at| at.order >= order)
    }

    /// How the claim stands.
    pub(crate) fn standing(&self, now: Duration) -> Standing {
        if self.ready().next().is_some() {
            return Standing::Held;
        }
        let refusals: Vec<&Refusal> = self
            .nodes
            .iter()
            .filter(|at| at.serves)
            .filter_map(|at| at.refused.as_ref())
            .collect();
        let serving = self.nodes.iter().filter(|at| at.serves).count();
        let Some(first) = refusals.first() else {
            return Standing::Open;
        };
        let old = refusals
            .iter()
            .find(|refusal| refusal.code == code::UNSUPPORTED);
        if let Some(old) = old.filter(|_| !self.was_held) {
            return Standing::Unsupported(old.message.clone());
        }
        let is_late = now.saturating_sub(self.open_since) >= CLAIM_WITHIN;
        let all_refuse = refusals.len() == serving && !refusals.iter().any(|no| may_pass(no));
        match all_refuse || is_late {
            true => Standing::Refused((*first).clone()),
            false => Standing::Open,
        }
    }

    /// Nodes that were left out since the last time, each with the reason.
    pub(crate) fn left_out(&mut self) -> Vec<(String, String)> {
        let mut told = Vec::new();
        for at in self.nodes.iter_mut().filter(|at| at.serves) {
            let code = at.refused.as_ref().map(|refusal| &refusal.code);
            if code == at.told.as_ref() {
                continue;
            }
            if let Some(refusal) = &at.refused {
                told.push((at.peer.name.clone(), refusal.message.clone()));
            }
            at.told = code.cloned();
        }
        told
    }
}

/// Whether the same claim may be taken later. A claim that is not there any more can be set again.
fn may_pass(refusal: &Refusal) -> bool {
    let passing = [
        code::NO_SUCH_CLAIM,
        code::UNREACHABLE,
        code::BROKEN,
        code::BUSY,
        code::GIVEN_UP,
    ];
    refusal.retryable || passing.contains(&refusal.code.as_str())
}

#[cfg(test)]
mod tests;
