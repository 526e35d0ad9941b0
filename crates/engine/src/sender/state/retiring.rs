//! Streams that are to leave while the transfer goes on: what they still have to wait for.
//! Does not choose them.

use super::State;

impl State {
    /// The stream gets no more items; it is told to look.
    pub(crate) fn retire(&mut self, stream: u64) {
        if !self.streams.contains_key(&stream) || self.is_retiring(stream) {
            return;
        }
        self.retiring.push(stream);
        self.unpark(stream);
        if let Some(waker) = self.streams.get(&stream) {
            waker.wake();
        }
    }

    pub(crate) fn is_retiring(&self, stream: u64) -> bool {
        self.retiring.contains(&stream)
    }

    /// Whether everything that was sent on the stream has been written, or answered. What it was woken for, others do.
    pub(crate) fn may_leave(&mut self, stream: u64) -> bool {
        self.wake_stream();
        !self
            .outstanding
            .values()
            .any(|item| item.stream == Some(stream) && !item.written)
    }

    pub(super) fn wake_retiring(&self) {
        for id in &self.retiring {
            if let Some(waker) = self.streams.get(id) {
                waker.wake();
            }
        }
    }
}
