//! Owns the rate of attempts by each key, such as a user or an address.
//! Reads no clock.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::secret::sha256;

/// Keys that are remembered. A further key replaces the key that has used the least.
const KEYS_MAX: usize = 10_000;

/// Digest of the counted parts, so that long names take no more memory.
pub(crate) type Key = [u8; 32];

/// The key of these parts.
pub(crate) fn key(parts: &[&str]) -> Key {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    sha256(&bytes)
}

/// Allows each key a burst of attempts, and one more after each interval.
pub(crate) struct Throttle {
    burst: u32,
    every: Duration,
    keys: Mutex<Keys>,
}

struct Keys {
    /// When each key has all its attempts again.
    full_at: HashMap<Key, Instant>,
    /// When keys with all their attempts were last forgotten.
    pruned: Option<Instant>,
}

impl Throttle {
    pub(crate) fn new(burst: u32, every: Duration) -> Self {
        Self {
            burst,
            every,
            keys: Mutex::new(Keys {
                full_at: HashMap::new(),
                pruned: None,
            }),
        }
    }

    /// Uses up `count` attempts, capped at the burst.
    ///
    /// # Errors
    /// Too few attempts are left. The error is the time until there are enough.
    pub(crate) fn take(&self, key: &Key, count: u32, now: Instant) -> Result<(), Duration> {
        let mut keys = self.keys();
        let since = *keys.pruned.get_or_insert(now);
        let capacity = self.every * self.burst;
        if now.saturating_duration_since(since) > capacity {
            keys.full_at.retain(|_, full_at| *full_at > now);
            keys.pruned = Some(now);
        }
        let full_at = keys.full_at.get(key).copied().unwrap_or(now).max(now);
        let after = full_at + self.every * count.min(self.burst);
        let used = after.saturating_duration_since(now);
        if used > capacity {
            return Err(used.saturating_sub(capacity));
        }
        if keys.full_at.len() >= KEYS_MAX && !keys.full_at.contains_key(key) {
            let least = keys.full_at.iter().min_by_key(|(_, full_at)| **full_at);
            if let Some(least) = least.map(|(key, _)| *key) {
                keys.full_at.remove(&least);
            }
        }
        keys.full_at.insert(*key, after);
        Ok(())
    }

    /// Returns `count` attempts that do not count after all.
    pub(crate) fn give_back(&self, key: &Key, count: u32) {
        let mut keys = self.keys();
        let spare = self.every * count.min(self.burst);
        if let Some(full_at) = keys.full_at.get_mut(key) {
            *full_at = full_at.checked_sub(spare).unwrap_or(*full_at);
        }
    }

    /// Returns all attempts: the key has shown that it is no guesser.
    pub(crate) fn clear(&self, key: &Key) {
        self.keys().full_at.remove(key);
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_run_out_and_come_back() {
        let throttle = Throttle::new(3, Duration::from_secs(10));
        let start = Instant::now();
        let (a, b) = (key(&["a"]), key(&["b"]));
        for _ in 0..3 {
            assert_eq!(throttle.take(&a, 1, start), Ok(()));
        }
        assert_eq!(throttle.take(&a, 1, start), Err(Duration::from_secs(10)));
        assert_eq!(throttle.take(&b, 1, start), Ok(()));
        let later = start + Duration::from_secs(10);
        assert_eq!(throttle.take(&a, 1, later), Ok(()));
        assert!(throttle.take(&a, 1, later).is_err());
        throttle.give_back(&a, 1);
        assert_eq!(throttle.take(&a, 1, later), Ok(()));
        throttle.clear(&a);
        assert_eq!(throttle.take(&a, 2, later), Ok(()));
        assert_eq!(throttle.take(&a, 2, later), Err(Duration::from_secs(10)));
        // More at once than the burst: one at a time.
        throttle.clear(&a);
        assert_eq!(throttle.take(&a, 9, later), Ok(()));
        assert!(throttle.take(&a, 1, later).is_err());
    }

    #[test]
    fn a_flood_of_keys_is_bounded_and_keeps_no_client_out() {
        let throttle = Throttle::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let guesser = key(&["guesser"]);
        for _ in 0..2 {
            assert_eq!(throttle.take(&guesser, 1, start), Ok(()));
        }
        for number in 0..KEYS_MAX + 10 {
            assert_eq!(
                throttle.take(&key(&[&number.to_string()]), 1, start),
                Ok(())
            );
        }
        assert_eq!(throttle.keys().full_at.len(), KEYS_MAX);
        assert!(throttle.take(&guesser, 1, start).is_err());
        let later = start + Duration::from_secs(21);
        assert_eq!(throttle.take(&guesser, 1, later), Ok(()));
        assert_eq!(throttle.keys().full_at.len(), 1);
    }

    #[test]
    fn keys_of_other_parts_differ() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    }
}
