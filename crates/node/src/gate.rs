//! Counts connections, so that nobody takes more of the daemon than is meant for one peer.
//! Does not know what the connections are for.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use godwit_net::IdentityId;

/// Connections that have not proven who they are, over all addresses: a thread and a few pages each.
const STRANGERS_MAX: usize = 256;

/// The counts.
pub(crate) struct Gate {
    per_peer: usize,
    all: usize,
    strangers: Arc<Counts<IpAddr>>,
    peers: Arc<Counts<IdentityId>>,
}

struct Counts<K> {
    inner: Mutex<(HashMap<K, usize>, usize)>,
}

/// A place taken; given back when dropped.
pub(crate) struct Place<K: Eq + Hash + Copy> {
    counts: Arc<Counts<K>>,
    key: K,
}

impl Gate {
    pub(crate) fn new(per_peer: usize, all: usize) -> Self {
        Self {
            per_peer,
            all,
            strangers: Arc::new(Counts::default()),
            peers: Arc::new(Counts::default()),
        }
    }

    /// A place for a connection that has not said who it is; `None` if that address, or all together, have too many.
    pub(crate) fn stranger(&self, address: IpAddr) -> Option<Place<IpAddr>> {
        Counts::take(
            &self.strangers,
            address,
            self.per_peer,
            STRANGERS_MAX.min(self.all),
        )
    }

    /// A place for a stream of a known peer.
    pub(crate) fn peer(&self, identity: IdentityId) -> Option<Place<IdentityId>> {
        Counts::take(&self.peers, identity, self.per_peer, self.all)
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self {
            inner: Mutex::new((HashMap::new(), 0)),
        }
    }
}

impl<K: Eq + Hash + Copy> Counts<K> {
    fn take(counts: &Arc<Self>, key: K, each: usize, all: usize) -> Option<Place<K>> {
        let mut inner = counts.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (map, total) = &mut *inner;
        let count = map.entry(key).or_default();
        if *count >= each || *total >= all {
            if *count == 0 {
                map.remove(&key);
            }
            return None;
        }
        *count += 1;
        *total += 1;
        Some(Place {
            counts: Arc::clone(counts),
            key,
        })
    }
}

impl<K: Eq + Hash + Copy> Drop for Place<K> {
    fn drop(&mut self) {
        let mut inner = self
            .counts
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (map, total) = &mut *inner;
        *total -= 1;
        if let Some(count) = map.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                map.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn places_are_limited_for_each_and_for_all_and_come_back() {
        let gate = Gate::new(2, 1024);
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = gate.stranger(address).unwrap();
        let second = gate.stranger(address).unwrap();
        assert!(gate.stranger(address).is_none());
        drop(first);
        let third = gate.stranger(address).unwrap();
        let others: Vec<_> = (0..STRANGERS_MAX - 2)
            .map(|index| {
                gate.stranger(IpAddr::V4(Ipv4Addr::from(u32::try_from(index).unwrap())))
                    .unwrap()
            })
            .collect();
        assert!(gate.stranger(IpAddr::V4(Ipv4Addr::BROADCAST)).is_none());
        drop((second, third, others));
        assert_eq!(gate.strangers.inner.lock().unwrap().1, 0);
        assert!(gate.strangers.inner.lock().unwrap().0.is_empty());
    }
}
