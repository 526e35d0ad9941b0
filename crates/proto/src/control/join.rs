//! Owns the frames with which a stream joins a transfer: JOIN and its answer. Opens no transfer (`setup`).
//! `docs/wire.md`, "JOIN".

use std::fmt;

use prost::Message;

use super::{decode, encode, try_encode};
use crate::error::WireError;
use crate::ids::{Token, TransferId};
use crate::limits::{CHANNELS_MAX, TOKENS_MAX};
use crate::prelude::FrameKind;
/// The client adds a stream to a transfer.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Join {
    /// A [`TransferId`].
    #[prost(bytes = "vec", tag = "1")]
    pub transfer: Vec<u8>,
    /// A [`Token`], which this use invalidates.
    #[prost(bytes = "vec", tag = "2")]
    pub token: Vec<u8>,
    /// Number of the channel that the stream runs over, below [`CHANNELS_MAX`]; the first stream's channel is 0.
    #[prost(uint32, tag = "3")]
    pub channel: u32,
}

impl Join {
    /// Asks to join `transfer` with `token`, over the channel of this number.
    pub fn new(transfer: TransferId, token: Token, channel: u32) -> Self {
        Self {
            transfer: transfer.0.to_vec(),
            token: token.0.to_vec(),
            channel,
        }
    }

    /// Appends the frame's head image to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, FrameKind::JOIN, out);
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let join: Self = decode(head, "JOIN")?;
        join.transfer_id()?;
        join.token()?;
        if join.channel >= CHANNELS_MAX {
            return Err(WireError::invalid("channel", "is above 63"));
        }
        Ok(join)
    }

    /// The transfer.
    ///
    /// # Errors
    /// Not 16 bytes; impossible after decoding.
    pub fn transfer_id(&self) -> Result<TransferId, WireError> {
        TransferId::try_from(self.transfer.as_slice())
    }

    /// The token.
    ///
    /// # Errors
    /// Not 16 bytes; impossible after decoding.
    pub fn token(&self) -> Result<Token, WireError> {
        Token::try_from(self.token.as_slice())
    }
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join")
            .field("transfer", &self.transfer)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// The daemon accepts a stream, and issues a token for the next one.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Joined {
    /// Fresh [`Token`]s.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub tokens: Vec<Vec<u8>>,
}

impl Joined {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// Too many tokens; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.tokens()?;
        try_encode(self, FrameKind::JOINED, out)
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let joined: Self = decode(head, "JOINED")?;
        joined.tokens()?;
        Ok(joined)
    }

    /// The tokens.
    ///
    /// # Errors
    /// A token without 16 bytes; impossible after decoding.
    pub fn tokens(&self) -> Result<Vec<Token>, WireError> {
        read_tokens(&self.tokens)
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined")
            .field("tokens", &self.tokens.len())
            .finish()
    }
}

pub(super) fn read_tokens(tokens: &[Vec<u8>]) -> Result<Vec<Token>, WireError> {
    if tokens.len() > TOKENS_MAX {
        return Err(WireError::too_long("list of tokens", TOKENS_MAX as u64));
    }
    tokens
        .iter()
        .map(|token| Token::try_from(token.as_slice()))
        .collect()
}
