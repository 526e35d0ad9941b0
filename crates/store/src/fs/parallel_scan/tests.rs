//! Tests when a scan starts more threads. Does not test the results (`scan` does).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use super::{Directories, Finds, Found, HELPERS_BUSY_MAX, LOOK_WAITED, Looker, ParallelScan};
use crate::fs::Syncs;
use crate::fs::root::RootDirectory;
use crate::path::RelPath;

/// Threads that look at the same time if looks wait.
const AT_ONCE: usize = 6;

/// Looks that wait until enough threads look at the same time, or for a limited time.
struct Waiting {
    inside: Mutex<usize>,
    changed: Condvar,
    most: AtomicUsize,
}

impl Looker for Waiting {
    type Tools = ();

    fn tools(&self) {}

    fn look(&self, _: Found<'_>, (): &mut (), _: &mut Finds) {
        let mut inside = self.inside.lock().unwrap();
        *inside += 1;
        self.most.fetch_max(*inside, Ordering::Relaxed);
        self.changed.notify_all();
        let enough =
            |inside: &mut usize| *inside < AT_ONCE && self.most.load(Ordering::Relaxed) < AT_ONCE;
        let while_few = self
            .changed
            .wait_timeout_while(inside, 3 * LOOK_WAITED, enough);
        *while_few.unwrap().0 -= 1;
    }
}

/// Looks that keep the processor busy longer than the limit for a look that waits.
struct Busy;

impl Looker for Busy {
    type Tools = ();

    fn tools(&self) {}

    fn look(&self, _: Found<'_>, (): &mut (), _: &mut Finds) {
        let start = Instant::now();
        while start.elapsed() < 2 * LOOK_WAITED {
            std::hint::spin_loop();
        }
    }
}

/// Looks at `names` files, and returns the scan in its final state.
fn scan_of<L: Looker + 'static>(looker: L, names: usize) -> ParallelScan<L> {
    let place = tempfile::tempdir().unwrap();
    for name in 0..names {
        std::fs::write(place.path().join(name.to_string()), "").unwrap();
    }
    let root = RootDirectory::followed(place.path()).unwrap();
    let directories = Directories::below(root, true, 16, Syncs::default(), [].into());
    let directories = directories.unwrap().into();
    let mut scan = ParallelScan::new(&directories, looker, place.path(), 1 << 20);
    scan.enter(&RelPath::root()).unwrap();
    while scan.next_batch(&mut Vec::new()) {}
    scan
}

#[test]
fn looks_that_wait_get_more_threads() {
    let looker = Waiting {
        inside: Mutex::new(0),
        changed: Condvar::new(),
        most: AtomicUsize::new(0),
    };
    let scan = scan_of(looker, 6_000);
    assert_eq!(scan.shared.looker.most.load(Ordering::Relaxed), AT_ONCE);
}

#[test]
fn looks_that_only_take_long_get_none() {
    // Other threads use the processors as well.
    let over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while over.load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
            });
        }
        let scan = scan_of(Busy, 600);
        over.store(1, Ordering::Relaxed);
        assert!(scan.shared.lock().helpers.len() <= HELPERS_BUSY_MAX);
    });
}
