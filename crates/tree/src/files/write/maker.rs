//! Makes entries without contents: symbolic links and special files.
//! Makes no directories (`directories`) and no hard links (`links`).

use std::sync::Arc;

use godwit_engine::entry;
use godwit_proto::{EntryKind, Fault, Record, Side};
use godwit_store::{Kind, Meta, RelPath, Replace, StoreError, StoreErrorKind};

use crate::files::plan::directories::Directories;
use crate::files::plan::spelling::{LastDirectory, taken};
use crate::files::target::Target;

/// Makes symbolic links and special files, and recognises those that it made.
pub(crate) struct Maker {
    target: Arc<Target>,
    directories: Arc<Directories>,
}

impl Maker {
    pub(crate) fn new(target: &Arc<Target>, directories: &Arc<Directories>) -> Self {
        Self {
            target: Arc::clone(target),
            directories: Arc::clone(directories),
        }
    }

    fn special(&self, record: &Record) -> Result<(Kind, u64), Fault> {
        let kind = match record.kind {
            EntryKind::FIFO => Kind::Fifo,
            EntryKind::SOCKET => Kind::Socket,
            EntryKind::CHAR_DEVICE => Kind::CharDevice,
            _ => Kind::BlockDevice,
        };
        let rdev = match kind {
            Kind::CharDevice | Kind::BlockDevice => self.target.config.keeper.device(record)?,
            _ => 0,
        };
        Ok((kind, rdev))
    }

    /// Makes a symbolic link or a special file.
    pub(crate) fn make(
        &self,
        record: &Record,
        path: &RelPath,
        replace: Replace,
    ) -> Result<(), Fault> {
        let temp = self.target.temp(path);
        let meta = self.target.config.keeper.final_meta(record)?;
        let storage = &self.target.config.storage;
        let made = if record.kind == EntryKind::SYMLINK {
            self.directories.within_its_directory(path, &|| {
                storage.make_symlink(path, &record.target, &meta, &temp, replace)
            })
        } else {
            let (kind, rdev) = self.special(record)?;
            self.directories.within_its_directory(path, &|| {
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
                self.target.counters.count_lost(lost);
                Ok(())
            }
        }
    }

    /// Called if the name of a new entry is taken although no entry was there before: succeeds if the existing entry was
    /// made from the same record.
    fn made_before(&self, record: &Record, path: &RelPath) -> Result<(), Fault> {
        let stat = self.target.config.storage.stat(path);
        let there = stat.map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))?;
        self.directories
            .hold_to_spelling(record.id, path, true, &mut LastDirectory::default())?;
        match there {
            Some(there) if self.is_made(record, path, &there)? => Ok(()),
            _ => Err(taken(record.id, path)),
        }
    }

    /// Whether the existing entry is the announced symbolic link or special file, except for its metadata.
    pub(crate) fn is_made(
        &self,
        record: &Record,
        path: &RelPath,
        there: &Meta,
    ) -> Result<bool, Fault> {
        if record.kind == EntryKind::SYMLINK {
            if there.kind != Kind::Symlink {
                return Ok(false);
            }
            let target = self.target.config.storage.read_link(path);
            return target
                .map(|target| target == record.target)
                .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error));
        }
        let (kind, rdev) = self.special(record)?;
        Ok(there.kind == kind && there.rdev == rdev)
    }
}
