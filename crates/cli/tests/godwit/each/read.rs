//! Tests how often the source is read, by counters of the kernel and of its scans, and that what changes meanwhile is never mixed.
//! Measures no rates.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::data::{Seeded, write_file};
use super::super::judge::assert_identical;
use super::super::rig::{Rig, is_root};
use super::{MIB, all_of, rig_with_tree};

/// A file system on a loop device, which counts what is read from it.
struct Device {
    name: String,
    mount: PathBuf,
}

fn run(line: &[&str]) -> String {
    let output = Command::new(line[0]).args(&line[1..]).output();
    let output = output.unwrap_or_else(|error| panic!("{line:?}: {error}"));
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

impl Device {
    fn new(rig: &Rig) -> Self {
        let (image, mount) = (rig.path("image"), rig.path("mounted"));
        File::create(&image)
            .and_then(|file| file.set_len(256 * MIB))
            .expect("made");
        fs::create_dir(&mount).expect("made");
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        run(&["mkfs.ext4", "-q", &text(&image)]);
        let name = run(&["losetup", "--find", "--show", &text(&image)]);
        let device = Self {
            name: name.trim().to_owned(),
            mount,
        };
        run(&["mount", &device.name, &text(&device.mount)]);
        device
    }

    fn read_bytes(&self) -> u64 {
        let name = self.name.rsplit('/').next().expect("a name");
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("there");
        let sectors = stat.split_whitespace().nth(2).expect("a number");
        512 * sectors.parse::<u64>().expect("a number")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The outcome of the test does not depend on it.
        let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
        let _ = Command::new("losetup").args(["-d", &self.name]).status();
    }
}

#[test]
fn a_device_is_read_once_for_three_destinations() {
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        return;
    }
    let (rig, _) = rig_with_tree(1);
    let device = Device::new(&rig);
    let bytes = 96 * MIB;
    for number in 0..3 {
        let file = device.mount.join(format!("large-{number}"));
        write_file(&file, bytes / 3, &mut Seeded(number));
    }
    run(&["sync", "-f", device.mount.to_str().expect("text")]);
    let before = device.read_bytes();
    // The page cache would hide a second read.
    let outcome = rig.cp(&[
        "--each",
        "--direct",
        "--limit",
        "64MB",
        "mounted/.",
        "a/",
        "b/",
        "c/",
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    let read = device.read_bytes() - before;
    for name in ["a", "b", "c"] {
        for number in 0..3 {
            let [one, other] = [device.mount.clone(), rig.path(name)]
                .map(|place| fs::read(place.join(format!("large-{number}"))).expect("there"));
            assert!(one == other, "{name}");
        }
    }
    assert!(read >= bytes, "{read} of {bytes}: the judge counts nothing");
    assert!(
        read < bytes * 103 / 100,
        "{read} of {bytes}: {}",
        outcome.said()
    );
    assert_eq!(all_of(&outcome)["read_bytes"], bytes, "{}", outcome.said());
}

#[test]
fn three_destinations_scan_no_more_than_two() {
    let (rig, _) = rig_with_tree(1);
    let pages_for = |destinations: &[&str]| {
        let outcome = rig.cp(&[&["--each", "-a", "src/."][..], destinations].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
        all_of(&outcome)["scan_pages"].as_u64().expect("a number")
    };
    let three = pages_for(&["a/", "b/", "c/"]);
    // Nothing is sent now, which makes no difference to the scan.
    assert_eq!(pages_for(&["a/", "b/"]), three);
    assert!(three > 0, "the judge counts nothing");
    for name in ["a", "b", "c"] {
        assert_identical(&rig.path("src"), &rig.path(name));
    }
}

#[test]
fn a_file_that_changes_meanwhile_arrives_in_one_state_everywhere() {
    let (rig, _) = rig_with_tree(1);
    let file = rig.path("src/changing");
    let write = |byte: u8| {
        let mut to = File::create(&file).expect("made");
        for _ in 0..48 {
            to.write_all(&[byte; 64 << 10]).expect("written");
        }
    };
    write(0);
    let done = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = 1_u8;
            while !done.load(Ordering::Relaxed) && byte < 40 {
                write(byte);
                byte += 1;
                thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let line = [
            "--each",
            "-a",
            "--limit",
            "8MB",
            "--block-size",
            "64KiB",
            "src/.",
            "a/",
            "b/",
            "c/",
        ];
        let outcome = rig.cp(&line);
        done.store(true, Ordering::Relaxed);
        outcome
    });
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    for name in ["a", "b", "c"] {
        let arrived = fs::read(rig.path(name).join("changing")).expect("arrived");
        // A partly written state counts, too.
        assert!(
            arrived.windows(2).all(|pair| pair[0] == pair[1]),
            "{name}: mixed"
        );
    }
    let again = rig.cp(&["--each", "-a", "src/.", "a/", "b/", "c/"]);
    assert_eq!(again.code, Some(0), "{}", again.said());
    for name in ["a", "b", "c"] {
        assert_identical(&rig.path("src"), &rig.path(name));
    }
}
