//! Owns the number of streams of one channel: tries more if there is room, fewer if they do not help, and keeps a number that
//! proves better. Does not find the limit of a stream (`path`), and does not start or end streams.
//!
//! Gradual adaptation after Balman and Kosar: raise the number, compare the total rate, and keep the number only if the rate is
//! higher. Two rules are added. A raise is tried if the kernels' figures show room, and may then be large; no raise is tried while
//! there is a standing queue. A raise must win at least half of the gain that it would have on an empty link. Streams added to a
//! full link take bandwidth from others, and gain less than half as soon as ours have half of the link. Therefore two copies end
//! with equal shares.

mod bursts;
mod fewer;
mod memory;
mod meter;
mod more;
mod parameters;
mod usual;

use std::time::Duration;

use self::bursts::{HeldUp, OverBursts};
use self::fewer::{Lower, Lowered, Why};
use self::memory::{Learned, Waits, compared, next_to};
use self::meter::Meter;
use self::more::{Raise, Raised, factor};
use self::parameters::{
    DOWN_WAIT, EXPLORE_MOST, FALLEN, FEWER_AFTER, KEPT, PATIENCE, SPARE, START_WINDOWS,
};
use self::usual::{Change, Usual};
use super::pace::{Bursts, Course};
use super::path::{Reading, Room, SHORT};
use super::{Bounds, ChannelSample, Decision, Holdup, Knob, shown_rate, whole};

/// Chooses the number of streams of one channel.
#[derive(Debug)]
pub struct StreamTuner {
    bounds: Bounds,
    /// Fewer streams than this are not tried.
    floor: u32,
    target: u32,
    /// Time of the latest change of the target.
    changed: Duration,
    phase: Phase,
    meter: Meter,
    usual: Usual,
    waits: Waits,
    learned: Learned,
    held_up: HeldUp,
}

/// The trial in whose context the next window is judged.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// No trial is running. Next: any other phase.
    Holding,
    /// More streams are tried. Next: `Holding`, or `Raising` with a part of them.
    Raising(Raise),
    /// Fewer streams are tried. Next: `Holding`.
    Lowering(Lower),
    /// Fewer streams are tried, and storage accepts data in bursts. Next: `Holding`.
    Draining(OverBursts),
}

impl StreamTuner {
    /// Begins with `streams`.
    pub fn new(bounds: Bounds, streams: u32) -> Self {
        let target = bounds.hold(streams);
        Self {
            bounds,
            floor: bounds.hold(target.min(2)),
            target,
            changed: Duration::ZERO,
            phase: Phase::Holding,
            meter: Meter::default(),
            usual: Usual::default(),
            waits: Waits::new(),
            learned: Learned::default(),
            held_up: HeldUp::default(),
        }
    }

    /// The current target number of streams.
    pub const fn target(&self) -> u32 {
        self.target
    }

