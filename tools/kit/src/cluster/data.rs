//! Owns the data sets that the sites transfer: small files in directories, large files, and entries that only the closing of a tree
//! makes. Compares nothing.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Context as _;

use super::seeded::Seeded;

/// The parts of a data set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set {
    /// Directories of small files.
    pub(crate) directories: u64,
    /// Small files in each directory.
    pub(crate) files: u64,
    /// Smallest and largest small file, in bytes.
    pub(crate) small: (u64, u64),
    /// Large files.
    pub(crate) large: u64,
    /// Bytes of each large file.
    pub(crate) large_bytes: u64,
}

/// How much a data set has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amount {
    /// Names that are no directories.
    pub(crate) files: u64,
    /// Bytes in these files.
    pub(crate) bytes: u64,
}

impl Set {
    /// Makes the data set at `root`; the same seed always makes the same data.
    ///
    /// # Errors
    /// The data set cannot be written.
    pub(crate) fn make(&self, root: &Path, seed: u64) -> anyhow::Result<Amount> {
        let mut seeded = Seeded::new(seed);
        let mut amount = Amount::default();
        let mut block = vec![0; 1 << 20];
        fs::create_dir_all(root).with_context(|| format!("cannot make {root:?}"))?;
        for directory in 0..self.directories {
            let path = root.join(format!("d{directory:03}"));
            fs::create_dir(&path)?;
            for file in 0..self.files {
                let bytes = seeded.between(self.small.0, self.small.1);
                let path = path.join(format!("f{file}"));
                write(&path, bytes, &mut seeded, &mut block)?;
                amount.files += 1;
                amount.bytes += bytes;
            }
        }
        for file in 0..self.large {
            let path = root.join(format!("large{file}"));
            write(&path, self.large_bytes, &mut seeded, &mut block)?;
            amount.files += 1;
            amount.bytes += self.large_bytes;
        }
        if self.directories > 0 {
            symlink("d000/f0", root.join("link"))?;
            fs::create_dir(root.join("empty"))?;
            fs::hard_link(root.join("d000/f0"), root.join("twin"))?;
            amount.files += 2;
        }
        Ok(amount)
    }
}

fn write(path: &Path, bytes: u64, seeded: &mut Seeded, block: &mut [u8]) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        seeded.fill(&mut block[..part]);
        file.write_all(&block[..part])
            .with_context(|| format!("cannot write {path:?}"))?;
        left -= part as u64;
    }
    Ok(())
}
