//! Owns a stream over one socket: its state, its errors, and the calls its user makes.
//! The session handles records and keys; the caller interprets frames.

mod inbox;
mod patience;
mod receive;
mod send;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_proto::{PRELUDE_BYTES, Prelude};
use godwit_sys::tcp_info::TcpInfo;
use rustix::event::PollFlags;

use crate::aead::{Library, library};
use crate::buffer::{InBuffer, OutBuffer};
use crate::limits::{INPUT_BYTES_MAX, INPUT_PARTS, METER_EVERY};
use crate::meter::{StreamMeasure, StreamMeter};
use crate::pulse::Pulse;
use crate::session::Session;
use crate::socket::Socket;
use crate::stream::{Stream, StreamCounters, StreamError, StreamOptions, Wake};
use crate::tls::Cipher;
use crate::waker::Waker;
use inbox::Inbox;
use patience::Patience;

/// A [`Stream`] over TCP with TLS, or over a socket pair inside this process without TLS.
pub struct Connection {
    pub(crate) socket: Socket,
    layer: Layer,
    incoming: InBuffer,
    /// Decrypted bytes of frames that were not returned yet: at most one head and one record.
    opened: Vec<u8>,
    /// Frames received during a blocked send.
    inbox: Inbox,
    /// Remaining payload bytes of the last returned frame.
    payload_due: usize,
    /// Longest head that is kept; a longer head is dropped.
    head_bytes_max: u32,
    head_bytes_dropped: usize,
    /// Number of payload bytes that ends a wait.
    input_bytes: u32,
    outgoing: OutBuffer,
    /// Messages of TLS; sent before the next record, never inside an unencrypted payload.
    control: OutBuffer,
    waker: Waker,
    patience: Patience,
    /// Bytes of content that may still be sent in blocks; `None` means no limit.
    early_bytes: Option<u64>,
    relayed: bool,
    channel: u32,
    counters: StreamCounters,
    meter: Arc<StreamMeter>,
    /// Time of the next measurement.
    measure_due: Instant,
    /// Time of the last count of bytes acknowledged by the peer's kernel, and that count.
    acknowledged: (Instant, u64),
    /// Current pace of the socket.
    pace: u64,
    /// The received bytes contain no complete frame, so waiting makes sense.
    drained: bool,
    /// The peer announced the end of its stream.
    closed: bool,
    /// The socket has returned its last byte.
    ended: bool,
    /// A send failed or `shutdown` was called: nothing more may be sent.
    sending_over: bool,
}

/// The layer between frames and socket.
pub(crate) enum Layer {
    /// No encryption: within one process only.
    Clear,
    /// TLS; payloads bypass it if `plain_payload`.
    Tls {
        session: Box<Session>,
        plain_payload: bool,
    },
}

impl Layer {
    const fn protects_payload(&self) -> bool {
        matches!(
            self,
            Self::Tls {
                plain_payload: false,
                ..
            }
        )
    }
}

impl Connection {
    /// A stream over `socket`; `incoming` holds bytes received after the handshake.
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
            inbox: Inbox::default(),
            payload_due: 0,
            input_bytes: 1,
            outgoing: OutBuffer::default(),
            control: OutBuffer::default(),
            waker: Waker::new()?,
            patience: Patience::new(options.stall_limit),
            early_bytes: None,
            head_bytes_max: u32::MAX,
            head_bytes_dropped: 0,
            relayed: false,
            channel: 0,
            counters: StreamCounters::default(),
            meter: Arc::default(),
            measure_due: Instant::now(),
            acknowledged: (Instant::now(), 0),
            pace: 0,
            drained: false,
            closed: false,
            ended: false,
            sending_over: false,
        })
    }

    /// Limits blocks on this connection to this much content, until there is a better connection.
    pub fn carry_blocks_up_to(&mut self, early_bytes: u64) {
        self.early_bytes = Some(early_bytes);
    }

    /// Drops heads longer than this; the frame is returned without its head.
    pub fn keep_heads_up_to(&mut self, bytes: u32) {
        self.head_bytes_max = bytes;
    }

    /// Marks the socket as one to a program that outlives this process and relays everything.
    pub fn set_relayed(&mut self) {
        self.relayed = true;
    }

    /// Measures if a measurement is due.
    fn measure_if_due(&mut self, now: Instant) {
        if now >= self.measure_due {
            self.measure_due = now + METER_EVERY;
            self.measure();
        }
    }

    /// The error for an end of the byte stream, where no frame can follow.
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
        self.socket.network_fault(
            "receive",
            io::Error::new(io::ErrorKind::UnexpectedEof, what),
        )
    }
}

impl Stream for Connection {
    fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError> {
        let announced = head.first_chunk::<PRELUDE_BYTES>().map(Prelude::decode);
        let Some(Ok(prelude)) = announced else {
            return Err(self.socket.misuse("a frame without a valid prelude"));
        };
        if prelude.payload_bytes as usize != payload.len()
            || prelude.head_bytes as usize != head.len() - PRELUDE_BYTES
        {
            return Err(self
                .socket
                .misuse("a frame of another length than its prelude says"));
        }
        if self.sending_over {
            return Err(self
                .socket
                .misuse("a frame after a failed send or a shutdown"));
        }
        // After a partly sent frame, no valid frame can follow.
        self.sending_over = true;
        self.send_frame(head, payload)?;
        self.sending_over = false;
        self.counters.frames_out += 1;
        if let Some(left) = &mut self.early_bytes {
            *left = left.saturating_sub(payload.len() as u64);
        }
        self.measure_if_due(Instant::now());
        Ok(())
    }

