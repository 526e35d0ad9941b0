//! Bounds the ticks of one owner's schedules.
//! Reads no clock, and submits nothing.
//!
//! A schedule may tick each second, and each tick is a command of the consensus, an event and a job or a reason. Ticks that have to wait
//! are made up for by one submission, as are ticks that passed while no node ran.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Ticks without a pause: one for each of the most schedules of an owner.
const IN_A_ROW: u32 = 500;

/// Interval of further ticks, as for other changes of a user.
const ONE_EACH: Duration = Duration::from_millis(100);

/// Time at which each owner may use its full number of ticks again.
#[derive(Default)]
pub(crate) struct TickPace(Mutex<HashMap<String, Instant>>);

impl TickPace {
    /// Takes one tick of an owner, if one is left.
    pub(crate) fn take(&self, owner: &str, now: Instant) -> bool {
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        full_at.retain(|_, full_at| *full_at > now);
        let after = full_at.get(owner).copied().unwrap_or(now) + ONE_EACH;
        if after.saturating_duration_since(now) > ONE_EACH * IN_A_ROW {
            return false;
        }
        full_at.insert(owner.to_owned(), after);
        true
    }

    /// Counts the jobs that a tick submits besides the first: one for each destination. Later ticks of the owner wait for them.
    pub(super) fn add(&self, owner: &str, count: usize, now: Instant) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = full_at.get(owner).copied().unwrap_or(now).max(now);
        full_at.insert(owner.to_owned(), at + ONE_EACH * count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_run_out_and_come_back_for_each_owner_by_itself() {
        let (pace, now) = (TickPace::default(), Instant::now());
        let taken = |owner: &str, now: Instant| {
            let all = 0..1_000;
            all.filter(|_| pace.take(owner, now)).count()
        };
        assert_eq!(taken("otto", now), 500);
        assert_eq!(taken("olga", now), 500);
        assert_eq!(taken("otto", now + Duration::from_secs(1)), 10);
        assert_eq!(taken("otto", now + Duration::from_secs(600)), 500);
        assert_eq!(pace.0.lock().expect("unspoilt").len(), 1);
    }

    #[test]
    fn the_destinations_of_a_tick_count() {
        let (pace, now) = (TickPace::default(), Instant::now());
        let mut ticks = 0;
        while pace.take("otto", now) {
            pace.add("otto", 64, now);
            ticks += 1;
        }
        assert_eq!(ticks, 8);
        assert!(pace.take("olga", now));
    }
}
