//! The number of streams of one channel: tries more where there is room, fewer where they are for nothing, and keeps what wins.
//! Does not find out what holds a stream up (`path`), and starts or ends no stream.
//!
//! Gradual adaptation after Balman and Kosar: raise the number, compare the total, keep it only if it wins. Two things are
//! added. A raise is tried where the kernels' figures say that there is room, so it may be large, and none is tried where a queue
//! stands. And it must win at least half of what it would win on an empty link: streams added to a full one take from others,
//! and by that measure they win less than half as soon as ours have half of it. So two copies meet in the middle.

mod fewer;
mod more;
mod usual;

use std::time::Duration;

use self::fewer::Why;
use super::backoff::Backoff;
use super::pace::{Bursts, Pace};
use super::path::{Losses, Reading, Room, SHORT, START_MAX, Window};
use super::{Bounds, ChannelSample, Decision, Holdup, Knob, shown_rate, whole};

/// Chooses the number of streams of one channel.
#[derive(Debug)]
pub struct StreamTuner {
    bounds: Bounds,
    /// Fewer than this are not tried.
    floor: u32,
    target: u32,
    /// When the target was changed last.
    changed: Duration,
    /// From when on what is measured is that of the target; none while streams come or go.
    settled: Option<Duration>,
    /// The beginning of the window being measured.
    window: Option<Window>,
    losses: Losses,
    /// The window before, with the same number.
    last: Option<Reading>,
    /// Windows since the number was settled.
    windows: u32,
    trial: Option<Trial>,
    /// Since when there have been other numbers of streams than meant.
    astray: Option<Duration>,
    /// When more may be tried on evidence, when without any, when fewer, when fewer where a disk takes bursts, and when for a queue.
    up: Backoff,
    explore: Backoff,
    down: Backoff,
    spare: Backoff,
    yielding: Backoff,
    /// What went through lately.
    pace: Pace,
    /// The rate that fewer must keep, over a series of steps down, so that small losses do not add up.
    kept: Option<f64>,
    /// No more than this come about, and until when that is taken for granted.
    refused: Option<u32>,
    more: Backoff,
    /// So many had a queue on the way, or little fewer won nothing by being more: for windows no more than that, then little more.
    filled_by: Option<u32>,
    /// Windows in a row in which something else held the transfer up.
    elsewhere: u32,
    /// When it last did, for more than a moment.
    held_up: Option<Duration>,
    /// The most that was moved in a window since the way was last found to be narrower.
    peak: f64,
    /// The rate in steady state, of how many windows, and since when it has been far from that.
    usual: Option<f64>,
    usual_windows: u32,
    usual_since: Duration,
    unusual: Option<Duration>,
    /// When it was last about that, and when nothing moved.
    usually: Option<Duration>,
    still: Option<Duration>,
    /// Windows in which it was clearly less and a queue stood, since it was not.
    crowded: u32,
}

/// A change that is being tried.
#[derive(Debug, Clone, Copy)]
struct Trial {
    from: u32,
    /// The total before it.
    before: f64,
    /// The mean of what went through just before.
    mean: f64,
    /// The number of a trial of more and what it moved, where this is the part of it that should be enough.
    more_moved: Option<(u32, f64)>,
    /// What was known of losses: those that the trial itself made are forgotten with it.
    losses: Losses,
    /// Those of its own windows.
    own_losses: Losses,
    /// Losses alone held the streams up.
    for_losses: bool,
    /// Of one of fewer.
    why: Why,
    /// Where it is to be judged over them, and the bytes that had gone through when it began.
    bursts: Option<Bursts>,
    bytes: u64,
    /// Windows of it so far, and how many of them something else held up.
    windows: u32,
    held_up: u32,
}

/// A window is at least this long, and at least four round trips: less is noise.
const WINDOW_MIN: Duration = Duration::from_millis(300);
const WINDOW_ROUND_TRIPS: f64 = 4.0;
/// Round trips that the first streams have to start, when nothing is known yet.
const START_ROUND_TRIPS: f64 = 8.0;

/// No more streams are tried for so long after something else held the transfer up, and for so long where it goes on in bursts.
const HELD_UP_FOR: Duration = Duration::from_secs(4);
const HELD_UP_FOR_BURSTS: Duration = Duration::from_secs(16);

/// Where losses or a congestion control that tries to and fro make one window differ from the next by a tenth and more, a trial
/// is judged by the mean of this time too: else what was a good moment before it would not be reached again.
const LATELY: Duration = Duration::from_secs(2);

/// While the total still rises by more than this from window to window, a trial is looked on at …
const RISING: f64 = 1.1;
/// … for so many windows at most.
const TRIAL_WINDOWS_MAX: u32 = 4;

/// Fewer streams must keep this share of the total.
const KEPT: f64 = 0.95;

/// If so many times as much went through before, the streams have been held down since.
const FALLEN: f64 = 1.2;

