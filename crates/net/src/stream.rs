//! Owns the contract of a stream: one connection that carries frames both ways.
//! Knows neither the meaning of frames nor how a connection is made.
//!
//! One thread drives a stream in both directions: a non-blocking socket, `poll`, and an eventfd that wakes it.
//! Therefore acknowledgements are sent between blocks without a second thread, and TLS state needs no lock.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use godwit_proto::Prelude;
use godwit_sys::tcp_info::TcpInfo;
use thiserror::Error;

use crate::aead::Library;
use crate::limits::{REKEY_RECORDS, STALL_LIMIT};
use crate::meter::StreamMeter;
use crate::pulse::Pulse;
use crate::tls::Cipher;
use crate::waker::Waker;

/// One connection that carries whole frames in both directions, driven by one thread.
///
/// A frame is `prelude ‖ head ‖ payload`. [`Stream::send`] expects the head image that the encoders of `godwit-proto`
/// append: prelude and head together. The payload is passed separately, so that it is never copied before it is
/// encrypted.
///
/// An owner's loop is: `try_recv` until `None`, `send` pending frames, `wait`.
///
/// After an error nothing more can be sent; `try_recv` may still return frames that arrived before, among them the
/// peer's reason for closing.
pub trait Stream: Send {
    /// Sends one frame: `head` is the image of prelude and head, `payload` has exactly the length that the prelude
    /// announces.
    ///
    /// Returns when the kernel has accepted all bytes. While the socket is full, arriving frames without payload are
    /// kept for `try_recv`, up to [`limits::INBOX_FRAMES_MAX`](crate::limits::INBOX_FRAMES_MAX) and
    /// [`limits::INBOX_BYTES_MAX`](crate::limits::INBOX_BYTES_MAX). Therefore two busy ends do not block each other as
    /// long as payloads are sent in one direction only.
    ///
    /// # Errors
    /// [`StreamError::Stalled`] when no byte could be sent for the stall limit, [`StreamError::Ended`] soon after
    /// [`Waker::end`], otherwise the fault of network, TLS or peer. The frame may then be partly sent: the stream can
    /// send nothing more.
    fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError>;

    /// Sends several frames without payload, concatenated in `frames`, in one call.
    ///
    /// # Errors
    /// As for [`Stream::send`].
    fn send_all(&mut self, frames: &[u8]) -> Result<(), StreamError>;

    /// The next frame, if its whole prelude and head have arrived. Never blocks.
    ///
    /// The `Vec` is the head without its prelude. A frame whose `payload_bytes` is not zero must be followed by
    /// [`Stream::recv_payload`] before the next call.
    ///
    /// # Errors
    /// [`StreamError::Closed`] once the peer has closed in order, between two frames.
    fn try_recv(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError>;

    /// Receives the next `into.len()` bytes of the payload that the last frame announced; blocks until they arrive.
    ///
    /// May be called several times for one payload.
    ///
    /// # Errors
    /// [`StreamError::Stalled`] when nothing arrives for the stall limit; [`StreamError::Ended`] when the call had to
    /// wait after [`Waker::end`]; [`StreamError::Misuse`] when `into` is longer than the rest of the payload.
    fn recv_payload(&mut self, into: &mut [u8]) -> Result<(), StreamError>;

    /// Waits until a frame may have arrived, the [`Waker`] was used, or the timeout is over.
    ///
    /// Spurious returns are possible: check everything after any result. [`Wake::Woken`] takes precedence over
    /// [`Wake::Readable`] if both are true. End of stream and errors count as readable.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait.
    fn wait(&mut self, timeout: Duration) -> Result<Wake, StreamError>;

    /// Waits for the [`Waker`] or the timeout, and ignores arriving data; for an owner that can process no data now.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait.
    fn wait_woken(&mut self, timeout: Duration) -> Result<Wake, StreamError>;

    /// A handle that ends a `wait` from another thread; a wake before the wait is not lost.
    fn waker(&self) -> Waker;

    /// The other end, for messages: `192.0.2.7:7272`.
    fn peer(&self) -> String;

    /// From now on payloads travel unencrypted (both ends must switch at the same frame); heads stay encrypted.
    ///
    /// Without effect on a stream inside one process.
    fn set_plain_payload(&mut self, plain: bool);

    /// The longest time without progress that `send` and `recv_payload` tolerate.
    fn set_stall_limit(&mut self, limit: Duration);

    /// Whether blocks may travel on the stream; a stream without blocks carries everything else.
    fn carries_blocks(&self) -> bool {
        true
    }

    /// For a stream without blocks: block content that may still be sent on it while no stream with blocks exists.
    fn early_bytes_left(&self) -> u64 {
        0
    }

    /// Whether sent data reaches the peer even if this process ends at once, because another program relays it.
    fn is_relayed(&self) -> bool {
        false
    }

    /// Counters since the stream was opened.
    fn counters(&self) -> StreamCounters;

    /// The kernel's view of the connection; `None` if it is not TCP.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// The stream's measurements, readable by any thread at any time. At most
    /// [`limits::METER_EVERY`](crate::limits::METER_EVERY) old while the stream sends, receives or waits often enough.
    fn meter(&self) -> Arc<StreamMeter>;

    /// Measures now: call before long waits, and before the stream is given up.
    fn measure(&mut self);

    /// The cipher of the connection, and the library here that implements it; `None` inside one process.
    fn cipher(&self) -> Option<(Cipher, Library)> {
        None
    }

    /// Number of the channel that the stream runs over, as the client counts them from 0.
    fn channel(&self) -> u32 {
        0
    }

    /// Sets the number of the channel that the stream runs over.
    fn set_channel(&mut self, channel: u32) {
        let _ = channel;
    }

    /// A handle on its connection for other threads; `None` if it is not TCP, or the process is out of descriptors.
    fn pulse(&self) -> Option<Pulse> {
        None
    }

    /// Sets the congestion control by the kernel's name, unless the name is empty. Also sets whether packets are
    /// marked to yield to all other traffic (LE, RFC 8622). Without effect if the connection is not TCP.
    ///
    /// # Errors
    /// The kernel refuses the congestion control.
    fn set_network_use(&mut self, congestion: &str, background: bool) -> Result<(), StreamError> {
        let _ = (congestion, background);
        Ok(())
    }

    /// Closes in order: informs the peer that no bytes follow, then shuts down the sending direction. Best effort,
    /// never blocks.
    fn shutdown(&mut self);
}

/// Why a [`Stream::wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Data can be received, or the connection has ended.
    Readable,
    /// [`Waker::wake`] was called.
    Woken,
    /// The timeout was over first.
    TimedOut,
}

