//! Calls that take effect after a transfer has lost the right to make them.
//! The gate says yes a number of times and then no, as where a call hangs in the kernel meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{TAG, Tree, meta, rel, temp_of};
use godwit_store::{Kind, Replace, Storage, StoreError, StoreErrorKind, TempName};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A tree with a file of the user, whose gate is open for so many calls.
fn tree(open_for: u32) -> Tree {
    let tree = Tree::new();
    fs::write(tree.at("user"), "edited").unwrap();
    fs::write(tree.at("first"), "first").unwrap();
    fs::create_dir(tree.at("sub")).unwrap();
    let asked = AtomicU32::new(0);
    let may = move || asked.fetch_add(1, Ordering::SeqCst) < open_for;
    tree.storage.hold_to(Arc::new(may), TAG);
    tree
}

#[track_caller]
fn assert_untouched(tree: &Tree, result: Result<(), StoreError>) {
    assert_eq!(result.unwrap_err().kind, StoreErrorKind::Fenced);
    assert_eq!(fs::read(tree.at("user")).unwrap(), b"edited");
    assert_ne!(fs::metadata(tree.at("user")).unwrap().mtime(), 1);
    let names = fs::read_dir(tree.at("")).unwrap();
    let left: Vec<_> = names
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| TempName::is_temp(name.as_encoded_bytes()))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_removed_late_has_its_name_again() {
    for open_for in [0, 1] {
        let tree = tree(open_for);
        let removed = tree.storage.remove_entry(&rel("user"), false);
        assert_untouched(&tree, removed);
    }
    let tree = tree(2);
    tree.storage.remove_entry(&rel("user"), false).unwrap();
    assert!(!tree.at("user").exists());
    assert_eq!(fs::read_dir(tree.at("")).unwrap().count(), 2);
    let closed = tree.storage.remove_entry(&rel("sub"), true).unwrap_err();
    assert_eq!(closed.kind, StoreErrorKind::Fenced);
    assert!(tree.at("sub").exists());
}

#[test]
fn what_is_made_late_replaces_nothing() {
    let (path, wanted) = (rel("user"), meta(0o600, 1, 0));
    let temp = temp_of(&path);
    for open_for in [0, 1] {
        let tree = tree(open_for);
        let storage = &tree.storage;
        let linked = storage.make_symlink(&path, b"t", &wanted, &temp, Replace::Atomically);
        assert_untouched(&tree, linked.map(drop));
    }
    let tree = tree(0);
    let storage = &tree.storage;
    let made = storage.make_special(&path, Kind::Fifo, 0, &wanted, &temp, Replace::Atomically);
    assert_untouched(&tree, made.map(drop));
    let made = storage.write_named(&path, &temp, &wanted, b"old", Replace::Atomically, false);
    assert_untouched(&tree, made.map(drop));
    let linked = storage.make_link(&path, &rel("first"), &temp, Replace::Atomically);
    assert_untouched(&tree, linked);
    assert_untouched(&tree, storage.set_meta(&path, &wanted).map(drop));
    let renamed = storage.rename(&rel("first"), &path, Replace::Atomically);
    assert_untouched(&tree, renamed);
    storage.write_whole(&path, &temp, &wanted, b"old").unwrap();
    let named = storage.commit(&path, &temp, Replace::Atomically);
    storage.discard(&path, &temp).unwrap();
    assert_untouched(&tree, named);
    let before = fs::metadata(tree.at("sub")).unwrap().permissions().mode();
    let set = storage.set_directory_meta(&rel("sub"), &wanted);
    assert_eq!(set.unwrap_err().kind, StoreErrorKind::Fenced);
    let after = fs::metadata(tree.at("sub")).unwrap().permissions().mode();
    assert_eq!(after, before);
}

#[test]
fn a_link_whose_rename_comes_late_replaces_nothing() {
    let tree = tree(1);
    let path = rel("user");
    let storage = &tree.storage;
    let linked = storage.make_link(&path, &rel("first"), &temp_of(&path), Replace::Atomically);
    assert_untouched(&tree, linked);
}

#[test]
fn a_range_is_copied_by_the_file_system() {
    let tree = Tree::new();
    let (from, to) = (rel("from"), rel("to"));
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let storage = &tree.storage;
    storage
        .write_whole(&from, &temp_of(&from), &meta(0o600, 1, 0), &content)
        .unwrap();
    let source = storage.open_temp(&from, &temp_of(&from)).unwrap();
    let bytes = content.len() as u64;
    let how = godwit_store::Create::Fresh;
    let copy = storage
        .create(&to, &temp_of(&to), how, Some(bytes))
        .unwrap();
    let copied = copy.copy_from(&*source, 4096..bytes).unwrap();
    assert_eq!(copied, bytes - 4096);
    assert_eq!(copy.copy_from(&*source, bytes..bytes + 9).unwrap(), 0);
    let name = String::from_utf8(temp_of(&to).as_bytes().to_vec()).unwrap();
    let there = fs::read(tree.at(&name)).unwrap();
    assert_eq!(there[4096..], content[4096..]);
    assert!(there[..4096].iter().all(|byte| *byte == 0));
}
