//! Owns the usual rate of a steady state. A pause and another path show by their distance from the usual rate.
//! Tries nothing.

use std::time::Duration;

use super::super::path::{Reading, Room};
use super::parameters::{
    CROWDED, CROWDED_WINDOWS, LATELY, RISING, UNUSUAL_FOR, USUAL_KNOWN, USUAL_LEAST, USUAL_MOST,
    USUAL_STEADY, WINDOW_ROUND_TRIPS,
};

/// The usual rate, and what is known of pauses.
#[derive(Debug, Default)]
pub(super) struct Usual {
    steady: Option<Steady>,
    /// When nothing moved last.
    still: Option<Duration>,
}

/// A rate that has been measured for some windows.
#[derive(Debug)]
struct Steady {
    rate: f64,
    windows: u32,
    since: Duration,
    /// When a window last had about this rate.
    seen: Option<Duration>,
    /// Since when windows have had a rate far from this one.
    far: Option<Duration>,
    /// Windows in a row of a lower rate in a queue.
    crowded: u32,
}

/// The meaning of a window beside the usual rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing new.
    None,
    /// Others have joined the queue.
    Crowded,
    /// The path is another one.
    OtherPath,
}

impl Usual {
    /// The rate is measured from the beginning.
    pub(super) const fn forget(&mut self) {
        self.steady = None;
    }

    /// Nothing moves.
    pub(super) const fn note_standstill(&mut self, now: Duration) {
        self.still = Some(now);
    }

    /// Takes a window in which nothing is tried.
    pub(super) fn take(&mut self, now: Duration, reading: &Reading) -> Change {
        if reading.stands_still() {
            // The path may be the same one when it is back.
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

    /// Whether the rate may rise in a moment whatever is tried: the usual rate, or none at all, was measured a moment ago.
    pub(super) fn may_be_pause(&self, now: Duration, reading: &Reading, room: Room) -> bool {
        let Some(steady) = self.known(now) else {
            return is_recent(self.still, LATELY, now);
        };
        // In a queue, transfers that joined may want their part soon; losses differ from window to window.
        let may_change = steady.far.is_some() && matches!(room, Room::Windows | Room::Unknown);
        reading.rate < steady.rate / RISING
            && (may_change
                || is_recent(steady.seen, moment(reading), now)
                || is_recent(self.still, UNUSUAL_FOR, now))
    }

    /// The usual rate, if it was measured a moment ago; otherwise 0.
    pub(super) fn seen_lately(&self, now: Duration, reading: &Reading) -> f64 {
        self.known(now)
            .filter(|steady| is_recent(steady.seen, moment(reading), now))
            .map_or(0.0, |steady| steady.rate)
    }

    /// The usual rate, if it is that of a steady state.
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
            // An old rate follows slowly: a rate that falls step by step must not take it along.
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

    /// Whether others share the queue now. The answer is yes once. The result of the following trial decides when the next trial is due.
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

/// A moment lasts two windows or more.
fn moment(reading: &Reading) -> Duration {
    LATELY.max(reading.round_trip_min().mul_f64(2.0 * WINDOW_ROUND_TRIPS))
}