/// Counters of a stream since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Bytes read from the socket, with all overhead of framing and TLS.
    pub bytes_in: u64,
    /// Bytes written to the socket, with all overhead of framing and TLS.
    pub bytes_out: u64,
    /// Whole frames received (returned or in the inbox).
    pub frames_in: u64,
    /// Whole frames sent.
    pub frames_out: u64,
    /// Time that `send` spent waiting for room in the socket.
    pub blocked_sending: Duration,
    /// Time that `recv_payload` spent waiting for bytes.
    pub blocked_receiving: Duration,
    /// TLS traffic keys that this side replaced without a request of the peer.
    pub key_updates: u64,
}

/// How a stream behaves; the defaults are right outside tests.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Options of a stream; the defaults are right outside tests.
    pub plain_payload: bool,
    /// See [`Stream::set_stall_limit`].
    pub stall_limit: Duration,
    /// TLS records sent under one key before it is replaced.
    pub rekey_records: u64,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            plain_payload: false,
            stall_limit: STALL_LIMIT,
            rekey_records: REKEY_RECORDS,
        }
    }
}

/// The failure of a stream, and whose fault it is.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The peer broke the protocol.
    #[error("{peer}: the peer broke the protocol: {what}")]
    Peer {
        /// The other end.
        peer: String,
        /// The peer's violation.
        what: String,
    },
    /// The network or the kernel failed.
    #[error("{peer}: {operation}: {source}")]
    Network {
        /// The other end.
        peer: String,
        /// The operation that failed.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The peer closed the connection in order, between two frames.
    #[error("{peer}: the peer closed the connection")]
    Closed {
        /// The other end.
        peer: String,
    },
    /// No progress for the stall limit.
    #[error("{peer}: no progress for {} s while {doing}", after.as_secs_f64())]
    Stalled {
        /// The other end.
        peer: String,
        /// `sending` or `receiving`.
        doing: &'static str,
        /// Time without progress.
        after: Duration,
    },
    /// This side ended the stream while it waited for the peer ([`Waker::end`]).
    #[error("{peer}: stopped by this side")]
    Ended {
        /// The other end.
        peer: String,
    },
    /// TLS refused something: a forged or damaged record, or an alert from the peer.
    #[error("{peer}: TLS: {error}")]
    Tls {
        /// The other end.
        peer: String,
        /// The error that rustls reported.
        error: rustls::Error,
    },
    /// The caller broke the contract of [`Stream`].
    #[error("stream to {peer} misused: {what}")]
    Misuse {
        /// The other end.
        peer: String,
        /// The caller's mistake.
        what: &'static str,
    },
}

impl StreamError {
    /// Whether a new connection may succeed: true for faults of the network, false for faults of the peer.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Network { .. }
            | Self::Closed { .. }
            | Self::Stalled { .. }
            | Self::Ended { .. }
            | Self::Tls { .. } => true,
            Self::Peer { .. } | Self::Misuse { .. } => false,
        }
    }
}
