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

/// How long an export is odd that was not before until that counts: nodes look at different times, and entries come and go.
const LASTS: Duration = Duration::from_secs(25);

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
    /// Exports of nodes that were as at most nodes once, and those that are odd now, since when.
    fine: BTreeSet<(u64, String)>,
    odd: BTreeMap<(u64, String), Instant>,
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

    /// Of those that differ now, among all that were compared, those that count.
    pub(crate) fn lasting(
        &self,
        odd: Vec<(u64, String)>,
        all: &[(u64, String)],
        now: Instant,
    ) -> Vec<(u64, String)> {
        let mut seen = self.lock();
        let is_odd = |one: &(u64, String)| odd.contains(one);
        seen.fine
            .extend(all.iter().filter(|one| !is_odd(one)).cloned());
        seen.odd.retain(|one, _| is_odd(one));
        for one in &odd {
            seen.odd.entry(one.clone()).or_insert(now);
        }
        let lasts = |one: &(u64, String)| {
            let since = seen.odd.get(one);
            !seen.fine.contains(one)
                || since.is_some_and(|since| now.duration_since(*since) >= LASTS)
        };
        odd.into_iter().filter(lasts).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fine_before_counts_as_odd_after_a_while_and_what_never_was_at_once() {
        let sights = Sights::default();
        let start = Instant::now();
        let one = |number| (number, "data".to_owned());
        let all = [one(1), one(2), one(3)];
        let at = |odd: &[u64], seconds| {
            let odd = odd.iter().map(|number| one(*number)).collect();
            let lasting = sights.lasting(odd, &all, start + Duration::from_secs(seconds));
            lasting
                .into_iter()
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
        };
        assert_eq!(at(&[3], 0), [3]);
        assert_eq!(at(&[2, 3], 10), [3]);
        assert_eq!(at(&[3], 20), [3]);
        assert_eq!(at(&[2, 3], 30), [3]);
        assert_eq!(at(&[2, 3], 55), [2, 3]);
        assert!(at(&[], 60).is_empty());
        assert!(at(&[3], 61).is_empty());
    }
}
