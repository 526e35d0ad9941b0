//! Reads a slice of a large file into a block, and queues it.
//! Does not cut the file; `large` does.

use std::sync::Arc;

use godwit_proto::{BlockHeader, BlockKind, Digest, ErrorCode, Record, Seq, block};
use godwit_store::digest;
use godwit_store::pool::Block;

use super::piece::PieceReader;
use crate::entry;
use crate::sender::large::{LargeFile, SliceCut};
use crate::sender::state::{Desc, Head, Image};
use crate::source::{DigestTerms, OnceDigest, Payload, ReadError};

impl PieceReader {
    pub(super) fn read_slice(
        &self,
        file: &Arc<LargeFile>,
        cut: &SliceCut,
        seq: Option<u64>,
        mut block: Block,
        stop: &dyn Fn() -> bool,
    ) {
        if !file.digest_only {
            self.shared.counters.current.note(&file.record);
        }
        if file.is_dead() {
            self.drop_slice(file, cut, seq);
            return;
        }
        let read = match file.take_fault() {
            Some(error) => Err(error),
            None if file.is_endless() => match self.next_payload(file, cut, seq, &mut block) {
                Ok(Some((digest, length))) => {
                    let cut = SliceCut {
                        length,
                        ..cut.clone()
                    };
                    self.take_slice(file, &cut, seq, (digest, None), block, stop);
                    return;
                }
                Ok(None) => {
                    if let Some(end) = file.end_empty(stop) {
                        self.file_bundle(vec![end], None, Payload::Empty, 0);
                    }
                    return;
                }
                Err(error) => Err(error),
            },
            None => self.slice_payload(file, cut, seq.is_some(), &mut block),
        };
        match read {
            Ok(read) => self.take_slice(file, cut, seq, read, block, stop),
            Err(error) => {
                // Only the first thread to notice acts; the others stop.
                if file.kill() {
                    match error {
                        ReadError::Changed if file.digest_only => self.announce_again(&file.record),
                        ReadError::Changed => {
                            let rest = file.take_rest();
                            self.offer_anew(file.record.clone(), rest);
                        }
                        ReadError::Failed(fault) => {
                            self.shared.give_up(if file.digest_only {
                                entry::known_bytes(&file.record)
                            } else {
                                file.take_rest()
                            });
                            self.shared.fail_entry(&file.record, fault);
                        }
                    }
                }
                self.drop_slice(file, cut, seq);
            }
        }
    }

