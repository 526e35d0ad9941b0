//! Limits the number of claims of one holder, and decides which identities count as one holder. Does not store claims.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use godwit_api::ask::{Refusal, code};
use godwit_api::job::ClaimId;
use godwit_net::IdentityId;

use super::marks::Remains;
use super::{CLAIMS_MAX, CLAIMS_OF_ONE_MAX, Held, MEMBERS_OF_ONE_MAX, Wish};
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

/// Whether the holder of this claim has reached the limit of claims. The mark of an ended claim counts as a claim. To make room, the holder's
/// oldest ended claims lose their marks.
pub(super) fn is_full_for(
    table: &mut HashMap<ClaimId, Held>,
    wish: &Wish,
    now: Instant,
    remains: &mut Remains,
) -> bool {
    let giver = giver_of(&wish.by);
    if giver.is_none() {
        return false;
    }
    let (mut living, mut marked) = (0, Vec::new());
    for (claim, held) in table.iter() {
        if *claim == wish.claim || giver_of(&held.by) != giver {
            continue;
        }
        if held.lease.holds_at(now) {
            living += 1;
        } else if held.has_mark {
            marked.push((held.lease.begin, *claim));
        }
    }
    marked.sort_unstable();
    let over = (living + marked.len() + 1).saturating_sub(CLAIMS_OF_ONE_MAX);
    for (_, claim) in marked.iter().take(over) {
        if let Some(held) = table.get_mut(claim) {
            remains.leave(*claim, held);
        }
    }
    living >= CLAIMS_OF_ONE_MAX
}

/// Drops an ended claim to make room for another one. Claims with a mark are dropped last, because their jobs fail without the
/// mark. The
/// holder with the most claims loses its oldest one first, so that no holder drops the claims of others.
///
/// # Errors
/// All claims hold.
pub(super) fn drop_ended(
    table: &mut HashMap<ClaimId, Held>,
    now: Instant,
    remains: &mut Remains,
) -> Result<(), Refusal> {
    let mut counts: HashMap<Option<String>, usize> = HashMap::new();
    for held in table.values() {
        *counts.entry(giver_of(&held.by)).or_default() += 1;
    }
    let order = |(claim, held): (&ClaimId, &Held)| {
        let count = counts.get(&giver_of(&held.by)).copied();
        let of_holder = (held.has_mark, Reverse(count));
        (!held.lease.holds_at(now)).then_some((of_holder, held.lease.begin, *claim))
    };
    let Some((_, _, next)) = table.iter().filter_map(order).min() else {
        let message = format!(
            "this node holds {CLAIMS_MAX} claims, which is the limit; release one that has ended"
        );
        return Err(Refusal::later(code::BUSY, message));
    };
    remains.drop_claim(table, next);
    Ok(())
}

/// Whether the claims of this holder may have these members too. Former members count. To make room, the holder's oldest ended claims
/// are dropped as a whole: a claim that remembered only some of its members would treat the others as strangers.
pub(super) fn has_room_for_members(
    table: &mut HashMap<ClaimId, Held>,
    wish: &Wish,
    now: Instant,
    remains: &mut Remains,
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
        remains.drop_claim(table, claim);
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
