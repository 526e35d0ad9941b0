//! Owns a mount of one directory at another place, by the program `mergerfs`: a file system that can stop answering for one node alone.
//! Does not depend on its users.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Files have the same inode numbers and times in each mount.
const OPTIONS: &str = "use_ino,inodecalc=passthrough,category.create=ff,minfreespace=0";
/// Time within which a mount must appear.
const MOUNTED_WITHIN: Duration = Duration::from_secs(10);
/// Interval between checks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A mount; dropping this value removes it, even if it does not answer.
pub(crate) struct Mount {
    place: PathBuf,
    program: Child,
}

impl Mount {
    /// Makes the directory `place`, and mounts `directory` there.
    ///
    /// # Errors
    /// `mergerfs` is missing, or cannot mount.
    pub(crate) fn make(directory: &Path, place: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(place)?;
        let before = device(place)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "mergerfs", "-f", "-o", OPTIONS]);
        let command = command.args([directory, place]).stdin(Stdio::null());
        let program = command.spawn().context("cannot run setpriv")?;
        let mount = Self {
            place: place.to_owned(),
            program,
        };
        let until = Instant::now() + MOUNTED_WITHIN;
        while device(place)? == before {
            let is_late = Instant::now() > until;
            ensure!(
                !is_late,
                "mergerfs does not mount {place:?}; is it installed?"
            );
            thread::sleep(LOOK_EVERY);
        }
        Ok(mount)
    }

    /// Sends a signal to the file system.
    pub(crate) fn signal(&self, signal: Signal) {
        // A file system that has ended does not answer either.
        let _ = kill_process(Pid::from_child(&self.program), signal);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.place).output();
    }
}

fn device(place: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(place)?.dev())
}