    /// Stores the item of a slice that was read.
    fn take_slice(
        &self,
        file: &Arc<LargeFile>,
        cut: &SliceCut,
        seq: Option<u64>,
        (digest, lent): (digest::Digest, Option<&'static [u8]>),
        block: Block,
        stop: &dyn Fn() -> bool,
    ) {
        let content = cut.content();
        self.shared.counters.bytes_read.add(content);
        let end = file.slice_read(cut, digest, seq.is_none(), stop);
        if !file.digest_only {
            self.shared.counters.bytes_unmoved.add(file.take_passed());
        }
        if file.digest_only {
            if let Some(end) = end {
                self.announce_digest(&file.record, end.digest);
            }
            return;
        }
        let payload = match lent {
            Some(bytes) => Payload::Lent(bytes),
            None => Payload::Pooled(block, usize::try_from(content).unwrap_or(usize::MAX)),
        };
        let digest = entry::digest_to_wire(&digest);
        self.file_slice(file, cut, seq, &digest, end.as_ref(), payload);
    }

    /// The next slice of a file of unknown size: its digest and length; `None` if the file is empty.
    fn next_payload(
        &self,
        file: &LargeFile,
        cut: &SliceCut,
        seq: Option<u64>,
        block: &mut Block,
    ) -> Result<Option<(digest::Digest, u32)>, ReadError> {
        if seq.is_some() {
            return Err(ReadError::Failed(crate::source::only_once()));
        }
        let (length, is_last) = self
            .shared
            .counters
            .storage_reading_ns
            .time(|| file.file.read_next(&mut block[..cut.length as usize]))?;
        let mut entry_bytes = file.record.bytes;
        if is_last {
            entry_bytes = cut.offset + length as u64;
            self.shared.counters.bytes_scanned.add(entry_bytes);
            file.end_at(entry_bytes);
        }
        if length == 0 {
            return Ok(None);
        }
        let digest = self.digest_slice(cut.offset, entry_bytes, &block[..length]);
        Ok(Some((digest, u32::try_from(length).unwrap_or(u32::MAX))))
    }

    fn slice_payload(
        &self,
        file: &LargeFile,
        cut: &SliceCut,
        is_again: bool,
        block: &mut Block,
    ) -> Result<(digest::Digest, Option<&'static [u8]>), ReadError> {
        let file_bytes = file.record.bytes;
        if cut.ranges.is_empty() {
            let length = cut.length as usize;
            if let Some(bytes) = file.file.lend(cut.offset, length) {
                return Ok((
                    self.digest_slice(cut.offset, file_bytes, bytes),
                    Some(bytes),
                ));
            }
            let into = &mut block[..length];
            let once = self
                .shared
                .counters
                .storage_reading_ns
                .time(|| match is_again {
                    // The receiver may have refused the shared bytes or the common digest.
                    true => file.file.read_again(cut.offset, into).map(|()| None),
                    false => file.file.read_shared(cut.offset, into),
                })?;
            let digest = self.digest_once(once.as_ref(), cut.offset, file_bytes, &block[..length]);
            self.check_generation(file)?;
            return Ok((digest, None));
        }
        let mut filled = 0;
        for range in &cut.ranges {
            let bytes = usize::try_from(range.bytes).unwrap_or(usize::MAX);
            let into = &mut block[filled..filled + bytes];
            self.shared
                .counters
                .storage_reading_ns
                .time(|| match is_again {
                    true => file.file.read_again(range.offset, into),
                    false => file.file.read_at(range.offset, into),
                })?;
            filled += bytes;
        }
        let mut pieces = Vec::with_capacity(cut.ranges.len());
        let mut rest = &block[..filled];
        for range in &cut.ranges {
            let (piece, tail) = rest.split_at(usize::try_from(range.bytes).unwrap_or(usize::MAX));
            pieces.push((range.offset, piece));
            rest = tail;
        }
        let digest = self.shared.counters.digesting_ns.time(|| {
            digest::digest_sparse_slice(
                self.shared.digest,
                cut.offset,
                u64::from(cut.length),
                file_bytes,
                &pieces,
            )
        });
        self.check_generation(file)?;
        Ok((digest, None))
    }

    pub(super) fn digest_slice(
        &self,
        offset: u64,
        entry_bytes: u64,
        bytes: &[u8],
    ) -> digest::Digest {
        self.digest_once(None, offset, entry_bytes, bytes)
    }

    /// The digest of a slice, which other transfers may have computed.
    pub(super) fn digest_once(
        &self,
        once: Option<&OnceDigest>,
        offset: u64,
        entry_bytes: u64,
        bytes: &[u8],
    ) -> digest::Digest {
        let terms = DigestTerms {
            kind: self.shared.digest,
            offset,
            entry_bytes,
        };
        self.shared
            .counters
            .digesting_ns
            .time(|| once_or_own(once, terms, bytes))
    }

    fn file_slice(
        &self,
        file: &Arc<LargeFile>,
        cut: &SliceCut,
        seq: Option<u64>,
        digest: &Digest,
        end: Option<&Record>,
        payload: Payload,
    ) {
        let slice_record = file.slice_record();
        let record = end.unwrap_or(&slice_record);
        let again = seq.is_some();
        let seq = seq.unwrap_or_else(|| self.shared.lock_state().items.reserve_seq());
        let header = BlockHeader {
            transfer: self.shared.config.transfer,
            seq: Seq(seq),
            kind: BlockKind::SLICE,
            digest_kind: self.shared.config.digest,
            attempt: file.record.attempt,
            flags: if cut.ranges.is_empty() {
                0
            } else {
                block::SPARSE
            },
            entry: file.record.id,
            generation: file.record.generation,
            offset: cut.offset,
            length: cut.length,
            entry_bytes: record.bytes,
            digest: *digest,
            ..BlockHeader::default()
        };
        let mut head = Vec::with_capacity(512);
        if let Err(error) = block::encode(
            header,
            &cut.ranges,
            std::slice::from_ref(record),
            payload.as_slice().len(),
            &mut head,
        ) {
            self.shared.fail(
                ErrorCode::INTERNAL,
                &format!("a slice cannot be encoded: {error}"),
            );
            return;
        }
        let desc = Desc::Slice {
            file: Arc::clone(file),
            cut: cut.clone(),
        };
        self.shared.queue(
            seq,
            desc,
            cut.content(),
            Image {
                head: Head::Image(head),
                payload,
            },
            again,
        );
    }
}

/// The digest that transfers share, or that of this transfer.
pub(super) fn once_or_own(
    once: Option<&OnceDigest>,
    terms: DigestTerms,
    bytes: &[u8],
) -> digest::Digest {
    once.map_or_else(|| terms.digest(bytes), |once| once.of(terms, bytes))
}
