//! Trying more streams, and judging it: by what they win of what they would win on an empty way.
//! Does not decide when more are tried (`streams`), and tries no fewer.

use std::time::Duration;

use super::super::path::{Reading, Room, START_MAX};
use super::super::{Decision, Holdup, shown_rate, whole};
use super::fewer::Why;
use super::{DOWN_WAIT, StreamTuner, TRIAL_WINDOWS_MAX, Trial, next_to};

/// A part of the streams of a trial must move this share of what they all did. By streams that take from others it would be less
/// as long as those have half.
const PART: f64 = 0.93;
/// The fewer streams the part leaves out the more it would be: it must be more than that by this.
const TAKEN: f64 = 1.01;

/// By so much a trial must win more than its streams could take from others who had half of the way.
const TAKEN_MOST: f64 = 1.05;

/// What a trial of more must win at least for its streams to be kept in part.
const WORTH: f64 = 1.1;

/// Where losses alone hold all of them up, and they are more than a transfer begins with, it must win this share of what it would win
/// on an empty way, for all to be kept.
const WORTH_LOSSES: f64 = 0.15;

impl StreamTuner {
    pub(super) fn try_more(
        &mut self,
        now: Duration,
        reading: &Reading,
        to: u32,
        words: String,
    ) -> Option<Decision> {
        if self.more.is_over(now) {
            self.refused = None;
        }
        let to = self
            .bounds
            .hold(self.refused.map_or(to, |most| to.min(most)));
        if to <= self.target {
            return None;
        }
        self.begin_trial(now, reading, None, Why::Spare);
        self.hold_to_usual(now, reading);
        Some(self.change(now, to, words))
    }

    pub(super) fn judge_more(
        &mut self,
        now: Duration,
        reading: &Reading,
        trial: Trial,
        holdup: Holdup,
    ) -> Option<Decision> {
        let (from, to) = (f64::from(trial.from), f64::from(self.target));
        let moved = reading.rate.max(self.lately(now).unwrap_or(0.0));
        let won = moved / trial.before.max(1.0);
        let is_enough = trial.more_moved.is_some_and(|(more, all)| {
            // What a part takes from as many of others, as a share of what all did: to move that is no sign that it is enough.
            let more = f64::from(more);
            let taken = (to / (to + from)) / (more / (more + from));
            moved >= all * PART.max((TAKEN * taken).min(1.0))
        });
        // A queue too short to be seen runs over when there are more: what they win they take from others.
        let grown = trial.for_losses && trial.own_losses.have_grown(&trial.losses);
        if is_enough && !grown || won >= 1.0 + (to / from - 1.0) / 2.0 {
            return self.keep_more(now, reading, holdup);
        }
        if self.windows < TRIAL_WINDOWS_MAX && (self.windows == 1 || self.is_rising(reading)) {
            return None;
        }
        // Where losses alone hold them up, before and now, and are no more, there is nobody from whom they could take; and those that
        // there were before may still have had more than losses leave them, from their start. Fewer start before they are many.
        if trial.for_losses
            && !grown
            && trial.from >= START_MAX
            && reading.room() == Room::Losses
            && won >= 1.0 + WORTH_LOSSES * (to / from - 1.0)
        {
            return self.keep_more(now, reading, holdup);
        }
        let words = format!(
            "{} moved {} where {} had moved {}",
            self.target,
            shown_rate(moved),
            trial.from,
            shown_rate(trial.before)
        );
        // A part of them may be worth it: as many as the old rate of each makes the new total.
        let enough = whole(from * won * 1.05);
        // Where that is no part, or the part was tried, all are kept that win more than by taking from others who had half of the way.
        let taken = 2.0 * to / (to + from);
        if !grown
            && won >= TAKEN_MOST * taken
            && (trial.more_moved.is_some() || enough >= self.target)
        {
            return self.keep_more(now, reading, holdup);
        }
        if trial.more_moved.is_none() && won > WORTH && enough > trial.from && enough < self.target
        {
            self.trial = Some(Trial {
                more_moved: Some((self.target, moved)),
                ..trial
            });
            return Some(self.change(now, enough, format!("{words}; so many should do")));
        }
        self.trial = None;
        self.losses = trial.losses;
        self.peak = trial.before;
        self.up.failed(now, self.changed);
        self.explore.failed(now, self.changed);
        // It is full, or next to it: a small step finds out whether it still is.
        self.filled_by = Some(next_to(trial.from));
        Some(self.change(now, trial.from, format!("{words}: not worth it")))
    }

    fn keep_more(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        self.trial = None;
        self.up.won();
        self.more.won();
        self.down.until = now + self.down.wait;
        self.yielding.until = self.yielding.until.max(now + DOWN_WAIT);
        self.kept = None;
        self.usual = None;
        self.consider(now, reading, holdup)
    }
}
