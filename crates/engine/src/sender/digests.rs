//! Takes the digests that the receiver asks for, and announces the entries again with them; names of files, as files of their own.
//! Does not compare: the receiver does, with its own files.

use godwit_proto::{Digest, EntryKind, Record, RecordFlags};
use godwit_store::pool::Block;

use super::Sender;
use super::read::with_room;
use super::state::{Piece, State};
use crate::source::ReadError;
use crate::{entry, limits};

impl State {
    /// Before contents: what comes of it is not known yet, and the receiver has its part to read.
    pub(super) fn next_digests(&mut self, block_bytes: u32) -> Option<Piece> {
        let most = limits::bundle_file_bytes_max(block_bytes);
        let first = self.to_digest.front()?;
        if first.kind == EntryKind::HARD_LINK {
            let are_links = |record: &&Record| record.kind == EntryKind::HARD_LINK;
            // There may be hundreds of thousands behind them, and the state is locked.
            let some = self.to_digest.iter().take(limits::DIGESTS_AT_ONCE);
            let links = some.take_while(are_links).count();
            return Some(Piece::Digests(self.to_digest.drain(..links).collect()));
        }
        if first.bytes > most || first.flags & RecordFlags::SPARSE != 0 {
            if self.open_files() >= limits::LARGE_FILES_ACTIVE_MAX {
                return None;
            }
            let record = self.to_digest.pop_front()?;
            self.begin_opening();
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
            records.extend(self.to_digest.pop_front());
        }
        Some(Piece::Digests(records))
    }

    /// The receiver wants to know the digest of the file.
    pub(crate) fn want_digest(&mut self, record: Record) {
        self.to_digest.push_back(record);
    }
}

impl Sender {
    /// Reads small files one after the other into `block`, and announces those that were what they had been.
    pub(super) fn read_digests(&self, records: Vec<Record>, mut block: Block) {
        let mut announced = Vec::with_capacity(records.len());
        for record in records {
            if record.kind == EntryKind::HARD_LINK {
                announced.extend(self.by_itself(&record));
                continue;
            }
            let bytes = usize::try_from(record.bytes).unwrap_or(usize::MAX);
            let read = match with_room(&mut block, bytes) {
                Some(buffer) => self
                    .shared
                    .counters
                    .storage_reading_ns
                    .time(|| self.shared.source.read_whole(&record, buffer)),
                None => Err(ReadError::Changed),
            };
            match read {
                Ok(length) if length == bytes => {
                    self.shared.counters.bytes_read.add(record.bytes);
                    let digest = self.digest_slice(0, record.bytes, &block[..bytes]);
                    announced.push(with_digest(record, entry::digest_to_wire(&digest)));
                }
                Ok(_) | Err(ReadError::Changed) => self.announce_again(&record),
                Err(ReadError::Failed(fault)) => {
                    self.shared.give_up(record.bytes);
                    self.shared.fail_entry(&record, fault);
                }
            }
        }
        if !announced.is_empty() {
            self.shared.queue_manifest(announced);
        }
    }

    /// A further name of a file as a file: what has its first name at the destination stays, and is another.
    fn by_itself(&self, link: &Record) -> Option<Record> {
        match self.shared.source.refresh(link) {
            Ok(mut record) => {
                record.kind = EntryKind::FILE;
                record.target.clear();
                self.shared.counters.bytes_scanned.add(record.bytes);
                Some(record)
            }
            Err(fault) => {
                self.shared.fail_entry(link, fault);
                None
            }
        }
    }

    /// The digest of a large file is known.
    pub(super) fn announce_digest(&self, record: &Record, digest: Option<Digest>) {
        if let Some(digest) = digest {
            self.shared
                .queue_manifest(vec![with_digest(record.clone(), digest)]);
        }
    }
}

fn with_digest(mut record: Record, digest: Digest) -> Record {
    record.digest = Some(digest);
    record.flags |= RecordFlags::HAS_DIGEST;
    record
}

#[cfg(test)]
mod tests {
    use godwit_proto::{EntryKind, Record, RecordFlags};
    use proptest::prelude::*;

    use super::super::state::{Piece, State};
    use crate::limits;

    proptest! {
        /// A receiver may ask for the digest of anything.
        #[test]
        fn whatever_is_asked_for_is_taken_once_and_in_order(
            asked in proptest::collection::vec((0..8_u8, 0..100_000_u64, any::<bool>()), 0..600),
        ) {
            let mut state = State::default();
            for (number, (kind, bytes, sparse)) in (1..).zip(&asked) {
                let mut record = Record {
                    kind: EntryKind(*kind),
                    bytes: *bytes,
                    data_bytes: number,
                    ..Record::default()
                };
                record.flags |= if *sparse { RecordFlags::SPARSE } else { 0 };
                state.want_digest(record);
            }
            let mut taken = Vec::new();
            while let Some(piece) = state.next_digests(64 << 10) {
                match piece {
                    Piece::Digests(records) => {
                        prop_assert!((1..=limits::DIGESTS_AT_ONCE).contains(&records.len()));
                        taken.extend(records);
                    }
                    Piece::OpenDigest(record) => {
                        state.end_opening();
                        taken.push(record);
                    }
                    _ => prop_assert!(false, "another piece"),
                }
            }
            let numbers: Vec<u64> = taken.iter().map(|record| record.data_bytes).collect();
            prop_assert_eq!(numbers, (1..=asked.len() as u64).collect::<Vec<_>>());
        }
    }
}
