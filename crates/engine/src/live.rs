//! Settings that may change while a transfer runs: the rate limit and the parallelism of each stage. Does not choose the
//! values; a user or the tuner does.
//!
//! The limit is a token bucket. If the daemon sends, the client requests the limit (LIMIT) until the daemon's STATUS shows
//! that the limit is obeyed; a sending client accepts no limit from the other end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use godwit_store::pool::Pool;

use crate::governor::Lease;
use crate::tuner::{Bounds, Decision, Knob, StageSample, ThreadTuner};

/// Live settings of one transfer, shared by all its threads.
#[derive(Debug)]
pub struct Live {
    rate: RateLimit,
    readers: AtomicUsize,
    writers: AtomicUsize,
    writers_max: usize,
    reader_tuner: Mutex<ThreadTuner>,
    writer_tuner: Mutex<ThreadTuner>,
    congestion: String,
    background: AtomicBool,
    lease: Option<Lease>,
    /// The blocks of this end, and their maximum number.
    pool: OnceLock<(Pool, usize)>,
    /// Number of helpers that the share allowed last.
    helpers_max: AtomicUsize,
}

/// How a transfer uses the network at its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkUse {
    /// The congestion control of sockets that send contents, by the kernel's name; if empty, the sending end chooses.
    pub congestion: String,
    /// The transfer yields to all others: on the network, on processors and on disks.
    pub background: bool,
}

impl Live {
    /// Settings of a sending end. `rate`: content bytes a second, 0 for no limit. `readers`: bounds of the threads that
    /// read ahead of the streams; starts with the minimum.
    pub fn sending(rate: u64, readers: Bounds) -> Self {
        Self::new(rate, readers, Bounds::fixed(0))
    }

    /// Settings of a receiving end. `writers`: bounds of the threads that write for the streams; starts with the
    /// minimum.
    pub fn receiving(writers: Bounds) -> Self {
        Self::new(0, Bounds::fixed(0), writers)
    }

    fn new(rate: u64, readers: Bounds, writers: Bounds) -> Self {
        Self {
            rate: RateLimit::new(rate),
            readers: AtomicUsize::new(readers.least as usize),
            writers: AtomicUsize::new(writers.least as usize),
            writers_max: writers.most as usize,
            reader_tuner: Mutex::new(ThreadTuner::new(Knob::Readers, readers)),
            writer_tuner: Mutex::new(ThreadTuner::new(Knob::Writers, writers)),
            congestion: String::new(),
            background: AtomicBool::new(false),
            lease: None,
            pool: OnceLock::new(),
            helpers_max: AtomicUsize::new(usize::MAX),
        }
    }

    /// The decision on readers made before the transfer began.
    pub(crate) fn begin_readers(&self) -> Option<Decision> {
        crate::lock(&self.reader_tuner).begin()
    }

    /// The decision on writers made before the transfer began.
    pub(crate) fn begin_writers(&self) -> Option<Decision> {
        crate::lock(&self.writer_tuner).begin()
    }

    /// Tunes the number of readers; `now` is the time since the transfer began.
    pub(crate) fn tune_readers(&self, now: Duration, sample: &StageSample) -> Option<Decision> {
        crate::lock(&self.reader_tuner).step(now, sample)
    }

    /// Tunes the number of writers, like [`tune_readers`](Self::tune_readers).
    pub(crate) fn tune_writers(&self, now: Duration, sample: &StageSample) -> Option<Decision> {
        crate::lock(&self.writer_tuner).step(now, sample)
    }

    /// The same settings, with a behaviour towards other traffic.
    #[must_use]
    pub fn sharing(self, network_use: NetworkUse) -> Self {
        Self {
            congestion: network_use.congestion,
            background: AtomicBool::new(network_use.background),
            ..self
        }
    }

    /// The congestion control of sockets that send contents.
    pub(crate) fn congestion(&self) -> &str {
        &self.congestion
    }

    /// Whether the transfer yields to all others now.
    pub fn background(&self) -> bool {
        self.background.load(Ordering::Relaxed)
    }

