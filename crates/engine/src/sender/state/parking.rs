//! Streams that have nothing to send: where they wait, and who is woken by what.
//! Does not decide what they send then.

use super::State;

impl State {
    pub(crate) fn park_without_blocks(&mut self, stream: u64) {
        if !self.parked_without_blocks.contains(&stream) {
            self.parked_without_blocks.push(stream);
        }
    }

    pub(crate) fn park(&mut self, stream: u64) {
        if !self.parked.contains(&stream) {
            self.parked.push(stream);
        }
    }

    pub(crate) fn unpark(&mut self, stream: u64) {
        self.parked.retain(|id| *id != stream);
        self.parked_without_blocks.retain(|id| *id != stream);
    }

    pub(super) fn wake_streams_without_blocks(&mut self) {
        for id in self.parked_without_blocks.drain(..) {
            if let Some(waker) = self.streams.get(&id) {
                waker.wake();
            }
        }
    }

    pub(crate) fn wake_stream(&mut self) {
        if let Some(waker) = self.parked.pop().and_then(|id| self.streams.get(&id)) {
            waker.wake();
        }
    }

    pub(crate) fn wake_streams(&mut self) {
        for id in self.parked.drain(..) {
            if let Some(waker) = self.streams.get(&id) {
                waker.wake();
            }
        }
        self.wake_streams_without_blocks();
        self.wake_retiring();
    }
}
