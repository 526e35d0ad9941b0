//! Names what limits a transfer, from what both ends counted over some time, with the figure and what could be done.
//! Measures nothing, keeps nothing: the same counters give the same answer.

mod told;

use crate::{Snapshot, StreamFigures};

/// What limits a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// Reading, or scanning, at the source.
    SourceStorage,
    /// Processors at the source.
    SourceCpu,
    /// Between the two ends.
    Network,
    /// Processors at the destination.
    DestinationCpu,
    /// Writing or syncing at the destination.
    DestinationStorage,
    /// The limit that the user set.
    Limit,
}

impl Bottleneck {
    /// The words for people, events and documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SourceStorage => "source storage",
            Self::SourceCpu => "source CPU",
            Self::Network => "network",
            Self::DestinationCpu => "destination CPU",
            Self::DestinationStorage => "destination storage",
            Self::Limit => "limit",
        }
    }
}

/// What both ends counted over the same time, or nearly; either may be unknown.
#[derive(Debug, Default, Clone, Copy)]
pub struct Shares {
    /// The sending end's counters.
    pub source: Option<Snapshot>,
    /// The receiving end's counters.
    pub destination: Option<Snapshot>,
}

/// What limits a transfer, in figures and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub stage: Bottleneck,
    /// How it shows: `290 MB/s written, writers busy 97 % of the time`.
    pub figure: String,
    /// What could be done about it, if anything.
    pub advice: Option<String>,
}

/// Below this share of the time that a stage is at work it is not what the others wait for.
const BUSY: f64 = 0.8;

/// Waits for the rate limit below this share of the time are chance.
const LIMITED: f64 = 0.05;

/// A rate of this part of the limit is held to be at it.
const AT_LIMIT: f64 = 0.85;

impl Shares {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: Option<Snapshot>, then: Option<Snapshot>| {
            now.map(|now| then.map_or(now, |then| now.since(&then)))
        };
        Self {
            source: since(self.source, earlier.source),
            destination: since(self.destination, earlier.destination),
        }
    }

    /// Names what limits; `None` before anything was measured, and where nothing limits: the source has nothing to give.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let source = self.source.as_ref().and_then(Source::of);
        let destination = self.destination.as_ref().and_then(Destination::of);
        if source.as_ref().is_some_and(Source::is_limited) {
            return Some(Bottleneck::Limit);
        }
        match (source, destination) {
            (None, None) => None,
            (Some(source), None) if source.busy >= BUSY => source.stage(),
            (Some(_), None) => Some(Bottleneck::Network),
            (None, Some(destination)) if destination.busy >= BUSY => Some(destination.stage()),
            (None, Some(_)) => None,
            (Some(source), Some(destination)) => {
                // The kernel says that the window of the receiver is full: it takes too slowly.
                let window_full = source.window_limited > 0.5 && destination.busy > 0.5;
                let busy = destination.busy >= BUSY || (window_full && source.busy < BUSY);
                if busy && destination.busy >= source.busy.min(0.97) {
                    Some(destination.stage())
                } else if source.busy >= BUSY {
                    // Everything is sent, or all that may be: what is missing is that it becomes durable.
                    if source.starved > 0.5 && destination.syncing > 0.5 {
                        return Some(Bottleneck::DestinationStorage);
                    }
                    source.stage()
                } else if busy {
                    Some(destination.stage())
                } else {
                    Some(Bottleneck::Network)
                }
            }
        }
    }

    /// What limits, in figures and words. `streams` are those of this moment, where they are known: they tell channels apart.
    pub fn finding(&self, streams: &[StreamFigures]) -> Option<Finding> {
        self.bottleneck()
            .map(|stage| told::finding(stage, self, streams))
    }
}

/// Shares of the time of the sending streams.
struct Source {
    /// At work, or waiting for work of others at this end.
    busy: f64,
    starved: f64,
    limited: f64,
    /// Of the time that sockets had something to send, by the receiver's window.
    window_limited: f64,
    /// Content a second, and the most there may be; 0 is no limit.
    rate: f64,
    limit: f64,
    /// Thread-seconds in storage without a processor in use, and those with one in use or wanted.
    storage: f64,
    cpu: f64,
    /// The scan was still at it, or files were being read.
    reads: bool,
}

