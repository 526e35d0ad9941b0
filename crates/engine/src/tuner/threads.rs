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
mod tests {
    use super::*;
    use crate::tuner::world::Dice;

    const ANY: Bounds = Bounds { least: 0, most: 64 };

    /// Storage that each thread waits for, up to `parallel` of them at once. Returns the numbers over time.
    fn run(bounds: Bounds, wait_share: f64, parallel: u32, seconds: u32) -> Vec<u32> {
        let mut tuner = ThreadTuner::new(Knob::Readers, bounds);
        let mut sample = StageSample {
            streams: 2,
            ..StageSample::default()
        };
        let mut targets = Vec::new();
        for tick in 0..seconds * 5 {
            tuner.step(Duration::from_millis(u64::from(tick) * 200), &sample);
            let threads = (sample.streams + tuner.target()).min(parallel);
            sample.bytes += u64::from(threads) * 10_000_000;
            let passed = Duration::from_millis(200) * sample.streams;
            sample.storage += passed.mul_f64(wait_share);
            sample.processor += passed.mul_f64(0.1);
            targets.push(tuner.target());
        }
        targets
    }

    fn changes(targets: &[u32]) -> usize {
        targets.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    #[test]
    fn storage_with_latency_gets_threads_until_they_help_no_more() {
        for parallel in [4, 10, 30, 64] {
            let targets = run(ANY, 0.9, parallel, 120);
            let last = *targets.last().unwrap();
            assert!(
                last + 2 >= parallel * 4 / 5,
                "{last} where {parallel} are of use"
            );
            assert!(changes(&targets[300..]) <= 6, "{targets:?}");
        }
    }

    #[test]
    fn storage_that_is_not_waited_for_or_gives_no_more_gets_none() {
        assert_eq!(changes(&run(ANY, 0.3, 64, 60)), 0);
        let targets = run(ANY, 0.9, 2, 600);
        assert_eq!(*targets.last().unwrap(), 0);
        assert!(changes(&targets) <= 14, "{}", changes(&targets));
    }

    #[test]
    fn it_begins_with_the_least_and_says_so_and_goes_up_to_the_most() {
        let bounds = Bounds { least: 3, most: 7 };
        let begin = ThreadTuner::new(Knob::Writers, bounds).begin();
        assert_eq!(
            begin.map(|decision| decision.to_string()),
            Some("writers 0 -> 3: at least 3 were asked for".to_owned())
        );
        let targets = run(bounds, 0.9, 64, 120);
        assert_eq!((targets[0], targets.last()), (3, Some(&7)), "{targets:?}");
        // Where more do not help it comes back to the least.
        assert_eq!(run(bounds, 0.9, 2, 60).last(), Some(&3));
        assert_eq!(ThreadTuner::new(Knob::Readers, ANY).begin(), None);
    }

    #[test]
    fn a_number_that_was_given_stays_whatever_is_waited_for() {
        for count in [0, 1, 5] {
            let fixed = Bounds::fixed(count);
            assert_eq!(ThreadTuner::new(Knob::Readers, fixed).begin(), None);
            let targets = run(fixed, 0.9, 64, 60);
            assert!(targets.iter().all(|target| *target == count), "{targets:?}");
        }
    }

    #[test]
    fn each_decision_is_within_the_bounds_and_follows_from_the_last() {
        let mut decided = 0;
        for seed in 0..500 {
            let mut dice = Dice::new(seed);
            let least = dice.one_of(&[0, 0, 1, 2, 5, 16]);
            let bounds = Bounds {
                least,
                most: least + dice.one_of(&[1, 2, 7, 48]),
            };
            let mut tuner = ThreadTuner::new(Knob::Readers, bounds);
            let mut sample = StageSample::default();
            let mut target = tuner.begin().map_or(0, |decision| decision.to);
            assert_eq!(target, least);
            for tick in 0..600 {
                sample.streams = dice.one_of(&[0, 1, 2, 8]);
                sample.bytes += dice.one_of(&[0, 1_000_000, 20_000_000]);
                sample.storage += Duration::from_millis(dice.one_of(&[0, 200, 1600]));
                sample.processor += Duration::from_millis(dice.one_of(&[0, 20]));
                let now = Duration::from_millis(tick * 200);
                if let Some(decision) = tuner.step(now, &sample) {
                    assert_eq!(decision.from, target, "seed {seed}: {decision}");
                    assert_ne!(decision.to, target, "seed {seed}: {decision}");
                    target = decision.to;
                    decided += 1;
                }
                assert_eq!(tuner.target(), target, "seed {seed}");
                assert_eq!(bounds.hold(target), target, "seed {seed}: {bounds:?}");
            }
        }
        assert!(decided > 1000, "{decided}");
    }
}
