//! Computes the pace of a background transfer: the capacity that other traffic leaves free, judged by delay, loss and delivered
//! bytes. A pure controller, one for each path: its inputs are samples and the time, its output is a rate. Sets no socket and reads
//! no clock.
//!
//! The design follows LEDBAT (RFC 6817): a growing queue shows other senders long before packets are lost. The controller works
//! on top of TCP with any congestion control, because it sets only the maximum pace.
//!
//! The pace rises while the RTT stays near its minimum. The pace falls as soon as a queue grows or packets are lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Counters of the path since the last sample, and its RTT.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathSample {
    /// Smoothed RTT of the path's streams, from the kernel.
    pub round_trip: Duration,
    /// Lowest recent RTT.
    pub round_trip_min: Duration,
    /// Bytes that the other end's kernel acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes sent, including retransmissions.
    pub sent_bytes: u64,
    /// Bytes retransmitted.
    pub resent_bytes: u64,
    /// Segment size in bytes.
    pub segment_bytes: u64,
    /// Streams of the path.
    pub streams: u32,
}

/// The pace of one path.
#[derive(Debug)]
pub struct Background {
    /// Current pace in bytes a second.
    rate: f64,
    /// Start of each of the last minutes, and the lowest RTT in it.
    minutes: VecDeque<(Instant, Duration)>,
    last: Option<Instant>,
    /// Time of the last slowdown. The pace does not fall again until the effect of that slowdown can be seen.
    slowed: Option<Instant>,
    /// Bytes that arrived in each of the last steps, and the length of each step.
    arrived: [(f64, f64); ARRIVALS],
    steps: usize,
}

/// Streams are measured as often as steps are made, so one step may contain no measurement, or two.
const ARRIVALS: usize = 5;

/// Initial pace and lowest pace in bytes a second. The lowest pace is a trickle that keeps the measurement alive.
const FIRST: f64 = 16e6;
const FLOOR: f64 = 250e3;

/// A queue up to this delay, or up to this share of the RTT, counts as noise.
const QUEUE_MIN: Duration = Duration::from_millis(2);
const QUEUE_PART: f64 = 0.04;

/// Longest time that a receiver delays an acknowledgement while it waits for a second segment.
const ACK_DELAY_MAX: Duration = Duration::from_millis(50);

/// Minutes for which the lowest RTT is remembered. RFC 6817 uses ten.
const MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// A higher share of retransmitted bytes means that the path has no room.
const LOSS: f64 = 0.02;

/// The pace may exceed the delivered rate by this factor, to find out whether the path delivers more.
const HEADROOM: f64 = 1.25;

/// The same factor at the start, before other traffic was noticed. Then the best of the last steps counts, in place of their mean: a mean
/// lags behind a growing pace and would hold the growth to 1.6 a second.
const START_HEADROOM: f64 = 2.5;
const START_ARRIVALS: usize = 3;

/// Growth in a second at the start: the pace doubles with each measurement of the streams, as slow start doubles with each RTT.
const START_GROWTH: f64 = 32.0;

impl Default for Background {
    fn default() -> Self {
        Self {
            rate: FIRST,
            minutes: VecDeque::new(),
            last: None,
            slowed: None,
            arrived: [(0.0, 0.0); ARRIVALS],
            steps: 0,
        }
    }
}

impl Background {
    /// Initial pace, in bytes a second, of a path without measurements.
    pub fn first() -> u64 {
        whole(FIRST)
    }

    /// The lowest RTT of the last minutes: the base delay of RFC 6817, with one minimum for each minute. Old minima expire, so that a
    /// permanently higher RTT is not mistaken for a queue.
    fn base(&mut self, now: Instant, seen: Duration) -> Duration {
        match self.minutes.back_mut() {
            Some((began, least)) if now.duration_since(*began) < MINUTE => {
                *least = seen.min(*least)
            }
            _ => self.minutes.push_back((now, seen)),
        }
        if self.minutes.len() > MINUTES {
            self.minutes.pop_front();
        }
        let least = self.minutes.iter().map(|(_, least)| *least).min();
        least.unwrap_or(seen)
    }

    /// Bytes and seconds of the last steps.
    fn last(&self, steps: usize) -> impl Iterator<Item = (f64, f64)> {
        (1..=steps.min(self.steps)).map(|back| self.arrived[(self.steps - back) % ARRIVALS])
    }

    /// Delivered bytes a second over the last steps; at least one step was made.
    fn delivered(&self) -> f64 {
        let last = self.last(ARRIVALS);
        let (bytes, time) = last.fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
        bytes / time
    }

    /// Delivered bytes a second in the best of the first steps.
    fn delivered_at_best(&self) -> f64 {
        let rates = self.last(START_ARRIVALS).map(|(bytes, time)| bytes / time);
        rates.fold(0.0, f64::max)
    }

    /// Processes a sample and returns the pace for the path, in bytes a second.
    pub fn step(&mut self, now: Instant, sample: &PathSample) -> u64 {
        let Some(last) = self.last.replace(now) else {
            return whole(self.rate);
        };
        if sample.round_trip.is_zero() {
            return whole(self.rate);
        }
        let passed = now.duration_since(last).as_secs_f64().max(1e-3);
        self.arrived[self.steps % ARRIVALS] = (sample.acknowledged_bytes as f64, passed);
        self.steps += 1;
        let least = self.base(now, sample.round_trip_min);
        let queue = sample.round_trip.saturating_sub(least);
        // At a low pace, an acknowledgement waits for the next segment. This wait is not a queue.
        let next = (2 * sample.segment_bytes * u64::from(sample.streams)) as f64 / self.rate;
        let chance = Duration::from_secs_f64(next.min(ACK_DELAY_MAX.as_secs_f64()));
        let target = QUEUE_MIN.max(least.mul_f64(QUEUE_PART)) + chance;
        let fullness = queue.as_secs_f64() / target.as_secs_f64();
        let lost =
            sample.sent_bytes > 0 && sample.resent_bytes as f64 > LOSS * sample.sent_bytes as f64;
        let settled = self.slowed.is_none_or(|slowed| {
            now.duration_since(slowed) >= (sample.round_trip * 2).max(Duration::from_millis(200))
        });
        if fullness > 1.0 || lost {
            if settled {
                self.slowed = Some(now);
                self.rate *= match fullness {
                    _ if lost => 0.5,
                    2.0.. => 0.5,
                    _ => 0.8,
                };
            }
        } else if fullness < 0.5 && settled {
            // The growth depends on time, not on steps. The growth is faster the longer no other traffic was noticed.
            let calm = self
                .slowed
                .map(|slowed| now.duration_since(slowed).as_secs());
            let growth: f64 = match calm {
                None => START_GROWTH,
                Some(0..5) => 1.2,
                Some(5..10) => 1.4,
                Some(_) => 2.0,
            };
            self.rate *= growth.powf(passed);
            // A pace far above the delivered rate has no use, and would hurt other traffic later.
            let most = match self.slowed {
                None => self.delivered_at_best() * START_HEADROOM,
                Some(_) => self.delivered() * HEADROOM,
            };
            self.rate = self.rate.min(most.max(FIRST));
        }
        self.rate = self.rate.max(FLOOR);
        whole(self.rate)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
fn whole(rate: f64) -> u64 {
    rate as u64
}

#[cfg(test)]
mod tests;
