//! Tests destinations that take nothing or not all: full, read-only, missing.
//! Does not test storage that lies: the engine's own tests have a storage for that.
//!
//! A small file system takes a mount namespace, which also ends with the daemon in it. Without root the test makes a user
//! namespace first. If that is not allowed, only the cases without a mount are tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_api::failure::FailureCode;
use godwit_testkit::skip;

use super::data::{Seeded, make_tree, write_file};
use super::judge::{assert_finals_whole, assert_identical, assert_tidy};
use super::process::Outcome;
use super::rig::{Rig, is_root};

const MIB: u64 = 1 << 20;

/// The start of a command that runs a script where mounts can be made; None for a user who may not make them.
pub(crate) fn unshare() -> Option<Vec<&'static str>> {
    let line: Vec<&str> = if is_root() {
        vec!["unshare", "--mount", "--propagation=slave"]
    } else {
        vec![
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--propagation=slave",
        ]
    };
    let probe = Command::new(line[0])
        .args(&line[1..])
        .args(["sh", "-c", "mount -t tmpfs none /mnt"])
        .output();
    let may = probe.as_ref().is_ok_and(|output| output.status.success());
    assert!(may || !is_root(), "root can mount: {probe:?}");
    if !may {
        skip("it needs a namespace to mount in");
    }
    may.then_some(line)
}

/// A daemon whose export is a file system mounted by `options`, and the export as we see it.
pub(crate) fn mounted(options: &str) -> Option<(Rig, PathBuf)> {
    let unshare = unshare()?;
    let mut rig = Rig::new();
    let script = format!(
        "mount -t tmpfs -o {options} none {} && exec \"$@\"",
        rig.export.display()
    );
    rig.wrap_daemon([unshare.as_slice(), &["sh", "-c", &script, "sh"]].concat());
    rig.start(&[]);
    let export = PathBuf::from(format!("/proc/{}/root", rig.daemon().id()))
        .join(rig.export.strip_prefix("/").expect("absolute"));
    Some((rig, export))
}

/// Looks at the destination through another program, because not every program can enter the daemon's mounts.
fn assert_arrived(rig: &Rig, source: &Path, destination: &Path) {
    let copy = rig.path("copy");
    let status = Command::new("cp")
        .arg("-a")
        .args([destination, &copy])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cannot be copied"
    );
    assert_identical(source, &copy);
}

fn push(rig: &Rig, flags: &[&str], destination: &str) -> Outcome {
    let url = rig.url(destination);
    let line = [flags, &["run42", url.as_str()]].concat();
    rig.cp(&line)
}

#[test]
fn a_full_destination_ends_the_transfer_with_one_message_and_it_finishes_once_there_is_room() {
    let Some((rig, export)) = mounted("size=40m") else {
        return missing_destinations();
    };
    let source = rig.path("run42");
    let total = make_tree(&source, 24, &mut Seeded(1));
    write_file(&export.join("ballast"), 24 * MIB, &mut Seeded(2));

    let end = push(&rig, &[], "new");
    end.expect_code(FailureCode::NoSpace).says("no space left");
    assert_one_message(&end);
    assert_finals_whole(&source, &export.join("new"));

    // Still no space: arrived files are not sent again.
    let end = push(&rig, &[], "new");
    end.expect(3, "partial").says("\"resumed\":true");
    assert_finals_whole(&source, &export.join("new"));

    fs::remove_file(export.join("ballast")).expect("removed");
    let end = push(&rig, &[], "new");
    end.complete();
    assert!(end.number("bytes") < total, "{}", end.said());
    assert_arrived(&rig, &source, &export.join("new"));
    assert_tidy(&export.join("new"), &rig.daemon_home);
}

/// The disk of this machine, for a copy here and for data from a node.
#[test]
fn a_full_disk_here_ends_a_copy_and_a_pull_with_one_message() {
    let Some(unshare) = unshare() else { return };
    let mut rig = Rig::new();
    let source = rig.export.join("run42");
    make_tree(&source, 24, &mut Seeded(6));
    rig.start(&[]);
    let small = rig.path("small");
    fs::create_dir(&small).expect("made");
    // Each command finds it empty, because the mount ends with the command.
    let script = format!(
        "mount -t tmpfs -o size=16m none {} && exec \"$@\"",
        small.display()
    );
    rig.wrap_client([unshare.as_slice(), &["sh", "-c", &script, "sh"]].concat());
    let (here, there) = (source.display().to_string(), rig.url("run42"));
    for source in [here, there] {
        assert_one_message(&rig.cp(&[source.as_str(), "small/new"]));
    }
    assert_eq!(fs::read_dir(&small).expect("read").count(), 0);
}

/// The transfer names the needed and the free space once, and no entry.
#[track_caller]
fn assert_one_message(end: &Outcome) {
    end.expect(3, "partial")
        .expect_code(FailureCode::NoSpace)
        .says("more are needed")
        .says("are free there");
    let reported = |of: &str| end.out.lines().filter(|line| line.contains(of)).count();
    assert_eq!(reported("\"failed\",\"path"), 0, "{}", end.said());
    assert_eq!(reported("the destination is full"), 1, "{}", end.said());
}

