//! Owns the model of one direction of a line: random loss, a bottleneck of fixed rate behind a drop-tail queue, delay.
//! Performs no IO and reads no clock: time comes in as an argument, packets come in and go out.
//!
//! The order is that of `netem loss` before `tbf` before `netem delay`. Whether the k-th packet offered is lost depends on the seed alone.
//! So the same packets offered again meet the same losses. Packets leave in the order in which they came.

use godwit_seeded::Seeded;
use std::collections::VecDeque;
use std::time::Duration;

/// A point in time, in nanoseconds since the emulator started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) u64);

impl Time {
    /// The time `since_start` after the start; 584 years fit.
    pub(crate) fn after_start(since_start: Duration) -> Self {
        Self(nanoseconds(since_start))
    }

    fn plus(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }
}

/// Bits per second, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(u64);

impl Rate {
    /// None for zero bits per second.
    pub(crate) fn from_bits_per_second(bits: u64) -> Option<Self> {
        (bits > 0).then_some(Self(bits))
    }

    /// Bytes that cross in `duration`, rounded up.
    pub(crate) fn bytes_in(self, duration: Duration) -> u64 {
        let bits = u128::from(self.0) * u128::from(nanoseconds(duration));
        u64::try_from(bits.div_ceil(BIT_NANOSECONDS_PER_BYTE)).unwrap_or(u64::MAX)
    }
}

/// A probability in parts per billion, at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss(u32);

impl Loss {
    /// None above a billion.
    pub(crate) fn from_parts_per_billion(parts: u32) -> Option<Self> {
        (parts <= LOSS_CERTAIN).then_some(Self(parts))
    }
}

/// Settings of one direction of the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineConfig {
    /// The bottleneck; without one packets never queue.
    pub(crate) rate: Option<Rate>,
    /// Time from the end of a packet's transmission to its arrival.
    pub(crate) delay: Duration,
    /// Chance of each packet offered to vanish.
    pub(crate) loss: Loss,
    /// Most bytes that may wait for the bottleneck. A packet that finds it idle always passes, however large.
    pub(crate) queue_bytes: u64,
    /// Where the sequence of losses starts.
    pub(crate) seed: u64,
}

impl LineConfig {
    /// Most bytes that the line holds at once: waiting bytes, and bytes that travel. This bounds memory.
    pub(crate) fn held_bytes_max(&self) -> u64 {
        match self.rate {
            None => HELD_BYTES_MAX_UNLIMITED,
            Some(rate) => rate
                .bytes_in(self.delay)
                .saturating_add(self.queue_bytes)
                .saturating_add(LATE_BYTES),
        }
    }
}

/// Why a packet did not enter the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Drawn by lot.
    Lost,
    /// The queue before the bottleneck was full.
    QueueFull,
    /// The line held as much as it may; only without a rate, or when the emulator itself falls behind.
    Overflow,
}

/// Totals so far. Bytes are those of the IP packets, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) offered: u64,
    pub(crate) offered_bytes: u64,
    pub(crate) delivered: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) lost: u64,
    pub(crate) queue_full: u64,
    pub(crate) overflow: u64,
    /// The largest number of bytes in the queue, with the packet in transmission.
    pub(crate) queue_bytes_max: u64,
}

/// One direction. `P` is the type of a packet.
#[derive(Debug)]
pub(crate) struct Line<P> {
    config: LineConfig,
    lots: Lots,
    /// When the bottleneck has sent all it accepted.
    free_at: Time,
    /// The remainder from rounding `free_at` down, in bit-nanoseconds, below the rate.
    remainder: u64,
    under_way: VecDeque<Arrival<P>>,
    held_bytes: u64,
    counters: Counters,
}

#[derive(Debug)]
struct Arrival<P> {
    at: Time,
    bytes: u32,
    packet: P,
}

impl<P> Line<P> {
    pub(crate) fn new(config: LineConfig) -> Self {
        Self {
            config,
            lots: Lots(Seeded(config.seed)),
            free_at: Time::default(),
            remainder: 0,
            under_way: VecDeque::new(),
            held_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Takes a packet of `bytes` in, or returns it. `now` never decreases.
    pub(crate) fn handle_packet(
        &mut self,
        now: Time,
        bytes: u32,
        packet: P,
    ) -> Result<(), (Refusal, P)> {
        let size = u64::from(bytes);
        self.counters.offered += 1;
        self.counters.offered_bytes += size;
        if self.lots.draw(self.config.loss) {
            self.counters.lost += 1;
            return Err((Refusal::Lost, packet));
        }
        if self.held_bytes + size > self.config.held_bytes_max() {
            self.counters.overflow += 1;
            return Err((Refusal::Overflow, packet));
        }
        let queued = self.queued_bytes(now);
        if queued > 0 && queued + size > self.config.queue_bytes {
            self.counters.queue_full += 1;
            return Err((Refusal::QueueFull, packet));
        }
        self.counters.queue_bytes_max = self.counters.queue_bytes_max.max(queued + size);
        let at = self
            .transmit(now, size)
            .plus(nanoseconds(self.config.delay));
        self.held_bytes += size;
        self.under_way.push_back(Arrival { at, bytes, packet });
        Ok(())
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn poll_packet(&mut self, now: Time) -> Option<P> {
        let arrival = self.under_way.pop_front_if(|next| next.at <= now)?;
        let size = u64::from(arrival.bytes);
        self.held_bytes -= size;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += size;
        Some(arrival.packet)
    }

    /// When to call [`Line::poll_packet`] next; none while the line is empty.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.under_way.front().map(|next| next.at)
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// The bytes that the bottleneck has accepted and not sent by `now`, rounded up.
    fn queued_bytes(&self, now: Time) -> u64 {
        let wait = self.free_at.0.saturating_sub(now.0);
        self.config
            .rate
            .map_or(0, |rate| rate.bytes_in(Duration::from_nanos(wait)))
    }

    /// Accepts a packet for transmission and returns when its last bit is out.
    fn transmit(&mut self, now: Time, size: u64) -> Time {
        let Some(rate) = self.config.rate else {
            return now;
        };
        if self.free_at < now {
            self.free_at = now;
            self.remainder = 0;
        }
        // At most 2³² bytes: the product needs 65 bits.
        let work = u128::from(size) * BIT_NANOSECONDS_PER_BYTE + u128::from(self.remainder);
        let rate = u128::from(rate.0);
        self.free_at = self
            .free_at
            .plus(u64::try_from(work / rate).unwrap_or(u64::MAX));
        self.remainder = u64::try_from(work % rate).expect("a remainder is below its divisor");
        self.free_at
    }
}

/// The sequence of lots.
#[derive(Debug)]
struct Lots(Seeded);

impl Lots {
    fn draw(&mut self, loss: Loss) -> bool {
        // Scaled to 0 ..= LOSS_CERTAIN - 1 without bias that matters: 2⁶⁴ is ten digits longer.
        let lot = (u128::from(self.0.draw()) * u128::from(LOSS_CERTAIN)) >> 64;
        lot < u128::from(loss.0)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const LOSS_CERTAIN: u32 = 1_000_000_000;
const BIT_NANOSECONDS_PER_BYTE: u128 = 8 * 1_000_000_000;
/// 20 Gbit/s over 100 ms: more than the emulator forwards on any machine we know.
const HELD_BYTES_MAX_UNLIMITED: u64 = 256 << 20;
/// A few packets of 64 KiB: one in transmission, and those due that wait for the emulator's next round.
const LATE_BYTES: u64 = 1 << 20;

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
