//! The reasons why a stream no longer serves a transfer. Does not concern the transfer itself,
//! which continues on other streams.

use std::time::Duration;

use godwit_net::StreamError;
use godwit_proto::{ErrorCode, WireError};

/// The event that ended a stream before its transfer ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamLoss {
    /// The connection failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The received bytes are not a valid frame.
    #[error("{peer}: the peer broke the protocol: {error}")]
    Wire {
        /// The other end.
        peer: String,
        /// The decoder's error.
        error: WireError,
    },
    /// A frame is not allowed here.
    #[error("{peer}: the peer broke the protocol: {what}")]
    Peer {
        /// The other end.
        peer: String,
        /// The peer's violation.
        what: String,
    },
    /// The stream's channel is dead, but others are alive.
    #[error("{channel}: channel silent for {:.1} s; its blocks move to other channels", quiet.as_secs_f64())]
    Cut {
        /// The channel.
        channel: String,
        /// Length of the silence.
        quiet: Duration,
    },
    /// No data arrived, not even a ping.
    #[error("{peer}: silent for {seconds} s")]
    Silent {
        /// The other end.
        peer: String,
        /// Length of the silence in seconds.
        seconds: u64,
    },
}

impl StreamLoss {
    /// Cause for programs, if no retry is possible.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stream(StreamError::Misuse { .. }) => ErrorCode::INTERNAL,
            Self::Stream(StreamError::Peer { .. }) | Self::Wire { .. } | Self::Peer { .. } => {
                ErrorCode::PROTOCOL
            }
            Self::Stream(_) | Self::Silent { .. } | Self::Cut { .. } => ErrorCode::LOST,
        }
    }

    /// Whether a new connection may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Stream(error) => error.is_retryable(),
            Self::Silent { .. } | Self::Cut { .. } => true,
            Self::Wire { .. } | Self::Peer { .. } => false,
        }
    }
}
