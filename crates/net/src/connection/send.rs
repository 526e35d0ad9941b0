//! Sends frames: encrypts them in pieces that stay in the cache, and receives while the socket has no room. Does not
//! assemble received frames.

use std::mem;
use std::time::Instant;

use rustix::event::PollFlags;

use super::patience::Patience;
use super::{Connection, Layer};
use crate::buffer::OutBuffer;
use crate::limits::{METER_EVERY, SEAL_BYTES};
use crate::stream::StreamError;

impl Connection {
    pub(super) fn send_frame(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError> {
        let mut out = mem::take(&mut self.outgoing);
        out.clear();
        let sent = self.send_through(head, payload, &mut out);
        self.outgoing = out;
        sent
    }

    pub(super) fn send_through(
        &mut self,
        head: &[u8],
        payload: &[u8],
        out: &mut OutBuffer,
    ) -> Result<(), StreamError> {
        if matches!(self.layer, Layer::Clear) {
            return self.transmit(head, payload);
        }
        for part in head.chunks(SEAL_BYTES) {
            self.flush_unless_room(part.len(), out)?;
            self.seal(part, out)?;
        }
        if !self.layer.protects_payload() {
            return self.transmit(out.filled(), payload);
        }
        for part in payload.chunks(SEAL_BYTES) {
            self.flush_unless_room(part.len(), out)?;
            self.seal(part, out)?;
        }
        self.transmit(out.filled(), &[])
    }

    /// Sends the encrypted bytes if another part would not fit into the cache with them.
    pub(super) fn flush_unless_room(
        &mut self,
        bytes: usize,
        out: &mut OutBuffer,
    ) -> Result<(), StreamError> {
        // A small head does not cause a separate send for the first part of the payload.
        if out.filled().len() + bytes > SEAL_BYTES + SEAL_BYTES / 8 {
            self.transmit(out.filled(), &[])?;
            out.clear();
        }
        Ok(())
    }

    pub(super) fn seal(&mut self, plain: &[u8], out: &mut OutBuffer) -> Result<(), StreamError> {
        let Layer::Tls { session, .. } = &mut self.layer else {
            return Ok(());
        };
        out.append(&mut self.control);
        let sealed = session.seal(plain, out);
        self.counters.key_updates = session.key_updates();
        sealed.map_err(|error| StreamError::Tls {
            peer: self.socket.peer().to_owned(),
            error,
        })
    }

    pub(super) fn transmit(
        &mut self,
        mut first: &[u8],
        mut second: &[u8],
    ) -> Result<(), StreamError> {
        let mut since = None;
        while !(first.is_empty() && second.is_empty()) {
            match self.socket.send(first, second) {
                Ok(Some(sent)) => {
                    since = None;
                    let of_first = sent.min(first.len());
                    first = &first[of_first..];
                    second = &second[sent - of_first..];
                }
                Ok(None) => self.await_room(*since.get_or_insert_with(Instant::now))?,
                Err(error) => return Err(self.socket.network_fault("send", error)),
            }
        }
        Ok(())
    }

    /// Waits for room in the socket, and receives meanwhile.
    pub(super) fn await_room(&mut self, since: Instant) -> Result<(), StreamError> {
        loop {
            let mut want = PollFlags::OUT;
            if self.may_take_in() {
                want |= PollFlags::IN;
            }
            let began = Instant::now();
            let ended = self.waker.is_ended();
            let left = if ended {
                self.patience.left_after_end(&self.socket, began)?
            } else if self.closed || self.ended {
                Patience::left_after_hang_up(&self.socket, began.duration_since(since))?
            } else {
                self.patience
                    .left(&self.socket, "sending", began.duration_since(since))?
            };
            let end = (!ended).then(|| self.waker.end_fd());
            let ready = self.socket.poll(want, 1, end, left.min(METER_EVERY));
            let passed = began.elapsed();
            self.counters.blocked_sending += passed;
            self.measure_if_due(began + passed);
            let ready = ready.map_err(|error| self.socket.network_fault("poll", error))?;
            if ready.input && want.contains(PollFlags::IN) {
                self.take_in()?;
            }
            if ready.output {
                return Ok(());
            }
        }
    }

    pub(super) fn may_take_in(&self) -> bool {
        !self.ended && !self.closed && self.payload_due == 0 && self.inbox.has_room()
    }

    /// Moves received frames into the inbox, up to its limits and including at most one frame with a payload.
    pub(super) fn take_in(&mut self) -> Result<(), StreamError> {
        while self.may_take_in() {
            if let Some(frame) = self.assemble()? {
                self.inbox.push(frame);
            } else if !self.fill()? {
                return Ok(());
            }
        }
        Ok(())
    }
}