#[test]
fn a_destination_without_room_for_one_more_name_ends_partial() {
    let Some((rig, export)) = mounted("size=40m,nr_inodes=150") else {
        return missing_destinations();
    };
    let source = rig.path("run42");
    fs::create_dir(&source).expect("made");
    for number in 0..300 {
        write_file(&source.join(number.to_string()), 100, &mut Seeded(number));
    }
    let end = push(&rig, &[], "new");
    end.expect(3, "partial").says("o space");
    assert_finals_whole(&source, &export.join("new"));
    for number in 0..200 {
        fs::remove_file(source.join(number.to_string())).expect("removed");
    }
    for number in 0..200 {
        let _ = fs::remove_file(export.join("new").join(number.to_string()));
    }
    push(&rig, &[], "new").complete();
    assert_arrived(&rig, &source, &export.join("new"));
    assert_tidy(&export.join("new"), &rig.daemon_home);
}

#[test]
fn a_destination_without_room_for_one_more_directory_says_what_is_missing_and_what_is_free() {
    let Some((rig, _)) = mounted("size=40m,nr_inodes=50") else {
        return;
    };
    for number in 0..100 {
        fs::create_dir_all(rig.path("run42").join(number.to_string())).expect("made");
    }
    let end = push(&rig, &[], "new");
    end.expect(3, "partial")
        .expect_code(FailureCode::NoSpace)
        .says("room for names is missing")
        .says("are free there");
    let reported = |of: &str| end.out.lines().filter(|line| line.contains(of)).count();
    assert_eq!(reported("the destination is full"), 1, "{}", end.said());
}

#[test]
fn a_read_only_destination_is_reported_and_nothing_is_claimed() {
    let Some((rig, _)) = mounted("ro") else {
        return missing_destinations();
    };
    make_tree(&rig.path("run42"), 1, &mut Seeded(3));
    for destination in ["new", ""] {
        let end = push(&rig, &["--retry-for", "5s"], destination);
        assert!(
            matches!(end.code, Some(1 | 3)),
            "{:?}: {}",
            end.code,
            end.said()
        );
        end.says("the file system is read-only");
        assert_eq!(end.number("files"), 0, "{}", end.said());
        assert_eq!(end.number("bytes"), 0, "{}", end.said());
    }
}

#[test]
fn a_destination_without_write_permission_is_reported() {
    let mut rig = Rig::new();
    let source = rig.path("run42");
    make_tree(&source, 1, &mut Seeded(3));
    // An obstacle for every user, root or not: files in place of wanted directories.
    fs::create_dir(rig.export.join("new")).expect("made");
    fs::write(rig.export.join("new/run42"), "in the way").expect("written");
    rig.start(&[]);
    let end = push(&rig, &[], "new");
    assert!(
        matches!(end.code, Some(1 | 3)),
        "{:?}: {}",
        end.code,
        end.said()
    );
    end.says("new/run42");
    assert_eq!(
        fs::read_to_string(rig.export.join("new/run42")).expect("read"),
        "in the way"
    );
}

#[test]
fn a_missing_destination_is_reported() {
    missing_destinations();
}

fn missing_destinations() {
    let mut rig = Rig::new();
    make_tree(&rig.path("run42"), 1, &mut Seeded(4));
    rig.start(&[]);
    push(&rig, &[], "no/such")
        .expect(1, "failed")
        .says("does not exist");
    let end = rig.cp(&["run42", "no/such/place"]);
    end.expect(1, "failed").says("no/such");
    assert!(!rig.export.join("no").exists() && !rig.path("no").exists());
    assert!(Rig::journals(&rig.daemon_home).is_empty());
    // The export itself is gone.
    fs::remove_dir(&rig.export).expect("empty");
    push(&rig, &["--retry-for", "5s"], "new")
        .expect(1, "failed")
        .says("data");
}

#[test]
fn a_verified_push_reads_back_the_sent_bytes() {
    let mut rig = Rig::new();
    let source = rig.path("run42");
    make_tree(&source, 8, &mut Seeded(5));
    rig.start(&[]);
    for (number, digest) in ["crc64-nvme", "blake3"].into_iter().enumerate() {
        let name = format!("new{number}");
        push(&rig, &["--verify", "--digest", digest], &name).complete();
        assert_identical(&source, &rig.export.join(&name));
        assert_tidy(&rig.export, &rig.daemon_home);
    }
}

/// The files to delete would make room, but they go last.
#[test]
fn a_full_destination_with_delete_says_what_makes_room() {
    let Some((rig, export)) = mounted("size=20m") else {
        return;
    };
    let source = rig.path("run42");
    fs::create_dir(&source).expect("made");
    write_file(&source.join("new"), 12 * MIB, &mut Seeded(1));
    fs::create_dir(export.join("copy")).expect("made");
    write_file(&export.join("copy/old"), 12 * MIB, &mut Seeded(2));
    let url = rig.url("copy");
    let line = ["sync", "--json", "--delete", "run42", &url];
    let outcome = rig.client(&line);
    outcome
        .expect(3, "partial")
        .expect_code(FailureCode::NoSpace)
        .says("--delete-before");
    assert!(export.join("copy/old").exists());
    rig.client(&["sync", "--json", "--delete-before", "run42", &url])
        .complete();
    assert!(!export.join("copy/old").exists());
    assert_arrived(&rig, &source, &export.join("copy"));
}
