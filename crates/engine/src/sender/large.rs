//! A large file in flight: cut into slices that any thread may read; its digest is combined from the slices' digests.
//! Does not read; the sender does, and reports each result here.
//!
//! Slices are aligned powers of two, cut around holes and around ranges that the receiver holds. Holes are looked up
//! (`SEEK_DATA`, `SEEK_HOLE`) in files above `limits::UNSOUNDED_BYTES_MAX`, and in smaller files that occupy less
//! space than their size. Other small files are not examined, because file systems in memory walk their pages for each
//! lookup. A smaller file sends allocated but unwritten space as zeros.

mod cuts;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use godwit_proto::{HeldRange, Part, Range, Record, RecordFlags, UNKNOWN_BYTES};
use godwit_store::digest::{self, FileDigest};

pub(crate) use self::cuts::SliceCut;
use self::cuts::{merged, window};
use super::shuffle::Shuffle;
use crate::source::{ReadError, SourceFile};
use crate::{entry, limits};

pub(crate) struct LargeFile {
    pub(crate) record: Record,
    /// Extensions that only the file's last record carries. The other records contain only the extension of the part
    /// that is sent; otherwise each slice would repeat all of them.
    extensions: Vec<u8>,
    /// Memory of its attributes and of a long name, in bytes.
    pub(crate) extra_bytes: usize,
    pub(crate) file: Arc<dyn SourceFile>,
    pub(crate) dense: bool,
    /// The receiver wants only the digest of the file.
    pub(crate) digest_only: bool,
    block_bytes: u64,
    /// Number of slices that are cut in advance, for a random choice.
    window: usize,
    /// The part that is sent, if not the whole file.
    part: Option<Part>,
    /// The file was given up, or restarted under another generation: its remaining work is useless.
    dead: AtomicBool,
    /// The reader that has begun the file, if each reader has its own file; 0 for none.
    reader: AtomicU64,
    /// Skipped bytes (held by the receiver, or holes) that are not yet counted.
    passed: AtomicU64,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Lowest possible start of the next slice.
    next: u64,
    /// Everything before this offset was cut or skipped.
    settled: u64,
    /// The data range at or after `next` from the last lookup.
    data: Option<std::ops::Range<u64>>,
    /// Ranges from `next` on that the receiver holds, in ascending order; they do not touch each other.
    held: VecDeque<(u64, u64)>,
    /// Slices that are cut and not yet taken.
    prepared: Vec<SliceCut>,
    exhausted: bool,
    /// Why the rest of the file could not be looked up.
    fault: Option<ReadError>,
    reading: u32,
    /// Slices taken and not yet durable.
    undurable: u64,
    digest: FileDigest,
    /// Size of the whole file, if it was unknown at the beginning.
    bytes: Option<u64>,
    /// Digest and covered bytes, once the whole file was read.
    end: Option<(digest::Digest, u64)>,
}

impl LargeFile {
    pub(crate) fn new(
        mut record: Record,
        file: Arc<dyn SourceFile>,
        held: &[HeldRange],
        kind: digest::DigestKind,
        block_bytes: u32,
        window: usize,
    ) -> Result<Self, ReadError> {
        let part = entry::part(&record);
        let (start, end) = part.map_or((0, record.bytes), |part| (part.offset, part.end()));
        let first = match may_have_holes(&record) {
            true => file.next_data(start)?,
            false => Some(0..record.bytes),
        };
        let dense = first
            .as_ref()
            .is_some_and(|data| data.start <= start && data.end >= end)
            && record.bytes != UNKNOWN_BYTES;
        let mut digest = FileDigest::new(kind);
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(held.len());
        for range in held {
            digest.add(
                range.offset,
                range.bytes,
                entry::digest_to_store(&range.digest),
            );
            ranges.push((range.offset, range.offset.saturating_add(range.bytes)));
        }
        let progress = Progress {
            next: start,
            settled: start,
            data: first,
            held: merged(ranges),
            prepared: Vec::new(),
            exhausted: false,
            fault: None,
            reading: 0,
            undurable: 0,
            digest,
            bytes: None,
            end: None,
        };
        let extra_bytes = entry::extra_bytes(&record);
        let extensions = std::mem::take(&mut record.extensions);
        if let Some(part) = part {
            // An announced part can always be encoded.
            let _ = part.push(&mut record.extensions);
        }
        let file = Self {
            part,
            extra_bytes,
            record,
            extensions,
            file,
            dense,
            digest_only: false,
            block_bytes: u64::from(block_bytes),
            window,
            dead: AtomicBool::new(false),
            reader: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            progress: Mutex::new(progress),
        };
        file.prepare(&mut crate::lock(&file.progress))?;
        Ok(file)
    }

