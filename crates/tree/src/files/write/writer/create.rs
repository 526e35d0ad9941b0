//! Creates or opens the temporary file of a large file, which may be shared with other members of a claim. Writes no contents to it.

use std::sync::Mutex;

use godwit_engine::{entry, lock};
use godwit_proto::{
    EntryId, Fault, FaultCode, HeldRange, Portion, Record, RecordFlags, Side, UNKNOWN_BYTES,
};
use godwit_store::digest::FileDigest;
use godwit_store::{Create, FinalMeta, RelPath, Replace, StoreError, TempName, WriteFile};

use super::{Writer, too_scattered};
use crate::files::member::{copies, key_of};
use crate::files::plan::afresh::copy_contents;
use crate::files::target::destination_fault;
use crate::files::write::open::{OpenFile, Progress, part_of};

impl Writer {
    /// Creates the temporary file of an entry, or opens the existing one. `None` if the transfer ended during the call: another attempt
    /// may have continued without this one, so the new file is removed.
    pub(super) fn create(&self, record: &Record) -> Result<Option<OpenFile>, Fault> {
        let path = self.target.mapped(record.root, &record.path)?;
        self.directories.hold_before_making(record.id, &path)?;
        let portion = portion_of(record)?;
        let (part, shared) = (part_of(&portion), portion != Portion::Whole);
        let copied = matches!(portion, Portion::Assemble(_)) && copies(&self.target);
        let temp = match shared && !copied {
            true => self.target.shared_temp(record),
            false => self.target.temp(&path),
        };
        let key = key_of(record, part);
        let known = self.held.take(&key);
        // If data of failed files was kept, the journal may contain this file although its failure is no longer remembered here.
        let is_in_journal = known.is_some() || record.attempt > 0 || self.held.has_kept();
        let held = known
            .filter(|partial| {
                partial.generation == record.generation.0
                    && partial.digest.covered() > 0
                    && record.attempt == 0
            })
            .map(|partial| partial.digest);
        let held = match &portion {
            Portion::Assemble(ranges) => Some(self.elsewhere(ranges)),
            Portion::Whole | Portion::Part(_) => held,
        };
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        if i64::try_from(record.bytes).is_err() && (shared || record.bytes != UNKNOWN_BYTES) {
            let message = "no storage holds a file of that size".to_owned();
            return Err(destination_fault(record.id, FaultCode::LIMIT, message));
        }
        self.target.hold_fence(record.id)?;
        let storage = &self.target.config.storage;
        let how = match held {
            _ if copied => Create::Fresh,
            _ if shared => Create::Shared,
            Some(_) => Create::Resume,
            None => Create::Fresh,
        };
        let bytes = (record.bytes != UNKNOWN_BYTES).then_some(record.bytes);
        let made = self
            .directories
            .within_its_directory(&path, &|| storage.create(&path, &temp, how, bytes));
        let file = made.map_err(fault)?;
        if how == Create::Fresh && self.target.acks.over.is_set() {
            drop(file);
            let _ = storage.discard(&path, &temp);
            return Ok(None);
        }
        let copied = copied.then(|| self.target.shared_temp(record));
        if let Some(from) = &copied {
            self.copy(record, &path, from, &*file)?;
        }
        if held.is_none() {
            // Only for a file that may be in the journal: an append waits for a sync of the journal, and all streams wait while a file is
            // opened.
            if is_in_journal {
                self.committer.restart(key);
            }
            if record.flags & RecordFlags::DENSE != 0 && record.bytes != UNKNOWN_BYTES {
                let room = part.map_or(0..record.bytes, |part| part.offset..part.end());
                file.preallocate(room).map_err(fault)?;
            }
        }
        let digest = held.unwrap_or_else(|| FileDigest::new(self.target.config.digest));
        let file = OpenFile {
            id: record.id,
            root: record.root,
            path,
            temp,
            shared,
            copied,
            part,
            elsewhere: match portion {
                Portion::Assemble(ranges) => ranges,
                Portion::Whole | Portion::Part(_) => Vec::new(),
            },
            key,
            generation: record.generation.0,
            bytes: record.bytes.into(),
            attempt: record.attempt,
            replace: self.replace_of(record.id),
            record: self.to_report(record),
            file,
            progress: Mutex::new(Progress {
                written: digest.clone(),
                durable: digest,
                share: self.ranges.share(),
                counted: 0,
                end: None,
                meta: FinalMeta::default(),
                over: false,
            }),
        };
        let has_room = file.takes_share(&mut lock(&file.progress));
        has_room
            .then_some(Some(file))
            .ok_or_else(|| too_scattered(record.id))
    }

    /// Copies the data that members have written of a file, without its holes.
    fn copy(
        &self,
        record: &Record,
        path: &RelPath,
        from: &TempName,
        to: &dyn WriteFile,
    ) -> Result<(), Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let storage = &self.target.config.storage;
        let from = storage.open_temp(path, from).map_err(fault)?;
        // The cache may be stale, because another node may have written a part of the file.
        from.drop_cache();
        copy_contents(&self.target, path, &*from, to).map_err(fault)
    }

    /// The ranges of a file that other transfers have written.
    fn elsewhere(&self, ranges: &[HeldRange]) -> FileDigest {
        let mut digest = FileDigest::new(self.target.config.digest);
        for range in ranges {
            // A range that does not fit leaves a gap, which the digest of the whole file reveals.
            let _ = digest.add(
                range.offset,
                range.bytes,
                entry::digest_to_store(&range.digest),
            );
        }
        digest
    }

    /// How to treat an existing entry with the name. Another member of the same claim may have delivered the same entry meanwhile. Where
    /// nothing is replaced, that fails, and the closer judges the existing entry.
    pub(super) fn replace_of(&self, id: EntryId) -> Replace {
        let is_member = self.target.config.member.is_some();
        let meets_others = is_member && !self.target.comparison().no_replace;
        match meets_others || self.replace.contains(id) {
            true => Replace::Atomically,
            false => Replace::Never,
        }
    }
}

fn portion_of(record: &Record) -> Result<Portion, Fault> {
    record.portion().map_err(|error| {
        let message = format!("the sender describes a part of a file wrongly: {error}");
        destination_fault(record.id, FaultCode::UNSUPPORTED, message)
    })
}
