//! Owns the trial of fewer streams where storage takes bytes in bursts: one window shows a burst or a pause, so that several of both count.
//! Begins no trial and changes no number.

use std::time::Duration;

use super::super::Holdup;
use super::super::pace::{Bursts, Course};
use super::meter::Meter;
use super::parameters::{
    BURSTS, BURSTS_SECONDS_MAX, HELD_UP_FOR, HELD_UP_FOR_BURSTS, HELD_UP_PART, KEPT,
};

/// When another stage held the transfer up last.
#[derive(Debug, Default)]
pub(super) struct HeldUp(Option<Duration>);

impl HeldUp {
    /// Another stage holds the transfer up.
    pub(super) const fn note(&mut self, now: Duration) {
        self.0 = Some(now);
    }

    /// Whether another stage held the transfer up a moment ago. Storage that takes much at once and then syncs leaves the network the
    /// slowest stage for a while, again and again.
    pub(super) fn lately(&self, now: Duration, meter: &Meter) -> bool {
        let Some(then) = self.0 else {
            return false;
        };
        let since = now.saturating_sub(then);
        let in_bursts = || matches!(meter.course(), Course::Bursts(_));
        since < HELD_UP_FOR || since < HELD_UP_FOR_BURSTS && in_bursts()
    }
}

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
