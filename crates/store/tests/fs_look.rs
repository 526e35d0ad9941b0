//! Tests looks at several paths in turn: each returns the same result as a single look. Tests of
//! scans check the metadata that a look returns.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, rel};
use godwit_store::{Kind, Storage, StoreErrorKind};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn looks_in_a_row_find_what_each_alone_would_find() {
    let tree = Tree::new();
    fs::create_dir_all(tree.at("a/b")).unwrap();
    fs::write(tree.at("a/b/file"), b"old").unwrap();
    fs::write(tree.at("top"), b"top").unwrap();
    symlink("a", tree.at("link")).unwrap();
    let mut look = tree.storage.look();
    let mut agree = |path: &str| {
        let (found, alone) = (look.stat(&rel(path)), tree.storage.stat(&rel(path)));
        match (found, alone) {
            (Ok(found), Ok(alone)) => assert_eq!(found, alone, "{path}"),
            (Err(found), Err(alone)) => assert_eq!(found.kind, alone.kind, "{path}"),
            (found, alone) => panic!("{path}: {found:?}, {alone:?}"),
        }
        tree.storage.stat(&rel(path))
    };
    assert_eq!(agree("a/b/file").unwrap().unwrap().bytes, 3);
    assert_eq!(agree("a/b/absent").unwrap(), None);
    assert_eq!(agree("").unwrap().unwrap().kind, Kind::Directory);
    assert_eq!(agree("top").unwrap().unwrap().bytes, 3);
    assert_eq!(agree("absent/file").unwrap(), None);
    assert_eq!(agree("link/b").unwrap_err().kind, StoreErrorKind::Escape);
    assert_eq!(
        agree("top/file").unwrap_err().kind,
        StoreErrorKind::TypeConflict
    );
    // The directory of the previous look is replaced, then removed.
    agree("a/b/file").unwrap();
    fs::remove_dir_all(tree.at("a/b")).unwrap();
    fs::create_dir(tree.at("a/b")).unwrap();
    fs::write(tree.at("a/b/file"), b"newer").unwrap();
    assert_eq!(agree("a/b/file").unwrap().unwrap().bytes, 5);
    fs::remove_dir_all(tree.at("a/b")).unwrap();
    assert_eq!(agree("a/b/file").unwrap(), None);
}
