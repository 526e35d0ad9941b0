//! Plans entries without contents: makes symbolic links and special files as soon as they are announced. Leaves the
//! calls to `maker`, and additional names to `links`.

use godwit_engine::{entry, lock};
use godwit_proto::{Fault, FaultCode, Record, Side, Verdict};
use godwit_store::{Kind, Meta, RelPath, Replace, StoreError};

use super::Planner;
use crate::files::finish::spill_list::{encode_directory, encode_first};
use crate::files::plan::compare::is_same_file;
use crate::files::plan::spelling::LastDirectory;
use crate::files::target::{destination_fault, spares_newer, spill_error, stays, type_conflict};

impl Planner {
    pub(super) fn plan_special(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        if !self.target.config.keeper.preserve().specials {
            let message = "the sender sends a special file that was not asked for".to_owned();
            let code = FaultCode::NOT_REGULAR;
            return Err(destination_fault(record.id, code, message));
        }
        self.plan_at_once(record, path, last)
    }

    /// Makes an entry without contents, unless it exists.
    pub(super) fn plan_at_once(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let there = self.directories.there(record.id, path, last, || {
            self.target.config.storage.stat(path)
        })?;
        if self
            .agenda
            .keeps(record, there.as_ref(), self.target.comparison())
        {
            return Ok(Verdict::Skip);
        }
        if let Some(there) = &there {
            self.target.spare_special(record, there)?;
        }
        let dry = self.target.comparison().dry_run;
        let replace = match &there {
            None => Replace::Never,
            Some(there) if there.kind == Kind::Directory && self.target.defers(record, path) => {
                self.agenda.expect_way(record, path).map_err(fault)?;
                if dry {
                    self.target.counters.files_done.add(1);
                } else {
                    encode_directory(record)
                        .and_then(|item| self.agenda.deferred.push_record(&item))
                        .map_err(|error| fault(spill_error(path, &error)))?;
                }
                return Ok(Verdict::Done);
            }
            Some(there) if there.kind == Kind::Directory => {
                return Err(fault(type_conflict(path)));
            }
            Some(there)
                if !self.target.config.force
                    && self.maker.is_made(record, path, there)?
                    && self.is_its_own(record, there) =>
            {
                let meta = self.target.config.keeper.final_meta(record)?;
                if self.is_to_be_linked(record, there) {
                    self.link_later(record).map_err(fault)?;
                } else if self.comparer.is_to_be_made_again(path, there, &meta) {
                    self.maker.make(record, path, Replace::Atomically)?;
                    return Ok(self.comparer.adjusted());
                } else {
                    let since = self.target.config.since;
                    self.target.delivered.found(since, there);
                    return self.comparer.adjust(path, there, &meta).map_err(fault);
                }
                self.target.counters.files_done.add(1);
                return Ok(Verdict::Done);
            }
            Some(_) if self.target.comparison().no_replace => return Err(stays(record.id, path)),
            Some(there) if spares_newer(self.target.comparison(), record, there) => {
                return Ok(Verdict::Skip);
            }
            Some(_) => Replace::Atomically,
        };
        if !dry {
            self.maker.make(record, path, replace)?;
        }
        self.link_later(record).map_err(fault)?;
        self.target.counters.files_done.add(1);
        Ok(Verdict::Done)
    }

    /// Whether the existing file belongs to this entry alone, or to names that are linked at the source too.
    fn is_its_own(&self, record: &Record, there: &Meta) -> bool {
        record.first_name().is_some() || !self.comparer.sharers.is_anothers(record, there)
    }

    /// Whether the entry is an additional name at the source, but not here.
    fn is_to_be_linked(&self, record: &Record, there: &Meta) -> bool {
        record.first_name().is_some_and(|first| {
            let first = self.target.mapped(record.root, first);
            let first = first.ok().and_then(|first| self.target.look(&first).ok());
            !first
                .flatten()
                .is_some_and(|first| is_same_file(&first, there))
        })
    }

    /// Records that the entry will become a link to the entry with its first name, which exists or is planned.
    fn link_later(&self, record: &Record) -> Result<(), StoreError> {
        match record.first_name() {
            Some(first) if !self.target.comparison().dry_run => {
                let pushed = lock(&self.agenda.links).push(&encode_first(record, first));
                pushed.map_err(|error| spill_error(&RelPath::root(), &error))
            }
            _ => Ok(()),
        }
    }
}
