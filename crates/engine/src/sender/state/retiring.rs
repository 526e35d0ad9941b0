//! Streams that must leave while the transfer continues, and the items that they still wait for.
//! Does not choose the streams.

use super::State;

impl State {
    /// The stream gets no more items, and is woken.
    pub(crate) fn retire(&mut self, stream: u64) {
        if self.streams.retire(stream) {
            self.files.let_go(stream);
        }
    }

    /// Whether everything sent on the stream has been written, or answered. Another stream takes over what this one was
    /// woken for.
    pub(crate) fn may_leave(&mut self, stream: u64) -> bool {
        self.streams.wake_one();
        !self.items.has_unwritten_on(stream)
    }

    /// The stream will not send its item: another stream does. `again` is the value that the stream got with the item.
    pub(crate) fn give_back(&mut self, seq: u64, stream: u64, again: bool) {
        if self.items.give_back(seq, stream, again) {
            self.streams.wake_one();
            self.streams.wake_without_blocks();
        }
    }
}
