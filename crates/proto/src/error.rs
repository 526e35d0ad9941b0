//! Owns the errors of the protocol: a fault in received bytes, or in a frame that cannot be sent.
//! Does not decide how to react.

use thiserror::Error;

/// Bytes that are no valid frame, or a frame that cannot be encoded.
///
/// When decoding, the fault is the peer's; when encoding, the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end within a field.
    #[error("{what} is cut short")]
    Short {
        /// The field that ends too early.
        what: &'static str,
    },
    /// Bytes are left over after a field.
    #[error("{bytes} extra bytes after {what}")]
    Trailing {
        /// The field after which no bytes may follow.
        what: &'static str,
        /// Number of bytes left over.
        bytes: usize,
    },
    /// A length or count is above its limit.
    #[error("{field} is longer than the limit of {limit}")]
    TooLong {
        /// The field that is too long.
        field: &'static str,
        /// The largest allowed length or count, in bytes or items.
        limit: u64,
    },
    /// A hello without its magic number.
    #[error("not a Godwit hello")]
    BadMagic,
    /// Bytes that must be zero are not.
    #[error("reserved bytes of {what} are not zero")]
    NonZeroReserved {
        /// Name of the field.
        what: &'static str,
    },
    /// A frame other than a block announces a payload.
    #[error("frame kind {kind} announces a payload, which only a block may have")]
    UnexpectedPayload {
        /// The frame's kind.
        kind: u16,
    },
    /// A value that must be known is unknown.
    #[error("{field} {value} is unknown here")]
    Unknown {
        /// The field.
        field: &'static str,
        /// The field's value.
        value: u64,
    },
    /// Two fields that must agree do not.
    #[error("{what} do not agree")]
    Disagree {
        /// The fields.
        what: &'static str,
    },
    /// A value breaks a rule.
    #[error("{field}: {rule}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The broken rule.
        rule: &'static str,
    },
    /// A message that is no valid protobuf.
    #[error("malformed {message} message")]
    Malformed {
        /// The message.
        message: &'static str,
        /// The decoder's error.
        #[source]
        source: prost::DecodeError,
    },
}

impl WireError {
    pub(crate) const fn invalid(field: &'static str, rule: &'static str) -> Self {
        Self::Invalid { field, rule }
    }

    pub(crate) const fn too_long(field: &'static str, limit: u64) -> Self {
        Self::TooLong { field, limit }
    }
}
