//! Owns the estimate: for each cost of a file its weight, its rate, and the certainty of that rate. Does not use
//! future limits.

use crate::ahead::Ahead;
use crate::past::Past;
use crate::seen::{Seen, Window};

/// The possible costs of a file, in bytes: 0, and 2¹⁰ to 2²⁸ in steps of a factor of two.
const COSTS: usize = 20;

/// The mean cost before any observation, as a power of two (128 KiB), and the spread of the costs as powers of two.
const COST_MIDDLE: f64 = 17.0;
const COST_SPREAD: f64 = 4.0;

/// The medians of nine equally likely parts of a normal distribution, in standard deviations.
pub(crate) const STEPS: [f64; 9] = [
    -1.593, -0.967, -0.589, -0.282, 0.0, 0.282, 0.589, 0.967, 1.593,
];

/// A rate drifts: the smallest relative error of a forecast, even after a steady past.
const DRIFT: f64 = 0.10;

/// The smallest relative spread of a window's rate that is assumed.
const SPREAD_MIN: f64 = 0.02;

/// The half-life of a window, as a share of the time so far, and its minimum in seconds.
const HALF_LIFE_SHARE: f64 = 0.5;
const HALF_LIFE_MIN: f64 = 60.0;

/// In the first seconds connections open and streams grow: windows that end in this time have less weight.
const START: f64 = 2.0;
const START_WEIGHT: f64 = 0.2;

/// The smallest relative spread that is assumed between the rates of two jobs between the same places.
const JOBS_SPREAD_MIN: f64 = 0.2;

/// A rate that was held down by a limit is the lowest rate without the limit. The rate without the limit may be
/// higher by a factor with this logarithm.
const HELD_SPREAD: f64 = 0.7;

/// The estimate for one cost of a file.
pub(crate) struct Fit {
    k: f64,
    weight: f64,
    /// The logarithm of the rate, the spread of its mean, and the spread of a single second.
    log_rate: f64,
    mean_spread: f64,
    second_spread: f64,
}

impl Fit {
    /// The times that the remaining work takes, with their weights.
    pub(crate) fn times(&self, ahead: &Ahead<'_>) -> Vec<(f64, f64)> {
        let hours = ahead.hours(self.k);
        let middle = ahead.seconds(self.k, self.log_rate.exp(), &hours);
        // Random variation of single seconds matters less if the remaining time is longer.
        let chance = self.second_spread / middle.clamp(1.0, 1e8).sqrt();
        let spread = self.mean_spread.hypot(chance).hypot(DRIFT);
        let one = |step: &f64| {
            let rate = (self.log_rate - step * spread).exp();
            (ahead.seconds(self.k, rate, &hours), self.weight)
        };
        STEPS.iter().map(one).collect()
    }
}

/// An estimate for one cost of a file.
struct Observed {
    log_rate: f64,
    mean_spread: f64,
    second_spread: f64,
    /// The logarithm of the likelihood of this cost, given the windows.
    likelihood: f64,
}

/// The estimates for all costs, with their weights.
pub(crate) fn fit(seen: &Seen, past: &[Past]) -> Vec<Fit> {
    let free: Vec<&Window> = seen
        .windows()
        .iter()
        .filter(|window| !window.is_held())
        .collect();
    let is_held = free.is_empty();
    let windows: Vec<&Window> = if is_held {
        seen.windows().iter().collect()
    } else {
        free
    };
    let past: Vec<&Past> = past.iter().filter(|one| one.counts()).collect();
    let mut fits = Vec::new();
    for step in 0..COSTS {
        let (k, power) = match step {
            0 => (0.0, 9.0),
            step => (f64::from(1 << (9 + step)), 9.0 + step as f64),
        };
        let prior = -((power - COST_MIDDLE) / COST_SPREAD).powi(2) / 2.0;
        let observed = observe(&windows, seen.at(), k, is_held);
        let earlier = earlier(&past, k);
        let weight = prior
            + observed.as_ref().map_or(0.0, |one| one.likelihood)
            + earlier.as_ref().map_or(0.0, |one| one.likelihood);
        let Some(both) = both(observed, earlier) else {
            continue;
        };
        fits.push(Fit {
            k,
            weight,
            log_rate: both.log_rate,
            mean_spread: both.mean_spread,
            second_spread: both.second_spread,
        });
    }
    let best = fits.iter().map(|one| one.weight).fold(f64::MIN, f64::max);
    for one in &mut fits {
        one.weight = (one.weight - best).exp();
    }
    fits
}