    fn send_all(&mut self, frames: &[u8]) -> Result<(), StreamError> {
        let mut rest = frames;
        let mut count = 0;
        while let Some(prelude) = rest.first_chunk::<PRELUDE_BYTES>() {
            let Ok(prelude) = Prelude::decode(prelude) else {
                return Err(self.socket.misuse("a frame without a valid prelude"));
            };
            let bytes = PRELUDE_BYTES.saturating_add(prelude.head_bytes as usize);
            if prelude.payload_bytes > 0 || bytes > rest.len() {
                return Err(self
                    .socket
                    .misuse("a frame of another length than its prelude says"));
            }
            rest = &rest[bytes..];
            count += 1;
        }
        if !rest.is_empty() {
            return Err(self.socket.misuse("a frame without a valid prelude"));
        }
        if self.sending_over {
            return Err(self
                .socket
                .misuse("a frame after a failed send or a shutdown"));
        }
        self.sending_over = true;
        self.send_frame(frames, &[])?;
        self.sending_over = false;
        self.counters.frames_out += count;
        Ok(())
    }

    fn try_recv(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError> {
        if self.payload_due > 0 {
            return Err(self
                .socket
                .misuse("a frame wanted before the payload of the last one"));
        }
        let frame = if let Some(frame) = self.inbox.pop() {
            Some(frame)
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
            return Err(self.socket.misuse("more payload wanted than was announced"));
        }
        let mut filled = 0;
        let mut since = None;
        while filled < into.len() {
            let received_before = self.socket.bytes_in;
            let taken = if self.layer.protects_payload() {
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
        self.measure_if_due(Instant::now());
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
            .poll(PollFlags::IN, 1, Some(self.waker.as_fd()), timeout)
            .map_err(|error| self.socket.network_fault("poll", error))?;
        if ready.woken {
            self.waker.clear();
            Ok(Wake::Woken)
        } else if ready.input {
            Ok(Wake::Readable)
        } else {
            Ok(Wake::TimedOut)
        }
    }

    fn wait_woken(&mut self, timeout: Duration) -> Result<Wake, StreamError> {
        if self
            .waker
            .wait(timeout)
            .map_err(|error| self.socket.network_fault("poll", error))?
        {
            Ok(Wake::Woken)
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
        self.patience.stall_limit = limit;
        // The kernel's limit is only a second guard; if the kernel refuses it, ours still applies.
        let _ = self.socket.set_user_timeout(limit);
    }

    fn carries_blocks(&self) -> bool {
        self.early_bytes.is_none()
    }

    fn early_bytes_left(&self) -> u64 {
        self.early_bytes.unwrap_or_default()
    }

    fn is_relayed(&self) -> bool {
        self.relayed
    }

    fn cipher(&self) -> Option<(Cipher, Library)> {
        let Layer::Tls { session, .. } = &self.layer else {
            return None;
        };
        let suite = session.state().negotiated_cipher_suite();
        let cipher = suite.and_then(Cipher::of_suite);
        cipher.map(|cipher| (cipher, library()))
    }

    fn channel(&self) -> u32 {
        self.channel
    }

    fn set_channel(&mut self, channel: u32) {
        self.channel = channel;
    }

    fn pulse(&self) -> Option<Pulse> {
        self.socket.pulse()
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

    fn meter(&self) -> Arc<StreamMeter> {
        Arc::clone(&self.meter)
    }

    fn set_network_use(&mut self, congestion: &str, background: bool) -> Result<(), StreamError> {
        self.socket
            .set_network_use(congestion, background)
            .map_err(|error| {
                self.socket
                    .network_fault("choose the congestion control", error)
            })
    }

    fn measure(&mut self) {
        let pace = self.meter.pace();
        if pace != self.pace {
            self.pace = pace;
            self.socket.set_pace(pace);
        }
        let tcp = self.socket.tcp_info();
        if let Some(tcp) = &tcp {
            self.socket.follow_short_path(tcp);
            let acknowledged = tcp.acknowledged_bytes.saturating_sub(self.acknowledged.1);
            let passed = self.acknowledged.0.elapsed();
            // A shorter interval gives random results.
            if passed >= METER_EVERY {
                self.acknowledged = (Instant::now(), tcp.acknowledged_bytes);
                let passed = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
                let rate = acknowledged.saturating_mul(1_000_000) / passed.max(1);
                if rate > 0 {
                    self.socket.hold_little(tcp, rate);
                }
            }
            self.input_bytes = (tcp.receive_space_bytes / INPUT_PARTS).clamp(1, INPUT_BYTES_MAX);
        }
        self.meter.store(StreamMeasure {
            bytes_in: self.socket.bytes_in,
            bytes_out: self.socket.bytes_out,
            blocked_sending: self.counters.blocked_sending,
            blocked_receiving: self.counters.blocked_receiving,
            tcp,
        });
    }

    fn shutdown(&mut self) {
        if !self.sending_over {
            self.sending_over = true;
            if let Layer::Tls { session, .. } = &mut self.layer
                && session.close(&mut self.control).is_ok()
            {
                let _ = self.socket.send(self.control.filled(), &[]);
            }
        }
        self.socket.end();
    }
}
