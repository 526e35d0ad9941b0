//! The pace of a transfer in the background: as much as nobody else wants, judged by delay, loss and what arrives.
//! A pure controller, one for each path: samples and time in, a rate out. Sets no socket and reads no clock.
//!
//! In the spirit of LEDBAT (RFC 6817): a queue that grows says that somebody else sends too, long before anything is lost. Added
//! to TCP, whatever its congestion control: only its greatest pace is set.
//!
//! The pace rises while round trips stay near the least one, and falls as soon as a queue grows or packets are lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What the path did since the last sample.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathSample {
    /// Round trip as the kernel smooths it, of the streams of the path.
    pub round_trip: Duration,
    /// The least of late.
    pub round_trip_min: Duration,
    /// Bytes that the other end's kernel acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes sent, those sent again included.
    pub sent_bytes: u64,
    /// Bytes sent again.
    pub resent_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Streams of the path.
    pub streams: u32,
}

/// The pace of one path.
#[derive(Debug)]
pub struct Background {
    /// Bytes a second.
    rate: f64,
    /// When each of the last minutes began, and the least round trip in it.
    minutes: VecDeque<(Instant, Duration)>,
    last: Option<Instant>,
    /// When others were noticed last: not slowed again before what that did can be seen.
    slowed: Option<Instant>,
    /// Bytes that arrived in the last steps, and how long each took.
    arrived: [(f64, f64); ARRIVALS],
    steps: usize,
}

/// Streams measure themselves as often as steps are made: one step alone may see nothing, or all of two.
const ARRIVALS: usize = 5;

/// Bytes a second at the beginning, and the least ever: a trickle that keeps the measurement alive.
const FIRST: f64 = 4e6;
const FLOOR: f64 = 250e3;

/// A queue of this, and of this part of the round trip, is held for chance.
const QUEUE_MIN: Duration = Duration::from_millis(2);
const QUEUE_PART: f64 = 0.04;

/// A receiver keeps an acknowledgement back until a second segment comes, or for so long.
const ACK_DELAY_MAX: Duration = Duration::from_millis(50);

/// How long the least round trip is remembered: RFC 6817 has ten minutes.
const MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// More than this part sent again says that there is no room.
const LOSS: f64 = 0.02;

/// Beyond what arrived, room to find out that more would.
const HEADROOM: f64 = 1.25;

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
    /// Bytes a second of a path of which nothing is known yet.
    pub fn first() -> u64 {
        whole(FIRST)
    }

    /// The least round trip of the last minutes (the base delay of RFC 6817, with a minimum for each minute): a way that has
    /// become longer for good is no queue for ever.
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

    /// Takes a sample, and gives the most bytes a second that the path should be sent now.
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
        // At a small pace it is the next segment that an acknowledgement waits for, and no queue.
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
            // By time, not by steps, and the faster the longer nobody else was noticed.
            let calm = self
                .slowed
                .map(|slowed| now.duration_since(slowed).as_secs());
            let growth: f64 = match calm {
                None => 8.0,
                Some(0..5) => 1.2,
                Some(5..10) => 1.4,
                Some(_) => 2.0,
            };
            self.rate *= growth.powf(passed);
            // Nothing is gained by a pace that nothing follows, and others would pay for it later.
            let (bytes, time) = self
                .arrived
                .iter()
                .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            self.rate = self.rate.min((bytes / time * HEADROOM).max(FIRST));
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
