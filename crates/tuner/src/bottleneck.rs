//! Names what limits a transfer, from what both ends counted over some time, with the figure and what could be done.
//! Measures nothing, keeps nothing: the same counters give the same answer.
//!
//! The end whose streams never wait, for room or for data, limits; between two ends that both wait, the network does. The user's
//! limit is named if it is reached and waited for. At the busy end, time in storage calls without a processor is compared with
//! processor time used and wanted. Time that nobody counted is no work: unless half of the time is accounted for, no stage is
//! named. A batch that is made durable while the sender has nothing left is the destination's storage.
//! `crates/engine/tests/bottleneck.rs` throttles one stage after the other of real engines.

mod paths;
mod words;
mod worth;

use crate::Snapshot;

pub use self::paths::ChannelRate;
pub use self::worth::Chosen;

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

/// A transfer in the background that sends this part of what its pace allows is held back by it.
const AT_PACE: f64 = 0.85;

/// Time that nobody counted as a wait is not yet work: storage and processors must show for this part of it.
const SHOWN: f64 = 0.5;

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

    /// Names what limits; `None` before anything was measured, where nothing that was shows it, and where nothing limits: the
    /// source has nothing to give.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let source = self.source();
        let destination = self.destination.as_ref().and_then(Destination::of);
        if source.as_ref().is_some_and(Source::is_limited) {
            return Some(Bottleneck::Limit);
        }
        match (source, destination) {
            (None, None) => None,
            (Some(source), None) if source.busy >= BUSY => source.stage(),
            (Some(_), None) => Some(Bottleneck::Network),
            (None, Some(destination)) if destination.busy >= BUSY => destination.stage(),
            (None, Some(_)) => None,
            (Some(source), Some(destination)) => {
                // The kernel says that the window of the receiver is full: it takes too slowly.
                let window_full = source.window_limited > 0.5 && destination.busy > 0.5;
                let busy = destination.busy >= BUSY || (window_full && source.busy < BUSY);
                let there = destination.stage().filter(|_| busy);
                if there.is_some() && destination.busy >= source.busy.min(0.97) {
                    there
                } else if source.busy >= BUSY {
                    // Everything is sent, or all that may be: what is missing is that it becomes durable.
                    if source.starved > 0.5 && destination.syncing > 0.5 {
                        return Some(Bottleneck::DestinationStorage);
                    }
                    source.stage().or(there)
                } else if busy {
                    there
                } else {
                    Some(Bottleneck::Network)
                }
            }
        }
    }

    /// Whether the sending streams had hardly anything to send.
    pub fn wants_data(&self) -> bool {
        self.source().is_some_and(|source| source.is_starved())
    }

    /// Whether the transfer is in the background, and sends what its own pace there allows.
    pub fn is_at_pace(&self) -> bool {
        self.source.is_some_and(|source| {
            positive(source.paced_bytes)
                .is_some_and(|paced| source.tcp_bytes_sent as f64 >= AT_PACE * paced)
        })
    }

    fn source(&self) -> Option<Source> {
        Source::of(self.source.as_ref()?, self.sent_per_second())
    }

    /// Content bytes a second that left the source. A peer does not tell what it has sent; what it has read may still wait.
    fn sent_per_second(&self) -> f64 {
        let rate = |side: &Option<Snapshot>, bytes: fn(&Snapshot) -> u64| {
            side.as_ref()
                .map_or(0.0, |side| per_second(bytes(side), side.elapsed_ns))
        };
        let sent = rate(&self.source, |side| side.bytes_sent);
        sent.max(rate(&self.destination, |side| side.bytes_received))
    }

    /// What limits, in figures and words; `None` also where it is not worth a word: nothing moved, or only for a moment.
    /// `channels` tell which of them is slow, as far as they are known; there is no advice to do what is in force.
    pub fn finding(&self, channels: &[ChannelRate], chosen: &Chosen) -> Option<Finding> {
        self.bottleneck()
            .filter(|stage| worth::is_worth_naming(*stage, self))
            .map(|stage| words::finding(stage, self, channels, chosen))
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
    /// Of the measurement.
    elapsed: f64,
    /// They cover enough of the time to be named.
    shows: bool,
    /// The scan was still at it, or files were being read.
    reads: bool,
}

