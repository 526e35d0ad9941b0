//! Owns the rates of log-in attempts: by each address, for each user from each address, and for each user from all addresses.
//! Checks no password, and reads no clock.
//!
//! | counted | in a row | then one each |
//! | --- | --- | --- |
//! | failures for a user from an address | 12 | 10 s |
//! | failures from an address, for any user | 36 | 10 s |
//! | failures for a user, from all addresses where that user never signed in | 60 | 10 s |
//!
//! Others cannot lock a user out: an address or browser from which the user signed in before is counted separately. A success clears only
//! the count of its user and address, so an own account does not help to try the
//! accounts of others.
//!
//! Each node counts separately, and with `n` nodes each failure counts `n` times: a guesser who uses all nodes gets no more attempts than
//! at one. Counters in the state would let strangers write into the consensus log. The rate of a known address is not divided: only the
//! node where the user signed in knows the address, and forgets it at a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::throttle::{Key, Throttle, key};

/// Failures in a row.
const PAIR_BURST: u32 = 12;
const ADDRESS_BURST: u32 = 36;
const USER_BURST: u32 = 60;

/// Interval between further attempts: about 8,600 a day, too few to guess a password.
const EVERY: Duration = Duration::from_secs(10);

/// How long an address or a browser stays known after a sign-in.
pub(crate) const KNOWN_FOR: Duration = Duration::from_hours(30 * 24);

/// Known addresses and browsers of one user; the least recently used one is forgotten first.
const KNOWN_OF_USER_MAX: usize = 32;

/// Most users with known addresses. Only users of the state sign in, so the state has at least as many.
const USERS_MAX: usize = 1_000;

/// Counters of log-ins.
pub(crate) struct Logins {
    pairs: Throttle,
    addresses: Throttle,
    users: Throttle,
    nodes: AtomicU32,
    known: Mutex<HashMap<Key, VecDeque<(Key, Instant)>>>,
}

/// One attempt to log in.
pub(crate) struct Try<'a> {
    pub(crate) user: &'a str,
    /// Address or user of the machine.
    pub(crate) from: &'a str,
    /// Secret of the browser, set when a user signed in there.
    pub(crate) browser: Option<&'a str>,
}

/// An attempt that counts as a failure until it succeeds.
pub(crate) struct Attempt {
    user: Key,
    from: Key,
    /// Count for this user and this address or browser.
    pair: Key,
    /// Number of nodes, if the address and the user are counted, too.
    others: Option<u32>,
}

impl Attempt {
    /// Whether the user never signed in from there.
    pub(crate) const fn is_of_stranger(&self) -> bool {
        self.others.is_some()
    }
}

impl Logins {
    pub(crate) fn new() -> Self {
        Self {
            pairs: Throttle::new(PAIR_BURST, EVERY),
            addresses: Throttle::new(ADDRESS_BURST, EVERY),
            users: Throttle::new(USER_BURST, EVERY),
            nodes: AtomicU32::new(1),
            known: Mutex::default(),
        }
    }

