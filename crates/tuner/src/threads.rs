//! The number of threads that read ahead of a sender's streams, or write for a receiver's; each end tunes its own.
//! Does not know which of the two it tunes but for the words, and starts no thread.
//!
//! Streams read and write for themselves, and on fast storage nothing is better. Threads beside them help where the streams' own
//! threads wait for storage while their connections idle: then the wait is shared by more. Where none is waited for any more, they go.

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff::Backoff;
use super::{Bounds, Decision, Knob, shown_rate};

/// What the threads of one end did; all grows.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageSample {
    /// Streams now.
    pub streams: u32,
    /// Content bytes read, or written.
    pub bytes: u64,
    /// Time of the streams' threads in storage, or waiting for those beside them.
    pub storage: Duration,
    /// Processor time of this end.
    pub processor: Duration,
}

/// Chooses the number of such threads.
#[derive(Debug)]
pub struct ThreadTuner {
    knob: Knob,
    bounds: Bounds,
    target: u32,
    window: Option<(Duration, StageSample)>,
    /// What the last windows moved, in bytes a second, the latest at the end; at most [`PAST`].
    rates: VecDeque<f64>,
    /// So many of them are of the number that there is now.
    settled: usize,
    /// Windows in a row, since the number changed, in which storage was waited for.
    waits: u32,
    /// Likewise, in which it was not.
    calm: usize,
    trial: Option<Trial>,
    /// The rate that fewer must keep, over a series of steps down, so that small losses do not add up.
    kept: Option<f64>,
    more: Backoff,
    fewer: Backoff,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    from: u32,
    before: f64,
    windows: u32,
    /// What the window before this one moved.
    last: f64,
}

/// Long enough for a batch to be made durable within it.
const WINDOW: Duration = Duration::from_secs(1);

/// Windows that a raise is judged by: a disk that takes a batch at once and syncs it in 2 to 4 s has shown its burst in them.
const PAST: usize = 8;

/// Storage is what is waited for when the streams' threads spend this share of their time there and not at work.
const WAITING: f64 = 0.4;

/// Below this share it is not waited for. Between the two nothing is tried.
const CALM: f64 = 0.2;

/// After so many windows of that in a row fewer are tried.
const CALM_WINDOWS: usize = 5;

/// More threads must win this much: they cost hand-overs.
const WIN: f64 = 1.1;

/// Fewer must leave this much, of what there was before the first of several steps down.
const KEPT: f64 = 0.95;

/// What grows by more than this over two windows grows by itself, and whatever was tried meanwhile would seem to win.
const STEADY: f64 = 1.03;

/// So many windows with one number tell that at least, and the last so many at most.
const STEADY_WINDOWS_LEAST: usize = 3;
const STEADY_WINDOWS_MOST: usize = 4;

const _: () = assert!(CALM_WINDOWS <= PAST && STEADY_WINDOWS_MOST <= PAST);

const MORE_WAIT: Duration = Duration::from_secs(15);
/// Where more have just won, half as many are known to be too few.
const FEWER_WAIT: Duration = Duration::from_secs(30);

impl ThreadTuner {
    /// Begins with the least that is allowed.
    pub fn new(knob: Knob, bounds: Bounds) -> Self {
        Self {
            knob,
            bounds,
            target: bounds.least,
            window: None,
            rates: VecDeque::with_capacity(PAST),
            settled: 0,
            waits: 0,
            calm: 0,
            trial: None,
            kept: None,
            more: Backoff::new(MORE_WAIT, Duration::ZERO),
            fewer: Backoff::new(FEWER_WAIT, Duration::ZERO),
        }
    }

    /// The decision with which it begins, where some were asked for in any case and the rest is left to it.
    pub fn begin(&self) -> Option<Decision> {
        let least = self.bounds.least;
        (least > 0 && !self.bounds.is_fixed()).then(|| Decision {
            knob: self.knob,
            from: 0,
            to: least,
            reason: format!("at least {least} were asked for"),
        })
    }

    /// How many there should be now.
    pub const fn target(&self) -> u32 {
        self.target
    }

    /// Takes a sample; to be called about once a second, with `now` since the transfer began.
    pub fn step(&mut self, now: Duration, sample: &StageSample) -> Option<Decision> {
        if self.bounds.is_fixed() {
            return None;
        }
        let Some((since, before)) = self.window else {
            self.window = Some((now, *sample));
            return None;
        };
        let passed = now.saturating_sub(since);
        if passed < WINDOW {
            return None;
        }
        self.window = Some((now, *sample));
        let seconds = passed.as_secs_f64();
        let rate = sample.bytes.saturating_sub(before.bytes) as f64 / seconds;
        let threads = f64::from(sample.streams.max(1)) * seconds;
        let storage = (sample.storage.saturating_sub(before.storage)).as_secs_f64() / threads;
        let work = (sample.processor.saturating_sub(before.processor)).as_secs_f64() / threads;
        let waiting = (storage - work).clamp(0.0, 1.0);
        self.count(rate, waiting);
        match self.trial {
            Some(trial) if self.target > trial.from => self.judge_more(now, rate, trial),
            Some(trial) => self.judge_fewer(now, rate, trial),
            None if self.waits >= 2 => self.try_more(now, rate, waiting),
            None if self.calm >= CALM_WINDOWS => self.try_fewer(now, waiting),
            None => None,
        }
    }

