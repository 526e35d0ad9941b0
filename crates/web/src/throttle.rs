//! Owns how often something may be tried by each key, such as a user or an address.
//! Reads no clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Keys that are remembered; when there are more, the ones that have all their attempts again are forgotten.
const KEYS_MAX: usize = 10_000;

/// Allows each key a number of attempts in a row, and one more after each interval.
pub(crate) struct Throttle {
    burst: u32,
    every: Duration,
    /// When each key has all its attempts again.
    full_at: Mutex<HashMap<String, Instant>>,
}

impl Throttle {
    pub(crate) fn new(burst: u32, every: Duration) -> Self {
        Self {
            burst,
            every,
            full_at: Mutex::default(),
        }
    }

    /// Uses up an attempt.
    ///
    /// # Errors
    /// None is left; tells when the next one comes.
    pub(crate) fn take(&self, key: &str, now: Instant) -> Result<(), Duration> {
        let mut keys = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= KEYS_MAX {
            keys.retain(|_, full_at| *full_at > now);
        }
        if keys.len() >= KEYS_MAX && !keys.contains_key(key) {
            return Err(self.every);
        }
        let full_at = keys.get(key).copied().unwrap_or(now).max(now);
        let after = full_at + self.every;
        let capacity = self.every * self.burst;
        let used = after.saturating_duration_since(now);
        if used > capacity {
            return Err(used.saturating_sub(capacity));
        }
        keys.insert(key.to_owned(), after);
        Ok(())
    }

    /// Gives all attempts back, for the key has shown that it is no guesser.
    pub(crate) fn clear(&self, key: &str) {
        self.full_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_run_out_and_come_back() {
        let throttle = Throttle::new(3, Duration::from_secs(10));
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(throttle.take("a", start), Ok(()));
        }
        assert_eq!(throttle.take("a", start), Err(Duration::from_secs(10)));
        assert_eq!(throttle.take("b", start), Ok(()));
        let later = start + Duration::from_secs(10);
        assert_eq!(throttle.take("a", later), Ok(()));
        assert!(throttle.take("a", later).is_err());
        throttle.clear("a");
        assert_eq!(throttle.take("a", later), Ok(()));
    }

    #[test]
    fn a_flood_of_keys_is_bounded() {
        let throttle = Throttle::new(1, Duration::from_secs(10));
        let start = Instant::now();
        for number in 0..KEYS_MAX {
            assert_eq!(throttle.take(&number.to_string(), start), Ok(()));
        }
        assert!(throttle.take("one more", start).is_err());
        let later = start + Duration::from_secs(11);
        assert_eq!(throttle.take("one more", later), Ok(()));
    }
}
