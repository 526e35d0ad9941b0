//! Chooses the number of threads that read ahead of a sender's streams, or write for a receiver's. Each end tunes its own number.
//! Distinguishes readers and writers only in the words of its reasons, and starts no threads.
//!
//! Streams read and write themselves, which is best on fast storage. Helper threads help if the streams' own threads wait for storage
//! while their connections idle, because then more threads share the wait. Without such waits the helpers are removed.

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff::Backoff;
use super::{Bounds, Decision, Knob, shown_rate};

/// Counters of the threads of one end. All except `streams` only grow.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageSample {
    /// Streams now.
    pub streams: u32,
    /// Content bytes read, or written.
    pub bytes: u64,
    /// Time that the streams' threads spent in storage, or waiting for helper threads.
    pub storage: Duration,
    /// Processor time of this end.
    pub processor: Duration,
}

/// Chooses the number of helper threads.
#[derive(Debug)]
pub struct ThreadTuner {
    knob: Knob,
    bounds: Bounds,
    target: u32,
    window: Option<(Duration, StageSample)>,
    /// Rates of the last windows in bytes a second, the latest last; at most [`PAST`].
    rates: VecDeque<f64>,
    /// Number of these windows with the current number of threads.
    settled: usize,
    /// Consecutive windows, since the last change, in which streams waited for storage.
    waits: u32,
    /// Consecutive windows in which streams did not wait for storage.
    calm: usize,
    trial: Option<Trial>,
    /// The rate that fewer threads must keep. It applies to a series of steps down, so that small losses do not add up.
    kept: Option<f64>,
    more: Backoff,
    fewer: Backoff,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    from: u32,
    before: f64,
    windows: u32,
    /// Rate of the previous window.
    last: f64,
}

/// Length of a window; long enough to make a batch durable within it.
const WINDOW: Duration = Duration::from_secs(1);

/// Windows by which a raise is judged. If a disk accepts a batch at once and syncs it in 2 to 4 s, these windows contain its burst.
const PAST: usize = 8;

/// Streams wait for storage if their threads spend this share of their time waiting instead of working.
const WAITING: f64 = 0.4;

/// Below this share streams do not wait for storage. Between the two shares no trial is made.
const CALM: f64 = 0.2;

/// Calm windows in a row after which fewer threads are tried.
const CALM_WINDOWS: usize = 5;

/// More threads must gain this factor, because they cost hand-overs.
const WIN: f64 = 1.1;

/// Fewer threads must keep this share of the rate before the first of several steps down.
const KEPT: f64 = 0.95;

/// A rate that grows by more than this factor over two windows grows even without a trial. A trial at that time would always seem to
/// succeed.
const STEADY: f64 = 1.03;

/// Fewest and most windows of one number of threads that show whether the rate is steady.
const STEADY_WINDOWS_LEAST: usize = 3;
const STEADY_WINDOWS_MOST: usize = 4;

const _: () = assert!(CALM_WINDOWS <= PAST && STEADY_WINDOWS_MOST <= PAST);

const MORE_WAIT: Duration = Duration::from_secs(15);
/// Wait after a successful raise: half as many threads are known to be too few.
const FEWER_WAIT: Duration = Duration::from_secs(30);

impl ThreadTuner {
    /// Begins with the lowest allowed number.
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

    /// The first decision, if the user requested a minimum and lets the tuner choose the rest.
    pub fn begin(&self) -> Option<Decision> {
        let least = self.bounds.least;
        (least > 0 && !self.bounds.is_fixed()).then(|| Decision {
            knob: self.knob,
            from: 0,
            to: least,
            reason: format!("at least {least} were requested"),
        })
    }

    /// The current target number of threads.
    pub const fn target(&self) -> u32 {
        self.target
    }

    /// Processes a sample. Call this about once a second; `now` is the time since the transfer began.
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
        // The disk may still be busy with bytes that it accepted at once before.
        self.begin_trial(self.rates.iter().copied().fold(0.0, f64::max));
        let reason = format!(
            "the streams wait for storage {:.0} % of their time, at {}",
            100.0 * waiting,
            shown_rate(rate)
        );
        Some(self.change(to, reason))
    }

    /// Judges more threads. Two windows in a row must be faster, because one may be luck. Threads that are still starting may spoil the
    /// first.
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
        // All windows have the current number, because the series of steps down starts here.
        self.begin_trial(mean(self.rates.iter().rev().take(CALM_WINDOWS)));
        let reason = format!(
            "the streams wait for storage {:.0} % of their time; fewer may do",
            100.0 * waiting
        );
        Some(self.change(to, reason))
    }

    /// Judges fewer threads. They are kept if they are as fast and streams still do not wait for storage.
    fn judge_fewer(&mut self, now: Duration, rate: f64, trial: Trial) -> Option<Decision> {
        if trial.windows == 0 {
            self.go_on(rate, trial);
            return None;
        }
        let moved = mean(&[trial.last, rate]);
        // If the rate just before was clearly lower than steps down explain, less data is available now.
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
        // Less data may be available now, so the next step is not compared with an old rate.
        self.kept = self.kept.map(|kept| {
            if trial.before >= KEPT * kept {
                kept
            } else {
                mean(&[kept, trial.before])
            }
        });
        Some(self.go_back(moved, trial, "too few"))
    }

    /// Whether the rate is known to be steady without a trial.
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
        // Bytes in flight still belong to the old number.
        self.window = None;
        self.settled = 0;
        self.waits = 0;
        self.calm = 0;
        decision
    }
}

/// The mean of one or more rates.
fn mean<'a>(rates: impl IntoIterator<Item = &'a f64>) -> f64 {
    let (sum, count) = rates
        .into_iter()
        .fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
    sum / count
}

#[cfg(test)]
mod tests;