impl Source {
    fn of(counted: &Snapshot, rate: f64) -> Option<Self> {
        let total = positive(counted.streams_ns)?;
        let share = |time: u64| (time as f64 / total).min(1.0);
        let limited = share(counted.limited_ns);
        let starved = share(counted.starved_ns);
        let away = limited + share(counted.blocked_sending_ns) + share(counted.unacknowledged_ns);
        let busy = (1.0 - away).max(0.0);
        let active = (busy - starved).max(0.0) * total + counted.helping_ns as f64;
        let cpu = counted.cpu_ns.saturating_add(counted.cpu_waiting_ns) as f64;
        let cpu = cpu.min(active);
        let storage = (active - cpu).clamp(0.0, counted.storage_reading_ns as f64);
        Some(Self {
            busy,
            starved,
            limited,
            window_limited: positive(counted.tcp_busy_ns)
                .map_or(0.0, |busy| counted.tcp_window_limited_ns as f64 / busy),
            rate,
            limit: counted.limit_bytes_per_second as f64,
            storage,
            cpu,
            elapsed: counted.elapsed_ns as f64,
            shows: shows(storage + cpu, active, counted.elapsed_ns),
            reads: counted.entries_scanned > 0 || counted.storage_reading_ns > 0,
        })
    }

    fn is_limited(&self) -> bool {
        let at_limit = self.limit > 0.0 && self.rate >= AT_LIMIT * self.limit;
        // Of a few large blocks at a small rate one waits, and other streams have none.
        let mostly =
            self.limited > 0.5 || (self.limited > 0.2 && self.limited > 0.5 * (1.0 - self.starved));
        self.limited > LIMITED && (at_limit || mostly)
    }

    fn is_starved(&self) -> bool {
        self.busy > 0.0 && self.starved > 0.9 * self.busy
    }

    /// Which part of this end it is; `None` if there is nothing to do, or nothing that shows it.
    fn stage(&self) -> Option<Bottleneck> {
        if self.is_starved() {
            // Nobody reads, and nobody has anything to send: the scan finds nothing, or has found all there is.
            let worth = self.storage > 0.5 * self.cpu;
            return (self.reads && (worth || self.storage + self.cpu <= 0.0))
                .then_some(Bottleneck::SourceStorage);
        }
        named(self.shows, self.storage, self.cpu, self.elapsed).map(|of| match of {
            Work::Storage => Bottleneck::SourceStorage,
            Work::Cpu => Bottleneck::SourceCpu,
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
    /// Of the measurement.
    elapsed: f64,
    /// They cover enough of the time to be named.
    shows: bool,
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
        let cpu = cpu.min(active);
        let writing = (active - cpu).clamp(0.0, counted.storage_writing_ns as f64);
        let undurable = undurable * total;
        let storage = writing + undurable;
        Some(Self {
            busy,
            syncing: positive(counted.elapsed_ns)
                .map_or(0.0, |elapsed| counted.syncing_ns as f64 / elapsed),
            storage,
            cpu,
            elapsed: counted.elapsed_ns as f64,
            shows: shows(storage + cpu, active + undurable, counted.elapsed_ns),
        })
    }

    /// Which part of this end it is; `None` if nothing shows it.
    fn stage(&self) -> Option<Bottleneck> {
        named(self.shows, self.storage, self.cpu, self.elapsed).map(|of| match of {
            Work::Storage => Bottleneck::DestinationStorage,
            Work::Cpu => Bottleneck::DestinationCpu,
        })
    }
}

/// What threads are busy with.
enum Work {
    Storage,
    Cpu,
}

/// What threads were busy with most; None where nothing shows it. Threads that have no processor in use or wanted for most of the time
/// of one of them are not held up by processors, however little else was counted.
fn named(shows: bool, storage: f64, cpu: f64, elapsed: f64) -> Option<Work> {
    match storage >= cpu {
        true => shows.then_some(Work::Storage),
        false => (shows && cpu >= SHOWN * elapsed).then_some(Work::Cpu),
    }
}

/// Whether `work`, the time in storage and on processors, tells what threads did in the time that is not known to be a wait.
/// One thread that works for all of them is enough.
fn shows(work: f64, active: f64, elapsed_ns: u64) -> bool {
    let elapsed = positive(elapsed_ns).unwrap_or(f64::INFINITY);
    work > 0.0 && work >= SHOWN * active.min(elapsed)
}

fn positive(time: u64) -> Option<f64> {
    (time > 0).then_some(time as f64)
}

fn per_second(count: u64, nanoseconds: u64) -> f64 {
    count as f64 / (nanoseconds as f64 / 1e9).max(1e-3)
}

#[cfg(test)]
mod tests;
