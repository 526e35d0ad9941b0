//! Per-stage counters of one end of a transfer: plain atomics that any thread may read at any time.
//! Draws no conclusions except the one on which stage the time went (`Shares::bottleneck`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use godwit_store::Lost;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters; each grows only.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter),* }
        /// A copy of all counters at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64),* }
        impl Counters {
            /// All counters as they stand; each is exact, the set is not one instant.
            pub fn snapshot(&self) -> Snapshot { Snapshot { $($name: self.$name.get()),* } }
        }
        impl Snapshot {
            /// Each counter with its name, in their order.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// The counters that `find` knows by their names.
            pub fn of_fields(find: impl Fn(&str) -> u64) -> Self {
                Self { $($name: find(stringify!($name))),* }
            }
        }
    };
}

counters! {
    /// Entries that the scan found.
    entries_scanned,
    /// Content bytes of the files found, holes excluded where known.
    bytes_scanned,
    /// Entries that the selection left out; a directory counts once, with all that is in it.
    entries_excluded,
    /// Files that were there already.
    files_skipped,
    /// Their content bytes.
    bytes_skipped,
    /// Entries other than directories that are complete at the destination because of this transfer.
    files_done,
    /// Content bytes read from source storage.
    bytes_read,
    /// Content bytes handed to streams, repeats included.
    bytes_sent,
    /// Content bytes sent once more: after a lost stream, a failed sync, a file that changed.
    bytes_resent,
    /// Content bytes that arrived.
    bytes_received,
    /// Content bytes acknowledged as written.
    bytes_written,
    /// Content bytes acknowledged as durable.
    bytes_durable,
    /// Entries that failed.
    entries_failed,
    /// Entries whose owner this end could not keep, or not tell.
    owners_lost,
    /// Entries whose group.
    groups_lost,
    /// Entries whose set-id bits.
    set_ids_lost,
    /// Entries with `user.*` attributes that.
    xattrs_lost,
    /// Entries with `security.*` or `trusted.*` attributes that.
    privileged_xattrs_lost,
    /// Entries whose access lists.
    acls_lost,
    /// Entries that were there but for their metadata, which was set.
    entries_adjusted,
    /// Entries that only the destination had, and that were removed.
    entries_deleted,
    /// Places of the source that could not be looked at.
    scan_faults,
    /// Blocks that arrived with a wrong digest.
    digest_failures,
    /// Nanoseconds of stream threads: reading source storage.
    reading_ns,
    /// Nanoseconds of stream threads: handing data to the network.
    sending_ns,
    /// Nanoseconds of stream threads: nothing to send.
    starved_ns,
    /// Nanoseconds of stream threads: no free block, everything sent and not yet acknowledged.
    unacknowledged_ns,
    /// Nanoseconds of stream threads: waiting for the rate limit.
    limited_ns,
    /// Nanoseconds of receiving threads: waiting for data.
    waiting_ns,
    /// Nanoseconds of receiving threads: taking data off the network, decrypting included.
    receiving_ns,
    /// Nanoseconds of receiving threads: checking and writing.
    writing_ns,
    /// Nanoseconds of receiving threads: held back because too much is written and not yet durable.
    undurable_ns,
    /// Nanoseconds spent in making batches durable.
    syncing_ns,
    /// CPU nanoseconds of this transfer's threads.
    cpu_ns,
    /// Streams attached, ever.
    streams_attached,
    /// Streams that ended before the transfer did.
    streams_lost,
}

impl Counters {
    /// Counts an entry of which these kinds of metadata were left out.
    pub fn count_lost(&self, lost: Lost) {
        for (kind, counter) in [
            (Lost::OWNER, &self.owners_lost),
            (Lost::GROUP, &self.groups_lost),
            (Lost::SET_ID, &self.set_ids_lost),
            (Lost::XATTRS, &self.xattrs_lost),
            (Lost::PRIVILEGED_XATTRS, &self.privileged_xattrs_lost),
            (Lost::ACLS, &self.acls_lost),
        ] {
            counter.add(u64::from(lost.has(kind)));
        }
    }
}

/// One growing number.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds the nanoseconds since `start`.
    pub fn add_since(&self, start: Instant) {
        self.add_time(start.elapsed());
    }

    /// Adds a duration in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The stages of which one limits a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// Reading, or scanning, at the source.
    SourceStorage,
    /// Between the two ends.
    Network,
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
            Self::Network => "network",
            Self::DestinationStorage => "destination storage",
            Self::Limit => "limit",
        }
    }
}

/// Where the time of both ends' threads went, in nanoseconds; either end may be unknown.
#[derive(Debug, Default, Clone, Copy)]
pub struct Shares {
    /// The sending end's counters.
    pub source: Option<Snapshot>,
    /// The receiving end's counters.
    pub destination: Option<Snapshot>,
}

impl Shares {
    /// Names the stage that the other stages waited for, from the shares of time; `None` before anything was measured.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let source = self.source.unwrap_or_default();
        let destination = self.destination.unwrap_or_default();
        let stages = [
            (Bottleneck::Limit, source.limited_ns),
            (
                Bottleneck::SourceStorage,
                source.reading_ns + source.starved_ns,
            ),
            (
                Bottleneck::DestinationStorage,
                destination.writing_ns + destination.undurable_ns,
            ),
            (
                Bottleneck::Network,
                (source.sending_ns + source.unacknowledged_ns)
                    .saturating_sub(destination.writing_ns + destination.undurable_ns),
            ),
        ];
        stages
            .into_iter()
            .max_by_key(|(_, time)| *time)
            .filter(|(_, time)| *time > 0)
            .map(|(stage, _)| stage)
    }
}

/// Adds the calling thread's CPU time to a counter, as often as it is asked to.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    counted: Duration,
}

impl CpuMeter {
    pub(crate) fn settle(&mut self, counters: &Counters) {
        let now = thread_cpu_time();
        counters.cpu_ns.add_time(now.saturating_sub(self.counted));
        self.counted = now;
    }
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
