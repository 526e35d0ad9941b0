//! Owns the remaining time of a job at a rate. The time depends on known future limits, and on the hours of the day that the
//! job reaches. Does not estimate rates.

use crate::Amount;
use crate::past::{self, HOURS, Past};

/// A longer time counts as infinite: about three years.
const SECONDS_MAX: f64 = 1e8;

/// A limit that begins at a given time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitFrom {
    /// Seconds from now on.
    pub after: f64,
    /// Bytes a second; `None` is no limit.
    pub limit: Option<u64>,
}

/// The remaining work of a job, and the limits during it.
pub(crate) struct Ahead<'a> {
    rest: Amount,
    limits: &'a [LimitFrom],
    past: &'a [Past],
    /// The hour of the day now.
    hour: f64,
}

impl<'a> Ahead<'a> {
    pub(crate) const fn new(
        rest: Amount,
        limits: &'a [LimitFrom],
        past: &'a [Past],
        hour: f64,
    ) -> Self {
        Self {
            rest,
            limits,
            past,
            hour,
        }
    }

    /// The remaining work, if a file costs as much as `k` bytes.
    pub(crate) fn work(&self, k: f64) -> f64 {
        self.rest.bytes as f64 + k * self.rest.files as f64
    }

    /// The factor by which each hour is faster than the present hour.
    pub(crate) fn hours(&self, k: f64) -> [f64; HOURS] {
        let hours = past::hours(self.past, k);
        let now = hours[hour_at(self.hour)];
        hours.map(|hour| (hour - now).exp())
    }

    /// Time in seconds for the remaining work, if the rate in the present hour is `rate`. Infinite if the work never ends.
    pub(crate) fn seconds(&self, k: f64, rate: f64, hours: &[f64; HOURS]) -> f64 {
        let mut work = self.work(k);
        // The proportion of bytes and files stays the same, so a limit on bytes is a limit on work.
        let bytes_share = self.rest.bytes as f64 / work.max(1.0);
        let mut now = 0.0;
        let mut limits = self.limits.iter().peekable();
        let mut limit = None;
        while work > 0.0 {
            while let Some(next) = limits.next_if(|next| next.after <= now) {
                limit = next.limit;
            }
            let of_day = self.hour + now / 3_600.0;
            let free = rate * hours[hour_at(of_day)];
            let speed = limit.map_or(free, |limit| free.min(limit as f64 / bytes_share.max(1e-9)));
            // The time until the hour or the limit changes. The first term is above 0, so each round makes progress.
            let mut until = now + (1.0 - of_day.rem_euclid(1.0)) * 3_600.0 + 1e-3;
            if let Some(next) = limits.peek() {
                until = until.min(next.after);
            }
            let here = work / speed.max(1e-9);
            if now + here <= until {
                return now + here;
            }
            work -= speed * (until - now);
            now = until;
            if now > SECONDS_MAX {
                return f64::INFINITY;
            }
        }
        now
    }
}

/// The hour of the day, for a time in hours since any midnight.
fn hour_at(hours: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below 24, and not below 0"
    )]
    let hour = hours.rem_euclid(HOURS as f64) as usize;
    hour % HOURS
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Amount = Amount {
        bytes: 1_000_000,
        files: 0,
    };

    fn seconds(limits: &[LimitFrom], rate: f64) -> f64 {
        let ahead = Ahead::new(REST, limits, &[], 12.0);
        ahead.seconds(0.0, rate, &ahead.hours(0.0))
    }

    #[test]
    fn limits_that_come_count_from_their_time_on() {
        assert!((seconds(&[], 1_000.0) - 1_000.0).abs() < 1e-6);
        let night = [
            LimitFrom {
                after: 0.0,
                limit: Some(100),
            },
            LimitFrom {
                after: 4_000.0,
                limit: None,
            },
        ];
        // 400,000 bytes in the first 4,000 seconds, and the remaining bytes at the full rate after that.
        assert!((seconds(&night, 1_000.0) - 4_600.0).abs() < 1e-3);
        assert!((seconds(&night, 10.0) - 100_000.0).abs() < 1.0);
    }

    #[test]
    fn a_rest_that_never_ends_is_infinite() {
        let shut = [LimitFrom {
            after: 0.0,
            limit: Some(0),
        }];
        assert!(seconds(&shut, 1_000.0).is_infinite());
        assert!(seconds(&[], 0.0).is_infinite());
    }
}
