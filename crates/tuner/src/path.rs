//! Reads from the samples of a channel what holds its streams up: their windows, loss, a full queue, or nothing to be seen.
//! Decides nothing but with how many streams a transfer begins.

use std::time::Duration;

use super::{Bounds, ChannelSample, shown_bytes, shown_rate, shown_time, whole};

/// What is known of a channel before anything has moved on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path {
    /// The round trip of the first connection.
    pub round_trip: Duration,
    /// The most that the kernel buffers for one connection, as configured; 0 if that is not known.
    pub buffer_bytes: u64,
    /// The user's limit, content bytes a second; 0 for none.
    pub limit: u64,
}

/// With how many streams to begin, and why, if it is not the usual number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Streams.
    pub streams: u32,
    /// Why, where it is more than usual.
    pub reason: Option<String>,
}

/// Streams to begin with where their windows suffice. On two cores and a short path, one and four are slower (docs/decisions/threads.md).
const USUAL: u32 = 2;

/// What the windows of the first streams shall hold together: 1 Gbit/s. A faster link shows in that they remain full.
const ASSUMED_BYTES_PER_SECOND: f64 = 125e6;

/// The most streams to begin with: who needs more has that confirmed by measuring first.
pub(super) const START_MAX: u32 = 16;

/// The share of a kernel buffer that carries payload; the rest is what the kernel needs to keep it.
const PAYLOAD_SHARE: f64 = 0.5;

/// Computes the number of streams to begin with: as many as have windows for a round trip's worth of data.
pub fn start(path: &Path, bounds: Bounds) -> Start {
    let usual = bounds.hold(USUAL);
    if bounds.is_fixed() || path.buffer_bytes == 0 || path.round_trip.is_zero() {
        return Start {
            streams: usual,
            reason: None,
        };
    }
    let wanted = match path.limit {
        0 => ASSUMED_BYTES_PER_SECOND,
        limit => ASSUMED_BYTES_PER_SECOND.min(limit as f64),
    };
    let window = path.buffer_bytes as f64 * PAYLOAD_SHARE;
    let needed = (wanted * path.round_trip.as_secs_f64() / window).ceil();
    let streams = bounds.hold(whole(needed).clamp(USUAL, START_MAX));
    let reason = (streams > usual).then(|| {
        format!(
            "a buffer of {} lets one stream move {} at a round trip of {}; this many make {}",
            shown_bytes(path.buffer_bytes),
            shown_rate(window / path.round_trip.as_secs_f64()),
            shown_time(path.round_trip),
            shown_rate(f64::from(streams) * window / path.round_trip.as_secs_f64()),
        )
    });
    Start { streams, reason }
}

/// A time over which is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) since: Duration,
    pub(super) begin: ChannelSample,
    /// Sum of the round trips of its samples, and their number.
    pub(super) round_trips: Duration,
    pub(super) samples: u32,
}

impl Window {
    pub(super) const fn new(now: Duration, sample: &ChannelSample) -> Self {
        Self {
            since: now,
            begin: *sample,
            round_trips: Duration::ZERO,
            samples: 0,
        }
    }
}

/// What one measuring window says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) streams: u32,
    /// Bytes a second of all streams.
    pub(super) rate: f64,
    /// Share of segments sent again, over a longer time than the window.
    loss: f64,
    /// Share of the senders' time held up by the receivers' windows, by their own buffers.
    window_share: f64,
    buffer_share: f64,
    round_trip: Duration,
    round_trip_min: Duration,
    segment_bytes: f64,
}

/// Losses are rare events: they are counted over a longer time, of which the beginning counts less and less.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    segments: f64,
    retransmitted: f64,
}

/// In this time what was counted loses two thirds of its weight.
const LOSSES_SECONDS: f64 = 15.0;

impl Losses {
    pub(super) fn add(&mut self, before: &ChannelSample, after: &ChannelSample, seconds: f64) {
        let keep = (-seconds / LOSSES_SECONDS).exp();
        let segments = after.segments.saturating_sub(before.segments);
        let retransmitted = after.retransmitted.saturating_sub(before.retransmitted);
        self.segments = self.segments * keep + segments as f64;
        self.retransmitted = self.retransmitted * keep + retransmitted as f64;
    }

    fn share(&self) -> f64 {
        // What is left of the last loss never becomes nothing by itself, and would be a sign for hours.
        if self.segments < 1.0 || self.retransmitted < 0.5 {
            return 0.0;
        }
        (self.retransmitted / self.segments).min(1.0)
    }
}

/// What the reading says about room for more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Room {
    /// Each stream is held up by a window, and the way is not full.
    Windows,
    /// Each stream is held up by losses, and the queue is empty: others do not feel full either.
    Losses,
    /// A queue stands before the narrowest place: it is full, with us or with others.
    None,
    /// Nothing to be seen.
    Unknown,
}

impl Reading {
    /// The difference of two samples `seconds` apart; `losses` is of them and what was before, `round_trip` a mean.
    pub(super) fn between(
        before: &ChannelSample,
        after: &ChannelSample,
        seconds: f64,
        losses: &Losses,
        round_trip: Duration,
    ) -> Self {
        let busy = after.busy.saturating_sub(before.busy).as_secs_f64();
        let share = |before: Duration, after: Duration| {
            if busy > 0.0 {
                after.saturating_sub(before).as_secs_f64() / busy
            } else {
                0.0
            }
        };
        Self {
            streams: after.streams,
            rate: after.bytes.saturating_sub(before.bytes) as f64 / seconds.max(1e-6),
            loss: losses.share(),
            window_share: share(before.window_limited, after.window_limited),
            buffer_share: share(before.buffer_limited, after.buffer_limited),
            round_trip,
            round_trip_min: after.round_trip_min,
            segment_bytes: f64::from(after.segment_bytes.max(500)),
        }
    }

