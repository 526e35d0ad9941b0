//! Owns the identifiers of the protocol: transfers, tokens, entries, generations, items, digests. Does
//! not generate them; random ones come from the caller.

use std::fmt;

use crate::error::WireError;

/// Names a transfer. Random, chosen by the daemon.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub [u8; 16]);

/// Admits one stream to a transfer, once. A secret: it is never printed.
#[derive(Clone, Copy)]
pub struct Token(pub [u8; 16]);

/// Names an entry within a transfer; numbered by the sender from 1. 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

/// One state of a source file, as an opaque number: equal numbers mean the same state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Numbers the items (manifests, blocks, finish) of a transfer from 1; assigned by the sender. 0 means
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Kind of a digest. Unknown numbers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DigestKind(pub u8);

impl DigestKind {
    /// CRC-64/NVME, in the first eight bytes of a [`Digest`], little-endian.
    pub const CRC64_NVME: Self = Self(1);
    /// BLAKE3, 32 bytes.
    pub const BLAKE3: Self = Self(2);
}

/// A digest of either kind; bytes that its kind does not use are zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl TryFrom<&[u8]> for TransferId {
    type Error = WireError;

    fn try_from(bytes: &[u8]) -> Result<Self, WireError> {
        match <[u8; 16]>::try_from(bytes) {
            Ok(id) => Ok(Self(id)),
            Err(_) => Err(WireError::invalid("transfer id", "must have 16 bytes")),
        }
    }
}

impl TryFrom<&[u8]> for Token {
    type Error = WireError;

    fn try_from(bytes: &[u8]) -> Result<Self, WireError> {
        match <[u8; 16]>::try_from(bytes) {
            Ok(token) => Ok(Self(token)),
            Err(_) => Err(WireError::invalid("token", "must have 16 bytes")),
        }
    }
}

/// Compares without an early exit, so that the time does not reveal where two tokens differ.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |all, (mine, theirs)| all | (mine ^ theirs));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferId({self})")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::{Digest, Token, TransferId};

    #[test]
    fn tokens_are_compared_whole_and_not_printed() {
        let token = Token([7; 16]);
        let mut other = token;
        assert_eq!(token, other);
        other.0[15] ^= 1;
        assert_ne!(token, other);
        assert!(!format!("{token:?}").contains('7'));
    }

    #[test]
    fn ids_read_as_hex() {
        assert_eq!(TransferId([0xab; 16]).to_string(), "ab".repeat(16));
        assert_eq!(Digest([1; 32]).to_string(), "01".repeat(32));
        assert!(TransferId::try_from(&[0; 15][..]).is_err());
    }
}
