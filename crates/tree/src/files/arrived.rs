//! Owns the amounts that earlier runs of a transfer brought to its destination.
//! Reads no journal: that was read when the destination was prepared.

use super::destination::PreparedDestination;

/// Amounts that earlier runs of a transfer brought, from its journal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arrived {
    /// Content that had arrived and that nothing vouches for: it is sent again.
    pub lost_bytes: u64,
    /// Bytes of content that the destination has.
    pub held_bytes: u64,
    /// Files that are complete.
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
