//! Owns what a destination says of its beacon, by which the source finds out that both ends are in one file system.
//! Makes no entry, and looks for none. `docs/wire.md`, "OPEN".

use prost::Message;

use super::Open;
use crate::error::WireError;
use crate::path;

/// A temporary entry in the directory of the destination, or in the nearest one above it. Its name is random: whoever finds it in a
/// directory has found that directory, whatever device and inode numbers it has there.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Beacon {
    /// Its name: `.godwit-` and 32 hexadecimal digits.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// The path of its directory, as far as it is known: from an export, or from a mount point.
    #[prost(bytes = "vec", tag = "2")]
    pub above: Vec<u8>,
    /// Where the destination lies from its directory.
    #[prost(bytes = "vec", tag = "3")]
    pub rest: Vec<u8>,
    /// Each source has its own name there.
    #[prost(bool, tag = "4")]
    pub into: bool,
}

impl Beacon {
    /// Checks what the other end says. A name of another form could ask for any entry.
    pub(super) fn validate(beacon: Option<&Self>) -> Result<(), WireError> {
        let Some(beacon) = beacon else {
            return Ok(());
        };
        let digits = beacon.name.strip_prefix(PREFIX).unwrap_or_default();
        let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != DIGITS || !digits.iter().all(is_digit) {
            return Err(WireError::invalid(
                "beacon",
                "does not have the form of a temporary name",
            ));
        }
        path::validate(&beacon.above)?;
        path::validate(&beacon.rest)
    }
}

impl Open {
    /// The client of a pull gives a beacon only to who asks for it: its destination is on a file system of its own kernel.
    pub fn keeps_beacon(&self) -> bool {
        self.ground.as_ref().is_some_and(|ground| ground.own)
    }

    /// The transfer deletes what only the destination has.
    pub fn deletes(&self) -> bool {
        self.comparison.is_some_and(|wanted| wanted.delete)
    }
}

/// What temporary names begin with.
const PREFIX: &[u8] = b".godwit-";

/// Hexadecimal digits behind that.
const DIGITS: usize = 32;
