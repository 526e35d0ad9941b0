//! Judges a trial of fewer streams: by the rate, or by the fair share in a queue that others use too. Does not begin trials or change
//! the number.

use std::time::Duration;

use super::super::path::{Reading, Room};
use super::meter::Meter;
use super::parameters::{ALONE_FOR, KEPT, KEPT_ALONE};

/// The reason for a trial of fewer streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// There is a standing queue: other transfers may need the bandwidth of these streams.
    Queue,
    /// Fewer streams may be as fast.
    Spare,
}

/// A trial of fewer streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lower {
    /// The number of streams before the trial.
    pub(super) from: u32,
    /// The rate before the trial.
    pub(super) before: f64,
    /// The rate before a series of such trials, so that small losses do not add up.
    pub(super) series: f64,
    /// The mean rate just before the trial.
    pub(super) mean: f64,
    /// The reason for the trial.
    pub(super) why: Why,
}

/// The result of a trial of fewer streams so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Lowered {
    /// The next window decides.
    GoOn,
    /// Fewer streams are as fast.
    Keep,
    /// Fewer streams keep their share of a queue that other transfers use, and the others get the rest.
    Shared,
    /// Fewer streams are not enough.
    Back,
}

impl Lower {
    /// Judges `to` streams, which transferred `moved` bytes a second.
    pub(super) fn judge(
        &self,
        now: Duration,
        (to, moved): (u32, f64),
        reading: &Reading,
        meter: &Meter,
    ) -> Lowered {
        let room = reading.room();
        let is_queued = room == Room::None;
        // The queue is gone and windows limit the streams, so the streams leave a part of the link unused. That part is a few
        // hundredths, less than the difference between two windows, so means are compared.
        let is_alone = self.why == Why::Queue && room == Room::Windows;
        let mut is_kept = moved >= KEPT * self.series;
        if is_kept && is_alone {
            if meter.settled().is_none_or(|then| now < then + ALONE_FOR) {
                return Lowered::GoOn;
            }
            is_kept = meter.lately(now).unwrap_or(0.0) >= KEPT_ALONE * self.mean;
        }
        // The queue is still there, so other transfers took the released bandwidth. They are entitled to it if we had half of the link
        // or more. A part of the streams then keeps this share, because the others have as many as before.
        let part = f64::from(to) / f64::from(self.from);
        if is_queued && moved >= self.before * 2.0 * part / (1.0 + part) {
            return Lowered::Shared;
        }
        if is_kept {
            return Lowered::Keep;
        }
        if meter.windows() == 1 {
            return Lowered::GoOn;
        }
        Lowered::Back
    }
}
