//! Finds out from the samples of a channel what limits its streams: windows, loss, a full queue, or no visible reason. Decides only
//! the initial number of streams.

use std::time::Duration;

use super::{Bounds, ChannelSample, shown_bytes, shown_rate, shown_time, whole};

/// Facts about a channel before it has carried data.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path {
    /// RTT of the first connection.
    pub round_trip: Duration,
    /// Most bytes that the kernel buffers for one connection, as configured; 0 if unknown.
    pub buffer_bytes: u64,
    /// The user's limit in content bytes a second; 0 means no limit.
    pub limit: u64,
}

/// The initial number of streams, with a reason if the number is not the usual one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Number of streams.
    pub streams: u32,
    /// The reason, if there are more streams than usual.
    pub reason: Option<String>,
}

/// Initial number of streams if their windows suffice. On two cores and a short path, one stream and four are slower
/// (docs/decisions/threads.md).
const USUAL: u32 = 2;

/// The windows of the first streams together fit this rate, 1 Gbit/s. On a faster link the windows stay full.
const ASSUMED_BYTES_PER_SECOND: f64 = 125e6;

/// Most initial streams. More streams need evidence from measurement.
pub(super) const START_MAX: u32 = 16;

/// The share of a kernel buffer that carries payload. The kernel needs the rest for bookkeeping.
const PAYLOAD_SHARE: f64 = 0.5;

/// Computes the initial number of streams: their windows together hold the data of one RTT.
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

/// An unfinished measuring window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) since: Duration,
    pub(super) begin: ChannelSample,
    /// Sum of the RTTs of the samples, and the number of samples.
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

/// The result of one measuring window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) streams: u32,
    /// Bytes a second over all streams.
    pub(super) rate: f64,
    /// Share of segments retransmitted, over a longer time than the window.
    loss: f64,
    /// EndCounters of the senders' time limited by the receivers' windows and by the senders' own buffers.
    window_share: f64,
    buffer_share: f64,
    round_trip: Duration,
    round_trip_min: Duration,
    segment_bytes: f64,
}

/// Counts losses over a longer time, because losses are rare. Older losses weigh less and less.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    segments: f64,
    retransmitted: f64,
}

/// Time in which a counted loss loses two thirds of its weight.
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
        // Without this, the rest of the last loss would never decay to zero, and would count as a sign for hours.
        if self.segments < 1.0 || self.retransmitted < 0.5 {
            return 0.0;
        }
        (self.retransmitted / self.segments).min(1.0)
    }
}

/// The room for more streams, according to a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Room {
    /// Windows limit each stream, and the path is not full.
    Windows,
    /// Losses limit each stream, and the queue is empty, so the path is not full for other senders either.
    Losses,
    /// A standing queue at the bottleneck: the path is full, with our traffic or with other traffic.
    None,
    /// No sign of room, and none of a full path.
    Unknown,
}

impl Reading {
    /// The reading between two samples `seconds` apart. `losses` also has earlier losses, and `round_trip` is a mean.
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

    /// Time in the queue, as a share of the lowest RTT.
    fn queueing(&self) -> f64 {
        let least = self.round_trip_min.as_secs_f64();
        if least <= 0.0 {
            return 0.0;
        }
        (self.round_trip.as_secs_f64() - least).max(0.0) / least
    }

    /// Whether hardly any data moves. A stream that sends so little waits for a retransmission timeout.
    pub(super) fn stands_still(&self) -> bool {
        self.per_stream() < STILL_SEGMENTS * self.segment_bytes
    }

    /// The rate of a usual stream at this loss in bytes a second: the better one of the laws of Reno and CUBIC.
    fn loss_bound(&self) -> f64 {
        let round_trip = self.round_trip.as_secs_f64().max(1e-4);
        let reno = 1.22 / self.loss.sqrt();
        let cubic = 1.054 * (round_trip / self.loss).powf(0.75);
        reno.max(cubic) * self.segment_bytes / round_trip
    }

    pub(super) fn room(&self) -> Room {
        // Below `SHORT`, the delay that hosts add to the RTT is not a standing queue.
        if self.round_trip_min >= SHORT && self.queueing() >= QUEUE_STANDS {
            return Room::None;
        }
        if self.window_share + self.buffer_share >= HELD_UP {
            return Room::Windows;
        }
        // A kind of TCP that ignores losses is far faster than the law predicts, so losses do not limit it.
        if self.loss > 0.0 && self.per_stream() <= LAW_SLACK * self.loss_bound() {
            return Room::Losses;
        }
        Room::Unknown
    }

    /// Whether the streams have as many bytes in flight as their buffers hold. Such streams will not become faster, however young
    /// they are. A receiver's window is less informative, because it grows later than a starting stream.
    pub(super) fn has_full_buffers(&self) -> bool {
        self.buffer_share >= HELD_UP
    }

    /// The reason for a message: what limits the streams.
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
                "a queue of {} stands in the path",
                shown_time(self.round_trip.saturating_sub(self.round_trip_min))
            ),
            Room::Unknown => format!("each moves {each} at a round trip of {at}"),
        }
    }

    pub(super) fn round_trip_min(&self) -> Duration {
        self.round_trip_min
    }

    /// RTTs until a new stream is as fast as these streams: slow start, from ten segments.
    pub(super) fn round_trips_to_start(&self) -> f64 {
        let window = self.per_stream() * self.round_trip.as_secs_f64();
        let doublings = (window / (10.0 * self.segment_bytes)).max(1.0).log2();
        doublings + 2.0
    }
}

/// Below this RTT the processors are the limit (docs/decisions/threads.md).
pub(super) const SHORT: Duration = Duration::from_millis(2);

/// A queue that adds a quarter to the RTT is a standing queue. On a path long enough to matter, processors and schedulers add less
/// than that.
const QUEUE_STANDS: f64 = 0.25;

/// Segments a second of a stream that hardly moves. The lowest window is two segments, and an RTT is less than a second.
const STILL_SEGMENTS: f64 = 3.0;

/// A stream that is limited for this share of the time has no other limit that matters.
const HELD_UP: f64 = 0.3;

/// The laws are means over a long time, but the loss is counted over a short one.
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
