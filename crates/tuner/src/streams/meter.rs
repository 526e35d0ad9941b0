//! Owns the measuring windows of one number of streams: when they begin, what they say, and the rate of the last seconds.
//! Judges nothing.

use std::time::Duration;

use super::super::ChannelSample;
use super::super::pace::{Course, Pace};
use super::super::path::{Losses, Reading, Window};
use super::parameters::{LATELY, RISING, START_ROUND_TRIPS, WINDOW_MIN, WINDOW_ROUND_TRIPS};

/// Measures the streams of one channel.
#[derive(Debug, Default)]
pub(super) struct Meter {
    stage: Stage,
    /// Windows since the number of streams was changed.
    windows: u32,
    /// The window before, with the same number of streams.
    last: Option<Reading>,
    losses: Losses,
    pace: Pace,
}

/// Whether the figures are those of the wanted number of streams.
#[derive(Debug)]
enum Stage {
    /// Streams come or go: since when the number has been another one, if it has.
    Starting { astray: Option<Duration> },
    /// The streams are there, and some of them still start until then.
    Settling { until: Duration },
    /// All of them move what they can since then.
    Measuring { since: Duration, window: Window },
}

impl Default for Stage {
    fn default() -> Self {
        Self::Starting { astray: None }
    }
}

impl Meter {
    /// The number of streams changes. Later measurements belong to the new number.
    pub(super) fn restart(&mut self) {
        self.stage = Stage::default();
        self.windows = 0;
    }

    /// The number of streams differs from the wanted one. Returns since when.
    pub(super) fn note_astray(&mut self, now: Duration) -> Duration {
        let since = match self.stage {
            Stage::Starting {
                astray: Some(since),
            } => since,
            _ => now,
        };
        let astray = Some(since);
        self.stage = Stage::Starting { astray };
        since
    }

    /// The number of streams is accepted as it is.
    pub(super) fn accept(&mut self) {
        self.stage = Stage::default();
    }

    /// Takes a sample of the wanted number of streams. Returns what a window says when the window is over.
    pub(super) fn read(&mut self, now: Duration, sample: &ChannelSample) -> Option<Reading> {
        let round_trip = sample.round_trip.as_secs_f64();
        let since = match self.stage {
            Stage::Starting { .. } => {
                let round_trips = self
                    .last
                    .map_or(START_ROUND_TRIPS, |last| last.round_trips_to_start());
                let until = now + Duration::from_secs_f64(round_trips * round_trip);
                self.stage = Stage::Settling { until };
                return None;
            }
            Stage::Settling { until } if now < until => return None,
            Stage::Settling { until } => {
                self.pace.add(now, sample.bytes);
                let window = Window::new(now, sample);
                let since = until;
                self.stage = Stage::Measuring { since, window };
                return None;
            }
            Stage::Measuring { since, .. } => since,
        };
        self.pace.add(now, sample.bytes);
        let Stage::Measuring { window, .. } = &mut self.stage else {
            return None;
        };
        window.round_trips += sample.round_trip;
        window.samples += 1;
        let least = WINDOW_MIN.max(Duration::from_secs_f64(WINDOW_ROUND_TRIPS * round_trip));
        let passed = now.saturating_sub(window.since);
        if passed < least {
            return None;
        }
        let window = *window;
        // Losses while streams start are of the streams' making and are not counted.
        self.losses.add(&window.begin, sample, passed.as_secs_f64());
        let reading = Reading::between(
            &window.begin,
            sample,
            passed.as_secs_f64(),
            &self.losses,
            window.round_trips / window.samples,
        );
        let window = Window::new(now, sample);
        self.stage = Stage::Measuring { since, window };
        self.windows += 1;
        Some(reading)
    }

    /// Remembers the window before the next one. The window before a trial shows how long new streams take to start.
    pub(super) fn remember(&mut self, reading: &Reading) {
        self.last = Some(*reading);
    }

    /// Windows since the number of streams was changed.
    pub(super) const fn windows(&self) -> u32 {
        self.windows
    }

    /// Whether the rate still rises from window to window, or falls after its rise.
    pub(super) fn is_moving(&self, reading: &Reading) -> bool {
        self.last.is_none_or(|last| {
            reading.rate > RISING * last.rate || reading.rate < last.rate / RISING / RISING
        })
    }

    /// Since when the figures are those of this number of streams.
    pub(super) const fn settled(&self) -> Option<Duration> {
        match self.stage {
            Stage::Starting { .. } => None,
            Stage::Settling { until } => Some(until),
            Stage::Measuring { since, .. } => Some(since),
        }
    }

    /// The mean rate of this number of streams over the last moments.
    pub(super) fn lately(&self, now: Duration) -> Option<f64> {
        let settled = self.settled()?;
        self.pace
            .mean_since(settled.max(now.saturating_sub(LATELY)))
    }

    /// The rate to compare a trial with, and the mean rate of the last moments.
    pub(super) fn rates(&self, now: Duration, reading: &Reading) -> (f64, f64) {
        let mean = self.lately(now).unwrap_or(reading.rate);
        (reading.rate.min(mean), mean)
    }

    /// The rate that a trial has reached.
    pub(super) fn moved(&self, now: Duration, reading: &Reading) -> f64 {
        reading.rate.max(self.lately(now).unwrap_or(0.0))
    }

    /// Whether the transfer moves evenly or in bursts.
    pub(super) fn course(&self) -> Course {
        self.pace.course()
    }

    /// Bytes that have been moved.
    pub(super) fn bytes(&self) -> u64 {
        self.pace.bytes()
    }

    /// Losses so far; recent losses weigh most.
    pub(super) const fn losses(&self) -> Losses {
        self.losses
    }

    /// Losses that a trial made are forgotten with the trial.
    pub(super) const fn restore_losses(&mut self, losses: Losses) {
        self.losses = losses;
    }
}
