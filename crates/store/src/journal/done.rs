//! Owns the set of finished entries, small enough for 10⁷ of them. Contains no names, so it may very rarely mistake one entry
//! for another.

use super::PathKey;
use godwit_seeded::{STEP, mix};

/// A set of entries with their generations, 8 bytes each.
///
/// An entry outside the set is mistaken for a member with odds of n / 2⁶⁴, where n is the size of the set. For 10⁷ lookups in a set of 10⁷
/// that is about 5 in a million for the whole transfer. Therefore code that skips an entry because of this set also compares its size and
/// modification time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneSet {
    fingerprints: Vec<u64>,
}

impl DoneSet {
    /// Whether the entry is done in this generation.
    pub fn contains(&self, key: &PathKey, generation: u64) -> bool {
        let wanted = fingerprint(key, generation);
        self.fingerprints.binary_search(&wanted).is_ok()
    }

    /// Number of entries; an entry that is done in two generations counts twice.
    pub fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.fingerprints.is_empty()
    }

    pub(super) fn from_fingerprints(mut fingerprints: Vec<u64>) -> Self {
        fingerprints.sort_unstable();
        fingerprints.dedup();
        fingerprints.shrink_to_fit();
        Self { fingerprints }
    }
}

pub(super) fn fingerprint(key: &PathKey, generation: u64) -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&key.0[..8]);
    let low = u64::from_le_bytes(half);
    half.copy_from_slice(&key.0[8..]);
    let high = u64::from_le_bytes(half);
    // The key is a hash already; mixing keeps generations that differ in a few bits apart.
    mixed(low ^ mixed(high ^ mixed(generation)))
}

/// Maps numbers that are close to each other to numbers that are far apart. Journals outlive releases, so this never changes.
fn mixed(value: u64) -> u64 {
    mix(value.wrapping_add(STEP))
}
