//! Owns the information from earlier jobs between the same places: their rates, and the hours of the day at
//! which they ran. Finds no jobs: the caller passes them.

use crate::Amount;

/// Hours of a day.
pub(crate) const HOURS: usize = 24;

/// Number of jobs in one hour at which the data of that hour has half of its full weight.
const HOUR_JOBS: f64 = 4.0;

/// A job that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Past {
    /// The amount that it moved.
    pub done: Amount,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// The hour of the day in the middle of the run, in UTC: 13.5 is half past one in the afternoon.
    pub hour: f64,
}

impl Past {
    /// Whether the job is informative about rates: jobs of a few seconds consist mostly of start and end.
    pub(crate) fn counts(&self) -> bool {
        self.seconds >= 2.0 && self.done != Amount::default()
    }

    /// The logarithm of the job's rate, if a file costs as much as `k` bytes.
    pub(crate) fn log_rate(&self, k: f64) -> f64 {
        ((self.done.bytes as f64 + k * self.done.files as f64).max(1.0) / self.seconds).ln()
    }
}

/// The logarithm of the factor by which each hour is faster than the whole day; 0 if nothing is known.
pub(crate) fn hours(past: &[Past], k: f64) -> [f64; HOURS] {
    let counted: Vec<&Past> = past.iter().filter(|one| one.counts()).collect();
    let mut hours = [0.0; HOURS];
    if counted.is_empty() {
        return hours;
    }
    let mean = counted.iter().map(|one| one.log_rate(k)).sum::<f64>() / counted.len() as f64;
    for (hour, factor) in hours.iter_mut().enumerate() {
        let (mut sum, mut weights) = (0.0, 0.0);
        for one in &counted {
            // The hours of a day form a circle. A job also counts for the neighbouring hours.
            let apart = (one.hour - hour as f64 - 0.5).rem_euclid(HOURS as f64);
            let weight = (1.0 - apart.min(HOURS as f64 - apart) / 2.0).max(0.0);
            sum += weight * (one.log_rate(k) - mean);
            weights += weight;
        }
        *factor = sum / (weights + HOUR_JOBS);
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(hour: f64, rate: u64) -> Past {
        Past {
            done: Amount {
                bytes: rate * 100,
                files: 1,
            },
            seconds: 100.0,
            hour,
        }
    }

    #[test]
    fn an_hour_counts_the_more_the_more_jobs_ran_in_it() {
        let days = |days: usize| -> f64 {
            let past: Vec<Past> = (0..days)
                .flat_map(|_| [job(3.5, 200_000), job(15.5, 50_000)])
                .collect();
            hours(&past, 0.0)[3]
        };
        let (few, many) = (days(1), days(40));
        assert!(0.0 < few && few < many, "{few} {many}");
        // Twice the geometric mean of both rates.
        assert!((many.exp() - 2.0).abs() < 0.15, "{}", many.exp());
        assert!(hours(&[], 0.0).iter().all(|factor| *factor == 0.0));
    }
}
