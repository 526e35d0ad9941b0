//! Per-stage counters of one end of a transfer: plain atomics that any thread may read at any time.
//! Draws no conclusions; `bottleneck` does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use godwit_store::{Lost, thread_cpu_time, thread_cpu_waiting};

use crate::channels::{ChannelFigures, ChannelTable};
use crate::streams::{StreamFigures, StreamTable};

macro_rules! counters {
    (
        $($(#[$doc:meta])* $name:ident),* $(,)?;
        $($(#[$gauge_doc:meta])* $gauge:ident),* $(,)?
    ) => {
        /// The counters; each grows only, but for `bytes_durable`, which gives back what was of files that failed, and the
        /// gauges, from `streams` on, which are values of the moment.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
            $($(#[$gauge_doc])* pub $gauge: Counter,)*
            pub(crate) table: StreamTable,
            pub(crate) channels: ChannelTable,
        }
        /// A copy of all counters at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$gauge_doc])* pub $gauge: u64,)*
        }
        impl Counters {
            /// All counters as they stand; each is exact, the set is not one instant.
            pub fn snapshot(&self) -> Snapshot {
                self.table.settle(self);
                Snapshot { $($name: self.$name.get(),)* $($gauge: self.$gauge.get(),)* }
            }
        }
        impl Snapshot {
            /// Each counter with its name, in their order.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)* $((stringify!($gauge), self.$gauge),)*].into_iter()
            }

            /// The counters that `find` knows by their names.
            pub fn of_fields(find: impl Fn(&str) -> u64) -> Self {
                Self { $($name: find(stringify!($name)),)* $($gauge: find(stringify!($gauge)),)* }
            }

            /// What was counted since `earlier`; gauges stay as they are.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* $($gauge: self.$gauge,)* }
            }
        }
    };
}

counters! {
    /// Entries that the scan found.
    entries_scanned,
    /// Sizes of the files found, and once more of those that changed and were begun anew.
    bytes_scanned,
    /// Entries that the selection left out; a directory counts once, with all that is in it.
    entries_excluded,
    /// Files that were there already.
    files_skipped,
    /// Their content bytes.
    bytes_skipped,
    /// At the sender: of `bytes_scanned`, what is done with and was neither written nor skipped. Ranges that the receiver had, holes,
    /// files of which the metadata alone was set, files that failed.
    bytes_unmoved,
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
    /// Content bytes acknowledged as durable, those of files that failed or began anew left out.
    bytes_durable,
    /// Entries that failed.
    entries_failed,
    /// Of those, sources that could not be read themselves.
    sources_failed,
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
    /// Files that are another name of one in another root, and are sent once more.
    links_split,
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
    /// Nanoseconds that threads of any kind spent in calls of the source's storage.
    storage_reading_ns,
    /// Nanoseconds that threads of any kind spent in calls of the destination's storage, planning included and syncing not.
    storage_writing_ns,
    /// Nanoseconds spent in taking or checking digests.
    digesting_ns,
    /// Nanoseconds that threads of this transfer were ready to run and had no processor.
    cpu_waiting_ns,
    /// Nanoseconds that streams which carry contents were attached, summed over them.
    streams_ns,
    /// Nanoseconds of `sending_ns` and the like: no room in the socket.
    blocked_sending_ns,
    /// Nanoseconds of `receiving_ns`: the rest of a payload had not come.
    blocked_receiving_ns,
    /// Nanoseconds of work of the threads that read or write for streams.
    helping_ns,
    /// Of the sockets that carry contents, from the kernel, summed over them: nanoseconds with something to send.
    tcp_busy_ns,
    /// Nanoseconds of that limited by the receiver's window.
    tcp_window_limited_ns,
    /// Nanoseconds of that limited by the send buffer.
    tcp_buffer_limited_ns,
    /// Segments with data, those sent again included.
    tcp_segments_sent,
    /// Segments sent again.
    tcp_segments_resent,
    /// Bytes of segments, those sent again included.
    tcp_bytes_sent,
    /// Bytes sent again by the kernel.
    tcp_bytes_resent,
    /// Bytes that the other end's kernel acknowledged.
    tcp_bytes_acknowledged,
    /// Bytes that the pace of a transfer in the background allowed, of all channels together; 0 if it is not in the background.
    paced_bytes,
    /// Nanoseconds since this end began.
    elapsed_ns;
    /// Streams attached now that carry contents.
    streams,
    /// Nanoseconds of a round trip, smoothed, the mean over streams; 0 if none is TCP.
    round_trip_ns,
    /// Nanoseconds of the least round trip of late; 0 if none is TCP.
    round_trip_min_ns,
    /// Latest delivery rates of all streams together.
    delivery_bytes_per_second,
    /// Streams whose delivery rate was measured while there was not enough to send.
    streams_app_limited,
    /// Bytes that the congestion control lets fly, of all streams together.
    tcp_window_bytes,
    /// Bytes that fly.
    tcp_unacknowledged_bytes,
    /// Bytes that wait in sockets.
    tcp_unsent_bytes,
    /// Processors that this process may use.
    cores,
    /// The rate limit that the sending end obeys, 0 for none.
    limit_bytes_per_second,
}

impl Counters {
    /// The streams attached now, one by one.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.table.figures()
    }

    /// The channels that have had streams, in the order of their numbers.
    pub fn channels(&self) -> Vec<ChannelFigures> {
        self.channels.figures()
    }

    /// Since the first stream was attached.
    pub fn age(&self) -> Duration {
        self.channels.age()
    }

    /// Counts an entry of which these kinds of metadata were left out.
    pub fn count_lost(&self, lost: Lost) {
        if lost.is_nothing() {
            return;
        }
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

    /// Does `work` and adds the nanoseconds that it took.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add_since(start);
        result
    }

    /// Takes off what was added and turned out not to count, at most all of it.
    pub(crate) fn take_back(&self, amount: u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| {
                Some(value.saturating_sub(amount))
            });
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
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

/// Adds the calling thread's CPU time, and its time without a processor, to counters, as often as it is asked to.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    counted: Duration,
    waited: Duration,
    settled: Option<Instant>,
}

/// How often a thread that never rests says how much processor time it has used.
const SETTLE_EVERY: Duration = Duration::from_millis(200);

impl CpuMeter {
    pub(crate) fn settle(&mut self, counters: &Counters) {
        let now = thread_cpu_time();
        counters.cpu_ns.add_time(now.saturating_sub(self.counted));
        self.counted = now;
        // Costs a microsecond or two: not each time.
        if self.is_due(Instant::now())
            && let Some(waited) = thread_cpu_waiting()
        {
            let more = waited.saturating_sub(self.waited);
            counters.cpu_waiting_ns.add_time(more);
            self.waited = waited;
        }
    }

    /// For a thread that may not rest for long.
    pub(crate) fn settle_if_due(&mut self, now: Instant, counters: &Counters) {
        if self
            .settled
            .is_none_or(|then| now.saturating_duration_since(then) >= SETTLE_EVERY)
        {
            self.settle(counters);
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self
            .settled
            .is_none_or(|then| now.saturating_duration_since(then) >= SETTLE_EVERY);
        if due {
            self.settled = Some(now);
        }
        due
    }
}

/// Processors that this process may use.
pub(crate) fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}
