//! Owns the evidence about the membership of this node besides the rows: the nodes that it knew when it joined, and refusals by others.
//! Does not judge other nodes: `answers` does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::KnownNode;

/// A node that all nodes have refused for this time was removed. Nodes announce themselves each second.
const STRANGE_AFTER: Duration = Duration::from_secs(10);

pub(crate) struct Membership {
    known_at_join: Mutex<Vec<KnownNode>>,
    /// Time since which all nodes that answer refuse this node as a stranger.
    refused_since: Mutex<Option<Instant>>,
}

impl Membership {
    pub(crate) const fn new(known_at_join: Vec<KnownNode>) -> Self {
        Self {
            known_at_join: Mutex::new(known_at_join),
            refused_since: Mutex::new(None),
        }
    }

    /// The other nodes when this one joined; empty after the row of this node arrived.
    pub(crate) fn known_at_join(&self) -> MutexGuard<'_, Vec<KnownNode>> {
        self.known_at_join
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether the last announcement was refused because this node does not belong to the cluster.
    pub(crate) fn note_refused(&self, is_refused: bool, now: Instant) {
        let mut since = self.refused_since();
        *since = is_refused.then(|| since.unwrap_or(now));
    }

    /// Whether this node was removed although its state does not show it: a disconnected node gets no more entries of the log. A node that
    /// has just joined may be a stranger to a node that lags, but only for a moment.
    pub(crate) fn is_strange(&self, now: Instant) -> bool {
        let since = *self.refused_since();
        since.is_some_and(|since| now.saturating_duration_since(since) >= STRANGE_AFTER)
    }

    fn refused_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.refused_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
