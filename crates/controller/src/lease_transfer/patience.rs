//! Decides when a slow transfer is stopped, so that another node of the destination gets the items.
//! Reads no clock.

use std::time::Duration;

/// A transfer that stays below the least rate for this time is stopped. The next transfer of the same items has twice the time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first byte may take this many times as long, because a transfer may have to queue.
const FIRST_TIMES: u32 = 2;
/// The least rate, in bytes per second; a file counts as this many bytes.
const RATE_MIN: u64 = 32 << 10;
/// A limited transfer must reach one in this many parts of its limit.
const LIMIT_PARTS: u64 = 4;

/// How long one try is waited for.
pub(crate) struct Patience {
    lasts: Duration,
    rate_min: u64,
    /// When the amount last grew enough, and the amount then.
    since: Duration,
    amount: u64,
}

impl Patience {
    /// For a try that begins now, after this many tries that were left.
    pub(crate) fn new(left: u32, limit: u64) -> Self {
        let rate_min = match limit {
            0 => RATE_MIN,
            limit => RATE_MIN.min(limit / LIMIT_PARTS),
        };
        Self {
            lasts: PATIENCE * 2_u32.saturating_pow(left.min(16)),
            rate_min,
            since: Duration::ZERO,
            amount: 0,
        }
    }

    /// Whether the try must end, given the amounts moved up to this time after its beginning.
    pub(crate) fn is_over(&mut self, at: Duration, bytes: u64, files: u64) -> bool {
        let amount = bytes.saturating_add(files.saturating_mul(RATE_MIN));
        let lasts = match self.amount {
            0 => self.lasts * FIRST_TIMES,
            _ => self.lasts,
        };
        let wanted = self.rate_min.saturating_mul(lasts.as_secs()).max(1);
        // Growth in steps counts as well: only the amount at the end of the time matters.
        if amount >= self.amount.saturating_add(wanted) || (self.amount == 0 && amount > 0) {
            (self.since, self.amount) = (at, amount);
        }
        at >= self.since + lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of seconds after which a try with this rate ends.
    fn left_after(left: u32, limit: u64, bytes_a_second: u64) -> Option<u64> {
        let mut patience = Patience::new(left, limit);
        (1..1_000).find(|at| patience.is_over(Duration::from_secs(*at), at * bytes_a_second, 0))
    }

    #[test]
    fn a_source_that_delivers_almost_nothing_is_left_and_a_slow_one_is_not() {
        assert_eq!(left_after(0, 0, 0), Some(20));
        assert_eq!(left_after(0, 0, 1), Some(11));
        assert_eq!(left_after(2, 0, 1), Some(41));
        assert_eq!(left_after(0, 0, 40_000), None);
        // The rate is only as slow as the limit.
        assert_eq!(left_after(0, 1_000, 900), None);
    }

    #[test]
    fn data_that_arrives_in_steps_is_waited_for() {
        let mut patience = Patience::new(0, 0);
        let over = (1..200).find(|at| {
            // A large batch becomes durable every nine seconds.
            patience.is_over(Duration::from_secs(*at), at / 9 * (64 << 20), 0)
        });
        assert_eq!(over, None);
        let mut patience = Patience::new(0, 0);
        let over = (1..200).find(|at| patience.is_over(Duration::from_secs(*at), 0, *at));
        assert_eq!(over, None);
    }
}
