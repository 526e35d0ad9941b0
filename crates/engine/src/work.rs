//! Where a transfer's work comes from: the `Work` trait, fed by a scan here, by leases from a controller later.
//! Does not read contents (`source`) and does not know what the destination has.
//!
//! Paths circulate where entries come by the million: `Offers::used_paths` brings the memory of answered and delivered paths back
//! to the scan, within `limits::USED_PATHS_MAX`.

use std::time::Duration;

use godwit_proto::{Fault, Record};

/// A batch of news about the data set.
#[derive(Debug, Default)]
pub struct Offers {
    /// Entries to bring to the destination, in the order of [`Work`]. The sender numbers them.
    pub entries: Vec<Record>,
    /// What cannot be offered. It does not matter before or after which entries it is told.
    pub faults: Vec<Unoffered>,
    /// Paths of earlier entries that nobody needs any more, for their memory. Whoever gives entries may take them.
    pub used_paths: Vec<Vec<u8>>,
}

/// Something below `path` cannot be offered.
#[derive(Debug)]
pub struct Unoffered {
    /// Root that the path is relative to.
    pub root: u16,
    /// Path below the root; or what somebody has written and is no path, as it was written.
    pub path: Vec<u8>,
    /// What is wrong.
    pub fault: Fault,
}

impl Offers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len() + self.faults.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.faults.is_empty()
    }
}

/// Gives entries in an order where a directory comes before what is in it, and a file before its further hard links.
pub trait Work: Send {
    /// Appends up to [`crate::limits::MANIFEST_RECORDS`] offers; `false` once there will never be more.
    /// May block.
    fn next_batch(&mut self, out: &mut Offers) -> bool;

    /// Processor time that threads of its own have taken so far.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }
}
