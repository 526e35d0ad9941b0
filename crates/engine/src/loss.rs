//! Why a stream no longer serves a transfer.
//! Says nothing about the transfer itself, which goes on with other streams.

use std::time::Duration;

use godwit_net::StreamError;
use godwit_proto::{ErrorCode, WireError};

/// What ended a stream before its transfer ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamLoss {
    /// The connection.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Bytes that are no frame.
    #[error("{peer}: the peer broke the protocol: {error}")]
    Wire {
        /// The other end.
        peer: String,
        /// What is wrong with them.
        error: WireError,
    },
    /// A frame that has no place here.
    #[error("{peer}: the peer broke the protocol: {what}")]
    Peer {
        /// The other end.
        peer: String,
        /// What it did.
        what: String,
    },
    /// Its channel is dead, and others are not.
    #[error("{channel}: no sign of life for {:.1} s; its blocks go over other channels", quiet.as_secs_f64())]
    Cut {
        /// The channel.
        channel: String,
        /// For how long.
        quiet: Duration,
    },
    /// Not even a ping.
    #[error("{peer}: nothing heard for {seconds} s")]
    Silent {
        /// The other end.
        peer: String,
        /// For how long.
        seconds: u64,
    },
}

impl StreamLoss {
    /// Why, for programs, where nothing can be tried again.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stream(StreamError::Misuse { .. }) => ErrorCode::INTERNAL,
            Self::Stream(StreamError::Peer { .. }) | Self::Wire { .. } | Self::Peer { .. } => {
                ErrorCode::PROTOCOL
            }
            Self::Stream(_) | Self::Silent { .. } | Self::Cut { .. } => ErrorCode::LOST,
        }
    }

    /// Whether a new connection may do better.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Stream(error) => error.is_retryable(),
            Self::Silent { .. } | Self::Cut { .. } => true,
            Self::Wire { .. } | Self::Peer { .. } => false,
        }
    }
}
