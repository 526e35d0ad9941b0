//! Owns the frames that a stream received during a blocked send, until its user takes them. Does not receive.

use std::collections::VecDeque;

use godwit_proto::{PRELUDE_BYTES, Prelude};

use crate::limits::{INBOX_BYTES_MAX, INBOX_FRAMES_MAX};

/// Received frames; at most one with payload, as the last.
#[derive(Default)]
pub(super) struct Inbox {
    frames: VecDeque<(Prelude, Vec<u8>)>,
    bytes: usize,
    has_payload: bool,
}

impl Inbox {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        !self.has_payload && self.frames.len() < INBOX_FRAMES_MAX && self.bytes < INBOX_BYTES_MAX
    }

    pub(super) fn push(&mut self, (prelude, head): (Prelude, Vec<u8>)) {
        self.bytes += PRELUDE_BYTES + head.len();
        self.has_payload = prelude.payload_bytes > 0;
        self.frames.push_back((prelude, head));
    }

    pub(super) fn pop(&mut self) -> Option<(Prelude, Vec<u8>)> {
        let (prelude, head) = self.frames.pop_front()?;
        self.bytes -= PRELUDE_BYTES + head.len();
        self.has_payload &= prelude.payload_bytes == 0;
        Some((prelude, head))
    }
}
