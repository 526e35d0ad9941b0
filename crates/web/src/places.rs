//! Owns the places of connections, and how long each may stay: until its first request, between requests, and without a proven user.
//! Serves nothing; `admission` decides which connection makes way.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::admission::{Admission, Bounds};
use crate::caller::Peer;
use crate::config::Patience;

/// Limits of connections from the network. Connections from this machine have the same limits separately.
/// A stranger has at most [`STRANGER_REQUESTS_MAX`] requests, each with a head of 16 KiB and a body of 8 KiB at most.
/// All strangers of the network together take about 100 MiB at most.
const BOUNDS: Bounds = Bounds {
    per_key: 32,
    per_known_key: 128,
    strangers: 128,
    per_user: 128,
    proven: 512,
};

/// Requests at once of a connection that has not proven a user: the page loads fewer files at once.
const STRANGER_REQUESTS_MAX: usize = 16;

/// Key that shares a number of places.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Key {
    User(u32),
    Address(IpAddr),
}

impl Key {
    pub(crate) fn of(peer: Peer) -> Self {
        match peer {
            Peer::Local { uid } => Self::User(uid),
            Peer::Network(address) => Self::Address(network_of(address.ip())),
        }
    }
}

/// The places of connections. Connections of this machine take no places of the network.
pub(crate) struct Places {
    local: Mutex<Pool>,
    network: Mutex<Pool>,
    left: Notify,
    patience: Patience,
}

struct Pool {
    admission: Admission<Key>,
    displaced: HashMap<u64, Arc<Notify>>,
}

/// A reserved place; released when dropped.
pub(crate) struct Place(Connected);

/// State of a live connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Connected(Arc<Inner>);

struct Inner {
    places: Arc<Places>,
    peer: Peer,
    id: u64,
    displaced: Arc<Notify>,
    work: Mutex<Work>,
}

struct Work {
    requests: usize,
    /// A request has come.
    asked: bool,
    proven: bool,
    /// Time since which the connection is a stranger's; unused otherwise.
    stranger_since: Instant,
    /// Time since which the connection has no request.
    idle_since: Instant,
}

/// A request in progress, until its answer has gone.
pub(crate) struct Working(Connected);

/// How long a connection may stay.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Stay {
    /// Look again then.
    Until(Instant),
    /// The connection has to end; requests in progress may end first.
    Over,
}

impl Places {
    pub(crate) fn new(patience: Patience) -> Self {
        let pool = || {
            Mutex::new(Pool {
                admission: Admission::new(BOUNDS),
                displaced: HashMap::new(),
            })
        };
        Self {
            local: pool(),
            network: pool(),
            left: Notify::new(),
            patience,
        }
    }

    /// Reserves a place for one more connection. Another connection may have to make way.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer, now: Instant) -> Place {
        let displaced = Arc::new(Notify::new());
        let mut pool = self.pool(peer);
        let (id, other) = pool.admission.admit(Key::of(peer), now);
        pool.displaced.insert(id, Arc::clone(&displaced));
        pool.displace(other);
        drop(pool);
        Place(Connected(Arc::new(Inner {
            places: Arc::clone(self),
            peer,
            id,
            displaced,
            work: Mutex::new(Work {
                requests: 0,
                asked: false,
                proven: false,
                stranger_since: now,
                idle_since: now,
            }),
        })))
    }

    /// Waits until no connection is left.
    pub(crate) async fn wait_until_empty(&self) {
        loop {
            let left = self.left.notified();
            let mut left = std::pin::pin!(left);
            left.as_mut().enable();
            let is_empty = |pool: &Mutex<Pool>| lock(pool).displaced.is_empty();
            if is_empty(&self.local) && is_empty(&self.network) {
                return;
            }
            left.await;
        }
    }

    fn pool(&self, peer: Peer) -> MutexGuard<'_, Pool> {
        lock(match peer {
            Peer::Local { .. } => &self.local,
            Peer::Network(_) => &self.network,
        })
    }
}

impl Pool {
    fn displace(&mut self, other: Option<u64>) {
        if let Some(displaced) = other.and_then(|id| self.displaced.get(&id)) {
            displaced.notify_one();
        }
    }
}

impl Place {
    pub(crate) fn connected(&self) -> &Connected {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Inner {
            places, peer, id, ..
        } = &*self.0.0;
        let mut pool = places.pool(*peer);
        pool.admission.leave(*id);
        pool.displaced.remove(id);
        drop(pool);
        places.left.notify_waiters();
    }
}

