//! Decides about parts of files, and about files that are assembled from parts. Writes nothing. Checks parts against their file, and
//! an assembly against the ranges that it names.

use godwit_engine::entry;
use godwit_proto::{Fault, FaultCode, HeldRange, Judge, Part, Portion, Record, Side, Verdict};
use godwit_store::{Kind, Meta, RelPath, StoreError, StoreErrorKind, above_to_sync};

use super::Planner;
use crate::files::member::{key_of, rereads_assembled};
use crate::files::plan::compare::{has_time, mtime_of};
use crate::files::plan::spelling::LastDirectory;
use crate::files::target::{destination_fault, spares_newer, stays, stays_out, type_conflict};

impl Planner {
    /// The verdict on an entry that is not a whole file; `None` for a whole file.
    pub(super) fn plan_portion(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Option<Result<Verdict, Fault>> {
        match record.portion() {
            Ok(Portion::Whole) => None,
            Ok(Portion::Part(part)) => Some(self.plan_part(record, path, part, last)),
            Ok(Portion::Assemble(ranges)) => Some(self.plan_assemble(record, path, ranges, last)),
            Err(error) => Some(Err(destination_fault(
                record.id,
                FaultCode::UNSUPPORTED,
                format!("the sender describes a part of a file wrongly: {error}"),
            ))),
        }
    }

    fn plan_part(
        &self,
        record: &Record,
        path: &RelPath,
        part: Part,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        let member = self.target.membership(record)?;
        if !part.fits(record.bytes, member.part_bytes_min) {
            let message = format!(
                "the part of {} bytes at {} does not fit a file of {} bytes: parts are aligned powers of two of at least {} bytes; divide the file again",
                part.bytes, part.offset, record.bytes, member.part_bytes_min
            );
            return Err(destination_fault(record.id, FaultCode::LIMIT, message));
        }
        let there = self.look_for_portion(record, path, last)?;
        // The closer judges the whole file, and refuses it if the existing one differs.
        if there.is_some() && self.target.comparison().no_replace {
            return Ok(Verdict::Skip);
        }
        if self.leaves_whole(record, there.as_ref())
            || there.is_some_and(|there| self.is_same(record, &there))
        {
            return Ok(Verdict::Skip);
        }
        if self.held.is_empty() {
            return Ok(Verdict::Send);
        }
        let key = key_of(record, Some(part));
        let temp = self.target.shared_temp(record);
        let held = self.held_in(record, path, key, &temp, part.offset..part.end());
        Ok(held.unwrap_or(Verdict::Send))
    }

    fn plan_assemble(
        &self,
        record: &Record,
        path: &RelPath,
        ranges: Vec<HeldRange>,
        last: &mut LastDirectory,
    ) -> Result<Verdict, Fault> {
        self.target.membership(record)?;
        if let Some((from, to)) = missing(&ranges, record.bytes) {
            let message = format!(
                "no node holds the part from {from} to {to} of {} bytes; send the part, then assemble the file again",
                record.bytes
            );
            return Err(destination_fault(record.id, FaultCode::NOT_FOUND, message));
        }
        let there = self.look_for_portion(record, path, last)?;
        // Checked first: a part that was sent again afterwards has created another temporary file that contains nothing else.
        if there.is_some_and(|there| is_assembled(record, &there))
            && !rereads_assembled(&self.target)
        {
            self.sync_name(path)
                .map_err(|error| entry::fault(record.id, Side::DESTINATION, &error))?;
            return Ok(Verdict::Skip);
        }
        if self.leaves_whole(record, there.as_ref()) {
            return Ok(Verdict::Skip);
        }
        // An existing file is the matter of the closer, as with parts.
        if self.target.comparison().no_replace && there.is_some() {
            return Err(stays(record.id, path));
        }
        let temp = self.target.shared_temp(record);
        let opened = self.target.config.storage.open_temp(path, &temp);
        match opened.and_then(|file| file.meta()) {
            Ok(meta) if meta.bytes == record.bytes => {}
            Err(error) if error.kind != StoreErrorKind::NotFound => {
                return Err(entry::fault(record.id, Side::DESTINATION, &error));
            }
            _ => {
                let message =
                    "the temporary file with its parts no longer exists; send the parts again"
                        .to_owned();
                return Err(destination_fault(record.id, FaultCode::NOT_FOUND, message));
            }
        }
        if there.is_some() {
            self.replace.expect(record.id)?;
        }
        Ok(Verdict::Partial { held: ranges })
    }

    /// Whether the whole file already exists, by size or time. The closer of the tree decides the same, and sets its attributes.
    fn is_same(&self, record: &Record, there: &Meta) -> bool {
        let is_same = match self.target.comparison().judge() {
            Judge::SIZE => there.kind == Kind::File && there.bytes == record.bytes,
            Judge::SIZE_AND_TIME => is_assembled(record, there),
            _ => false,
        };
        is_same && !self.target.config.force
    }

    /// Whether an option (`--existing`, `--ignore-existing`, `--update`) leaves the existing file of a portion unchanged. The closer
    /// of the tree decides the same about the whole file.
    fn leaves_whole(&self, record: &Record, there: Option<&Meta>) -> bool {
        let is_newer = |there| spares_newer(self.target.comparison(), record, there);
        stays_out(self.target.comparison(), record.kind, there) || there.is_some_and(is_newer)
    }

    /// Syncs the name of a finished file, because the transfer that named it may have failed to do so. A file reported as done must be
    /// durable.
    fn sync_name(&self, path: &RelPath) -> Result<(), StoreError> {
        if self.target.config.no_sync {
            return Ok(());
        }
        let directories = above_to_sync(path);
        self.target.config.storage.sync_directories(&directories)
    }

    /// The existing entry with the name of the file; an error if it is a directory.
    fn look_for_portion(
        &self,
        record: &Record,
        path: &RelPath,
        last: &mut LastDirectory,
    ) -> Result<Option<Meta>, Fault> {
        let fault = |error: StoreError| entry::fault(record.id, Side::DESTINATION, &error);
        let there = self.directories.there(record.id, path, last, || {
            self.target.config.storage.stat(path)
        })?;
        match there {
            Some(there) if there.kind == Kind::Directory => Err(fault(type_conflict(path))),
            there => Ok(there),
        }
    }
}

/// Whether the file seems to be assembled already.
fn is_assembled(record: &Record, there: &Meta) -> bool {
    there.kind == Kind::File && there.bytes == record.bytes && has_time(there, mtime_of(record))
}

/// The first range of the file that is missing in `ranges`, which ascend and do not overlap; or the first range beyond its end.
fn missing(ranges: &[HeldRange], file_bytes: u64) -> Option<(u64, u64)> {
    let mut at = 0;
    for range in ranges {
        if range.offset > at {
            return Some((at, range.offset.min(file_bytes)));
        }
        at = range.offset + range.bytes;
    }
    (at != file_bytes).then(|| (at.min(file_bytes), at.max(file_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_range_is_the_first_gap() {
        let gap = |ranges: &[(u64, u64)], bytes| {
            let ranges: Vec<HeldRange> = ranges
                .iter()
                .map(|(offset, bytes)| HeldRange {
                    offset: *offset,
                    bytes: *bytes,
                    ..HeldRange::default()
                })
                .collect();
            missing(&ranges, bytes)
        };
        assert_eq!(gap(&[(0, 5), (5, 5)], 10), None);
        assert_eq!(gap(&[(0, 5)], 10), Some((5, 10)));
        assert_eq!(gap(&[(5, 5)], 10), Some((0, 5)));
        assert_eq!(gap(&[(0, 3), (5, 5)], 10), Some((3, 5)));
        assert_eq!(gap(&[(0, 12)], 10), Some((10, 12)));
    }
}
