//! Owns the claims of this node: which job's members may write below which destination, and until when. Does not end transfers (`keeper`)
//! or answer questions (`ask`).
//!
//! Claims are kept in memory. After a restart no peer is a member until the controller sets its claim again. Only the epoch,
//! the path and its identities are remembered of an ended claim, so that an older epoch cannot return. They are forgotten when
//! the table needs the
//! entry.
//!
//! The lease of a claim ends by the monotonic clock of this machine, independently of the controller. A lease never restarts: a claim that
//! is set again gets a new lease.

mod lease;
mod marks;
mod refusals;
mod room;
mod spelled;
mod wish;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use godwit_api::ask::{Refusal, code};
use godwit_api::grant::lasting::{Look, UNREAD_MAX};
use godwit_api::job::{ClaimId, Text};
use godwit_engine::Fence;
use godwit_net::IdentityId;
use godwit_proto::parts::PART_BYTES_MIN;
use godwit_proto::{ErrorCode, Member};
use godwit_store::{Timestamp, claim_tag};
use godwit_tree::{Membership, Region};

use crate::allow::Denial;
use crate::session::locked;
pub(crate) use lease::MemberLease;
use lease::{Entry, Lease};
use marks::Remains;
pub(crate) use refusals::no_such;
use refusals::{claimed, passed};
pub(crate) use room::By;
use room::{
    drop_ended, giver_of, has_room_for_members, is_full_for, too_many_members, too_many_of_one,
};
use spelled::is_within;
pub(crate) use spelled::{Spot, Spots, TooLong, check};
pub(crate) use wish::{ClaimedPlace, Wish};

/// Most claims of this node, including ended ones. Each has two paths of at most 4 KiB, 120 bytes for each member, and a place of some 40
/// KB.
const CLAIMS_MAX: usize = 1024;

/// Claims that one identity may hold at a time: a quarter, so that one identity cannot use all the room.
const CLAIMS_OF_ONE_MAX: usize = CLAIMS_MAX / 4;

/// Members of all claims of one identity, including former ones: about 8 MB.
const MEMBERS_OF_ONE_MAX: usize = 64 << 10;

/// Checks whether the holder of a claim may still write at its place.
pub(crate) type MayHold<'a> = dyn Fn(&By, &Text) -> Look<()> + 'a;

/// All claims of a node.
#[derive(Default)]
pub struct ClaimTable {
    claims: Mutex<HashMap<ClaimId, Held>>,
    /// Locked while a claim or another transfer checks the table and enters it, so that neither misses the other. Acquired before all other
    /// locks.
    entering: Mutex<()>,
    /// Marks to remove. Acquired after `claims`.
    remains: Mutex<Remains>,
    /// Locked while a thread removes marks.
    removing: Mutex<()>,
}

/// Until this is dropped, no claim is set, and no transfer that is no member begins.
pub(crate) struct Entering<'a> {
    _held: MutexGuard<'a, ()>,
}

struct Held {
    epoch: u64,
    place: ClaimedPlace,
    spot: Spot,
    members: HashMap<IdentityId, Entry>,
    /// All former members and holders that are neither now. An ended claim remembers them: otherwise an older epoch of theirs could return.
    former: HashSet<IdentityId>,
    by: By,
    lease: Arc<Lease>,
    /// Time since which the right of the holder cannot be read.
    unread_since: Option<Instant>,
    /// At its latest check the keeper found that the holder had lost its right.
    was_gone: bool,
    /// When the mark of the claim was made, by the clock of the file system; `None` if this node has not seen the mark.
    since: Option<Timestamp>,
    /// This node made a mark at the place, and has not removed it.
    has_mark: bool,
    /// When the claim was found to have ended.
    ended: Option<Instant>,
}

