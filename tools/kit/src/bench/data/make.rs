//! Owns the making of data sets. Does not check them after that.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::super::contender::{Programs, command};
use super::super::world::World;
use super::{ISLAND_BYTES, ISLAND_EVERY, Load};

/// Number of hard links in one directory.
const LINKS_PER_DIRECTORY: u64 = 1000;
/// Number of random bytes from which all contents are cut; larger than the window of all compressors in use.
const NOISE_BYTES: usize = 8 << 20;

impl Load {
    /// Makes the data set in `parent` and returns the path to transfer; `None` if it is not a file.
    ///
    /// # Errors
    /// The file system fails, or the user interrupts.
    pub(super) fn make(
        self,
        parent: &Path,
        programs: &Programs,
        world: &World,
    ) -> anyhow::Result<Option<PathBuf>> {
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
            Self::Spec { spec, scale, .. } => {
                // One thread writes the files, as in a program that copies or records. Two threads mix the pages of neighbouring files,
                // and reading files of 1 MiB then takes a third longer.
                let output = command(Path::new("taskset"))
                    .args(["--cpu-list", "0"])
                    .arg(&programs.godwit)
                    .env("GODWIT_HOME", world.scratch("godwit-gen")?)
                    .args(["gen", spec, "--seed", "7", "--scale", &scale.to_string()])
                    .arg(&set)
                    .output()
                    .context("cannot run godwit gen")?;
                let error = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "godwit gen: {}", error.trim());
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
}

/// The directory of file `index`; it is made with its first file.
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
    // Each file begins at a different, odd offset in the noise.
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
    let mut seeded = godwit_seeded::Seeded(7);
    let words = std::iter::repeat_with(|| seeded.draw().to_le_bytes());
    words.take(NOISE_BYTES / 8).flatten().collect()
}
