//! Tests that scans with a seat at shared pages find the same entries as a scan alone, and read the storage once.
//! Does not test which scan reads; `hold` does.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, drain, entry_of, meta, rel};
use godwit_hold::Destination;
use godwit_store::{Choice, Pick, RelPath, ScanItem, ScanPages, ScanSeat, Storage, StoreErrorKind};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

const DIRECTORIES: usize = 12;
const FILES: usize = 200;

/// The entries by path, without the root, whose times change.
type Entries = BTreeMap<String, ScanItem>;

/// Some directories with some files each, links, and a file with two names.
fn tree() -> Tree {
    let tree = Tree::new();
    for directory in 0..DIRECTORIES {
        let path = tree.at(&format!("d{directory}/below"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            fs::write(path.join(format!("f{file}")), "x").unwrap();
        }
        std::os::unix::fs::symlink("below", tree.at(&format!("d{directory}/link"))).unwrap();
    }
    fs::hard_link(tree.at("d0/below/f0"), tree.at("d1/same")).unwrap();
    tree
}

fn entries(items: Vec<ScanItem>) -> Entries {
    let count = items.len();
    let entries: Entries = items
        .into_iter()
        .map(|item| (entry_of(&item).path.to_string(), item))
        .collect();
    assert_eq!(entries.len(), count, "each entry once");
    entries
        .into_iter()
        .filter(|(_, item)| !entry_of(item).path.is_root())
        .collect()
}

fn scan(tree: &Tree, seat: &ScanSeat, choice: Option<Arc<dyn Choice>>) -> Entries {
    let scan = tree
        .storage
        .scan_shared(&RelPath::root(), choice, Some(seat));
    entries(drain(scan.unwrap()))
}

/// Pages for this many destinations, and their seats.
fn pages(bytes: u64, destinations: usize) -> (Arc<ScanPages>, Vec<ScanSeat>) {
    let pages = Arc::new(ScanPages::new(bytes));
    let seats = (0..destinations).map(|number| {
        pages.join(Destination(number));
        ScanSeat::new(&pages, Destination(number))
    });
    let seats = seats.collect();
    (pages, seats)
}

/// Removes the entries of a directory.
fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }
}

#[test]
fn a_later_scan_needs_no_look_at_the_storage() {
    let tree = tree();
    let alone = entries(tree.scan(""));
    let (pages, seats) = pages(64 << 20, 3);
    assert_eq!(scan(&tree, &seats[0], None), alone);
    let reads = pages.figures().reads;
    empty(&tree.at(""));
    for seat in &seats[1..] {
        assert_eq!(scan(&tree, seat, None), alone);
    }
    let figures = pages.figures();
    assert_eq!((figures.reads, figures.again), (reads, 0));
    assert_eq!((figures.takes, figures.kept_bytes), (2 * reads, 0));
}

#[test]
fn three_scans_at_once_read_each_page_once() {
    let tree = tree();
    let alone = entries(tree.scan(""));
    let (pages, seats) = pages(64 << 20, 3);
    thread::scope(|scope| {
        let tree = &tree;
        let scans: Vec<_> = seats
            .iter()
            .map(|seat| scope.spawn(move || scan(tree, seat, None)))
            .collect();
        for scan in scans {
            assert_eq!(scan.join().unwrap(), alone);
        }
    });
    // A listing of the root and of each directory, and two portions of names at most in each.
    let figures = pages.figures();
    assert_eq!(figures.takes, 2 * figures.reads);
    assert!(figures.reads <= (1 + 2 * DIRECTORIES as u64) * 3);
    assert_eq!((figures.again, figures.kept_bytes), (0, 0));
}

#[test]
fn a_destination_that_fails_in_the_middle_leaves_the_others_alone() {
    let tree = tree();
    let alone = entries(tree.scan(""));
    let (pages, seats) = pages(64 << 20, 3);
    let failing = Some(&seats[1]);
    let begun = tree.storage.scan_shared(&RelPath::root(), None, failing);
    let mut begun = begun.unwrap();
    assert!(begun.next_batch(&mut Vec::new()));
    thread::scope(|scope| {
        let tree = &tree;
        let others = [&seats[0], &seats[2]];
        let others = others.map(|seat| scope.spawn(move || scan(tree, seat, None)));
        drop(begun);
        pages.leave(Destination(1));
        for other in others {
            assert_eq!(other.join().unwrap(), alone);
        }
    });
    assert_eq!(pages.figures().kept_bytes, 0);
}

#[test]
fn a_scan_without_room_for_pages_reads_again() {
    let tree = tree();
    let alone = entries(tree.scan(""));
    let (pages, seats) = pages(64 << 10, 2);
    for seat in &seats {
        assert_eq!(scan(&tree, seat, None), alone);
        assert!(pages.figures().kept_bytes <= 64 << 10);
    }
    assert!(pages.figures().again > 0);
}

