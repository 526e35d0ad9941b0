//! Owns the bounds of terms and indexes in messages and answers of other nodes. The library trusts these numbers: one that cannot grow any
//! more would end the consensus of this node for good. Does not check the sender; `consensus_receiver` does.

use std::io;

use openraft::async_runtime::WatchReceiver as _;
use openraft::entry::RaftEntry as _;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use openraft::type_config::alias::VoteOf;

use super::network::Chunk;
use super::{LogId, Raft, Types};

/// Greatest term and index: a thousand each second would last for 8,900 years.
pub(crate) const NUMBER_MAX: u64 = 1 << 48;

/// Terms that another node may be ahead of this one: an election each second for 12 days. Without this bound, one message could use up
/// all terms.
const TERMS_AHEAD_MAX: u64 = 1 << 20;

/// The position of this voter, with which messages are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    vote: VoteOf<Types>,
    committed: Option<LogId>,
    /// This voter has no entry yet. It may join a cluster of any term.
    is_new: bool,
}

impl Standing {
    pub(crate) fn of(raft: &Raft) -> Self {
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        Self {
            vote: metrics.vote,
            committed: metrics.local_committed,
            is_new: metrics.last_log_index.is_none(),
        }
    }

    /// The position of a voter that asked with this vote.
    pub(crate) const fn of_asker(vote: VoteOf<Types>) -> Self {
        Self {
            vote,
            committed: None,
            is_new: false,
        }
    }

    pub(crate) fn check_append(&self, rpc: &AppendEntriesRequest<Types>) -> io::Result<()> {
        self.check_vote(rpc.vote)?;
        for id in rpc.prev_log_id.iter().chain(&rpc.leader_commit) {
            self.check_id_of(*id, rpc.vote)?;
        }
        let first = rpc.prev_log_id.map_or(0, |id| id.index + 1);
        for (next, entry) in (first..).zip(&rpc.entries) {
            let id = entry.log_id();
            self.check_id_of(id, rpc.vote)?;
            if id.index != next {
                return Err(invalid("the entries do not follow each other".to_owned()));
            }
        }
        Ok(())
    }

    pub(crate) fn check_request(&self, rpc: &VoteRequest<Types>) -> io::Result<()> {
        self.check_vote(rpc.vote)?;
        rpc.last_log_id.map_or(Ok(()), |id| self.check_id(id))
    }

    pub(crate) fn check_transfer(&self, rpc: &TransferLeaderRequest<Types>) -> io::Result<()> {
        self.check_vote(*rpc.from_leader())?;
        let last = rpc.last_log_id();
        last.map_or(Ok(()), |id| self.check_id(*id))
    }

    /// Only the leader sends a snapshot; this voter hears a later leader first by its heartbeat. The library ends with a panic if a snapshot
    /// is newer than its leader, or contradicts committed entries.
    pub(crate) fn check_piece(&self, piece: &Chunk) -> io::Result<()> {
        self.check_vote(piece.vote)?;
        let leads = match self.vote.is_committed() {
            true => piece.vote == self.vote,
            false => piece.vote.is_committed() && piece.vote > self.vote,
        };
        if !leads {
            return Err(invalid("the sender of a snapshot does not lead".to_owned()));
        }
        let last = piece.meta.last_log_id;
        for id in last.iter().chain(piece.meta.last_membership.log_id()) {
            self.check_id_of(*id, piece.vote)?;
        }
        let contradicts = self
            .committed
            .zip(last)
            .is_some_and(|(committed, last)| last > committed && last.index <= committed.index);
        match contradicts {
            true => Err(invalid(
                "the snapshot contradicts committed entries".to_owned(),
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn check_vote(&self, vote: VoteOf<Types>) -> io::Result<()> {
        self.check_term(vote.leader_id().term)
    }

    pub(crate) fn check_id(&self, id: LogId) -> io::Result<()> {
        if id.index > NUMBER_MAX {
            return Err(invalid(format!("the index {} is impossible", id.index)));
        }
        self.check_term(id.committed_leader_id().term)
    }

    /// Checks an entry of a leader with that vote. No entry is newer than its leader.
    fn check_id_of(&self, id: LogId, vote: VoteOf<Types>) -> io::Result<()> {
        self.check_id(id)?;
        let (of, leader) = (id.committed_leader_id(), vote.leader_id());
        if (of.term, of.node_id) > (leader.term, leader.node_id) {
            return Err(invalid(format!("the entry {id} is newer than its leader")));
        }
        Ok(())
    }

    fn check_term(&self, term: u64) -> io::Result<()> {
        let own = self.vote.leader_id().term;
        let is_near = self.is_new || term <= own.saturating_add(TERMS_AHEAD_MAX);
        if is_near && term <= NUMBER_MAX {
            return Ok(());
        }
        let what = format!("the term {term} is impossible, because this node is at {own}");
        Err(invalid(what))
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::Membership;
    use openraft::type_config::alias::SnapshotMetaOf;

    #[test]
    fn a_snapshot_fits_its_leader_and_the_committed_entries() {
        let vote = |term: u64| VoteOf::<Types>::new_committed(term, 2);
        let id = |term: u64, index: u64| LogId::new(*vote(term).leader_id(), index);
        let own = Standing {
            vote: vote(20),
            committed: Some(id(19, 100)),
            is_new: false,
        };
        let check = |last: LogId| {
            own.check_piece(&Chunk {
                vote: vote(20),
                meta: SnapshotMetaOf::<Types> {
                    last_log_id: Some(last),
                    last_membership: Membership::default(),
                },
                offset: 0,
                total: 4,
                data: String::new(),
            })
        };
        for last in [id(20, 101), id(19, 101), id(19, 50)] {
            check(last).expect("of a leader");
        }
        // The library ends with a panic at the first and the second.
        for last in [id(21, 200), id(20, 100), id(20, 1 << 49)] {
            check(last).expect_err("of no leader");
        }
    }
}
