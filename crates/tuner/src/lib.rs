//! Owns the judgements of a transfer: how many streams a channel wants, how many threads storage wants, the pace in the background, what limits.
//! Has no clock, no socket and no lock: time and samples go in, decisions with their reasons come out.
//!
//! Each channel has a controller: a step takes the time, a sample and what holds the streams up, and gives a decision with its
//! reason. `path` reads from two samples whether there is room (windows, losses without a queue) and computes the first number of
//! streams; `streams` tries, compares, and keeps or takes back; `threads` does the same for readers and writers, each end for
//! itself. Thousands of seeded links (`world`: a queue, Reno, CUBIC and a kind that keeps a rate, losses, buffers, storage,
//! processors, other traffic, outages) test that a controller comes near the best fixed number, rests, is fair, and follows
//! changes. `docs/tuning.md` has the figures.
//!
//! The size and number of blocks are not tuned: no block waits for a round trip, and our windows are larger than any socket's
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

pub use self::background::{Background, PathSample};
pub use self::bottleneck::{Bottleneck, ChannelRate, Chosen, Finding, Shares};
pub use self::counted::{ChannelFigures, Snapshot};
pub use self::path::{Path, Start, start};
pub use self::streams::StreamTuner;
pub use self::threads::{StageSample, ThreadTuner};

/// The most streams of one transfer.
pub const STREAMS_MAX: u32 = 128;

/// The least and the most that the tuner may choose; one number fixes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Never fewer.
    pub least: u32,
    /// Never more.
    pub most: u32,
}

impl Bounds {
    /// As many streams as the tuner finds good.
    pub const STREAMS: Self = Self {
        least: 1,
        most: STREAMS_MAX,
    };

    /// Just so many.
    pub const fn fixed(count: u32) -> Self {
        Self {
            least: count,
            most: count,
        }
    }

    /// Whether there is nothing to choose.
    pub const fn is_fixed(self) -> bool {
        self.least >= self.most
    }

    /// What of these is that channel's of so many: even parts, and at least one stream.
    pub fn part(self, channel: u32, channels: u32) -> Self {
        let channels = channels.max(1);
        let part = |count: u32| (count / channels + u32::from(channel < count % channels)).max(1);
        Self {
            least: part(self.least),
            most: part(self.most),
        }
    }

    /// The same where no more than `most` are let in.
    #[must_use]
    pub fn at_most(self, most: u32) -> Self {
        let most = most.max(1);
        Self {
            least: self.least.min(most),
            most: self.most.min(most),
        }
    }

    /// The nearest number that is allowed.
    pub fn hold(self, count: u32) -> u32 {
        count.min(self.most).max(self.least)
    }
}

/// How things stand on one channel; what grows is counted since the transfer began, over all streams that there were.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChannelSample {
    /// Streams that carry blocks now.
    pub streams: u32,
    /// Bytes that the other end has received, as near as this end can know.
    pub bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Of them, sent again.
    pub retransmitted: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Time of the senders in which there was something to send.
    pub busy: Duration,
    /// Of it, held up by the receivers' windows.
    pub window_limited: Duration,
    /// Of it, held up by the senders' buffers.
    pub buffer_limited: Duration,
    /// The round trip now, mean of the streams; zero where it is not known.
    pub round_trip: Duration,
    /// The shortest that was seen.
    pub round_trip_min: Duration,
}

/// What holds the transfer up, as far as streams are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holdup {
    /// The way between the ends, or nothing that is known.
    Network,
    /// The streams' own threads are at work all the time, and the machine has processors that are not.
    Threads,
    /// A stage that more streams do not help, in words.
    Elsewhere(&'static str),
}

/// What is tuned.
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
    /// The word for people, events and settings.
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
    /// What is changed.
    pub knob: Knob,
    /// The number until now.
    pub from: u32,
    /// The number from now on.
    pub to: u32,
    /// Why, with the figures.
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

/// A number of streams that is at least this.
fn whole(count: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "held to the range just before"
    )]
    let whole = count.ceil().clamp(0.0, f64::from(u32::MAX)) as u32;
    whole
}

/// A rate for people: bits a second, as networks are described.
fn shown_rate(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    if bits >= 1e9 {
        format!("{:.2} Gbit/s", bits / 1e9)
    } else {
        format!("{:.0} Mbit/s", bits / 1e6)
    }
}

/// A round trip for people.
fn shown_time(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    if milliseconds >= 10.0 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{milliseconds:.1} ms")
    }
}

/// Bytes of a buffer for people.
fn shown_bytes(bytes: u64) -> String {
    if bytes >= 1_000_000 {
        format!("{:.0} MB", bytes as f64 / 1e6)
    } else {
        format!("{:.0} kB", bytes as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests;
