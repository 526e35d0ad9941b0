//! Owns the message in which a sender tells of one of its streams what its kernel knows of it.
//! Measures nothing. `docs/wire.md`, "STATUS".

use prost::Message;

use super::{decode, encode};
use crate::error::WireError;
use crate::prelude::FrameKind;

/// The stream that this comes on, as the kernel of the sending end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Sending {
    /// Smoothed round trip time.
    #[prost(uint64, tag = "1")]
    pub round_trip_ns: u64,
    /// The least one of late.
    #[prost(uint64, tag = "2")]
    pub round_trip_min_ns: u64,
    /// Latest measured delivery rate.
    #[prost(uint64, tag = "3")]
    pub delivery_bytes_per_second: u64,
    /// It was measured while there was not enough to send.
    #[prost(bool, tag = "4")]
    pub delivery_app_limited: bool,
    /// What the congestion control lets fly.
    #[prost(uint64, tag = "5")]
    pub window_bytes: u64,
    /// What flies.
    #[prost(uint64, tag = "6")]
    pub unacknowledged_bytes: u64,
    /// What waits in the socket.
    #[prost(uint64, tag = "7")]
    pub unsent_bytes: u64,
    /// Since the connection began, as all that follows: there was something to send.
    #[prost(uint64, tag = "8")]
    pub busy_ns: u64,
    /// The part of it limited by the window of the receiver.
    #[prost(uint64, tag = "9")]
    pub window_limited_ns: u64,
    /// The part of it limited by the send buffer.
    #[prost(uint64, tag = "10")]
    pub buffer_limited_ns: u64,
    /// Segments with data, those sent again included.
    #[prost(uint64, tag = "11")]
    pub segments_sent: u64,
    /// Segments sent again.
    #[prost(uint64, tag = "12")]
    pub segments_resent: u64,
    /// Bytes, those sent again included.
    #[prost(uint64, tag = "13")]
    pub bytes_sent: u64,
    /// Bytes sent again.
    #[prost(uint64, tag = "14")]
    pub bytes_resent: u64,
    /// Bytes that the receiving kernel has acknowledged.
    #[prost(uint64, tag = "15")]
    pub bytes_acknowledged: u64,
    /// Time that the sender waited for room in the socket.
    #[prost(uint64, tag = "16")]
    pub blocked_ns: u64,
}

impl Sending {
    /// Appends the frame's head image to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, FrameKind::SENDING, out);
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        decode(head, "SENDING")
    }
}
