//! Tests calls that take effect after a transfer has lost the right to make them. The gate returns true a number of times and then
//! false, as if a call hung in the kernel meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{TAG, Tree, meta, rel, temp_of};
use godwit_store::{
    Confine, FsStorage, Kind, RelPath, Replace, Storage, StoreError, StoreErrorKind, TempName,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A tree with one of the user's files; its gate is open for this many calls.
fn tree(open_for: u32) -> Tree {
    let tree = Tree::new();
    fs::write(tree.at("user"), "edited").unwrap();
    fs::write(tree.at("first"), "first").unwrap();
    fs::create_dir(tree.at("sub")).unwrap();
    let asked = AtomicU32::new(0);
    let may = move || asked.fetch_add(1, Ordering::SeqCst) < open_for;
    tree.storage.hold_to(Arc::new(may), TAG, &rel(""));
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
        .filter(|name| tree.at("").join(name).is_file())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_late_removal_restores_the_name() {
    for open_for in [0, 1, 2] {
        let tree = tree(open_for);
        let removed = tree.storage.remove_entry(&rel("user"), false);
        assert_untouched(&tree, removed);
    }
    let tree = tree(3);
    tree.storage.remove_entry(&rel("user"), false).unwrap();
    assert!(!tree.at("user").exists());
    let closed = tree.storage.remove_entry(&rel("sub"), true).unwrap_err();
    assert_eq!(closed.kind, StoreErrorKind::Fenced);
    assert!(tree.at("sub").exists());
}

#[test]
fn all_that_is_to_go_goes() {
    let tree = tree(u32::MAX);
    let (storage, names) = (&tree.storage, || fs::read_dir(tree.at("")).unwrap().count());
    fs::write(tree.at("sub/kept"), "kept").unwrap();
    let full = storage.remove_entry(&rel("sub"), true).unwrap_err();
    assert_eq!(full.kind, StoreErrorKind::Exists);
    assert_eq!(fs::read(tree.at("sub/kept")).unwrap(), b"kept");
    // The entry has become a directory, so this call does not remove it.
    storage.remove_entry(&rel("sub"), false).unwrap_err();
    assert_eq!(fs::read(tree.at("sub/kept")).unwrap(), b"kept");
    for (path, is_directory) in [
        ("sub/kept", false),
        ("sub", true),
        ("user", false),
        ("first", false),
        ("absent", false),
        ("absent", true),
    ] {
        storage.remove_entry(&rel(path), is_directory).unwrap();
        assert!(!tree.at(path).exists());
    }
    assert_eq!(names(), 1, "a directory for what goes");
    storage.sweep(&rel(""), TAG, &|_| false).unwrap();
    assert_eq!(names(), 0);
}

/// A tree in which the call with this number hangs after it has passed the gate. `meanwhile` runs before the call takes effect. The
/// gate is shut from then on.
fn tree_that_hangs(
    number: u32,
    meanwhile: impl Fn(&FsStorage, &Path) + Send + Sync + 'static,
) -> Tree {
    let tree = Tree::new();
    let root = tree.at("");
    fs::write(root.join("user"), "old").unwrap();
    fs::write(root.join("first"), "first").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    std::os::unix::fs::symlink("target", root.join("link")).unwrap();
    let asked = AtomicU32::new(0);
    let may = move || {
        let now = asked.fetch_add(1, Ordering::SeqCst) + 1;
        if now == number {
            let other = FsStorage::open(&root, Confine::Local, Path::new("/tmp")).unwrap();
            other.hold_to(Arc::new(|| true), TAG, &rel(""));
            meanwhile(&other, &root);
        }
        now <= number
    };
    tree.storage.hold_to(Arc::new(may), TAG, &rel(""));
    tree
}

/// The next node removes all entries with temporary names.
fn take_over(storage: &FsStorage) {
    let mut names = Vec::new();
    storage
        .names_in(&rel(""), &mut |name| names.push(name.to_vec()))
        .unwrap();
    for name in names.iter().filter(|name| TempName::is_ours(name, TAG)) {
        let path = RelPath::parse(name).unwrap();
        storage.remove_entry(&path, false).unwrap();
    }
}

/// The attributes of an entry that a user can see.
fn seen(path: &Path) -> (u64, u32, i64, i64, i64) {
    let meta = fs::symlink_metadata(path).unwrap();
    (
        meta.ino(),
        meta.mode(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    )
}

#[track_caller]
fn assert_fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert_eq!(result.unwrap_err().kind, StoreErrorKind::Fenced);
}

#[test]
fn a_removal_that_hangs_meets_nothing_of_a_later_user() {
    let then = Arc::new(Mutex::new(None));
    // The first removal creates the directory for removed entries; the second one finds it.
    for (number, before) in [(2, None), (4, Some("first"))] {
        for is_directory in [false, true] {
            let path = if is_directory { "sub" } else { "user" };
            let noted = Arc::clone(&then);
            let tree = tree_that_hangs(number, move |storage, root| {
                take_over(storage);
                storage.remove_entry(&rel(path), is_directory).unwrap();
                match is_directory {
                    true => fs::create_dir(root.join(path)).unwrap(),
                    false => fs::write(root.join(path), "edited").unwrap(),
                }
                *noted.lock().unwrap() = Some(seen(&root.join(path)));
            });
            if let Some(before) = before {
                tree.storage.remove_entry(&rel(before), false).unwrap();
            }
            assert_fenced(tree.storage.remove_entry(&rel(path), is_directory));
            // The entry was not even moved for a moment.
            assert_eq!(Some(seen(&tree.at(path))), *then.lock().unwrap());
        }
    }
}

#[test]
fn a_directory_that_is_made_late_goes_again() {
    let tree = tree_that_hangs(1, |_, _| {});
    assert_fenced(tree.storage.make_directory(&rel("new"), 0o755));
    assert!(!tree.at("new").exists());
    let tree = tree_that_hangs(1, |_, root| {
        fs::create_dir_all(root.join("new/of a user")).unwrap();
    });
    assert!(!tree.storage.make_directory(&rel("new"), 0o755).unwrap());
    assert!(tree.at("new/of a user").exists());
}

#[test]
fn a_link_that_hangs_brings_no_name_back() {
    let (path, wanted) = (rel("new"), meta(0o600, 1, 0));
    for number in [1, 2] {
        let tree = tree_that_hangs(number, |storage, _| take_over(storage));
        let (storage, temp) = (&tree.storage, temp_of(&path));
        let linked = storage.make_link(&path, &rel("first"), &temp, Replace::Never);
        linked.unwrap_err();
        assert!(!tree.at("new").exists());
        let tree = tree_that_hangs(number, |storage, _| take_over(storage));
        let (storage, temp) = (&tree.storage, temp_of(&path));
        let linked = storage.make_symlink(&path, b"target", &wanted, &temp, Replace::Never);
        linked.unwrap_err();
        assert!(tree.at("new").symlink_metadata().is_err());
    }
    // An existing entry is created again, and keeps its time if the call takes effect late.
    let then = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&then);
    let tree = tree_that_hangs(1, move |storage, root| {
        take_over(storage);
        fs::remove_file(root.join("link")).unwrap();
        std::os::unix::fs::symlink("target", root.join("link")).unwrap();
        *noted.lock().unwrap() = Some(seen(&root.join("link")));
    });
    let (path, temp) = (rel("link"), temp_of(&rel("link")));
    let storage = &tree.storage;
    let linked = storage.make_symlink(&path, b"target", &wanted, &temp, Replace::Atomically);
    linked.unwrap_err();
    assert_eq!(Some(seen(&tree.at("link"))), *then.lock().unwrap());
}

#[test]
fn attributes_that_hang_meet_an_inode_without_a_name() {
    let then = Arc::new(Mutex::new(None));
    // The calls that set the mode and the time.
    for number in [2, 3] {
        let noted = Arc::clone(&then);
        let tree = tree_that_hangs(number, move |storage, root| {
            let temp = temp_of(&rel("user"));
            let wanted = meta(0o600, 1, 0);
            storage
                .write_whole(&rel("user"), &temp, &wanted, b"old")
                .unwrap();
            let how = Replace::Atomically;
            storage.commit(&rel("user"), &temp, how).unwrap();
            fs::write(root.join("user"), "edited").unwrap();
            let mode = fs::Permissions::from_mode(0o640);
            fs::set_permissions(root.join("user"), mode).unwrap();
            *noted.lock().unwrap() = Some(seen(&root.join("user")));
        });
        let _ = tree.storage.set_meta(&rel("user"), &meta(0o600, 1, 0));
        assert_eq!(Some(seen(&tree.at("user"))), *then.lock().unwrap());
    }
}

#[test]
fn of_a_directory_one_call_alone_comes_late() {
    let tree = tree_that_hangs(2, |_, root| {
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(root.join("sub"), mode).unwrap();
    });
    assert_fenced(
        tree.storage
            .set_directory_meta(&rel("sub"), &meta(0o711, 1, 0)),
    );
    let there = fs::metadata(tree.at("sub")).unwrap();
    assert_eq!(there.mode() & 0o777, 0o711, "the one that hangs");
    assert_ne!(there.mtime(), 1);
}

#[test]
fn attributes_that_are_right_are_not_set() {
    // The next node finds the missing attributes, and no other call is pending.
    let tree = tree_that_hangs(2, |_, _| panic!("a call for the mode, which is right"));
    fs::set_permissions(tree.at("user"), fs::Permissions::from_mode(0o600)).unwrap();
    let there = fs::metadata(tree.at("user")).unwrap();
    let nanoseconds = u32::try_from(there.mtime_nsec()).unwrap();
    let wanted = meta(0o600, there.mtime(), nanoseconds);
    tree.storage.set_meta(&rel("user"), &wanted).unwrap();
}

#[test]
fn a_late_creation_replaces_nothing() {
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
