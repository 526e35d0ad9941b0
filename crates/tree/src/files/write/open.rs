//! A large incomplete file: its final state, and how much of it is written and durable. Does not write (`write`) or sync (`commit`).

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

/// Large files that are not completely durable yet.
pub(crate) type OpenFiles = Mutex<HashMap<EntryId, Arc<OpenFile>>>;

/// A large file that is not complete yet.
pub(crate) struct OpenFile {
    pub(crate) id: EntryId,
    pub(crate) root: u16,
    pub(crate) path: RelPath,
    pub(crate) temp: TempName,
    /// Other transfers also write to the temporary file, so it is never removed here.
    pub(crate) shared: bool,
    /// The file that this file is a copy of; others may still write to it.
    pub(crate) copied: Option<TempName>,
    /// The range that this transfer delivers, if it is not the whole file.
    pub(crate) part: Option<Part>,
    /// The ranges of a file that is assembled.
    pub(crate) elsewhere: Vec<HeldRange>,
    pub(crate) key: PathKey,
    pub(crate) generation: u64,
    /// Size of the whole file; [`UNKNOWN_BYTES`] until the last record.
    pub(crate) bytes: AtomicU64,
    pub(crate) attempt: u16,
    pub(crate) replace: Replace,
    /// The record as received, if an observer needs it.
    pub(crate) record: Option<Box<Record>>,
    pub(crate) file: Box<dyn WriteFile>,
    pub(crate) progress: Mutex<Progress>,
}

/// Memory of one range, in bytes: see `limits::FILE_RANGES_MAX`.
const RANGE_BYTES: usize = 128;

impl OpenFile {
    /// Takes its share of the memory for all open files: one range for each of its ranges, and for each 128 bytes of its names and
    /// attributes. False if too little is left.
    pub(crate) fn takes_share(&self, progress: &mut Progress) -> bool {
        let record = self.record.as_deref();
        let bytes = self.path.as_bytes().len()
            + record.map_or(0, |record| record.path.len() + record.extensions.len())
            + size_of_val(&*self.elsewhere)
            + progress.meta.extended.weight();
        let ranges = progress.written.range_count();
        progress.share.set(ranges + bytes / RANGE_BYTES)
    }

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
            // All parts of an assembled file are already there.
            None => !self.shared,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The journal's record for the whole file; `None` for a part.
    pub(crate) fn done_record(&self) -> Option<DoneRecord> {
        // Counted without holes, like received bytes: their difference is the loss of a crash.
        let bytes = lock(&self.progress).written.covered();
        self.part.is_none().then_some(DoneRecord {
            key: self.key,
            generation: self.generation,
            bytes,
        })
    }

    /// The record with the digest of the whole file.
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

/// The range of an entry in its file, if it is not the whole file.
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
    /// Content counted as durable, in bytes.
    pub(crate) counted: u64,
    /// Digest of the whole file, and the number of bytes that its slices cover.
    pub(crate) end: Option<(digest::Digest, u64)>,
    /// The final metadata, from the last record.
    pub(crate) meta: FinalMeta,
    pub(crate) over: bool,
}

impl Progress {
    /// Whether the file is incomplete but accepts no more data.
    pub(crate) fn is_stale(&self) -> bool {
        let whole = self
            .end
            .as_ref()
            .is_some_and(|(_, covered)| self.written.covered() >= *covered);
        self.over && !whole
    }

    /// Stops the reception of the file. Unless it is complete, its records are dropped at once, because its slices may wait in a
    /// batch for long. Returns the counted bytes that will not be delivered.
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
