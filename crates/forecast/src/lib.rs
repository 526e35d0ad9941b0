//! Owns the forecast of the end of a job: from the amounts done so far, from earlier jobs between the same places, and from known
//! future limits. Reads no clock and has no access to jobs: the caller passes seconds and amounts.
//!
//! The model has two parameters. A file costs as much time as `k` bytes. The job does `s` bytes a second, where each file counts `k`
//! bytes more than it holds. `k` is not known: each of several values has a weight, which is higher if the past rate is steadier with
//! that value. The forecast is the mixture over all of them. If all files had one size so far, the interval is narrow for more files of
//! that size, and wide for files of another size.

mod ahead;
mod fit;
mod past;
mod seen;

pub use ahead::LimitFrom;
pub use godwit_model::Amount;
pub use past::Past;

use ahead::Ahead;
use seen::Seen;

/// The remaining time of a job, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// One job in ten takes less time.
    pub shortest: f64,
    /// Half of the jobs take less time.
    pub likely: f64,
    /// One job in ten takes more time.
    pub longest: f64,
}

/// Forecasts the end of one job.
#[derive(Clone, Debug)]
pub struct Forecaster {
    past: Vec<Past>,
    /// The hour of the day at second 0, in UTC.
    hour: f64,
    seen: Seen,
}

impl Forecaster {
    /// A forecaster for a job that begins at this hour of the day, in UTC. `past` are earlier jobs between the same places.
    #[must_use]
    pub fn new(past: Vec<Past>, hour: f64) -> Self {
        Self {
            past,
            hour,
            seen: Seen::default(),
        }
    }

    /// Replaces the earlier jobs between the same places.
    pub fn remember(&mut self, past: Vec<Past>) {
        self.past = past;
    }

    /// Records that `done` is done at `at` seconds. `limit` is the limit in bytes per second since the previous call.
    ///
    /// Decreasing amounts and times that do not increase are ignored.
    pub fn see(&mut self, at: f64, done: Amount, limit: Option<u64>) {
        self.seen.add(at, done, limit);
    }

    /// Whether nothing of `whole` is left after the last call of `see`. Then earlier jobs do not matter.
    #[must_use]
    pub fn is_done(&self, whole: Amount) -> bool {
        whole.minus(self.seen.done()) == Amount::default()
    }

    /// The time that the rest of `whole` takes, starting at the last call of `see`. `limits` are the limits after that, in the order of
    /// their times; if it is empty, there is no limit.
    ///
    /// `None` if no rate is known: no data has moved yet, and there is no earlier job.
    #[must_use]
    pub fn forecast(&self, whole: Amount, limits: &[LimitFrom]) -> Option<Forecast> {
        if self.is_done(whole) {
            return Some(Forecast {
                shortest: 0.0,
                likely: 0.0,
                longest: 0.0,
            });
        }
        let rest = whole.minus(self.seen.done());
        let fits = fit::fit(&self.seen, &self.past);
        let ahead = Ahead::new(
            rest,
            limits,
            &self.past,
            self.hour + self.seen.at() / 3_600.0,
        );
        let mut times: Vec<(f64, f64)> = Vec::with_capacity(fits.len() * fit::STEPS.len());
        for one in &fits {
            for (time, weight) in one.times(&ahead) {
                if time.is_finite() {
                    times.push((time, weight));
                }
            }
        }
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all: f64 = times.iter().map(|(_, weight)| weight).sum();
        let quantile = |share: f64| {
            let mut sum = 0.0;
            times.iter().find_map(|(time, weight)| {
                sum += weight;
                (sum >= share * all).then_some(*time)
            })
        };
        Some(Forecast {
            shortest: quantile(0.1)?,
            likely: quantile(0.5)?,
            longest: quantile(0.9)?,
        })
    }
}
