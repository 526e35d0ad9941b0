//! Entries that the receiver has requested and that are not being read yet: small files, large files, and files
//! to hash. Reads nothing; `readers` does.

use std::collections::VecDeque;

use godwit_proto::{EntryKind, HeldRange, Record, RecordFlags};

use super::Piece;
use super::files::OpenFiles;
use crate::sender::shuffle::Shuffle;
use crate::{entry, limits};

#[derive(Default)]
pub(crate) struct Wanted {
    small: VecDeque<Record>,
    small_bytes: u64,
    pub(super) large: VecDeque<(Record, Vec<HeldRange>)>,
    /// Number of their ranges.
    held_ranges: usize,
    /// Files whose digests the receiver wants.
    to_digest: VecDeque<Record>,
    /// Extensions and long names in the records of these entries, in bytes.
    pub(super) extension_bytes: usize,
}

impl Wanted {
    /// Adds an entry without the ranges that the receiver holds. If it holds more ranges than receivers do, the entry is sent whole.
    pub(crate) fn want(&mut self, mut record: Record, mut held: Vec<HeldRange>, block_bytes: u32) {
        if self.held_ranges + held.len() > limits::FILE_RANGES_MAX {
            held = Vec::new();
        }
        self.held_ranges += held.len();
        // The announced digest is of an earlier state of the file; the sent record contains a new one.
        record.digest = None;
        record.flags &= !RecordFlags::HAS_DIGEST;
        // Files with holes do not go into a bundle.
        self.extension_bytes += entry::extra_bytes(&record);
        let small = record.bytes <= limits::bundle_file_bytes_max(block_bytes);
        // A part is sent as a slice, even of a small file.
        let small = small && entry::part(&record).is_none();
        if small && held.is_empty() && record.flags & RecordFlags::SPARSE == 0 {
            self.small_bytes += record.bytes;
            // An entry that was just examined again is read first, before it can change again.
            match record.attempt {
                0 => self.small.push_back(record),
                _ => self.small.push_front(record),
            }
        } else {
            match record.attempt {
                0 => self.large.push_back((record, held)),
                _ => self.large.push_front((record, held)),
            }
        }
    }

    /// Adds a file whose digest the receiver requests.
    pub(crate) fn want_digest(&mut self, record: Record) {
        self.extension_bytes += entry::extra_bytes(&record);
        self.to_digest.push_back(record);
    }

    pub(crate) fn count(&self) -> usize {
        self.small.len() + self.large.len() + self.to_digest.len()
    }

    pub(super) fn has_small(&self) -> bool {
        !self.small.is_empty()
    }

    /// Whether the small files fill a bundle.
    pub(super) fn fills_bundle(&self, block_bytes: u32) -> bool {
        self.small_bytes >= u64::from(block_bytes) || self.small.len() >= limits::BUNDLE_RECORDS_MAX
    }

    /// Moves as many small files to `records` as fit into one bundle.
    pub(super) fn fill_bundle(
        &mut self,
        records: &mut Vec<Record>,
        block_bytes: u32,
        shuffle: &mut Shuffle,
    ) {
        let mut bytes = 0;
        let mut section = 0;
        loop {
            let is_retried = self.small.front().is_some_and(|record| record.attempt > 0);
            let next = match is_retried {
                true => 0,
                false => shuffle.pick(self.small.len().min(limits::ORDER_WINDOW_FILES)),
            };
            let Some(record) = self.small.get(next) else {
                break;
            };
            let record_bytes = entry::encoded_bytes(record);
            if records.len() >= limits::BUNDLE_RECORDS_MAX
                || bytes + record.bytes > u64::from(block_bytes)
                || (section + record_bytes > limits::RECORD_SECTION_BYTES && !records.is_empty())
            {
                break;
            }
            bytes += record.bytes;
            section += record_bytes;
            self.small_bytes -= record.bytes;
            self.extension_bytes -= entry::extra_bytes(record);
            // The first file moves to the position of the chosen one.
            records.extend(self.small.swap_remove_front(next));
        }
    }

    /// The next large file, with the ranges that the receiver holds.
    pub(super) fn take_large(&mut self) -> Option<(Record, Vec<HeldRange>)> {
        let (record, held) = self.large.pop_front()?;
        self.extension_bytes -= entry::extra_bytes(&record);
        self.held_ranges -= held.len();
        Some((record, held))
    }

