//! Owns a disk with a limited write rate: a file in memory, used by a loop device with ext4. The kernel's block layer throttles
//! it (`blkio.throttle.write_bps_device` of the first control group, version 1). Does not change other devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::super::contender::command;

/// The file in which limits are set.
const LIMITS: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// A mounted disk that exists as long as this value.
pub(super) struct SlowDisk {
    mounted: PathBuf,
    device: String,
    number: String,
}

impl SlowDisk {
    /// Makes a disk in `directory` with space for `bytes` and a write rate of `rate` bytes per second.
    ///
    /// # Errors
    /// The user is not root, or the kernel lacks loop devices or this limit.
    pub(super) fn make(directory: &Path, bytes: u64, rate: u64) -> anyhow::Result<Self> {
        ensure!(
            Path::new(LIMITS).exists(),
            "a limited disk needs the control group `blkio` of version 1, mounted where it usually is"
        );
        let image = directory.join("disk.image");
        let mounted = directory.join("disk");
        fs::create_dir(&mounted)?;
        fs::File::create(&image)?.set_len(bytes + bytes / 8 + (256 << 20))?;
        run(command("mkfs.ext4")
            .args(["-q", "-E", "lazy_itable_init=1"])
            .arg(&image))?;
        let device = run(command("losetup").args(["--show", "-f"]).arg(&image))?;
        let name = device.trim_start_matches("/dev/");
        let number = fs::read_to_string(format!("/sys/block/{name}/dev"))?;
        let disk = Self {
            mounted,
            number: number.trim().to_owned(),
            device,
        };
        run(command("mount").arg(&disk.device).arg(&disk.mounted))?;
        disk.limit(rate)?;
        Ok(disk)
    }

    pub(super) fn path(&self) -> &Path {
        &self.mounted
    }

    /// Sets the limit; 0 removes it.
    fn limit(&self, rate: u64) -> anyhow::Result<()> {
        fs::write(LIMITS, format!("{} {rate}", self.number)).context("cannot limit a disk")
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // A part that was not made need not be removed. The other steps must run even if one step fails.
        let _ = self.limit(0);
        let _ = run(command("umount").arg(&self.mounted));
        let _ = run(command("losetup").args(["-d", &self.device]));
    }
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
