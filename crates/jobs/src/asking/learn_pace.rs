//! Bounds how often the nodes of a site are noted in the state: the site chooses its answers, and each note is a command of the consensus
//! with up to 256 nodes.
//! Notes nothing, and reads no clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Notes about one site in a row.
const IN_A_ROW: u32 = 16;

/// Interval of further notes after that.
const ONE_EACH: Duration = Duration::from_secs(30);

/// Time at which each site, by its identity, may have the full number of notes again.
#[derive(Default)]
pub(crate) struct LearnPace(Mutex<HashMap<String, Instant>>);

impl LearnPace {
    /// Takes one of the notes about a site. Returns false if no note is allowed now.
    pub(super) fn take(&self, site: &str, now: Instant) -> bool {
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        full_at.retain(|_, full_at| *full_at > now);
        let after = full_at.get(site).copied().unwrap_or(now) + ONE_EACH;
        if after.saturating_duration_since(now) > ONE_EACH * IN_A_ROW {
            return false;
        }
        full_at.insert(site.to_owned(), after);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_run_out_and_come_back_for_each_site() {
        let (pace, now) = (LearnPace::default(), Instant::now());
        assert!((0..IN_A_ROW).all(|_| pace.take("a", now)));
        assert!(!pace.take("a", now));
        assert!(pace.take("b", now), "another site");
        assert!(pace.take("a", now + ONE_EACH) && !pace.take("a", now + ONE_EACH));
        let later = now + ONE_EACH * (2 * IN_A_ROW);
        assert!((0..IN_A_ROW).all(|_| pace.take("a", later)));
    }
}
