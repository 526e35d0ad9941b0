//! Limits the number of claims of one holder, and decides which identities count as one holder. Does not store claims.

use std::collections::HashMap;
use std::time::Instant;

use godwit_api::ask::{Refusal, code};
use godwit_api::job::ClaimId;
use godwit_net::IdentityId;

use super::{CLAIMS_OF_ONE_MAX, Held, MEMBERS_OF_ONE_MAX, Wish};
use crate::allow::Who;

/// The peer that sets or changes a claim, and its rights.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// This node.
    Here,
    /// Another node of this site, as long as it belongs to the site.
    Member(IdentityId),
    /// Any other peer, or a node that acts for a job of another node.
    Peer(Who),
}

impl By {
    pub(super) fn is_of_this_site(&self) -> bool {
        !matches!(self, Self::Peer(_))
    }

    /// The proven identity.
    pub(super) fn peer(&self) -> Option<IdentityId> {
        match self {
            Self::Here => None,
            Self::Member(peer) => Some(*peer),
            Self::Peer(who) => Some(who.peer),
        }
    }
}

/// Whether the holder of this claim has reached the limit of claims.
pub(super) fn is_full_for(table: &HashMap<ClaimId, Held>, by: &By, now: Instant) -> bool {
    let giver = giver_of(by);
    if giver.is_none() {
        return false;
    }
    let of_one = table
        .values()
        .filter(|held| giver_of(&held.by) == giver && held.lease.holds_at(now));
    of_one.count() >= CLAIMS_OF_ONE_MAX
}

/// Whether the claims of this holder may have these members too. Former members count. To make room, the holder's oldest ended claims
/// are dropped as a whole: a claim that remembered only some of its members would treat the others as strangers.
pub(super) fn has_room_for_members(
    table: &mut HashMap<ClaimId, Held>,
    wish: &Wish,
    now: Instant,
) -> bool {
    let giver = giver_of(&wish.by);
    let known = |held: &Held| held.members.len() + held.former.len();
    let (mut all, mut ended) = (wish.members.len(), Vec::new());
    for (claim, held) in table.iter() {
        if *claim == wish.claim {
            let ever = held.members.keys().chain(&held.former);
            all += ever.filter(|member| !wish.members.contains(member)).count();
        } else if giver_of(&held.by) == giver {
            all += known(held);
            if !held.lease.holds_at(now) {
                ended.push((held.lease.begin, *claim, known(held)));
            }
        }
    }
    let mut over = all.saturating_sub(MEMBERS_OF_ONE_MAX);
    let of_ended = ended.iter().map(|(_, _, members)| members).sum();
    // This node itself is never refused.
    if over > of_ended && giver.is_some() {
        return false;
    }
    ended.sort_unstable_by_key(|(begin, _, _)| *begin);
    for (_, claim, members) in ended {
        if over == 0 {
            break;
        }
        table.remove(&claim);
        over = over.saturating_sub(members);
    }
    true
}

/// The identity whose right a peer uses: the asker of the job that the peer names. One asker may admit many identities.
pub(super) fn giver_of(by: &By) -> Option<String> {
    let asker = match by {
        By::Peer(who) => who.mandate.as_ref().map(|mandate| mandate.asker.clone()),
        By::Here | By::Member(_) => None,
    };
    asker.or_else(|| by.peer().map(|peer| peer.to_string()))
}

pub(super) fn too_many_of_one() -> Refusal {
    let message = format!(
        "this identity holds {CLAIMS_OF_ONE_MAX} claims here, which is the limit; release one"
    );
    Refusal::later(code::BUSY, message)
}

pub(super) fn too_many_members() -> Refusal {
    let message = format!(
        "the claims of this identity have {MEMBERS_OF_ONE_MAX} members here, which is the limit; release one"
    );
    Refusal::later(code::BUSY, message)
}

#[cfg(test)]
mod tests;
