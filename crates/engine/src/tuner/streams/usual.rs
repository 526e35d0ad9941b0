//! Owns the usual rate: what a trial is held to after a pause, and by which another way than that was measured on is noticed.
//! Tries nothing.

use std::time::Duration;

use super::super::path::{Reading, Room};
use super::{LATELY, RISING, StreamTuner};

/// When the rate has been another for so long, the way is another.
const UNUSUAL_FOR: Duration = Duration::from_secs(5);

/// A window counts for so much of the usual rate, at the beginning and after some hundred windows.
const USUAL_MOST: f64 = 0.1;
const USUAL_LEAST: f64 = 0.005;

/// So many windows make the usual rate known.
const USUAL_KNOWN: u32 = 5;

impl StreamTuner {
    /// Has a trial of more for windows win over the usual rate too, where so many have filled the way before and it was that a moment
    /// ago: what goes through now may be a pause, and BBR makes one every ten seconds.
    pub(super) fn hold_to_usual(&mut self, now: Duration, reading: &Reading) {
        let has_filled = self.filled_by.is_some() && reading.room() == Room::Windows;
        let is_known = self.usual_windows >= USUAL_KNOWN
            && (self.usually).is_some_and(|then| now.saturating_sub(then) <= LATELY);
        if has_filled
            && is_known
            && let (Some(trial), Some(usual)) = (&mut self.trial, self.usual)
        {
            trial.before = trial.before.max(usual);
        }
    }

    /// What was for nothing before may not be after the way has changed.
    pub(super) fn notice_change(&mut self, now: Duration, reading: &Reading) {
        let Some(usual) = self.usual else {
            self.usual = Some(reading.rate);
            self.usual_windows = 1;
            return;
        };
        if (usual / RISING..=usual * RISING).contains(&reading.rate) {
            self.usually = Some(now);
        }
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
