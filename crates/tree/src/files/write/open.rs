//! A large file that is not complete yet: its final state, and how much of it is written and durable.
//! Writes nothing (`write`) and makes nothing durable (`commit`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use godwit_engine::{entry, lock};
use godwit_proto::{EntryId, HeldRange, Part, Portion, Record, UNKNOWN_BYTES};
use godwit_store::digest::{self, FileDigest};
use godwit_store::journal::{DoneRecord, PathKey};
use godwit_store::{FinalMeta, RelPath, Replace, TempName, WriteFile};

use crate::files::member::key_of;
use crate::files::write::ranges::RangeShare;

/// Large files that are not durable as a whole yet.
pub(crate) type OpenFiles = Mutex<HashMap<EntryId, Arc<OpenFile>>>;

/// A large file that is not complete yet.
pub(crate) struct OpenFile {
    pub(crate) id: EntryId,
    pub(crate) root: u16,
    pub(crate) path: RelPath,
    pub(crate) temp: TempName,
    /// Other transfers write to the temporary file, too: it is never removed here.
    pub(crate) shared: bool,
    /// The file that it is a copy of, which others may still write.
    pub(crate) copied: Option<TempName>,
    /// The range that this transfer brings, if it is not the whole file.
    pub(crate) part: Option<Part>,
    /// The ranges of a file that is put together.
    pub(crate) elsewhere: Vec<HeldRange>,
    pub(crate) key: PathKey,
    pub(crate) generation: u64,
    /// Size of the whole file; [`UNKNOWN_BYTES`] until the last record.
    pub(crate) bytes: AtomicU64,
    pub(crate) attempt: u16,
    pub(crate) replace: Replace,
    /// The record as received, if an observer wants it.
    pub(crate) record: Option<Box<Record>>,
    pub(crate) file: Box<dyn WriteFile>,
    pub(crate) progress: Mutex<Progress>,
}

impl OpenFile {
    pub(crate) fn is_of(&self, record: &Record) -> bool {
        self.generation == record.generation.0
            && (self.bytes() == record.bytes
                || self.bytes() == UNKNOWN_BYTES
                || record.bytes == UNKNOWN_BYTES)
            && matches!(record.portion(), Ok(portion) if self.key == key_of(record, part_of(&portion)))
    }

    /// Whether a slice of this range may be written.
    pub(crate) fn takes(&self, offset: u64, bytes: u64) -> bool {
        match self.part {
            Some(part) => offset >= part.offset && offset.saturating_add(bytes) <= part.end(),
            // All parts of an assembled file are there.
            None => !self.shared,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The journal's record for the whole file; `None` for a part.
    pub(crate) fn done_record(&self) -> Option<DoneRecord> {
        // Without holes, because received bytes are counted so: the difference of the two is the loss of a crash.
        let bytes = lock(&self.progress).written.covered();
        self.part.is_none().then_some(DoneRecord {
            key: self.key,
            generation: self.generation,
            bytes,
        })
    }

    /// The record with the digest of the whole.
    pub(crate) fn finished_record(&self) -> Option<Record> {
        let digest = lock(&self.progress)
            .end
            .as_ref()
            .map(|(digest, _)| *digest)?;
        let mut record = Record::clone(self.record.as_deref()?);
        record.digest = Some(entry::digest_to_wire(&digest));
        record.bytes = self.bytes();
        Some(record)
    }
}

/// The range that an entry is of its file, if it is not all.
pub(crate) fn part_of(portion: &Portion) -> Option<Part> {
    match portion {
        Portion::Part(part) => Some(*part),
        Portion::Whole | Portion::Assemble(_) => None,
    }
}

pub(crate) struct Progress {
    pub(crate) written: FileDigest,
    pub(crate) durable: FileDigest,
    pub(crate) share: RangeShare,
    /// Content that is counted as durable, in bytes.
    pub(crate) counted: u64,
    /// Digest of the whole, and how much of the file its slices cover.
    pub(crate) end: Option<(digest::Digest, u64)>,
    /// The final metadata, from the last record.
    pub(crate) meta: FinalMeta,
    pub(crate) over: bool,
}

impl Progress {
    /// Whether the file takes no more data although it is not whole.
    pub(crate) fn is_stale(&self) -> bool {
        let whole = self
            .end
            .as_ref()
            .is_some_and(|(_, covered)| self.written.covered() >= *covered);
        self.over && !whole
    }

    /// Stops the reception of the file. Unless it is whole, its records are dropped at once: its slices may wait in a batch for long.
    /// Returns the counted bytes that are not to be delivered.
    pub(crate) fn abandon(&mut self) -> u64 {
        if !std::mem::replace(&mut self.over, true) {
            let none = FileDigest::new(self.written.kind());
            self.written = none.clone();
            self.durable = none;
            self.end = None;
            self.share.set(0);
            return std::mem::take(&mut self.counted);
        }
        0
    }
}
