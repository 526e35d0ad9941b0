//! Bounds what strangers make this node do: lines in its log, and looks at invitations.
//! Decides nothing about peers that have a grant, and refuses nobody by itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::gate::network_of;

/// Lines about strangers that the log takes in a row, and the time after which it takes one more.
const LINES: Rate = Rate {
    most: 20,
    every: Duration::from_secs(10),
};

/// Tries to join from one address in a row, and the time after which one more is looked at. A try with a good invitation does not count.
const JOINS: Rate = Rate {
    most: 10,
    every: Duration::from_secs(10),
};

/// Addresses whose tries are counted. The one that tried longest ago makes way.
const ADDRESSES_MAX: usize = 4_096;

#[derive(Clone, Copy)]
struct Rate {
    most: u32,
    every: Duration,
}

/// What is left of a rate.
struct Left {
    count: u32,
    /// When one was added last.
    at: Instant,
}

/// What strangers did of late.
#[derive(Default)]
pub(crate) struct Noise {
    lines: Mutex<(Option<Left>, u64)>,
    joins: Mutex<HashMap<IpAddr, Left>>,
}

impl Rate {
    /// Takes one, if there is one.
    fn take(self, left: &mut Left, now: Instant) -> bool {
        let past = now.saturating_duration_since(left.at).as_secs() / self.every.as_secs();
        let past = u32::try_from(past).unwrap_or(u32::MAX);
        if past > 0 {
            left.count = left.count.saturating_add(past).min(self.most);
            left.at += self.every.saturating_mul(past);
        }
        match left.count.checked_sub(1) {
            Some(count) => {
                left.count = count;
                true
            }
            None => false,
        }
    }

    fn full(self, now: Instant) -> Left {
        Left {
            count: self.most,
            at: now,
        }
    }
}

impl Noise {
    /// Whether the log takes a line about a stranger now, and how many it left out since the last one.
    pub(crate) fn line(&self, now: Instant) -> Option<u64> {
        let mut lines = locked(&self.lines);
        let (left, left_out) = &mut *lines;
        let left = left.get_or_insert_with(|| LINES.full(now));
        if LINES.take(left, now) {
            return Some(std::mem::take(left_out));
        }
        *left_out = left_out.saturating_add(1);
        None
    }

    /// Whether a try to join from this address is looked at now.
    pub(crate) fn may_join(&self, address: IpAddr, now: Instant) -> bool {
        let address = network_of(address);
        let mut joins = locked(&self.joins);
        if joins.len() >= ADDRESSES_MAX && !joins.contains_key(&address) {
            let oldest = joins.iter().min_by_key(|(_, left)| left.at);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                joins.remove(&oldest);
            }
        }
        JOINS.take(joins.entry(address).or_insert_with(|| JOINS.full(now)), now)
    }

    /// A node joined from this address.
    pub(crate) fn joined(&self, address: IpAddr) {
        locked(&self.joins).remove(&network_of(address));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    #[test]
    fn a_flood_of_lines_becomes_a_few_that_tell_how_many_are_missing() {
        let (noise, start) = (Noise::default(), Instant::now());
        let written = (0..1_000).filter(|_| noise.line(start).is_some()).count();
        assert_eq!(written, 20);
        assert_eq!(noise.line(start + Duration::from_secs(9)), None);
        let later = start + Duration::from_secs(10);
        assert_eq!(noise.line(later), Some(981));
        assert_eq!(noise.line(later), None);
    }

    #[test]
    fn tries_are_counted_by_address_and_memory_is_bounded() {
        let (noise, start) = (Noise::default(), Instant::now());
        let tries = |number| {
            let tries = (0..100).filter(|_| noise.may_join(address(number), start));
            tries.count()
        };
        assert_eq!((tries(1), tries(2)), (10, 10));
        noise.joined(address(1));
        assert!(noise.may_join(address(1), start));
        for number in 0..10_000 {
            noise.may_join(address(number), start + Duration::from_secs(1));
        }
        assert_eq!(noise.joins.lock().expect("a lock").len(), ADDRESSES_MAX);
        let later = start + Duration::from_secs(21);
        let again = (0..100).filter(|_| noise.may_join(address(9_999), later));
        assert_eq!(again.count(), 10, "nine were left, and two came back");
    }
}
