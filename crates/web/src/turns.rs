//! Owns the turns of blocking calls: all share a number of turns, of which each user and each stranger has a share.
//! Runs no call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task_local;
use tokio::time::timeout;

use crate::places::Key;
use crate::problem::ApiError;
use godwit_api::failure::FailureCode;

/// How long a request waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);

/// The party for whom a call is made.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Holder {
    /// Unproven senders of one place.
    Stranger(Key),
    User(String),
}

task_local! {
    static HOLDER: RefCell<Holder>;
}

/// Handles a request, whose calls are made for this holder until it [has proven](proven) a user.
pub(crate) async fn held_by<T>(holder: Holder, work: impl Future<Output = T>) -> T {
    HOLDER.scope(RefCell::new(holder), work).await
}

/// Notes that the current request has proven this user.
pub(crate) fn proven(user: &str) {
    // Outside of a request there is no holder.
    let _ = HOLDER.try_with(|holder| holder.replace(Holder::User(user.to_owned())));
}

/// Holder of the current request; None for the node itself.
pub(crate) fn holder() -> Option<Holder> {
    HOLDER.try_with(|holder| holder.borrow().clone()).ok()
}

/// Turns for one kind of call.
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    /// Turns for holders that have one already.
    further: Arc<Semaphore>,
    share: usize,
    shares: Arc<Mutex<Shares>>,
}

type Shares = HashMap<Holder, Share>;

struct Share {
    turns: Arc<Semaphore>,
    /// Turns that the holder has, or waits for among the shared turns.
    taken: usize,
    /// Calls that have a turn or wait for one.
    calls: usize,
}

/// A turn; released when dropped.
pub(crate) struct Turn {
    _own: Option<OwnTurn>,
    _further: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

/// A turn out of the share of its holder, or the wait for one.
struct OwnTurn {
    shares: Arc<Mutex<Shares>>,
    holder: Holder,
    turn: Option<OwnedSemaphorePermit>,
    /// The turn counts among those that the holder has taken.
    counts: bool,
}

impl Turns {
    /// Allows this many turns at once, and this many of one holder.
    pub(crate) fn new(all: usize, share: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            further: Arc::new(Semaphore::new(all)),
            share,
            shares: Arc::default(),
        }
    }

    /// Limits the turns of holders that have one already, so that a few holders cannot take all turns.
    pub(crate) fn keeping(self, further: usize) -> Self {
        Self {
            further: Arc::new(Semaphore::new(further)),
            ..self
        }
    }

    /// Waits for a turn, for a limited time. A holder with a full share waits for its own calls, and delays no other holder.
    ///
    /// # Errors
    /// No turn came in time.
    pub(crate) async fn take(&self, holder: Option<Holder>) -> Result<Turn, ApiError> {
        match timeout(TURN_WITHIN, self.wait(holder)).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(ApiError::later(
                StatusCode::SERVICE_UNAVAILABLE,
                FailureCode::Busy,
                "the node has more requests (perhaps all yours) than it can answer; send the request again later",
                2,
            )),
        }
    }

    async fn wait(&self, holder: Option<Holder>) -> Result<Turn, AcquireError> {
        let (own, is_first) = match holder {
            Some(holder) => {
                let (mut own, turns) = self.enter(holder);
                own.turn = Some(turns.acquire_owned().await?);
                let is_first = own.count();
                (Some(own), is_first)
            }
            None => (None, true),
        };
        let further = match is_first {
            true => None,
            false => Some(Arc::clone(&self.further).acquire_owned().await?),
        };
        let all = Arc::clone(&self.all).acquire_owned().await?;
        Ok(Turn {
            _own: own,
            _further: further,
            _all: all,
        })
    }

    fn enter(&self, holder: Holder) -> (OwnTurn, Arc<Semaphore>) {
        let mut shares = lock(&self.shares);
        let share = shares.entry(holder.clone()).or_insert_with(|| Share {
            turns: Arc::new(Semaphore::new(self.share)),
            taken: 0,
            calls: 0,
        });
        share.calls += 1;
        let turns = Arc::clone(&share.turns);
        let own = OwnTurn {
            shares: Arc::clone(&self.shares),
            holder,
            turn: None,
            counts: false,
        };
        (own, turns)
    }
}

