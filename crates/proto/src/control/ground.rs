//! Owns what an end says of where its files lie, so that the other end finds out that one lies inside the other.
//! Makes no such number, and compares none. `docs/wire.md`, "OPEN".

use prost::Message;

use super::Open;
use crate::error::WireError;
use crate::limits::{GROUND_IDS_MAX, VIEW_BYTES};

/// Directories by numbers that do not depend on their paths. Equal numbers mean one directory of one running kernel.
#[derive(Clone, PartialEq, Message)]
pub struct Ground {
    /// The places themselves.
    #[prost(fixed64, repeated, tag = "1")]
    pub tops: Vec<u64>,
    /// The directories around them, in their file systems.
    #[prost(fixed64, repeated, tag = "2")]
    pub around: Vec<u64>,
    /// What is mounted below them.
    #[prost(fixed64, repeated, tag = "3")]
    pub mounts: Vec<u64>,
    /// The directories around what is mounted below them, in their file systems.
    #[prost(fixed64, repeated, tag = "4")]
    pub mounts_around: Vec<u64>,
    /// All of it is on file systems that one kernel has for itself, so that these numbers tell whether another end with such ones is
    /// the same.
    #[prost(bool, tag = "5")]
    pub own: bool,
    /// The places themselves, by what two mounts or machines see of one directory alike. Copies of a file system look alike, too, so
    /// this decides only where no beacon can be made.
    #[prost(fixed64, repeated, tag = "6")]
    pub alike: Vec<u64>,
    /// The directories around them, in the same numbers.
    #[prost(fixed64, repeated, tag = "7")]
    pub alike_around: Vec<u64>,
}

impl Open {
    /// Checks what the client says of the files that it sees.
    pub(super) fn validate_view(&self) -> Result<(), WireError> {
        if !matches!(self.view.len(), 0 | VIEW_BYTES) {
            return Err(WireError::invalid("view", "does not have 16 bytes"));
        }
        let Some(ground) = &self.ground else {
            return Ok(());
        };
        let lists = [&ground.tops, &ground.around, &ground.mounts];
        let others = [&ground.mounts_around, &ground.alike, &ground.alike_around];
        let mut lists = lists.into_iter().chain(others);
        if lists.any(|list| list.len() > GROUND_IDS_MAX) {
            return Err(WireError::too_long("ground", GROUND_IDS_MAX as u64));
        }
        Ok(())
    }
}
