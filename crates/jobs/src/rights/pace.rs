//! Bounds how fast other sites may change the state here, by their jobs and by access for these.
//! Decides no right, and reads no clock.
//!
//! Each change is a command of the consensus, an event and a line of the audit log at every node. Ends are not counted: a job is cancelled,
//! and access taken back, no more often than it was made.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Refusal, code};

/// Changes in a row: access for all paths that one site may have (`godwit_state::RULES_OF_ASKER_MAX`), and some jobs.
const IN_A_ROW: u32 = 2_500;

/// Interval of further changes after that.
const ONE_EACH: Duration = Duration::from_millis(50);

/// Time at which each site may make its full number of changes again.
#[derive(Default)]
pub(crate) struct Pace(Mutex<HashMap<String, Instant>>);

impl Pace {
    /// Takes this many changes of a site.
    ///
    /// # Errors
    /// Too few changes are allowed now.
    pub(crate) fn take(&self, asker: &str, changes: usize, now: Instant) -> Result<(), Refusal> {
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        full_at.retain(|_, full_at| *full_at > now);
        let all = ONE_EACH * IN_A_ROW;
        let changes = u32::try_from(changes).unwrap_or(u32::MAX);
        let taken = ONE_EACH.saturating_mul(changes.min(IN_A_ROW));
        let after = full_at.get(asker).copied().unwrap_or(now) + taken;
        if after.saturating_duration_since(now) > all {
            let message = format!(
                "this identity has made too many changes here recently: the limit is {IN_A_ROW} changes in a row, then {} per second; try again later",
                Duration::from_secs(1).as_millis() / ONE_EACH.as_millis()
            );
            return Err(Refusal::later(code::BUSY, message));
        }
        full_at.insert(asker.to_owned(), after);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_run_out_and_come_back_for_each_site_by_itself() {
        let (pace, now) = (Pace::default(), Instant::now());
        let most = IN_A_ROW as usize;
        pace.take("a", most - 1, now).expect("left");
        pace.take("a", 1, now).expect("left");
        let refusal = pace.take("a", 1, now).expect_err("used up");
        assert_eq!(
            (refusal.code.known(), refusal.retryable),
            (Some(code::BUSY), true)
        );
        pace.take("b", most, now).expect("another site");
        pace.take("a", 1, now + ONE_EACH).expect("one came back");
        assert!(pace.take("a", 1, now + ONE_EACH).is_err());
        // A request for more than the bound succeeds if the whole bound is left.
        let later = now + ONE_EACH * (2 * IN_A_ROW);
        pace.take("a", usize::MAX, later).expect("all");
        assert_eq!(pace.0.lock().expect("unspoilt").len(), 1);
    }
}
