//! Owns the contract of a stream: one connection that carries frames both ways.
//! Knows nothing of what the frames mean, and nothing of how a connection is made.
//!
//! One thread drives a stream in both directions: a non-blocking socket, `poll`, and an eventfd that wakes it. So
//! acknowledgements travel between blocks without a second thread, and TLS state needs no lock.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use godwit_proto::Prelude;
use godwit_sys::tcp_info::TcpInfo;
use thiserror::Error;

use crate::limits::{REKEY_RECORDS, STALL_LIMIT};
use crate::meter::StreamMeter;
use crate::pulse::Pulse;
use crate::waker::Waker;

/// One connection that carries whole frames in both directions, driven by one thread.
///
/// A frame is `prelude ‖ head ‖ payload`. The head image that [`Stream::send`] takes is what the encoders of
/// `godwit-proto` append: prelude and head together. The payload travels beside it, so that it is never copied
/// before it is encrypted.
///
/// The loop of an owner is: `try_recv` until it gives `None`, `send` what is to be sent, `wait`.
///
/// After an error nothing more can be sent; `try_recv` may still give frames that had arrived before, among them
/// the reason the peer had for closing.
pub trait Stream: Send {
    /// Sends one frame: `head` is the image of prelude and head, `payload` exactly the bytes the prelude announces.
    ///
    /// Returns when the kernel has taken everything. While the socket is full, arriving frames without payload are
    /// kept (up to [`limits::INBOX_FRAMES_MAX`](crate::limits::INBOX_FRAMES_MAX) and
    /// [`limits::INBOX_BYTES_MAX`](crate::limits::INBOX_BYTES_MAX)) for `try_recv`, so two busy ends do not block
    /// each other as long as payloads flow one way only.
    ///
    /// # Errors
    /// [`StreamError::Stalled`] when no byte could be sent for the stall limit, [`StreamError::Ended`] soon after
    /// [`Waker::end`], else the fault of network, TLS or peer. The frame may then have left in part: the stream is of no further use for sending.
    fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamError>;

    /// Sends several frames without payload, one after the other in `frames`, in one go.
    ///
    /// # Errors
    /// As for [`Stream::send`].
    fn send_all(&mut self, frames: &[u8]) -> Result<(), StreamError>;

    /// The next frame, if a whole prelude and head is here. Never blocks.
    ///
    /// The `Vec` is the head without its prelude. A frame whose `payload_bytes` is not zero must be followed by
    /// [`Stream::recv_payload`] before the next call.
    ///
    /// # Errors
    /// [`StreamError::Closed`] once the peer has closed in order, between two frames.
    fn try_recv(&mut self) -> Result<Option<(Prelude, Vec<u8>)>, StreamError>;

    /// Receives the next `into.len()` bytes of the payload that the last frame announced; blocks until they are here.
    ///
    /// May be called several times for one payload.
    ///
    /// # Errors
    /// [`StreamError::Stalled`] when nothing arrives for the stall limit; [`StreamError::Ended`] when it had to wait after
    /// [`Waker::end`]; [`StreamError::Misuse`] when `into` is
    /// longer than what is left of the payload.
    fn recv_payload(&mut self, into: &mut [u8]) -> Result<(), StreamError>;

    /// Waits until a frame may be here, the [`Waker`] was used, or the time is over.
    ///
    /// Spurious returns are possible; whatever the answer, look at everything. [`Wake::Woken`] goes before
    /// [`Wake::Readable`] when both are true. End of stream and errors count as readable.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait.
    fn wait(&mut self, timeout: Duration) -> Result<Wake, StreamError>;

    /// Waits for the [`Waker`] or the end of the time, whatever arrives; for an owner that can take nothing now.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait.
    fn wait_woken(&mut self, timeout: Duration) -> Result<Wake, StreamError>;

    /// A handle that ends a `wait` from another thread; a wake before the wait is not lost.
    fn waker(&self) -> Waker;

    /// The other end, for messages: `192.0.2.7:7272`.
    fn peer(&self) -> String;

    /// From now on payloads travel in clear (both ends must switch at the same frame), heads stay protected.
    ///
    /// Without effect on a stream inside one process.
    fn set_plain_payload(&mut self, plain: bool);

