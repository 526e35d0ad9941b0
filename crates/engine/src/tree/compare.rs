//! Judges what is there against what was announced: the same, the same but for its metadata, or to be replaced.
//! Makes nothing, but sets metadata of what is the same otherwise.

use std::sync::atomic::Ordering;

use godwit_proto::{EntryKind, Fault, FaultCode, Judge, Record, Verdict};
use godwit_store::journal::PathKey;
use godwit_store::{FinalMeta, Kind, Meta, RelPath, StoreError, StoreErrorKind, Timestamp};

use super::sink::{TreeSink, destination_fault};
use super::undelivered::Undelivered;
use super::verify;
use crate::{entry, lock};

/// What an entry that is there means for the announced one.
pub(super) enum Judgement {
    /// Nothing more has to be done.
    Settled(Verdict),
    /// Its contents are wanted.
    Wanted,
}

/// Whether what is there is of that time, as far as it can tell: some file systems and programs keep whole seconds only.
pub(super) fn has_time(there: &Meta, mtime: Timestamp) -> bool {
    there.mtime == mtime || there.mtime.nanoseconds == 0 && there.mtime.seconds == mtime.seconds
}

/// Whether two names are of one file.
pub(super) fn is_same_file(one: &Meta, other: &Meta) -> bool {
    (one.device, one.inode) == (other.device, other.inode)
}

pub(super) fn mtime_of(record: &Record) -> Timestamp {
    Timestamp {
        seconds: record.mtime_seconds,
        nanoseconds: record.mtime_nanoseconds,
    }
}

