//! Counts how often this process stood still because it was stopped or its machine slept. Others may have taken over its work during a
//! standstill. Does not decide about that work.
//!
//! A thread makes regular beats. If a caller asks while the last beat is too old, the caller counts the standstill, so a thread that
//! wakes first cannot hide it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Interval between two beats.
const EVERY: Duration = Duration::from_millis(500);
/// A process without a beat for this long stood still. A cluster does not take over work before 5 s.
const LATE_MILLIS: u64 = 3_000;

/// How often this process has been stopped so far. Never decreases, and is cheap.
#[must_use]
pub fn stops() -> u64 {
    static PULSE: OnceLock<Pulse> = OnceLock::new();
    let pulse = PULSE.get_or_init(|| {
        let beats = || {
            loop {
                if let Some(pulse) = PULSE.get() {
                    pulse.beats(millis());
                }
                thread::sleep(EVERY);
            }
        };
        // Without the thread, each late query counts as a standstill. The caller then only checks once more.
        let _ = thread::Builder::new()
            .name("gw-pulse".to_owned())
            .spawn(beats);
        Pulse::new(millis())
    });
    pulse.stops(millis())
}

/// Milliseconds since the machine started, including sleep.
fn millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

struct Pulse {
    last: AtomicU64,
    stops: AtomicU64,
    counting: Mutex<()>,
}

impl Pulse {
    fn new(now: u64) -> Self {
        Self {
            last: AtomicU64::new(now),
            stops: AtomicU64::new(0),
            counting: Mutex::default(),
        }
    }

    fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.last.load(Ordering::SeqCst)) > LATE_MILLIS
    }

    fn stops(&self, now: u64) -> u64 {
        if self.is_late(now) {
            let _one = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_late(now) {
                // In this order: a reader of the new beat also sees the new count.
                self.stops.fetch_add(1, Ordering::SeqCst);
                self.last.fetch_max(now, Ordering::SeqCst);
            }
        }
        self.stops.load(Ordering::SeqCst)
    }

    fn beats(&self, now: u64) {
        self.stops(now);
        self.last.fetch_max(now, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_process_is_counted_once_for_each_waking_order() {
        let pulse = Pulse::new(0);
        for now in (0..10_000).step_by(500) {
            pulse.beats(now);
            assert_eq!(pulse.stops(now + LATE_MILLIS), 0);
        }
        let woken = 60_000;
        // After a stop, either the beating thread or an asking thread wakes first.
        pulse.beats(woken);
        assert_eq!((pulse.stops(woken), pulse.stops(woken + 1)), (1, 1));
        let again = 2 * woken;
        assert_eq!((pulse.stops(again), pulse.stops(again)), (2, 2));
        pulse.beats(again + 1);
        assert_eq!(pulse.stops(again + 2), 2);
    }
}