impl ClaimTable {
    /// Sets a claim, or extends one of the same epoch. A higher epoch ends the leases of the previous one.
    ///
    /// # Errors
    /// Another claim overlaps, the epoch has passed, there are too many claims, or its earlier mark is being removed.
    pub(crate) fn set(
        &self,
        wish: Wish,
        now: Instant,
        may_hold: &MayHold<'_>,
    ) -> Result<(), Refusal> {
        let mut table = locked(&self.claims);
        let mut remains = locked(&self.remains);
        let ended = table.values_mut().filter(|held| !held.lease.holds_at(now));
        ended.for_each(|held| held.end(now));
        let overlapping = table.iter_mut().any(|(claim, held)| {
            *claim != wish.claim
                && held.lease.holds_at(now)
                && held.spot.overlaps(&wish.spot)
                && held.holds(now, may_hold)
        });
        if overlapping {
            return Err(Refusal::later(code::BUSY, claimed(&wish.place.asked.0)));
        }
        remains.check(&wish)?;
        // The id alone is not enough to use a claim, so others cannot learn the holder's claims with it.
        let other = table.get_mut(&wish.claim);
        if let Some(other) = other.filter(|held| !held.is_of(&wish.by)) {
            if other.holds(now, may_hold) {
                return Err(Refusal::later(code::BUSY, claimed(&wish.place.asked.0)));
            }
            remains.drop_claim(&mut table, wish.claim);
        }
        // A claim that has ended counts again once it is set again, and so does a claim that another peer sets.
        let counts_already = table.get(&wish.claim).is_some_and(|held| {
            held.lease.holds_at(now) && giver_of(&held.by) == giver_of(&wish.by)
        });
        let is_full = !counts_already && is_full_for(&mut table, &wish, now, &mut remains);
        let is_passed = table
            .get(&wish.claim)
            .is_some_and(|held| wish.epoch < held.epoch);
        if !is_passed && !has_room_for_members(&mut table, &wish, now, &mut remains) {
            return Err(too_many_members());
        }
        let since = table.get(&wish.claim).and_then(|held| held.since);
        let (mut former, mut has_mark) = (HashSet::new(), false);
        if let Some(held) = table.get_mut(&wish.claim) {
            if wish.epoch < held.epoch {
                return Err(passed(held.epoch));
            }
            if wish.epoch == held.epoch && held.lease.holds_at(now) {
                if wish.place != held.place {
                    let message = format!(
                        "the claim {} is for {}; to claim a different place, use a higher epoch",
                        wish.claim,
                        String::from_utf8_lossy(&held.place.asked.0)
                    );
                    return Err(Refusal::new(code::INVALID, message));
                }
                if is_full {
                    return Err(too_many_of_one());
                }
                if held.lease.renew(now, wish.lease) {
                    held.lease.copies.store(wish.copies, Ordering::SeqCst);
                    held.set_members(&wish.members, &wish.fence);
                    held.change_holder(wish.by);
                    return Ok(());
                }
            }
            if is_full {
                return Err(too_many_of_one());
            }
            held.lease.end();
            former = held.give_up(&wish.by, now);
            if held.place != wish.place {
                remains.leave(wish.claim, held);
            }
            has_mark = held.has_mark;
        } else if is_full {
            return Err(too_many_of_one());
        } else if table.len() >= CLAIMS_MAX {
            drop_ended(&mut table, now, &mut remains)?;
        }
        former.retain(|member| !wish.members.contains(member));
        let members = wish.members.into_iter();
        let lease = Lease::new(now, wish.lease);
        lease.copies.store(wish.copies, Ordering::SeqCst);
        let held = Held {
            epoch: wish.epoch,
            place: wish.place,
            spot: wish.spot,
            members: members.map(|member| (member, Entry::new())).collect(),
            former,
            by: wish.by,
            lease,
            unread_since: None,
            was_gone: false,
            since,
            has_mark,
            ended: None,
        };
        table.insert(wish.claim, held);
        Ok(())
    }

