//! Reads small files into one block, and queues the bundle.
//! Does not choose the files; the state does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_proto::{BlockHeader, BlockKind, EntryKind, ErrorCode, Record, RecordFlags, Seq, block};
use godwit_store::pool::Block;

use super::piece::PieceReader;
use super::slice::once_or_own;
use crate::entry;
use crate::sender::state::{Desc, Head, Image};
use crate::source::{DigestTerms, Payload, ReadError};

impl PieceReader {
    pub(super) fn read_bundle(&self, mut records: Vec<Record>, seq: Option<u64>, mut block: Block) {
        let mut filled = 0_usize;
        // The clock is read after each step, but sums are added only once, because thousands of small files pass in a
        // moment.
        let (mut reading, mut digesting) = (Duration::ZERO, Duration::ZERO);
        let mut at = Instant::now();
        let lap = |at: &mut Instant| {
            let now = Instant::now();
            now.saturating_duration_since(std::mem::replace(at, now))
        };
        records.retain_mut(|record| {
            if record.kind != EntryKind::FILE
                || record.flags & (RecordFlags::SOURCE_FAILED | RecordFlags::END) != 0
            {
                return true;
            }
            self.shared.counters.current.note(record);
            let bytes = usize::try_from(record.bytes).unwrap_or(usize::MAX);
            let source = &self.shared.source;
            let read = match with_room(&mut block[filled..], bytes) {
                Some(buffer) if seq.is_some() => source
                    .read_whole_again(record, buffer)
                    .map(|length| (length, None)),
                Some(buffer) => source.read_whole_shared(record, buffer),
                None => Err(ReadError::Changed),
            };
            reading += lap(&mut at);
            match read {
                Ok((length, once)) if length == bytes => {
                    let content = &block[filled..filled + bytes];
                    let terms = DigestTerms {
                        kind: self.shared.digest,
                        offset: 0,
                        entry_bytes: record.bytes,
                    };
                    let digest = once_or_own(once.as_ref(), terms, content);
                    digesting += lap(&mut at);
                    record.digest = Some(entry::digest_to_wire(&digest));
                    filled += bytes;
                    return true;
                }
                Ok(_) | Err(ReadError::Changed) => self.offer_again(std::mem::take(record)),
                Err(ReadError::Failed(fault)) => {
                    self.shared.give_up(record.bytes);
                    self.shared.fail_entry(record, fault);
                }
            }
            false
        });
        self.shared.counters.storage_reading_ns.add_time(reading);
        self.shared.counters.digesting_ns.add_time(digesting);
        self.shared.counters.bytes_read.add(filled as u64);
        if records.is_empty() {
            self.forget(seq);
            return;
        }
        let payload = if filled == 0 {
            Payload::Empty
        } else {
            Payload::Pooled(block, filled)
        };
        self.file_bundle(records, seq, payload, filled as u64);
    }

    pub(super) fn file_bundle(
        &self,
        records: Vec<Record>,
        seq: Option<u64>,
        payload: Payload,
        content: u64,
    ) {
        let again = seq.is_some();
        let seq = seq.unwrap_or_else(|| self.shared.lock_state().items.reserve_seq());
        let header = BlockHeader {
            transfer: self.shared.config.transfer,
            seq: Seq(seq),
            kind: BlockKind::BUNDLE,
            digest_kind: self.shared.config.digest,
            ..BlockHeader::default()
        };
        let mut head = Vec::with_capacity(256 + records.len() * 128);
        if let Err(error) =
            block::encode(header, &[], &records, payload.as_slice().len(), &mut head)
        {
            self.shared.fail(
                ErrorCode::INTERNAL,
                &format!("a bundle cannot be encoded: {error}"),
            );
            return;
        }
        let desc = Desc::Bundle(Arc::new(records));
        self.shared.queue(
            seq,
            desc,
            content,
            Image {
                head: Head::Image(head),
                payload,
            },
            again,
        );
    }

    /// Replaces a useless requested item by an empty one with the same number, so that the receiver's set of numbers
    /// has no gap.
    pub(super) fn forget(&self, seq: Option<u64>) {
        if seq.is_some() {
            self.file_bundle(Vec::new(), seq, Payload::Empty, 0);
        }
    }
}

/// The front of `block` for a file of this size, plus one byte if it fits; a shorter read then
/// shows the end of the file. `None` if the file does not fit.
pub(super) fn with_room(block: &mut [u8], bytes: usize) -> Option<&mut [u8]> {
    let room = bytes.saturating_add(1).min(block.len());
    block.get_mut(..room.max(bytes))
}
