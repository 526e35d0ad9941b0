//! Chooses which digests that the receiver asked for are taken next.
//! Takes none; `readers` does.

use godwit_proto::{EntryKind, Record, RecordFlags};

use super::{Piece, State};
use crate::limits;

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

#[cfg(test)]
mod tests {
    use godwit_proto::{EntryKind, Record, RecordFlags};
    use proptest::prelude::*;

    use super::super::{Piece, State};
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
