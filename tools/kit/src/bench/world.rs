//! Owns the environment of a benchmark: its directory, the memory of the directory, and the removal of both. Does not depend on cases and
//! contenders.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use rustix::fs::statvfs;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::machine;

/// Largest amount of data in the directory of a benchmark.
pub(crate) const PEAK_BYTES_MAX: u64 = 14 << 30;
/// Number of names besides the data sets: homes, keys, configurations.
const SPARE_NAMES: u64 = 100_000;
/// Memory that must stay free in addition to the benchmark's memory.
const SPARE_BYTES: u64 = 1 << 30;

/// The directories of one benchmark; dropping this value removes them with all their contents.
#[derive(Debug)]
pub(crate) struct World {
    root: PathBuf,
    /// The directory on the machine's disk.
    disk: Option<PathBuf>,
    interrupted: Arc<AtomicBool>,
    destinations: u64,
    /// Whether freed memory returns to the host of this virtual machine.
    memory_goes_back: bool,
    /// Whether the directory in memory is a separate file system.
    is_mounted: bool,
}

impl World {
    /// Makes the directories, which must not exist yet, and handles the signals that would end this program.
    ///
    /// # Errors
    /// The directories cannot be made.
    pub(crate) fn make(root: &Path, disk: Option<&Path>) -> anyhow::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // At the second signal the flag is set, so the signal ends this program at once.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupted))?;
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let mut world = Self {
            root: make(root)?,
            disk: None,
            interrupted,
            destinations: 0,
            memory_goes_back: machine::memory_goes_back(),
            is_mounted: false,
        };
        world.disk = disk.map(make).transpose()?;
        Ok(world)
    }

    /// The directory in memory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory on the machine's disk.
    ///
    /// # Errors
    /// There is no such directory.
    pub(crate) fn disk(&self) -> anyhow::Result<&Path> {
        self.disk
            .as_deref()
            .context("there is no directory on disk: use --disk")
    }

    /// Makes a directory for keys, homes and similar files.
    pub(crate) fn scratch(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.root.join("scratch").join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {path:?}"))?;
        Ok(path)
    }

    /// Makes an empty directory for received data, in memory or on disk.
    pub(crate) fn destination(&mut self, on_disk: bool) -> anyhow::Result<PathBuf> {
        self.destinations += 1;
        let root = if on_disk { self.disk()? } else { &self.root };
        let path = root.join(format!("destination-{}", self.destinations));
        fs::create_dir(&path).with_context(|| format!("cannot make {path:?}"))?;
        Ok(path)
    }

    /// Whether the user has interrupted the benchmark.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Fails if the user has interrupted the benchmark.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.is_interrupted(), "interrupted");
        Ok(())
    }

    /// Uses `bytes` of the memory of the directory twice and frees it: on a virtual machine the first use of a page costs much more than
    /// later uses.
    ///
    /// # Errors
    /// There is not enough free memory.
    pub(crate) fn touch(&self, bytes: u64) -> anyhow::Result<()> {
        ensure!(
            bytes <= PEAK_BYTES_MAX,
            "a case would take {bytes} bytes at its peak"
        );
        let free = available_bytes().context("cannot read how much memory is free")?;
        ensure!(
            free >= bytes + SPARE_BYTES,
            "{free} bytes of memory are free; the cases take {bytes} and leave {SPARE_BYTES}; use --scale"
        );
        for _ in 0..2 {
            self.touch_once(bytes)?;
        }
        Ok(())
    }

    /// If the host reclaims free memory, uses and frees `bytes` of memory once, or the free memory if that is less. On such a machine,
    /// memory that was freed some time ago is as expensive to use as new memory.
    ///
    /// # Errors
    /// The memory cannot be used.
    pub(crate) fn warm(&self, bytes: u64) -> anyhow::Result<()> {
        if self.memory_goes_back {
            let free = available_bytes().context("cannot read how much memory is free")?;
            self.touch_once(bytes.min(free.saturating_sub(SPARE_BYTES)))?;
        }
        Ok(())
    }

    fn touch_once(&self, bytes: u64) -> anyhow::Result<()> {
        let path = self.root.join("touch");
        let block = vec![0x5a_u8; 1 << 20];
        let mut file = File::create(&path)?;
        let mut left = bytes;
        while left > 0 {
            self.check()?;
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            file.write_all(&block[..part])
                .context("cannot touch the memory")?;
            left -= part as u64;
        }
        drop(file);
        fs::remove_file(&path)?;
        Ok(())
    }

    /// Ensures that `names` can be made in memory: a tmpfs allows a limited number, by default half the number of pages. If that is not
    /// enough, the directory becomes a separate tmpfs without this limit.
    ///
    /// # Errors
    /// The user may not mount it.
    pub(crate) fn make_room_for_names(&mut self, names: u64) -> anyhow::Result<()> {
        let free = statvfs(&self.root)?.f_favail;
        if free == 0 || free >= names + SPARE_NAMES {
            return Ok(()); // none at all is said by who counts none
        }
        let options = "size=100%,nr_inodes=0,mode=700";
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "godwit-bench"]);
        let output = mount.arg(&self.root).output().context("cannot run mount")?;
        ensure!(
            output.status.success(),
            "{:?} has room for {free} names, and {names} are needed; a tmpfs with nr_inodes=0 has no bound, which root makes by itself, others choose one by --directory: {}",
            self.root,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        self.is_mounted = true;
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.is_mounted {
            // The option `-l` is necessary while a process that was just killed still has open files there.
            let _ = Command::new("umount").arg("-l").arg(&self.root).status();
        }
        for root in std::iter::once(&self.root).chain(&self.disk) {
            if let Err(error) = fs::remove_dir_all(root) {
                // This program cannot remove the directory, so the user must remove it.
                let _ = writeln!(std::io::stderr(), "cannot remove {root:?}: {error}");
            }
        }
    }
}

fn make(root: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(root.parent().unwrap_or(root))
        .and_then(|()| fs::create_dir(root))
        .with_context(|| format!("cannot make {root:?}"))?;
    Ok(root.canonicalize()?)
}

fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_it() {
        let outside = tempfile::tempdir().expect("make a directory");
        let root = outside.path().join("world");
        let mut world = World::make(&root, None).expect("make a world");
        fs::write(
            world
                .destination(false)
                .expect("a destination")
                .join("file"),
            b"x",
        )
        .expect("write");
        world.scratch("a/b").expect("a scratch directory");
        world.touch(3 << 20).expect("touch");
        assert!(!root.join("touch").exists());
        assert!(
            World::make(&root, None).is_err(),
            "a second world in the same place"
        );
        drop(world);
        assert!(!root.exists());
    }

    #[test]
    fn a_peak_above_the_limit_is_refused() {
        let outside = tempfile::tempdir().expect("make a directory");
        let world = World::make(&outside.path().join("world"), None).expect("make a world");
        assert!(world.touch(PEAK_BYTES_MAX + 1).is_err());
    }
}
