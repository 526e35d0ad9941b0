//! Counts the ranges that all large files in progress have digests of, and refuses one too many.
//! Keeps no digests; the open files do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most ranges for all files in progress together. Honest senders stay far below: `limits::FILE_RANGES_MAX`.
pub(crate) struct RangeBudget {
    taken: AtomicUsize,
    max: usize,
}

/// The share of one file in the budget; returned when the file is forgotten.
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
    /// The file has `count` ranges now. False, with nothing changed, if that is more than all files may have together.
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
