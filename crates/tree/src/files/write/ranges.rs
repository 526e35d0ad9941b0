//! Counts the digested ranges of all unfinished large files, and refuses more than the limit. Does not store digests;
//! the open files do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most ranges of all unfinished files together. Honest senders stay far below: `limits::FILE_RANGES_MAX`.
pub(crate) struct RangeBudget {
    taken: AtomicUsize,
    max: usize,
}

/// The share of one file in the budget; returned when this value is dropped.
pub(crate) struct RangeShare {
    budget: Arc<RangeBudget>,
    taken: usize,
}

impl RangeBudget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: AtomicUsize::new(0),
            max,
        })
    }

    pub(crate) fn share(self: &Arc<Self>) -> RangeShare {
        RangeShare {
            budget: Arc::clone(self),
            taken: 0,
        }
    }
}

impl RangeShare {
    /// Sets the number of ranges of the file to `count`. Returns false, with nothing changed, if all files together
    /// would exceed the budget.
    pub(crate) fn set(&mut self, count: usize) -> bool {
        let taken = &self.budget.taken;
        if count > self.taken {
            let more = count - self.taken;
            if taken.fetch_add(more, Ordering::Relaxed) + more > self.budget.max {
                taken.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            taken.fetch_sub(self.taken - count, Ordering::Relaxed);
        }
        self.taken = count;
        true
    }
}

impl Drop for RangeShare {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_share_one_bound_and_give_back_what_they_no_longer_need() {
        let budget = RangeBudget::new(10);
        let (mut first, mut second) = (budget.share(), budget.share());
        assert!(first.set(6));
        assert!(!second.set(5));
        assert!(second.set(4));
        assert!(first.set(2));
        assert!(second.set(8));
        drop(second);
        assert!(first.set(10));
        assert!(!first.set(11));
        drop(first);
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
    }
}
