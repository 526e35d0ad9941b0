//! Tests scans with a choice: skipped names are not returned, not looked at and not entered, in a file system and in
//! memory. Does not test the rules by which names are chosen.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, drain, entry_of, is_root, meta, rel, temp_of};
use godwit_store::{Choice, FsStorage, Pick, RelPath, Replace, ScanItem, Storage};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

/// Skips names with an `x`, enters no directory with a `-`, and records each question.
#[derive(Default)]
struct Letters(Mutex<Vec<(String, bool)>>);

impl Choice for Letters {
    fn pick(&self, path: &RelPath, is_directory: bool) -> Pick {
        let name = path.to_string();
        self.0.lock().unwrap().push((name.clone(), is_directory));
        if name.contains('x') {
            Pick::Leave
        } else if name.contains('-') {
            Pick::TakeAlone
        } else {
            Pick::Take
        }
    }
}

fn put(storage: &dyn Storage, path: &str) {
    let path = rel(path);
    let temp = temp_of(&path);
    storage
        .write_whole(&path, &temp, &meta(0o644, 1, 0), b"x")
        .unwrap();
    storage.sync_batch(&[(&path, temp)], 1).unwrap();
    storage.commit(&path, &temp, Replace::Never).unwrap();
}

fn check(storage: &dyn Storage) {
    for directory in ["s/a", "s/x/in", "s/d-/in", "s/a/b"] {
        storage.make_directory(&rel(directory), 0o755).unwrap();
    }
    for file in [
        "s/a/file",
        "s/a/x",
        "s/x/in/file",
        "s/d-/file",
        "s/a/b/c-",
        "x",
    ] {
        put(storage, file);
    }
    storage
        .make_link(
            &rel("s/a/b/same"),
            &rel("s/a/x"),
            &temp_of(&rel("s/a/b/same")),
            Replace::Never,
        )
        .unwrap();
    let letters = Arc::new(Letters::default());
    let scan = storage
        .scan_chosen(&rel("s"), Some(Arc::clone(&letters) as _))
        .unwrap();
    let items = drain(scan);
    let mut found: Vec<_> = items
        .iter()
        .map(|item| entry_of(item).path.to_string())
        .collect();
    assert!(items.iter().all(|item| matches!(item, ScanItem::Entry(_))));
    found.sort();
    let expected = [
        "s",
        "s/a",
        "s/a/b",
        "s/a/b/c-",
        "s/a/b/same",
        "s/a/file",
        "s/d-",
    ];
    assert_eq!(found, expected);
    let mut asked = letters.0.lock().unwrap().clone();
    asked.sort();
    let names = [
        ("s/a", true),
        ("s/a/b", true),
        ("s/a/b/c-", false),
        ("s/a/b/same", false),
        ("s/a/file", false),
        ("s/a/x", false),
        ("s/d-", true),
        ("s/x", true),
    ];
    assert_eq!(asked, names.map(|(name, is)| (name.to_owned(), is)));
    // `pick` is not called for the start.
    let scan = storage.scan_chosen(&rel("x"), Some(letters)).unwrap();
    assert_eq!(drain(scan).len(), 1);
}

#[test]
fn all_storages_choose_alike() {
    let tree = Tree::new();
    check(&tree.storage);
    check(&MemoryStorage::new());
    let hostile = HostileStorage::new(Arc::new(MemoryStorage::new()), Faults::new(1));
    check(&hostile);
}

#[test]
fn an_unreadable_entry_that_is_left_out_is_not_a_fault() {
    let tree = Tree::new();
    let open = |storage: &FsStorage| {
        let scan = storage.scan_chosen(&RelPath::root(), Some(Arc::<Letters>::default()));
        drain(scan.unwrap())
    };
    tree.storage.make_directory(&rel("x/in"), 0o755).unwrap();
    tree.storage.make_directory(&rel("y/in"), 0o755).unwrap();
    let shut = |name: &str, mode| {
        fs::set_permissions(tree.at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    shut("x", 0o0);
    let faults = |items: &[ScanItem]| {
        let fault = |item: &&ScanItem| matches!(item, ScanItem::Fault(_));
        items.iter().filter(fault).count()
    };
    assert_eq!(faults(&open(&tree.storage)), 0);
    shut("y", 0o0);
    assert_eq!(faults(&open(&tree.storage)), usize::from(!is_root()));
    shut("x", 0o755);
    shut("y", 0o755);
}
