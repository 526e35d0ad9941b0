//! Owns the usual rate of a steady state. A deviation from the usual rate shows a pause or a changed path. Does not start trials.

use std::time::Duration;

use super::super::path::{Reading, Room};
use super::parameters::{
    CROWDED, CROWDED_WINDOWS, LATELY, RISING, UNUSUAL_FOR, USUAL_KNOWN, USUAL_LEAST, USUAL_MOST,
    USUAL_STEADY, WINDOW_ROUND_TRIPS,
};

/// The usual rate, and the known facts about pauses.
#[derive(Debug, Default)]
pub(super) struct Usual {
    steady: Option<Steady>,
    /// Time at which no data moved last.
    still: Option<Duration>,
}

/// A rate that has been measured for some windows.
#[derive(Debug)]
struct Steady {
    rate: f64,
    windows: u32,
    since: Duration,
    /// Time of the last window with about this rate.
    seen: Option<Duration>,
    /// The time since which window rates are far from the usual rate.
    far: Option<Duration>,
    /// Consecutive windows with a lower rate in a queue.
    crowded: u32,
}

/// The meaning of a window compared with the usual rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// No change.
    None,
    /// Other transfers have joined the queue.
    Crowded,
    /// The path has changed.
    OtherPath,
}

impl Usual {
    /// Forgets the rate, which is then measured again.
    pub(super) const fn forget(&mut self) {
        self.steady = None;
    }

    /// Records that no data moves.
    pub(super) const fn note_standstill(&mut self, now: Duration) {
        self.still = Some(now);
    }

    /// Processes a window without a trial.
    pub(super) fn take(&mut self, now: Duration, reading: &Reading) -> Change {
        if reading.stands_still() {
            // The path may be the same after the outage.
            return Change::None;
        }
        let Some(steady) = &mut self.steady else {
            self.steady = Some(Steady {
                rate: reading.rate,
                windows: 1,
                since: now,
                seen: None,
                far: None,
                crowded: 0,
            });
            return Change::None;
        };
        let change = steady.take(now, reading);
        if change == Change::OtherPath {
            self.steady = None;
        }
        change
    }

    /// Whether the rate may soon rise without any trial, because the usual rate, or no rate at all, was measured recently.
    pub(super) fn may_soon_rise(&self, now: Duration, reading: &Reading, room: Room) -> bool {
        let Some(steady) = self.known(now) else {
            return is_recent(self.still, LATELY, now);
        };
        // In a queue, transfers that joined may need their share soon; losses differ from window to window.
        let may_change = steady.far.is_some() && matches!(room, Room::Windows | Room::Unknown);
        reading.rate < steady.rate / RISING
            && (may_change
                || is_recent(steady.seen, moment(reading), now)
                || is_recent(self.still, UNUSUAL_FOR, now))
    }

    /// The usual rate, if it was measured recently; otherwise 0.
    pub(super) fn seen_lately(&self, now: Duration, reading: &Reading) -> f64 {
        self.known(now)
            .filter(|steady| is_recent(steady.seen, moment(reading), now))
            .map_or(0.0, |steady| steady.rate)
    }

    /// The usual rate, if it belongs to a steady state.
    fn known(&self, now: Duration) -> Option<&Steady> {
        self.steady.as_ref().filter(|steady| {
            steady.windows >= USUAL_KNOWN && now.saturating_sub(steady.since) >= USUAL_STEADY
        })
    }
}

impl Steady {
    fn take(&mut self, now: Duration, reading: &Reading) -> Change {
        if (self.rate / RISING..=self.rate * RISING).contains(&reading.rate) {
            self.seen = Some(now);
        }
        let is_crowded = self.count_crowded(reading);
        let far = reading.rate < 0.6 * self.rate || reading.rate > 1.6 * self.rate;
        if !far {
            self.far = None;
            // An old rate adapts slowly, so that it does not follow a rate that falls step by step.
            self.windows = self.windows.saturating_add(1);
            let weight = (1.0 / f64::from(self.windows)).clamp(USUAL_LEAST, USUAL_MOST);
            self.rate += weight * (reading.rate - self.rate);
        } else if now.saturating_sub(*self.far.get_or_insert(now)) >= UNUSUAL_FOR {
            return Change::OtherPath;
        }
        if is_crowded {
            Change::Crowded
        } else {
            Change::None
        }
    }

    /// Whether other transfers share the queue now. Returns true only once. The result of the following trial decides when the next
    /// trial is due.
    fn count_crowded(&mut self, reading: &Reading) -> bool {
        if reading.rate >= CROWDED * self.rate {
            self.crowded = 0;
        } else if reading.room() == Room::None && self.windows >= USUAL_KNOWN {
            self.crowded = self.crowded.saturating_add(1);
            return self.crowded == CROWDED_WINDOWS;
        }
        false
    }
}

fn is_recent(then: Option<Duration>, time: Duration, now: Duration) -> bool {
    then.is_some_and(|then| now.saturating_sub(then) <= time)
}

/// Length of "recently": two windows or more.
fn moment(reading: &Reading) -> Duration {
    LATELY.max(reading.round_trip_min().mul_f64(2.0 * WINDOW_ROUND_TRIPS))
}
