//! Owns the data sets of the benchmark: what they are, and counting whether they arrived.
//! Making them is in `make`.

mod make;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// What is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// Data in a sparse file: a block every this many bytes.
const ISLAND_EVERY: u64 = 16 << 30;
/// Bytes of such a block.
const ISLAND_BYTES: usize = 64 << 10;
/// What an entry costs in memory whatever its size, on tmpfs, rounded up.
const ENTRY_BYTES: u64 = 1200;

impl Load {
    /// Bytes of content that arrive.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Memory { bytes } => bytes,
            Self::Files { files, bytes, .. } => files * bytes,
            Self::HardLinks { .. } => 0,
            Self::Sparse { bytes } => bytes.div_ceil(ISLAND_EVERY) * ISLAND_BYTES as u64,
        }
    }

    /// Names of files that arrive.
    pub(crate) fn names(self) -> u64 {
        match self {
            Self::Memory { .. } => 0,
            Self::Files { files, .. } => files,
            Self::HardLinks { files } => 2 * files,
            Self::Sparse { .. } => 1,
        }
    }

    /// Sum of the sizes of all names, as `stat` tells them.
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

    /// Checks that as many names and bytes arrived below `into` as were sent.
    ///
    /// # Errors
    /// When they differ, or cannot be counted.
    pub(crate) fn check(self, into: &Path) -> anyhow::Result<()> {
        let (mut names, mut bytes) = (0, 0);
        count(into, &mut names, &mut bytes)?;
        ensure!(
            (names, bytes) == (self.names(), self.sizes()),
            "{names} files of {bytes} bytes arrived instead of {} of {}",
            self.names(),
            self.sizes()
        );
        Ok(())
    }
}

fn count(directory: &Path, names: &mut u64, bytes: &mut u64) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {directory:?}"))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            count(&entry.path(), names, bytes)?;
        } else {
            *names += 1;
            *bytes += meta.len();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;

    #[test]
    fn every_load_is_as_large_as_it_says() {
        let outside = tempfile::tempdir().expect("make a directory");
        let world = World::make(&outside.path().join("world")).expect("make a world");
        let loads = [
            Load::Files {
                files: 1,
                bytes: 9 << 20,
                directories: 0,
            },
            Load::Files {
                files: 3,
                bytes: 100_000,
                directories: 0,
            },
            Load::Files {
                files: 70,
                bytes: 8192,
                directories: 7,
            },
            Load::Files {
                files: 5,
                bytes: 0,
                directories: 2,
            },
            Load::HardLinks { files: 1003 },
            Load::Sparse { bytes: 40 << 30 },
        ];
        for (index, load) in loads.into_iter().enumerate() {
            let parent = world.scratch(&index.to_string()).expect("a directory");
            let made = load.make(&parent, &world).expect("make a data set");
            assert!(made.is_some_and(|path| path.starts_with(&parent)));
            load.check(&parent).expect("all of it");
            fs::write(parent.join("one more"), b"").expect("write");
            assert!(load.check(&parent).is_err(), "{load:?} with one more");
        }
    }
}
