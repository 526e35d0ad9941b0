//! Further names of files: noted when they are announced, made in the end, when the files that they name are there.
//! Writes no contents and makes nothing else.

use godwit_proto::{Fault, FaultCode, Record, Seq, Side, Verdict};
use godwit_store::{RelPath, StoreError, StoreErrorKind, TempName};

use super::later::{decode_link, encode_link};
use super::plan::unreadable;
use super::sink::{TreeSink, destination_fault};
use crate::{entry, lock};

impl TreeSink {
    /// Notes a further name of a file, which is made once that is there.
    pub(super) fn plan_link(&self, record: &Record, path: &RelPath) -> Result<Verdict, Fault> {
        let mut verdict = Verdict::Done;
        if self.config.comparison.is_some() {
            let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
            let there = self.look(path).map_err(fault)?;
            if self.stays_out(record.kind, there.as_ref())
                || there.is_some_and(|there| self.spares_newer(record, &there))
            {
                return Ok(Verdict::Skip);
            }
            let first = self.mapped(record.root, &record.target)?;
            if self.is_linked(record, path, &first) {
                verdict = Verdict::Skip;
            }
            if self.comparison().dry_run {
                self.counters
                    .files_done
                    .add(u64::from(verdict == Verdict::Done));
                return Ok(verdict);
            }
        }
        lock(&self.links)
            .push(&encode_link(record))
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
            let Some((id, root, path, first)) = decode_link(item) else {
                return;
            };
            let made = self.mapped(root, path).and_then(|name| {
                let first = self.mapped(root, first)?;
                let temp = TempName::new(self.config.tag, &name);
                let storage = &self.config.storage;
                let there = self.same_file(&name, &first);
                if there && self.config.comparison.is_some() {
                    return Ok(false);
                }
                let made =
                    self.within_its_directory(&name, &|| storage.make_link(&name, &first, &temp));
                match made {
                    // The file was not made, as was asked, so there is nothing to link to.
                    Err(error)
                        if error.kind == StoreErrorKind::NotFound && self.comparison().existing =>
                    {
                        Ok(false)
                    }
                    Err(error) => Err(entry::fault(id, Side::DESTINATION, &error)),
                    Ok(()) => Ok(true),
                }
            });
            match made {
                Ok(made) => self.counters.files_done.add(u64::from(made)),
                Err(mut fault) => {
                    fault.entry = id;
                    let shown = crate::Sink::display_path(self, root, path);
                    self.acks.fault(Seq(0), fault, root, path, &shown);
                }
            }
        });
        result.err().map(unreadable)
    }
}
