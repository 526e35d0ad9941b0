//! Owns figures over time: bytes that had arrived at a given time, and rates between two times. Does not depend on the origin of
//! the figures.

use serde::Serialize;

/// Bytes that had arrived, over time. Neither times nor bytes decrease.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Series(Vec<(f64, f64)>);

impl Series {
    /// Adds the number of bytes that have arrived after `seconds`. Decreasing values are ignored: a program that restarts its
    /// count gives no information.
    pub(super) fn add(&mut self, seconds: f64, bytes: f64) {
        let later = self
            .0
            .last()
            .is_none_or(|&(at, before)| seconds > at && bytes >= before);
        if later {
            self.0.push((seconds, bytes));
        }
    }

    /// The same figures, with all times later by `seconds`.
    pub(super) fn later_by(mut self, seconds: f64) -> Self {
        for (at, _) in &mut self.0 {
            *at += seconds;
        }
        self
    }

    /// The last time; 0 if there are no figures.
    pub(super) fn end(&self) -> f64 {
        self.0.last().map_or(0.0, |&(at, _)| at)
    }

    /// The number of bytes that arrived in total.
    pub(super) fn bytes(&self) -> f64 {
        self.0.last().map_or(0.0, |&(_, bytes)| bytes)
    }

    /// Bytes that had arrived at a given time, interpolated between known times; 0 before the first.
    fn at(&self, seconds: f64) -> f64 {
        let next = self.0.partition_point(|&(at, _)| at <= seconds);
        let before = next.checked_sub(1).and_then(|index| self.0.get(index));
        match (before, self.0.get(next)) {
            (Some(&(from, had)), Some(&(to, has))) => {
                had + (has - had) * (seconds - from) / (to - from)
            }
            (Some(&(_, had)), None) => had,
            (None, _) => 0.0,
        }
    }

    /// Rate in Gbit/s between two times; `None` if no time is between them.
    pub(super) fn gbits(&self, from: f64, to: f64) -> Option<f64> {
        (to > from).then(|| (self.at(to) - self.at(from)) * 8e-9 / (to - from))
    }

    /// Rate in Gbit/s for each step of `step` seconds up to `end`: the middle of the step, and the rate.
    pub(super) fn rates(&self, step: f64, end: f64) -> Vec<(f64, f64)> {
        let mut rates = Vec::new();
        let mut from = 0.0;
        while from + step <= end + step / 2.0 {
            if let Some(rate) = self.gbits(from, from + step) {
                rates.push((from + step / 2.0, rate));
            }
            from += step;
        }
        rates
    }
}

/// The mean of the values between two times; `None` if there are no values.
pub(super) fn mean(points: &[(f64, f64)], from: f64, to: f64) -> Option<f64> {
    let seen = points.iter().filter(|(at, _)| (from..=to).contains(at));
    let (count, sum) = seen.fold((0.0, 0.0), |(count, sum), (_, value)| {
        (count + 1.0, sum + value)
    });
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: Option<f64>, other: f64) -> bool {
        one.is_some_and(|one| (one - other).abs() < 1e-9)
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let mut series = Series::default();
        for (at, bytes) in [
            (0.0, 0.0),
            (1.0, 125e6),
            (3.0, 625e6),
            (2.0, 700e6),
            (4.0, 0.0),
        ] {
            series.add(at, bytes);
        }
        assert!(
            (series.end() - 3.0).abs() < 1e-9,
            "what goes back is left out"
        );
        assert!(near(series.gbits(0.0, 1.0), 1.0));
        assert!(near(series.gbits(1.0, 2.0), 2.0));
        assert!(near(series.gbits(1.5, 2.5), 2.0));
        assert!(near(series.gbits(2.0, 4.0), 1.0), "nothing after its end");
        assert!(series.gbits(2.0, 2.0).is_none());
        assert_eq!(series.rates(1.0, 3.0).len(), 3);
        let later = series.later_by(10.0);
        assert!(near(later.gbits(10.0, 11.0), 1.0));
        assert!(near(later.gbits(0.0, 10.0), 0.0));
    }

    #[test]
    fn a_mean_is_of_what_was_seen() {
        let points = [(0.0, 9.0), (1.0, 2.0), (2.0, 4.0)];
        assert!(near(mean(&points, 0.5, 2.0), 3.0));
        assert!(mean(&points, 5.0, 6.0).is_none());
    }
}
