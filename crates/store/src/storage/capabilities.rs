//! Owns the features that a storage may have. Tests no file system for them.

/// Features of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Files may have holes.
    pub holes: bool,
    /// The storage supports symbolic links.
    pub symlinks: bool,
    /// A file may have several names.
    pub hard_links: bool,
    /// Synced data survives a power cut.
    pub durable: bool,
}
