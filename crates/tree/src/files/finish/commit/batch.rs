//! Defines a batch: its contents, its size, and the size that is enough.
//! Fills and empties none.
//!
//! A failed sync names no file. Its batch, and everything written while it ran, count as unwritten (the committer's epoch). At
//! most two batches are written and not durable; beyond that streams stop reading, and TCP carries the back-pressure to the
//! sender.
//!
//! Only the committer writes into the journal while it is synced, so streams leave their records to the committer. There is one exception:
//! a file that the journal may know already, and that is started again or given up, is noted by the stream itself.

use std::sync::Arc;

use godwit_engine::limits;
use godwit_proto::{EntryId, Record};
use godwit_store::digest::Digest;
use godwit_store::journal::PathKey;
use godwit_store::{RelPath, Replace, TempName};

use super::Batch;
use crate::files::write::open::OpenFile;

/// A small file that is written, with times and mode.
pub(crate) struct SmallFile {
    pub(crate) id: EntryId,
    pub(crate) key: PathKey,
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    /// The record as received, if an observer wants it.
    pub(crate) record: Option<Box<Record>>,
    /// Facts for making the file durable and naming it; `None` if the file has its name.
    pub(crate) unnamed: Option<Box<Unnamed>>,
}

/// Facts about a small file until it has its name.
pub(crate) struct Unnamed {
    pub(crate) root: u16,
    pub(crate) digest: Option<Digest>,
    pub(crate) path: RelPath,
    pub(crate) temp: TempName,
    pub(crate) replace: Replace,
}

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
