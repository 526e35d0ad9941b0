//! What goes out on a stream that carries no blocks, and what of the blocks may, while there is no other stream.
//! Does not know how much that is; each stream does.
//!
//! Only a stream through ssh carries no blocks. It may carry the first `limits::EARLY_BYTES` of content while no other stream is
//! there, so a small file needs no second connection. If more waits, the sending end says that it wants a stream for blocks.

use super::files::NOBODY;
use super::{Desc, Next, Piece, State};

impl State {
    /// Whether a stream is there that carries any number of blocks.
    pub(super) fn has_carrier(&self) -> bool {
        self.streams.len() > self.without_blocks.len()
    }

    /// What a stream that carries no blocks should send next; `early_bytes` is how much of their content it may carry
    /// while no other stream is there.
    pub(crate) fn next_without_blocks(&mut self, stream: u64, early_bytes: u64) -> Next {
        let early_bytes = if self.has_carrier() { 0 } else { early_bytes };
        while let Some(at) = self
            .first
            .iter()
            .position(|seq| self.fits(*seq, early_bytes))
        {
            let seq = self.first.remove(at);
            if let Some(next) = seq.and_then(|seq| self.send_on(seq, stream)) {
                return next;
            }
        }
        while early_bytes > 0
            && let Some(at) = self
                .ready
                .iter()
                .position(|seq| self.fits(*seq, early_bytes))
        {
            let seq = self.ready.remove(at);
            if let Some(next) = seq.and_then(|seq| self.send_on(seq, stream)) {
                return next;
            }
        }
        Next::Nothing
    }

    /// Something to read for a stream that carries few blocks: not before what was read is gone.
    pub(crate) fn next_early_piece(&mut self, early_bytes: u64, block_bytes: u32) -> Option<Piece> {
        if early_bytes == 0 || self.has_carrier() || !self.ready.is_empty() {
            return None;
        }
        self.next_piece(NOBODY, block_bytes)
    }

    /// Notes whether blocks wait for a stream that carries them, after one that does not has found nothing to do. Tells
    /// whether that is news.
    pub(crate) fn note_want(&mut self, early_bytes: u64) -> bool {
        let waits = !self.ready.is_empty() || !self.first.is_empty();
        let wanted = !self.has_carrier() && (waits || (early_bytes == 0 && self.has_work()));
        std::mem::replace(&mut self.wants_stream, wanted) != wanted
    }

    /// An item that is no block, or one with no more content than that; or nothing any more.
    fn fits(&self, seq: u64, early_bytes: u64) -> bool {
        let Some(item) = self.outstanding.get(&seq) else {
            return true;
        };
        match (&item.desc, &item.image) {
            (Desc::Manifest(_) | Desc::Finish, _) => true,
            (_, Some(image)) => {
                early_bytes > 0 && image.payload.as_slice().len() as u64 <= early_bytes
            }
            (_, None) => false,
        }
    }
}
