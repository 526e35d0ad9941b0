//! Reads one piece and queues the resulting item: opens files, and hands slices, bundles and digests to their modules.
//! Does not choose the pieces; the state does.

use std::sync::Arc;

use godwit_proto::Record;
use godwit_store::pool::Block;

use crate::sender::large::{LargeFile, may_have_holes};
use crate::sender::shared::Shared;
use crate::sender::shuffle::Order;
use crate::sender::state::Piece;
use crate::source::{Payload, ReadError};
use crate::{entry, limits};

/// Reads pieces on the calling thread.
pub(super) struct PieceReader {
    pub(super) shared: Arc<Shared>,
}

impl PieceReader {
    /// Reads a piece into `block` and stores the resulting item. While a large hole is hashed, `stop` is called now and
    /// then; once it returns true, the piece is dropped.
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
            state.files.end_opening();
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
                    match self.shared.config.order {
                        Order::Random if !digest_only => limits::ORDER_WINDOW_SLICES,
                        Order::Random | Order::Source => 1,
                    },
                )?;
                large.digest_only = digest_only;
                // The offset of the first data was looked up after the generation; if there is no slice, no later check
                // of the generation follows.
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
                    state.files.active.push(Arc::new(file));
                    state.streams.wake_all();
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

    pub(super) fn check_generation(&self, file: &LargeFile) -> Result<(), ReadError> {
        if file.file.generation()? == file.record.generation.0 {
            Ok(())
        } else {
            Err(ReadError::Changed)
        }
    }
}