    /// Waits until no claim is being set and no transfer begins.
    pub(crate) fn enter_alone(&self) -> Entering<'_> {
        Entering {
            _held: locked(&self.entering),
        }
    }

    /// Whether a claim is being set, or a transfer begins.
    #[cfg(test)]
    pub(crate) fn is_entered(&self) -> bool {
        self.entering.try_lock().is_err()
    }

    /// Extends a claim by this time, from now on.
    ///
    /// # Errors
    /// It has ended, or its epoch has passed.
    pub(crate) fn renew(
        &self,
        claim: ClaimId,
        epoch: u64,
        lasts: Duration,
        now: Instant,
        by: &By,
    ) -> Result<(), Refusal> {
        let table = locked(&self.claims);
        let held = table.get(&claim).filter(|held| held.is_of(by));
        let held = held.ok_or_else(|| no_such(claim))?;
        if held.epoch > epoch {
            return Err(passed(held.epoch));
        }
        match held.epoch == epoch && held.lease.renew(now, lasts) {
            true => Ok(()),
            false => Err(no_such(claim)),
        }
    }

    /// Ends a claim of this epoch or an earlier one.
    ///
    /// # Errors
    /// The epoch has passed.
    pub(crate) fn release(&self, claim: ClaimId, epoch: u64, by: &By) -> Result<(), Refusal> {
        let mut table = locked(&self.claims);
        match table.get_mut(&claim) {
            Some(held) if !held.is_of(by) => Err(no_such(claim)),
            Some(held) if held.epoch > epoch => Err(passed(held.epoch)),
            Some(held) => {
                held.lease.end();
                held.end(Instant::now());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The place of a current or ended claim.
    pub(crate) fn place_of(&self, claim: ClaimId) -> Option<ClaimedPlace> {
        locked(&self.claims)
            .get(&claim)
            .map(|held| held.place.clone())
    }

    /// The examined place of a claim. For an ended claim it is the spot that all others overlap.
    pub(crate) fn spot_of(&self, claim: ClaimId) -> Option<Spot> {
        let table = locked(&self.claims);
        table.get(&claim).map(|held| held.spot.clone())
    }

    /// Whether `by` already knows the place of the claim.
    pub(crate) fn is_known_to(&self, claim: ClaimId, by: &By) -> bool {
        let table = locked(&self.claims);
        table.get(&claim).is_some_and(|held| held.is_known_to(by))
    }

    /// Admits a transfer that claims to be a member, to write at the absolute path `base` or below.
    pub(crate) fn enter(
        &self,
        member: &Member,
        peer: IdentityId,
        base: &[u8],
        now: Instant,
        may_hold: &MayHold<'_>,
    ) -> Result<(Arc<MemberLease>, Membership), Denial> {
        let claim = ClaimId(member.claim_id());
        let busy = |message: String| Denial {
            retryable: false,
            ..Denial::new(ErrorCode::BUSY, message)
        };
        let mut table = locked(&self.claims);
        let held = table.get_mut(&claim).and_then(|held| {
            let holds = match held.is_unread_for_long(now) {
                // While no transfer runs, the keeper checks only now and then.
                true => held.holds(now, may_hold),
                false => held.lease.holds_at(now),
            };
            holds.then_some(held)
        });
        let Some(held) = held else {
            return Err(busy(format!(
                "this node holds no claim {claim}: the claim has ended or was never set; the controller of the job sets claims"
            )));
        };
        if held.epoch != member.epoch {
            return Err(busy(format!(
                "the claim {claim} is in epoch {} here, but the member is in epoch {}; the controller with the higher epoch assigns the work",
                held.epoch, member.epoch
            )));
        }
        let Some(entry) = held.members.get(&peer) else {
            return Err(Denial::new(
                ErrorCode::NOT_GRANTED,
                format!(
                    "you are no member of the claim {claim}; the controller of the job names the members"
                ),
            ));
        };
        if held.is_unread_for_long(now) {
            return Err(Denial {
                retryable: true,
                ..Denial::new(
                    ErrorCode::BUSY,
                    format!(
                        "this node cannot read whether the holder of the claim {claim} may still write there; its operator sees why with: godwit access list"
                    ),
                )
            });
        }
        if !is_within(base, &held.place.absolute) {
            return Err(busy(format!("the claim {claim} is for a different place")));
        }
        let region = Region::of(&member.within, member.flat).map_err(|error| {
            let message =
                format!("the region that the closer of the claim {claim} finishes: {error}");
            Denial::new(ErrorCode::PROTOCOL, message)
        })?;
        let hold = Arc::new(MemberLease {
            claim,
            lease: Arc::clone(&held.lease),
            entry: entry.clone(),
        });
        let membership = Membership {
            claim: claim.0,
            node: Vec::new(),
            epoch: member.epoch,
            closer: member.closer,
            region,
            lane: member.lane,
            fence: Arc::clone(&hold) as Arc<dyn Fence>,
            since: held.since,
            part_bytes_min: PART_BYTES_MIN,
        };
        Ok((hold, membership))
    }

    /// The reason why a transfer that is no member may not write to these destinations, if a claim covers any of them. `asked` is the
    /// peer's name for them.
    pub(crate) fn refuses(
        &self,
        destinations: &Spots,
        asked: &[u8],
        now: Instant,
        may_hold: &MayHold<'_>,
    ) -> Option<Denial> {
        let mut table = locked(&self.claims);
        let is_claimed = table.values_mut().any(|held| {
            held.lease.holds_at(now)
                && destinations.overlap(&held.spot)
                && held.holds(now, may_hold)
        });
        is_claimed.then(|| Denial::new(ErrorCode::BUSY, claimed(asked)))
    }

    /// Checks the rights of all holders.
    pub(crate) fn look(&self, now: Instant, may_hold: &MayHold<'_>) {
        let mut table = locked(&self.claims);
        let mut remains = locked(&self.remains);
        for (claim, held) in table.iter_mut() {
            if !held.lease.holds_at(now) {
                held.end(now);
                remains.leave_old(*claim, held, now);
                continue;
            }
            let found = may_hold(&held.by, &held.place.asked);
            let is_gone = matches!(found, Look::Gone(()));
            // The right must be gone twice in a row, because a file of grants that is being written is empty for a moment.
            if std::mem::replace(&mut held.was_gone, is_gone) || !is_gone {
                held.note(&found, now);
            }
        }
    }

    /// The tags of temporary files that members of valid claims may be writing.
    pub(crate) fn tags(&self, now: Instant) -> HashSet<u64> {
        let table = locked(&self.claims);
        let living = table.iter().filter(|(_, held)| held.lease.holds_at(now));
        living.map(|(claim, _)| claim_tag(&claim.0)).collect()
    }
}

impl Held {
    /// Whether `by` may change the claim: its holder, its members, others for the same job, and the nodes of this site may. Any peer can
    /// name a job, so others for the same job need the right at the place as well.
    fn is_of(&self, by: &By) -> bool {
        let is_same_job = match (by, &self.by) {
            (By::Peer(who), By::Peer(holder)) => {
                who.mandate.is_some() && holder.mandate == who.mandate
            }
            _ => false,
        };
        is_same_job || self.is_known_to(by)
    }

    /// Whether `by` is the holder, a member, or a node of this site.
    fn is_known_to(&self, by: &By) -> bool {
        let By::Peer(who) = by else {
            return true;
        };
        (!self.by.is_of_this_site() && self.by.peer() == Some(who.peer))
            || self.members.contains_key(&who.peer)
            || (self.lease.has_ended() && self.former.contains(&who.peer))
    }

    /// Whether the claim is still valid. It ends when its holder has lost the right to write there.
    fn holds(&mut self, now: Instant, may_hold: &MayHold<'_>) -> bool {
        let found = may_hold(&self.by, &self.place.asked);
        self.note(&found, now);
        self.lease.holds_at(now)
    }

    /// Records whether the holder has the right. While that cannot be read, the claim keeps its place, but after a time its members may not
    /// write.
    fn note(&mut self, found: &Look<()>, now: Instant) {
        match found {
            Look::Holds => self.unread_since = None,
            Look::Gone(()) => self.lease.end(),
            Look::Unread(()) => {
                self.unread_since.get_or_insert(now);
                if self.is_unread_for_long(now) {
                    let all: HashSet<IdentityId> = self.members.keys().copied().collect();
                    self.set_members(&all, &all);
                }
            }
        }
    }

    /// Reduces an ended claim to its epoch, its path and the identities that may change it.
    fn end(&mut self, now: Instant) {
        self.ended.get_or_insert(now);
        self.spot = Spot::default();
        let members = std::mem::take(&mut self.members);
        self.former.extend(members.into_keys());
    }

    /// Changes the holder. The earlier holder is remembered.
    fn change_holder(&mut self, by: By) {
        if self.by.peer() != by.peer() {
            self.former.extend(self.by.peer());
        }
        self.by = by;
    }

    /// All current and former members and holders, when the claim passes to its next epoch.
    fn give_up(&mut self, to: &By, now: Instant) -> HashSet<IdentityId> {
        self.end(now);
        self.change_holder(to.clone());
        std::mem::take(&mut self.former)
    }

    fn is_unread_for_long(&self, now: Instant) -> bool {
        let since = self.unread_since;
        since.is_some_and(|since| now.saturating_duration_since(since) >= UNREAD_MAX)
    }

    /// Admits these members. Transfers of former members end, and so do those of the members in `fence`.
    fn set_members(&mut self, members: &HashSet<IdentityId>, fence: &HashSet<IdentityId>) {
        let former = &mut self.former;
        self.members.retain(|member, entry| {
            let stays = members.contains(member) && !fence.contains(member);
            if !stays {
                entry.end();
                former.insert(*member);
            }
            stays
        });
        for member in members {
            former.remove(member);
            self.members.entry(*member).or_insert_with(Entry::new);
        }
    }
}

#[cfg(test)]
mod tests;
