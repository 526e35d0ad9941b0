//! Owns an end's report of tuning decisions about its own threads. Does not decide. `docs/wire.md`,
//! "STATUS".

use prost::Message;

use crate::bytes::cut;
use crate::error::WireError;
use crate::limits::{TUNED_MAX, TUNED_REASON_BYTES_MAX};

/// An end has changed the number of its threads that read or write.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Tuned {
    /// Number of the decision, counted from 1 at this end.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// One of the constants below. Unknown values are kept.
    #[prost(uint32, tag = "2")]
    pub what: u32,
    /// The number before the decision.
    #[prost(uint32, tag = "3")]
    pub from: u32,
    /// The number after the decision.
    #[prost(uint32, tag = "4")]
    pub to: u32,
    /// The reason, for users. From a peer it may contain any character.
    #[prost(string, tag = "5")]
    pub reason: String,
}

impl Tuned {
    /// Threads that read at the source.
    pub const READERS: u32 = 1;
    /// Threads that write at the destination.
    pub const WRITERS: u32 = 2;
}

/// The latest of these decisions, as many as fit into a frame, with reasons cut to their limit.
pub(super) fn bounded(all: &[Tuned]) -> Vec<Tuned> {
    let latest = &all[all.len().saturating_sub(TUNED_MAX)..];
    let cut = |tuned: &Tuned| Tuned {
        reason: cut(&tuned.reason, TUNED_REASON_BYTES_MAX).to_owned(),
        ..*tuned
    };
    latest.iter().map(cut).collect()
}

pub(super) fn check(all: &[Tuned]) -> Result<(), WireError> {
    if all.len() > TUNED_MAX {
        return Err(WireError::too_long("list of decisions", TUNED_MAX as u64));
    }
    let too_long = |tuned: &Tuned| tuned.reason.len() > TUNED_REASON_BYTES_MAX;
    if all.iter().any(too_long) {
        let limit = TUNED_REASON_BYTES_MAX as u64;
        return Err(WireError::too_long("reason of a decision", limit));
    }
    Ok(())
}
