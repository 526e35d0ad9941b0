//! Owns what this node sees of its exports, looked at from time to time, and which odd ones were told.
//! Compares nothing: the leader does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What a node sees of each export, by name: see `api::sight`. An export that cannot be looked at is seen as a place that no other
/// node sees.
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
    /// What was seen last, or is seen now if that is too long ago.
    pub(crate) fn look(&self, look: &Look) -> BTreeMap<String, Vec<u64>> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            seen.exports = look();
            seen.at = Some(Instant::now());
        }
        seen.exports.clone()
    }

    /// Those that were not told before.
    pub(crate) fn new_ones(&self, odd: &[(u64, String)]) -> Vec<(u64, String)> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeSet<(u64, String)> = odd.iter().cloned().collect();
        let new = now.difference(&seen.told).cloned().collect();
        seen.told = now;
        new
    }
}
