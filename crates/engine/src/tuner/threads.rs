//! The number of threads that read ahead of a sender's streams, or write for a receiver's; each end tunes its own.
//! Does not know which of the two it tunes but for the words, and starts no thread.
//!
//! Streams read and write for themselves, and on fast storage nothing is better. Threads beside them help where the streams' own
//! threads wait for storage while their connections idle: then the wait is shared by more.

use std::time::Duration;

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
    /// Windows in a row in which storage was waited for.
    waits: u32,
    trial: Option<Trial>,
    hold_until: Duration,
    wait: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    from: u32,
    before: f64,
    windows: u32,
}

/// Long enough for a batch to be made durable within it.
const WINDOW: Duration = Duration::from_secs(1);

/// Storage is what is waited for when the streams' threads spend this share of their time there and not at work.
const WAITING: f64 = 0.4;

/// More threads must win this much: they cost hand-overs.
const WIN: f64 = 1.1;

const WAIT_FIRST: Duration = Duration::from_secs(15);
const WAIT_MAX: Duration = Duration::from_secs(300);

impl ThreadTuner {
    /// Begins with the least that is allowed.
    pub fn new(knob: Knob, bounds: Bounds) -> Self {
        Self {
            knob,
            bounds,
            target: bounds.least,
            window: None,
            waits: 0,
            trial: None,
            hold_until: Duration::ZERO,
            wait: WAIT_FIRST,
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
        if let Some(trial) = self.trial {
            return self.judge(now, rate, trial);
        }
        let threads = f64::from(sample.streams.max(1)) * seconds;
        let storage = (sample.storage.saturating_sub(before.storage)).as_secs_f64() / threads;
        let work = (sample.processor.saturating_sub(before.processor)).as_secs_f64() / threads;
        let waiting = (storage - work).max(0.0);
        self.waits = if waiting >= WAITING && rate > 0.0 {
            self.waits + 1
        } else {
            0
        };
        if self.waits < 2 || now < self.hold_until {
            return None;
        }
        let to = self.bounds.hold((self.target * 2).max(2));
        if to == self.target {
            return None;
        }
        self.trial = Some(Trial {
            from: self.target,
            before: rate,
            windows: 0,
        });
        let reason = format!(
            "the streams wait for storage {:.0} % of their time, at {}",
            100.0 * waiting.min(1.0),
            shown_rate(rate)
        );
        Some(self.change(to, reason))
    }

    fn judge(&mut self, now: Duration, rate: f64, mut trial: Trial) -> Option<Decision> {
        trial.windows += 1;
        self.trial = Some(trial);
        if rate >= WIN * trial.before {
            // One window may be luck: the next raise starts from what this one settles at.
            self.trial = None;
            self.waits = 0;
            self.wait = WAIT_FIRST;
            return None;
        }
        if trial.windows < 2 {
            return None;
        }
        self.trial = None;
        self.waits = 0;
        self.hold_until = now + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        let reason = format!(
            "{} moved {} where {} had moved {}: not worth it",
            self.target,
            shown_rate(rate),
            trial.from,
            shown_rate(trial.before)
        );
        Some(self.change(trial.from, reason))
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
        decision
    }
}

#[cfg(test)]
mod tests;
