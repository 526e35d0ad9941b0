//! Owns a stream over one socket: frames out, frames in, the inbox that keeps two busy ends from blocking each other.
//! Leaves records and keys to the session, and the meaning of frames to its user.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

use godwit_proto::{PRELUDE_BYTES, Prelude};
use godwit_sys::tcp_info::TcpInfo;
use rustix::event::PollFlags;

use crate::buffer::{InBuffer, OutBuffer, Record};
use crate::limits::{INBOX_BYTES_MAX, INBOX_FRAMES_MAX, SEAL_BYTES};
use crate::session::Session;
use crate::socket::Socket;
use crate::stream::{Stream, StreamCounters, StreamError, StreamOptions, Wake};
use crate::waker::Waker;

/// A [`Stream`] over TCP with TLS, or over a pair inside this process without.
pub struct Connection {
    pub(crate) socket: Socket,
    layer: Layer,
    incoming: InBuffer,
    /// Bytes of frames, opened and not yet given out: at most one head and one record.
    opened: Vec<u8>,
    /// Frames taken in during a blocked send, and one with payload at most, as the last.
    inbox: VecDeque<(Prelude, Vec<u8>)>,
    inbox_bytes: usize,
    payload_in_inbox: bool,
    /// What is left of the payload of the frame given out last.
    payload_due: usize,
    outgoing: OutBuffer,
    /// What TLS has to say on its own; leaves before the next record, never inside a payload in clear.
    control: OutBuffer,
    waker: Waker,
    stall_limit: Duration,
    counters: StreamCounters,
    /// Nothing that is here already makes a frame: waiting makes sense.
    drained: bool,
    /// The peer said that nothing follows.
    closed: bool,
    /// The socket has given its last byte.
    ended: bool,
    /// A send failed or `shutdown` was called: nothing more may be sent.
    sending_over: bool,
}

/// What lies between frames and socket.
pub(crate) enum Layer {
    /// Nothing: within one process only.
    Clear,
    /// TLS; payloads go around it if `plain_payload`.
    Tls {
        session: Session,
        plain_payload: bool,
    },
}

impl Connection {
    /// A stream over `socket`; `incoming` is what the handshake received and did not need.
    pub(crate) fn new(
        socket: Socket,
        layer: Layer,
        incoming: InBuffer,
        options: &StreamOptions,
    ) -> io::Result<Self> {
        Ok(Self {
            socket,
            layer,
            incoming,
            opened: Vec::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            payload_in_inbox: false,
            payload_due: 0,
            outgoing: OutBuffer::default(),
            control: OutBuffer::default(),
            waker: Waker::new()?,
            stall_limit: options.stall_limit,
            counters: StreamCounters::default(),
            drained: false,
            closed: false,
            ended: false,
            sending_over: false,
        })
    }

    fn payload_is_protected(&self) -> bool {
        matches!(
            self.layer,
            Layer::Tls {
                plain_payload: false,
                ..
            }
        )
    }

    fn error_peer(&self, what: impl Into<String>) -> StreamError {
        StreamError::Peer {
            peer: self.socket.peer().to_owned(),
            what: what.into(),
        }
    }

    fn error_network(&self, operation: &'static str, source: io::Error) -> StreamError {
        StreamError::Network {
            peer: self.socket.peer().to_owned(),
            operation,
            source,
        }
    }

    fn error_misuse(&self, what: &'static str) -> StreamError {
        StreamError::Misuse {
            peer: self.socket.peer().to_owned(),
            what,
        }
    }

    /// The end of the byte stream, where no frame can follow.
    fn error_end(&self) -> StreamError {
        let between_frames =
            self.opened.is_empty() && self.incoming.is_empty() && self.payload_due == 0;
        let clear = matches!(self.layer, Layer::Clear);
        if between_frames && (self.closed || clear) {
            return StreamError::Closed {
                peer: self.socket.peer().to_owned(),
            };
        }
        let what = if between_frames {
            "the connection was cut"
        } else {
            "the connection was cut in the middle of a frame"
        };
        self.error_network(
            "receive",
            io::Error::new(io::ErrorKind::UnexpectedEof, what),
        )
    }
}

