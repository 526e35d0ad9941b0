//! The read stage: turns pieces into blocks, on a stream's own thread or on one that reads ahead.
//! Does not choose the pieces; the state does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_proto::{
    BlockHeader, BlockKind, Digest, EntryKind, ErrorCode, Record, RecordFlags, Seq, block,
};
use godwit_store::digest;
use godwit_store::pool::Block;

use super::Sender;
use super::large::{LargeFile, SliceCut, may_have_holes};
use super::state::{Desc, Head, Image, Piece};
use crate::counters::CpuMeter;
use crate::entry;
use crate::source::{Payload, ReadError};

impl Sender {
    /// Body of a thread that reads ahead, number `index` of those that are allowed.
    pub(super) fn read_ahead(&self, index: usize) {
        let _panic = self.shared.if_panicking();
        self.shared.begin_sharing();
        let mut meter = CpuMeter::default();
        while let Some(piece) = self.wait_for_piece(index) {
            let Some(block) = self.pool.take() else { break };
            self.shared
                .counters
                .helping_ns
                .time(|| self.read(piece, block, &|| self.shared.is_over()));
            meter.settle(&self.shared.counters);
        }
    }

    fn wait_for_piece(&self, index: usize) -> Option<Piece> {
        // Streams are numbered from below.
        let reader = u64::MAX - index as u64;
        let mut state = self.shared.lock_state();
        loop {
            if state.end.is_some() || index >= self.shared.live.readers() {
                state.let_go_of_files(reader);
                return None;
            }
            let now = Instant::now();
            state.take_rested(now);
            // Half of the pool may wait for streams; the rest is for what they hold and what is not acknowledged.
            if state.ready_blocks() * 2 <= self.pool.counters().blocks_max
                && let Some(piece) = state.next_piece(reader, self.shared.config.block_bytes)
            {
                return Some(piece);
            }
            let left = state.rest_left(now);
            state = self.shared.wait_for_change(state, left);
        }
    }

    /// Reads a piece into `block` and files the item that becomes of it. Where a large hole is hashed `stop` is asked now and
    /// then; once it says yes, nothing becomes of the piece.
    pub(super) fn read(&self, piece: Piece, block: Block, stop: &dyn Fn() -> bool) {
        let opens = matches!(piece, Piece::Open { .. } | Piece::OpenDigest(_));
        match piece {
            Piece::Open { record, held } => self.open_large(record, &held, false, stop),
            Piece::Slice { file, cut, seq } => self.read_slice(&file, &cut, seq, block, stop),
            Piece::Bundle { records, seq } => self.read_bundle(records, seq, block),
            Piece::Digests(records) => self.read_digests(records, block),
            Piece::OpenDigest(record) => self.open_large(record, &[], true, stop),
            Piece::Retry(retry) => self.try_again(retry),
        }
        let mut state = self.shared.lock_state();
        state.reading -= 1;
        if opens {
            state.end_opening();
        }
        self.shared.finish_if_done(&mut state);
        drop(state);
        self.shared.notify();
    }

    fn open_large(
        &self,
        record: Record,
        held: &[godwit_proto::HeldRange],
        digest_only: bool,
        stop: &dyn Fn() -> bool,
    ) {
        let opened = self
            .shared
            .counters
            .storage_reading_ns
            .time(|| self.shared.source.open(&record))
            .map_err(ReadError::Failed)
            .and_then(|file| {
                if file.generation()? != record.generation.0 {
                    return Err(ReadError::Changed);
                }
                let mut large = LargeFile::new(
                    record.clone(),
                    file,
                    held,
                    self.shared.digest,
                    self.shared.config.block_bytes,
                )?;
                large.digest_only = digest_only;
                // Where its first data is was looked up after the generation; with no slice nothing else looks at it again.
                if may_have_holes(&record) || large.is_spent() {
                    self.check_generation(&large)?;
                }
                Ok(large)
            });
        match opened {
            Ok(file) => {
                if !digest_only {
                    self.shared.counters.bytes_unmoved.add(file.take_passed());
                }
                if let Some(end) = file.end_without_slices(stop) {
                    if digest_only {
                        self.announce_digest(&record, end.digest);
                        return;
                    }
                    self.file_bundle(vec![end], None, Payload::Empty, 0);
                } else {
                    let mut state = self.shared.lock_state();
                    state.active.push(Arc::new(file));
                    state.wake_streams();
                }
            }
            Err(ReadError::Changed) if digest_only => self.announce_again(&record),
            Err(ReadError::Changed) => self.offer_again(record),
            Err(ReadError::Failed(fault)) => {
                self.shared.give_up(entry::known_bytes(&record));
                self.shared.fail_entry(&record, fault);
            }
        }
    }

