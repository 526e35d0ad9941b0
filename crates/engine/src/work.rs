//! Where a transfer's work comes from: the `Work` trait, fed by a scan here, by leases from a controller later.
//! Does not read contents (`source`) and does not know what the destination has.

use std::time::Duration;

use godwit_proto::{Fault, Record};

/// A piece of news about the data set.
#[derive(Debug)]
pub enum Offer {
    /// An entry to bring to the destination. The sender numbers it.
    Entry(Record),
    /// Something below `path` cannot be offered.
    Fault {
        /// Root that the path is relative to.
        root: u16,
        /// Path below the root; or what somebody has written and is no path, as it was written.
        path: Vec<u8>,
        /// What is wrong.
        fault: Fault,
    },
}

/// Gives entries in an order where a directory comes before what is in it, and a file before its further hard links.
pub trait Work: Send {
    /// Appends up to [`crate::limits::MANIFEST_RECORDS`] offers; `false` once there will never be more.
    /// May block.
    fn next_batch(&mut self, out: &mut Vec<Offer>) -> bool;

    /// Processor time that threads of its own have taken so far.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }
}
