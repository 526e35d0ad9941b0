//! Tests that a power cut at the destination loses nothing that was promised: an ext4 file system on a loop device ends abruptly.
//! Does not test storage that lies about syncs: the engine's own tests have a storage for that.
//!
//! Mounting takes root. Without root the test kills the daemon at the same moments instead, which at least must not leave
//! an incomplete file under a final name.

#![expect(clippy::print_stderr, reason = "a failure is reported with its seed")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_sys::shutdown::{Shutdown, file_system};
use godwit_testkit::needs_root;
use rustix::process::Signal;
use tempfile::TempDir;

use super::data::{Seeded, first_seed, make_tree};
use super::judge::{assert_finals_whole, assert_finals_whole_of, assert_identical, assert_tidy};
use super::process::wait_until;
use super::rig::Rig;

/// A file system in a file. Goes away when dropped.
pub(crate) struct Disk {
    kind: &'static str,
    image: PathBuf,
    at: PathBuf,
    mounted: bool,
}

impl Disk {
    /// None for a user who may not mount it.
    pub(crate) fn new(directory: &Path) -> Option<Self> {
        Self::formatted(directory, "ext4", &["-F"])
    }

    /// A file system of this kind, made with these flags of `mkfs`.
    pub(crate) fn formatted(directory: &Path, kind: &'static str, flags: &[&str]) -> Option<Self> {
        let disk = Self {
            kind,
            image: directory.join("image"),
            at: directory.join("disk"),
            mounted: false,
        };
        fs::create_dir(&disk.at).expect("made");
        let image = File::create(&disk.image).expect("made");
        image.set_len(384 << 20).expect("set");
        if !needs_root() {
            return None;
        }
        let mut disk = disk;
        assert!(
            tool(
                &format!("mkfs.{kind}"),
                &[&["-q"], flags].concat(),
                &[&disk.image]
            ) && disk.mount(),
            "root can make and mount a file system of kind {kind}: {}",
            disk.image.display()
        );
        Some(disk)
    }

    fn mount(&mut self) -> bool {
        self.mounted = tool(
            "mount",
            &["-t", self.kind, "-o", "loop"],
            &[&self.image, &self.at],
        );
        // Shared, so that `umount` reaches the copies in namespaces that other tests make meanwhile.
        self.mounted && tool("mount", &["--make-shared"], &[&self.at])
    }

    pub(crate) fn cut_power(&self, how: Shutdown) {
        let root = File::open(&self.at).expect("mounted");
        file_system(&root, how).expect("ext4 can be shut down");
    }

    /// Mounts the device again, with only the data that reached it.
    pub(crate) fn come_back(&mut self) {
        let gone = wait_until(|| tool("umount", &[], &[&self.at]).then_some(()));
        assert!(gone.is_some(), "{} stays mounted", self.at.display());
        // While any process uses the old file system, mounting the image would return that one again.
        let released = wait_until(|| self.is_released().then_some(()));
        assert!(released.is_some(), "{} stays in use", self.image.display());
        assert!(
            self.mount(),
            "{} cannot be mounted again",
            self.image.display()
        );
    }

    /// Whether no loop device uses the image.
    fn is_released(&self) -> bool {
        let output = Command::new("losetup").arg("-j").arg(&self.image).output();
        output.is_ok_and(|output| output.status.success() && output.stdout.is_empty())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily, because a failed test may have left a process in it. The loop device goes with the last user.
            tool("umount", &["--lazy"], &[&self.at]);
        }
    }
}

fn tool(name: &str, flags: &[&str], paths: &[&Path]) -> bool {
    let output = Command::new(name).args(flags).args(paths).output();
    output.is_ok_and(|output| output.status.success())
}

/// Cuts power at moments from the seed until the transfer is complete. Returns how often.
fn cut_until_complete(seed: u64) -> u64 {
    let mut seeded = Seeded(seed);
    // Not in memory, where there may be no room for a disk.
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))
        .or_else(|_| TempDir::new())
        .expect("a temporary directory");
    let mut disk = Disk::new(directory.path());
    let at = directory.path().join("disk");
    let export = at.join("export");
    let home = seed.is_multiple_of(2).then(|| at.join("home"));
    let mut rig = Rig::with(
        TempDir::new().expect("a temporary directory"),
        Some(&export),
        home.as_deref(),
    );
    let source = rig.path("run42");
    let total = make_tree(&source, 32, &mut Seeded(seed));
    // Under every other pair of seeds, so that either home has both cases, an older tree exists with other contents under the same
    // names.
    let older = (seed / 2).is_multiple_of(2).then(|| {
        let older = rig.path("older");
        make_tree(&older, 32, &mut Seeded(!seed));
        assert!(tool("cp", &["-a"], &[&older, &export.join("new")]));
        older
    });
    let names = older
        .as_ref()
        .map(|older| assert_finals_whole(older, &export.join("new")));
    rig.start(&[]);
    // Keys and grants were made long ago.
    rustix::fs::syncfs(File::open(&at).expect("there")).expect("synced");
    let mut cuts = 0;
    loop {
        let before = rig.daemon().written().expect("it runs");
        let moment = seeded.below(total * 5 / 4) >> seeded.below(2);
        let url = rig.url("new");
        let from = if older.is_some() { "run42/." } else { "run42" };
        let line = ["--limit", "20MB", from, &url];
        let mut client = rig.begin_cp(&rig.path(""), &line);
        let reached = wait_until(|| {
            let written = rig.daemon().written().expect("it runs") - before;
            (written >= moment || client.has_ended()).then_some(())
        });
        assert!(reached.is_some(), "a standstill: {}", client.said());
        let complete = client.has_ended();
        let how = if seeded.below(3) == 0 {
            Shutdown::LogFlush
        } else {
            Shutdown::NoLogFlush
        };
        if let Some(disk) = &disk {
            disk.cut_power(how);
            cuts += 1;
        }
        rig.kill_daemon();
        client.signal(Signal::KILL);
        let end = client.wait();
        if let Some(disk) = &mut disk {
            disk.come_back();
        } else {
            cuts += 1;
        }
        let trees: Vec<&Path> = [Some(&source), older.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
        let whole = assert_finals_whole_of(&trees, &export.join("new"));
        assert!(
            names.is_none_or(|names| names == whole),
            "{whole} names of {names:?} are left"
        );
        eprintln!("seed {seed}: {how:?} after {moment} of {total} bytes, {whole} files were whole");
        if complete {
            // After the report "complete", a power cut loses nothing.
            end.complete();
            assert_identical(&source, &export.join("new"));
            assert_tidy(&export, &rig.daemon_home);
            return cuts;
        }
        rig.start(&[]);
    }
}

#[test]
fn power_cut_at_any_moment_takes_back_nothing_and_leaves_nothing_half() {
    let mut cuts = 0;
    for seed in first_seed(900).. {
        cuts += cut_until_complete(seed);
        if cuts >= 12 && seed % 2 == 1 {
            return;
        }
    }
}
