//! Owns the trial of fewer streams if storage accepts bytes in bursts. One window shows a burst or a pause, so the trial covers several of
//! both. Does not begin trials or change the number.

use std::time::Duration;

use super::super::Holdup;
use super::super::pace::{Bursts, Course};
use super::meter::Meter;
use super::parameters::{
    BURSTS, BURSTS_SECONDS_MAX, HELD_UP_FOR, HELD_UP_FOR_BURSTS, HELD_UP_PART, KEPT,
};

/// Time at which another stage last limited the transfer.
#[derive(Debug, Default)]
pub(super) struct HeldUp(Option<Duration>);

impl HeldUp {
    /// Records that another stage limits the transfer.
    pub(super) const fn note(&mut self, now: Duration) {
        self.0 = Some(now);
    }

    /// Whether another stage limited the transfer recently. If storage accepts much data at once and then syncs, the network is repeatedly
    /// the slowest stage for a while.
    pub(super) fn lately(&self, now: Duration, meter: &Meter) -> bool {
        let Some(then) = self.0 else {
            return false;
        };
        let since = now.saturating_sub(then);
        let in_bursts = || matches!(meter.course(), Course::Bursts(_));
        since < HELD_UP_FOR || since < HELD_UP_FOR_BURSTS && in_bursts()
    }
}

/// A trial of fewer streams that covers several bursts.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverBursts {
    /// The number of streams before the trial.
    pub(super) from: u32,
    /// The bursts before the trial.
    bursts: Bursts,
    /// Byte count at the start of the trial.
    bytes: u64,
    windows: u32,
    /// Windows in which another stage limited the transfer.
    held_up: u32,
}

impl OverBursts {
    /// A trial that begins at the byte count `bytes`.
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

    /// Whether fewer streams are enough, at the byte count `bytes`.
    pub(super) fn is_kept(&self, passed: Duration, bytes: u64) -> bool {
        let moved = bytes.saturating_sub(self.bytes) as f64;
        // The trial may have begun after a burst and ended before one. If the transfer waited for storage most of the time, the streams
        // were fast enough, and storage only took longer for a burst.
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
