//! Defines the source of a transfer's work: the `Work` trait. Does not read contents (`source`) and does not know the
//! destination's entries.
//!
//! Memory of paths is reused, because there may be millions of entries: `Offers::used_paths` returns the paths of answered and
//! delivered entries to the scan, within `limits::USED_PATHS_MAX`.

use std::time::Duration;

use godwit_proto::{Fault, Record};

/// A batch of entries to transfer, and of faults.
#[derive(Debug, Default)]
pub struct Offers {
    /// Entries to send, in the order of [`Work`]. The sender numbers them.
    pub entries: Vec<Record>,
    /// Names that cannot be offered. Their order relative to the entries does not matter.
    pub faults: Vec<Unoffered>,
    /// Paths of earlier entries that are no longer needed. A [`Work`] may reuse their memory.
    pub used_paths: Vec<Vec<u8>>,
}

/// A name below `path` that cannot be offered.
#[derive(Debug)]
pub struct Unoffered {
    /// Root that the path is relative to.
    pub root: u16,
    /// Path below the root, or the user's spelling of a name that is no valid path.
    pub path: Vec<u8>,
    /// The fault.
    pub fault: Fault,
}

impl Offers {
    /// Number of entries and faults.
    pub fn len(&self) -> usize {
        self.entries.len() + self.faults.len()
    }

    /// Whether there are neither entries nor faults.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.faults.is_empty()
    }
}

/// Supplies entries in an order in which a directory precedes its entries, and a file its additional hard links.
pub trait Work: Send {
    /// Appends up to [`crate::limits::MANIFEST_RECORDS`] offers; `false` once no more will come. May block.
    fn next_batch(&mut self, out: &mut Offers) -> bool;

    /// Processor time used so far by threads that this work started.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }
}
