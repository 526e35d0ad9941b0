//! Remembers which keys were read, by fingerprint, in bounded memory.
//! Keeps no key.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};

/// Most fingerprints, of eight bytes each, twice: 4 MiB with the tables around them.
const SEEN_MAX: usize = 128 << 10;

/// Keys that were read.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    order: VecDeque<u64>,
    all: HashSet<u64>,
    has_forgotten: bool,
}

impl Seen {
    pub(crate) fn add(&mut self, key: &impl Hash) {
        let print = print_of(key);
        if self.all.insert(print) {
            self.order.push_back(print);
            if self.order.len() > SEEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.all.remove(&oldest);
                self.has_forgotten = true;
            }
        }
    }

    pub(crate) fn has(&self, key: &impl Hash) -> bool {
        self.all.contains(&print_of(key))
    }

    /// Whether a key that was read may be unknown by now.
    pub(crate) const fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }
}

/// The fingerprint of a key.
pub(crate) fn print_of(key: &impl Hash) -> u64 {
    // The keys of this hasher are constant, so a run can be repeated.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
