//! Owns this node's observations of its exports, made by a separate thread. Also records which different exports were already reported.
//! Compares no observations: the leader does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval between observations.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// An older observation is ignored: its file system may not answer.
const OLD_AFTER: Duration = Duration::from_secs(60);

/// An export with the same directory must differ for this time before the difference counts.
const LASTS: Duration = Duration::from_secs(25);

/// Exports that are remembered beside those of the last comparison: 64 of each of 1,000 nodes.
const KEPT_MAX: usize = 64_000;

/// Different exports that the log names in a row. A node may name others each second.
const LINES_IN_A_ROW: u32 = 100;

/// Interval of further log lines; all lines that a peer causes have it.
const LINE_EACH: Duration = Duration::from_secs(2);

/// Longest time until the thread notices that it must stop.
const STOP_WITHIN: Duration = Duration::from_millis(200);

/// Examines each export of a node, by name: see `godwit_api::observation`.
pub type Look = dyn Fn() -> BTreeMap<String, Vec<u64>> + Send + Sync;

/// The latest observation of the exports of this node.
#[derive(Default)]
pub(crate) struct Observations(Mutex<Seen>);

/// An export: the number of its node, and its name.
pub(crate) type Export = (u64, String);

/// An export of a node, as the leader compares it.
pub(crate) struct Compared {
    pub(crate) export: Export,
    /// Inode number of the directory; 0 if the directory cannot be examined.
    pub(crate) directory: u64,
    /// The state lists the export, so the node accepts jobs for it.
    pub(crate) is_listed: bool,
}

#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    exports: BTreeMap<String, Vec<u64>>,
    /// Exports that once agreed with most nodes, with the inode number of the directory at that time, if this node saw it.
    fine: BTreeMap<Export, Option<u64>>,
    /// Exports that differ now, and the time since which they differ.
    odd: BTreeMap<Export, Instant>,
    logged: BTreeSet<Export>,
    /// When the log may name its full number of different exports again.
    lines_full_at: Option<Instant>,
    has_compared: bool,
}

impl Observations {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest observation, unless it is too old.
    pub(crate) fn seen(&self) -> BTreeMap<String, Vec<u64>> {
        let seen = self.lock();
        match seen.at.is_some_and(|at| at.elapsed() < OLD_AFTER) {
            true => seen.exports.clone(),
            false => BTreeMap::new(),
        }
    }

    /// Main function of the observing thread. No thread waits for its end: a file system that does not answer may block it.
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

    /// The different exports that count. An export that never agreed with the others, or that is now another directory, counts at once.
    /// An export that differs only in its entries counts after [`LASTS`].
    pub(crate) fn lasting(&self, odd: Vec<Export>, all: &[Compared], now: Instant) -> Vec<Export> {
        let mut seen = self.lock();
        let is_first = !std::mem::replace(&mut seen.has_compared, true);
        let is_odd = |one: &Export| odd.contains(one);
        let mut numbers = BTreeMap::new();
        for one in all {
            numbers.insert(&one.export, one.directory);
            if !is_odd(&one.export) {
                seen.fine.insert(one.export.clone(), Some(one.directory));
            } else if is_first && one.is_listed {
                // The previous leader found that this export agreed with the others.
                seen.fine.entry(one.export.clone()).or_insert(None);
            }
        }
        // A node may name other exports each second.
        if seen.fine.len() > KEPT_MAX {
            seen.fine.retain(|one, _| numbers.contains_key(one));
        }
        seen.odd.retain(|one, _| is_odd(one));
        for one in &odd {
            seen.odd.entry(one.clone()).or_insert(now);
        }
        let counts = |one: &Export| {
            let Some(fine) = seen.fine.get(one) else {
                return true;
            };
            let directory = numbers.get(one).copied().unwrap_or(0);
            let since = seen.odd.get(one);
            directory == 0
                || fine.is_some_and(|fine| fine != directory)
                || since.is_some_and(|since| now.duration_since(*since) >= LASTS)
        };
        odd.into_iter().filter(counts).collect()
    }