impl OwnTurn {
    /// Counts the turn. Returns whether the holder has no other one.
    fn count(&mut self) -> bool {
        self.counts = true;
        let mut shares = lock(&self.shares);
        let Some(share) = shares.get_mut(&self.holder) else {
            return true;
        };
        share.taken += 1;
        share.taken == 1
    }
}

impl Drop for OwnTurn {
    fn drop(&mut self) {
        drop(self.turn.take());
        let mut shares = lock(&self.shares);
        if let Some(share) = shares.get_mut(&self.holder) {
            share.calls -= 1;
            share.taken -= usize::from(self.counts);
            if share.calls == 0 {
                shares.remove(&self.holder);
            }
        }
    }
}

fn lock(shares: &Mutex<Shares>) -> MutexGuard<'_, Shares> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime
            .enable_time()
            .build()
            .expect("a runtime")
            .block_on(test);
    }

    #[test]
    fn a_user_with_its_whole_share_waits_and_delays_no_other_user() {
        run(async {
            let turns = Turns::new(3, 2);
            let user = |name: &str| Some(Holder::User(name.to_owned()));
            let first = turns.take(user("vera")).await.ok();
            let second = turns.take(user("vera")).await.ok();
            assert!(first.is_some() && second.is_some());
            let mut third = Box::pin(turns.take(user("vera")));
            assert!(third.as_mut().now_or_never().is_none());
            let other = turns.take(user("walt")).now_or_never();
            assert!(matches!(&other, Some(Ok(_))), "held up");
            drop(first);
            assert!(matches!(third.now_or_never(), Some(Ok(_))));
            drop((second, other));
            assert!(lock(&turns.shares).is_empty());
        });
    }

    #[test]
    fn a_few_holders_do_not_have_all_turns() {
        run(async {
            let turns = Turns::new(8, 4).keeping(2);
            let user = |name: &str| Some(Holder::User(name.to_owned()));
            let mut held = Vec::new();
            for name in ["a", "b", "c", "d"] {
                for _ in 0..4 {
                    held.extend(turns.take(user(name)).now_or_never().and_then(Result::ok));
                }
            }
            assert_eq!(held.len(), 6, "one for each of them, and two further");
            let other = turns.take(user("e")).now_or_never();
            assert!(matches!(other, Some(Ok(_))), "held up");
            held.truncate(1);
            let further = turns.take(user("a")).now_or_never();
            assert!(matches!(further, Some(Ok(_))), "it was given back");
            drop((held, other, further));
            assert!(lock(&turns.shares).is_empty());
            assert_eq!(turns.further.available_permits(), 2);
        });
    }

    #[test]
    fn a_cancelled_wait_returns_its_share_and_the_node_needs_no_share() {
        run(async {
            let turns = Turns::new(2, 1);
            let vera = || Some(Holder::User("vera".to_owned()));
            let held = turns.take(vera()).await.ok();
            assert!(held.is_some());
            assert!(turns.take(vera()).now_or_never().is_none());
            assert!(matches!(turns.take(None).now_or_never(), Some(Ok(_))));
            drop(held);
            assert!(lock(&turns.shares).is_empty());
        });
    }

    #[test]
    fn a_request_is_a_strangers_until_it_proves_a_user() {
        run(async {
            assert_eq!(holder(), None);
            held_by(Holder::Stranger(Key::User(7)), async {
                assert_eq!(holder(), Some(Holder::Stranger(Key::User(7))));
                proven("vera");
                assert_eq!(holder(), Some(Holder::User("vera".to_owned())));
            })
            .await;
        });
    }
}
