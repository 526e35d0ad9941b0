//! Owns how many connections there may be, of one user or address and of all.
//! Closes none.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::caller::Peer;

/// Connections of the network, and as many of this machine: a page has six, and scripts one each.
const ALL_MAX: u32 = 512;

/// Of one address, or of one user of this machine.
const EACH_MAX: usize = 128;

/// The places of connections.
pub(crate) struct Places {
    local: Arc<Semaphore>,
    network: Arc<Semaphore>,
    each: Mutex<HashMap<Key, usize>>,
}

/// Those who share a number of places.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Key {
    User(u32),
    Address(IpAddr),
}

/// A place taken; given back when dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    key: Key,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new() -> Self {
        let all = || Arc::new(Semaphore::new(ALL_MAX as usize));
        Self {
            local: all(),
            network: all(),
            each: Mutex::default(),
        }
    }

    /// A place for one more connection, if there is one.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        let (key, all) = match peer {
            Peer::Local { uid } => (Key::User(uid), &self.local),
            Peer::Network(address) => (Key::Address(network_of(address.ip())), &self.network),
        };
        let permit = Arc::clone(all).try_acquire_owned().ok()?;
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        let count = each.entry(key).or_default();
        if *count >= EACH_MAX {
            return None;
        }
        *count += 1;
        Some(Place {
            places: Arc::clone(self),
            key,
            _permit: permit,
        })
    }

    /// Waits until no connection is left.
    pub(crate) async fn wait_until_empty(&self) {
        for all in [&self.local, &self.network] {
            // Fails only if the semaphore is closed, which nobody does.
            let _ = all.acquire_many(ALL_MAX).await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut each = self
            .places
            .each
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = each.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                each.remove(&self.key);
            }
        }
    }
}

/// What one host or subscriber has: an address of IPv4, the upper half of one of IPv6.
fn network_of(address: IpAddr) -> IpAddr {
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
    use super::*;

    #[test]
    fn one_address_does_not_take_the_places_of_others() {
        let places = Arc::new(Places::new());
        let peer = |text: &str| Peer::Network(text.parse().expect("an address"));
        let one = peer("[2001:db8::1]:1");
        let taken: Vec<Place> = (0..EACH_MAX).map_while(|_| places.take(one)).collect();
        assert_eq!(taken.len(), EACH_MAX);
        assert!(places.take(peer("[2001:db8::2]:1")).is_none());
        let other = places.take(peer("10.0.0.1:1")).expect("a place");
        let local = places.take(Peer::Local { uid: 7 }).expect("a place");
        drop(taken);
        assert!(places.take(one).is_some());
        drop((other, local));
        assert!(places.each.lock().expect("not poisoned").is_empty());
    }
}
