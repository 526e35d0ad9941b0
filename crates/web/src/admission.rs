//! Decides which connections may stay. A newcomer always gets in; when places run out, the oldest unproven connection makes way.
//! Closes nothing and asks no clock.
//!
//! A flood displaces itself, since its keys hold the most places, or the oldest ones. Keys from which a user has come before have a separate pool, which other
//! keys cannot fill. A connection that has proven a user is never displaced.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Instant;

/// Keys from which a user has come; the least recent key is forgotten first.
const KNOWN_MAX: usize = 4_096;

/// Bounds on the number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Largest number of connections of strangers with one key from which no user has proven itself.
    pub(crate) per_key: usize,
    /// Largest number of connections of strangers with one key from which a user has proven itself.
    pub(crate) per_known_key: usize,
    /// Strangers of all keys from which no user has come, and as many of all others.
    pub(crate) strangers: usize,
    /// Safe connections of one user: those that have proven this user.
    pub(crate) per_user: usize,
    /// Safe connections of all users.
    pub(crate) proven: usize,
}

/// Connections by their standing. A key stands for one host or for one user of this machine.
pub(crate) struct Admission<K> {
    bounds: Bounds,
    strangers: HashMap<u64, Stranger<K>>,
    proven: HashMap<u64, Proven<K>>,
    next: u64,
    known: HashSet<K>,
    known_by_age: VecDeque<K>,
}

struct Stranger<K> {
    key: K,
    since: Instant,
    known: bool,
}

struct Proven<K> {
    key: K,
    user: String,
}

