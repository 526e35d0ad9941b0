//! Owns a small file system of a node's own, for its state, which can be filled and emptied.
//! Does not know the other files on it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::bench::process::run;

/// Room of the file system: the room that a state needs for changes, twice.
const OPTIONS: &str = "size=128m,mode=0700";
/// A full one keeps this much free, as a disk that others fill: less than changes need, and enough to keep running.
const KEPT: u64 = 8 << 20;
/// One write to the ballast.
const CHUNK: usize = 1 << 20;

/// A file system in memory; gone when dropped.
pub(crate) struct Disk {
    place: PathBuf,
}

impl Disk {
    /// Mounts it at `place`, which is made.
    ///
    /// # Errors
    /// It cannot be mounted.
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

    /// Takes nearly all the room that there is.
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

    /// Gives the room back.
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