    /// Sets whether the transfer yields to all others: its threads, sockets and pace follow within a second.
    pub fn set_background(&self, background: bool) {
        self.background.store(background, Ordering::Relaxed);
    }

    /// Bounds the transfer by its share of the resources of the process. Without a lease the transfer gets all that it requests.
    #[must_use]
    pub fn governed(self, lease: Option<Lease>) -> Self {
        let live = Self { lease, ..self };
        live.take_helpers();
        live
    }

    /// Streams that this end's process allows the transfer now.
    pub fn streams_max(&self) -> u32 {
        let lease = self.lease.as_ref();
        lease.map_or(u32::MAX, Lease::streams_max)
    }

    /// Makes the block pool of this end; call once.
    pub(crate) fn make_pool(&self, block_bytes: usize, blocks_most: usize) -> Pool {
        let pool = match &self.lease {
            Some(lease) => lease.pool(block_bytes, blocks_most),
            None => Pool::new(block_bytes, blocks_most),
        };
        // A second pool would keep its size.
        let _ = self.pool.set((pool.clone(), blocks_most));
        self.fit_pool();
        pool
    }

    /// Releases blocks beyond the share.
    pub(crate) fn fit_pool(&self) {
        if let (Some(lease), Some((pool, most))) = (&self.lease, self.pool.get()) {
            pool.set_blocks_max(lease.blocks_max(pool.block_bytes()).min(*most));
        }
    }

    /// Updates the number of helpers from the share; returns whether that number changed.
    pub(crate) fn take_helpers(&self) -> bool {
        let allowed = self.lease.as_ref().map_or(usize::MAX, Lease::helpers_max);
        // Data that can be read only once needs one reader, even with a small share.
        let allowed = allowed.max(1);
        self.helpers_max.swap(allowed, Ordering::Relaxed) != allowed
    }

    /// Readers or writers requested, before the share is applied.
    pub(crate) fn helpers_wanted(&self) -> usize {
        // An end has either readers or writers.
        self.readers.load(Ordering::Relaxed) + self.writers.load(Ordering::Relaxed)
    }

    /// The rate limit.
    pub const fn rate(&self) -> &RateLimit {
        &self.rate
    }

    /// Threads that read source storage ahead of the streams; with none, streams read themselves.
    pub fn readers(&self) -> usize {
        self.allowed(&self.readers)
    }

    /// Threads that write received blocks for the streams; when these are busy, streams write themselves.
    pub fn writers(&self) -> usize {
        self.allowed(&self.writers)
    }

    fn allowed(&self, helpers: &AtomicUsize) -> usize {
        let wanted = helpers.load(Ordering::Relaxed);
        wanted.min(self.helpers_max.load(Ordering::Relaxed))
    }

    /// The most writing threads that the tuner may choose.
    pub(crate) const fn writers_max(&self) -> usize {
        self.writers_max
    }

    pub(crate) fn store_readers(&self, count: usize) {
        self.readers.store(count, Ordering::Relaxed);
    }

    pub(crate) fn store_writers(&self, count: usize) {
        self.writers.store(count, Ordering::Relaxed);
    }
}

/// A token bucket: at most `rate` bytes a second on average, with a burst of a twentieth of a second.
/// Time is an argument.
#[derive(Debug)]
pub struct RateLimit {
    rate: AtomicU64,
    changes: AtomicU64,
    /// Time until which the granted bytes use up the rate.
    paid_until: Mutex<Option<Instant>>,
}

/// Rate limits are kept on average over this time.
const BURST: Duration = Duration::from_millis(50);

impl RateLimit {
    fn new(rate: u64) -> Self {
        Self {
            rate: AtomicU64::new(rate),
            changes: AtomicU64::new(0),
            paid_until: Mutex::new(None),
        }
    }

