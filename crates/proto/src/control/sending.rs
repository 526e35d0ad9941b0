//! Owns the message in which a sender reports its kernel's measurements of one of its streams. Does not
//! measure. `docs/wire.md`, "STATUS".

use prost::Message;

use super::{decode, encode};
use crate::error::WireError;
use crate::prelude::FrameKind;

/// The stream that carries this message, according to the kernel of the sending end.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct SendingStream {
    /// Smoothed RTT.
    #[prost(uint64, tag = "1")]
    pub round_trip_ns: u64,
    /// Minimum RTT of the recent past.
    #[prost(uint64, tag = "2")]
    pub round_trip_min_ns: u64,
    /// Latest measured delivery rate.
    #[prost(uint64, tag = "3")]
    pub delivery_bytes_per_second: u64,
    /// Whether the rate was measured while there was too little data to send.
    #[prost(bool, tag = "4")]
    pub delivery_app_limited: bool,
    /// Congestion window in bytes.
    #[prost(uint64, tag = "5")]
    pub window_bytes: u64,
    /// Bytes in flight.
    #[prost(uint64, tag = "6")]
    pub unacknowledged_bytes: u64,
    /// Unsent bytes in the socket.
    #[prost(uint64, tag = "7")]
    pub unsent_bytes: u64,
    /// Time with data to send. This and all following fields count from the start of the connection.
    #[prost(uint64, tag = "8")]
    pub busy_ns: u64,
    /// Part of `busy_ns` limited by the receiver's window.
    #[prost(uint64, tag = "9")]
    pub window_limited_ns: u64,
    /// Part of `busy_ns` limited by the send buffer.
    #[prost(uint64, tag = "10")]
    pub buffer_limited_ns: u64,
    /// Segments with data, including retransmissions.
    #[prost(uint64, tag = "11")]
    pub segments_sent: u64,
    /// Retransmitted segments.
    #[prost(uint64, tag = "12")]
    pub segments_resent: u64,
    /// Bytes sent, including retransmissions.
    #[prost(uint64, tag = "13")]
    pub bytes_sent: u64,
    /// Retransmitted bytes.
    #[prost(uint64, tag = "14")]
    pub bytes_resent: u64,
    /// Bytes that the receiving kernel has acknowledged.
    #[prost(uint64, tag = "15")]
    pub bytes_acknowledged: u64,
    /// Time that the sender waited for room in the socket.
    #[prost(uint64, tag = "16")]
    pub blocked_ns: u64,
}

impl SendingStream {
    /// Appends the frame's head image to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, FrameKind::SENDING, out);
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        decode(head, "SENDING")
    }
}