#[test]
fn a_scan_that_comes_back_finds_new_entries() {
    let tree = tree();
    let (pages, seats) = pages(64 << 20, 3);
    let before = scan(&tree, &seats[0], None);
    pages.leave(Destination(1));
    fs::write(tree.at("d3/new"), "x").unwrap();
    pages.join(Destination(1));
    let after = scan(&tree, &seats[1], None);
    assert_eq!(after.len(), before.len() + 1);
    assert!(after.contains_key("d3/new"));
    // The newer pages serve the third scan.
    let reads = pages.figures().reads;
    assert_eq!(scan(&tree, &seats[2], None), after);
    assert_eq!(pages.figures().reads, reads);
}

/// The end of a transfer, and each read of a file, ask the storage.
#[test]
fn a_changed_file_is_noticed_in_spite_of_its_page() {
    let tree = tree();
    let (_pages, seats) = pages(64 << 20, 2);
    scan(&tree, &seats[0], None);
    fs::write(tree.at("d0/below/f7"), "longer").unwrap();
    let found = scan(&tree, &seats[1], None);
    let found = &entry_of(&found["d0/below/f7"]).meta;
    assert_eq!(found.bytes, 1, "the page is the one from before");
    let path = rel("d0/below/f7");
    let now = tree.storage.stat(&path).unwrap().unwrap();
    assert_ne!(now.generation(), found.generation());
    let known = godwit_store::Known {
        bytes: found.bytes,
        generation: found.generation(),
    };
    let read = tree.storage.read_known(&path, known, &mut [0; 2]);
    assert_eq!(read.unwrap_err().kind, StoreErrorKind::Changed);
}

#[test]
fn the_looks_at_a_large_directory_are_shared() {
    let tree = Tree::new();
    fs::create_dir(tree.at("large")).unwrap();
    for file in 0..5_000 {
        fs::write(tree.at(&format!("large/file-{file}")), "").unwrap();
    }
    let (pages, seats) = pages(64 << 20, 2);
    let first = scan(&tree, &seats[0], None);
    let reads = pages.figures().reads;
    assert_eq!(scan(&tree, &seats[1], None), first);
    let figures = pages.figures();
    // Each scan lists the directory.
    assert_eq!(figures.reads, reads + 1);
    assert!(figures.takes >= 5_000 / 128);
}

/// Skips names with this digit, and counts the questions about them.
struct Without(char, Mutex<usize>);

impl Choice for Without {
    fn pick(&self, path: &RelPath, _: bool) -> Pick {
        match path.to_string().contains(self.0) {
            true => {
                *self.1.lock().unwrap() += 1;
                Pick::Leave
            }
            false => Pick::Take,
        }
    }
}

#[test]
fn each_scan_makes_its_own_choice() {
    let tree = tree();
    let (_pages, seats) = pages(64 << 20, 3);
    let all = entries(tree.scan(""));
    let mut skipped = Vec::new();
    for (seat, digit) in seats.iter().zip(['7', '7', '9']) {
        let choice = Arc::new(Without(digit, Mutex::default()));
        let found = scan(&tree, seat, Some(Arc::clone(&choice) as _));
        let wanted: Vec<&String> = all.keys().filter(|path| !path.contains(digit)).collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted);
        assert!(found.iter().all(|(path, item)| all[path] == *item));
        skipped.push(*choice.1.lock().unwrap());
    }
    assert_eq!(skipped[0], skipped[1]);
}

#[test]
fn a_fault_is_found_by_each_scan() {
    let tree = tree();
    let odd = fs_common::temp_of(&rel("d0/odd"));
    let odd = String::from_utf8(odd.as_bytes().to_vec()).unwrap();
    tree.put("d0/plain", b"x", &meta(0o644, 1, 0));
    fs::write(tree.at(&format!("d0/{odd}")), "x").unwrap();
    let (_pages, seats) = pages(64 << 20, 2);
    for seat in &seats {
        let scan = tree.storage.scan_shared(&RelPath::root(), None, Some(seat));
        let items = drain(scan.unwrap());
        let faults = items.iter().filter(|item| match item {
            ScanItem::Fault(error) => error.kind == StoreErrorKind::Reserved,
            _ => false,
        });
        assert_eq!(faults.count(), 1);
    }
}

#[test]
fn two_roots_at_one_directory_share_no_pages() {
    let tree = tree();
    let (pages, seats) = pages(64 << 20, 2);
    // Each may have other file systems below it.
    let first = scan(&tree, &seats[0], None);
    let other = scan(&tree, &seats[0].at_root(1), None);
    assert_eq!((other, pages.figures().takes), (first.clone(), 0));
    assert_eq!(scan(&tree, &seats[1].at_root(0), None), first);
    assert!(pages.figures().takes > 0);
}

#[test]
fn a_scan_from_now_on_finds_what_came_after_the_pages() {
    let tree = tree();
    let (_pages, seats) = pages(64 << 20, 3);
    scan(&tree, &seats[0], None);
    fs::write(tree.at("d0/below/late"), "x").unwrap();
    let found = scan(&tree, &seats[1].from_now(), None);
    assert!(found.contains_key("d0/below/late"));
}
