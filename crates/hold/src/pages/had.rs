//! Remembers which destinations have had which page, by fingerprint, in bounded memory.
//! Keeps no key and no page.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::destinations::Mask;
use crate::seen::print_of;

/// Most fingerprints, of some 50 bytes each with their masks and the tables around them: 3 MiB. A page that was forgotten counts as new:
/// it is kept for destinations that may have had it.
const HAD_MAX: usize = 64 << 10;

/// The destinations that have had a page.
#[derive(Debug, Default)]
pub(super) struct Had {
    order: VecDeque<u64>,
    by: HashMap<u64, Mask>,
}

impl Had {
    pub(super) fn of(&self, key: &impl Hash) -> Mask {
        self.by.get(&print_of(key)).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, key: &impl Hash, who: Mask) {
        let print = print_of(key);
        if let Some(had) = self.by.get_mut(&print) {
            *had |= who;
            return;
        }
        self.by.insert(print, who);
        self.order.push_back(print);
        if self.order.len() > HAD_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by.remove(&oldest);
        }
    }

    /// These destinations begin again.
    pub(super) fn forget(&mut self, who: Mask) {
        for had in self.by.values_mut() {
            *had &= !who;
        }
    }
}
