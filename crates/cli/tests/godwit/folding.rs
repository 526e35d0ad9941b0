//! Tests of destinations that treat several spellings as one name: no file is overwritten, skipped or mixed because of that.
//! Other odd names are elsewhere (`entries`).
//!
//! Mounting takes root. Without root the test uses an ordinary place instead, where all of it has to arrive.

mod disk;

use std::fs;
use std::path::Path;

use godwit_api::failure::FailureCode;
use rustix::process::Signal;

use disk::FoldingDisk;

use super::judge::{assert_identical, assert_no_temporaries, names};
use super::process::wait_until;
use super::rig::Rig;

/// A client with a file system that folds names, if one can be mounted; copies go to its directory `to`.
fn place() -> (Rig, Option<FoldingDisk>) {
    let rig = Rig::new();
    rig.make_dirs("disk");
    let disk = FoldingDisk::mount(&rig.path("disk"));
    (rig, disk)
}

#[test]
fn a_rerun_overwrites_nothing_that_the_first_run_has_kept_apart() {
    let (rig, disk) = place();
    for (name, content) in [
        ("src/README", "the first one"),
        ("src/readme", "x"),
        ("src/other", "small"),
        ("src/caf\u{e9}", "small"),
        ("src/CAF\u{c9}", "capital"),
        ("src/Sub/f", "of Sub"),
        ("src/sub/f", "of sub"),
        ("src/sub/g", "of sub, too"),
    ] {
        rig.make_dirs(
            Path::new(name)
                .parent()
                .and_then(Path::to_str)
                .expect("text"),
        );
        rig.write(name, content);
    }
    let line = ["src/.", "disk/to"];
    let first = rig.cp(&line);
    if disk.is_none() {
        first.complete();
        assert_identical(&rig.path("src"), &rig.path("disk/to"));
        return;
    }
    first
        .expect(3, "partial")
        .says("another entry already has this name at the destination");
    let to = rig.path("disk/to");
    let kept: Vec<(String, Vec<u8>)> = [
        "README",
        "readme",
        "caf\u{e9}",
        "CAF\u{c9}",
        "Sub/f",
        "sub/f",
    ]
    .map(|name| (name.to_owned(), rig.read(&format!("src/{name}"))))
    .into_iter()
    .filter(|(name, _)| is_listed(&to, name))
    .collect();
    // The first name of each pair has arrived.
    assert_eq!(kept.len(), 3, "{kept:?}");
    for flags in [
        &[][..],
        &["--checksum"],
        &["--update"],
        &["--force"],
        &["--ignore-existing"],
    ] {
        let again = rig.cp(&[flags, &line].concat());
        again.expect(3, "partial");
        let failed = again.failed();
        assert!((4..=5).contains(&failed.len()), "{failed:?}");
        for (name, content) in &kept {
            assert!(is_listed(&to, name), "{name}: {:?}", names(&to));
            let there = fs::read(to.join(name)).expect("there");
            assert_eq!(&there, content, "{name} after {flags:?}");
            assert!(!failed.contains(&format!("src/{name}")), "{failed:?}");
        }
        assert_eq!(rig.read("disk/to/other"), b"small");
    }
    // Nothing is missing, so nothing is deleted for that either.
    rig.write("disk/to/more", "of theirs");
    let sync = rig.client(&["sync", "--json", "--delete", "src/", "disk/to/"]);
    sync.expect(3, "partial");
    assert_eq!(rig.read("disk/to/more"), b"of theirs");
    // The spelling in the list.
    let sub = if is_listed(&to, "Sub/f") {
        "src/sub"
    } else {
        "src/Sub"
    };
    fs::remove_dir_all(rig.path(sub)).expect("removed");
    for pair in [["README", "readme"], ["caf\u{e9}", "CAF\u{c9}"]] {
        for (index, name) in pair.into_iter().enumerate() {
            if !is_listed(&to, name) {
                let from = rig.path(format!("src/{name}"));
                fs::rename(from, rig.path(format!("src/other-{index}"))).expect("renamed");
            }
        }
    }
    rig.cp(&line).complete();
    fs::remove_file(to.join("more")).expect("removed");
    assert_identical(&rig.path("src"), &to);
    assert_no_temporaries(&to);
}

fn is_listed(below: &Path, name: &str) -> bool {
    let path = Path::new(name);
    let directory = below.join(path.parent().unwrap_or_else(|| Path::new("")));
    let above = path.parent().and_then(Path::file_name);
    let name = path.file_name().and_then(|name| name.to_str());
    let right_one = above.is_none_or(|above| names(below).iter().any(|name| above == &**name));
    right_one && name.is_some_and(|name| names(&directory).iter().any(|there| there == name))
}