    /// Changes the limit; 0 removes it. Waits under the old limit become invalid: a waiting thread sees by
    /// [`RateLimit::changes`] that it must reserve again.
    pub fn set(&self, bytes_per_second: u64) {
        let mut paid_until = crate::lock(&self.paid_until);
        if self.rate.swap(bytes_per_second, Ordering::Relaxed) != bytes_per_second {
            *paid_until = None;
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the limit was changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Bytes a second, 0 for none.
    pub fn get(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` for sending now, and returns how long to wait before sending.
    pub fn reserve(&self, bytes: u64, now: Instant) -> Duration {
        if self.get() == 0 || bytes == 0 {
            return Duration::ZERO;
        }
        let mut paid_until = crate::lock(&self.paid_until);
        // The limit may have been lifted meanwhile.
        let rate = self.get();
        if rate == 0 {
            return Duration::ZERO;
        }
        let cost = cost(bytes, rate);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = paid_until.map_or(earliest, |paid| paid.max(earliest));
        *paid_until = Some(start + cost);
        start.saturating_duration_since(now)
    }

    /// Returns an unused reservation of `bytes`, so the next caller need not wait for it. `changes` is the count when the
    /// reservation was made: a change of the limit since then has cancelled the reservation.
    pub fn give_back(&self, bytes: u64, changes: u64) {
        let mut paid_until = crate::lock(&self.paid_until);
        let rate = self.get();
        if rate > 0 && self.changes() == changes {
            *paid_until = paid_until.and_then(|paid| paid.checked_sub(cost(bytes, rate)));
        }
    }
}

/// The time that `bytes` take at `rate` bytes a second, which is not 0.
fn cost(bytes: u64, rate: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_never_exceeds_the_limit_by_more_than_the_burst() {
        let limit = RateLimit::new(1_000_000);
        let start = Instant::now();
        let mut now = start;
        let mut sent = 0u64;
        for step in 0..1000u64 {
            let bytes = 1000 + (step * 7919) % 50_000;
            now += limit.reserve(bytes, now);
            let allowed = (now - start + BURST).as_secs_f64() * 1e6;
            assert!(
                sent as f64 <= allowed + 1.0,
                "sent {sent} where {allowed} were allowed"
            );
            sent += bytes;
        }
    }

    #[test]
    fn no_limit_never_waits_and_a_limit_set_later_holds() {
        let limit = RateLimit::new(0);
        let now = Instant::now();
        assert_eq!(limit.reserve(u64::MAX, now), Duration::ZERO);
        limit.set(1000);
        limit.reserve(1000, now);
        assert!(limit.reserve(1, now) >= Duration::from_millis(900));
    }

    #[test]
    fn no_request_under_an_old_limit_delays_one_under_a_new_limit() {
        let limit = RateLimit::new(1);
        let now = Instant::now();
        limit.reserve(1_000_000, now);
        assert!(limit.reserve(1, now) > Duration::from_secs(900_000));
        let before = limit.changes();
        limit.set(1_000_000_000);
        assert_ne!(limit.changes(), before, "who waits is told");
        assert_eq!(limit.reserve(1, now), Duration::ZERO);
        let before = limit.changes();
        limit.set(1_000_000_000);
        assert_eq!(limit.changes(), before, "nothing is new");
    }

    #[test]
    fn a_returned_reservation_costs_nothing_and_is_returned_once() {
        let limit = RateLimit::new(1_000);
        let now = Instant::now();
        limit.reserve(5_000, now);
        limit.reserve(60_000, now);
        limit.give_back(60_000, limit.changes());
        let wait = limit.reserve(1, now);
        assert!((4..5).contains(&wait.as_secs()), "{wait:?}");
        // Once the limit is changed, the old reservation costs nothing.
        let before = limit.changes();
        limit.set(2_000);
        limit.reserve(60_000, now);
        limit.give_back(5_000, before);
        assert!(limit.reserve(1, now) > Duration::from_secs(29));
        // Returning more than was reserved gives no credit.
        limit.give_back(1_000_000, limit.changes());
        limit.reserve(2_000, now);
        assert!(limit.reserve(1, now) > Duration::from_millis(900));
    }
}
