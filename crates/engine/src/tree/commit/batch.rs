//! What a batch is made of, how large it is, and when it is large enough.
//! Fills and empties none.

use std::sync::Arc;

use godwit_store::digest::Digest;

use super::Batch;
use crate::limits;
use crate::tree::open::OpenFile;

/// A part of a large file under its temporary name.
pub(super) struct Range {
    pub(super) file: Arc<OpenFile>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) digest: Digest,
    /// Without holes.
    pub(super) content: u64,
}

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
