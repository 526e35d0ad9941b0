//! Makes what needs no contents when it is announced: symbolic links and special files.
//! Makes no directories and no hard links (`plan`).

use godwit_proto::{EntryKind, Fault, FaultCode, Record, Side, Verdict};
use godwit_store::{Kind, Meta, RelPath, Replace, StoreError, StoreErrorKind, TempName};

use super::later::encode_directory;
use super::plan::{spill_error, type_conflict};
use super::sink::{TreeSink, destination_fault};
use super::spelling::{LastDirectory, taken};
use crate::entry;

impl TreeSink {
    pub(super) fn plan_special(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        if !self.config.keeper.preserve().specials {
            let message = "the sender sends a special file that was not asked for".to_owned();
            let code = FaultCode::NOT_REGULAR;
            return Err(destination_fault(record.id, code, message));
        }
        self.plan_at_once(record, path, last)
    }

    fn special(&self, record: &Record) -> Result<(Kind, u64), Fault> {
        let kind = match record.kind {
            EntryKind::FIFO => Kind::Fifo,
            EntryKind::SOCKET => Kind::Socket,
            EntryKind::CHAR_DEVICE => Kind::CharDevice,
            _ => Kind::BlockDevice,
        };
        let rdev = match kind {
            Kind::CharDevice | Kind::BlockDevice => self.config.keeper.device(record)?,
            _ => 0,
        };
        Ok((kind, rdev))
    }

    /// Makes what needs no contents, unless it is there.
    pub(super) fn plan_at_once(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let there = self.there(record.id, path, last, || self.config.storage.stat(path))?;
        if self.stays_out(record.kind, there.as_ref()) {
            return Ok(Verdict::Skip);
        }
        if let Some(there) = &there {
            self.spare_special(record, there)?;
        }
        let dry = self.comparison().dry_run;
        let replace = match &there {
            None => Replace::Never,
            Some(there) if there.kind == Kind::Directory && self.defers(record, path) => {
                self.expect_way(record, path).map_err(fault)?;
                if dry {
                    self.counters.files_done.add(1);
                } else {
                    encode_directory(record)
                        .and_then(|item| self.deferred.push_record(&item))
                        .map_err(|error| fault(spill_error(path, &error)))?;
                }
                return Ok(Verdict::Done);
            }
            Some(there) if there.kind == Kind::Directory => {
                return Err(fault(type_conflict(path)));
            }
            Some(there) if !self.config.force && self.is_made(record, path, there)? => {
                let meta = self.config.keeper.final_meta(record)?;
                return self.adjust(path, there, &meta).map_err(fault);
            }
            Some(_) => Replace::Atomically,
        };
        if !dry {
            self.make_at_once(record, path, replace)?;
        }
        self.counters.files_done.add(1);
        Ok(Verdict::Done)
    }

    /// Makes a symbolic link or a special file.
    pub(super) fn make_at_once(
        &self,
        record: &Record,
        path: &RelPath,
        replace: Replace,
    ) -> Result<(), Fault> {
        let temp = TempName::new(self.config.tag, path);
        let meta = self.config.keeper.final_meta(record)?;
        let storage = &self.config.storage;
        let made = if record.kind == EntryKind::SYMLINK {
            self.within_its_directory(path, &|| {
                storage.make_symlink(path, &record.target, &meta, &temp, replace)
            })
        } else {
            let (kind, rdev) = self.special(record)?;
            self.within_its_directory(path, &|| {
                storage.make_special(path, kind, rdev, &meta, &temp, replace)
            })
        };
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        match made {
            Err(error) if error.kind == StoreErrorKind::Exists && replace == Replace::Never => {
                self.made_before(record, path)
            }
            Err(error) => Err(fault(error)),
            Ok(lost) => {
                self.counters.count_lost(lost);
                Ok(())
            }
        }
    }

    /// Something has the name of what was to be made, although nothing was there before: fine if it was made of the same record.
    fn made_before(&self, record: &Record, path: &RelPath) -> Result<(), Fault> {
        let stat = self.config.storage.stat(path);
        let there = stat.map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))?;
        self.hold_to_spelling(record.id, path, true, &mut LastDirectory::default())?;
        match there {
            Some(there) if self.is_made(record, path, &there)? => Ok(()),
            _ => Err(taken(record.id, path)),
        }
    }

    /// Whether what is there is the announced symbolic link or special file, but for its metadata.
    fn is_made(&self, record: &Record, path: &RelPath, there: &Meta) -> Result<bool, Fault> {
        if record.kind == EntryKind::SYMLINK {
            if there.kind != Kind::Symlink {
                return Ok(false);
            }
            let target = self.config.storage.read_link(path);
            return target
                .map(|target| target == record.target)
                .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error));
        }
        let (kind, rdev) = self.special(record)?;
        Ok(there.kind == kind && there.rdev == rdev)
    }
}