impl<K: Copy + Eq + Hash + Ord> Admission<K> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            strangers: HashMap::new(),
            proven: HashMap::new(),
            next: 0,
            known: HashSet::new(),
            known_by_age: VecDeque::new(),
        }
    }

    /// Admits a connection. Returns its number, and the number of the connection that makes way, if any.
    pub(crate) fn admit(&mut self, key: K, now: Instant) -> (u64, Option<u64>) {
        let id = self.next;
        self.next += 1;
        let displaced = self.add(id, key, now);
        (id, displaced)
    }

    /// Notes that the connection has proven a user. Returns whether it is safe from now on; too many may be safe already.
    pub(crate) fn prove(&mut self, id: u64, user: &str) -> bool {
        if let Some(proven) = self.proven.get(&id) {
            // A proxy sends the requests of many users on one connection; the first of them counts.
            let key = proven.key;
            self.know(key);
            return true;
        }
        let Some(key) = self.strangers.get(&id).map(|one| one.key) else {
            return false;
        };
        self.know(key);
        let own = self.proven.values().filter(|one| one.user == user).count();
        if own >= self.bounds.per_user || self.proven.len() >= self.bounds.proven {
            return false;
        }
        self.strangers.remove(&id);
        let user = user.to_owned();
        self.proven.insert(id, Proven { key, user });
        true
    }

    /// Turns the connection into a stranger again, since a request on it was refused for its credentials. Returns the connection that makes
    /// way.
    pub(crate) fn doubt(&mut self, id: u64, now: Instant) -> Option<u64> {
        let proven = self.proven.remove(&id)?;
        self.add(id, proven.key, now)
    }

    /// Removes a connection that is gone.
    pub(crate) fn leave(&mut self, id: u64) {
        self.strangers.remove(&id);
        self.proven.remove(&id);
    }

    fn add(&mut self, id: u64, key: K, since: Instant) -> Option<u64> {
        let known = self.known.contains(&key);
        let displaced = self.makes_way(key, known);
        if let Some(id) = displaced {
            self.strangers.remove(&id);
        }
        self.strangers.insert(id, Stranger { key, since, known });
        displaced
    }

    fn know(&mut self, key: K) {
        if !self.known.insert(key) {
            return;
        }
        self.known_by_age.push_back(key);
        if self.known_by_age.len() > KNOWN_MAX
            && let Some(oldest) = self.known_by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The connection to close for a new one of this key: the oldest connection of the keys with the most connections. A
    /// connection
    /// of the new key itself is chosen only if the key is at its limit, or no other key has as many places.
    fn makes_way(&self, key: K, known: bool) -> Option<u64> {
        let rivals = || self.strangers.iter().filter(|(_, one)| one.known == known);
        let mut counts: HashMap<K, usize> = HashMap::new();
        for (_, one) in rivals() {
            *counts.entry(one.key).or_default() += 1;
        }
        let each = match known {
            true => self.bounds.per_known_key,
            false => self.bounds.per_key,
        };
        let own = counts.get(&key).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        let only_own = own == most && counts.values().filter(|count| **count == most).count() == 1;
        let gives = |one: &K| match *one == key {
            true => own >= each || only_own,
            false => own < each && counts.get(one) == Some(&most),
        };
        if own < each && rivals().count() < self.bounds.strangers {
            return None;
        }
        rivals()
            .filter(|(_, one)| gives(&one.key))
            .min_by_key(|(id, one)| (one.since, **id))
            .map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        per_key: 4,
        per_known_key: 6,
        strangers: 10,
        per_user: 3,
        proven: 5,
    };

    #[test]
    fn a_flood_displaces_itself_and_no_authenticated_user() {
        let start = Instant::now();
        let mut admission = Admission::new(BOUNDS);
        let (friend, _) = admission.admit(9, start);
        assert!(admission.prove(friend, "ada"));
        let (newcomer, displaced) = admission.admit(9, start);
        assert_eq!(displaced, None);
        let (lonely, _) = admission.admit(8, start);
        for number in 0..1000_u32 {
            let at = start + Duration::from_millis(number.into());
            let (_, displaced) = admission.admit(number % 5, at);
            for safe in [friend, newcomer, lonely] {
                assert_ne!(displaced, Some(safe));
            }
            assert!(admission.strangers.len() <= 2 * BOUNDS.strangers);
        }
    }

    #[test]
    fn of_equal_keys_the_oldest_connection_makes_way() {
        let start = Instant::now();
        let at = |number: u64| start + Duration::from_millis(number);
        let mut admission = Admission::new(BOUNDS);
        let first: Vec<u64> = (0..10).map(|key| admission.admit(key, at(key)).0).collect();
        let (newest, displaced) = admission.admit(99, at(10));
        assert_eq!(displaced, Some(first[0]));
        for key in 50..59 {
            let (_, displaced) = admission.admit(key, at(key));
            assert_ne!(displaced, Some(newest), "{key}");
        }
        // Two keys have the most places, so the key of the new connection loses none.
        let mut admission = Admission::new(BOUNDS);
        let ids: Vec<u64> = [1, 1, 1, 2, 2, 2, 3, 4, 5, 6]
            .map(|key| admission.admit(key, start).0)
            .to_vec();
        assert_eq!(admission.admit(1, at(1)).1, Some(ids[3]));
        // Now it has its limit.
        assert_eq!(admission.admit(1, at(2)).1, Some(ids[0]));
    }

    #[test]
    fn one_user_makes_few_connections_safe_and_a_refused_one_is_a_stranger_again() {
        let start = Instant::now();
        let mut admission = Admission::new(BOUNDS);
        let ids: Vec<u64> = (0..4).map(|_| admission.admit(1, start).0).collect();
        let safe: Vec<bool> = ids.iter().map(|id| admission.prove(*id, "ada")).collect();
        assert_eq!(safe, [true, true, true, false]);
        for user in ["bob", "eve"] {
            let (id, _) = admission.admit(2, start);
            assert!(admission.prove(id, user));
        }
        let (id, _) = admission.admit(2, start);
        assert!(!admission.prove(id, "joe"), "five are safe already");
        admission.leave(ids[0]);
        assert!(admission.prove(id, "joe"));
        // A user who turns safe connections into strangers gains no places.
        for number in 0..100_u32 {
            let at = start + Duration::from_millis(number.into());
            let (id, _) = admission.admit(3, at);
            admission.prove(id, "mal");
            admission.doubt(id, at);
            let own = admission.strangers.values().filter(|one| one.key == 3);
            assert!(own.count() <= BOUNDS.per_key + BOUNDS.per_known_key);
        }
    }
}
