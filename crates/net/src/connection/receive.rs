//! Receives frames: reads bytes from the socket, decrypts one record at a time, and cuts frames from the plaintext.
//! Keeps no frames; payloads are written directly to the user's buffer.

use std::mem;
use std::time::Instant;

use godwit_proto::{PRELUDE_BYTES, Prelude};
use rustix::event::PollFlags;

use super::{Connection, Layer};
use crate::buffer::Record;
use crate::limits::{HEAD_AHEAD_BYTES, METER_EVERY, RECORD_BYTES_MAX};
use crate::stream::StreamError;

impl Connection {
    /// Assembles a frame from received bytes, if complete.
    pub(super) fn assemble(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError> {
        loop {
            let mut needed = PRELUDE_BYTES;
            if let Some(first) = self.opened.first_chunk::<PRELUDE_BYTES>() {
                let prelude = Prelude::decode(first)
                    .map_err(|error| self.socket.peer_fault(error.to_string()))?;
                let is_too_long = prelude.head_bytes > self.head_bytes_max;
                needed += prelude.head_bytes as usize - self.head_bytes_dropped;
                if self.opened.len() >= needed {
                    let (prelude, mut head) = self.cut_frame(prelude, needed)?;
                    if is_too_long {
                        self.head_bytes_dropped = 0;
                        head = Vec::new();
                    }
                    return Ok(Some((prelude, head)));
                }
                if is_too_long {
                    let arrived = self.opened.len() - PRELUDE_BYTES;
                    self.opened.truncate(PRELUDE_BYTES);
                    self.head_bytes_dropped += arrived;
                    needed -= arrived;
                }
            }
            if !self.open_more(needed - self.opened.len())? {
                return Ok(None);
            }
        }
    }

    pub(super) fn cut_frame(
        &mut self,
        prelude: Prelude,
        bytes: usize,
    ) -> Result<(Prelude, Vec<u8>), StreamError> {
        let rest = self.opened.split_off(bytes);
        let mut head = mem::replace(&mut self.opened, rest);
        head.drain(..PRELUDE_BYTES);
        if prelude.payload_bytes > 0 && !self.layer.protects_payload() && !self.opened.is_empty() {
            return Err(self
                .socket
                .peer_fault("protected bytes where a payload in clear was announced"));
        }
        self.counters.frames_in += 1;
        Ok((prelude, head))
    }

    /// Decrypts one more record, or receives `wanted` bytes if records are not used. Returns false if more must be
    /// received first.
    pub(super) fn open_more(&mut self, wanted: usize) -> Result<bool, StreamError> {
        if matches!(self.layer, Layer::Clear) {
            let taken = wanted.min(self.incoming.filled().len());
            self.opened
                .extend_from_slice(&self.incoming.filled()[..taken]);
            self.incoming.consume(taken);
            return Ok(taken > 0);
        }
        let mut opened = mem::take(&mut self.opened);
        let more = self.open_record(&mut |plain| opened.extend_from_slice(plain));
        self.opened = opened;
        more
    }

    /// Decrypts the record at the front into `sink`. Returns false if the record is incomplete, or none will follow.
    pub(super) fn open_record(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<bool, StreamError> {
        let Layer::Tls { session, .. } = &mut self.layer else {
            return Ok(false);
        };
        if self.closed {
            return Ok(false);
        }
        let bytes = match self.incoming.record(0) {
            Record::Partial => return Ok(false),
            Record::TooLong(bytes) => {
                return Err(self
                    .socket
                    .peer_fault(format!("a TLS record of {bytes} bytes")));
            }
            Record::Whole(bytes) => bytes,
        };
        match session.open(self.incoming.front_mut(bytes), &mut self.control, sink) {
            Ok(opened) => {
                self.incoming.consume(opened.used);
                self.closed |= opened.closed;
                if opened.used == bytes {
                    Ok(true)
                } else {
                    Err(self
                        .socket
                        .peer_fault("a TLS handshake message cut into several records"))
                }
            }
            Err(error) => {
                // The alert informs the peer of the reason; it is not sent inside a frame.
                if !self.control.is_empty() && !self.sending_over {
                    self.sending_over = true;
                    let _ = self.socket.send(self.control.filled(), &[]);
                }
                Err(StreamError::Tls {
                    peer: self.socket.peer().to_owned(),
                    error,
                })
            }
        }
    }

    /// Receives once. Returns false if no bytes have arrived, or the stream has ended.
    pub(super) fn fill(&mut self) -> Result<bool, StreamError> {
        let protected = self.layer.protects_payload();
        let room = self.incoming.room();
        // Unencrypted payloads are received directly into their buffer: bytes received here after a head would be
        // copied once more.
        let bytes = if protected {
            room.len()
        } else {
            room.len().min(RECORD_BYTES_MAX)
        };
        match self.socket.receive(&mut room[..bytes], &mut []) {
            Ok(Some(0)) => {
                self.ended = true;
                Ok(false)
            }
            Ok(Some(bytes)) => {
                self.incoming.commit(bytes);
                self.drained = false;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.socket.network_fault("receive", error)),
        }
    }

    /// One step of receiving a protected payload: from decrypted bytes, otherwise from the next record. Returns zero if
    /// more must be received.
    pub(super) fn payload_protected(&mut self, into: &mut [u8]) -> Result<usize, StreamError> {
        if !self.opened.is_empty() {
            let taken = into.len().min(self.opened.len());
            into[..taken].copy_from_slice(&self.opened[..taken]);
            self.opened.drain(..taken);
            return Ok(taken);
        }
        let mut rest = mem::take(&mut self.opened);
        let mut taken = 0;
        let mut more = true;
        while more && taken < into.len() {
            let opened = self.open_record(&mut |plain| {
                let here = plain.len().min(into.len() - taken);
                into[taken..taken + here].copy_from_slice(&plain[..here]);
                rest.extend_from_slice(&plain[here..]);
                taken += here;
            });
            match opened {
                Ok(opened) => more = opened,
                Err(error) => {
                    self.opened = rest;
                    return Err(error);
                }
            }
        }
        self.opened = rest;
        if taken == 0 {
            if self.closed {
                return Err(self.error_end());
            }
            self.fill()?;
        }
        Ok(taken)
    }

    /// One step of receiving an unencrypted payload: from received bytes, otherwise from the socket directly into its
    /// buffer.
    pub(super) fn payload_clear(&mut self, into: &mut [u8]) -> Result<usize, StreamError> {
        if !self.incoming.is_empty() {
            let taken = into.len().min(self.incoming.filled().len());
            into[..taken].copy_from_slice(&self.incoming.filled()[..taken]);
            self.incoming.consume(taken);
            return Ok(taken);
        }
        // The same call also receives the head that follows the payload.
        let room = self.incoming.room();
        let tail = room.len().min(HEAD_AHEAD_BYTES);
        match self.socket.receive(into, &mut room[..tail]) {
            Ok(Some(0)) => {
                self.ended = true;
                Ok(0)
            }
            Ok(Some(bytes)) => {
                let taken = bytes.min(into.len());
                self.incoming.commit(bytes - taken);
                Ok(taken)
            }
            Ok(None) => Ok(0),
            Err(error) => Err(self.socket.network_fault("receive", error)),
        }
    }

    /// Waits for bytes of a payload until the stall limit since `since` is over, or the owner ends the stream.
    pub(super) fn await_payload(&mut self, since: Instant) -> Result<(), StreamError> {
        let began = Instant::now();
        let left = self
            .patience
            .left(&self.socket, "receiving", began.duration_since(since))?;
        let end = self.waker.end_fd();
        // Waits only for the payload's part of an incomplete record, because at least that much must still arrive.
        let due = self
            .payload_due
            .saturating_sub(self.incoming.filled().len());
        let input_bytes = u32::try_from(due).unwrap_or(u32::MAX);
        let ready = self.socket.poll(
            PollFlags::IN,
            input_bytes.clamp(1, self.input_bytes),
            Some(end),
            left.min(METER_EVERY),
        );
        let passed = began.elapsed();
        self.counters.blocked_receiving += passed;
        self.measure_if_due(began + passed);
        match ready {
            Ok(ready) if ready.woken => Err(StreamError::Ended {
                peer: self.socket.peer().to_owned(),
            }),
            Ok(_) => Ok(()),
            Err(error) => Err(self.socket.network_fault("poll", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use godwit_proto::{FrameKind, Prelude};

    use crate::{Stream as _, StreamOptions, local_pair};

    #[test]
    fn a_head_that_is_too_long_is_not_kept_and_the_frames_around_it_are_whole() {
        let (mut near, mut far) = local_pair(&StreamOptions::default()).expect("a pair");
        far.keep_heads_up_to(1_000);
        let lengths = [999, 1_000, 1_001, 1 << 20, 7];
        let sending = thread::spawn(move || {
            for bytes in lengths {
                let prelude = Prelude {
                    kind: FrameKind::OPEN,
                    head_bytes: bytes,
                    ..Prelude::default()
                };
                let mut frame = prelude.encode().to_vec();
                frame.resize(frame.len() + bytes as usize, b'x');
                near.send_all(&frame).expect("sent");
            }
            near
        });
        for bytes in lengths {
            let (prelude, head) = loop {
                if let Some(frame) = far.try_recv().expect("received") {
                    break frame;
                }
                assert!(far.opened.len() <= 64 << 10, "a long head is kept");
                far.wait(Duration::from_secs(10)).expect("waited");
            };
            assert_eq!(prelude.head_bytes, bytes);
            let kept = if bytes <= 1_000 { bytes as usize } else { 0 };
            assert_eq!(head.len(), kept);
        }
        drop(sending.join().expect("sent"));
    }
}
