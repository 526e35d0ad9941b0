//! Owns the usual rate: what a trial is held to after a pause, and by which another way than that was measured on is noticed.
//! Tries nothing.

use std::time::Duration;

use super::super::path::{Reading, Room};
use super::{DOWN_WAIT, KEPT, LATELY, RISING, StreamTuner, WINDOW_ROUND_TRIPS};

/// When the rate has been another for so long, the way is another.
const UNUSUAL_FOR: Duration = Duration::from_secs(5);

/// A window counts for so much of the usual rate, at the beginning and after some hundred windows.
const USUAL_MOST: f64 = 0.1;
const USUAL_LEAST: f64 = 0.005;

/// In a queue in which less than this part of the usual rate goes through for so many windows, others are.
const CROWDED: f64 = 0.85;
const CROWDED_WINDOWS: u32 = 4;

/// So many windows make the usual rate known, and so long a time makes it that of a steady state.
const USUAL_KNOWN: u32 = 5;
const USUAL_STEADY: Duration = Duration::from_secs(6);

impl StreamTuner {
    /// Takes the most that went through, and notes when nothing does.
    pub(super) fn notice_standstill(&mut self, now: Duration, reading: &Reading) {
        if !reading.stands_still() {
            // What comes at once after it was under way before.
            if !self.last.is_some_and(|last| last.stands_still()) {
                self.peak = self.peak.max(reading.rate);
            }
        } else if self.peak > 0.0 {
            self.still = Some(now);
            self.unusual = None;
            if self.trial.is_none() {
                // What moves next is streams that start.
                self.windows = 0;
            }
        }
    }

    /// Whether more may come in a moment whatever is tried, for the usual did, or nothing at all, a moment ago.
    pub(super) fn may_be_pause(&self, now: Duration, reading: &Reading, room: Room) -> bool {
        let Some(usual) = self.usual_of(now, USUAL_STEADY) else {
            return Self::was(self.still, LATELY, now);
        };
        // Where a queue stands, who came may want its part soon; and losses take now more and now less.
        let may_change = self.unusual.is_some() && matches!(room, Room::Windows | Room::Unknown);
        reading.rate < usual / RISING
            && (may_change
                || Self::was(self.usually, moment(reading), now)
                || Self::was(self.still, UNUSUAL_FOR, now))
    }

    /// Has a trial of more win over the usual rate too, where it was that a moment ago: BBR makes a pause every ten seconds.
    pub(super) fn hold_to_usual(&mut self, now: Duration, reading: &Reading) {
        // Where so many have filled the way before, more for windows win little: then it is held to all of it, and that early.
        let has_filled = self.filled_by.is_some() && reading.room() == Room::Windows;
        let usual = if has_filled {
            self.usual_of(now, Duration::ZERO)
        } else {
            self.usual_of(now, USUAL_STEADY).map(|usual| KEPT * usual)
        };
        if Self::was(self.usually, moment(reading), now)
            && let (Some(trial), Some(usual)) = (&mut self.trial, usual)
        {
            trial.before = trial.before.max(usual);
        }
    }

    /// The usual rate, if it is known, and has been measured for so long.
    fn usual_of(&self, now: Duration, time: Duration) -> Option<f64> {
        let is_known = self.usual_windows >= USUAL_KNOWN;
        let passed = now.saturating_sub(self.usual_since);
        self.usual.filter(|_| is_known && passed >= time)
    }

    /// Whether `then` is no longer ago than `time`.
    fn was(then: Option<Duration>, time: Duration, now: Duration) -> bool {
        then.is_some_and(|then| now.saturating_sub(then) <= time)
    }

    /// What was given up in a queue of our own came back to us. If others keep it up now it is theirs, and is not waited with.
    fn notice_others(&mut self, now: Duration, reading: &Reading, usual: f64) {
        if reading.rate >= CROWDED * usual {
            self.crowded = 0;
        } else if reading.room() == Room::None && self.usual_of(now, Duration::ZERO).is_some() {
            self.crowded = self.crowded.saturating_add(1);
            // Once: how that goes tells when the next one is.
            if self.crowded == CROWDED_WINDOWS && self.yielding.wait > DOWN_WAIT {
                self.yielding.forget(now);
            }
        }
    }

    /// What was for nothing before may not be after the way has changed.
    pub(super) fn notice_change(&mut self, now: Duration, reading: &Reading) {
        if reading.stands_still() {
            // It is no other way, and may be what it was when it is back.
            return;
        }
        let Some(usual) = self.usual else {
            self.usual = Some(reading.rate);
            self.usual_windows = 1;
            self.usual_since = now;
            self.usually = None;
            return;
        };
        if (usual / RISING..=usual * RISING).contains(&reading.rate) {
            self.usually = Some(now);
        }
        self.notice_others(now, reading, usual);
        let far = reading.rate < 0.6 * usual || reading.rate > 1.6 * usual;
        if !far {
            self.unusual = None;
            // The longer it has been so the slower it follows: a rate that falls step by step must not take it along.
            self.usual_windows = self.usual_windows.saturating_add(1);
            let weight = (1.0 / f64::from(self.usual_windows)).clamp(USUAL_LEAST, USUAL_MOST);
            self.usual = Some(usual + weight * (reading.rate - usual));
        } else if now.saturating_sub(*self.unusual.get_or_insert(now)) >= UNUSUAL_FOR {
            self.usual = None;
            self.unusual = None;
            self.kept = None;
            self.filled_by = None;
            for hold in [
                &mut self.up,
                &mut self.explore,
                &mut self.down,
                &mut self.spare,
                &mut self.yielding,
                &mut self.more,
            ] {
                hold.forget(now);
            }
        }
    }
}

/// For so long a moment lasts: two windows or more.
fn moment(reading: &Reading) -> Duration {
    LATELY.max(reading.round_trip_min().mul_f64(2.0 * WINDOW_ROUND_TRIPS))
}
