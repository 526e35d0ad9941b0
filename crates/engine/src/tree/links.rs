//! Further names of files: noted when they are announced, made in the end, when the files that they name are there.
//! Writes no contents and makes nothing else.

use godwit_proto::{Fault, FaultCode, Record, Seq, Side, Verdict};
use godwit_store::{Kind, RelPath, Replace, StoreError, StoreErrorKind, TempName};

use super::commit::naming::name_taken;
use super::later::{LaterLink, decode_link, encode_link};
use super::plan::{type_conflict, unreadable};
use super::sink::{TreeSink, destination_fault};
use crate::{entry, lock};

impl TreeSink {
    /// Notes a further name of a file, which is made once that is there.
    pub(super) fn plan_link(&self, record: &Record, path: &RelPath) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let there = if self.is_fresh(path) {
            None
        } else {
            self.look(path).map_err(fault)?
        };
        if self.stays_out(record.kind, there.as_ref())
            || there
                .as_ref()
                .is_some_and(|there| self.spares_newer(record, there))
        {
            return Ok(Verdict::Skip);
        }
        let first = self.mapped(record.root, &record.target)?;
        let verdict = match &there {
            Some(there) if !self.config.force && self.is_linked(record, there, &first) => {
                Verdict::Skip
            }
            _ => Verdict::Done,
        };
        if self.comparison().dry_run {
            self.counters
                .files_done
                .add(u64::from(verdict == Verdict::Done));
            return Ok(verdict);
        }
        let replace = match &there {
            None => Replace::Never,
            // By then it has made way.
            Some(there) if there.kind == Kind::Directory && self.defers(record, path) => {
                Replace::Never
            }
            Some(there) if there.kind == Kind::Directory => return Err(fault(type_conflict(path))),
            Some(_) => Replace::Atomically,
        };
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

    /// Hard links, once the files that they name are there. Returns what prevents all of them.
    pub(super) fn make_links(&self) -> Option<String> {
        let result = lock(&self.links).forward(|item| {
            let Some(link) = decode_link(item) else {
                return;
            };
            match self.make_link(&link) {
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

    /// Whether there was anything to do.
    fn make_link(&self, link: &LaterLink<'_>) -> Result<bool, Fault> {
        let name = self.mapped(link.root, link.path)?;
        let first = self.mapped(link.root, link.first)?;
        if self.same_file(&name, &first) {
            return Ok(false);
        }
        let temp = TempName::new(self.config.tag, &name);
        let storage = &self.config.storage;
        let made = self.within_its_directory(&name, &|| {
            storage.make_link(&name, &first, &temp, link.replace)
        });
        match made {
            Ok(()) => Ok(true),
            // The file was not made, as was asked, so there is nothing to link to.
            Err(error) if error.kind == StoreErrorKind::NotFound && self.comparison().existing => {
                Ok(false)
            }
            Err(error) if error.kind == StoreErrorKind::Exists => Err(destination_fault(
                link.id,
                FaultCode::COLLISION,
                name_taken(&name),
            )),
            Err(error) => Err(entry::fault(link.id, Side::DESTINATION, &error)),
        }
    }
}
