//! Stores the results of trials: when each kind may begin again, and the known facts about the path. Does not decide.

use std::time::Duration;

use super::super::backoff::Backoff;
use super::super::shown_rate;
use super::parameters::{DOWN_WAIT, EXPLORE_FIRST, EXPLORE_WAIT, MORE_WAIT, UP_WAIT, YIELD_WAIT};

/// When each kind of trial may begin.
#[derive(Debug)]
pub(super) struct Waits {
    /// More streams, with evidence.
    pub(super) up: Backoff,
    /// More streams, without evidence.
    pub(super) explore: Backoff,
    /// Fewer streams.
    pub(super) down: Backoff,
    /// Fewer streams, if storage accepts data in bursts.
    pub(super) spare: Backoff,
    /// Fewer streams, in a queue.
    pub(super) yielding: Backoff,
    /// More streams than the other end or the network accepted.
    pub(super) more: Backoff,
}

/// Results of trials on this path.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// Rate before a series of trials of fewer streams.
    pub(super) kept: Option<f64>,
    /// Most streams that the other end or the network accepted.
    pub(super) refused: Option<u32>,
    /// Number of streams at which the path was last seen full. Raises for windows stop here, then continue in small
    /// steps.
    pub(super) filled_by: Option<u32>,
    /// Highest rate of a window since the path was last seen full.
    pub(super) peak: f64,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self {
            up: Backoff::new(UP_WAIT, Duration::ZERO),
            explore: Backoff::new(EXPLORE_WAIT, EXPLORE_FIRST),
            down: Backoff::new(DOWN_WAIT, Duration::ZERO),
            spare: Backoff::new(DOWN_WAIT, Duration::ZERO),
            yielding: Backoff::new(YIELD_WAIT, Duration::ZERO),
            more: Backoff::new(MORE_WAIT, Duration::ZERO),
        }
    }

    /// Forgets all results because the path has changed: each kind of trial may begin at once.
    pub(super) fn forget(&mut self, now: Duration) {
        for wait in [
            &mut self.up,
            &mut self.explore,
            &mut self.down,
            &mut self.spare,
            &mut self.yielding,
            &mut self.more,
        ] {
            wait.forget(now);
        }
    }
}

/// The result of a trial in words: two numbers of streams with their rates.
pub(super) fn compared((to, moved): (u32, f64), (from, before): (u32, f64)) -> String {
    let (moved, before) = (shown_rate(moved), shown_rate(before));
    format!("{to} moved {moved} where {from} had moved {before}")
}

/// The next number in small steps.
pub(super) const fn next_to(streams: u32) -> u32 {
    streams.saturating_add(streams.div_ceil(4))
}
