//! Defines a batch: its contents, its size, and when it is full enough. Does not fill or commit batches.
//!
//! A failed sync does not identify files. Its batch, and all data written during the sync, count as unwritten (the committer's epoch). At
//! most two batches are written and not yet durable. Beyond that, streams stop reading, and TCP passes the back-pressure to the sender.
//!
//! Only the committer writes to the journal while it is synced, so streams pass their records to the committer. There is one exception: if
//! a file that the journal may know is restarted or given up, the stream itself writes the record.

use std::sync::Arc;

use godwit_engine::limits;
use godwit_proto::{EntryId, Record, Seq};
use godwit_store::digest::Digest;
use godwit_store::journal::PathKey;
use godwit_store::{RelPath, Replace, TempName};

use super::Batch;
use crate::files::write::open::OpenFile;

/// A small file whose content, times and mode are written.
pub(crate) struct SmallFile {
    pub(crate) id: EntryId,
    pub(crate) key: PathKey,
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    /// The record as received, if an observer needs it.
    pub(crate) record: Option<Box<Record>>,
    /// Data needed to sync and name the file; `None` if the file already has its name.
    pub(crate) unnamed: Option<Box<Unnamed>>,
}

impl SmallFile {
    /// Memory of its path, and of the record.
    fn held_bytes(&self) -> u64 {
        let unnamed = self.unnamed.as_ref();
        let path = unnamed.map_or(0, |unnamed| unnamed.path.as_bytes().len());
        let record = self.record.as_ref().map_or(0, |record| {
            record.path.len() + record.target.len() + record.extensions.len()
        });
        (path + record) as u64
    }
}

/// Data about a small file until it gets its name.
pub(crate) struct Unnamed {
    pub(crate) root: u16,
    pub(crate) digest: Option<Digest>,
    pub(crate) path: RelPath,
    pub(crate) temp: TempName,
    pub(crate) replace: Replace,
}

/// A range of a large file under its temporary name.
pub(super) struct Range {
    pub(super) file: Arc<OpenFile>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) digest: Digest,
    /// Bytes of content, without holes.
    pub(super) content: u64,
}

impl Batch {
    pub(super) fn add_small(&mut self, seq: Seq, files: Vec<SmallFile>) {
        self.held_bytes += files.iter().map(SmallFile::held_bytes).sum::<u64>();
        self.small.extend(files.into_iter().map(|file| (seq, file)));
    }

    pub(super) fn entries(&self) -> usize {
        self.seqs.len() + self.small.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes + self.held_bytes >= limits::BATCH_BYTES
            || self.small.len() >= limits::BATCH_FILES
            || self.seqs.len() >= limits::BATCH_FILES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report wants the records. A sender that this end does not trust chooses their attributes.
    #[test]
    fn the_records_of_small_files_fill_a_batch() {
        let extensions = vec![0; 384 << 10];
        let most = limits::BATCH_BYTES / extensions.len() as u64 + 1;
        let mut batch = Batch::default();
        let mut count = 0;
        while !batch.is_full() {
            let record = Record {
                extensions: extensions.clone(),
                ..Record::default()
            };
            let file = SmallFile {
                id: EntryId(1),
                key: PathKey([0; 16]),
                generation: 1,
                bytes: 0,
                record: Some(Box::new(record)),
                unnamed: None,
            };
            batch.add_small(Seq(1), vec![file]);
            count += 1;
        }
        assert!(count <= most, "{count}");
    }
}
