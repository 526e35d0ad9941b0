//! Owns the loads of the benchmark: the data, and its size.
//! `make` makes the data; `set` has the result.

mod make;
mod set;
mod walk;

pub(crate) use set::{Arrival, Set};
pub(crate) use walk::remove;

/// The data of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// Bytes that are not in a file.
    Memory { bytes: u64 },
    /// `files` of `bytes` each, spread evenly over `directories` (0: all in one directory).
    Files {
        files: u64,
        bytes: u64,
        directories: u64,
    },
    /// `files` empty files, each with one additional name.
    HardLinks { files: u64 },
    /// One file of `bytes`, mostly holes.
    Sparse { bytes: u64 },
    /// The output of `godwit gen` for `spec` at `scale`: about this many files and bytes.
    Spec {
        spec: &'static str,
        scale: f64,
        files: u64,
        bytes: u64,
    },
}

/// Distance between the blocks of data in a sparse file.
const ISLAND_EVERY: u64 = 16 << 30;
/// Bytes of such a block.
const ISLAND_BYTES: usize = 64 << 10;
/// Memory of an entry on tmpfs, regardless of its size, rounded up.
const ENTRY_BYTES: u64 = 1200;

impl Load {
    /// Bytes of content that are transferred.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Memory { bytes } => bytes,
            Self::Files { files, bytes, .. } => files * bytes,
            Self::Spec { bytes, .. } => bytes,
            Self::HardLinks { .. } => 0,
            Self::Sparse { bytes } => bytes.div_ceil(ISLAND_EVERY) * ISLAND_BYTES as u64,
        }
    }

    /// Number of file names that are transferred.
    pub(crate) fn names(self) -> u64 {
        match self {
            Self::Memory { .. } => 0,
            Self::Files { files, .. } | Self::Spec { files, .. } => files,
            Self::HardLinks { files } => 2 * files,
            Self::Sparse { .. } => 1,
        }
    }

    /// Sum of the sizes of all names, as `stat` reports them.
    #[cfg(test)]
    fn sizes(self) -> u64 {
        match self {
            Self::Memory { .. } => 0,
            Self::Sparse { bytes } => bytes,
            other => other.bytes(),
        }
    }

    /// Memory that one copy of the data set needs.
    pub(crate) fn footprint(self) -> u64 {
        match self {
            Self::Memory { .. } => 0,
            other => other.bytes() + other.names() * ENTRY_BYTES,
        }
    }
}
