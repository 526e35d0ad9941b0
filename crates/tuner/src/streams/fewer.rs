//! Trying fewer streams, and judging it: by the rate, or over bursts where a disk takes much at once and then syncs.
//! Tries no more of them.

use std::time::Duration;

use super::super::pace::{Bursts, Course};
use super::super::path::{Reading, Room};
use super::super::{Decision, Holdup, shown_rate, whole};
use super::{
    DOWN_WAIT, HELD_UP_FOR, HELD_UP_FOR_BURSTS, KEPT, StreamTuner, TRIAL_WINDOWS_MAX, Trial,
};

/// Streams that are left have room for so many times as much as goes through, pauses and all.
const SPARE: f64 = 1.5;

/// Fewer are looked at for the time that so many bursts are worth …
const BURSTS: f64 = 3.0;
/// … in seconds, at most.
const BURSTS_SECONDS_MAX: f64 = 12.0;

/// Fewer that no longer fill a way that nobody else wants must keep this share of the total.
const KEPT_ALONE: f64 = 0.985;
/// They are looked at for so long: BBR tries more and less in turn within half a second.
const ALONE_FOR: Duration = Duration::from_secs(1);

/// Part of the windows of a trial in which something else has to have held the transfer up.
const HELD_UP_PART: f64 = 0.5;

/// Why fewer are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// A queue stands: others may want what these take.
    Queue,
    /// Fewer may do as well.
    Spare,
}

impl StreamTuner {
    pub(super) fn try_fewer(
        &mut self,
        now: Duration,
        reading: &Reading,
        words: &str,
        why: Why,
    ) -> Option<Decision> {
        let hold = match why {
            Why::Queue => self.yielding,
            Why::Spare => self.down,
        };
        if !hold.is_over(now) || self.target <= self.floor {
            return None;
        }
        let to = (self.target - (self.target / 4).max(1)).max(self.floor);
        self.begin_trial(now, reading, None, why);
        Some(self.change(now, to, format!("{words}; fewer may do")))
    }

    /// Fewer where a stage holds the transfer up that streams do not help. What goes through in one window is the burst of a disk
    /// or its pause, and says nothing of them; then it is judged over several of both, and waits for no trial that was not.
    pub(super) fn try_fewer_elsewhere(
        &mut self,
        now: Duration,
        reading: &Reading,
        what: &str,
    ) -> Option<Decision> {
        let why = format!("{what} holds the transfer up");
        let bursts = match self.pace.course() {
            Course::Even => return self.try_fewer(now, reading, &why, Why::Spare),
            Course::Uneven => return None,
            Course::Bursts(bursts) => bursts,
        };
        if !self.spare.is_over(now) {
            return None;
        }
        // In a burst they moved the most that they can.
        let part = SPARE * bursts.rate / self.peak.max(1.0);
        let to = whole(f64::from(self.target) * part).max(self.floor);
        if to >= self.target {
            return None;
        }
        let words = format!(
            "{why}, and takes {} in bursts; fewer may do",
            shown_rate(bursts.rate)
        );
        self.begin_trial(now, reading, Some(bursts), Why::Spare);
        // It is that of so many from now on.
        self.peak = 0.0;
        Some(self.change(now, to, words))
    }

