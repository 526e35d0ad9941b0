//! Chooses items for a stream that carries no blocks, and the few blocks allowed on it while no other stream exists.
//! Does not know the allowed amount; each stream does.
//!
//! Only a stream through ssh carries no blocks. While no other stream exists, it may carry the first
//! `limits::EARLY_BYTES` of content, so a small file needs no second connection. If more blocks wait, the sending
//! end requests a stream for blocks.

use super::files::NOBODY;
use super::{Next, Piece, State};

impl State {
    /// The next step of a stream that carries no blocks; `early_bytes` is how much block content the stream may
    /// carry while no other stream exists.
    pub(crate) fn next_without_blocks(&mut self, stream: u64, early_bytes: u64) -> Next {
        let early_bytes = if self.streams.has_carrier() {
            0
        } else {
            early_bytes
        };
        while let Some(at) = self
            .items
            .first
            .iter()
            .position(|seq| self.items.fits(*seq, early_bytes))
        {
            let seq = self.items.first.remove(at);
            if let Some(next) = seq.and_then(|seq| self.items.send_on(seq, stream)) {
                return next;
            }
        }
        while early_bytes > 0
            && let Some(at) = self
                .items
                .ready
                .iter()
                .position(|seq| self.items.fits(*seq, early_bytes))
        {
            let seq = self.items.ready.remove(at);
            if let Some(next) = seq.and_then(|seq| self.items.send_on(seq, stream)) {
                return next;
            }
        }
        Next::Nothing
    }

    /// The next piece for a stream that carries few blocks, once everything read before has been sent.
    pub(crate) fn next_early_piece(&mut self, early_bytes: u64, block_bytes: u32) -> Option<Piece> {
        if early_bytes == 0 || self.streams.has_carrier() || !self.items.ready.is_empty() {
            return None;
        }
        self.next_piece(NOBODY, block_bytes)
    }

    /// Records whether blocks wait for a stream that can carry them, after a stream without blocks found no work.
    /// Returns whether that changed.
    pub(crate) fn note_want(&mut self, early_bytes: u64) -> bool {
        let waits = self.items.any_waits();
        let wanted =
            !self.streams.has_carrier() && (waits || (early_bytes == 0 && self.has_work()));
        std::mem::replace(&mut self.streams.wants_stream, wanted) != wanted
    }
}
