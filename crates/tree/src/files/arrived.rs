//! Reports how much earlier runs of a transfer delivered to its destination. Does not read the
//! journal, which was read when the destination was prepared.

use super::destination::PreparedDestination;

/// Amounts that earlier runs of a transfer delivered, from its journal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arrived {
    /// Content that had arrived but is in no record of the journal, so it is sent again.
    pub lost_bytes: u64,
    /// Bytes of content at the destination.
    pub held_bytes: u64,
    /// Complete files at the destination.
    pub held_files: u64,
}

impl PreparedDestination {
    /// Amounts of earlier runs.
    pub fn arrived(&self) -> Arrived {
        let found = &self.recovered;
        Arrived {
            lost_bytes: found.received_bytes.saturating_sub(found.vouched_bytes),
            held_bytes: found.vouched_bytes,
            held_files: found.vouched_files,
        }
    }
}
