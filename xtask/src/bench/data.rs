//! Owns the data sets of the benchmark: making them, and counting whether they arrived.
//! Does not compare contents: tests of correctness are elsewhere.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::world::World;

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
/// Names of hard links beside each other.
const LINKS_PER_DIRECTORY: u64 = 1000;
/// Random bytes that all contents are cut from; wider than the window of any compressor in use.
const NOISE_BYTES: usize = 8 << 20;
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

    /// Makes it below `parent` and returns the path to be transferred; `None` when it is no file.
    ///
    /// # Errors
    /// When the file system fails, or on interruption.
    pub(crate) fn make(self, parent: &Path, world: &World) -> anyhow::Result<Option<PathBuf>> {
        let set = parent.join("set");
        match self {
            Self::Memory { .. } => return Ok(None),
            Self::Files {
                files: 1, bytes, ..
            } => write_file(&set, 0, bytes, &noise(), world)?,
            Self::Files {
                files,
                bytes,
                directories,
            } => {
                fs::create_dir(&set)?;
                let noise = noise();
                for index in 0..files {
                    let place = directory_of(&set, index, files, directories)?;
                    write_file(
                        &place.join(format!("f{index:07}")),
                        index,
                        bytes,
                        &noise,
                        world,
                    )?;
                }
            }
            Self::HardLinks { files } => {
                fs::create_dir(&set)?;
                let directories = files.div_ceil(LINKS_PER_DIRECTORY);
                for index in 0..files {
                    world.check()?;
                    let place = directory_of(&set, index, files, directories)?;
                    let name = place.join(format!("f{index:07}"));
                    File::create(&name)?;
                    fs::hard_link(&name, place.join(format!("g{index:07}")))?;
                }
            }
            Self::Sparse { bytes } => {
                let file = File::create(&set)?;
                file.set_len(bytes)?;
                let noise = noise();
                for at in (0..bytes).step_by(usize::try_from(ISLAND_EVERY)?) {
                    let room = usize::try_from(bytes - at).unwrap_or(usize::MAX);
                    file.write_all_at(&noise[..ISLAND_BYTES.min(room)], at)?;
                }
            }
        }
        Ok(Some(set))
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

/// The directory of file `index`; made with its first file.
fn directory_of(set: &Path, index: u64, files: u64, directories: u64) -> anyhow::Result<PathBuf> {
    if directories == 0 {
        return Ok(set.to_owned());
    }
    let per_directory = files.div_ceil(directories);
    let place = set.join(format!("d{:05}", index / per_directory));
    if index.is_multiple_of(per_directory) {
        fs::create_dir(&place).with_context(|| format!("cannot make {place:?}"))?;
    }
    Ok(place)
}

fn write_file(
    path: &Path,
    index: u64,
    bytes: u64,
    noise: &[u8],
    world: &World,
) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("cannot make {path:?}"))?;
    let mut offset = 0;
    // Every file begins elsewhere in the noise, at an odd place.
    let mut from = usize::try_from(index.wrapping_mul(1_000_003) % (NOISE_BYTES as u64 / 2))?;
    while offset < bytes {
        world.check()?;
        let part = usize::try_from(bytes - offset)
            .unwrap_or(usize::MAX)
            .min(noise.len() - from);
        file.write_all_at(&noise[from..from + part], offset)
            .with_context(|| format!("cannot write {path:?}"))?;
        offset += part as u64;
        from = usize::try_from(offset.wrapping_mul(7) % (NOISE_BYTES as u64 / 2))?;
    }
    Ok(())
}

/// The same bytes in every run (splitmix64).
fn noise() -> Vec<u8> {
    let mut state = 7_u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)).to_le_bytes()
    });
    words.take(NOISE_BYTES / 8).flatten().collect()
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
