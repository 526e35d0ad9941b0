//! Owns the library that implements the consensus: its types, the log, the state machine, the
//! network. It is private to this crate; `replica` is its interface.

mod consensus_receiver;
mod incoming;
mod log;
mod machine;
mod majority;
mod network;
mod plausible;
#[cfg(test)]
mod suite;

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

use openraft::type_config::alias::{LogIdOf, StoredMembershipOf, VoteOf};

use crate::model::{Applied, Command};
use crate::store::Position;

pub(crate) use consensus_receiver::ConsensusReceiver;
pub(crate) use incoming::{Incoming, STOPPED_AFTER};
pub(crate) use log::Log;
pub(crate) use machine::Machine;
pub(crate) use majority::is_marked;
pub(crate) use network::{APPEND, Network, ROOM, say};
pub use network::{Answer, NoPeers, PROPOSE, Peers, is_short};
pub(crate) use plausible::NUMBER_MAX;

openraft::declare_raft_types!(
    /// The types of the consensus library for this crate.
    pub(crate) Types:
        D = Command,
        R = Applied,
        NodeId = u64,
        Node = openraft::BasicNode,
);

/// The consensus itself.
pub(crate) type Raft = openraft::Raft<Types, Machine>;

pub(crate) type LogId = LogIdOf<Types>;
pub(crate) type Membership = StoredMembershipOf<Types>;

/// State that all work on the files shares.
#[derive(Debug)]
pub(crate) struct Guard {
    // Excludes other processes until the last work ends.
    _lock: File,
    fault: OnceLock<String>,
}

impl Guard {
    pub(crate) fn new(lock: File) -> Arc<Self> {
        Arc::new(Self {
            _lock: lock,
            fault: OnceLock::new(),
        })
    }

    /// The first failure of a file; it ends the consensus.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }
}

/// Greatest term that a recovery keeps: an election each second for 136 years. A node with a changed program sent a greater one.
const TERM_KEPT_MAX: u64 = 1 << 32;

/// The entry after which a node continues alone. Its term is that of the entry, or 1 if no further elections fit. `None` if no further
/// index fits.
pub(crate) fn begins_after(last: LogId) -> Option<LogId> {
    let leader = last.committed_leader_id();
    let term = match leader.term <= TERM_KEPT_MAX {
        true => leader.term,
        false => 1,
    };
    let of_term = VoteOf::<Types>::new_committed(term, leader.node_id);
    let kept = LogId::new(*of_term.leader_id(), last.index);
    (last.index <= NUMBER_MAX).then_some(kept)
}

/// A vote of the term of an entry, so that the next election has a later term.
pub(crate) fn vote_of(log_id: LogId) -> VoteOf<Types> {
    let leader = log_id.committed_leader_id();
    VoteOf::<Types>::new(leader.term, leader.node_id)
}

/// Parses a position, stored as the library's text.
pub(crate) fn read_position(
    position: Option<&Position>,
) -> io::Result<(Option<LogId>, Membership)> {
    let Some(position) = position else {
        return Ok((None, Membership::default()));
    };
    let membership = if position.membership.is_empty() {
        Membership::default()
    } else {
        serde_json::from_str(&position.membership)?
    };
    let log_id = if position.log_id.is_empty() {
        None
    } else {
        Some(serde_json::from_str(&position.log_id)?)
    };
    Ok((log_id, membership))
}

/// A membership with one voter, as the text of a position at this entry.
pub(crate) fn only_voter(at: LogId, number: u64) -> serde_json::Result<String> {
    let alone = openraft::Membership::new_with_defaults(vec![[number].into()], [number]);
    serde_json::to_string(&Membership::new(Some(at), alone))
}

/// Runs blocking disk work outside of the threads of the consensus.
async fn blocking<T: Send + 'static>(
    guard: &Guard,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let result = match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    };
    if let Err(error) = &result {
        // Only the first failure is kept; later ones follow from it.
        let _ = guard.fault.set(error.to_string());
    }
    result
}
