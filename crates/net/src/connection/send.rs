//! Sends frames: encrypts them in pieces that stay in the cache, and receives while the socket has no room. Does not
//! assemble received frames.

use std::time::{Duration, Instant};
use std::{io, mem};

use godwit_proto::PRELUDE_BYTES;
use rustix::event::PollFlags;

use super::{Connection, Layer};
use crate::buffer::OutBuffer;
use crate::limits::{END_GRACE, INBOX_BYTES_MAX, INBOX_FRAMES_MAX, METER_EVERY, SEAL_BYTES};
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
        if !self.payload_is_protected() {
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
                Err(error) => return Err(self.error_network("send", error)),
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
                self.time_left_after_end(began)?
            } else if self.closed || self.ended {
                self.time_left_after_hang_up(began.duration_since(since))?
            } else {
                self.time_left("sending", began.duration_since(since))?
            };
            let end = (!ended).then(|| self.waker.end_fd());
            let ready = self.socket.poll(want, 1, end, left.min(METER_EVERY));
            let passed = began.elapsed();
            self.counters.blocked_sending += passed;
            self.measure_if_due(began + passed);
            let ready = ready.map_err(|error| self.error_network("poll", error))?;
            if ready.input && want.contains(PollFlags::IN) {
                self.take_in()?;
            }
            if ready.output {
                return Ok(());
            }
        }
    }

    /// Time left for a blocked send after the owner ended the stream: pending data may be sent, so that a final frame
    /// can follow.
    fn time_left_after_end(&mut self, now: Instant) -> Result<Duration, StreamError> {
        let since = *self.ended_since.get_or_insert(now);
        let left = END_GRACE.saturating_sub(now.duration_since(since));
        if left.is_zero() {
            return Err(StreamError::Ended {
                peer: self.socket.peer().to_owned(),
            });
        }
        Ok(left.max(Duration::from_millis(1)))
    }

    /// Time left for a blocked send after the peer hung up. Such a peer may be gone. If its window was closed before,
    /// the window stays closed, and the kernel notices only after a minute or more.
    fn time_left_after_hang_up(&self, waited: Duration) -> Result<Duration, StreamError> {
        let left = END_GRACE.saturating_sub(waited);
        if left.is_zero() {
            let source = io::Error::new(io::ErrorKind::BrokenPipe, "the peer has hung up");
            return Err(self.error_network("send", source));
        }
        Ok(left.max(Duration::from_millis(1)))
    }

    pub(super) fn time_left(
        &self,
        doing: &'static str,
        passed: Duration,
    ) -> Result<Duration, StreamError> {
        let left = self.stall_limit.saturating_sub(passed);
        if left.is_zero() {
            return Err(StreamError::Stalled {
                peer: self.socket.peer().to_owned(),
                doing,
                after: passed,
            });
        }
        // At least 1 ms, because a poll of zero would return at once, again and again.
        Ok(left.max(Duration::from_millis(1)))
    }

    pub(super) fn may_take_in(&self) -> bool {
        !self.ended
            && !self.closed
            && self.payload_due == 0
            && !self.payload_in_inbox
            && self.inbox.len() < INBOX_FRAMES_MAX
            && self.inbox_bytes < INBOX_BYTES_MAX
    }

    /// Moves received frames into the inbox, up to its limits and including at most one frame with a payload.
    pub(super) fn take_in(&mut self) -> Result<(), StreamError> {
        while self.may_take_in() {
            if let Some((prelude, head)) = self.assemble()? {
                self.inbox_bytes += PRELUDE_BYTES + head.len();
                self.payload_in_inbox = prelude.payload_bytes > 0;
                self.inbox.push_back((prelude, head));
            } else if !self.fill()? {
                return Ok(());
            }
        }
        Ok(())
    }
}
