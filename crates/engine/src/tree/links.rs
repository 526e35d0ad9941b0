//! Further names of files: noted when they are announced, made in the end, when the files that they name are there.
//! Writes no contents and makes nothing else.

use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Record, RecordFlags, Seq, Side, Verdict};
use godwit_store::{Kind, Meta, RelPath, Replace, StoreError, StoreErrorKind, TempName};

use super::compare::{has_time, is_same_file, mtime_of};
use super::later::{LaterLink, decode_link, encode_link};
use super::plan::{type_conflict, unreadable};
use super::sink::{TreeSink, destination_fault};
use super::spelling::{LastDirectory, taken};
use super::undelivered::Undelivered;
use crate::{entry, lock};

impl TreeSink {
    /// Notes a further name of a file, which is made once that is there.
    pub(super) fn plan_link(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let there = self.there(record.id, path, last, || self.config.storage.stat(path))?;
        if self.stays_out(record.kind, there.as_ref())
            || there
                .as_ref()
                .is_some_and(|there| self.spares_newer(record, there))
        {
            return Ok(Verdict::Skip);
        }
        let first = self.mapped(record.root, &record.target)?;
        if self.leaves_first(record, &first).map_err(fault)? {
            return by_itself(record);
        }
        let verdict = match &there {
            Some(there) if !self.config.force && self.is_linked(record, there, &first) => {
                Verdict::Skip
            }
            _ => Verdict::Done,
        };
        let replace = match &there {
            None => Replace::Never,
            Some(there) if there.kind == Kind::Directory && self.defers(record, path) => {
                self.expect_way(record, path).map_err(fault)?;
                // By then it has made way.
                Replace::Never
            }
            Some(there) if there.kind == Kind::Directory => return Err(fault(type_conflict(path))),
            Some(_) => Replace::Atomically,
        };
        if self.comparison().dry_run {
            self.counters
                .files_done
                .add(u64::from(verdict == Verdict::Done));
            return Ok(verdict);
        }
        lock(&self.links)
            .push(&encode_link(record, replace))
            .map_err(|error| {
                destination_fault(
                    record.id,
                    FaultCode::IO,
                    format!("what is to be done later cannot be noted: {error}"),
                )
            })?;
        Ok(verdict)
    }

    /// Whether the file that this is a further name of is left as it is, or out, so that there is nothing to link to.
    fn leaves_first(&self, record: &Record, first: &RelPath) -> Result<bool, StoreError> {
        let comparison = self.comparison();
        if !comparison.existing && !comparison.ignore_existing && !comparison.update {
            return Ok(false);
        }
        if self.undelivered.find(record.root, &record.target) == Ok(Some(Undelivered::Left)) {
            return Ok(true);
        }
        // Its manifest may come after this one, or have come so long ago that the file is there.
        Ok(match self.look(first)? {
            None => comparison.existing,
            Some(there) if comparison.ignore_existing => {
                there.kind != Kind::File || !has_time(&there, mtime_of(record))
            }
            Some(there) => self.spares_newer(record, &there),
        })
    }

    /// Notes that a file is not there as the source has it.
    pub(super) fn note_undelivered(&self, record: &Record, why: Undelivered) {
        // What the source cannot read may be of any kind, and has it from the name that failed.
        if record.kind == EntryKind::FILE || record.flags & RecordFlags::SOURCE_FAILED != 0 {
            self.undelivered.note(record.root, &record.path, why);
        }
    }

    /// Hard links, once the files that they name are there. Returns what prevents all of them.
    pub(super) fn make_links(&self) -> Option<String> {
        let mut last = <[LastDirectory; 2]>::default();
        let result = lock(&self.links).forward(|item| {
            let Some(link) = decode_link(item) else {
                return;
            };
            match self.make_link(&link, &mut last) {
                Ok(made) => self.counters.files_done.add(u64::from(made)),
                Err(mut fault) => {
                    fault.entry = link.id;
                    let shown = crate::Sink::display_path(self, link.root, link.path);
                    self.acks.fault(Seq(0), fault, link.root, link.path, &shown);
                }
            }
        });
        result.err().map(unreadable)
    }

    /// What stands at `path` now that all files are there, which has to be the announced entry.
    fn look_again(
        &self,
        id: EntryId,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Option<Meta>, Fault> {
        let there = self
            .look(path)
            .map_err(|error| entry::fault(id, Side::DESTINATION, &error))?;
        if there.is_some() || !self.is_fresh(path) {
            self.hold_to_spelling(id, path, there.is_some(), last)?;
        }
        Ok(there)
    }

    /// Whether there was anything to do. `last` is for what is known of the directories of both names.
    fn make_link(
        &self,
        link: &LaterLink<'_>,
        last: &mut [LastDirectory; 2],
    ) -> Result<bool, Fault> {
        let fault = |error: StoreError| entry::fault(link.id, Side::DESTINATION, &error);
        let name = self.mapped(link.root, link.path)?;
        let first = self.mapped(link.root, link.first)?;
        let undelivered = |code, why: &str| {
            let message = format!("{name}: its first name {first} {why}");
            destination_fault(link.id, code, message)
        };
        match self.undelivered.find(link.root, link.first) {
            Ok(None) => {}
            Ok(Some(Undelivered::Failed)) => {
                let why =
                    "was not delivered, so there is nothing to link to; copy again once that works";
                return Err(undelivered(FaultCode::NOT_FOUND, why));
            }
            // Seen too late, because its manifest was: the next time it is known from the beginning.
            Ok(Some(Undelivered::Left)) => {
                let why = "stays as it is, which is not as the source has it; copy again, and this name gets its own file";
                return Err(undelivered(FaultCode::NOT_FOUND, why));
            }
            Err(error) => {
                let why = format!(
                    "may not have been delivered: what was not cannot be remembered: {error}"
                );
                return Err(undelivered(FaultCode::IO, &why));
            }
        }
        let [last_of_name, last_of_first] = last;
        let Some(file) = self
            .look_again(link.id, &first, last_of_first)?
            .filter(|there| there.kind == Kind::File)
        else {
            let why = "is not there any more, so there is nothing to link to; copy again";
            return Err(undelivered(FaultCode::NOT_FOUND, why));
        };
        let there = self.look_again(link.id, &name, last_of_name)?;
        if there.is_some_and(|there| is_same_file(&there, &file)) {
            return Ok(false);
        }
        let temp = TempName::new(self.config.tag, &name);
        let storage = &self.config.storage;
        let made = self.within_its_directory(&name, &|| {
            storage.make_link(&name, &first, &temp, link.replace)
        });
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind == StoreErrorKind::Exists => Err(taken(link.id, &name)),
            Err(error) => Err(fault(error)),
        }
    }
}

/// Has the sender announce a further name as a file of its own.
fn by_itself(record: &Record) -> Result<Verdict, Fault> {
    if record.digest.is_none() {
        return Ok(Verdict::Digest);
    }
    // It has been asked before.
    let message = "what has its first name stays as it is, and the sender cannot send this name by itself; a newer godwit there can";
    let code = FaultCode::UNSUPPORTED;
    Err(destination_fault(record.id, code, message.to_owned()))
}