/// First waiting times after a trial for nothing; each doubles up to [`WAIT_MAX`](super::backoff::WAIT_MAX).
const UP_WAIT: Duration = Duration::from_secs(2);
const EXPLORE_WAIT: Duration = Duration::from_secs(20);
const DOWN_WAIT: Duration = Duration::from_secs(20);
/// Where others keep up the queue, what a trial shows depends on what they try at that moment, more than on the number.
const YIELD_WAIT: Duration = Duration::from_secs(4);
const MORE_WAIT: Duration = Duration::from_secs(15);

/// No stream is tried on no evidence before this time.
const EXPLORE_FIRST: Duration = Duration::from_secs(3);

/// Without a queue to be seen, fewer are tried only after so long without any change.
const FEWER_AFTER: Duration = Duration::from_secs(30);

/// No more than this are tried on none: who shares a way that is full wins by streams, and that is no reason to have them.
const EXPLORE_MOST: u32 = 8;

/// Streams that are to come or go have this long, and some round trips more.
const PATIENCE: Duration = Duration::from_secs(5);

impl StreamTuner {
    /// Begins with `streams`.
    pub fn new(bounds: Bounds, streams: u32) -> Self {
        let target = bounds.hold(streams);
        Self {
            bounds,
            floor: bounds.hold(target.min(2)),
            target,
            changed: Duration::ZERO,
            settled: None,
            window: None,
            losses: Losses::default(),
            last: None,
            windows: 0,
            trial: None,
            astray: None,
            up: Backoff::new(UP_WAIT, Duration::ZERO),
            explore: Backoff::new(EXPLORE_WAIT, EXPLORE_FIRST),
            down: Backoff::new(DOWN_WAIT, Duration::ZERO),
            spare: Backoff::new(DOWN_WAIT, Duration::ZERO),
            yielding: Backoff::new(YIELD_WAIT, Duration::ZERO),
            pace: Pace::default(),
            kept: None,
            refused: None,
            more: Backoff::new(MORE_WAIT, Duration::ZERO),
            filled_by: None,
            elsewhere: 0,
            held_up: None,
            peak: 0.0,
            usual: None,
            usual_windows: 0,
            usual_since: Duration::ZERO,
            unusual: None,
            usually: None,
            still: None,
            crowded: 0,
        }
    }

    /// How many streams there should be now.
    pub const fn target(&self) -> u32 {
        self.target
    }

