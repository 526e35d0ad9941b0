//! Owns what this node sees of its exports, looked at by a thread of its own, and which odd ones were told.
//! Compares nothing: the leader does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What was seen longer ago than this says nothing: a file system may not answer.
const OLD_AFTER: Duration = Duration::from_secs(60);

/// How soon the thread ends.
const STOP_WITHIN: Duration = Duration::from_millis(200);

/// What a node sees of each export, by name: see `godwit_api::sight`.
pub type Look = dyn Fn() -> BTreeMap<String, Vec<u64>> + Send + Sync;

/// What this node sees.
#[derive(Default)]
pub(crate) struct Sights(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    exports: BTreeMap<String, Vec<u64>>,
    told: BTreeSet<(u64, String)>,
}

impl Sights {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen last, unless that is too long ago.
    pub(crate) fn seen(&self) -> BTreeMap<String, Vec<u64>> {
        let seen = self.lock();
        match seen.at.is_some_and(|at| at.elapsed() < OLD_AFTER) {
            true => seen.exports.clone(),
            false => BTreeMap::new(),
        }
    }

    /// Body of the thread that looks. Nobody waits for it: a file system that does not answer holds it.
    pub(crate) fn follow(&self, look: &Arc<Look>, stopping: &AtomicBool) {
        while !stopping.load(Ordering::SeqCst) {
            let exports = look();
            let mut seen = self.lock();
            (seen.exports, seen.at) = (exports, Some(Instant::now()));
            drop(seen);
            let next = Instant::now() + LOOK_EVERY;
            while Instant::now() < next && !stopping.load(Ordering::SeqCst) {
                std::thread::sleep(STOP_WITHIN);
            }
        }
    }

    /// Those that were not told before.
    pub(crate) fn new_ones(&self, odd: &[(u64, String)]) -> Vec<(u64, String)> {
        let mut seen = self.lock();
        let now: BTreeSet<(u64, String)> = odd.iter().cloned().collect();
        let new = now.difference(&seen.told).cloned().collect();
        seen.told = now;
        new
    }
}
