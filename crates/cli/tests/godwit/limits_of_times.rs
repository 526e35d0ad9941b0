//! Tests file systems that accept a time or a mode and keep another: ext4 with inodes of 128 bytes and xfs without bigtime end in 2038.
//! Refusals of a file system are tested in `unkept`.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::{Duration, SystemTime};

use godwit_testkit::{needs_root, skip};

use super::metadata::tool;
use super::power::Disk;
use super::process::Outcome;
use super::rig::{NOBODY, Rig};

/// 2065, which the file system cannot keep.
const LATE: Duration = Duration::from_secs(3_000_000_000);

fn set_time(rig: &Rig, name: &str, since: Duration) {
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since);
    let file = File::open(rig.path(name)).expect("there");
    file.set_times(times).expect("ours");
}

fn lost(outcome: &Outcome) -> [u64; 2] {
    let summary = outcome.complete().summary();
    ["time", "mode"].map(|kind| summary["not_kept"][kind].as_u64().expect("a number"))
}

#[test]
fn times_beyond_a_file_system_are_reported_and_their_contents_compared() {
    times_beyond("ext4", &["-F", "-I", "128", "-b", "4096"]);
}

#[test]
fn times_beyond_xfs_without_bigtime_are_reported_and_their_contents_compared() {
    let is_there = |name: &str| Command::new(name).arg("-V").output().is_ok();
    if !is_there("mkfs.xfs") {
        return skip("it needs mkfs.xfs");
    }
    let known = fs::read_to_string("/proc/filesystems").expect("read");
    if !known.lines().any(|line| line.trim() == "xfs") {
        return skip("it needs a kernel with xfs");
    }
    times_beyond("xfs", &["-m", "bigtime=0"]);
}

/// Copies to a file system of this kind, made with these flags, which ends before `LATE`.
fn times_beyond(kind: &'static str, flags: &[&str]) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut rig = Rig::with(directory, None, None);
    let Some(_disk) = Disk::formatted(&rig.path(""), kind, flags) else {
        // Only a superuser can mount such a file system.
        return;
    };
    rig.start(&[]);
    rig.write("run/small", "one");
    rig.write("run/large", vec![7; 3_000_000]);
    rig.write("run/now", "x");
    std::os::unix::fs::symlink("now", rig.path("run/link")).expect("made");
    for name in ["run/small", "run/large"] {
        set_time(&rig, name, LATE);
    }
    for by in ["cp", "sync"] {
        let to = format!("disk/{by}");
        let line = [by, "--json", "run/.", &to];
        let manifest = format!("manifest-{by}");
        let first = rig.client(&[&line[..], &["--manifest", &manifest]].concat());
        assert_eq!(lost(&first), [2, 0], "{}", first.said());
        first.says("2 entries arrived without the time");
        let verified = rig.client(&["verify", "--json", &manifest, &to]);
        verified.expect(0, "same");
        // No file is sent again, and missing metadata is reported again.
        let again = rig.client(&line);
        assert_eq!(lost(&again), [2, 0], "{}", again.said());
        assert_eq!(again.number("bytes"), 0, "{}", again.said());
        // The same size, and a time that looks the same there.
        rig.write("run/small", "two");
        set_time(&rig, "run/small", LATE + Duration::from_secs(1));
        let changed = rig.client(&line);
        assert_eq!(lost(&changed), [2, 0], "{}", changed.said());
        assert_eq!(changed.number("bytes"), 3, "{}", changed.said());
        assert_eq!(rig.read(&format!("disk/{by}/small")), b"two");
        let strict = format!("disk/strict-{by}");
        let strict = rig.client(&[by, "--json", "--strict", "run/.", &strict]);
        assert_eq!(
            strict.expect(3, "partial").failed(),
            ["run/large", "run/small"]
        );
        strict.says("cannot keep the time of");
        rig.write("run/small", "one");
        set_time(&rig, "run/small", LATE);
    }
}

/// `chmod` silently drops the bit if the owner is not in the group.
#[test]
fn a_set_id_bit_that_the_kernel_drops_is_reported() {
    if !needs_root() {
        // Only a superuser can give a directory to a foreign group.
        return;
    }
    let mut rig = Rig::for_user(true);
    rig.start(&[]);
    rig.write("run/file", "x");
    rig.write("run/other", "x");
    rig.make_dirs("to");
    rig.own();
    let group = NOBODY - 1;
    for name in ["run", "run/file", "run/other", "to"] {
        tool("chgrp", &[&group.to_string()], &rig.path(name));
    }
    fs::set_permissions(rig.path("to"), Permissions::from_mode(0o2777)).expect("ours");
    fs::set_permissions(rig.path("run/file"), Permissions::from_mode(0o2755)).expect("ours");
    let outcome = rig.cp(&["--owner", "--group", "run/.", "to"]);
    let summary = outcome.complete().summary();
    let there = fs::metadata(rig.path("to/file")).expect("there");
    assert_eq!((there.gid(), there.mode() & 0o7777), (group, 0o755));
    assert_eq!(summary["not_kept"]["set_id"], 1, "{}", outcome.said());
}
