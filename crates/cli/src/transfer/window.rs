//! What both ends counted over the last few seconds: what limits a transfer now is not what limited it an hour ago.
//! Judges nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use godwit_engine::Shares;

/// What is judged together. The other end tells of itself twice a second.
const WINDOW: Duration = Duration::from_secs(4);

/// Time between two samples that are kept.
const STEP: Duration = Duration::from_millis(500);

/// The samples of the last few seconds.
#[derive(Default)]
pub(super) struct Window {
    samples: VecDeque<(Instant, Shares)>,
}

impl Window {
    /// Takes a sample, and gives what was counted in the window that ends with it.
    pub(super) fn add(&mut self, now: Instant, shares: Shares) -> Shares {
        let began_anew = self.samples.back().is_some_and(|(_, last)| {
            let elapsed = |shares: &Shares| {
                let of =
                    |side: Option<godwit_engine::Snapshot>| side.map_or(0, |side| side.elapsed_ns);
                (of(shares.source), of(shares.destination))
            };
            let ((source, destination), (was_source, was_destination)) =
                (elapsed(&shares), elapsed(last));
            source < was_source || destination < was_destination
        });
        if began_anew {
            self.samples.clear();
        }
        while self
            .samples
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW)
        {
            self.samples.pop_front();
        }
        if self
            .samples
            .back()
            .is_none_or(|(at, _)| now.duration_since(*at) >= STEP)
        {
            self.samples.push_back((now, shares));
        }
        match self.samples.front() {
            // At the beginning, from the beginning.
            Some((at, first)) if now.duration_since(*at) >= STEP => shares.since(first),
            _ => shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_engine::Snapshot;

    use super::*;

    fn shares(elapsed: u64) -> Shares {
        Shares {
            source: Some(Snapshot {
                elapsed_ns: elapsed,
                ..Snapshot::default()
            }),
            destination: None,
        }
    }

    #[test]
    fn a_window_ends_now_and_forgets_what_is_older() {
        let mut window = Window::default();
        let began = Instant::now();
        let mut elapsed = 0;
        for step in 0..40_u64 {
            let now = began + Duration::from_millis(250 * step);
            let found = window.add(now, shares(250 * step));
            elapsed = found.source.unwrap().elapsed_ns;
            assert!(elapsed <= 4500, "{elapsed} after {step}");
        }
        assert!(elapsed >= 4000);
    }

    #[test]
    fn a_transfer_that_begins_anew_is_judged_anew() {
        let mut window = Window::default();
        let began = Instant::now();
        window.add(began, shares(9000));
        let found = window.add(began + Duration::from_secs(1), shares(100));
        assert_eq!(found.source.unwrap().elapsed_ns, 100);
    }
}
