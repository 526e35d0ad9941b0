//! Owns how much of the amounts of each job is counted already: an attempt may report amounts after its end.
//! Counts no attempts.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Jobs whose counted amounts are kept, latest last. Amounts come within seconds of the end of an attempt.
const JOBS_MAX: usize = 1_000;

/// The counted bytes of the jobs that ended an attempt last.
#[derive(Default)]
pub(super) struct CountedAmounts(Mutex<VecDeque<(String, u64)>>);

impl CountedAmounts {
    /// The bytes that remain to be counted of a job whose ended attempts have moved `all`. If the job is new here, its `earlier` bytes
    /// do not count: they moved before the start of the node.
    pub(super) fn take(&self, job: &str, all: u64, earlier: u64) -> u64 {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = jobs.iter().position(|(id, _)| id == job);
        let known = place.and_then(|place| jobs.remove(place));
        let counted = known.map_or(earlier, |(_, counted)| counted);
        if jobs.len() >= JOBS_MAX {
            jobs.pop_front();
        }
        jobs.push_back((job.to_owned(), all.max(counted)));
        all.saturating_sub(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_job_counts_once_also_if_it_comes_after_the_end_of_its_attempt() {
        let counted = CountedAmounts::default();
        // The first attempt moved 5 before the start of the node, and the second has ended.
        assert_eq!(counted.take("a", 12, 5), 7);
        assert_eq!(counted.take("a", 12, 0), 0);
        assert_eq!(counted.take("a", 20, 0), 8);
        assert_eq!(counted.take("b", 3, 0), 3);
        assert_eq!(counted.take("a", 21, 0), 1);
        // A lower sum is no new amount.
        assert_eq!(counted.take("a", 1, 0), 0);
        assert_eq!(counted.take("a", 21, 0), 0);
    }

    #[test]
    fn the_number_of_kept_jobs_is_bounded() {
        let counted = CountedAmounts::default();
        for job in 0..2 * JOBS_MAX {
            assert_eq!(counted.take(&job.to_string(), 1, 0), 1);
        }
        assert_eq!(counted.0.lock().expect("no panic").len(), JOBS_MAX);
    }
}