#[test]
fn a_tree_of_names_that_are_all_different_is_skipped_the_second_time() {
    let (rig, _disk) = place();
    for directory in ["src/Docs/Deep", "src/data", "src/\u{dc}ber"] {
        rig.make_dirs(directory);
        for name in [
            "Makefile",
            "notes.TXT",
            "42",
            "\u{e9}t\u{e9}",
            "\u{65e5}\u{672c}",
            "...",
        ] {
            rig.write(&format!("{directory}/{name}"), name);
        }
        std::os::unix::fs::symlink("Target", rig.path(directory).join("Link")).expect("made");
    }
    rig.cp(&["src", "disk/to"]).complete();
    assert_identical(&rig.path("src"), &rig.path("disk/to"));
    for flags in [&[][..], &["--checksum"]] {
        let again = rig.cp(&[flags, &["src/.", "disk/to"]].concat());
        again.complete();
        assert_eq!(again.number("files"), 0, "{}", again.said());
        assert_eq!(again.number("failed"), 0);
    }
    let sync = rig.client(&["sync", "--json", "--delete", "src", "disk/to"]);
    sync.complete();
    assert_eq!(
        sync.number("files") + sync.number("deleted"),
        0,
        "{}",
        sync.said()
    );
}

#[test]
fn a_delivered_file_whose_name_is_stored_in_another_form_is_not_deleted() {
    let (rig, disk) = place();
    rig.make_dirs("disk/to");
    rig.write("disk/to/old", "theirs");
    rig.write("src/letter.", "ours");
    rig.write("src/sub./g", "ours, too");
    let sync = rig.client(&["sync", "--json", "--delete", "src/", "disk/to/"]);
    assert_eq!(rig.read("disk/to/letter."), b"ours", "{}", sync.said());
    assert_eq!(rig.read("disk/to/sub./g"), b"ours, too");
    if disk.is_some() {
        sync.expect(3, "partial")
            .says("treats several spellings as one name");
        assert_eq!(names(&rig.path("disk/to")), ["letter", "old", "sub"]);
    } else {
        sync.complete();
        assert_identical(&rig.path("src"), &rig.path("disk/to"));
    }
}

#[test]
fn a_name_that_is_there_in_other_letters_is_replaced_only_where_it_was_named() {
    let (rig, disk) = place();
    rig.make_dirs("disk/to");
    rig.make_dirs("src");
    rig.write("disk/to/README", "theirs");
    rig.write("src/readme", "ours");
    let runs: [&[&str]; 2] = [&["src/.", "disk/to"], &["src/readme", "src", "disk/to"]];
    for line in runs {
        let outcome = rig.cp(line);
        if disk.is_some() {
            outcome
                .expect(3, "partial")
                .expect_code(FailureCode::Collision)
                .says("rename one of the two");
            assert_eq!(names(&rig.path("disk/to"))[0], "README");
        } else {
            outcome.complete();
        }
        assert_eq!(rig.read("disk/to/README"), b"theirs");
    }
    // As with cp, the user chose this name.
    rig.cp(&["src/readme", "disk/to/README"]).complete();
    assert_eq!(rig.read("disk/to/README"), b"ours");
    rig.write("src/readme", "ours, and newer");
    rig.cp(&["src/readme", "disk/to/ReadMe"]).complete();
    assert_eq!(rig.read("disk/to/ReadMe"), b"ours, and newer");
}

#[test]
fn an_interrupted_transfer_resumes_and_overwrites_nothing() {
    let (rig, disk) = place();
    rig.make_dirs("src");
    rig.write("src/README", "the first one");
    rig.write("src/big", vec![7; 4 << 20]);
    rig.write("list", "README\nbig\nreadme\n");
    let line = ["--limit", "1MiB", "--files-from", "list", "src", "disk/to"];
    let mut client = rig.begin_cp(&rig.path(""), &line);
    let there = wait_until(|| {
        let there = fs::read(rig.path("disk/to/README")).is_ok();
        (there || client.has_ended()).then_some(there)
    });
    assert_eq!(there, Some(true), "{}", client.said());
    client.signal(Signal::INT);
    client.wait();
    rig.write("src/readme", "x");
    let outcome = rig.cp(&["--files-from", "list", "src", "disk/to"]);
    assert_eq!(rig.read("disk/to/README"), b"the first one");
    assert_eq!(rig.read("disk/to/big"), vec![7; 4 << 20]);
    if disk.is_some() {
        outcome.expect(3, "partial");
        assert_eq!(outcome.failed(), ["src/readme"]);
        assert_eq!(names(&rig.path("disk/to")), ["README", "big"]);
    } else {
        outcome.complete();
        assert_eq!(rig.read("disk/to/readme"), b"x");
    }
}
