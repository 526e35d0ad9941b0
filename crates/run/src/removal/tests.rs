//! Tests of the removal by files and manifests on disk.
//! The merge has its own tests.

use std::cell::Cell;
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use godwit_store::manifest::{EntryType, ManifestWriter};
use godwit_store::{TempName, Timestamp};

use super::*;
use crate::local::{Access, Sources};

const GOES_ON: Permit<'_> = Permit {
    holds: &|| true,
    goes_on: &|| true,
};

/// The line of a file as it is now.
fn line(source: &Path, name: &str) -> ManifestEntry {
    let path = source.join(name);
    let meta = std::fs::metadata(&path).expect("there");
    let contents = std::fs::read(&path).expect("readable");
    ManifestEntry {
        kind: EntryType::File,
        bytes: meta.len(),
        mtime: Timestamp {
            seconds: meta.mtime(),
            nanoseconds: u32::try_from(meta.mtime_nsec()).expect("below a second"),
        },
        mode: 0o644,
        digest: Some(Digest(*blake3::hash(&contents).as_bytes())),
        path: RelPath::parse(name.as_bytes()).expect("a path"),
        target: Vec::new(),
    }
}

/// A manifest of these lines, and its digest.
fn manifest(lines: &[ManifestEntry]) -> (File, String) {
    let file = tempfile::tempfile().expect("a file");
    let mut writer =
        ManifestWriter::new(BufWriter::new(file), DigestKind::Blake3).expect("written");
    for line in lines {
        writer.push(line).expect("written");
    }
    let (out, trailer) = writer.finish(0, None).expect("written");
    let digest = format!("blake3:{}", HEXLOWER.encode(&trailer.digest));
    (out.into_inner().expect("flushed"), digest)
}

const TEXT: &str = "this one";

fn name() -> TempName {
    TempName::of_removal(TEXT.as_bytes())
}

fn proof(lines: &[ManifestEntry]) -> Proof {
    let (file, digest) = manifest(lines);
    Proof::of(file, &digest).expect("good")
}

fn removed(source: &Path, lists: &[&[ManifestEntry]], copies: u32, permit: &Permit<'_>) -> Removed {
    let spill = tempfile::tempdir().expect("a directory");
    let found = Sources::new(spill.path(), None, Access::default()).find(source);
    let found = found.expect("a source");
    let mut proofs: Vec<Proof> = lists.iter().map(|lines| proof(lines)).collect();
    let all = directories(&mut proofs, copies).expect("readable");
    let marks = mark(&found, &all, TEXT).expect("marked");
    marks.check().expect("there");
    remove(&found, (&mut proofs, copies), &marks, permit).expect("readable")
}

#[test]
fn only_files_as_they_were_copied_go() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path();
    for name in ["a", "changed", "few", "gone", "linked", "same-size"] {
        std::fs::write(source.join(name), "hello").expect("written");
    }
    let all: Vec<ManifestEntry> = ["a", "changed", "few", "gone", "linked", "same-size"]
        .map(|name| line(source, name))
        .to_vec();
    let but: Vec<ManifestEntry> = all
        .iter()
        .filter(|line| line.path.as_bytes() != b"few")
        .cloned()
        .collect();
    std::fs::write(source.join("changed"), "hello, world").expect("written");
    std::fs::remove_file(source.join("gone")).expect("removed");
    std::fs::hard_link(source.join("linked"), source.join("other-name")).expect("linked");
    // Size and time are the old ones, the contents are not.
    let path = source.join("same-size");
    let before = std::fs::metadata(&path)
        .expect("there")
        .modified()
        .expect("a time");
    std::fs::write(&path, "HELLO").expect("written");
    let file = File::options().write(true).open(&path).expect("open");
    file.set_modified(before).expect("set");
    let done = removed(source, &[&all, &but], 2, &GOES_ON);
    assert_eq!(
        (done.files, done.bytes, done.gone, done.linked),
        (1, 5, 1, 1)
    );
    assert_eq!(done.changed.names, ["changed", "same-size"]);
    assert_eq!(done.few.names, ["few"]);
    assert_eq!((done.failed.count, done.left()), (0, 3));
    assert!(!source.join("a").exists());
    for name in ["changed", "few", "linked", "other-name", "same-size"] {
        assert!(source.join(name).exists(), "{name}");
    }
    // Again: nothing goes twice.
    let again = removed(source, &[&all, &but], 2, &GOES_ON);
    assert_eq!((again.files, again.gone), (0, 2));
}

#[test]
fn a_link_in_the_place_of_a_file_stays_and_so_does_its_target() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("source");
    std::fs::create_dir(&source).expect("made");
    std::fs::write(source.join("a"), "hello").expect("written");
    let lines = [line(&source, "a")];
    std::fs::rename(source.join("a"), directory.path().join("target")).expect("renamed");
    std::os::unix::fs::symlink("../target", source.join("a")).expect("linked");
    let done = removed(&source, &[&lines], 1, &GOES_ON);
    assert_eq!((done.files, done.left()), (0, 1));
    assert!(directory.path().join("target").exists());
    assert!(source.join("a").is_symlink());
}