    /// Other bounds from now on: channels or transfers came or went, and have their part.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.floor = bounds.hold(self.floor);
    }

    /// Takes a sample; to be called some times a second, with `now` since the transfer began. What it decides is the
    /// [`target`](Self::target) from then on.
    pub fn step(
        &mut self,
        now: Duration,
        sample: &ChannelSample,
        holdup: Holdup,
    ) -> Option<Decision> {
        let allowed = self.bounds.hold(self.target);
        if allowed != self.target {
            self.trial = None;
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
        self.astray = None;
        let round_trip = sample.round_trip.as_secs_f64();
        let Some(settled) = self.settled else {
            let round_trips = self
                .last
                .map_or(START_ROUND_TRIPS, |last| last.round_trips_to_start());
            self.settled = Some(now + Duration::from_secs_f64(round_trips * round_trip));
            return None;
        };
        if now < settled {
            return None;
        }
        self.pace.add(now, sample.bytes);
        let Some(window) = &mut self.window else {
            self.window = Some(Window::new(now, sample));
            return None;
        };
        window.round_trips += sample.round_trip;
        window.samples += 1;
        let least = WINDOW_MIN.max(Duration::from_secs_f64(WINDOW_ROUND_TRIPS * round_trip));
        let passed = now.saturating_sub(window.since);
        if passed < least {
            return None;
        }
        // Those of streams that only start are of their own making, and not counted.
        self.losses.add(&window.begin, sample, passed.as_secs_f64());
        if let Some(trial) = &mut self.trial {
            trial.own_losses.add(&window.begin, sample, 0.0);
        }
        let reading = Reading::between(
            &window.begin,
            sample,
            passed.as_secs_f64(),
            &self.losses,
            window.round_trips / window.samples,
        );
        self.window = Some(Window::new(now, sample));
        self.windows += 1;
        self.notice_standstill(now, &reading);
        let decision = self.judge(now, &reading, holdup);
        if decision.is_none() {
            self.last = Some(reading);
        }
        decision
    }

    /// Streams come, go, or were lost.
    fn wait_for_streams(&mut self, now: Duration, sample: &ChannelSample) -> Option<Decision> {
        self.settled = None;
        self.window = None;
        let patience = PATIENCE + sample.round_trip * 10;
        let astray = *self.astray.get_or_insert(now);
        if now.saturating_sub(astray) < patience {
            return None;
        }
        match self.trial {
            Some(_) if sample.streams > self.target => None,
            Some(trial) if trial.from < self.target => {
                // The other end takes no more, or the network does not let them through; for now, for it may have been away.
                let to = self.bounds.hold(sample.streams.max(trial.from));
                self.refused = Some(to);
                self.more.failed(now, self.changed);
                self.trial = None;
                (to != self.target).then(|| self.change(now, to, "no more come about".to_owned()))
            }
            _ if sample.streams == 0 => None,
            _ => {
                // They are not replaced, or do not go: it goes on from those that there are.
                self.trial = None;
                self.target = self.bounds.hold(sample.streams);
                self.astray = None;
                None
            }
        }
    }

    fn judge(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        match self.trial {
            Some(trial) if trial.from < self.target => self.judge_more(now, reading, trial, holdup),
            Some(trial) => self.judge_fewer(now, reading, trial, holdup),
            None => {
                self.notice_change(now, reading);
                self.consider(now, reading, holdup)
            }
        }
    }

    fn is_rising(&self, reading: &Reading) -> bool {
        self.last
            .is_none_or(|last| reading.rate > RISING * last.rate)
    }

    /// Nothing is being tried: should something be?
    fn consider(&mut self, now: Duration, reading: &Reading, holdup: Holdup) -> Option<Decision> {
        if let Holdup::Elsewhere(what) = holdup {
            self.elsewhere += 1;
            if self.elsewhere < 2 {
                return None;
            }
            self.held_up = Some(now);
            return self.try_fewer_elsewhere(now, reading, what);
        }
        self.elsewhere = 0;
        if self.was_held_up(now) || reading.stands_still() {
            return None;
        }
        let room = reading.room();
        let may_be_pause = self.may_be_pause(now, reading, room);
        // While streams start the figures are of that.
        let moving = self.last.is_none_or(|last| {
            reading.rate > RISING * last.rate || reading.rate < last.rate / RISING / RISING
        });
        if moving && self.windows < TRIAL_WINDOWS_MAX && !reading.has_full_buffers() {
            return None;
        }
        if holdup == Holdup::Threads {
            if !self.up.is_over(now) || may_be_pause {
                return None;
            }
            let words = "each keeps a processor busy, and there are idle ones".to_owned();
            return self.try_more(now, reading, self.target * 2, words);
        }
        self.filled_by = match room {
            Room::None => Some(self.target),
            _ => self.filled_by.filter(|most| *most >= self.target),
        };
        if room == Room::None {
            // It is full with this: what went through before others came is no sign that the streams are held down.
            self.peak = reading.rate;
        }
        if may_be_pause {
            return None;
        }
        let factor: f64 = match room {
            Room::None => return self.try_fewer(now, reading, &reading.words(), Why::Queue),
            Room::Windows if self.target <= 2 => 4.0,
            Room::Windows if self.target <= START_MAX => 3.0,
            Room::Losses if self.target <= 8 => 4.0,
            Room::Windows => 1.5,
            Room::Losses => 2.0,
            Room::Unknown => 1.0,
        };
        // There none is tried for windows or losses either.
        if reading.round_trip_min() < SHORT {
            return None;
        }
        if self.up.is_over(now) {
            // More went through before, and no queue says that it would not now.
            let fallen = self.peak / reading.rate.max(1.0);
            let (factor, words) = if fallen > FALLEN {
                let before = shown_rate(self.peak);
                let words = format!("{}, and {before} went through before", reading.words());
                (factor.max((1.05 * fallen).min(4.0)), words)
            } else {
                (factor, reading.words())
            };
            if factor > 1.0 {
                let to = whole(f64::from(self.target) * factor);
                let most = self.filled_by.filter(|_| room == Room::Windows);
                let next = next_to(self.target);
                let most = most.map_or(to, |most| if most > self.target { most } else { next });
                // There may be no more to try, and then fewer may do.
                let decision = self.try_more(now, reading, to.min(most), words);
                if decision.is_some() {
                    return decision;
                }
            }
        }
        if room != Room::Unknown {
            return None;
        }
        if self.explore.is_over(now) && self.target * 2 <= EXPLORE_MOST {
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

    /// What went through on average since there have been so many streams, and not longer ago than a window's noise asks for.
    fn lately(&self, now: Duration) -> Option<f64> {
        let settled = self.settled?;
        self.pace
            .mean_since(settled.max(now.saturating_sub(LATELY)))
    }

    fn begin_trial(&mut self, now: Duration, reading: &Reading, bursts: Option<Bursts>, why: Why) {
        let mean = self.lately(now).unwrap_or(reading.rate);
        self.trial = Some(Trial {
            from: self.target,
            before: reading.rate.min(mean),
            mean,
            more_moved: None,
            losses: self.losses,
            own_losses: Losses::default(),
            for_losses: reading.room() == Room::Losses,
            why,
            bursts,
            bytes: self.pace.bytes(),
            windows: 0,
            held_up: 0,
        });
        // It tells how long new streams take to start.
        self.last = Some(*reading);
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
        self.settled = None;
        self.window = None;
        self.windows = 0;
        decision
    }
}

/// A small step up.
const fn next_to(streams: u32) -> u32 {
    streams.saturating_add(streams.div_ceil(4))
}
