//! Owns the tuning decisions of a transfer: streams of a channel, storage threads, the background pace, and the limiting stage. Has
//! no clock, socket or lock: its inputs are time and samples, its outputs are decisions with reasons.
//!
//! Each channel has a controller. A step gets the time, a sample and the stage that limits the streams, and returns a decision with
//! its reason. `path` finds out from two samples whether there is room (windows, losses without a queue), and computes the initial
//! number of streams. `streams` tries another number, compares, and keeps it or reverts. `threads` does the same for readers and
//! writers, separately at each end. Tests run controllers over thousands of seeded links (`world`). A link has a queue, losses,
//! buffers, storage, processors, other traffic and outages. It carries Reno, CUBIC or a kind of TCP that sends at a fixed rate. The
//! tests check that a controller is close to the best fixed number, settles, is fair, and follows changes. `docs/tuning.md` has the
//! figures.
//!
//! The size and number of blocks are not tuned: no block waits for an RTT, and our windows are larger than any socket's
//! (`docs/decisions/blocks.md`).

mod background;
mod backoff;
mod bottleneck;
mod counted;
mod pace;
mod path;
mod streams;
mod threads;
#[cfg(test)]
mod world;

use std::fmt;
use std::time::Duration;

pub use godwit_model::Bottleneck;

pub use self::background::{Background, PathSample};
pub use self::bottleneck::{ChannelRate, Chosen, EndCounters, Finding};
pub use self::counted::{ChannelFigures, Snapshot};
pub use self::path::{Path, Start, start};
pub use self::streams::StreamTuner;
pub use self::threads::{StageSample, ThreadTuner};

/// Most streams of one transfer.
pub const STREAMS_MAX: u32 = 128;

/// The lowest and the highest number that the tuner may choose. Equal bounds fix the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lowest number.
    pub least: u32,
    /// Highest number.
    pub most: u32,
}

impl Bounds {
    /// The tuner chooses the number of streams.
    pub const STREAMS: Self = Self {
        least: 1,
        most: STREAMS_MAX,
    };

    /// Bounds that allow only `count`.
    pub const fn fixed(count: u32) -> Self {
        Self {
            least: count,
            most: count,
        }
    }

    /// Whether the bounds allow only one number.
    pub const fn is_fixed(self) -> bool {
        self.least >= self.most
    }

    /// The part of these bounds for one of `channels` channels: even parts, and at least one stream.
    pub fn part(self, channel: u32, channels: u32) -> Self {
        let channels = channels.max(1);
        let part = |count: u32| (count / channels + u32::from(channel < count % channels)).max(1);
        Self {
            least: part(self.least),
            most: part(self.most),
        }
    }

    /// The same bounds with no more than `most` allowed.
    #[must_use]
    pub fn at_most(self, most: u32) -> Self {
        let most = most.max(1);
        Self {
            least: self.least.min(most),
            most: self.most.min(most),
        }
    }

    /// The allowed number nearest to `count`.
    pub fn hold(self, count: u32) -> u32 {
        count.min(self.most).max(self.least)
    }
}

/// State of one channel. Counters that grow count since the transfer began, over all streams so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChannelSample {
    /// Streams that carry blocks now.
    pub streams: u32,
    /// Bytes that the other end has received, as far as this end knows.
    pub bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Time in which senders had data to send.
    pub busy: Duration,
    /// Part of `busy` in which the receivers' windows limited senders.
    pub window_limited: Duration,
    /// Part of `busy` in which the senders' buffers limited senders.
    pub buffer_limited: Duration,
    /// Current RTT, mean of the streams; zero if unknown.
    pub round_trip: Duration,
    /// Lowest RTT seen.
    pub round_trip_min: Duration,
}

/// The stage that limits the transfer, as far as the number of streams is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holdup {
    /// The path between the ends, or no known stage.
    Network,
    /// The streams' own threads are always busy, and the machine has idle processors.
    Threads,
    /// A stage that more streams would not speed up, in words.
    Elsewhere(&'static str),
}

/// The number that the tuner changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// Streams of a channel.
    Streams,
    /// Threads that read ahead at the source.
    Readers,
    /// Threads that write for the streams at the destination.
    Writers,
}

impl Knob {
    /// The word for messages, events and settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Readers => "readers",
            Self::Writers => "writers",
        }
    }
}

/// A change of a number, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The changed number.
    pub knob: Knob,
    /// The value before.
    pub from: u32,
    /// The new value.
    pub to: u32,
    /// The reason, with figures.
    pub reason: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} {} -> {}: {}",
            self.knob.as_str(),
            self.from,
            self.to,
            self.reason
        )
    }
}

/// The smallest whole number of streams that is at least `count`.
fn whole(count: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "held to the range just before"
    )]
    let whole = count.ceil().clamp(0.0, f64::from(u32::MAX)) as u32;
    whole
}

/// A rate in a message: bits a second, as usual for networks.
fn shown_rate(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    if bits >= 1e9 {
        format!("{:.2} Gbit/s", bits / 1e9)
    } else {
        format!("{:.0} Mbit/s", bits / 1e6)
    }
}

/// An RTT in a message.
fn shown_time(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    if milliseconds >= 10.0 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{milliseconds:.1} ms")
    }
}

/// A buffer size in a message.
fn shown_bytes(bytes: u64) -> String {
    if bytes >= 1_000_000 {
        format!("{:.0} MB", bytes as f64 / 1e6)
    } else {
        format!("{:.0} kB", bytes as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests;