/// Sending.
impl Connection {
    fn send_frame(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError> {
        let mut out = mem::take(&mut self.outgoing);
        out.clear();
        let sent = self.send_through(head, payload, &mut out);
        self.outgoing = out;
        sent
    }

    fn send_through(
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

    /// Sends what is sealed once another part would not stay in cache with it.
    fn flush_unless_room(&mut self, bytes: usize, out: &mut OutBuffer) -> Result<(), StreamError> {
        // A small head does not cost the first part of the payload a call of its own.
        if out.filled().len() + bytes > SEAL_BYTES + SEAL_BYTES / 8 {
            self.transmit(out.filled(), &[])?;
            out.clear();
        }
        Ok(())
    }

    fn seal(&mut self, plain: &[u8], out: &mut OutBuffer) -> Result<(), StreamError> {
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

    fn transmit(&mut self, mut first: &[u8], mut second: &[u8]) -> Result<(), StreamError> {
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

    /// Waits for room in the socket, and takes in what arrives meanwhile.
    fn await_room(&mut self, since: Instant) -> Result<(), StreamError> {
        loop {
            let mut want = PollFlags::OUT;
            if self.may_take_in() {
                want |= PollFlags::IN;
            }
            let began = Instant::now();
            let left = self.time_left("sending", began.duration_since(since))?;
            let ready = self.socket.poll(want, None, left);
            self.counters.blocked_sending += began.elapsed();
            let ready = ready.map_err(|error| self.error_network("poll", error))?;
            if ready.input && want.contains(PollFlags::IN) {
                self.take_in()?;
            }
            if ready.output {
                return Ok(());
            }
        }
    }

    fn time_left(&self, doing: &'static str, passed: Duration) -> Result<Duration, StreamError> {
        let left = self.stall_limit.saturating_sub(passed);
        if left.is_zero() {
            return Err(StreamError::Stalled {
                peer: self.socket.peer().to_owned(),
                doing,
                after: passed,
            });
        }
        // Never rounded down to a poll that returns at once, over and over.
        Ok(left.max(Duration::from_millis(1)))
    }

    fn may_take_in(&self) -> bool {
        !self.ended
            && !self.closed
            && self.payload_due == 0
            && !self.payload_in_inbox
            && self.inbox.len() < INBOX_FRAMES_MAX
            && self.inbox_bytes < INBOX_BYTES_MAX
    }

    /// Moves frames that are here into the inbox, up to its limits and up to the first with a payload.
    fn take_in(&mut self) -> Result<(), StreamError> {
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

/// Receiving.
impl Connection {
    /// A frame made of what was received already.
    fn assemble(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError> {
        loop {
            let mut needed = PRELUDE_BYTES;
            if let Some(first) = self.opened.first_chunk::<PRELUDE_BYTES>() {
                let prelude =
                    Prelude::decode(first).map_err(|error| self.error_peer(error.to_string()))?;
                needed += prelude.head_bytes as usize;
                if self.opened.len() >= needed {
                    return self.cut_frame(prelude, needed).map(Some);
                }
            }
            if !self.open_more(needed - self.opened.len())? {
                return Ok(None);
            }
        }
    }

    fn cut_frame(
        &mut self,
        prelude: Prelude,
        bytes: usize,
    ) -> Result<(Prelude, Vec<u8>), StreamError> {
        let rest = self.opened.split_off(bytes);
        let mut head = mem::replace(&mut self.opened, rest);
        head.drain(..PRELUDE_BYTES);
        if prelude.payload_bytes > 0 && !self.payload_is_protected() && !self.opened.is_empty() {
            return Err(self.error_peer("protected bytes where a payload in clear was announced"));
        }
        self.counters.frames_in += 1;
        Ok((prelude, head))
    }

    /// Opens one more record (or takes `wanted` bytes, where there are none). False: more must be received first.
    fn open_more(&mut self, wanted: usize) -> Result<bool, StreamError> {
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

    /// Opens the record at the front into `sink`. False: it is not here yet, or none will follow.
    fn open_record(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<bool, StreamError> {
        let Layer::Tls { session, .. } = &mut self.layer else {
            return Ok(false);
        };
        if self.closed {
            return Ok(false);
        }
        let bytes = match self.incoming.record(0) {
            Record::Partial => return Ok(false),
            Record::TooLong(bytes) => {
                return Err(self.error_peer(format!("a TLS record of {bytes} bytes")));
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
                    Err(self.error_peer("a TLS handshake message cut into several records"))
                }
            }
            Err(error) => {
                // The alert tells the peer why, unless it would land inside a frame.
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

    /// Receives once. False: nothing is here, or the end was reached.
    fn fill(&mut self) -> Result<bool, StreamError> {
        match self.socket.receive(self.incoming.room(), &mut []) {
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
            Err(error) => Err(self.error_network("receive", error)),
        }
    }

    /// One step of a protected payload: from what is open, else from the next record. Zero: more must be received.
    fn payload_protected(&mut self, into: &mut [u8]) -> Result<usize, StreamError> {
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

    /// One step of a payload in clear: from what was received, else from the socket straight to its place.
    fn payload_clear(&mut self, into: &mut [u8]) -> Result<usize, StreamError> {
        if !self.incoming.is_empty() {
            let taken = into.len().min(self.incoming.filled().len());
            into[..taken].copy_from_slice(&self.incoming.filled()[..taken]);
            self.incoming.consume(taken);
            return Ok(taken);
        }
        // What comes after the payload lands in the buffer, at no further call.
        match self.socket.receive(into, self.incoming.room()) {
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
            Err(error) => Err(self.error_network("receive", error)),
        }
    }

    /// Waits for bytes of a payload, no longer than the stall limit since `since`.
    fn await_payload(&mut self, since: Instant) -> Result<(), StreamError> {
        let began = Instant::now();
        let left = self.time_left("receiving", began.duration_since(since))?;
        let ready = self.socket.poll(PollFlags::IN, None, left);
        self.counters.blocked_receiving += began.elapsed();
        ready
            .map(|_| ())
            .map_err(|error| self.error_network("poll", error))
    }
}

impl Stream for Connection {
    fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError> {
        let announced = head.first_chunk::<PRELUDE_BYTES>().map(Prelude::decode);
        let Some(Ok(prelude)) = announced else {
            return Err(self.error_misuse("a frame without a valid prelude"));
        };
        if prelude.payload_bytes as usize != payload.len()
            || prelude.head_bytes as usize != head.len() - PRELUDE_BYTES
        {
            return Err(self.error_misuse("a frame of another length than its prelude says"));
        }
        if self.sending_over {
            return Err(self.error_misuse("a frame after a failed send or a shutdown"));
        }
        // A frame that left in part can only be followed by nonsense.
        self.sending_over = true;
        self.send_frame(head, payload)?;
        self.sending_over = false;
        self.counters.frames_out += 1;
        Ok(())
    }

    fn try_recv(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError> {
        if self.payload_due > 0 {
            return Err(self.error_misuse("a frame wanted before the payload of the last one"));
        }
        let frame = if let Some((prelude, head)) = self.inbox.pop_front() {
            self.inbox_bytes -= PRELUDE_BYTES + head.len();
            self.payload_in_inbox &= prelude.payload_bytes == 0;
            Some((prelude, head))
        } else {
            loop {
                if let Some(frame) = self.assemble()? {
                    break Some(frame);
                }
                if self.closed || self.ended {
                    return Err(self.error_end());
                }
                if !self.fill()? && !self.ended {
                    self.drained = true;
                    break None;
                }
            }
        };
        if let Some((prelude, _)) = &frame {
            self.payload_due = prelude.payload_bytes as usize;
        }
        Ok(frame)
    }

    fn recv_payload(&mut self, into: &mut [u8]) -> Result<(), StreamError> {
        if into.len() > self.payload_due {
            return Err(self.error_misuse("more payload wanted than was announced"));
        }
        let mut filled = 0;
        let mut since = None;
        while filled < into.len() {
            let received_before = self.socket.bytes_in;
            let taken = if self.payload_is_protected() {
                self.payload_protected(&mut into[filled..])?
            } else {
                self.payload_clear(&mut into[filled..])?
            };
            filled += taken;
            self.payload_due -= taken;
            if taken > 0 || self.socket.bytes_in > received_before {
                since = None;
            } else if self.ended {
                return Err(self.error_end());
            } else {
                self.await_payload(*since.get_or_insert_with(Instant::now))?;
            }
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Wake, StreamError> {
        if self.waker.take() {
            return Ok(Wake::Woken);
        }
        if !self.drained || !self.inbox.is_empty() || self.ended || self.closed {
            return Ok(Wake::Readable);
        }
        let ready = self
            .socket
            .poll(PollFlags::IN, Some(&self.waker), timeout)
            .map_err(|error| self.error_network("poll", error))?;
        if ready.woken {
            self.waker.clear();
            Ok(Wake::Woken)
        } else if ready.input {
            Ok(Wake::Readable)
        } else {
            Ok(Wake::TimedOut)
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn peer(&self) -> String {
        self.socket.peer().to_owned()
    }

    fn set_plain_payload(&mut self, plain: bool) {
        if let Layer::Tls { plain_payload, .. } = &mut self.layer {
            *plain_payload = plain;
        }
    }

    fn set_stall_limit(&mut self, limit: Duration) {
        self.stall_limit = limit;
        // The kernel's own limit is a second guard only: where it refuses, ours still holds.
        let _ = self.socket.set_user_timeout(limit);
    }

    fn counters(&self) -> StreamCounters {
        StreamCounters {
            bytes_in: self.socket.bytes_in,
            bytes_out: self.socket.bytes_out,
            ..self.counters
        }
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        self.socket.tcp_info()
    }

    fn shutdown(&mut self) {
        if !self.sending_over {
            self.sending_over = true;
            if let Layer::Tls { session, .. } = &mut self.layer {
                if session.close(&mut self.control).is_ok() {
                    let _ = self.socket.send(self.control.filled(), &[]);
                }
            }
        }
        self.socket.end();
    }
}
