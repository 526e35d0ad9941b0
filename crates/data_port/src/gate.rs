//! Counts connections and transfers, so that one peer cannot use more than its share of the daemon. Does not know the purpose of the
//! connections, and ends no transfer.

mod admission;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use godwit_net::IdentityId;

pub(crate) use admission::network_of;
use admission::{Admission, Bounds};

/// Limit for an address from which no peer with a grant has connected yet.
const STRANGERS_PER_ADDRESS: usize = 32;

/// Limit for an address from which a known peer has connected, because all streams of a client connect at the same time.
const STRANGERS_PER_KNOWN_ADDRESS: usize = 128;

/// Limits of questions being answered: each needs a thread with a separate storage, and one identity must leave room for others.
const QUESTIONS: Limits = Limits {
    per_peer: 8,
    all: 40,
    newcomers: 8,
};

/// Limits of requests whose sources take several frames, until their transfers are admitted: each may have 32 MiB of names.
const LONG_OPENS: Limits = Limits {
    per_peer: 4,
    all: 16,
    newcomers: 4,
};

/// Limits of one kind of slot.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Most for one identity.
    pub(crate) per_peer: usize,
    /// Most for all identities together.
    pub(crate) all: usize,
    /// Part of `all` that is reserved for identities without a slot.
    pub(crate) newcomers: usize,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Peer,
    All,
}

/// The counts.
pub(crate) struct Gate {
    connections: Limits,
    transfers: Limits,
    strangers: Arc<Strangers>,
    peers: Arc<Counts<IdentityId>>,
    transferring: Arc<Counts<IdentityId>>,
    asking: Arc<Counts<IdentityId>>,
    opening: Arc<Counts<IdentityId>>,
}

struct Counts<K> {
    inner: Mutex<(HashMap<K, usize>, usize)>,
}

/// An occupied slot, which is freed when this is dropped.
pub(crate) struct Slot<K: Eq + Hash + Copy> {
    counts: Arc<Counts<K>>,
    key: K,
}

/// Unauthenticated connections, and handles to close them.
struct Strangers(Mutex<(Admission, HashMap<u64, TcpStream>)>);

/// The slot of an unauthenticated connection, which is freed when this is dropped.
pub(crate) struct StrangerSlot {
    strangers: Arc<Strangers>,
    id: u64,
    address: IpAddr,
}

impl Gate {
    /// `strangers` contains the limit for known addresses, and the limit for all others. `known_only`: only one peer is expected, and
    /// all its connections may arrive at once.
    pub(crate) fn new(
        connections: Limits,
        transfers: Limits,
        strangers: usize,
        known_only: bool,
    ) -> Self {
        let bounds = Bounds {
            per_address: match known_only {
                true => strangers,
                false => STRANGERS_PER_ADDRESS.min(strangers),
            },
            per_known_address: STRANGERS_PER_KNOWN_ADDRESS.min(strangers),
            all: strangers,
        };
        let inner = (Admission::new(bounds), HashMap::new());
        Self {
            connections,
            transfers,
            strangers: Arc::new(Strangers(Mutex::new(inner))),
            peers: Arc::new(Counts::default()),
            transferring: Arc::new(Counts::default()),
            asking: Arc::new(Counts::default()),
            opening: Arc::new(Counts::default()),
        }
    }

