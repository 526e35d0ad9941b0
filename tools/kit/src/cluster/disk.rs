//! Owns a small separate file system for the state of a node, which can be filled and emptied. Does not depend on
//! the other files in it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::bench::process::run;

/// Size of the file system: twice the space that a state needs for changes.
const OPTIONS: &str = "size=128m,mode=0700";
/// Free space in a full file system, as on a disk that other programs fill: too little for changes, but enough to
/// run.
const KEPT: u64 = 8 << 20;
/// Size of one write to the ballast.
const CHUNK: usize = 1 << 20;

/// A file system in memory; dropping this value removes it.
pub(crate) struct Disk {
    place: PathBuf,
}

impl Disk {
    /// Makes the directory `place`, and mounts the file system there.
    ///
    /// # Errors
    /// The file system cannot be mounted.
    pub(crate) fn make(place: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(place)?;
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", OPTIONS, "none"])
            .arg(place);
        run(&mut mount).with_context(|| format!("cannot mount a tmpfs at {place:?}"))?;
        Ok(Self {
            place: place.to_owned(),
        })
    }

    /// Uses nearly all free space.
    ///
    /// # Errors
    /// The ballast cannot be made.
    pub(crate) fn fill(&self) -> anyhow::Result<()> {
        let mut file = File::create(self.ballast())?;
        let chunk = vec![0; CHUNK];
        while file.write_all(&chunk).is_ok() {}
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(KEPT))?;
        Ok(())
    }

    /// Frees the space again.
    ///
    /// # Errors
    /// The ballast cannot be cut.
    pub(crate) fn empty(&self) -> anyhow::Result<()> {
        let file = OpenOptions::new().write(true).open(self.ballast())?;
        file.set_len(0)?;
        Ok(())
    }

    fn ballast(&self) -> PathBuf {
        self.place.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).output();
    }
}
