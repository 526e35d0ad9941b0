//! Bounds the work that others can cause here: lines in the log for strangers and for refused peers, and checks of invitations. Does
//! not decide rights, and refuses no connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_net::IdentityId;

use crate::gate::network_of;

/// Lines about strangers that the log accepts in a row, and the time after which it accepts one more.
const LINES: Rate = Rate {
    most: 20,
    every: Duration::from_secs(10),
};

/// Refusals of one peer that the log accepts in a row, and the time after which it accepts one more; then the same for all peers.
const REFUSALS: Rate = Rate {
    most: 100,
    every: Duration::from_secs(2),
};
const REFUSALS_OF_ALL: Rate = Rate {
    most: 1_000,
    every: Duration::from_secs(1),
};

/// Peers whose refusals are counted. Beyond this number, the peer refused longest ago is dropped.
const PEERS_MAX: usize = 4_096;

/// Attempts to join from one address in a row, and the time after which one more is checked. An attempt with a valid invitation does
/// not count.
const JOINS: Rate = Rate {
    most: 10,
    every: Duration::from_secs(10),
};

/// Addresses whose attempts are counted. Beyond this number, the address with the oldest attempt is dropped.
const ADDRESSES_MAX: usize = 4_096;

#[derive(Clone, Copy)]
struct Rate {
    most: u32,
    every: Duration,
}

/// The remaining allowance of a rate.
struct Left {
    count: u32,
    /// When the allowance last grew.
    at: Instant,
}

/// A rate of lines, and how many lines were left out since the last one.
type Lines = (Option<Left>, u64);

/// Recent events of strangers and refused peers.
#[derive(Default)]
pub(crate) struct Noise {
    lines: Mutex<Lines>,
    refusals: Mutex<(Lines, HashMap<IdentityId, Lines>)>,
    joins: Mutex<HashMap<IpAddr, Left>>,
}

impl Rate {
    /// Uses one unit of the allowance, if there is one.
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

    /// Takes one line, and returns the number of lines that were left out before it.
    fn line(self, (left, left_out): &mut Lines, now: Instant) -> Option<u64> {
        if self.take(left.get_or_insert_with(|| self.full(now)), now) {
            return Some(std::mem::take(left_out));
        }
        *left_out = left_out.saturating_add(1);
        None
    }

    fn full(self, now: Instant) -> Left {
        Left {
            count: self.most,
            at: now,
        }
    }
}

impl Noise {
    /// Whether the log accepts a line about a stranger now, and how many it left out since the last one.
    pub(crate) fn line(&self, now: Instant) -> Option<u64> {
        LINES.line(&mut locked(&self.lines), now)
    }

    /// Whether the log accepts a line about a refusal of this peer now, and the number of refusals omitted since the last line.
    pub(crate) fn refusal(&self, peer: IdentityId, now: Instant) -> Option<u64> {
        let mut refusals = locked(&self.refusals);
        let (all, each) = &mut *refusals;
        if each.len() >= PEERS_MAX && !each.contains_key(&peer) {
            let at = |(_, lines): &(&IdentityId, &Lines)| lines.0.as_ref().map(|left| left.at);
            let oldest = each.iter().min_by_key(at).map(|(peer, _)| *peer);
            oldest.and_then(|oldest| each.remove(&oldest));
        }
        let own = each.entry(peer).or_default();
        let left_out = REFUSALS.line(own, now)?;
        if REFUSALS_OF_ALL.line(all, now).is_none() {
            own.1 = left_out.saturating_add(1);
            return None;
        }
        Some(left_out)
    }

    /// Whether an attempt to join from this address is checked now.
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

    /// Records that a node joined from this address.
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
    fn refusals_of_one_peer_use_up_nothing_of_another() {
        let (noise, start) = (Noise::default(), Instant::now());
        let peer = |letter: &str| -> IdentityId {
            let text = format!("gw1-{}a", letter.repeat(51));
            text.parse().expect("an identity")
        };
        let lines = |letter: &str, now: Instant| {
            let taken = (0..500).filter_map(|_| noise.refusal(peer(letter), now));
            taken.collect::<Vec<u64>>()
        };
        assert_eq!(lines("a", start).len(), 100);
        assert_eq!(lines("b", start).len(), 100);
        assert_eq!(lines("a", start + Duration::from_secs(2)), [400]);
        let all: usize = ["c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"]
            .iter()
            .map(|letter| lines(letter, start).len())
            .sum();
        assert!((790..=802).contains(&all), "{all}");
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
