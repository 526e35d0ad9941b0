//! Makes the refusals that concern a claim: it has ended, was taken over, or keeps others out. Changes no claim.

use std::time::Instant;

use godwit_api::ask::{Refusal, code};
use godwit_api::job::ClaimId;

use super::{ClaimTable, Spots};
use crate::session::locked;

impl ClaimTable {
    /// As [`Self::refuses`], for a job of this node. Looks at no right: an unknown right of a holder must not count as read.
    pub(crate) fn keeps_out(&self, destinations: &Spots, now: Instant) -> Option<String> {
        let table = locked(&self.claims);
        let mut held = table.values().filter(|held| held.lease.holds_at(now));
        let is_claimed = held.any(|held| destinations.overlap(&held.spot));
        is_claimed.then(|| claimed(b"the destination"))
    }
}

pub(crate) fn no_such(claim: ClaimId) -> Refusal {
    let message =
        format!("the claim {claim} has ended at this node, or was never set; set it again");
    Refusal::new(code::NO_SUCH_CLAIM, message)
}

pub(super) fn passed(epoch: u64) -> Refusal {
    let message = format!("the claim is in epoch {epoch}: a different controller has taken over");
    Refusal::new(code::NO_SUCH_CLAIM, message)
}

/// The message for a peer that asked for this place. It contains the peer's own name of the place: the claimed place may lie above it, or
/// below it, and may have a name in an export that the peer may not use. The holder and the id stay secret, too.
pub(super) fn claimed(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    format!(
        "{asked}, or a place above or below it, is claimed for the members of a job; wait for that job, or cancel it"
    )
}