    fn per_stream(&self) -> f64 {
        self.rate / f64::from(self.streams.max(1))
    }

    /// Time in the queue, as a share of the shortest round trip.
    fn queueing(&self) -> f64 {
        let least = self.round_trip_min.as_secs_f64();
        if least <= 0.0 {
            return 0.0;
        }
        (self.round_trip.as_secs_f64() - least).max(0.0) / least
    }

    /// Nothing moves, or next to it: no congestion control sends so little, and if it does it waits to send again.
    pub(super) fn stands_still(&self) -> bool {
        self.per_stream() < STILL_SEGMENTS * self.segment_bytes
    }

    /// What a stream of the usual kinds can move at this loss, the better of Reno's and CUBIC's law, in bytes a second.
    fn loss_bound(&self) -> f64 {
        let round_trip = self.round_trip.as_secs_f64().max(1e-4);
        let reno = 1.22 / self.loss.sqrt();
        let cubic = 1.054 * (round_trip / self.loss).powf(0.75);
        reno.max(cubic) * self.segment_bytes / round_trip
    }

    pub(super) fn room(&self) -> Room {
        // What the hosts add to a short round trip is no queue that others stand in.
        if self.round_trip_min >= SHORT && self.queueing() >= QUEUE_STANDS {
            return Room::None;
        }
        if self.window_share + self.buffer_share >= HELD_UP {
            return Room::Windows;
        }
        // A kind of TCP that does not mind losses moves far more than the law says: losses do not hold it up.
        if self.loss > 0.0 && self.per_stream() <= LAW_SLACK * self.loss_bound() {
            return Room::Losses;
        }
        Room::Unknown
    }

    /// The streams have as much on its way as their buffers hold: what they move they will not exceed, however young they are.
    /// A receiver's window says less, for it grows behind a stream that starts.
    pub(super) fn has_full_buffers(&self) -> bool {
        self.buffer_share >= HELD_UP
    }

    /// What holds the streams up, for people.
    pub(super) fn words(&self) -> String {
        let each = shown_rate(self.per_stream());
        let at = shown_time(self.round_trip);
        match self.room() {
            Room::Windows if self.buffer_share >= self.window_share => format!(
                "each is held up by its send buffer {:.0} % of the time, at {each} and a round trip of {at}",
                100.0 * self.buffer_share
            ),
            Room::Windows => format!(
                "each is held up by the receiver's window {:.0} % of the time, at {each} and a round trip of {at}",
                100.0 * self.window_share
            ),
            Room::Losses => format!(
                "each is held down to {each} by losses ({:.3} % of segments) at a round trip of {at}, and no queue stands",
                100.0 * self.loss
            ),
            Room::None => format!(
                "a queue of {} stands on the way",
                shown_time(self.round_trip.saturating_sub(self.round_trip_min))
            ),
            Room::Unknown => format!("each moves {each} at a round trip of {at}"),
        }
    }

    pub(super) fn round_trip_min(&self) -> Duration {
        self.round_trip_min
    }

    /// Round trips until a new stream moves as much as these do: slow start, from ten segments.
    pub(super) fn round_trips_to_start(&self) -> f64 {
        let window = self.per_stream() * self.round_trip.as_secs_f64();
        let doublings = (window / (10.0 * self.segment_bytes)).max(1.0).log2();
        doublings + 2.0
    }
}

/// Below this round trip the processors limit (docs/decisions/threads.md).
pub(super) const SHORT: Duration = Duration::from_millis(2);

/// A queue that makes the round trip longer by a quarter is a standing one; what processors and schedulers add is below that
/// on a way long enough to matter.
const QUEUE_STANDS: f64 = 0.25;

/// Segments a second of a stream: the least window is two of them, and a round trip no second.
const STILL_SEGMENTS: f64 = 3.0;

/// Held up for so much of the time, a stream has no other limit worth speaking of.
const HELD_UP: f64 = 0.3;

/// The laws are means over a long time, and the loss is counted over a short one.
const LAW_SLACK: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(round_trip_ms: u64, buffer_bytes: u64, limit: u64) -> u32 {
        let path = Path {
            round_trip: Duration::from_millis(round_trip_ms),
            buffer_bytes,
            limit,
        };
        start(&path, Bounds::STREAMS).streams
    }

    #[test]
    fn a_start_makes_up_for_small_buffers_and_for_nothing_else() {
        assert_eq!(begin(0, 4 << 20, 0), 2);
        assert_eq!(begin(1, 4 << 20, 0), 2);
        assert_eq!(begin(200, 4 << 20, 0), 12);
        assert_eq!(begin(200, 64 << 20, 0), 2);
        assert_eq!(begin(200, 4 << 20, 10_000_000), 2);
        assert_eq!(begin(300, 256 << 10, 0), START_MAX);
        assert_eq!(begin(300, 0, 0), 2);
    }

    #[test]
    fn a_start_stays_within_bounds_and_says_why() {
        let path = Path {
            round_trip: Duration::from_millis(200),
            buffer_bytes: 4 << 20,
            limit: 0,
        };
        let fixed = start(&path, Bounds::fixed(2));
        assert_eq!((fixed.streams, fixed.reason), (2, None));
        let bounded = start(&path, Bounds { least: 1, most: 5 });
        assert_eq!(bounded.streams, 5);
        assert!(bounded.reason.unwrap().contains("a buffer of 4 MB"));
    }
}
