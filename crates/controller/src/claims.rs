//! Owns the controller's knowledge of its claim at each node of the destination: where it holds, where it may hold, and the next question.
//! Asks no node, and reads no clock.
//!
//! A claim is set at each node that serves the destination, so that any of them admits members. The first node makes a mark there, before
//! any transfer. Each other node, and each node that returns, has to see the mark: otherwise its export of that name is another file
//! system. A node that does not answer may still have members that write, until its lease ends; until then no file is assembled. Meanwhile
//! such a node is asked only questions that do not extend its lease: a stopped node may handle a question when it runs again.

mod address_pace;

use std::time::Duration;

use godwit_api::ask::{Mark, Peer, Refusal, code};
use godwit_api::failure::Code;

use self::address_pace::AddressPace;

/// How long a claim lasts without renewal: four times the interval of renewals. A lost node delays the end of the job by at most two of
/// these periods.
pub(crate) const LEASE: Duration = Duration::from_secs(8);
/// How long a claim lasts after a question that only tests whether the node answers: the shortest time that a node accepts.
pub(crate) const PROBE_LEASE: Duration = Duration::from_secs(1);
/// How often a claim is renewed: often, so that a destination that was restarted is claimed again within seconds.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// A node that has not answered for this long gets no further question, though its answer is still awaited.
const LATE: Duration = Duration::from_secs(4);
/// After this time no answer is expected any more, and the node is asked again.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Pause after a failed claim.
const CLAIM_AGAIN: Duration = Duration::from_millis(500);
/// Pause after a claim was refused permanently while other nodes hold it.
const REFUSED_AGAIN: Duration = Duration::from_secs(2);
/// Pause after a node did not see the mark.
const OTHER_PLACE_AGAIN: Duration = Duration::from_secs(60);
/// How long a node may take to answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long no node may take the claim before the attempt ends.
const CLAIM_WITHIN: Duration = Duration::from_secs(120);

/// A question to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ask {
    /// Sets the claim rather than lets it last longer.
    pub(crate) sets: bool,
    /// Looks only whether the node answers.
    pub(crate) probes: bool,
    /// Ends the transfers of all members there, because the node may have missed earlier fences.
    pub(crate) fences_all: bool,
    /// Files of several parts are put together in copies.
    pub(crate) copies: bool,
    /// Action on the mark.
    pub(crate) mark: Mark,
    /// Number of the list of members for which the claim is set.
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
    /// No node takes this item.
    Refused(Refusal),
}

/// The claim at one node.
#[derive(Debug)]
struct At {
    peer: Peer,
    /// The site says that the node serves the destination.
    serves: bool,
    is_asked: bool,
    /// Time of the last question.
    asked_at: Duration,
    /// The last question got no answer, and the node may still act on it at any time.
    is_deaf: bool,
    /// The node holds the claim, and has seen the mark or made it.
    is_held: bool,
    /// The node did not answer last, and may still hold its claim.
    is_silent: bool,
    /// Members may have written there, and it has not confirmed that those have ended.
    is_unclear: bool,
    /// Until then members may write there, regardless of later answers.
    may_hold_until: Duration,
    ask_at: Duration,
    /// The members that the node knows.
    order: u64,
    refused: Option<Refusal>,
    /// Code of the refusal that was reported last.
    reported: Option<Code>,
}

impl At {
    fn is_ready(&self) -> bool {
        self.serves && self.is_held && !self.is_silent
    }
}

/// State of the mark.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Marked {
    /// No node has made the mark yet.
    No,
    /// The mark is there until the claim is released.
    Made,
    /// The mark cannot be made, so only one node is used.
    Never,
}

/// The claim at all nodes of the destination.
#[derive(Debug)]
pub(crate) struct Claims {
    nodes: Vec<At>,
    order: u64,
    /// Nodes that no longer serve, and may still write.
    lost: Vec<Peer>,
    /// Value of `copies` in the last or next questions to nodes.
    copies: bool,
    marked: Marked,
    was_held: bool,
    open_since: Duration,
    /// The latest refusal or silence since then. The node may not serve any longer: another node may have replaced it under the
    /// bound.
    latest: Option<Refusal>,
    addresses: AddressPace,
}

