//! Chooses the data to read for a stream that carries no blocks, except for few while no other stream exists.
//! Does not know the allowed amount; each stream does.
//!
//! Only a stream through ssh carries no blocks. While no other stream exists, it may carry the first
//! `limits::EARLY_BYTES` of content, so a small file needs no second connection. If more blocks wait, the sending
//! end requests a stream for blocks.

use super::files::NO_READER;
use super::{Piece, State};

impl State {
    /// The next piece for a stream that carries few blocks, once everything read before has been sent.
    pub(crate) fn next_early_piece(&mut self, early_bytes: u64, block_bytes: u32) -> Option<Piece> {
        if early_bytes == 0 || self.streams.has_carrier() || !self.items.ready.is_empty() {
            return None;
        }
        self.next_piece(NO_READER, block_bytes)
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
