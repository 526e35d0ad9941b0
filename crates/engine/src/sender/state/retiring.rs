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
        self.let_go_of_files(stream);
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

    /// The stream has not sent the item that it had, and does not: another one does. `again` is as it was told.
    pub(crate) fn give_back(&mut self, seq: u64, stream: u64, again: bool) {
        let Some(item) = self.outstanding.get_mut(&seq) else {
            return;
        };
        // It may have been asked for once more meanwhile, so that it waits already, or have been written.
        if item.stream != Some(stream) || item.image.is_none() {
            return;
        }
        item.stream = None;
        item.sent_before = again;
        if again {
            self.first.push_front(seq);
        } else {
            self.ready.push_front(seq);
        }
        self.wake_stream();
        self.wake_streams_without_blocks();
    }

    pub(super) fn wake_retiring(&self) {
        for id in &self.retiring {
            if let Some(waker) = self.streams.get(id) {
                waker.wake();
            }
        }
    }
}
