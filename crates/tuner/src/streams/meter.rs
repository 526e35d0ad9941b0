//! Measures the streams of one number in windows: when a window begins, its result, and the rate of the last seconds.
//! Does not judge.

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

/// Whether the measurements belong to the wanted number of streams.
#[derive(Debug)]
enum Stage {
    /// Streams are starting or ending; `astray` is since when the number differs, if it does.
    Starting { astray: Option<Duration> },
    /// The number is right, but some streams are still starting until then.
    Settling { until: Duration },
    /// All streams have been at full speed since then.
    Measuring { since: Duration, window: Window },
}

impl Default for Stage {
    fn default() -> Self {
        Self::Starting { astray: None }
    }
}

impl Meter {
    /// Called when the number of streams changes. Later measurements belong to the new number.
    pub(super) fn restart(&mut self) {
        self.stage = Stage::default();
        self.windows = 0;
    }

    /// Records that the number of streams differs from the wanted one. Returns the time since which it differs.
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

    /// Accepts the current number of streams.
    pub(super) fn accept(&mut self) {
        self.stage = Stage::default();
    }

    /// Processes a sample of the wanted number of streams. Returns the result of a window when the window ends.
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
        // Losses while streams start are caused by the streams, and are not counted.
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

    /// Stores the window for comparison with the next one. The window before a trial shows how long new streams take to
    /// start.
    pub(super) fn remember(&mut self, reading: &Reading) {
        self.last = Some(*reading);
    }

    /// Windows since the number of streams was changed.
    pub(super) const fn windows(&self) -> u32 {
        self.windows
    }

    /// Whether the rate still rises from window to window, or falls after a rise.
    pub(super) fn is_moving(&self, reading: &Reading) -> bool {
        self.last.is_none_or(|last| {
            reading.rate > RISING * last.rate || reading.rate < last.rate / RISING / RISING
        })
    }

    /// Time since which the measurements belong to this number of streams.
    pub(super) const fn settled(&self) -> Option<Duration> {
        match self.stage {
            Stage::Starting { .. } => None,
            Stage::Settling { until } => Some(until),
            Stage::Measuring { since, .. } => Some(since),
        }
    }

    /// The recent mean rate of this number of streams.
    pub(super) fn lately(&self, now: Duration) -> Option<f64> {
        let settled = self.settled()?;
        self.pace
            .mean_since(settled.max(now.saturating_sub(LATELY)))
    }

    /// The rate to compare a trial with, and the recent mean rate.
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

    /// Bytes that have been transferred.
    pub(super) fn bytes(&self) -> u64 {
        self.pace.bytes()
    }

    /// Losses so far; recent losses weigh most.
    pub(super) const fn losses(&self) -> Losses {
        self.losses
    }

    /// Restores the losses from before a trial, so that those of the trial do not count.
    pub(super) const fn restore_losses(&mut self, losses: Losses) {
        self.losses = losses;
    }
}
