//! Owns the count of bytes that transfers of peers wrote at this process: ended transfers, and running ones up to now.
//! Counts no transfer that this process itself runs for a job. Its own progress has the rate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use godwit_engine::Counters;

/// The count. Clones are handles of the same count.
#[derive(Clone, Debug, Default)]
pub struct Received(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Bytes of ended transfers.
    ended: u64,
    /// Counters of running transfers, as many as the node admits.
    running: Vec<Arc<Counters>>,
}

/// One transfer that is being counted, until it is dropped.
#[derive(Debug)]
pub struct Receiving {
    all: Received,
    counters: Arc<Counters>,
}

impl Received {
    /// Counts a transfer by the counters of its receiving end.
    #[must_use]
    pub fn count(&self, counters: &Arc<Counters>) -> Receiving {
        self.locked().running.push(Arc::clone(counters));
        Receiving {
            all: self.clone(),
            counters: Arc::clone(counters),
        }
    }

    /// Bytes since the start of the process.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let kept = self.locked();
        let running = kept.running.iter().map(|one| one.bytes_written.get());
        running.fold(kept.ended, u64::saturating_add)
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let mut kept = self.all.locked();
        let mut running = kept.running.iter();
        if let Some(place) = running.position(|one| Arc::ptr_eq(one, &self.counters)) {
            let ended = kept.running.swap_remove(place).bytes_written.get();
            kept.ended = kept.ended.saturating_add(ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once_while_their_transfer_runs_and_after_its_end() {
        let received = Received::default();
        let (one, other) = (Arc::<Counters>::default(), Arc::<Counters>::default());
        let (of_one, of_other) = (received.count(&one), received.count(&other));
        one.bytes_written.add(5);
        other.bytes_written.add(7);
        assert_eq!(received.bytes(), 12);
        drop(of_one);
        assert_eq!(received.bytes(), 12);
        other.bytes_written.add(1);
        assert_eq!(received.bytes(), 13);
        drop(of_other);
        // The count does not fall, and keeps no ended transfer.
        assert_eq!(received.bytes(), 13);
        assert_eq!(Arc::strong_count(&other), 1);
    }
}