    /// The different exports that were not reported before, as many as the log may name now.
    pub(crate) fn new_ones(&self, odd: &[Export], now: Instant) -> Vec<Export> {
        let mut seen = self.lock();
        let all: BTreeSet<(u64, String)> = odd.iter().cloned().collect();
        let mut new: Vec<Export> = all.difference(&seen.logged).cloned().collect();
        seen.logged = all;
        let mut full_at = seen.lines_full_at.map_or(now, |at| at.max(now));
        new.retain(|_| {
            let after = full_at + LINE_EACH;
            let is_left = after.saturating_duration_since(now) <= LINE_EACH * LINES_IN_A_ROW;
            if is_left {
                full_at = after;
            }
            is_left
        });
        seen.lines_full_at = Some(full_at);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the nodes, from 1 to 3, whose exports count; their directories have these inode numbers.
    fn counting(
        observations: &Observations,
        odd: &[u64],
        directories: [u64; 3],
        seconds: Instant,
    ) -> Vec<u64> {
        let one = |number: u64| (number, "data".to_owned());
        let all = (1..).zip(directories).map(|(number, directory)| Compared {
            export: one(number),
            directory,
            is_listed: number < 3,
        });
        let odd = odd.iter().map(|number| one(*number)).collect();
        let counts = observations.lasting(odd, &all.collect::<Vec<_>>(), seconds);
        counts.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn a_node_that_was_fine_counts_as_odd_after_a_while_and_a_new_one_at_once() {
        let observations = Observations::default();
        let start = Instant::now();
        let at = |odd: &[u64], seconds| {
            let now = start + Duration::from_secs(seconds);
            counting(&observations, odd, [2, 2, 2], now)
        };
        assert_eq!(at(&[3], 0), [3]);
        assert_eq!(at(&[2, 3], 10), [3]);
        assert_eq!(at(&[3], 20), [3]);
        assert_eq!(at(&[2, 3], 30), [3]);
        assert_eq!(at(&[2, 3], 55), [2, 3]);
        assert!(at(&[], 60).is_empty());
        assert!(at(&[3], 61).is_empty());
    }

    #[test]
    fn another_directory_counts_at_once_and_so_does_one_that_cannot_be_looked_at() {
        let observations = Observations::default();
        let now = Instant::now();
        assert!(counting(&observations, &[], [2, 2, 2], now).is_empty());
        assert_eq!(counting(&observations, &[1], [7, 2, 2], now), [1]);
        assert_eq!(counting(&observations, &[2], [2, 0, 2], now), [2]);
        assert!(counting(&observations, &[3], [2, 2, 2], now).is_empty());
    }

    #[test]
    fn a_node_that_names_other_exports_each_time_is_not_remembered_without_bound() {
        let observations = Observations::default();
        let now = Instant::now();
        for time in 0..=KEPT_MAX / 200 {
            let all = (0..200).map(|number| Compared {
                export: (7, format!("{time}-{number}")),
                directory: 2,
                is_listed: false,
            });
            observations.lasting(Vec::new(), &all.collect::<Vec<_>>(), now);
        }
        let kept = observations.lock().fine.len();
        assert_eq!(kept, 200, "those of the last time");
    }

    #[test]
    fn the_log_names_a_bounded_number_of_different_exports() {
        let observations = Observations::default();
        let start = Instant::now();
        let named = |time: u64, count: u64| {
            let odd: Vec<Export> = (0..count).map(|one| (7, format!("{time}-{one}"))).collect();
            let now = start + Duration::from_secs(time);
            observations.new_ones(&odd, now).len()
        };
        assert_eq!(named(0, 3), 3);
        assert_eq!(named(0, 3), 0, "they were reported");
        assert_eq!(named(1, 256), 97);
        assert_eq!(named(11, 256), 5);
        assert_eq!(named(1_000, 256), 100);
    }

    #[test]
    fn a_new_leader_waits_with_what_the_state_lists() {
        let observations = Observations::default();
        let start = Instant::now();
        assert_eq!(counting(&observations, &[2, 3], [2, 2, 2], start), [3]);
        let later = start + LASTS;
        assert_eq!(counting(&observations, &[2, 3], [2, 2, 2], later), [2, 3]);
    }
}