impl Claims {
    /// No claim yet. At nodes of an earlier controller, that controller's claim may still hold; if members have worked there, its mark exists.
    pub(crate) fn new(now: Duration, earlier: Vec<Peer>, was_used: bool) -> Self {
        let mut claims = Self {
            nodes: Vec::new(),
            order: 1,
            lost: Vec::new(),
            copies: false,
            marked: match was_used {
                true => Marked::Made,
                false => Marked::No,
            },
            was_held: false,
            open_since: now,
            latest: None,
            addresses: AddressPace::default(),
        };
        for peer in earlier {
            let at = claims.add(peer, now);
            // The earlier controller may renew its claims until it learns about this controller.
            at.may_hold_until = now + LEASE + RENEW_EVERY + ANSWER_WITHIN;
            at.is_unclear = was_used;
        }
        claims
    }

    /// The earlier controller came to the end of the work, and took its mark away with its claim: the next mark is a new one.
    pub(crate) fn was_released(&mut self) {
        self.marked = Marked::No;
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
                asked_at: Duration::ZERO,
                is_deaf: false,
                is_unclear: false,
                is_held: false,
                is_silent: false,
                may_hold_until: Duration::ZERO,
                ask_at: now,
                order: 0,
                refused: None,
                reported: None,
            });
        } else {
            self.nodes[place].peer = peer;
        }
        &mut self.nodes[place]
    }

    /// The peer as it is known here, or else as it is given.
    fn known(&self, peer: Peer) -> Peer {
        let mut nodes = self.nodes.iter();
        let known = nodes.find(|at| at.peer.identity == peer.identity);
        known.map_or(peer, |at| at.peer.clone())
    }

    /// The site says which nodes serve the destination, and where they listen.
    pub(crate) fn serving(&mut self, now: Duration, peers: Vec<Peer>) {
        for at in &mut self.nodes {
            at.serves = peers.iter().any(|peer| peer.identity == at.peer.identity);
            // Its lease is not renewed, and members may write there until the lease is over.
            at.is_held &= at.serves;
            at.is_unclear |= !at.serves && at.may_hold_until > Duration::ZERO;
        }
        let changes = peers.iter().any(|peer| {
            let mut nodes = self.nodes.iter();
            nodes.any(|at| at.peer.identity == peer.identity && at.peer != *peer)
        });
        let keeps = changes && !self.addresses.take(now);
        for peer in peers {
            let peer = match keeps {
                true => self.known(peer),
                false => peer,
            };
            let at = self.add(peer, now);
            if !at.serves {
                (at.serves, at.ask_at) = (true, now);
            }
        }
        let stays = |at: &At| at.serves || at.is_asked || at.may_hold_until > now;
        let gone = self.nodes.iter().filter(|at| !stays(at) && at.is_unclear);
        for peer in gone.map(|at| &at.peer) {
            // A node may leave and return any number of times.
            if self.lost.iter().all(|lost| lost.identity != peer.identity) {
                self.lost.push(peer.clone());
            }
        }
        self.nodes.retain(stays);
    }

    /// The set of members changed: new members need access, or old ones need fencing.
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

    /// The questions to ask now, by node. Marks each of these nodes as being asked.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<(Peer, Ask)> {
        for at in &mut self.nodes {
            at.is_asked &= now < at.asked_at + FORGOTTEN;
            if at.is_asked && !at.is_silent && now >= at.asked_at + LATE {
                at.is_silent = true;
                let message = "the node does not answer; its claim ends by itself";
                at.refused = Some(Refusal::later(code::GIVEN_UP, message));
                self.latest.clone_from(&at.refused);
                at.is_unclear |= at.may_hold_until > Duration::ZERO;
            }
        }
        let copies = !self.lost.is_empty() || self.nodes.iter().any(|at| at.is_unclear);
        if std::mem::replace(&mut self.copies, copies) != copies {
            self.members_changed(now);
        }
        let first = self.first();
        let mut asks = Vec::new();
        for (place, at) in self.nodes.iter_mut().enumerate() {
            // The lease may have ended: the claim there is unknown.
            at.is_held &= now < at.may_hold_until;
            let mark = match self.marked {
                _ if at.is_held => Mark::Untouched,
                Marked::Made => Mark::Expect,
                // The mark of the first node is the reference for the others.
                Marked::No if first == Some(place) => Mark::Make,
                Marked::Never if first == Some(place) => Mark::Untouched,
                Marked::No | Marked::Never => continue,
            };
            if !at.serves || at.is_asked || now < at.ask_at {
                continue;
            }
            let ask = Ask {
                sets: !at.is_deaf && (!at.is_held || at.order != self.order),
                probes: at.is_deaf,
                fences_all: !at.is_held || (at.is_silent && at.order != self.order),
                copies: self.copies,
                mark,
                order: self.order,
            };
            (at.is_asked, at.asked_at) = (true, now);
            asks.push((at.peer.clone(), ask));
        }
        asks
    }

    /// The node that makes the mark, or the only one that is used.
    fn first(&self) -> Option<usize> {
        let serving = self.nodes.iter().enumerate().filter(|(_, at)| at.serves);
        serving
            .min_by_key(|(_, at)| (!at.is_held, at.refused.is_some(), at.ask_at))
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
        let mut nodes = self.nodes.iter_mut();
        let Some(at) = nodes.find(|at| at.peer.identity == identity) else {
            return;
        };
        at.is_asked = false;
        match answer {
            Ok(()) => {
                if ask.sets && ask.mark == Mark::Make {
                    self.marked = Marked::Made;
                }
                if ask.sets {
                    at.order = ask.order;
                }
                // The node may have been asked before it went away. A node that was silent may have missed fences of members; a node whose mark
                // was not checked is set again.
                at.is_held = at.serves && (ask.sets || ask.mark == Mark::Untouched);
                at.is_silent &= at.order != self.order;
                at.is_unclear &= !at.is_held || at.is_silent;
                (at.is_deaf, at.refused) = (false, None);
                at.may_hold_until = at.may_hold_until.max(now + LEASE);
                at.ask_at = match at.is_held && at.order == self.order {
                    true => now + RENEW_EVERY,
                    false => now,
                };
                self.was_held = true;
            }
            Err(refusal) => {
                // Not for lack of room: a destination without room for a mark has no room for files.
                if ask.mark == Mark::Make && refusal.code == code::PERMISSION {
                    // The node may take the claim without a mark, and is asked at once.
                    self.marked = Marked::Never;
                    (at.is_silent, at.ask_at, at.refused) = (true, now, None);
                    return;
                }
                if may_have_set(&refusal) {
                    // The node may handle the question as long as its lease holds. An ended lease does not begin again. A claim
                    // that is set later ends the transfers that began under that lease.
                    if at.may_hold_until > at.asked_at {
                        at.may_hold_until += if ask.probes { PROBE_LEASE } else { LEASE };
                    }
                    at.is_deaf = true;
                } else if refusal.code != code::UNREACHABLE {
                    at.is_deaf = false;
                }
                at.is_silent = true;
                at.is_unclear |= at.may_hold_until > Duration::ZERO;
                at.is_held &= is_silence(&refusal);
                at.ask_at = match () {
                    () if refusal.code == code::OTHER_PLACE => now + OTHER_PLACE_AGAIN,
                    // Each further question would make a lease of a stopped node a little longer.
                    () if refusal.code == code::GIVEN_UP => now + REFUSED_AGAIN,
                    () if may_pass(&refusal) => now + CLAIM_AGAIN,
                    () => now + REFUSED_AGAIN,
                };
                at.refused = Some(refusal);
                self.latest.clone_from(&at.refused);
            }
        }
        if self.nodes.iter().any(At::is_ready) {
            (self.open_since, self.latest) = (now, None);
        }
    }

    /// The nodes that members may send to.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Peer> {
        let ready = self.nodes.iter().filter(|at| at.is_ready());
        ready.map(|at| &at.peer)
    }

    /// Whether a node did not take its claim, or does not answer. A busy node takes the claim later.
    pub(crate) fn fails(&self, identity: &str) -> bool {
        let found = self.nodes.iter().find(|at| at.peer.identity == identity);
        let refused = found.and_then(|at| at.refused.as_ref());
        refused.is_some_and(|refusal| refusal.code != code::BUSY)
    }

    /// The nodes at which a claim may hold.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Peer> {
        self.nodes.iter().map(|at| &at.peer)
    }

    /// Whether the controller must wait: members may write through an uninformed node, or nodes do
    /// not yet know that files are assembled in copies.
    pub(crate) fn waits(&self, now: Duration) -> bool {
        let mut nodes = self.nodes.iter();
        let may_write = nodes.any(|at| !at.is_ready() && at.may_hold_until > now);
        may_write || (self.copies && !self.all_know(self.order))
    }

    /// Whether each node that holds the claim knows the members of this order.
    pub(crate) fn all_know(&self, order: u64) -> bool {
        let mut held = self.nodes.iter().filter(|at| at.is_ready()).peekable();
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
        let is_late = now.saturating_sub(self.open_since) >= CLAIM_WITHIN;
        let Some(first) = refusals.first() else {
            let latest = self.latest.clone().filter(|_| is_late);
            return latest.map_or(Standing::Open, Standing::Refused);
        };
        let old = refusals
            .iter()
            .find(|refusal| refusal.code == code::UNSUPPORTED);
        if let Some(old) = old.filter(|_| !self.was_held) {
            return Standing::Unsupported(old.message.clone());
        }
        let all_refuse = refusals.len() == serving && !refusals.iter().any(|no| may_pass(no));
        match all_refuse || is_late {
            true => Standing::Refused((*first).clone()),
            false => Standing::Open,
        }
    }

    /// The nodes where members have written, and that have not confirmed the end of those writes.
    pub(crate) fn unconfirmed(&self) -> Vec<String> {
        let has_confirmed = |peer: &Peer| {
            let mut known = self.nodes.iter();
            known.any(|at| at.peer.identity == peer.identity && at.is_ready())
        };
        let unclear = self.nodes.iter().filter(|at| at.is_unclear);
        let unclear = unclear.map(|at| &at.peer);
        let lost = self.lost.iter().filter(|peer| !has_confirmed(peer));
        let mut names: Vec<String> = unclear.chain(lost).map(|peer| peer.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Nodes that were left out since the last time, each with the reason.
    pub(crate) fn left_out(&mut self) -> Vec<(String, String)> {
        let mut news = Vec::new();
        for at in self.nodes.iter_mut().filter(|at| at.serves) {
            let code = at.refused.as_ref().map(|refusal| &refusal.code);
            if code == at.reported.as_ref() {
                continue;
            }
            if let Some(refusal) = &at.refused {
                news.push((at.peer.name.clone(), refusal.to_string()));
            }
            at.reported = code.cloned();
        }
        news
    }
}

/// Whether the node may still hold its claim: it did not answer, or had no time for the question.
fn is_silence(refusal: &Refusal) -> bool {
    let silent = [code::UNREACHABLE, code::BROKEN, code::BUSY, code::GIVEN_UP];
    refusal.code.is_one_of(&silent)
}

/// Whether the node may have set or renewed the claim in spite of this answer.
fn may_have_set(refusal: &Refusal) -> bool {
    let unknown = [code::BROKEN, code::GIVEN_UP];
    refusal.code.is_one_of(&unknown)
}

/// Whether the same claim may be taken later. A claim that does not exist any more can be set again.
fn may_pass(refusal: &Refusal) -> bool {
    let passing = [
        code::NO_SUCH_CLAIM,
        code::UNREACHABLE,
        code::BROKEN,
        code::BUSY,
        code::GIVEN_UP,
    ];
    refusal.retryable || refusal.code.is_one_of(&passing)
}

#[cfg(test)]
mod tests;
