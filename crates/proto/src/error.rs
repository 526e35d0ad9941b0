//! Owns the error of the wire: what is wrong with bytes that came, or with a frame that cannot be sent.
//! Does not say what to do about it.

use thiserror::Error;

/// Bytes that are no valid frame, or a frame that has no valid form in bytes.
///
/// On decoding it is the peer's fault; on encoding the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end within something.
    #[error("{what} is cut short")]
    Short {
        /// What ends too early.
        what: &'static str,
    },
    /// Bytes are left over.
    #[error("{bytes} bytes too many after {what}")]
    Trailing {
        /// What should have been the end.
        what: &'static str,
        /// How many are left.
        bytes: usize,
    },
    /// A length or count is above its limit.
    #[error("{field} is longer than the limit of {limit}")]
    TooLong {
        /// What is too long.
        field: &'static str,
        /// Its limit, in bytes or items.
        limit: u64,
    },
    /// A hello that does not begin as one.
    #[error("not a Godwit hello")]
    BadMagic,
    /// Bytes that must be zero are not.
    #[error("reserved bytes of {what} are not zero")]
    NonZeroReserved {
        /// Where they are.
        what: &'static str,
    },
    /// A frame other than a block announces a payload.
    #[error("frame kind {kind} announces a payload, which only a block may have")]
    UnexpectedPayload {
        /// Its kind.
        kind: u16,
    },
    /// A value that must be understood is not.
    #[error("{field} {value} is not known here")]
    Unknown {
        /// What it is.
        field: &'static str,
        /// Its number.
        value: u64,
    },
    /// Two statements that must agree do not.
    #[error("{what} do not agree")]
    Disagree {
        /// Which.
        what: &'static str,
    },
    /// A value breaks a rule.
    #[error("{field}: {rule}")]
    Invalid {
        /// What it is.
        field: &'static str,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// A message that is no valid protobuf.
    #[error("malformed {message} message")]
    Malformed {
        /// Which message.
        message: &'static str,
        /// What the decoder found.
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
