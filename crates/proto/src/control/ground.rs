//! Describes the location of an end's data. The other end compares the description with its own, to detect that one
//! location is inside the other. Does not compute or compare the numbers. `docs/wire.md`, "OPEN".

use prost::Message;

use super::Open;
use crate::error::WireError;
use crate::limits::{GROUND_IDS_MAX, VIEW_BYTES};

/// Directories by numbers that do not depend on their paths. Equal numbers mean one directory of one running kernel.
#[derive(Clone, PartialEq, Message)]
pub struct Ground {
    /// The locations themselves.
    #[prost(fixed64, repeated, tag = "1")]
    pub tops: Vec<u64>,
    /// The directories above them, in their file systems.
    #[prost(fixed64, repeated, tag = "2")]
    pub around: Vec<u64>,
    /// Mounts below the locations.
    #[prost(fixed64, repeated, tag = "3")]
    pub mounts: Vec<u64>,
    /// The directories above those mounts, in their file systems.
    #[prost(fixed64, repeated, tag = "4")]
    pub mounts_around: Vec<u64>,
    /// Whether all of these directories are on file systems private to one kernel. If so, these numbers decide whether another
    /// end of that kind has the same directories.
    #[prost(bool, tag = "5")]
    pub own: bool,
    /// The locations themselves, by properties that are equal for one directory on two mounts or machines. Copies of a
    /// file system have the same properties too, so these decide only if no beacon can be made.
    #[prost(fixed64, repeated, tag = "6")]
    pub alike: Vec<u64>,
    /// The directories above the locations, by the same properties.
    #[prost(fixed64, repeated, tag = "7")]
    pub alike_around: Vec<u64>,
}

impl Open {
    /// Checks the client's description of the files that it sees.
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
