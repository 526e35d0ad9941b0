//! Owns the reports of nodes about a divided job besides settlements: entries found, and entries finished.
//! Does not add them to the counts (`apply::work`).

use serde::{Deserialize, Serialize};

/// Entries that a node found, and how many of them are finished.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Looked {
    /// Files that scans found.
    pub found_files: u64,
    /// Bytes of these files.
    pub found_bytes: u64,
    /// Files that were delivered, or existed before.
    pub done_files: u64,
    /// Bytes that were delivered, or existed before.
    pub done_bytes: u64,
    /// Bytes that were sent more than once.
    pub again: u64,
    /// Names of files with several names that scans found. They are left to the close.
    #[serde(skip_serializing_if = "is_zero")]
    pub names: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(super) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Looked {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            found_files: self.found_files.saturating_add(other.found_files),
            found_bytes: self.found_bytes.saturating_add(other.found_bytes),
            done_files: self.done_files.saturating_add(other.done_files),
            done_bytes: self.done_bytes.saturating_add(other.done_bytes),
            again: self.again.saturating_add(other.again),
            names: self.names.saturating_add(other.names),
        }
    }
}
