//! Owns what a client asks of a transfer's share of the network: at its opening, and while it runs.
//! Limits nothing. `docs/wire.md`, "Sharing".

use prost::Message;

use super::{decode, encode};
use crate::error::WireError;
use crate::limits::CONGESTION_BYTES_MAX;
use crate::prelude::FrameKind;

/// How the sockets and threads of a transfer behave towards others.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sharing {
    /// The congestion control of the sockets that send contents, by the kernel's name; empty leaves it to the end that sends.
    #[prost(string, tag = "1")]
    pub congestion: String,
    /// It yields to all other traffic.
    #[prost(bool, tag = "2")]
    pub background: bool,
}

impl Sharing {
    /// Whether the name is one that a kernel can have.
    pub(super) fn validate(&self) -> Result<(), WireError> {
        if self.congestion.len() > CONGESTION_BYTES_MAX {
            return Err(WireError::too_long(
                "name of a congestion control",
                CONGESTION_BYTES_MAX as u64,
            ));
        }
        if !self
            .congestion
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        {
            return Err(WireError::invalid(
                "name of a congestion control",
                "holds other characters than letters, digits, _ and -",
            ));
        }
        Ok(())
    }
}

/// The client of a transfer that the daemon sends has changed its limit.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Limit {
    /// Content a second at most; 0 is no limit.
    #[prost(uint64, tag = "1")]
    pub bytes_per_second: u64,
}

impl Limit {
    /// Appends the frame's head image to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, FrameKind::LIMIT, out);
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        decode(head, "LIMIT")
    }
}
