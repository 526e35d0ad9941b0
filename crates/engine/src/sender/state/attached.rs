//! The streams attached to a sender: which are idle and wait, and which must leave. Does not choose
//! the items that they send.

use std::collections::HashMap;

use godwit_net::Waker;

use crate::End;

#[derive(Default)]
pub(crate) struct Attached {
    /// Number of the stream that was attached last.
    pub(super) last: u64,
    wakers: HashMap<u64, Waker>,
    /// Streams that carry no blocks, or few.
    without_blocks: Vec<u64>,
    /// There are blocks that no current stream may carry.
    pub(crate) wants_stream: bool,
    parked: Vec<u64>,
    /// Parked streams that carry no blocks.
    parked_without_blocks: Vec<u64>,
    /// Streams that must leave and get no more items.
    retiring: Vec<u64>,
}

impl Attached {
    /// Adds a stream and returns its number.
    pub(crate) fn attach(&mut self, waker: Waker, carries_blocks: bool) -> u64 {
        self.last += 1;
        self.wakers.insert(self.last, waker);
        if carries_blocks {
            self.wants_stream = false;
        } else {
            self.without_blocks.push(self.last);
        }
        self.last
    }

    pub(super) fn detach(&mut self, stream: u64) {
        self.wakers.remove(&stream);
        self.without_blocks.retain(|id| *id != stream);
        self.retiring.retain(|id| *id != stream);
        self.unpark(stream);
    }

    pub(crate) fn count(&self) -> usize {
        self.wakers.len()
    }

    /// Whether any stream carries an unlimited number of blocks.
    pub(crate) fn has_carrier(&self) -> bool {
        self.wakers.len() > self.without_blocks.len()
    }

    /// Marks a stream that must leave, and wakes it. Returns whether the mark is new.
    pub(super) fn retire(&mut self, stream: u64) -> bool {
        if !self.wakers.contains_key(&stream) || self.is_retiring(stream) {
            return false;
        }
        self.retiring.push(stream);
        self.unpark(stream);
        wake(&self.wakers, stream);
        true
    }

    pub(crate) fn is_retiring(&self, stream: u64) -> bool {
        self.retiring.contains(&stream)
    }

    pub(crate) fn park(&mut self, stream: u64) {
        if !self.parked.contains(&stream) {
            self.parked.push(stream);
        }
    }

    pub(crate) fn park_without_blocks(&mut self, stream: u64) {
        if !self.parked_without_blocks.contains(&stream) {
            self.parked_without_blocks.push(stream);
        }
    }

    pub(crate) fn unpark(&mut self, stream: u64) {
        self.parked.retain(|id| *id != stream);
        self.parked_without_blocks.retain(|id| *id != stream);
    }

    /// Wakes one parked stream that carries blocks.
    pub(crate) fn wake_one(&mut self) {
        if let Some(stream) = self.parked.pop() {
            wake(&self.wakers, stream);
        }
    }

    pub(super) fn wake_without_blocks(&mut self) {
        for stream in self.parked_without_blocks.drain(..) {
            wake(&self.wakers, stream);
        }
    }

    /// Wakes all parked streams, and those that must leave.
    pub(crate) fn wake_all(&mut self) {
        for stream in self.parked.drain(..) {
            wake(&self.wakers, stream);
        }
        self.wake_without_blocks();
        for stream in &self.retiring {
            wake(&self.wakers, *stream);
        }
    }

    /// Reports the end to all streams.
    pub(super) fn end(&mut self, end: &End) {
        self.parked.clear();
        for waker in self.wakers.values() {
            end.end_wait(waker);
        }
    }
}

fn wake(wakers: &HashMap<u64, Waker>, stream: u64) {
    if let Some(waker) = wakers.get(&stream) {
        waker.wake();
    }
}
