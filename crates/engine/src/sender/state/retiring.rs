//! Streams that must leave while the transfer continues, and the items that they still wait for. Does not choose the
//! streams.

use super::State;

impl State {
    /// Marks a stream that must leave: it gets no more items, and is woken.
    pub(crate) fn retire(&mut self, stream: u64) {
        if self.streams.retire(stream) {
            self.files.let_go(stream);
        }
    }

    /// Whether everything sent on the stream has been written or answered. Another stream is woken, because this stream
    /// may have received a wake-up meant for another.
    pub(crate) fn may_leave(&mut self, stream: u64) -> bool {
        self.streams.wake_one();
        !self.items.has_unwritten_on(stream)
    }

    /// Takes back an item that the stream will not send, so that another stream sends it. `again` is the value that the
    /// stream received with the item.
    pub(crate) fn give_back(&mut self, seq: u64, stream: u64, again: bool) {
        if self.items.give_back(seq, stream, again) {
            self.streams.wake_one();
            self.streams.wake_without_blocks();
        }
    }
}