    /// Sets other bounds: channels or transfers were added or removed, and each has its share.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.floor = bounds.hold(self.floor);
    }

    /// Processes a sample, some times a second; `now` is the time since the transfer began. A decision changes the
    /// [`target`](Self::target).
    pub fn step(
        &mut self,
        now: Duration,
        sample: &ChannelSample,
        holdup: Holdup,
    ) -> Option<Decision> {
        let allowed = self.bounds.hold(self.target);
        if allowed != self.target {
            self.phase = Phase::Holding;
            return Some(self.change(
                now,
                allowed,
                "the channels and the transfers of this process share what is allowed".to_owned(),
            ));
        }
        if self.bounds.is_fixed() {
            return None;
        }
        if sample.streams != self.target {
            return self.wait_for_streams(now, sample);
        }
        let reading = self.meter.read(now, sample)?;
        self.notice_standstill(now, &reading);
        let decision = self.judge(now, &reading, holdup);
        if decision.is_none() {
            self.meter.remember(&reading);
        }
        decision
    }

    /// Handles streams that start, end, or were lost.
    fn wait_for_streams(&mut self, now: Duration, sample: &ChannelSample) -> Option<Decision> {
        let astray = self.meter.note_astray(now);
        let patience = PATIENCE + sample.round_trip * 10;
        if now.saturating_sub(astray) < patience {
            return None;
        }
        match self.phase {
            _ if !matches!(self.phase, Phase::Holding) && sample.streams > self.target => None,
            Phase::Raising(raise) => {
                // The other end accepts no more streams, or the network allows no more. It may accept more later.
                let to = self.bounds.hold(sample.streams.max(raise.from));
                self.learned.refused = Some(to);
                self.waits.more.failed(now, self.changed);
                self.phase = Phase::Holding;
                (to != self.target).then(|| self.change(now, to, "no more come about".to_owned()))
            }
            _ if sample.streams == 0 => None,
            _ => {
                // Lost streams are not replaced, or streams do not end, so their current number becomes the target.
                self.phase = Phase::Holding;
                self.target = self.bounds.hold(sample.streams);
                self.meter.accept();
                None
            }
        }
    }

    /// Updates the highest rate, and records when no data moves.
    fn notice_standstill(&mut self, now: Duration, reading: &Reading) {
        if !reading.stands_still() {
            self.learned.peak = self.learned.peak.max(reading.rate);
        } else if self.learned.peak > 0.0 {
            self.usual.note_standstill(now);
        }
    }

    fn judge(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        match self.phase {
            Phase::Raising(raise) => self.judge_more(now, reading, raise, holdup),
            Phase::Lowering(lower) => self.judge_fewer(now, reading, lower, holdup),
            Phase::Draining(trial) => self.judge_over_bursts(now, reading, trial, holdup),
            Phase::Holding => {
                self.notice_change(now, reading);
                self.consider(now, reading, holdup)
            }
        }
    }

    /// A failed trial may succeed after the path has changed.
    fn notice_change(&mut self, now: Duration, reading: &Reading) {
        match self.usual.take(now, reading) {
            // A queue of our own was taken back. A queue of others is theirs, and its part is given at once.
            Change::Crowded if self.waits.yielding.wait > DOWN_WAIT => {
                self.waits.yielding.forget(now);
            }
            Change::None | Change::Crowded => {}
            Change::OtherPath => {
                self.learned.kept = None;
                self.learned.filled_by = None;
                self.waits.forget(now);
            }
        }
    }

    /// Called when no trial is running: decides whether one begins.
    fn consider(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        self.phase = Phase::Holding;
        if let Holdup::Elsewhere(stage) = holdup {
            self.held_up.note(now);
            return self.try_fewer_for_other_stage(now, reading, stage);
        }
        if self.held_up.lately(now, &self.meter) || reading.stands_still() {
            return None;
        }
        let room = reading.room();
        let may_soon_rise = self.usual.may_soon_rise(now, reading, room);
        // The first windows show streams that are still starting, unless their buffers are full.
        let starts = self.meter.windows() < START_WINDOWS && self.meter.is_moving(reading);
        if starts && !reading.has_full_buffers() {
            return None;
        }
        if holdup == Holdup::Threads {
            if !self.waits.up.is_over(now) || may_soon_rise {
                return None;
            }
            let words = "each keeps a processor busy, and there are idle ones".to_owned();
            return self.try_more(now, reading, self.target * 2, words);
        }
        if room == Room::None {
            self.learned.filled_by = Some(self.target);
            // The path is full: a higher rate before other transfers started does not mean that the streams are limited.
            self.learned.peak = reading.rate;
        } else {
            self.learned.filled_by = self.learned.filled_by.filter(|most| *most >= self.target);
        }
        if may_soon_rise {
            return None;
        }
        if room == Room::None {
            return self.try_fewer(now, reading, &reading.words(), Why::Queue);
        }
        // On a short path the processors are the limit.
        if reading.round_trip_min() < SHORT {
            return None;
        }
        if self.waits.up.is_over(now) {
            let decision = self.try_more_for(now, reading, room);
            if decision.is_some() {
                return decision;
            }
        }
        if room != Room::Unknown {
            return None;
        }
        if self.waits.explore.is_over(now) && self.target * 2 <= EXPLORE_MOST {
            let decision = self.try_more(now, reading, self.target * 2, reading.words());
            if decision.is_some() {
                return decision;
            }
        }
        if now.saturating_sub(self.changed) >= FEWER_AFTER {
            return self.try_fewer(now, reading, &reading.words(), Why::Spare);
        }
        None
    }

    /// Tries more streams if `room` is a reason.
    fn try_more_for(&mut self, now: Duration, reading: &Reading, room: Room) -> Option<Decision> {
        let factor = factor(room, self.target);
        // A higher rate was measured before, and no queue indicates that it is out of reach now.
        let fallen = self.learned.peak / reading.rate.max(1.0);
        let (factor, words) = if fallen > FALLEN {
            let before = shown_rate(self.learned.peak);
            let words = format!("{}, and {before} went through before", reading.words());
            (factor.max((1.05 * fallen).min(4.0)), words)
        } else {
            (factor, reading.words())
        };
        if factor <= 1.0 {
            return None;
        }
        let to = whole(f64::from(self.target) * factor);
        let most = match self.learned.filled_by.filter(|_| room == Room::Windows) {
            Some(most) if most > self.target => most,
            Some(_) => next_to(self.target),
            None => to,
        };
        self.try_more(now, reading, to.min(most), words)
    }

    fn try_more(
        &mut self,
        now: Duration,
        reading: &Reading,
        to: u32,
        words: String,
    ) -> Option<Decision> {
        if self.waits.more.is_over(now) {
            self.learned.refused = None;
        }
        let to = self
            .bounds
            .hold(self.learned.refused.map_or(to, |most| to.min(most)));
        if to <= self.target {
            return None;
        }
        let (rate, _) = self.meter.rates(now, reading);
        self.phase = Phase::Raising(Raise {
            from: self.target,
            // A raise during a pause must exceed the usual rate. BBR pauses every ten seconds.
            before: rate.max(KEPT * self.usual.seen_lately(now, reading)),
            for_losses: reading.room() == Room::Losses,
            losses: self.meter.losses(),
            whole: None,
        });
        self.meter.remember(reading);
        Some(self.change(now, to, words))
    }

    fn judge_more(
        &mut self,
        now: Duration,
        reading: &Reading,
        raise: Raise,
        holdup: Holdup,
    ) -> Option<Decision> {
        let moved = self.meter.moved(now, reading);
        let words = compared((self.target, moved), (raise.from, raise.before));
        match raise.judge(self.target, moved, reading, &self.meter) {
            Raised::GoOn => None,
            Raised::Keep => {
                self.waits.up.won();
                self.waits.more.won();
                self.waits.yielding.hold_until(now + DOWN_WAIT);
                self.learned.kept = None;
                self.usual.forget();
                self.consider(now, reading, holdup)
            }
            Raised::Part(part) => {
                let words = format!("{words}; so many should do");
                self.phase = Phase::Raising(Raise {
                    whole: Some((self.target, moved)),
                    ..raise
                });
                Some(self.change(now, part, words))
            }
            Raised::Back => {
                let words = format!("{words}: not worth it");
                self.phase = Phase::Holding;
                self.meter.restore_losses(raise.losses);
                // A momentary rate during a failed raise does not mean that the streams are limited.
                self.learned.peak = raise.before;
                self.waits.up.failed(now, self.changed);
                self.waits.explore.failed(now, self.changed);
                // The path is full or nearly full: a small step finds out whether it still is.
                self.learned.filled_by = Some(next_to(raise.from));
                Some(self.change(now, raise.from, words))
            }
        }
    }

    fn try_fewer(
        &mut self,
        now: Duration,
        reading: &Reading,
        words: &str,
        why: Why,
    ) -> Option<Decision> {
        let wait = match why {
            Why::Queue => self.waits.yielding,
            Why::Spare => self.waits.down,
        };
        if !wait.is_over(now) || self.target <= self.floor {
            return None;
        }
        let to = (self.target - (self.target / 4).max(1)).max(self.floor);
        let (before, mean) = self.meter.rates(now, reading);
        self.phase = Phase::Lowering(Lower {
            from: self.target,
            before,
            series: self.learned.kept.unwrap_or(before),
            mean,
            why,
        });
        self.meter.remember(reading);
        Some(self.change(now, to, format!("{words}; fewer may do")))
    }

    /// Tries fewer streams if the limiting stage is one that streams do not speed up.
    fn try_fewer_for_other_stage(
        &mut self,
        now: Duration,
        reading: &Reading,
        stage: &str,
    ) -> Option<Decision> {
        let why = format!("{stage} holds the transfer up");
        let bursts = match self.meter.course() {
            Course::Even => return self.try_fewer(now, reading, &why, Why::Spare),
            Course::Bursts(bursts) if self.waits.spare.is_over(now) => bursts,
            Course::Uneven | Course::Bursts(_) => return None,
        };
        self.try_fewer_in_bursts(now, reading, bursts, &why)
    }

    fn try_fewer_in_bursts(
        &mut self,
        now: Duration,
        reading: &Reading,
        bursts: Bursts,
        why: &str,
    ) -> Option<Decision> {
        // In a burst the streams have reached their highest rate.
        let part = SPARE * bursts.rate / self.learned.peak.max(1.0);
        let to = whole(f64::from(self.target) * part).max(self.floor);
        if to >= self.target {
            return None;
        }
        let words = format!(
            "{why}, and takes {} in bursts; fewer may do",
            shown_rate(bursts.rate)
        );
        self.phase = Phase::Draining(OverBursts::new(self.target, bursts, self.meter.bytes()));
        self.meter.remember(reading);
        // From now on the highest rate is that of fewer streams.
        self.learned.peak = 0.0;
        Some(self.change(now, to, words))
    }

    fn judge_fewer(
        &mut self,
        now: Duration,
        reading: &Reading,
        lower: Lower,
        holdup: Holdup,
    ) -> Option<Decision> {
        let moved = self.meter.moved(now, reading);
        let result = lower.judge(now, (self.target, moved), reading, &self.meter);
        match result {
            Lowered::GoOn => return None,
            Lowered::Back => {}
            Lowered::Keep | Lowered::Shared => {
                // If other transfers took a part, the series ends, because the part is not a loss.
                self.learned.kept = (result == Lowered::Keep).then_some(lower.series);
                if lower.why == Why::Queue {
                    self.usual.forget();
                }
                return self.keep_fewer(now, reading, holdup);
            }
        }
        self.learned.kept = None;
        match lower.why {
            Why::Spare => self.waits.down.failed(now, self.changed),
            Why::Queue => {
                if reading.room() != Room::None {
                    // The queue was ours.
                    let wait = &mut self.waits.yielding.wait;
                    *wait = DOWN_WAIT.max(*wait);
                }
                self.waits.yielding.failed(now, self.changed);
            }
        }
        Some(self.go_back(now, lower.from, moved, lower.before))
    }

    fn judge_over_bursts(
        &mut self,
        now: Duration,
        reading: &Reading,
        mut trial: OverBursts,
        holdup: Holdup,
    ) -> Option<Decision> {
        let passed = now.saturating_sub(self.changed);
        trial.count(holdup);
        self.phase = Phase::Draining(trial);
        if let Holdup::Elsewhere(_) = holdup {
            self.held_up.note(now);
        }
        if self.held_up.lately(now, &self.meter) && trial.is_short(passed) {
            return None;
        }
        if trial.is_kept(passed, self.meter.bytes()) {
            self.usual.forget();
            return self.keep_fewer(now, reading, holdup);
        }
        self.waits.spare.failed(now, self.changed);
        let (moved, before) = trial.rates(passed, self.meter.bytes());
        Some(self.go_back(now, trial.from, moved, before))
    }

    fn keep_fewer(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        self.waits.explore.rest(now);
        self.consider(now, reading, holdup)
    }

    fn go_back(&mut self, now: Duration, from: u32, rate: f64, before: f64) -> Decision {
        self.phase = Phase::Holding;
        let words = compared((self.target, rate), (from, before));
        self.change(now, from, format!("{words}: back"))
    }

    fn change(&mut self, now: Duration, to: u32, reason: String) -> Decision {
        let decision = Decision {
            knob: Knob::Streams,
            from: self.target,
            to,
            reason,
        };
        self.target = to;
        self.changed = now;
        self.meter.restart();
        decision
    }
}
