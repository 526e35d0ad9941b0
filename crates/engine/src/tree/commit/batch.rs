//! How large a batch is, and when it is large enough.
//! Fills and empties none.

use super::Batch;
use crate::limits;

impl Batch {
    pub(super) fn entries(&self) -> usize {
        self.seqs.len() + self.small.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= limits::BATCH_BYTES
            || self.small.len() >= limits::BATCH_FILES
            || self.seqs.len() >= limits::BATCH_FILES
    }
}