    pub(super) fn judge_fewer(
        &mut self,
        now: Duration,
        reading: &Reading,
        trial: Trial,
        holdup: Holdup,
    ) -> Option<Decision> {
        if let Some(bursts) = trial.bursts {
            return self.judge_over_bursts(now, reading, trial, bursts, holdup);
        }
        let before = self.kept.unwrap_or(trial.before);
        // Where the queue still stands, what was given up went to others: it is theirs where ours was half of the way or more, of which
        // a part of the streams then keeps this much, for others have as many as before.
        let part = f64::from(self.target) / f64::from(trial.from);
        let share = trial.before * 2.0 * part / (1.0 + part);
        let moved = reading.rate.max(self.lately(now).unwrap_or(0.0));
        let room = reading.room();
        let is_queued = room == Room::None;
        // Where the queue is gone and their windows hold them up, they do not fill the way, and nobody waits for what more would take.
        // That is some hundredths, less than one window differs from the next: means are compared.
        let is_alone = trial.why == Why::Queue && room == Room::Windows;
        let mut is_kept = moved >= KEPT * before;
        if is_kept && is_alone {
            if self.settled.is_none_or(|then| now < then + ALONE_FOR) {
                return None;
            }
            is_kept = self.lately(now).unwrap_or(0.0) >= KEPT_ALONE * trial.mean;
        }
        let given = is_queued && moved >= share;
        if is_kept || given {
            self.kept = (!given).then_some(before);
            if trial.why == Why::Queue {
                self.usual = None;
            }
            if given {
                // What more streams moved in a queue is no sign that these are held down.
                self.peak = moved;
            }
            return self.keep_fewer(now, reading, holdup);
        }
        // Who shares a queue has a moment of much and one of little, of the length of some windows.
        let go_on = self.windows == 1 || is_queued || self.is_rising(reading);
        if self.windows < TRIAL_WINDOWS_MAX && go_on {
            return None;
        }
        self.kept = None;
        match trial.why {
            Why::Spare => self.down.failed(now, self.changed),
            Why::Queue => {
                if !is_queued {
                    // It was our own.
                    self.yielding.wait = self.yielding.wait.max(DOWN_WAIT);
                }
                self.yielding.failed(now, self.changed);
            }
        }
        Some(self.go_back(now, trial, moved, trial.before))
    }

    fn judge_over_bursts(
        &mut self,
        now: Duration,
        reading: &Reading,
        trial: Trial,
        bursts: Bursts,
        holdup: Holdup,
    ) -> Option<Decision> {
        let passed = now.saturating_sub(self.changed).as_secs_f64();
        let trial = Trial {
            windows: trial.windows + 1,
            held_up: trial.held_up + u32::from(matches!(holdup, Holdup::Elsewhere(_))),
            ..trial
        };
        self.trial = Some(trial);
        if let Holdup::Elsewhere(_) = holdup {
            self.held_up = Some(now);
        }
        let enough = (BURSTS * bursts.seconds()).min(BURSTS_SECONDS_MAX);
        if self.was_held_up(now) && passed < enough {
            return None;
        }
        let moved = self.pace.bytes().saturating_sub(trial.bytes) as f64;
        // It may have begun after a burst and end before one. And where the disk was waited for at least half of the time, it was not they
        // that brought too little: then its batches have only taken longer.
        let waited = f64::from(trial.held_up) >= HELD_UP_PART * f64::from(trial.windows);
        let missing = if waited { 2.0 } else { 1.0 } * bursts.bytes;
        if moved + missing >= KEPT * bursts.rate * passed {
            // What brought more of them was a burst.
            self.up.failed(now, self.changed);
            self.usual = None;
            return self.keep_fewer(now, reading, holdup);
        }
        self.spare.failed(now, self.changed);
        Some(self.go_back(now, trial, moved / passed.max(1e-3), bursts.rate))
    }

    /// Whether something else held the transfer up a moment ago: a disk that takes much at once and then syncs leaves the network the
    /// slowest for a while, again and again.
    pub(super) fn was_held_up(&self, now: Duration) -> bool {
        let Some(then) = self.held_up else {
            return false;
        };
        let since = now.saturating_sub(then);
        let in_bursts = || matches!(self.pace.course(), Course::Bursts(_));
        since < HELD_UP_FOR || since < HELD_UP_FOR_BURSTS && in_bursts()
    }

    fn keep_fewer(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        self.trial = None;
        self.explore.until = self.explore.until.max(now + self.explore.wait);
        self.consider(now, reading, holdup)
    }

    fn go_back(&mut self, now: Duration, trial: Trial, rate: f64, before: f64) -> Decision {
        self.trial = None;
        let words = format!(
            "{} moved {} where {} had moved {}: back",
            self.target,
            shown_rate(rate),
            trial.from,
            shown_rate(before)
        );
        self.change(now, trial.from, words)
    }
}
