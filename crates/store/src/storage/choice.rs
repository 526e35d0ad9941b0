//! Owns the trait by which a scan chooses among names. Has no rules; transfers do.

use crate::path::RelPath;

/// Chooses among the names that a scan finds. Called once for each name.
pub trait Choice: Send + Sync {
    /// Decides on a name.
    fn pick(&self, path: &RelPath, is_directory: bool) -> Pick;
}

/// The decision on a name in a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pick {
    /// The scan returns the entry and, for a directory, its contents.
    Take,
    /// The scan returns the entry; if it is a directory, none of its contents.
    TakeAlone,
    /// The scan skips the entry, with all its contents.
    Leave,
}