    /// Digests are computed before contents are read: their result is unknown, and the receiver must read its
    /// own files.
    pub(super) fn next_digests(
        &mut self,
        files: &mut OpenFiles,
        block_bytes: u32,
    ) -> Option<Piece> {
        let most = limits::bundle_file_bytes_max(block_bytes);
        let first = self.to_digest.front()?;
        if first.kind == EntryKind::HARD_LINK {
            let are_links = |record: &&Record| record.kind == EntryKind::HARD_LINK;
            // Only some are examined: hundreds of thousands may be queued, and the state is locked.
            let some = self.to_digest.iter().take(limits::DIGESTS_AT_ONCE);
            let links = some.take_while(are_links).count();
            let links = (0..links).map_while(|_| self.pop_to_digest());
            return Some(Piece::Digests(links.collect()));
        }
        if first.bytes > most || first.flags & RecordFlags::SPARSE != 0 {
            if files.is_full() {
                return None;
            }
            let record = self.pop_to_digest()?;
            files.begin_opening();
            return Some(Piece::OpenDigest(record));
        }
        let mut records = Vec::new();
        let mut bytes = 0;
        while let Some(record) = self.to_digest.front()
            && records.len() < limits::DIGESTS_AT_ONCE
            && record.kind != EntryKind::HARD_LINK
            && record.flags & RecordFlags::SPARSE == 0
            && bytes + record.bytes <= u64::from(block_bytes)
        {
            bytes += record.bytes;
            records.extend(self.pop_to_digest());
        }
        Some(Piece::Digests(records))
    }

    fn pop_to_digest(&mut self) -> Option<Record> {
        let record = self.to_digest.pop_front()?;
        self.extension_bytes -= entry::extra_bytes(&record);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use godwit_proto::{EntryKind, HeldRange, Record, RecordFlags};
    use proptest::prelude::*;

    use super::super::Piece;
    use super::super::files::OpenFiles;
    use super::Wanted;
    use crate::limits;

    /// A receiver may claim to hold ranges of every file that it has requested.
    #[test]
    fn the_ranges_that_a_receiver_holds_are_bounded() {
        let mut wanted = Wanted::default();
        let held = || vec![HeldRange::default(); limits::HELD_RANGES_MAX];
        let files = 2 * limits::FILE_RANGES_MAX / limits::HELD_RANGES_MAX;
        for _ in 0..files {
            wanted.want(Record::default(), held(), limits::BLOCK_BYTES);
        }
        assert_eq!(wanted.count(), files);
        let queued = wanted.large.iter().map(|(_, held)| held.len());
        assert_eq!(queued.sum::<usize>(), limits::FILE_RANGES_MAX);
        while wanted.take_large().is_some() {}
        wanted.want(Record::default(), held(), limits::BLOCK_BYTES);
        let first = wanted.take_large().map(|(_, held)| held.len());
        assert_eq!(first, Some(limits::HELD_RANGES_MAX));
    }

    proptest! {
        /// Any file's digest may be requested.
        #[test]
        fn whatever_is_asked_for_is_taken_once_and_in_order(
            asked in proptest::collection::vec((0..8_u8, 0..100_000_u64, any::<bool>()), 0..600),
        ) {
            let (mut wanted, mut files) = (Wanted::default(), OpenFiles::default());
            for (number, (kind, bytes, sparse)) in (1..).zip(&asked) {
                let mut record = Record {
                    kind: EntryKind(*kind),
                    bytes: *bytes,
                    data_bytes: number,
                    path: vec![b'x'; 1_000],
                    ..Record::default()
                };
                record.flags |= if *sparse { RecordFlags::SPARSE } else { 0 };
                wanted.want_digest(record);
            }
            let mut taken = Vec::new();
            while let Some(piece) = wanted.next_digests(&mut files, 64 << 10) {
                match piece {
                    Piece::Digests(records) => {
                        prop_assert!((1..=limits::DIGESTS_AT_ONCE).contains(&records.len()));
                        taken.extend(records);
                    }
                    Piece::OpenDigest(record) => {
                        files.end_opening();
                        taken.push(record);
                    }
                    _ => prop_assert!(false, "another piece"),
                }
            }
            prop_assert_eq!(wanted.extension_bytes, 0);
            let numbers: Vec<u64> = taken.iter().map(|record| record.data_bytes).collect();
            prop_assert_eq!(numbers, (1..=asked.len() as u64).collect::<Vec<_>>());
        }
    }
}
