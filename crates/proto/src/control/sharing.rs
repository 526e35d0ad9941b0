//! Owns a client's requests about a transfer's share of the network, when it is opened and while it runs. Does not limit.
//! `docs/wire.md`, "Sharing".

use prost::Message;

use super::{decode, encode};
use crate::error::WireError;
use crate::limits::CONGESTION_BYTES_MAX;
use crate::prelude::FrameKind;

/// How the sockets and threads of a transfer behave towards others.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sharing {
    /// The congestion control of the sockets that send contents, by the kernel's name; if empty, the sending end chooses.
    #[prost(string, tag = "1")]
    pub congestion: String,
    /// The transfer yields to all other traffic.
    #[prost(bool, tag = "2")]
    pub background: bool,
}

impl Sharing {
    /// Checks that the name is possible in a kernel.
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

/// The receiving client of a transfer requests another limit or priority from the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Limit {
    /// Most bytes of content a second; 0 for no limit.
    #[prost(uint64, tag = "1")]
    pub bytes_per_second: u64,
    /// See [`priority`]; 0 leaves it unchanged.
    #[prost(uint32, tag = "2")]
    pub priority: u32,
}

/// How a transfer behaves towards other traffic while it runs.
pub mod priority {
    /// The transfer behaves like all others.
    pub const NORMAL: u32 = 1;
    /// The transfer yields to all others.
    pub const BACKGROUND: u32 = 2;

    /// The number of a priority.
    pub const fn of(background: bool) -> u32 {
        if background { BACKGROUND } else { NORMAL }
    }

    /// Whether the number means the background; `None` for an unknown number.
    pub const fn is_background(number: u32) -> Option<bool> {
        match number {
            NORMAL => Some(false),
            BACKGROUND => Some(true),
            _ => None,
        }
    }
}

impl Limit {
    /// Appends the frame's head image to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, FrameKind::LIMIT, out);
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        decode(head, "LIMIT")
    }
}
