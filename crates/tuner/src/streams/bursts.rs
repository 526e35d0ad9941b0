//! Owns the trial of fewer streams where storage takes bytes in bursts: one window shows a burst or a pause, so that several of both count.
//! Begins no trial and changes no number.

use std::time::Duration;

use super::super::Holdup;
use super::super::pace::Bursts;
use super::parameters::{BURSTS, BURSTS_SECONDS_MAX, HELD_UP_PART, KEPT};

/// A trial of fewer streams over bursts.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverBursts {
    /// The number of streams before the trial.
    pub(super) from: u32,
    /// The bursts before the trial.
    bursts: Bursts,
    /// Bytes that had been moved when the trial began.
    bytes: u64,
    windows: u32,
    /// Windows in which another stage held the transfer up.
    held_up: u32,
}

impl OverBursts {
    /// A trial that begins after `bytes` have been moved.
    pub(super) const fn new(from: u32, bursts: Bursts, bytes: u64) -> Self {
        Self {
            from,
            bursts,
            bytes,
            windows: 0,
            held_up: 0,
        }
    }

    /// Counts a window.
    pub(super) fn count(&mut self, holdup: Holdup) {
        self.windows += 1;
        self.held_up += u32::from(matches!(holdup, Holdup::Elsewhere(_)));
    }

    /// Whether `passed` is too short a time to judge.
    pub(super) fn is_short(&self, passed: Duration) -> bool {
        passed.as_secs_f64() < (BURSTS * self.bursts.seconds()).min(BURSTS_SECONDS_MAX)
    }

    /// Whether fewer streams are enough, after `bytes` in all.
    pub(super) fn is_kept(&self, passed: Duration, bytes: u64) -> bool {
        let moved = bytes.saturating_sub(self.bytes) as f64;
        // The trial may have begun after a burst and ended before one. Where storage was waited for most of the time, the streams
        // brought enough, and storage only took longer for a burst.
        let waited = f64::from(self.held_up) >= HELD_UP_PART * f64::from(self.windows);
        let missing = if waited { 2.0 } else { 1.0 } * self.bursts.bytes;
        moved + missing >= KEPT * self.bursts.rate * passed.as_secs_f64()
    }

    /// The rate of the trial, and the rate before it.
    pub(super) fn rates(&self, passed: Duration, bytes: u64) -> (f64, f64) {
        let moved = bytes.saturating_sub(self.bytes) as f64;
        (moved / passed.as_secs_f64().max(1e-3), self.bursts.rate)
    }
}
