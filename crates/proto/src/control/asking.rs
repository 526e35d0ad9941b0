//! Owns the frames of a question from one node to another about places and jobs, and of the reply.
//! Does not interpret their documents. `docs/wire.md`, "ASK and REPLY".

use prost::Message;

use super::{decode, try_encode};
use crate::error::WireError;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::prelude::FrameKind;

/// A question of one node to another; the first one replaces OPEN.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ask {
    /// Number of the question, chosen by the client.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Question as a JSON document.
    #[prost(bytes = "vec", tag = "2")]
    pub document: Vec<u8>,
}

/// A reply to an [`Ask`], or a sign that the work continues.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Reply {
    /// Number of the question.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Reply as a JSON document; empty in a sign that the work continues.
    #[prost(bytes = "vec", tag = "2")]
    pub document: Vec<u8>,
    /// Completed steps of the work, in a sign that the work continues.
    #[prost(uint64, tag = "3")]
    pub done: u64,
}

macro_rules! documents {
    ($($name:ident = $kind:ident;)*) => {
        $(impl $name {
            /// Appends the frame's head image to `out`.
            ///
            /// # Errors
            /// The document is too long; `out` is then unchanged.
            pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
                check(&self.document)?;
                try_encode(self, FrameKind::$kind, out)
            }

            /// Reads a frame's head.
            ///
            /// # Errors
            /// The fault in the head.
            pub fn decode(head: &[u8]) -> Result<Self, WireError> {
                let message: Self = decode(head, stringify!($kind))?;
                check(&message.document)?;
                Ok(message)
            }
        })*
    };
}

documents! {
    Ask = ASK;
    Reply = REPLY;
}

fn check(document: &[u8]) -> Result<(), WireError> {
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(WireError::too_long("document", DOCUMENT_BYTES_MAX as u64));
    }
    Ok(())
}