impl TreeSink {
    /// What stands at `path`.
    pub(super) fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.unless_in_the_way(self.config.storage.stat(path))
    }

    /// What a look has found. In a dry run, something that would have made way for a directory has nothing below it.
    pub(super) fn unless_in_the_way(
        &self,
        found: Result<Option<Meta>, StoreError>,
    ) -> Result<Option<Meta>, StoreError> {
        match found {
            Err(error)
                if self.comparison().delete
                    && matches!(
                        error.kind,
                        StoreErrorKind::TypeConflict | StoreErrorKind::Escape
                    ) =>
            {
                Ok(None)
            }
            found => found,
        }
    }

    /// Judges a regular file for a regular file.
    pub(super) fn judge_file(
        &self,
        record: &Record,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Result<Judgement, StoreError> {
        let comparison = self.comparison();
        if comparison.update && there.mtime > meta.mtime {
            self.note_undelivered(record, Undelivered::Left);
            return Ok(Judgement::Settled(Verdict::Skip));
        }
        let same = there.bytes == record.bytes
            && match comparison.judge() {
                Judge::SIZE => true,
                Judge::CHECKSUM if record.bytes == 0 => true,
                Judge::CHECKSUM => match record.digest {
                    None => return Ok(Judgement::Settled(Verdict::Digest)),
                    Some(wanted) => {
                        let found = verify::digest_of_file(
                            &*self.config.storage,
                            path,
                            record.bytes,
                            self.config.digest,
                            &|| self.acks.is_over(),
                        );
                        // One that cannot be read is replaced.
                        matches!(found, Ok(Some(found)) if entry::digest_to_wire(&found) == wanted)
                    }
                },
                _ => has_time(there, meta.mtime),
            };
        let key = || PathKey::new(record.root, &record.path);
        if same && (!self.config.force || self.done.contains(&key(), record.generation.0)) {
            return self.adjust(path, there, meta).map(Judgement::Settled);
        }
        Ok(Judgement::Wanted)
    }

    /// A file is left as it is, or out. Unless it is the same, nothing is made a further name of what stands there.
    pub(super) fn leave(&self, record: &Record, there: Option<&Meta>) {
        let is_same = |there: &Meta| {
            there.kind == Kind::File
                && there.bytes == record.bytes
                && match self.comparison().judge() {
                    Judge::SIZE => true,
                    Judge::CHECKSUM => record.bytes == 0,
                    _ => has_time(there, mtime_of(record)),
                }
        };
        if there.is_none_or(|there| !is_same(there)) {
            self.note_undelivered(record, Undelivered::Left);
        }
    }

    /// A file is to be left alone in which a further name of another one is to be.
    pub(super) fn spares_newer(&self, record: &Record, there: &Meta) -> bool {
        self.comparison().update && there.kind == Kind::File && there.mtime > mtime_of(record)
    }

    /// Whether a further name of a file is there as such, and the file seems to stay as it is.
    pub(super) fn is_linked(&self, record: &Record, there: &Meta, first: &RelPath) -> bool {
        there.kind == Kind::File
            && has_time(there, mtime_of(record))
            && matches!(self.look(first), Ok(Some(first)) if is_same_file(&first, there))
    }

    /// Sets the metadata of what is the same otherwise, where it differs.
    pub(super) fn adjust(
        &self,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Result<Verdict, StoreError> {
        let storage = &self.config.storage;
        if storage.agrees(path, there, meta) {
            return Ok(Verdict::Skip);
        }
        if !self.comparison().dry_run {
            self.counters.count_lost(storage.set_meta(path, meta)?);
            self.adjusted.store(true, Ordering::Relaxed);
        }
        self.counters.entries_adjusted.add(1);
        Ok(self.unless_plain(Verdict::Adjusted, Verdict::Skip))
    }

    /// A verdict for a sender that asked for a comparison, or else one that every sender knows.
    pub(super) fn unless_plain(&self, asked: Verdict, plain: Verdict) -> Verdict {
        if self.config.comparison.is_some() {
            asked
        } else {
            plain
        }
    }

    /// What was decided about a directory that is there.
    pub(super) fn judge_directory(
        &self,
        path: &RelPath,
        there: &Meta,
        meta: &FinalMeta,
    ) -> Verdict {
        if self.config.comparison.is_none() {
            return Verdict::Done;
        }
        if self.config.storage.agrees(path, there, meta) {
            return Verdict::Skip;
        }
        self.counters.entries_adjusted.add(1);
        Verdict::Adjusted
    }

    /// The entry stays out because of what it was asked to do with entries that are there, or are not.
    pub(super) fn stays_out(&self, kind: EntryKind, there: Option<&Meta>) -> bool {
        let comparison = self.comparison();
        match there {
            None => comparison.existing,
            Some(there) => {
                let both_directories =
                    kind == EntryKind::DIRECTORY && there.kind == Kind::Directory;
                comparison.ignore_existing && !both_directories
            }
        }
    }

    /// Attributes of files that were set outside of batches survive a power cut. Returns what prevents that.
    pub(super) fn sync_adjusted(&self) -> Option<String> {
        if self.config.no_sync || !self.adjusted.load(Ordering::Relaxed) {
            return None;
        }
        let synced = self.config.storage.sync_attributes();
        synced
            .err()
            .map(|error| format!("the destination cannot be made durable: {error}"))
    }

    /// What a directory in the place of something else means, and the reverse: in the end it goes, or it is in the way.
    pub(super) fn defers(&self, record: &Record, path: &RelPath) -> bool {
        self.comparison().delete && (!record.path.is_empty() || self.root_makes_way(path))
    }

    /// Whether what was named as the destination may become another kind of entry. The storage's own root cannot, and a name with a
    /// slash behind it says what it is.
    pub(super) fn root_makes_way(&self, path: &RelPath) -> bool {
        self.comparison().counterpart && !path.is_root() && !self.config.must_be_directory
    }

    /// Refuses to replace a device, FIFO or socket that has the name of the whole destination: who names one wants to write into
    /// it. Inside a data set it is a copy of something, and gives way.
    pub(super) fn spare_special(&self, record: &Record, there: &Meta) -> Result<(), Fault> {
        let (kind, advice) = match there.kind {
            Kind::CharDevice | Kind::BlockDevice => {
                ("device", "to keep nothing, the destination is null:")
            }
            Kind::Fifo => ("FIFO", "to write into it, use: godwit cp SOURCE - > FIFO"),
            Kind::Socket => ("socket", "remove it first"),
            Kind::File | Kind::Directory | Kind::Symlink => return Ok(()),
        };
        let is_copy = self.config.keeper.preserve().specials && record.kind.is_special();
        if !record.path.is_empty() || is_copy {
            return Ok(());
        }
        let message = format!("the destination is a {kind}, which is not replaced; {advice}");
        let code = FaultCode::NOT_REGULAR;
        Err(destination_fault(record.id, code, message))
    }

    /// The directory that a file or link goes to seems to be there still.
    pub(super) fn is_fresh(&self, path: &RelPath) -> bool {
        path.split().is_some_and(|(parent, _)| self.made(parent))
    }

    /// Whether this transfer made the directory at this path, as far as that is remembered.
    pub(super) fn made(&self, directory: &[u8]) -> bool {
        self.made_any.load(Ordering::Acquire) && lock(&self.fresh).contains(directory)
    }
}