impl Connected {
    /// Waits until the connection has to make way.
    pub(crate) async fn displaced(&self) {
        self.0.displaced.notified().await;
    }

    /// Notes that a request on the connection has proven this user.
    pub(crate) fn prove(&self, user: &str) {
        let mut pool = self.0.places.pool(self.0.peer);
        let proven = pool.admission.prove(self.0.id, user);
        drop(pool);
        if proven {
            self.work().proven = true;
        }
    }

    /// Notes that a request on the connection was refused for its credentials.
    pub(crate) fn doubt(&self, now: Instant) {
        let mut work = self.work();
        if !std::mem::take(&mut work.proven) {
            return;
        }
        work.stranger_since = now;
        drop(work);
        let mut pool = self.0.places.pool(self.0.peer);
        let other = pool.admission.doubt(self.0.id, now);
        pool.displace(other);
    }

    /// Admits a request, unless a stranger has too many.
    pub(crate) fn begin(&self) -> Option<Working> {
        let mut work = self.work();
        if !work.proven && work.requests >= STRANGER_REQUESTS_MAX {
            return None;
        }
        work.requests += 1;
        work.asked = true;
        drop(work);
        Some(Working(self.clone()))
    }

    /// Whether the connection may stay. Bytes of half a request and pings do not count as activity.
    pub(crate) fn stay(&self, now: Instant) -> Stay {
        let work = self.work();
        let patience = &self.0.places.patience;
        let idle_max = match (work.asked, work.proven) {
            (false, _) => patience.first_request,
            (true, false) => patience.stranger_idle,
            (true, true) => patience.idle,
        };
        let idle_end = match work.requests {
            0 => work.idle_since + idle_max,
            _ => now + idle_max,
        };
        let end = match work.proven {
            true => idle_end,
            false => idle_end.min(work.stranger_since + patience.stranger),
        };
        match end > now {
            true => Stay::Until(end),
            false => Stay::Over,
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.0.work)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut work = self.0.work();
        work.requests -= 1;
        if work.requests == 0 {
            work.idle_since = Instant::now();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Address range of one host or subscriber: an IPv4 address, or the upper half of an IPv6 address.
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

    fn peer(text: &str) -> Peer {
        Peer::Network(text.parse().expect("an address"))
    }

    #[test]
    fn a_connection_ends_without_a_request_without_work_and_without_a_user() {
        let places = Arc::new(Places::new(Patience::default()));
        let patience = Patience::default();
        let start = Instant::now();
        let place = places.take(peer("10.0.0.1:1"), start);
        let connected = place.connected();
        let first = start + patience.first_request;
        assert_eq!(connected.stay(start), Stay::Until(first));
        assert_eq!(connected.stay(first), Stay::Over);
        // A stranger stays while its requests are in progress, but not for ever.
        let working = connected.begin().expect("taken on");
        assert!(matches!(connected.stay(first), Stay::Until(_)));
        assert_eq!(connected.stay(start + patience.stranger), Stay::Over);
        connected.prove("ada");
        assert!(matches!(
            connected.stay(start + 10 * patience.stranger),
            Stay::Until(_)
        ));
        drop(working);
        let now = Instant::now();
        assert!(
            matches!(connected.stay(now), Stay::Until(end) if end > now + patience.stranger_idle)
        );
        assert_eq!(connected.stay(now + patience.idle), Stay::Over);
        connected.doubt(now);
        assert_eq!(connected.stay(now + patience.stranger_idle), Stay::Over);
    }

    #[test]
    fn a_stranger_has_few_requests_at_once() {
        let places = Arc::new(Places::new(Patience::default()));
        let place = places.take(peer("10.0.0.1:1"), Instant::now());
        let connected = place.connected();
        let taken: Vec<Working> = (0..100).map_while(|_| connected.begin()).collect();
        assert_eq!(taken.len(), STRANGER_REQUESTS_MAX);
        connected.prove("ada");
        assert!(connected.begin().is_some());
        drop(taken);
    }

    #[test]
    fn one_subscriber_of_ipv6_is_one_key_and_places_come_back() {
        let keys = ["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8:0:1::1]:1"]
            .map(|text| Key::of(peer(text)));
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
        let places = Arc::new(Places::new(Patience::default()));
        let taken: Vec<Place> = (0..500)
            .map(|number| places.take(peer(&format!("10.0.{}.1:1", number % 7)), Instant::now()))
            .collect();
        drop(taken);
        assert!(lock(&places.network).displaced.is_empty());
    }
}
