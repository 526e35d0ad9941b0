//! Owns the bytes that arrive at the destination over time, and the time when a rate is back after a fault. Reads no counters
//! itself.

use std::time::Duration;

use super::network::{Carried, LINKS};

/// Duration over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// A rate is back when it reaches this share of the expected rate.
const BACK: f64 = 0.9;

/// Bytes that the destination had received at several times since the start.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<(Duration, u64)>);

impl Samples {
    /// Adds the bytes that the links of the destination have carried so far.
    pub(crate) fn add(&mut self, at: Duration, destination: &[[Carried; LINKS]]) {
        let links = destination.iter().flatten();
        let received = links.map(|link| link.received).sum();
        self.0.push((at, received));
    }

    /// Bytes that had been received at a given time, interpolated between two samples.
    fn at(&self, time: Duration) -> Option<f64> {
        let after = self.0.iter().position(|(at, _)| *at >= time)?;
        let (late, more) = self.0[after];
        let (early, less) = self.0[after.saturating_sub(1)];
        let span = (late - early).as_secs_f64();
        let share = match span > 0.0 {
            true => (time - early).as_secs_f64() / span,
            false => 0.0,
        };
        Some(float(less) + (float(more) - float(less)) * share)
    }

    /// Bytes per second between two times; `None` if the samples do not include them.
    pub(crate) fn rate(&self, from: Duration, to: Duration) -> Option<f64> {
        let seconds = to.checked_sub(from)?.as_secs_f64();
        (seconds > 0.0).then_some((self.at(to)? - self.at(from)?) / seconds)
    }

    /// The best rate of a window that ends before `end`, in bytes per second.
    pub(crate) fn best_before(&self, end: Duration) -> f64 {
        let starts = self.0.iter().map(|(at, _)| *at);
        let rates = starts.take_while(|at| *at + WINDOW <= end);
        let rates = rates.filter_map(|at| self.rate(at, at + WINDOW));
        rates.fold(0.0, f64::max)
    }

    /// The longest time between two moments in which no window reached this rate, in bytes per second.
    pub(crate) fn longest_below(&self, from: Duration, to: Duration, level: f64) -> Duration {
        let starts = std::iter::once(from).chain(self.0.iter().map(|(at, _)| *at));
        let starts = starts.filter(|at| *at >= from && *at + WINDOW <= to);
        let mut longest = Duration::ZERO;
        let mut since = from;
        for at in starts {
            if self.rate(at, at + WINDOW).unwrap_or(0.0) >= level {
                longest = longest.max(at.saturating_sub(since));
                since = at + WINDOW;
            }
        }
        longest.max(to.saturating_sub(since))
    }

    /// Time from a fault until the rate of a window is back at 0.9 of `expected` bytes per second; `None` if it is not back before
    /// `end`. Examines the windows of this length that begin with each sample.
    pub(crate) fn back_after(
        &self,
        fault: Duration,
        end: Duration,
        expected: f64,
    ) -> Option<Duration> {
        let starts = std::iter::once(fault).chain(self.0.iter().map(|(at, _)| *at));
        let mut starts = starts.filter(|at| *at >= fault && *at + WINDOW <= end);
        let start =
            starts.find(|at| self.rate(*at, *at + WINDOW).unwrap_or(0.0) >= BACK * expected)?;
        Some(start - fault)
    }
}

/// The conversion is exact enough for all figures.
#[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^52")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

/// The value below which this share of the sorted values lies.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the place of a value among few"
    )]
    let place = (part * last as f64).round() as usize;
    sorted.get(place.min(last)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn samples(received: &[u64]) -> Samples {
        let quarters = (0..).map(|number| SECOND * number / 4);
        Samples(quarters.zip(received.iter().copied()).collect())
    }

    #[test]
    fn a_rate_is_that_between_two_times() {
        let samples = samples(&[0, 10, 20, 30, 40, 40, 40]);
        assert_eq!(samples.rate(Duration::ZERO, SECOND), Some(40.0));
        assert_eq!(samples.rate(SECOND, SECOND * 3 / 2), Some(0.0));
        assert_eq!(samples.rate(SECOND, SECOND * 9), None);
        assert_eq!(samples.best_before(SECOND * 3 / 2).round(), 40.0);
    }

    #[test]
    fn the_rate_is_back_once_a_whole_window_has_it() {
        // 40 a second, nothing for a second, then 30 a second.
        let received = [
            0, 10, 20, 30, 40, 40, 40, 40, 40, 48, 55, 63, 70, 78, 85, 93,
        ];
        let samples = samples(&received);
        let end = SECOND * 15 / 4;
        assert_eq!(samples.back_after(SECOND, end, 30.0), Some(SECOND));
        assert_eq!(samples.back_after(SECOND, end, 40.0), None);
        assert_eq!(
            samples.back_after(SECOND / 4, end, 20.0),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn the_time_below_a_rate_is_the_longest_without_a_window_of_it() {
        // 40 a second, nothing for a second and a half, then 40 a second again.
        let received = [0, 10, 20, 30, 40, 40, 40, 40, 40, 40, 40, 50, 60, 70, 80];
        let samples = samples(&received);
        let end = SECOND * 14 / 4;
        let below = |level| samples.longest_below(SECOND / 4, end, level);
        assert_eq!(below(35.0), SECOND * 9 / 4);
        assert!(below(20.0) < SECOND);
        assert_eq!(below(50.0), SECOND * 13 / 4);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let sorted = [1.0, 2.0, 3.0];
        assert_eq!(quantile(&sorted, 0.5), Some(2.0));
        assert_eq!(quantile(&sorted, 0.99), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