impl Source {
    fn of(counted: &Snapshot) -> Option<Self> {
        let total = positive(counted.streams_ns)?;
        let share = |time: u64| (time as f64 / total).min(1.0);
        let limited = share(counted.limited_ns);
        let starved = share(counted.starved_ns);
        let away = limited + share(counted.blocked_sending_ns) + share(counted.unacknowledged_ns);
        let busy = (1.0 - away).max(0.0);
        let active = (busy - starved).max(0.0) * total + counted.helping_ns as f64;
        let cpu = counted.cpu_ns.saturating_add(counted.cpu_waiting_ns) as f64;
        Some(Self {
            busy,
            starved,
            limited,
            window_limited: positive(counted.tcp_busy_ns)
                .map_or(0.0, |busy| counted.tcp_window_limited_ns as f64 / busy),
            rate: per_second(
                counted.bytes_sent.max(counted.bytes_read),
                counted.elapsed_ns,
            ),
            limit: counted.limit_bytes_per_second as f64,
            storage: (active - cpu).clamp(0.0, counted.storage_reading_ns as f64),
            cpu: cpu.min(active),
            reads: counted.entries_scanned > 0 || counted.storage_reading_ns > 0,
        })
    }

    fn is_limited(&self) -> bool {
        let at_limit = self.limit > 0.0 && self.rate >= AT_LIMIT * self.limit;
        self.limited > LIMITED && (at_limit || self.limited > 0.5)
    }

    /// Which part of this end it is; `None` if there is nothing to do.
    fn stage(&self) -> Option<Bottleneck> {
        if self.storage + self.cpu <= 0.0 || self.starved > 0.9 * self.busy {
            // Nobody reads, and nobody has anything to send: the scan finds nothing, or has found all there is.
            let worth = self.storage > 0.5 * self.cpu;
            return (self.reads && (worth || self.storage + self.cpu <= 0.0))
                .then_some(Bottleneck::SourceStorage);
        }
        Some(if self.storage >= self.cpu {
            Bottleneck::SourceStorage
        } else {
            Bottleneck::SourceCpu
        })
    }
}

/// Shares of the time of the receiving streams.
struct Destination {
    /// At work, or held back by storage.
    busy: f64,
    /// Of the time, not of streams: batches were being made durable.
    syncing: f64,
    storage: f64,
    cpu: f64,
}

impl Destination {
    fn of(counted: &Snapshot) -> Option<Self> {
        let total = positive(counted.streams_ns)?;
        let waiting = counted
            .waiting_ns
            .saturating_add(counted.blocked_receiving_ns) as f64
            / total;
        let busy = (1.0 - waiting).max(0.0);
        let undurable = (counted.undurable_ns as f64 / total).min(busy);
        let active = (busy - undurable) * total + counted.helping_ns as f64;
        let cpu = counted.cpu_ns.saturating_add(counted.cpu_waiting_ns) as f64;
        let writing = (active - cpu).clamp(0.0, counted.storage_writing_ns as f64);
        Some(Self {
            busy,
            syncing: positive(counted.elapsed_ns)
                .map_or(0.0, |elapsed| counted.syncing_ns as f64 / elapsed),
            storage: writing + undurable * total,
            cpu: cpu.min(active),
        })
    }

    fn stage(&self) -> Bottleneck {
        if self.storage >= self.cpu {
            Bottleneck::DestinationStorage
        } else {
            Bottleneck::DestinationCpu
        }
    }
}

fn positive(time: u64) -> Option<f64> {
    (time > 0).then_some(time as f64)
}

fn per_second(count: u64, nanoseconds: u64) -> f64 {
    count as f64 / (nanoseconds as f64 / 1e9).max(1e-3)
}

#[cfg(test)]
mod tests;
