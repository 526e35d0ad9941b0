//! Makes connections while a transfer is being opened, so that its additional streams need not wait for TCP and TLS. Opens and joins no
//! transfer, and makes no connection on a short path.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock;

/// Minimum RTT from which early connections are worth their threads; on shorter paths three round trips are negligible.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(20);

/// Most early connections besides the one that opens, because a daemon that does not know us yet has few places for us.
const EARLY_MAX: u32 = 7;

/// The daemon may have dropped a connection that was unused for longer: its handshake deadline is ten seconds.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// Number of connections to make early, for a transfer with at most `streams_max` streams and this RTT.
pub(super) fn count(streams_max: u32, round_trip: Duration) -> u32 {
    if round_trip < ROUND_TRIP_MIN {
        return 0;
    }
    streams_max.saturating_sub(1).min(EARLY_MAX)
}

/// Connections that were made early, and those being made.
pub(super) struct Early<C> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    state: Mutex<State<C>>,
    changed: Condvar,
}

struct State<C> {
    /// Counts openings, so that a thread of an earlier opening adds no connection.
    generation: u64,
    made: VecDeque<(Instant, C)>,
    pending: u32,
}

impl<C> Default for Early<C> {
    fn default() -> Self {
        let state = State {
            generation: 0,
            made: VecDeque::new(),
            pending: 0,
        };
        let inner = Inner {
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }
}

impl<C: Send + 'static> Early<C> {
    /// Makes `count` connections, one thread each. Connections for an earlier opening are dropped; failed ones are left
    /// out.
    pub(super) fn begin(&self, count: u32, make: impl Fn() -> Option<C> + Clone + Send + 'static) {
        let generation = {
            let mut state = lock(&self.inner.state);
            state.generation += 1;
            state.made.clear();
            state.pending = 0;
            state.generation
        };
        for _ in 0..count {
            let (inner, make) = (Arc::clone(&self.inner), make.clone());
            let body = move || {
                let made = make();
                let mut state = lock(&inner.state);
                if state.generation == generation {
                    state.pending = state.pending.saturating_sub(1);
                    state.made.extend(made.map(|made| (Instant::now(), made)));
                    inner.changed.notify_all();
                }
            };
            lock(&self.inner.state).pending += 1;
            let thread = std::thread::Builder::new().name("gw-early".to_owned());
            if thread.spawn(body).is_err() {
                let mut state = lock(&self.inner.state);
                state.pending = state.pending.saturating_sub(1);
            }
        }
    }

    /// Takes a connection that was made early. Waits for one being made, because a new one would take longer. `None` if
    /// there is none.
    pub(super) fn take(&self, now: impl Fn() -> Instant) -> Option<C> {
        let mut state = lock(&self.inner.state);
        loop {
            while let Some((at, made)) = state.made.pop_front() {
                if now().saturating_duration_since(at) < FRESH_FOR {
                    return Some(made);
                }
            }
            if state.pending == 0 {
                return None;
            }
            state = self
                .inner
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Called when connections are no longer needed.
    pub(super) fn end(&self) {
        let mut state = lock(&self.inner.state);
        state.generation += 1;
        state.made.clear();
        state.pending = 0;
        drop(state);
        self.inner.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn only_a_long_path_has_connections_made_early_and_never_more_than_streams() {
        assert_eq!(count(128, Duration::from_millis(1)), 0);
        assert_eq!(count(1, Duration::from_millis(100)), 0);
        assert_eq!(count(4, Duration::from_millis(100)), 3);
        assert_eq!(count(128, Duration::from_millis(100)), EARLY_MAX);
    }

    #[test]
    fn a_join_waits_for_what_is_being_made_and_takes_nothing_old() {
        let early = Early::default();
        let (allow, allowed) = mpsc::sync_channel::<Option<u32>>(4);
        let allowed = Arc::new(Mutex::new(allowed));
        let make = move || lock(&allowed).recv().ok().flatten();
        early.begin(3, make.clone());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| early.take(Instant::now));
            allow.send(Some(7)).unwrap();
            assert_eq!(first.join().unwrap(), Some(7));
        });
        // One connection fails, and one becomes too old.
        allow.send(None).unwrap();
        allow.send(Some(8)).unwrap();
        let later = || Instant::now() + FRESH_FOR;
        assert_eq!(early.take(later), None);
        // A connection made for a previous opening is dropped.
        early.begin(1, make);
        early.end();
        assert_eq!(early.take(Instant::now), None);
        allow.send(Some(9)).unwrap();
    }
}