    /// A slot for an unauthenticated connection. Another unauthenticated connection may be closed to free the slot.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn stranger(
        &self,
        socket: &TcpStream,
        address: IpAddr,
        now: Instant,
    ) -> std::io::Result<StrangerSlot> {
        let handle = socket.try_clone()?;
        let mut strangers = self.strangers.lock();
        let (admission, handles) = &mut *strangers;
        let (id, displaced) = admission.admit(address, now);
        handles.insert(id, handle);
        if let Some(socket) = displaced.and_then(|id| handles.remove(&id)) {
            // Its thread finds the connection closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(strangers);
        Ok(StrangerSlot {
            strangers: Arc::clone(&self.strangers),
            id,
            address,
        })
    }

    /// A slot for a stream of a known peer, which counts as one of these identities.
    pub(crate) fn peer(&self, one_of: &[IdentityId]) -> Result<Slot<IdentityId>, Full> {
        Counts::take(&self.peers, one_of, self.connections)
    }

    /// A slot for a transfer, under the same rules.
    pub(crate) fn transfer(&self, one_of: &[IdentityId]) -> Result<Slot<IdentityId>, Full> {
        Counts::take(&self.transferring, one_of, self.transfers)
    }

    /// A slot for a question, under the same rules, while it is being answered.
    pub(crate) fn question(&self, one_of: &[IdentityId]) -> Result<Slot<IdentityId>, Full> {
        Counts::take(&self.asking, one_of, QUESTIONS)
    }

    /// A slot for a request of several frames, under the same rules, until its transfer is admitted.
    pub(crate) fn long_open(&self, one_of: &[IdentityId]) -> Result<Slot<IdentityId>, Full> {
        Counts::take(&self.opening, one_of, LONG_OPENS)
    }

    /// The limits on transfers.
    pub(crate) fn transfers(&self) -> Limits {
        self.transfers
    }
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, (Admission, HashMap<u64, TcpStream>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StrangerSlot {
    /// Frees the slot, because the connection belongs to a peer with a grant. From now on other connections from its address have
    /// precedence.
    pub(crate) fn free_as_known(self) {
        self.strangers.lock().0.know(self.address);
    }
}

impl Drop for StrangerSlot {
    fn drop(&mut self) {
        let mut strangers = self.strangers.lock();
        strangers.0.leave(self.id);
        strangers.1.remove(&self.id);
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
    /// Counts the slot under the key with the fewest slots.
    fn take(counts: &Arc<Self>, keys: &[K], limits: Limits) -> Result<Slot<K>, Full> {
        let mut inner = counts.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (map, total) = &mut *inner;
        let count = |key: &K| map.get(key).copied().unwrap_or(0);
        let fewest = keys.iter().copied().min_by_key(count);
        let Some(key) = fewest.filter(|key| count(key) < limits.per_peer) else {
            return Err(Full::Peer);
        };
        let kept = if count(&key) == 0 {
            0
        } else {
            limits.newcomers
        };
        if *total + kept >= limits.all {
            return Err(Full::All);
        }
        *map.entry(key).or_default() += 1;
        *total += 1;
        Ok(Slot {
            counts: Arc::clone(counts),
            key,
        })
    }
}

impl<K: Eq + Hash + Copy> Drop for Slot<K> {
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
    use super::*;

    #[test]
    fn places_are_limited_for_each_and_for_all_and_come_back() {
        let limits = Limits {
            per_peer: 2,
            all: 3,
            newcomers: 0,
        };
        let gate = Gate::new(limits, limits, 1, false);
        let peer = |letter: &str| format!("gw1-{}", letter.repeat(52)).parse().unwrap();
        let (one, other): (IdentityId, IdentityId) = (peer("a"), peer("q"));
        let first = gate.peer(&[one]).unwrap();
        let second = gate.peer(&[one]).unwrap();
        assert_eq!(gate.peer(&[one]).err(), Some(Full::Peer));
        // Another asker has admitted the same peer, and has room.
        let third = gate.peer(&[one, other]).unwrap();
        assert_eq!(gate.peer(&[other]).err(), Some(Full::All));
        drop(gate.transfer(&[one]).unwrap());
        drop(first);
        let fourth = gate.peer(&[one]).unwrap();
        drop((second, third, fourth));
        assert_eq!(gate.peers.inner.lock().unwrap().1, 0);
        assert!(gate.peers.inner.lock().unwrap().0.is_empty());
    }

    #[test]
    fn questions_of_a_few_identities_leave_places_for_others() {
        let limits = Limits {
            per_peer: 1,
            all: 1,
            newcomers: 0,
        };
        let gate = Gate::new(limits, limits, 1, false);
        let peer = |letter: char| -> IdentityId {
            let letters = letter.to_string().repeat(51);
            format!("gw1-{letters}a").parse().unwrap()
        };
        let mut taken = Vec::new();
        for letter in "abcde".chars() {
            while let Ok(slot) = gate.question(&[peer(letter)]) {
                taken.push(slot);
            }
        }
        // The last identity gets one slot of those reserved for newcomers.
        assert_eq!(taken.len(), QUESTIONS.all - QUESTIONS.newcomers + 1);
        for letter in "fghijkl".chars() {
            taken.push(gate.question(&[peer(letter)]).unwrap());
        }
        assert_eq!(taken.len(), QUESTIONS.all);
        assert_eq!(gate.question(&[peer('m')]).err(), Some(Full::All));
    }
}
