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
    /// Bytes that were never in a file.
    Memory { bytes: u64 },
    /// `files` of `bytes` each, spread evenly over `directories` (0: all beside each other).
    Files {
        files: u64,
        bytes: u64,
        directories: u64,
    },
    /// `files` empty files with one further name each.
    HardLinks { files: u64 },
    /// One file of `bytes`, nearly all of it holes.
    Sparse { bytes: u64 },
    /// The output of `godwit gen` for `spec` at `scale`: about this many files and bytes.
    Spec {
        spec: &'static str,
        scale: f64,
        files: u64,
        bytes: u64,
    },
}

/// Data in a sparse file: a block every this many bytes.
const ISLAND_EVERY: u64 = 16 << 30;
/// Bytes of such a block.
const ISLAND_BYTES: usize = 64 << 10;
/// Memory of an entry on tmpfs whatever its size, rounded up.
const ENTRY_BYTES: u64 = 1200;

impl Load {
    /// Bytes of content that arrive.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Memory { bytes } => bytes,
            Self::Files { files, bytes, .. } => files * bytes,
            Self::Spec { bytes, .. } => bytes,
            Self::HardLinks { .. } => 0,
            Self::Sparse { bytes } => bytes.div_ceil(ISLAND_EVERY) * ISLAND_BYTES as u64,
        }
    }

    /// Names of files that arrive.
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

    /// Memory that the data set takes once.
    pub(crate) fn footprint(self) -> u64 {
        match self {
            Self::Memory { .. } => 0,
            other => other.bytes() + other.names() * ENTRY_BYTES,
        }
    }
}
