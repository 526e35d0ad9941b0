//! Tests names of a file system storage: links, directories, renames, removals, sweeps. Other tests check
//! contents, confinement and scans.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{TAG, Tree, meta, rel, temp_of};
use godwit_store::{Kind, RelPath, Replace, Storage, StoreErrorKind, TempName};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

#[test]
fn a_name_that_is_taken_is_reported_or_replaced() {
    for noreplace in [true, false] {
        let tree = Tree::with(|options| options.rename_noreplace = noreplace);
        fs::write(tree.at("file"), "old").unwrap();
        let path = rel("file");
        let temp = temp_of(&path);
        tree.storage
            .write_whole(&path, &temp, &meta(0o644, 1, 0), b"new")
            .unwrap();
        let error = tree
            .storage
            .commit(&path, &temp, Replace::Never)
            .unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Exists);
        assert_eq!(fs::read(tree.at("file")).unwrap(), b"old");
        tree.storage
            .commit(&path, &temp, Replace::Atomically)
            .unwrap();
        assert_eq!(fs::read(tree.at("file")).unwrap(), b"new");
        tree.put("other", b"x", &meta(0o600, 1, 0));
        assert_eq!(
            fs::read_dir(tree.at("")).unwrap().count(),
            2,
            "no temporary name is left"
        );
    }
}

#[test]
fn symbolic_links_are_made_replaced_and_dated() {
    let tree = Tree::new();
    let path = rel("link");
    let temp = temp_of(&path);
    let make = |target: &[u8], seconds, replace| {
        tree.storage
            .make_symlink(&path, target, &meta(0o777, seconds, 3), &temp, replace)
    };
    make(b"a/../nowhere\n", -5, Replace::Never).unwrap();
    assert_eq!(tree.storage.read_link(&path).unwrap(), b"a/../nowhere\n");
    make(b"a/../nowhere\n", -7, Replace::Atomically).unwrap();
    // The existing entry may have another spelling of the name; other code finds out which program made it.
    for target in [&b"a/../nowhere\n"[..], b"elsewhere"] {
        assert_eq!(
            make(target, 1, Replace::Never).unwrap_err().kind,
            StoreErrorKind::Exists
        );
    }
    let there = tree.storage.stat(&path).unwrap().unwrap();
    assert_eq!(
        (there.kind, there.mtime.seconds, there.mtime.nanoseconds),
        (Kind::Symlink, -7, 3)
    );
    make(b"elsewhere", 1, Replace::Atomically).unwrap();
    assert_eq!(
        fs::read_link(tree.at("link")).unwrap().as_os_str(),
        "elsewhere"
    );
    assert_eq!(fs::read_dir(tree.at("")).unwrap().count(), 1);
    fs::write(tree.at("file"), "").unwrap();
    assert_eq!(
        tree.storage.read_link(&rel("file")).unwrap_err().kind,
        StoreErrorKind::TypeConflict
    );
}

#[test]
fn hard_links_are_made_across_directories() {
    let tree = Tree::new();
    tree.storage.make_directory(&rel("a"), 0o700).unwrap();
    tree.storage.make_directory(&rel("b/c"), 0o700).unwrap();
    tree.put("a/first", b"shared", &meta(0o644, 1, 0));
    let path = rel("b/c/second");
    for _ in 0..2 {
        tree.storage
            .make_link(&path, &rel("a/first"), &temp_of(&path), Replace::Never)
            .unwrap();
    }
    fs::remove_file(tree.at("b/c/second")).unwrap();
    fs::write(tree.at("b/c/second"), "in the way").unwrap();
    let link = |replace| {
        let first = rel("a/first");
        let made = tree
            .storage
            .make_link(&path, &first, &temp_of(&path), replace);
        made.map_err(|error| error.kind)
    };
    assert_eq!(link(Replace::Never), Err(StoreErrorKind::Exists));
    assert_eq!(fs::read(tree.at("b/c/second")).unwrap(), b"in the way");
    link(Replace::Atomically).unwrap();
    let first = fs::metadata(tree.at("a/first")).unwrap();
    assert_eq!(
        (first.ino(), first.nlink()),
        (fs::metadata(tree.at("b/c/second")).unwrap().ino(), 2)
    );
    assert_eq!(fs::read_dir(tree.at("b/c")).unwrap().count(), 1);
    let missing = tree
        .storage
        .make_link(&path, &rel("a/none"), &temp_of(&path), Replace::Atomically)
        .unwrap_err();
    assert_eq!(missing.kind, StoreErrorKind::NotFound);
}

