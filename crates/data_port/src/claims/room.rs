//! Owns how many claims one may hold, and who counts as one.
//! Keeps no claim.

use std::collections::HashMap;
use std::time::Instant;

use godwit_api::ask::{Refusal, code};
use godwit_api::job::ClaimId;

use super::{CLAIMS_OF_ONE_MAX, Held};
use crate::allow::Who;

/// Whether one who sets a claim holds as many as one may.
pub(super) fn is_full_for(table: &HashMap<ClaimId, Held>, who: Option<&Who>, now: Instant) -> bool {
    let giver = giver_of(who);
    if giver.is_none() {
        return false;
    }
    let of_one = table
        .values()
        .filter(|held| giver_of(held.who.as_ref()) == giver && held.lease.holds_at(now));
    of_one.count() >= CLAIMS_OF_ONE_MAX
}

/// By whose right one acts: the asker of the job that it names. One asker may let many identities in.
pub(super) fn giver_of(who: Option<&Who>) -> Option<String> {
    let who = who?;
    let asker = who.mandate.as_ref().map(|mandate| mandate.asker.clone());
    Some(asker.unwrap_or_else(|| who.peer.to_string()))
}

pub(super) fn too_many_of_one() -> Refusal {
    let message = format!(
        "this identity holds {CLAIMS_OF_ONE_MAX} claims here, as many as one may; release one"
    );
    Refusal::later(code::BUSY, message)
}
