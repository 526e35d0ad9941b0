//! The rate of the last seconds, from which the time left is estimated.
//! Time is an argument; keeps a bounded number of samples.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How fast contents move. What is done with and did not move comes at once, and is no rate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Contents delivered since the process began, in bytes.
    Moved(u64),
    /// What another godwit says, in bytes per second.
    Told(Option<f64>),
}

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

    /// The rate with what has moved by now, or as it is told.
    pub(super) fn follow(&mut self, now: Instant, pace: Pace) -> Option<f64> {
        match pace {
            Pace::Moved(bytes) => {
                self.add(now, bytes);
                self.bytes_per_second()
            }
            Pace::Told(rate) => rate,
        }
    }

    /// Notes how many bytes there were at a time; times do not go back.
    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        // What comes faster than samples are kept replaces the newest one, not the oldest.
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

    /// None until there are two samples at different times.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        let (first_at, first) = self.samples.front()?;
        let (last_at, last) = self.samples.back()?;
        let seconds = last_at.saturating_duration_since(*first_at).as_secs_f64();
        (seconds > 0.0).then(|| last.saturating_sub(*first) as f64 / seconds)
    }
}

/// The time that is left, if it can be said: no more than a hundred days, and not while nothing moves.
pub(super) fn time_left(bytes: u64, total: Option<u64>, rate: Option<f64>) -> Option<Duration> {
    let left = total?.checked_sub(bytes)?;
    let seconds = left as f64 / rate.filter(|rate| *rate >= 1.0)?;
    (seconds < 100.0 * 86_400.0).then(|| Duration::from_secs_f64(seconds.ceil()))
}

/// Long enough to be calm, short enough to notice a change.
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

    #[test]
    fn time_left_needs_a_total_and_a_rate() {
        let left = |bytes, total, rate| time_left(bytes, total, rate).map(|left| left.as_secs());
        assert_eq!(left(10, Some(110), Some(10.0)), Some(10));
        assert_eq!(left(10, None, Some(10.0)), None);
        assert_eq!(left(10, Some(110), None), None);
        assert_eq!(left(10, Some(110), Some(0.0)), None);
        assert_eq!(left(110, Some(10), Some(10.0)), None);
        assert_eq!(left(0, Some(u64::MAX), Some(1.0)), None);
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