    /// The next slice to read; `None` when there is none left.
    pub(crate) fn take_cut(&self, shuffle: &mut Shuffle) -> Option<SliceCut> {
        if self.is_dead() {
            return None;
        }
        let mut progress = crate::lock(&self.progress);
        let next = shuffle.pick(progress.prepared.len());
        if next >= progress.prepared.len() {
            return None;
        }
        let cut = progress.prepared.swap_remove(next);
        progress.reading += 1;
        progress.undurable += 1;
        // A failed lookup fails the slice being taken: otherwise the rest would look like a hole.
        if let Err(error) = self.prepare(&mut progress) {
            progress.fault = Some(error);
        }
        Some(cut)
    }

    /// Why the rest of the file could not be looked up; returned once.
    pub(crate) fn take_fault(&self) -> Option<ReadError> {
        crate::lock(&self.progress).fault.take()
    }

    /// Whether no slice is left to be cut.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_dead() || crate::lock(&self.progress).prepared.is_empty()
    }

    /// Records that a slice was read. Returns whether it was the last slice, which must carry the end record. While a
    /// large hole is hashed, `stop` is called now and then.
    pub(crate) fn slice_read(
        &self,
        cut: &SliceCut,
        digest: digest::Digest,
        first_time: bool,
        stop: &dyn Fn() -> bool,
    ) -> Option<Record> {
        let mut progress = crate::lock(&self.progress);
        if first_time {
            progress.reading -= 1;
            progress
                .digest
                .add(cut.offset, u64::from(cut.length), digest);
            if progress.is_read() {
                progress = self.finish(progress, stop)?;
            }
        }
        progress
            .end
            .as_ref()
            .map(|end| self.end_record(end, progress.bytes))
    }

    /// Records that a slice is durable. Returns the end record once, when the whole file is durable.
    pub(crate) fn slice_durable(&self) -> Option<Record> {
        let mut progress = crate::lock(&self.progress);
        progress.undurable = progress.undurable.saturating_sub(1);
        let whole = progress.undurable == 0 && progress.reading == 0 && !self.is_dead();
        progress
            .end
            .as_ref()
            .filter(|_| whole)
            .map(|end| self.end_record(end, progress.bytes))
    }

    /// The end record of a file that needs no slices.
    pub(crate) fn end_without_slices(&self, stop: &dyn Fn() -> bool) -> Option<Record> {
        let mut progress = crate::lock(&self.progress);
        if progress.is_read() {
            progress = self.finish(progress, stop)?;
            return progress
                .end
                .as_ref()
                .map(|end| self.end_record(end, progress.bytes));
        }
        None
    }

    /// Runs without the lock: a thread that searches for work under the sender's lock must not wait while a large hole
    /// is hashed.
    fn finish<'a>(
        &'a self,
        progress: MutexGuard<'a, Progress>,
        stop: &dyn Fn() -> bool,
    ) -> Option<MutexGuard<'a, Progress>> {
        if progress.end.is_some() {
            return Some(progress);
        }
        let digest = progress.digest.clone();
        let bytes = progress.bytes.unwrap_or(self.record.bytes);
        drop(progress);
        let whole = match self.part {
            None => digest.finish_unless(bytes, stop)?,
            Some(part) => digest.part_unless(part.offset, part.bytes, bytes, stop)?,
        };
        let mut progress = crate::lock(&self.progress);
        progress.end = Some((whole, digest.covered()));
        // Nothing is added from now on, and the receiver may have claimed thousands of ranges.
        progress.digest = FileDigest::new(digest.kind());
        Some(progress)
    }

    /// End of the range that is sent.
    fn end(&self) -> u64 {
        self.part.map_or(self.record.bytes, |part| part.end())
    }

    /// Whether the size is known only at the end.
    pub(crate) fn is_endless(&self) -> bool {
        self.record.bytes == UNKNOWN_BYTES
    }

    /// Sets the end of the file. Only the thread that reads the file calls this, before it reports the last slice.
    pub(crate) fn end_at(&self, bytes: u64) {
        let mut progress = crate::lock(&self.progress);
        progress.bytes = Some(bytes);
        progress.prepared.clear();
        progress.exhausted = true;
    }

    /// Ends a file that turned out to be empty: its single slice does not exist.
    pub(crate) fn end_empty(&self, stop: &dyn Fn() -> bool) -> Option<Record> {
        let mut progress = crate::lock(&self.progress);
        progress.reading = progress.reading.saturating_sub(1);
        progress.undurable = progress.undurable.saturating_sub(1);
        drop(progress);
        self.end_without_slices(stop)
    }

    pub(crate) fn reader(&self) -> Option<u64> {
        Some(self.reader.load(Ordering::Relaxed)).filter(|reader| *reader > 0)
    }

    pub(crate) fn set_reader(&self, reader: Option<u64>) {
        self.reader.store(reader.unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn kill(&self) -> bool {
        !self.dead.swap(true, Ordering::Relaxed)
    }

    /// Bytes skipped since the last call: the receiver holds them, or they are holes.
    pub(crate) fn take_passed(&self) -> u64 {
        if self.passed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.passed.swap(0, Ordering::Relaxed)
    }

    /// Bytes that are neither in a taken slice nor counted yet. Called once, for a file that is given up.
    pub(crate) fn take_rest(&self) -> u64 {
        if self.is_endless() {
            return 0;
        }
        let mut progress = crate::lock(&self.progress);
        let prepared = std::mem::take(&mut progress.prepared);
        let left = self.end().saturating_sub(progress.settled);
        progress.settled = self.end();
        let prepared: u64 = prepared.iter().map(SliceCut::content).sum();
        left + prepared + self.take_passed()
    }

    /// Records that everything before `next` is in slices or skipped; the last slice holds `content` bytes.
    fn settle(&self, progress: &mut Progress, next: u64, content: u64) {
        if !self.is_endless() {
            let passed = next
                .saturating_sub(progress.settled)
                .saturating_sub(content);
            self.passed.fetch_add(passed, Ordering::Relaxed);
            progress.settled = progress.settled.max(next);
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// The record in the form that slices carry.
    pub(crate) fn slice_record(&self) -> Record {
        let mut record = self.record.clone();
        if self.dense {
            record.flags |= RecordFlags::DENSE;
        }
        record
    }

    fn end_record(&self, (digest, covered): &(digest::Digest, u64), bytes: Option<u64>) -> Record {
        let mut record = self.slice_record();
        record.bytes = bytes.unwrap_or(record.bytes);
        record.flags |= RecordFlags::END | RecordFlags::HAS_DIGEST;
        record.digest = Some(entry::digest_to_wire(digest));
        record.data_bytes = *covered;
        record.extensions.clone_from(&self.extensions);
        record
    }

    /// Cuts slices until there are enough to choose from.
    fn prepare(&self, progress: &mut Progress) -> Result<(), ReadError> {
        while progress.prepared.len() < self.window && !progress.exhausted {
            self.cut_one(progress)?;
        }
        Ok(())
    }

    /// Finds the next window that has data and is not held by the receiver.
    fn cut_one(&self, progress: &mut Progress) -> Result<(), ReadError> {
        let bytes = self.end();
        loop {
            let offset = progress.next;
            if offset >= bytes {
                break;
            }
            if let Some((start, end)) = progress.held.front().copied()
                && start <= offset
            {
                progress.held.pop_front();
                progress.next = offset.max(end);
                continue;
            }
            if progress.data.as_ref().is_none_or(|data| data.end <= offset) {
                progress.data = self.file.next_data(offset)?;
            }
            let Some(data) = progress.data.clone() else {
                break;
            };
            if data.start >= bytes {
                break;
            }
            let aligned = data.start - data.start % self.block_bytes;
            if aligned > offset {
                progress.next = aligned;
                continue;
            }
            let held_from = progress.held.front().map(|(start, _)| *start);
            let length = window(offset, bytes, self.block_bytes, held_from);
            let ranges = self.data_within(progress, offset, offset + length)?;
            progress.next = offset + length;
            if let Some(ranges) = ranges {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                let cut = SliceCut {
                    offset,
                    length,
                    ranges,
                };
                self.settle(progress, progress.next, cut.content());
                progress.prepared.push(cut);
                return Ok(());
            }
        }
        progress.exhausted = true;
        self.settle(progress, bytes, 0);
        Ok(())
    }

    /// Data ranges in `start..end`: `None` for none, an empty list if the whole range is data.
    fn data_within(
        &self,
        progress: &mut Progress,
        start: u64,
        end: u64,
    ) -> Result<Option<Vec<Range>>, ReadError> {
        let mut ranges = Vec::new();
        let mut at = start;
        while at < end {
            if progress.data.as_ref().is_none_or(|data| data.end <= at) {
                progress.data = self.file.next_data(at)?;
            }
            let Some(data) = progress.data.clone() else {
                break;
            };
            let from = data.start.max(at);
            let to = data.end.min(end);
            if from >= end {
                break;
            }
            ranges.push(Range {
                offset: from,
                bytes: to - from,
            });
            at = to;
        }
        match ranges.as_slice() {
            [] => Ok(None),
            [all] if all.offset == start && all.bytes == end - start => Ok(Some(Vec::new())),
            _ => Ok(Some(ranges)),
        }
    }
}

impl Progress {
    /// Whether the whole file was read, but its digest is not known yet.
    fn is_read(&self) -> bool {
        self.exhausted && self.prepared.is_empty() && self.reading == 0 && self.end.is_none()
    }
}

/// Whether to look up holes. Lookups take time for each file, so for files up to a few blocks the reported number of
/// disk blocks decides instead.
pub(super) fn may_have_holes(record: &Record) -> bool {
    record.flags & RecordFlags::SPARSE != 0
        || !(1..=limits::UNSOUNDED_BYTES_MAX).contains(&record.bytes)
}

#[cfg(test)]
mod tests;