    /// The longest time without progress that `send` and `recv_payload` tolerate.
    fn set_stall_limit(&mut self, limit: Duration);

    /// Whether blocks may travel on it; one on which they may not carries all the rest.
    fn carries_blocks(&self) -> bool {
        true
    }

    /// Where it does not: content of blocks that may still be sent on it as long as no stream is there that does.
    fn early_bytes_left(&self) -> u64 {
        0
    }

    /// Whether what was sent reaches the peer even if this process ends at once: another program has it.
    fn is_relayed(&self) -> bool {
        false
    }

    /// What passed so far.
    fn counters(&self) -> StreamCounters;

    /// The kernel's view of the connection; `None` where it is not TCP.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// What the stream measures of itself, for any thread to read at any time; at most
    /// [`limits::METER_EVERY`](crate::limits::METER_EVERY) old while the stream sends, receives or waits often enough.
    fn meter(&self) -> Arc<StreamMeter>;

    /// Measures now: before the stream is waited on for long, and before it is given up.
    fn measure(&mut self);

    /// Number of the channel that the stream runs over, as the client counts them from 0.
    fn channel(&self) -> u32 {
        0
    }

    /// It runs over the channel of this number.
    fn set_channel(&mut self, channel: u32) {
        let _ = channel;
    }

    /// A handle on its connection for other threads; `None` where it is not TCP, or the process is out of descriptors.
    fn pulse(&self) -> Option<Pulse> {
        None
    }

    /// Chooses the congestion control by the kernel's name, unless it is empty, and whether packets are marked from now on as
    /// those that yield to all others (LE, RFC 8622). Without effect where the connection is not TCP.
    ///
    /// # Errors
    /// The kernel does not let it have the congestion control.
    fn share(&mut self, congestion: &str, background: bool) -> Result<(), StreamError> {
        let _ = (congestion, background);
        Ok(())
    }

    /// Closes in order: tells the peer that nothing follows, then shuts down the sending direction. Best effort,
    /// never blocks.
    fn shutdown(&mut self);
}

/// Why a [`Stream::wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something is to be received, or the connection ended.
    Readable,
    /// [`Waker::wake`] was called.
    Woken,
    /// The time was over first.
    TimedOut,
}

/// What passed over a stream since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Bytes taken from the socket, with all overhead of framing and TLS.
    pub bytes_in: u64,
    /// Bytes given to the socket, with all overhead of framing and TLS.
    pub bytes_out: u64,
    /// Whole frames received (given out or in the inbox).
    pub frames_in: u64,
    /// Whole frames sent.
    pub frames_out: u64,
    /// Time spent in `send` waiting for room in the socket.
    pub blocked_sending: Duration,
    /// Time spent in `recv_payload` waiting for bytes.
    pub blocked_receiving: Duration,
    /// TLS traffic keys that this side replaced on its own account.
    pub key_updates: u64,
}

/// How a stream behaves; the defaults are right outside tests.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Payloads travel in clear from the first frame on (see [`Stream::set_plain_payload`]).
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

/// What went wrong on a stream, and whose fault it is.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The peer broke the protocol.
    #[error("{peer}: the peer broke the protocol: {what}")]
    Peer {
        /// The other end.
        peer: String,
        /// What it did.
        what: String,
    },
    /// The network or the kernel failed.
    #[error("{peer}: {operation}: {source}")]
    Network {
        /// The other end.
        peer: String,
        /// What was being done.
        operation: &'static str,
        /// What the kernel said.
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
        /// How long nothing moved.
        after: Duration,
    },
    /// This side wanted the stream no longer while it waited for the peer ([`Waker::end`]).
    #[error("{peer}: given up by this side")]
    Ended {
        /// The other end.
        peer: String,
    },
    /// TLS refused something: a forged or damaged record, or an alert from the peer.
    #[error("{peer}: TLS: {error}")]
    Tls {
        /// The other end.
        peer: String,
        /// What it was.
        error: rustls::Error,
    },
    /// The caller broke the contract of [`Stream`].
    #[error("stream to {peer} misused: {what}")]
    Misuse {
        /// The other end.
        peer: String,
        /// What the caller did.
        what: &'static str,
    },
}

impl StreamError {
    /// Whether a new connection may do better: the network's faults, not the peer's.
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
