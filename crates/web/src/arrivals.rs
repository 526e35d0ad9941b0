//! Decides how fast each user of this machine may open connections to the Unix socket.
//! Closes none.
//!
//! All users share the queue of the socket. Connections beyond the pace are closed at once, so that the queue empties faster than one user
//! fills it.

use std::time::{Duration, Instant};

use crate::machine::{ROOT, own_uid};
use crate::throttle::{Throttle, key};

/// Burst of connections of one user, and the interval of further ones. A command opens one or two.
const BURST: u32 = 1_000;
const EVERY: Duration = Duration::from_millis(5);

/// Connections that each user may still open.
pub(crate) struct Arrivals(Throttle);

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self(Throttle::new(BURST, EVERY))
    }

    /// Whether one more connection of this user is served. Connections of root and of the node's account are always served.
    pub(crate) fn take(&self, uid: u32, now: Instant) -> bool {
        let is_admin = uid == ROOT || uid == own_uid();
        is_admin || self.0.take(&key(&[&uid.to_string()]), 1, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_user_is_closed_and_no_connection_of_another() {
        let (arrivals, start) = (Arrivals::new(), Instant::now());
        let (mallory, other) = (own_uid() + 1_001, own_uid() + 1_002);
        let served = |uid: u32, at: Instant| (0..5_000).filter(|_| arrivals.take(uid, at)).count();
        assert_eq!(served(mallory, start), 1_000);
        assert_eq!(served(mallory, start + Duration::from_secs(1)), 200);
        assert_eq!(served(ROOT, start), 5_000);
        assert_eq!(served(other, start), 1_000);
    }
}
