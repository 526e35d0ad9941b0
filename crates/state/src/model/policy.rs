//! Owns the policy of retries: their number, and their delays. Does not wait: the runner of the job
//! computes the time of the next attempt and sends it in a command.

use serde::{Deserialize, Serialize};

use super::{CommandError, Timestamp};

/// Longest delay between two attempts of any job.
pub(crate) const DELAY_MAX_MS: u64 = 15 * 60_000;

/// The retries of a job that failed for a transient reason.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Number of retries; if `None`, only the deadline limits them.
    pub retries_max: Option<u32>,
    /// Delay before the first retry. Each later delay is twice as long.
    pub backoff_ms: u64,
    /// Longest delay.
    pub backoff_max_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries_max: None,
            backoff_ms: 5_000,
            backoff_max_ms: DELAY_MAX_MS,
        }
    }
}

impl RetryPolicy {
    /// The delay in milliseconds before the next attempt, after `retries` earlier ones.
    #[must_use]
    pub fn delay_ms(&self, retries: u32) -> u64 {
        let factor = 1_u64.checked_shl(retries).unwrap_or(u64::MAX);
        self.backoff_ms
            .saturating_mul(factor)
            .min(self.backoff_max_ms)
    }

    /// The time of the next attempt of a job whose attempt ended at `at`, after `retries` earlier retries.
    #[must_use]
    pub fn next_attempt(&self, retries: u32, at: Timestamp) -> Timestamp {
        at.after(self.delay_ms(retries))
    }

    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.backoff_max_ms > DELAY_MAX_MS {
            return Err(CommandError::invalid(
                "retry",
                "the longest delay is more than 15 minutes",
            ));
        }
        if self.backoff_ms > self.backoff_max_ms {
            return Err(CommandError::invalid(
                "retry",
                "the first delay is longer than the longest",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_their_bound() {
        let policy = RetryPolicy {
            retries_max: None,
            backoff_ms: 1_000,
            backoff_max_ms: 5_000,
        };
        let delays: Vec<u64> = [0, 1, 2, 3, 64, u32::MAX]
            .map(|retries| policy.delay_ms(retries))
            .into();
        assert_eq!(delays, [1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
    }
}
