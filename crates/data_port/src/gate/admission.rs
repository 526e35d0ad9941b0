//! Decides which unauthenticated connections may stay. A new connection is always admitted; if necessary, the oldest connection of the
//! address with the most connections is closed. Does not close connections or read a clock.
//!
//! sshd and nginx shed load in the same way: a flood displaces itself, because its address has the most connections. An address from which
//! a peer with a grant has connected before has separate slots, which no other address can use.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// Addresses from which peers with grants have connected; the oldest address is dropped first.
const KNOWN_MAX: usize = 4096;

/// Limits of unauthenticated connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most for one unknown address.
    pub(super) per_address: usize,
    /// Most for one known address: all streams of a client may connect at once.
    pub(super) per_known_address: usize,
    /// Most for all unknown addresses together. The limit for all known addresses is the same.
    pub(super) all: usize,
}

/// Connections that have not authenticated yet.
pub(super) struct Admission {
    bounds: Bounds,
    strangers: HashMap<u64, Stranger>,
    next: u64,
    known: HashSet<IpAddr>,
    known_by_age: VecDeque<IpAddr>,
}

struct Stranger {
    address: IpAddr,
    since: Instant,
    known: bool,
}

impl Admission {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            strangers: HashMap::new(),
            next: 0,
            known: HashSet::new(),
            known_by_age: VecDeque::new(),
        }
    }

    /// Admits a connection. Returns its number, and the number of the connection that must close for it, if any.
    pub(super) fn admit(&mut self, address: IpAddr, now: Instant) -> (u64, Option<u64>) {
        let address = network_of(address);
        let known = self.known.contains(&address);
        let displaced = self.makes_way(address, known);
        if let Some(id) = displaced {
            self.strangers.remove(&id);
        }
        let id = self.next;
        self.next += 1;
        let since = now;
        self.strangers.insert(
            id,
            Stranger {
                address,
                since,
                known,
            },
        );
        (id, displaced)
    }

    /// Removes a connection that has authenticated or is gone.
    pub(super) fn leave(&mut self, id: u64) {
        self.strangers.remove(&id);
    }

    /// Records that a peer with a grant has connected from this address.
    pub(super) fn know(&mut self, address: IpAddr) {
        let address = network_of(address);
        if !self.known.insert(address) {
            return;
        }
        self.known_by_age.push_back(address);
        if self.known_by_age.len() > KNOWN_MAX
            && let Some(oldest) = self.known_by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The connection that closes to make room for a new connection from `address`: the oldest connection of the addresses that have
    /// most. `address` counts among them only if it is at its limit, or alone has the most.
    fn makes_way(&self, address: IpAddr, known: bool) -> Option<u64> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let rivals = || self.strangers.values().filter(|one| one.known == known);
        for one in rivals() {
            *counts.entry(one.address).or_default() += 1;
        }
        let each = match known {
            true => self.bounds.per_known_address,
            false => self.bounds.per_address,
        };
        let own = counts.get(&address).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        let only_own = own == most && counts.values().filter(|count| **count == most).count() == 1;
        let gives = |one: &IpAddr| match *one == address {
            true => own >= each || only_own,
            false => own < each && counts.get(one) == Some(&most),
        };
        if own < each && rivals().count() < self.bounds.all {
            return None;
        }
        self.strangers
            .iter()
            .filter(|(_, one)| one.known == known && gives(&one.address))
            .min_by_key(|(id, one)| (one.since, **id))
            .map(|(id, _)| *id)
    }
}

/// The network of one host or subscriber: an IPv4 address, or the upper half of an IPv6 address.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        per_address: 4,
        per_known_address: 6,
        all: 10,
    };

    fn address(number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
    }

    #[test]
    fn a_flood_displaces_itself_and_a_known_address_has_reserved_places() {
        let start = Instant::now();
        let mut admission = Admission::new(BOUNDS);
        admission.know(address(9));
        let (friend, displaced) = admission.admit(address(9), start);
        assert_eq!(displaced, None);
        let (lonely, _) = admission.admit(address(8), start);
        for number in 0..1000_u64 {
            let at = start + Duration::from_millis(number);
            let (_, displaced) = admission.admit(address((number % 5) as u8), at);
            assert_ne!(displaced, Some(friend));
            assert_ne!(displaced, Some(lonely));
        }
    }

    #[test]
    fn of_equal_addresses_the_oldest_connection_makes_way() {
        let start = Instant::now();
        let at = |number: u8| start + Duration::from_millis(number.into());
        let mut admission = Admission::new(BOUNDS);
        let first: Vec<u64> = (0..10)
            .map(|number| admission.admit(address(number), at(number)).0)
            .collect();
        let (newest, displaced) = admission.admit(address(99), at(10));
        assert_eq!(displaced, Some(first[0]));
        for number in 50..59 {
            let (_, displaced) = admission.admit(address(number), at(number));
            assert_ne!(displaced, Some(newest), "{number}");
        }
    }

    #[test]
    fn one_subscriber_of_ipv6_is_one_address() {
        let start = Instant::now();
        let mut admission = Admission::new(BOUNDS);
        let mut first = None;
        for host in 0..5_u16 {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, host, 0, 0, 1);
            let (id, displaced) = admission.admit(IpAddr::V6(address), start);
            let first = *first.get_or_insert(id);
            assert_eq!(displaced, (host == 4).then_some(first));
        }
    }

    proptest! {
        #[test]
        fn bounds_hold_and_only_one_of_the_address_with_the_most_makes_way(
            steps in proptest::collection::vec((0..12_u8, 0..4_u8), 1..300),
        ) {
            let start = Instant::now();
            let mut admission = Admission::new(BOUNDS);
            let mut alive: Vec<u64> = Vec::new();
            for (step, (from, what)) in steps.into_iter().enumerate() {
                let now = start + Duration::from_millis(step as u64);
                match what {
                    0 if !alive.is_empty() => admission.leave(alive.swap_remove(usize::from(from) % alive.len())),
                    1 => admission.know(address(from)),
                    _ => {
                        let (id, displaced) = admission.admit(address(from), now);
                        prop_assert!(displaced.is_none_or(|gone| alive.contains(&gone)));
                        alive.retain(|one| Some(*one) != displaced);
                        alive.push(id);
                    }
                }
                prop_assert_eq!(alive.len(), admission.strangers.len());
                for known in [false, true] {
                    let rivals: Vec<_> = admission.strangers.values().filter(|one| one.known == known).collect();
                    prop_assert!(rivals.len() <= BOUNDS.all);
                    let each = if known { BOUNDS.per_known_address } else { BOUNDS.per_address };
                    for one in &rivals {
                        let own = rivals.iter().filter(|other| other.address == one.address).count();
                        prop_assert!(own <= each);
                    }
                }
            }
        }
    }
}
