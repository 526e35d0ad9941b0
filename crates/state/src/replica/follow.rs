//! Owns following the state: events as they occur, resumed from any number that is still kept. Does not store events:
//! they are read from the database, so a slow follower delays no other.

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;

use crate::fault::Fault;
use crate::model::Event;
use crate::read::Reader;

/// Most events of one call.
const EVENTS_MAX: usize = 256;

/// Why a follower cannot continue.
#[derive(Debug, Error)]
pub enum FollowError {
    /// Events after that number are no longer kept. Read the state again, and follow from the last event.
    #[error(
        "events after number {after} are no longer kept; read the state again and follow from {last}"
    )]
    Gone {
        /// Position of the follower.
        after: u64,
        /// Number of the newest event.
        last: u64,
    },
    /// The database cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The replica ended.
    #[error("the node's state stopped")]
    Ended,
}

/// Follows the events of a replica.
#[derive(Clone, Debug)]
pub struct Follower {
    reader: Arc<Reader>,
    applied: watch::Receiver<u64>,
    after: u64,
}

impl Follower {
    pub(super) const fn new(
        reader: Arc<Reader>,
        applied: watch::Receiver<u64>,
        after: u64,
    ) -> Self {
        Self {
            reader,
            applied,
            after,
        }
    }

    /// The next events, at least one. Waits for the next event. Works on any executor, and may be dropped at any time.
    ///
    /// # Errors
    /// When events are missed, the database cannot be read, or the replica ended.
    pub async fn next(&mut self) -> Result<Vec<Event>, FollowError> {
        loop {
            // Marked before the look, so that a change during the look ends the next wait.
            self.applied.mark_unchanged();
            let events = self.look()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.applied.changed().await.is_err() {
                return Err(FollowError::Ended);
            }
        }
    }

    /// The events that exist already.
    ///
    /// # Errors
    /// When events are missed, or the database cannot be read.
    pub fn look(&mut self) -> Result<Vec<Event>, FollowError> {
        let events = self.reader.events(self.after, EVENTS_MAX)?;
        let expected = self.after.saturating_add(1);
        match events.as_slice() {
            [] => {
                let last = self.reader.last_event()?;
                if last < self.after {
                    let after = self.after;
                    return Err(FollowError::Gone { after, last });
                }
            }
            [first, ..] if first.seq != expected => {
                let (after, last) = (self.after, self.reader.last_event()?);
                return Err(FollowError::Gone { after, last });
            }
            [.., last] => self.after = last.seq,
        }
        Ok(events)
    }

    /// Number of the last returned event.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Actor, Change, Command, Op, Setting, Timestamp};
    use crate::store::Store;

    #[test]
    fn a_follower_that_stayed_away_too_long_learns_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(&directory.path().join("state.db")).expect("open");
        let mut batch = store.batch().expect("a batch");
        for index in 1..=10_050_u64 {
            let setting = Setting {
                name: "rate".to_owned(),
                value: index.to_string(),
            };
            let put = Op::Setting(Change::Put(setting));
            let command = Command::new(Timestamp(0), Actor::node("node1"), put);
            batch.apply(index, &command).expect("apply").expect("put");
        }
        batch.commit().expect("commit");
        let reader = Arc::new(Reader::new(store.file().to_owned()));
        let (_sender, applied) = watch::channel(0);
        let follower = |after| Follower::new(Arc::clone(&reader), applied.clone(), after);
        for after in [0, 49] {
            let error = follower(after).look().expect_err("gone");
            assert!(
                matches!(error, FollowError::Gone { last: 10_050, .. }),
                "{error}"
            );
        }
        let mut oldest = follower(50);
        let mut seen = Vec::new();
        loop {
            let events = oldest.look().expect("events");
            assert!(events.len() <= EVENTS_MAX);
            if events.is_empty() {
                break;
            }
            seen.extend(events.into_iter().map(|event| event.seq));
        }
        assert!(seen.into_iter().eq(51..=10_050));
    }
}
