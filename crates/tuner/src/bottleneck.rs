//! Finds the stage that limits a transfer, from the counters of both ends over an interval, with evidence and advice. Does not
//! measure or store: the same counters have the same result.
//!
//! If the streams of one end never wait, neither for room nor for data, that end limits the transfer. If both ends wait, the
//! network limits. The user's limit is named if the rate reaches the limit and streams wait for it. At the busy end, time in
//! storage calls without a processor is compared with processor time used and wanted. Uncounted time does not count as work: unless
//! half of the time is accounted for, no stage is named. If a batch is made durable while the sender has nothing left, the
//! destination's storage limits. `crates/engine/tests/bottleneck.rs` throttles the stages of real engines one by one.

mod paths;
mod words;
mod worth;

use godwit_model::Bottleneck;

use crate::Snapshot;

pub use self::paths::ChannelRate;
pub use self::worth::Chosen;

/// Counters of both ends over about the same time. Either end may be unknown.
#[derive(Debug, Default, Clone, Copy)]
pub struct EndCounters {
    /// The sending end's counters.
    pub source: Option<Snapshot>,
    /// The receiving end's counters.
    pub destination: Option<Snapshot>,
}

/// The result for a transfer: the limiting stage, evidence and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The limiting stage.
    pub stage: Bottleneck,
    /// The evidence: `290 MB/s written, writers busy 97 % of the time`.
    pub figure: String,
    /// Advice for the user, if there is any.
    pub advice: Option<String>,
}

/// A stage that works for less than this share of the time does not limit the others.
const BUSY: f64 = 0.8;

/// Waits for the rate limit below this share of the time are noise.
const LIMITED: f64 = 0.05;

/// A rate of at least this share of the limit counts as at the limit.
const AT_LIMIT: f64 = 0.85;

/// A background transfer that sends at least this share of its pace is limited by the pace.
const AT_PACE: f64 = 0.85;

/// Storage and processors must account for this share of the time; uncounted time does not count as work.
const SHOWN: f64 = 0.5;

impl EndCounters {
    /// The counts of both ends since `earlier`.
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

    /// The stage that limits the transfer. Returns `None` before anything was measured, if no counter shows the stage, and if the
    /// source has nothing to send.
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
                // The kernel reports that the receiver's window is full: the receiver reads too slowly.
                let window_full = source.window_limited > 0.5 && destination.busy > 0.5;
                let busy = destination.busy >= BUSY || (window_full && source.busy < BUSY);
                let there = destination.stage().filter(|_| busy);
                if there.is_some() && destination.busy >= source.busy.min(0.97) {
                    there
                } else if source.busy >= BUSY {
                    // All data that may be sent has been sent. The transfer waits for the data to become durable.
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

    /// Whether the sending streams had hardly any data to send.
    pub fn wants_data(&self) -> bool {
        self.source().is_some_and(|source| source.is_starved())
    }

    /// Whether this is a background transfer that sends at its pace.
    pub fn is_at_pace(&self) -> bool {
        self.source.is_some_and(|source| {
            positive(source.paced_bytes)
                .is_some_and(|paced| source.tcp_bytes_sent as f64 >= AT_PACE * paced)
        })
    }

    fn source(&self) -> Option<Source> {
        Source::of(self.source.as_ref()?, self.sent_per_second())
    }

    /// Content bytes a second that left the source. A remote source does not report sent bytes, so the received bytes count, too.
    fn sent_per_second(&self) -> f64 {
        let rate = |side: &Option<Snapshot>, bytes: fn(&Snapshot) -> u64| {
            side.as_ref()
                .map_or(0.0, |side| per_second(bytes(side), side.elapsed_ns))
        };
        let sent = rate(&self.source, |side| side.bytes_sent);
        sent.max(rate(&self.destination, |side| side.bytes_received))
    }

    /// The stage with evidence and advice. Returns `None` also if no data moved, or only for a moment. A slow channel is reported
    /// if `channels` has its rates. The advice leaves out settings that are already in force.
    pub fn finding(&self, channels: &[ChannelRate], chosen: &Chosen) -> Option<Finding> {
        self.bottleneck()
            .filter(|stage| worth::is_worth_naming(*stage, self))
            .map(|stage| words::finding(stage, self, channels, chosen))
    }
}

/// EndCounters of the time of the sending streams.
struct Source {
    /// Share of the time at work, or waiting for other work at this end.
    busy: f64,
    starved: f64,
    limited: f64,
    /// Share of the time with data in the sockets that was limited by the receiver's window.
    window_limited: f64,
    /// Content bytes a second, and the limit; 0 means no limit.
    rate: f64,
    limit: f64,
    /// Thread time in storage without a processor, and thread time that used or wanted a processor.
    storage: f64,
    cpu: f64,
    /// Length of the measurement.
    elapsed: f64,
    /// Whether both times cover enough of the measurement to determine a stage.
    shows: bool,
    /// Whether the scan was running or files were being read.
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
        // With a few large blocks at a low rate, one stream waits for the limit and the others have no block.
        let mostly =
            self.limited > 0.5 || (self.limited > 0.2 && self.limited > 0.5 * (1.0 - self.starved));
        self.limited > LIMITED && (at_limit || mostly)
    }

    fn is_starved(&self) -> bool {
        self.busy > 0.0 && self.starved > 0.9 * self.busy
    }

    /// The limiting stage of this end. Returns `None` if there is no work, or if no counter shows the stage.
    fn stage(&self) -> Option<Bottleneck> {
        if self.is_starved() {
            // No thread reads and no stream has data to send: the scan finds no entries, or has finished.
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

/// EndCounters of the time of the receiving streams.
struct Destination {
    /// Share of the time at work, or blocked by storage.
    busy: f64,
    /// Share of the time, not of the streams, in which batches were being made durable.
    syncing: f64,
    storage: f64,
    cpu: f64,
    /// Length of the measurement.
    elapsed: f64,
    /// Whether both times cover enough of the measurement to determine a stage.
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

    /// The limiting stage of this end. Returns `None` if no counter shows the stage.
    fn stage(&self) -> Option<Bottleneck> {
        named(self.shows, self.storage, self.cpu, self.elapsed).map(|of| match of {
            Work::Storage => Bottleneck::DestinationStorage,
            Work::Cpu => Bottleneck::DestinationCpu,
        })
    }
}

/// The kind of work that keeps threads busy.
enum Work {
    Storage,
    Cpu,
}

/// The kind of work that kept threads most busy. Returns `None` if no counter shows it. Processors are named only if their time,
/// used or wanted, is at least half of one thread's time, even if little else was counted.
fn named(shows: bool, storage: f64, cpu: f64, elapsed: f64) -> Option<Work> {
    match storage >= cpu {
        true => shows.then_some(Work::Storage),
        false => (shows && cpu >= SHOWN * elapsed).then_some(Work::Cpu),
    }
}

/// Whether `work`, the time in storage and on processors, explains the time that is not known to be a wait.
/// The work of one thread is enough, because all threads may wait for it.
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