/// The mean of both estimates, each weighted by its certainty.
fn both(observed: Option<Observed>, earlier: Option<Observed>) -> Option<Observed> {
    let (observed, earlier) = match (observed, earlier) {
        (Some(observed), Some(earlier)) => (observed, earlier),
        (one, other) => return one.or(other),
    };
    let sure = |one: &Observed| one.mean_spread.powi(-2);
    let (now, before) = (sure(&observed), sure(&earlier));
    Some(Observed {
        log_rate: (observed.log_rate * now + earlier.log_rate * before) / (now + before),
        mean_spread: (now + before).powf(-0.5),
        ..observed
    })
}

/// The estimate from the windows.
fn observe(windows: &[&Window], now: f64, k: f64, is_held: bool) -> Option<Observed> {
    let work = |window: &Window| window.done.bytes as f64 + k * window.done.files as f64;
    let half_life = (now * HALF_LIFE_SHARE).max(HALF_LIFE_MIN);
    let weigh = |window: &Window| {
        let start = if window.end < START {
            START_WEIGHT
        } else {
            1.0
        };
        start * (-(now - window.end) / half_life).exp2() * window.seconds
    };
    let mut sums = (0.0, 0.0, 0.0);
    for window in windows {
        let weight = weigh(window);
        sums.0 += weight * work(window) / window.seconds;
        sums.1 += weight;
        sums.2 += weight * weight / window.seconds;
    }
    let rate = sums.0 / sums.1;
    if !(rate.is_finite() && rate > 0.0) {
        return None;
    }
    // The relative spread of the windows, and the similarity of each window to the one before it.
    let apart: Vec<f64> = windows
        .iter()
        .map(|window| work(window) / window.seconds / rate - 1.0)
        .collect();
    let mut square = 0.0;
    for (window, apart) in windows.iter().zip(&apart) {
        square += weigh(window) * apart * apart;
    }
    let count = windows.len() as f64;
    let spread = (square / sums.1).sqrt().max(SPREAD_MIN);
    let pairs: f64 = apart.windows(2).map(|two| two[0] * two[1]).sum();
    let squares: f64 = apart.iter().map(|one| one * one).sum();
    let alike = if squares > 0.0 {
        (pairs / squares).clamp(0.0, 0.9)
    } else {
        0.0
    };
    // Dependent windows give as much information as this smaller number of independent windows.
    let length = windows.iter().map(|window| window.seconds).sum::<f64>() / count;
    let stretch = (1.0 + alike) / (1.0 - alike);
    let independent = (sums.1 * sums.1 / sums.2 / length / stretch).max(1.0);
    // With few windows, their spread is not known well either.
    let few = 0.3 / independent;
    let mut mean_spread = (spread / independent.sqrt()).hypot(few);
    if is_held {
        mean_spread = mean_spread.hypot(HELD_SPREAD);
    }
    Some(Observed {
        log_rate: rate.ln(),
        mean_spread,
        second_spread: spread * (length * stretch).sqrt(),
        likelihood: -independent.min(count) * spread.ln(),
    })
}

/// The estimate from earlier jobs.
fn earlier(past: &[&Past], k: f64) -> Option<Observed> {
    if past.is_empty() {
        return None;
    }
    let count = past.len() as f64;
    let rates: Vec<f64> = past.iter().map(|one| one.log_rate(k)).collect();
    let mean = rates.iter().sum::<f64>() / count;
    let square: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    // Two jobs that were similar by chance say little about a third job.
    let spread = ((square + 2.0 * JOBS_SPREAD_MIN.powi(2)) / (count + 1.0))
        .sqrt()
        .max(JOBS_SPREAD_MIN);
    Some(Observed {
        log_rate: mean,
        mean_spread: spread * (1.0 + 1.0 / count).sqrt(),
        second_spread: 0.0,
        likelihood: -(count - 1.0) * spread.ln(),
    })
}
