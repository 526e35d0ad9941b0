//! Computes the rate of the last seconds. Time is an argument; keeps a bounded number of samples.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rate over the last seconds.
pub(super) struct RecentRate {
    samples: VecDeque<(Instant, u64)>,
}

impl RecentRate {
    pub(super) fn new() -> Self {
        Self {
            samples: VecDeque::with_capacity(SAMPLES_MAX),
        }
    }

    /// Updates and returns the rate; `bytes` is the total so far.
    pub(super) fn follow(&mut self, now: Instant, bytes: u64) -> Option<f64> {
        self.add(now, bytes);
        self.bytes_per_second()
    }

    /// Adds a sample of the total bytes at a time; times never decrease.
    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        // A sample that is too early replaces the latest one, not the oldest.
        if self.samples.len() >= 2
            && let Some((before, _)) = self.samples.get(self.samples.len() - 2)
            && now.saturating_duration_since(*before) < SAMPLE_INTERVAL
        {
            self.samples.pop_back();
        }
        self.samples.push_back((now, bytes));
        while self.samples.len() > SAMPLES_MAX
            || (self.samples.len() > 2
                && self
                    .samples
                    .get(1)
                    .is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW))
        {
            self.samples.pop_front();
        }
    }

    /// `None` until there are two samples at different times.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        let (first_at, first) = self.samples.front()?;
        let (last_at, last) = self.samples.back()?;
        let seconds = last_at.saturating_duration_since(*first_at).as_secs_f64();
        (seconds > 0.0).then(|| last.saturating_sub(*first) as f64 / seconds)
    }
}

/// Long enough to be steady, short enough to show a change.
const WINDOW: Duration = Duration::from_secs(10);
/// A fiftieth of the window.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
const SAMPLES_MAX: usize = 52; // the window, the sample before it, and the newest

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_last_seconds_count() {
        let start = Instant::now();
        let mut rate = RecentRate::new();
        assert_eq!(rate.bytes_per_second(), None);
        rate.add(start, 0);
        assert_eq!(rate.bytes_per_second(), None);
        for second in 1..=20 {
            rate.add(start + Duration::from_secs(second), second * 1_000);
        }
        for second in 1..=20 {
            rate.add(
                start + Duration::from_secs(20 + second),
                20_000 + second * 10,
            );
        }
        let recent = rate.bytes_per_second().expect("many samples");
        assert!((9.0..=11.0).contains(&recent), "{recent}");
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_a_steady_rate_is_found(step_ms in 1_u64..3_000, rate in 1_u64..1_000_000) {
            let start = Instant::now();
            let mut recent = RecentRate::new();
            for step in 0..200 {
                recent.add(start + Duration::from_millis(step * step_ms), step * step_ms * rate);
                prop_assert!(recent.samples.len() <= SAMPLES_MAX);
            }
            let found = recent.bytes_per_second().expect("many samples");
            let expected = rate as f64 * 1_000.0;
            prop_assert!((found - expected).abs() <= expected / 1_000.0, "{found} {expected}");
        }
    }
}