#[test]
fn nothing_goes_without_the_claim_or_after_a_change_during_the_question() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path();
    std::fs::write(source.join("a"), "hello").expect("written");
    let lines = [line(source, "a")];
    let lost = Permit {
        holds: &|| false,
        goes_on: &|| true,
    };
    let done = removed(source, &[&lines], 1, &lost);
    assert!(done.stopped && done.files == 0, "{done:?}");
    let asked = Cell::new(0);
    let changes = || {
        asked.set(asked.get() + 1);
        std::fs::write(source.join("a"), "HELLO").expect("written");
        true
    };
    let late = Permit {
        holds: &changes,
        goes_on: &|| true,
    };
    let done = removed(source, &[&lines], 1, &late);
    assert_eq!((asked.get(), done.files, done.changed.count), (1, 0, 1));
    assert!(source.join("a").exists());
}

#[test]
fn a_file_that_takes_the_name_of_the_one_that_was_read_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path();
    std::fs::write(source.join("a"), "hello").expect("written");
    let spill = tempfile::tempdir().expect("a directory");
    let found = Sources::new(spill.path(), None, Access::default()).find(source);
    let root = found.expect("a source").root;
    let path = root.start.join(b"a").expect("a path");
    let file = root.storage.open(&path).expect("open");
    let before = file.meta().expect("known");
    // It comes after the last look at the name.
    std::fs::write(source.join("new"), "other").expect("written");
    std::fs::rename(source.join("new"), source.join("a")).expect("renamed");
    let aside = source.join(name().to_string());
    let fate = || remove_aside(&*root.storage, &path, (&*file, &before), name().as_bytes());
    // A clean has removed the private directory.
    fate().err().expect("the file is there");
    std::fs::create_dir(&aside).expect("made");
    assert!(matches!(fate(), Ok(Fate::Changed)));
    let there = std::fs::read(source.join("a")).expect("there");
    assert_eq!(there, b"other");
    assert_eq!(std::fs::read_dir(&aside).expect("there").count(), 0);
}

#[test]
fn a_manifest_that_is_another_one_or_in_disorder_proves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["a", "b"] {
        std::fs::write(directory.path().join(name), name).expect("written");
    }
    let [a, b] = ["a", "b"].map(|name| line(directory.path(), name));
    let (file, _) = manifest(std::slice::from_ref(&a));
    Proof::of(file, "blake3:00").expect_err("another manifest");
    for lines in [[b, a.clone()], [a.clone(), a]] {
        let (file, digest) = manifest(&lines);
        Proof::of(file, &digest).expect_err("no order");
    }
}

#[test]
fn each_directory_that_loses_files_has_a_mark_until_all_are_looked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path();
    for name in ["a", "deep/b", "deep/er/c", "other/d"] {
        let path = source.join(name);
        std::fs::create_dir_all(path.parent().expect("one")).expect("made");
        std::fs::write(path, name).expect("written");
    }
    let lines = ["a", "deep/b", "deep/er/c"].map(|name| line(source, name));
    let mut proofs = [proof(&lines), proof(&lines[1..])];
    let found = directories(&mut proofs, 2).expect("readable");
    let wanted = ["deep", "deep/er"].map(|name| Some(name.as_bytes().to_vec()));
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        wanted.iter().collect::<Vec<_>>()
    );
    let all = directories(&mut proofs, 1).expect("readable");
    assert_eq!(all.len(), 3);
    let spill = tempfile::tempdir().expect("a directory");
    let place = Sources::new(spill.path(), None, Access::default()).find(source);
    let place = place.expect("a source");
    let mark_in = |directory: &str| source.join(directory).join(name().to_string());
    let are_marked = || ["", "deep", "deep/er", "other"].map(|name| mark_in(name).exists());
    let marks = mark(&place, &all, TEXT).expect("marked");
    assert_eq!(are_marked(), [true, true, true, false]);
    marks.check().expect("there");
    // A clean in another process removes empty marks.
    std::fs::remove_dir(mark_in("deep")).expect("removed");
    marks.check().expect_err("one is gone");
    drop(marks);
    assert_eq!(are_marked(), [false; 4]);
    // A name that is taken is not ours to remove.
    std::fs::write(mark_in("deep"), "theirs").expect("written");
    mark(&place, &all, TEXT).err().expect("taken");
    assert_eq!(are_marked(), [false, true, false, false]);
}

#[test]
fn a_file_that_a_crash_left_in_a_mark_gets_its_name_back_and_replaces_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path();
    let aside = source.join("deep").join(name().to_string());
    std::fs::create_dir_all(&aside).expect("made");
    for name in ["lost", "taken"] {
        std::fs::write(aside.join(name), "aside").expect("written");
    }
    std::fs::write(source.join("deep/taken"), "new").expect("written");
    let spill = tempfile::tempdir().expect("a directory");
    let found = Sources::new(spill.path(), None, Access::default()).find(source);
    let root = found.expect("a source").root;
    let path = ["deep", &name().to_string()].join("/");
    let path = root.start.join(path.as_bytes()).expect("a path");
    let error = put_back(&*root.storage, &path).expect_err("one is taken");
    assert_eq!(error.kind, StoreErrorKind::Exists);
    assert!(error.to_string().contains("taken"), "{error}");
    let read = |path: &Path| std::fs::read_to_string(path).expect("there");
    assert_eq!(read(&source.join("deep/lost")), "aside");
    assert_eq!(read(&source.join("deep/taken")), "new");
    assert_eq!(read(&aside.join("taken")), "aside");
}
