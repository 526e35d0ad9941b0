//! What goes out on a stream that carries no blocks, and what of the blocks may, while there is no other stream.
//! Does not know how much that is; each stream does.
//!
//! Only a stream through ssh carries no blocks. It may carry the first `limits::EARLY_BYTES` of content while no other stream is
//! there, so a small file needs no second connection. If more waits, the sending end says that it wants a stream for blocks.

use super::files::NOBODY;
use super::{Next, Piece, State};

impl State {
    /// What a stream that carries no blocks should send next; `early_bytes` is how much of their content it may carry
    /// while no other stream is there.
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

    /// Something to read for a stream that carries few blocks: not before what was read is gone.
    pub(crate) fn next_early_piece(&mut self, early_bytes: u64, block_bytes: u32) -> Option<Piece> {
        if early_bytes == 0 || self.streams.has_carrier() || !self.items.ready.is_empty() {
            return None;
        }
        self.next_piece(NOBODY, block_bytes)
    }

    /// Notes whether blocks wait for a stream that carries them, after one that does not has found nothing to do. Tells
    /// whether that is news.
    pub(crate) fn note_want(&mut self, early_bytes: u64) -> bool {
        let waits = self.items.any_waits();
        let wanted =
            !self.streams.has_carrier() && (waits || (early_bytes == 0 && self.has_work()));
        std::mem::replace(&mut self.streams.wants_stream, wanted) != wanted
    }
}
