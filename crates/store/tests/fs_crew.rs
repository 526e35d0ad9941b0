//! Scans that are large enough for several threads: no name is lost, reported twice, or reported before its directory.
//! Does not check the results, which tests with one thread do.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod fs_common;

use fs_common::{Tree, drain, entry_of, rel};
use godwit_store::{Choice, Pick, RelPath, SCAN_BATCH_ITEMS, ScanItem, Storage};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

/// Slightly more names than the calling thread looks at alone.
const ALONE: usize = SCAN_BATCH_ITEMS + 100;
/// Time that a test waits until all threads are at the same point.
const PATIENCE: Duration = Duration::from_secs(60);

/// Many files in one directory.
fn wide(files: usize) -> Tree {
    let tree = Tree::new();
    for number in 0..files {
        fs::write(tree.at(&format!("f{number}")), b"").unwrap();
    }
    tree
}

#[derive(Default)]
struct Seen {
    names: usize,
    threads: HashSet<ThreadId>,
}

/// After the first batch, looks only when another thread looks too.
#[derive(Default)]
struct Meeting {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Choice for Meeting {
    fn pick(&self, _: &RelPath, _: bool) -> Pick {
        let mut seen = self.seen.lock().unwrap();
        seen.names += 1;
        if seen.names > ALONE {
            seen.threads.insert(std::thread::current().id());
            self.changed.notify_all();
            let (_seen, waited) = self
                .changed
                .wait_timeout_while(seen, PATIENCE, |seen| seen.threads.len() < 2)
                .unwrap();
            assert!(!waited.timed_out(), "one thread alone looks at everything");
        }
        Pick::Take
    }
}

#[test]
fn several_threads_look_at_one_large_directory() {
    let files = 4 * SCAN_BATCH_ITEMS;
    let tree = wide(files);
    let scan = tree
        .storage
        .scan_chosen(&RelPath::root(), Some(Arc::new(Meeting::default())))
        .unwrap();
    let names: BTreeSet<_> = drain(scan)
        .iter()
        .map(|item| entry_of(item).path.clone())
        .collect();
    assert_eq!(names.len(), files + 1);
}

#[test]
fn directories_come_before_what_is_in_them_and_each_name_once() {
    let tree = Tree::new();
    let mut expected = BTreeSet::from([RelPath::root()]);
    let mut names = Vec::new();
    for outer in 0..12 {
        names.push(format!("d{outer}"));
        for inner in 0..12 {
            names.push(format!("d{outer}/e{inner}"));
            names.push(format!("d{outer}/e{inner}/deep"));
        }
    }
    for name in &names {
        fs::create_dir(tree.at(name)).unwrap();
        expected.insert(rel(name));
        for file in 0..(name.len() * 7) % 40 {
            let file = format!("{name}/{file}");
            fs::write(tree.at(&file), b"x").unwrap();
            expected.insert(rel(&file));
        }
    }
    // The scan returns the second of the two names at the end.
    fs::hard_link(tree.at("d0/e0/0"), tree.at("d1/e1/link")).unwrap();
    expected.insert(rel("d1/e1/link"));
    let items = drain(tree.storage.scan(&RelPath::root()).unwrap());
    let mut given = BTreeSet::new();
    for item in &items {
        let path = &entry_of(item).path;
        if let Some(parent) = path.parent() {
            assert!(given.contains(&parent), "{path} before {parent}");
        }
        assert!(given.insert(path.clone()), "{path} twice");
    }
    assert_eq!(given, expected);
    assert!(matches!(items.last(), Some(ScanItem::Link { .. })));
}

/// Needs time for each name, as a server does.
#[derive(Default)]
struct Slow(Mutex<Seen>);

impl Choice for Slow {
    fn pick(&self, _: &RelPath, _: bool) -> Pick {
        let mut seen = self.0.lock().unwrap();
        seen.names += 1;
        seen.threads.insert(std::thread::current().id());
        let waits = seen.names > ALONE;
        drop(seen);
        if waits {
            std::thread::park_timeout(Duration::from_micros(300));
        }
        Pick::Take
    }
}

#[test]
fn where_each_look_waits_there_are_more_threads_than_processors_keep_busy() {
    let files = 8 * SCAN_BATCH_ITEMS;
    let tree = wide(files);
    let slow = Arc::new(Slow::default());
    let scan = tree
        .storage
        .scan_chosen(&RelPath::root(), Some(Arc::clone(&slow) as _))
        .unwrap();
    assert_eq!(drain(scan).len(), files + 1);
    // If looks do not wait, the calling thread has at most three helpers.
    let threads = slow.0.lock().unwrap().threads.len();
    assert!((5..=16).contains(&threads), "{threads} threads");
}

/// Panics in the first helper, while the calling thread waits for it.
#[derive(Default)]
struct Panics {
    names: Mutex<usize>,
    panicked: Mutex<bool>,
    changed: Condvar,
}

impl Choice for Panics {
    fn pick(&self, _: &RelPath, _: bool) -> Pick {
        let names = {
            let mut names = self.names.lock().unwrap();
            *names += 1;
            *names
        };
        if names > ALONE {
            let helps = std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with("gw-look"));
            let mut panicked = self.panicked.lock().unwrap();
            if helps {
                *panicked = true;
                drop(panicked);
                self.changed.notify_all();
                panic!("a fault in a look, on purpose");
            }
            let (panicked, waited) = self
                .changed
                .wait_timeout_while(panicked, PATIENCE, |panicked| !*panicked)
                .unwrap();
            drop(panicked);
            assert!(!waited.timed_out(), "no thread beside the asking one");
        }
        Pick::Take
    }
}

#[test]
fn a_panic_of_a_thread_is_one_of_the_scan_and_not_an_end() {
    let tree = wide(4 * SCAN_BATCH_ITEMS);
    let scan = tree
        .storage
        .scan_chosen(&RelPath::root(), Some(Arc::new(Panics::default())))
        .unwrap();
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| drain(scan).len()));
    assert!(ended.is_err(), "it gave {} items", ended.unwrap());
}

#[test]
fn a_scan_that_is_given_up_ends_its_threads() {
    let tree = wide(8 * SCAN_BATCH_ITEMS);
    let mut scan = tree.storage.scan(&RelPath::root()).unwrap();
    let mut items = Vec::new();
    for _ in 0..3 {
        assert!(scan.next_batch(&mut items));
    }
    // Dropping joins the helpers, so it would hang if one waited for room for ever.
    drop(scan);
    assert!(items.len() > 2 * (SCAN_BATCH_ITEMS - 200));
}