    fn read_slice(
        &self,
        file: &Arc<LargeFile>,
        cut: &SliceCut,
        seq: Option<u64>,
        mut block: Block,
        stop: &dyn Fn() -> bool,
    ) {
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
            None => self.slice_payload(file, cut, &mut block),
        };
        match read {
            Ok(read) => self.take_slice(file, cut, seq, read, block, stop),
            Err(error) => {
                // The first thread to notice acts; the others only stop.
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

    /// A slice was read: files the item that becomes of it.
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

    /// The next slice of a file whose size is not known: its digest and length; `None` if the file is empty.
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
            self.shared
                .counters
                .storage_reading_ns
                .time(|| file.file.read_at(cut.offset, &mut block[..length]))?;
            let digest = self.digest_slice(cut.offset, file_bytes, &block[..length]);
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
                .time(|| file.file.read_at(range.offset, into))?;
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
        self.shared
            .counters
            .digesting_ns
            .time(|| digest::digest_slice(self.shared.digest, offset, entry_bytes, bytes))
    }

    fn check_generation(&self, file: &LargeFile) -> Result<(), ReadError> {
        if file.file.generation()? == file.record.generation.0 {
            Ok(())
        } else {
            Err(ReadError::Changed)
        }
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
        let seq = seq.unwrap_or_else(|| self.shared.lock_state().reserve_seq());
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
                ErrorCode::INTERNAL.0,
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

    fn read_bundle(&self, mut records: Vec<Record>, seq: Option<u64>, mut block: Block) {
        let mut filled = 0_usize;
        // A look at the clock after each step, and the sums once: of small files there are thousands in a moment.
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
            let bytes = usize::try_from(record.bytes).unwrap_or(usize::MAX);
            let read = match with_room(&mut block[filled..], bytes) {
                Some(buffer) => self.shared.source.read_whole(record, buffer),
                None => Err(ReadError::Changed),
            };
            reading += lap(&mut at);
            match read {
                Ok(length) if length == bytes => {
                    let content = &block[filled..filled + bytes];
                    let digest = digest::digest_slice(self.shared.digest, 0, record.bytes, content);
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

    fn file_bundle(&self, records: Vec<Record>, seq: Option<u64>, payload: Payload, content: u64) {
        let again = seq.is_some();
        let seq = seq.unwrap_or_else(|| self.shared.lock_state().reserve_seq());
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
                ErrorCode::INTERNAL.0,
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

    /// An item that was asked for again and has become pointless. An empty one takes its number, so that no gap stays in
    /// what the receiver remembers.
    pub(super) fn forget(&self, seq: Option<u64>) {
        if seq.is_some() {
            self.file_bundle(Vec::new(), seq, Payload::Empty, 0);
        }
    }
}

/// The front of `block` for a file of so many bytes, and for one more where there is room: the end of a file shows in what a
/// read does not give. `None` if it does not fit.
pub(super) fn with_room(block: &mut [u8], bytes: usize) -> Option<&mut [u8]> {
    let room = bytes.saturating_add(1).min(block.len());
    block.get_mut(..room.max(bytes))
}
