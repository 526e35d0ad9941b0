//! Per-stage counters of one end of a transfer: plain atomics that any thread may read at any time.
//! Draws no conclusions; `bottleneck` does.
//!
//! Each thread adds its processor time, and the time for which it was ready and had no processor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use godwit_store::{Lost, thread_cpu_time, thread_cpu_waiting};
pub use godwit_tuner::Snapshot;

use crate::channels::{ChannelFigures, ChannelTable};
use crate::current::CurrentEntry;
use crate::streams::{StreamFigures, StreamTable};

macro_rules! counters {
    (
        $($(#[$doc:meta])* $name:ident),* $(,)?;
        $($(#[$gauge_doc:meta])* $gauge:ident),* $(,)?
    ) => {
        /// The counters. Each counter only grows, with two exceptions: `bytes_durable` loses the bytes of files that
        /// failed, and gauges (from `streams` on) are momentary values.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
            $($(#[$gauge_doc])* pub $gauge: Counter,)*
            pub(crate) table: StreamTable,
            pub(crate) channels: ChannelTable,
            pub(crate) current: CurrentEntry,
        }
        impl Counters {
            /// All counters; each is exact, but they are not read at one instant.
            pub fn snapshot(&self) -> Snapshot {
                self.table.settle(self);
                Snapshot { $($name: self.$name.get(),)* $($gauge: self.$gauge.get(),)* }
            }
        }
    };
}

godwit_tuner::each_counter!(counters);

impl Counters {
    /// The currently attached streams.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.table.figures()
    }

    /// The channels that have had streams, in the order of their numbers.
    pub fn channels(&self) -> Vec<ChannelFigures> {
        self.channels.figures()
    }

    /// An entry whose contents are on their way: the number of its root, and its path below that.
    pub fn current_entry(&self) -> Option<(u16, Vec<u8>)> {
        self.current.ask()
    }

    /// Time since the first stream was attached.
    pub fn age(&self) -> Duration {
        self.channels.age()
    }

    /// Counts an entry of which these kinds of metadata were lost.
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
            (Lost::TIMES, &self.times_lost),
            (Lost::MODE, &self.modes_lost),
        ] {
            counter.add(u64::from(lost.has(kind)));
        }
    }
}

/// A number that only grows.
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

    /// Subtracts an amount that turned out not to count, at most down to zero.
    pub fn take_back(&self, amount: u64) {
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
pub struct CpuMeter {
    counted: Duration,
    waited: Duration,
    settled: Option<Instant>,
}

/// How often a busy thread reports the processor time that it has used.
const SETTLE_EVERY: Duration = Duration::from_millis(200);

impl CpuMeter {
    /// Adds the time used since the last call.
    pub fn settle(&mut self, counters: &Counters) {
        let now = thread_cpu_time();
        counters.cpu_ns.add_time(now.saturating_sub(self.counted));
        self.counted = now;
        // Not done each time, because it takes a microsecond or two.
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
