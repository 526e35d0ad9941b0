//! Owns the description of a destination's beacon, which shows the source whether both ends are in one file system.
//! Does not make or search a beacon. `docs/wire.md`, "OPEN".

use prost::Message;

use super::Open;
use crate::error::WireError;
use crate::path;

/// A temporary entry in the directory of the destination, or in the nearest directory above it. Its name is random: an
/// end that finds it in a directory has found that directory, even if device and inode numbers differ there.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Beacon {
    /// The entry's name: `.godwit-` and 32 hexadecimal digits.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// The path of the beacon's directory, from an export or a mount point on.
    #[prost(bytes = "vec", tag = "2")]
    pub above: Vec<u8>,
    /// The destination's path from that directory.
    #[prost(bytes = "vec", tag = "3")]
    pub rest: Vec<u8>,
    /// Each source keeps its name inside the destination.
    #[prost(bool, tag = "4")]
    pub into: bool,
}

impl Beacon {
    /// Checks the other end's beacon. A name of another form could be used to probe for any entry.
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
    /// Whether the client makes its beacon only on request. In a pull, this is the case if the destination is on a file
    /// system private to its kernel.
    pub fn keeps_beacon(&self) -> bool {
        self.ground.as_ref().is_some_and(|ground| ground.own)
    }

    /// Whether the transfer, or the closer of its claim, deletes entries that only the destination has.
    pub fn deletes(&self) -> bool {
        let by_closer = self.member.as_ref().is_some_and(|member| member.deletes);
        by_closer || self.comparison.is_some_and(|wanted| wanted.delete)
    }
}

/// Prefix of temporary names.
const PREFIX: &[u8] = b".godwit-";

/// Hexadecimal digits after the prefix.
const DIGITS: usize = 32;