    fn count(&mut self, rate: f64, waiting: f64) {
        if self.rates.len() == PAST {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        self.settled = (self.settled + 1).min(PAST);
        let moves = rate > 0.0;
        self.waits = if moves && waiting >= WAITING {
            self.waits + 1
        } else {
            0
        };
        self.calm = if moves && waiting < CALM {
            self.calm + 1
        } else {
            0
        };
    }

    fn try_more(&mut self, now: Duration, rate: f64, waiting: f64) -> Option<Decision> {
        let to = self.bounds.hold((self.target * 2).max(2));
        if to == self.target || !self.more.is_over(now) || !self.is_steady() {
            return None;
        }
        // A disk may just be busy with what it took at once before.
        self.begin_trial(self.rates.iter().copied().fold(0.0, f64::max));
        let reason = format!(
            "the streams wait for storage {:.0} % of their time, at {}",
            100.0 * waiting,
            shown_rate(rate)
        );
        Some(self.change(to, reason))
    }

    /// Two windows in a row have to win: one may be luck. Where the first did not, threads that were only coming may be why.
    fn judge_more(&mut self, now: Duration, rate: f64, trial: Trial) -> Option<Decision> {
        let wins = |rate: f64| rate >= WIN * trial.before;
        let windows = trial.windows + 1;
        if wins(rate) && wins(trial.last) {
            self.trial = None;
            self.kept = None;
            self.more.forget(now);
            self.fewer.until = now + self.fewer.wait;
            return None;
        }
        if windows == 1 || (windows == 2 && wins(rate)) {
            self.go_on(rate, trial);
            return None;
        }
        self.more.failed(now, now);
        Some(self.go_back(rate, trial, "not worth it"))
    }

    fn try_fewer(&mut self, now: Duration, waiting: f64) -> Option<Decision> {
        let half = if self.target > 2 { self.target / 2 } else { 0 };
        let to = self.bounds.hold(half);
        if to == self.target || !self.fewer.is_over(now) {
            return None;
        }
        // All of them are of this number: a change begins to count anew.
        self.begin_trial(mean(self.rates.iter().rev().take(CALM_WINDOWS)));
        let reason = format!(
            "the streams wait for storage {:.0} % of their time; fewer may do",
            100.0 * waiting
        );
        Some(self.change(to, reason))
    }

    /// Fewer stay where they move as much, and storage is not waited for all the same.
    fn judge_fewer(&mut self, now: Duration, rate: f64, trial: Trial) -> Option<Decision> {
        if trial.windows == 0 {
            self.go_on(rate, trial);
            return None;
        }
        let moved = mean(&[trial.last, rate]);
        // Where clearly less moved just before than steps down may have left, there is less to move now.
        let least = KEPT * KEPT;
        let kept = self.kept.filter(|kept| trial.before >= least * kept);
        let before = kept.map_or(trial.before, |kept| kept.max(trial.before));
        if moved >= KEPT * before && self.waits == 0 {
            self.trial = None;
            self.kept = Some(before);
            self.fewer.won();
            self.more.forget(now);
            return None;
        }
        self.fewer.failed(now, now);
        // What there is to move may be less by itself: the next is not held to all that went through long ago.
        self.kept = self.kept.map(|kept| {
            if trial.before >= KEPT * kept {
                kept
            } else {
                mean(&[kept, trial.before])
            }
        });
        Some(self.go_back(moved, trial, "too few"))
    }

    /// Whether what goes through does not grow by itself, as far as is known by now.
    fn is_steady(&self) -> bool {
        if self.settled < STEADY_WINDOWS_LEAST {
            return false;
        }
        let count = self.settled.min(STEADY_WINDOWS_MOST);
        let half = count / 2;
        let latest = || self.rates.iter().rev().take(count);
        mean(latest().take(half)) <= STEADY * mean(latest().skip(count - half))
    }

    const fn begin_trial(&mut self, before: f64) {
        self.trial = Some(Trial {
            from: self.target,
            before,
            windows: 0,
            last: 0.0,
        });
    }

    const fn go_on(&mut self, rate: f64, trial: Trial) {
        self.trial = Some(Trial {
            windows: trial.windows + 1,
            last: rate,
            ..trial
        });
    }

    fn go_back(&mut self, rate: f64, trial: Trial, verdict: &str) -> Decision {
        self.trial = None;
        let reason = format!(
            "{} moved {} where {} had moved {}: {verdict}",
            self.target,
            shown_rate(rate),
            trial.from,
            shown_rate(trial.before)
        );
        self.change(trial.from, reason)
    }

    fn change(&mut self, to: u32, reason: String) -> Decision {
        let decision = Decision {
            knob: self.knob,
            from: self.target,
            to,
            reason,
        };
        self.target = to;
        // What is under way is still of the old number.
        self.window = None;
        self.settled = 0;
        self.waits = 0;
        self.calm = 0;
        decision
    }
}

/// Of one or more.
fn mean<'a>(rates: impl IntoIterator<Item = &'a f64>) -> f64 {
    let (sum, count) = rates
        .into_iter()
        .fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
    sum / count
}

#[cfg(test)]
mod tests;