    /// Sets the number of nodes of the cluster.
    pub(crate) fn share_among(&self, nodes: usize) {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// Begins an attempt.
    ///
    /// # Errors
    /// There were too many attempts. The error is the time until the next one.
    pub(crate) fn begin(&self, tried: &Try<'_>, now: Instant) -> Result<Attempt, Duration> {
        let user = key(&["user", tried.user]);
        let from = key(&["from", tried.from]);
        let browser = tried.browser.map(|secret| browser_key(tried.user, secret));
        let pair = key(&["pair", tried.user, tried.from]);
        let known = |one: &Key| self.is_known(&user, one, now);
        let (pair, others) = match browser.filter(|browser| known(browser)) {
            Some(browser) => (browser, None),
            None if known(&from) => (pair, None),
            None => (pair, Some(self.nodes.load(Ordering::Relaxed))),
        };
        let attempt = Attempt {
            user,
            from,
            pair,
            others,
        };
        self.pairs.take(&pair, others.unwrap_or(1), now)?;
        let Some(nodes) = others else {
            return Ok(attempt);
        };
        self.addresses
            .take(&from, nodes, now)
            .inspect_err(|_wait| {
                self.pairs.give_back(&pair, nodes);
            })?;
        self.users.take(&user, nodes, now).inspect_err(|_wait| {
            self.pairs.give_back(&pair, nodes);
            self.addresses.give_back(&from, nodes);
        })?;
        Ok(attempt)
    }

    /// Marks the attempt as successful; the address is known for its user from now on.
    pub(crate) fn succeeded(&self, attempt: &Attempt, now: Instant) {
        self.pairs.clear(&attempt.pair);
        if let Some(nodes) = attempt.others {
            self.addresses.give_back(&attempt.from, nodes);
            self.users.give_back(&attempt.user, nodes);
        }
        self.know(attempt.user, attempt.from, now);
    }

    /// Notes that the user has signed in with a browser that keeps this secret.
    pub(crate) fn know_browser(&self, user: &str, secret: &str, now: Instant) {
        self.know(key(&["user", user]), browser_key(user, secret), now);
    }

    fn know(&self, user: Key, one: Key, now: Instant) {
        let mut known = self.known();
        let is_new = !known.contains_key(&user);
        if is_new && known.len() >= USERS_MAX {
            let latest = |ones: &VecDeque<(Key, Instant)>| ones.back().map(|(_, at)| *at);
            let oldest = known.iter().min_by_key(|(_, ones)| latest(ones));
            if let Some(oldest) = oldest.map(|(user, _)| *user) {
                known.remove(&oldest);
            }
        }
        let ones = known.entry(user).or_default();
        ones.retain(|(other, _)| *other != one);
        ones.push_back((one, now));
        if ones.len() > KNOWN_OF_USER_MAX {
            ones.pop_front();
        }
    }

    fn is_known(&self, user: &Key, one: &Key, now: Instant) -> bool {
        let known = self.known();
        let ones = known.get(user).into_iter().flatten();
        ones.filter(|(_, at)| now.saturating_duration_since(*at) < KNOWN_FOR)
            .any(|(other, _)| other == one)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, VecDeque<(Key, Instant)>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn browser_key(user: &str, secret: &str) -> Key {
    key(&["browser", user, secret])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(user: &'a str, from: &'a str) -> Try<'a> {
        Try {
            user,
            from,
            browser: None,
        }
    }

    /// Failures until the first refusal.
    fn failures(
        logins: &Logins,
        now: Instant,
        tries: impl Iterator<Item = (String, String)>,
    ) -> u32 {
        let mut count = 0;
        for (user, from) in tries {
            if logins.begin(&at(&user, &from), now).is_err() {
                break;
            }
            count += 1;
        }
        count
    }

    fn numbered(number: u32) -> String {
        number.to_string()
    }

    #[test]
    fn guesses_are_counted_by_pair_by_address_and_by_user() {
        let now = Instant::now();
        let same = || (0..1000).map(|_| ("ada".to_owned(), "1".to_owned()));
        assert_eq!(failures(&Logins::new(), now, same()), PAIR_BURST);
        let sprayed = (0..1000).map(|number| (numbered(number), "1".to_owned()));
        assert_eq!(failures(&Logins::new(), now, sprayed), ADDRESS_BURST);
        let spread = (0..1000).map(|number| ("ada".to_owned(), numbered(number)));
        assert_eq!(failures(&Logins::new(), now, spread), USER_BURST);
        // Each of five nodes allows a fifth of the attempts.
        let logins = Logins::new();
        logins.share_among(5);
        assert_eq!(failures(&logins, now, same()), PAIR_BURST / 5);
        logins.share_among(100);
        let other = std::iter::repeat(("eve".to_owned(), "2".to_owned()));
        assert_eq!(failures(&logins, now, other), 1);
    }

    #[test]
    fn failures_from_elsewhere_do_not_lock_a_user_out() {
        let now = Instant::now();
        let logins = Logins::new();
        let good = logins.begin(&at("ada", "home"), now).expect("allowed");
        logins.succeeded(&good, now);
        logins.know_browser("ada", "cookie", now);
        let flood = |from: &str| {
            for number in 0..1000 {
                // Refused sooner or later.
                let _ = logins.begin(&at("ada", &format!("{from}{number}")), now);
                let _ = logins.begin(&at("ada", from), now);
            }
        };
        flood("elsewhere");
        assert!(logins.begin(&at("ada", "new"), now).is_err());
        let home = logins.begin(&at("ada", "home"), now).expect("allowed");
        assert!(!home.is_of_stranger() && good.is_of_stranger());
        // Behind a proxy all users have one address. Only their browsers distinguish them.
        flood("home");
        assert!(logins.begin(&at("ada", "home"), now).is_err());
        let with = |user, browser| Try {
            user,
            from: "home",
            browser: Some(browser),
        };
        assert!(logins.begin(&with("ada", "cookie"), now).is_ok());
        assert!(logins.begin(&with("ada", "other"), now).is_err());
        assert!(logins.begin(&at("ada", "new"), now + KNOWN_FOR).is_ok());
    }

    #[test]
    fn a_success_clears_its_own_user_and_address_alone() {
        let now = Instant::now();
        let logins = Logins::new();
        let mut guesses = 0;
        for number in 0..1000 {
            let own = logins.begin(&at("mallory", "1"), now).expect("own");
            logins.succeeded(&own, now);
            let guess = logins.begin(&at(&numbered(number), "1"), now);
            guesses += u32::from(guess.is_ok());
        }
        assert_eq!(guesses, ADDRESS_BURST);
    }

    #[test]
    fn the_set_of_known_browsers_is_bounded() {
        let now = Instant::now();
        let logins = Logins::new();
        for number in 0..100 {
            logins.know_browser("ada", &numbered(number), now);
            for user in 0..20 {
                logins.know_browser(&numbered(100 * user + number), "x", now);
            }
        }
        let known = logins.known();
        assert_eq!(known.len(), USERS_MAX);
        assert!(known.values().all(|ones| ones.len() <= KNOWN_OF_USER_MAX));
    }
}