#[test]
fn directories_are_made_with_their_parents_and_dated_last() {
    let tree = Tree::new();
    assert!(tree.storage.make_directory(&rel("a/b/c/d"), 0o700).unwrap());
    assert!(!tree.storage.make_directory(&rel("a/b"), 0o700).unwrap());
    assert!(
        !tree
            .storage
            .make_directory(&RelPath::root(), 0o700)
            .unwrap()
    );
    for (path, mode) in [
        ("a/b/c/d", 0o555),
        ("a/b/c", 0o000),
        ("a/b", 0o755),
        ("", 0o750),
    ] {
        tree.storage
            .set_directory_meta(&rel(path), &meta(mode, -3, 4))
            .unwrap();
        let there = fs::metadata(tree.at(path)).unwrap();
        assert_eq!(
            (there.mode() & 0o7777, there.mtime(), there.mtime_nsec()),
            (mode, -3, 4),
            "{path}"
        );
    }
    // The same through a directory that is not readable now.
    tree.storage
        .set_directory_meta(&rel("a/b/c"), &meta(0o711, 9, 9))
        .unwrap();
    assert_eq!(fs::metadata(tree.at("a/b/c")).unwrap().mtime(), 9);
    fs::write(tree.at("file"), "").unwrap();
    symlink("a", tree.at("link")).unwrap();
    for path in ["file", "link"] {
        assert_eq!(
            tree.storage
                .make_directory(&rel(path), 0o700)
                .unwrap_err()
                .kind,
            StoreErrorKind::TypeConflict
        );
    }
    fs::set_permissions(tree.at("a/b/c/d"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_removed_directory_is_noticed_and_its_successor_used() {
    let tree = Tree::new();
    tree.storage.make_directory(&rel("a"), 0o700).unwrap();
    tree.put("a/one", b"1", &meta(0o644, 1, 0));
    fs::remove_dir_all(tree.at("a")).unwrap();
    assert_eq!(tree.storage.stat(&rel("a/one")).unwrap(), None);
    let path = rel("a/two");
    let error = tree
        .storage
        .write_whole(&path, &temp_of(&path), &meta(0o644, 1, 0), b"2")
        .unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotFound);
    fs::create_dir(tree.at("a")).unwrap();
    tree.put("a/two", b"2", &meta(0o644, 1, 0));
    assert_eq!(fs::read(tree.at("a/two")).unwrap(), b"2");
    fs::remove_dir_all(tree.at("a")).unwrap();
    fs::create_dir(tree.at("a")).unwrap();
    fs::write(tree.at("a/three"), "3").unwrap();
    assert_eq!(
        tree.storage.stat(&rel("a/three")).unwrap().unwrap().bytes,
        1
    );
}

#[test]
fn leftovers_of_one_tag_are_swept_and_no_others() {
    let tree = Tree::new();
    tree.storage.make_directory(&rel("a/b"), 0o700).unwrap();
    for path in ["x", "a/x", "a/b/x", "a/b/y"] {
        let path = rel(path);
        tree.storage
            .write_whole(&path, &temp_of(&path), &meta(0o600, 1, 0), b"left")
            .unwrap();
    }
    let path = rel("a/z");
    let other = TempName::new(TAG + 1, &path);
    tree.storage
        .write_whole(&path, &other, &meta(0o600, 1, 0), b"of another")
        .unwrap();
    tree.put("a/.godwit-kept", b"kept", &meta(0o600, 1, 0));
    let all = |_: &RelPath| true;
    for start in ["x", "a/b", ""] {
        assert_eq!(tree.storage.sweep(&rel(start), TAG, &all).unwrap(), 0);
    }
    assert_eq!(tree.storage.sweep(&rel("x"), TAG, &|_| false).unwrap(), 1);
    assert_eq!(tree.storage.sweep(&rel("a/b"), TAG, &|_| false).unwrap(), 2);
    assert_eq!(
        tree.storage
            .sweep(&RelPath::root(), TAG, &|_| false)
            .unwrap(),
        1
    );
    assert_eq!(
        tree.storage
            .sweep(&rel("not/there"), TAG, &|_| false)
            .unwrap(),
        0
    );
    assert!(tree.storage.open_temp(&path, &other).is_ok());
    assert!(tree.at("a/.godwit-kept").exists());
    tree.storage.discard(&path, &other).unwrap();
    tree.storage.discard(&path, &other).unwrap();
    tree.storage.discard(&rel("not/there"), &other).unwrap();
}
