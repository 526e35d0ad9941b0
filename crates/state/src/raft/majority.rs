//! Owns the mark on the messages of a leader that hears no majority. Its followers then do not count as led: the rest of the cluster may
//! have another leader.
//! Sends nothing, and has no part in elections.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Whether this voter leads and hears no majority.
type Judge = Box<dyn Fn() -> bool + Send + Sync>;

/// Whether messages of this voter have the mark. Without a judge they have none.
#[derive(Clone, Default)]
pub(crate) struct LostMajority(Arc<OnceLock<Judge>>);

impl LostMajority {
    /// From now on this decides.
    pub(crate) fn judge_by(&self, judge: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.get_or_init(|| Box::new(judge));
    }

    pub(super) fn is_lost(&self) -> bool {
        self.0.get().is_some_and(|judge| judge())
    }
}

impl fmt::Debug for LostMajority {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("LostMajority")
    }
}

/// A message with the mark. Older programs ignore the mark.
#[derive(Serialize)]
pub(super) struct Marked<'a, Q> {
    #[serde(flatten)]
    message: &'a Q,
    without_majority: bool,
}

impl<'a, Q> Marked<'a, Q> {
    pub(super) const fn new(message: &'a Q) -> Self {
        Self {
            message,
            without_majority: true,
        }
    }
}

/// The mark alone.
#[derive(Deserialize)]
struct Mark {
    #[serde(default)]
    without_majority: bool,
}

/// Whether a message of a leader has the mark.
pub(crate) fn is_marked(message: &[u8]) -> bool {
    serde_json::from_slice::<Mark>(message).is_ok_and(|mark| mark.without_majority)
}

#[cfg(test)]
mod tests {
    use openraft::raft::AppendEntriesRequest;
    use openraft::type_config::alias::VoteOf;

    use super::*;
    use crate::raft::Types;

    #[test]
    fn a_marked_message_is_the_same_message() {
        let rpc = AppendEntriesRequest::<Types> {
            vote: VoteOf::<Types>::new_committed(5, 1),
            prev_log_id: None,
            entries: Vec::new(),
            leader_commit: None,
        };
        let plain = serde_json::to_vec(&rpc).expect("a document");
        let marked = serde_json::to_vec(&Marked::new(&rpc)).expect("a document");
        assert!(!is_marked(&plain) && is_marked(&marked));
        let read: AppendEntriesRequest<Types> = serde_json::from_slice(&marked).expect("read");
        assert_eq!(serde_json::to_vec(&read).expect("a document"), plain);
    }

    #[test]
    fn no_message_is_marked_before_the_consensus_runs() {
        let lost = LostMajority::default();
        assert!(!lost.is_lost());
        lost.judge_by(|| true);
        assert!(lost.clone().is_lost());
    }
}
