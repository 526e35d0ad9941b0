//! Owns the members of the consensus: voters, learners, and their progress. Does not choose them;
//! the leader's keeper of the cluster does.

use std::collections::BTreeMap;

use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{BasicNode, ChangeMembers};

use tokio::time::error::Elapsed;

use super::Replica;
use crate::raft::Types;

/// The members of the consensus, according to this node.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a>(pub &'a Replica);

/// One member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Address at which others reach the member.
    pub address: String,
    /// Whether the member votes.
    pub votes: bool,
    /// Index of the last command that the member has stored; only the leader knows it.
    pub matched: Option<u64>,
}

impl Members<'_> {
    /// All members, by number.
    #[must_use]
    pub fn all(&self) -> BTreeMap<u64, Member> {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let matched = metrics.replication.as_ref();
        membership
            .nodes()
            .map(|(number, node)| {
                let at = matched.and_then(|matched| matched.get(number));
                let member = Member {
                    address: node.addr.clone(),
                    votes: voters.contains(number),
                    matched: at.and_then(|at| at.as_ref().map(|log_id| log_id.index)),
                };
                (*number, member)
            })
            .collect()
    }

    /// Adds a node as a learner without a vote, or changes the address of a member. Blocks.
    ///
    /// # Errors
    /// This node does not lead, or no majority answers.
    pub fn put(&self, number: u64, address: &str) -> Result<(), String> {
        let node = BasicNode::new(address);
        if self.all().contains_key(&number) {
            return self.change(ChangeMembers::SetNodes(BTreeMap::from([(number, node)])));
        }
        let raft = self.0.raft.clone();
        let within = self.0.options.propose_within;
        self.0.handle().block_on(async move {
            let added = tokio::time::timeout(within, raft.add_learner(number, node, false)).await;
            outcome(added)
        })
    }

    /// Makes exactly these members voters. Blocks.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn vote(&self, voters: impl IntoIterator<Item = u64>) -> Result<(), String> {
        self.change(ChangeMembers::ReplaceAllVoters(
            voters.into_iter().collect(),
        ))
    }

    /// Removes a member that does not vote. Blocks.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn remove(&self, number: u64) -> Result<(), String> {
        self.change(ChangeMembers::RemoveNodes([number].into()))
    }

    fn change(&self, change: ChangeMembers<u64, BasicNode>) -> Result<(), String> {
        let raft = self.0.raft.clone();
        let within = self.0.options.propose_within;
        self.0.handle().block_on(async move {
            // A former voter stays a learner.
            outcome(tokio::time::timeout(within, raft.change_membership(change, true)).await)
        })
    }
}

type Trouble = RaftError<Types, ClientWriteError<Types>>;

fn outcome<T>(changed: Result<Result<T, Trouble>, Elapsed>) -> Result<(), String> {
    match changed {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err("no majority of the voters answered in time".to_owned()),
    }
}

/// The library's error in words for an operator. All but the last are transient: the leader
/// retries.
fn words(error: &Trouble) -> String {
    let error = match error {
        RaftError::APIError(error) => error,
        RaftError::Fatal(_) => {
            return "the consensus of this node has ended; see the node's log, and restart the node"
                .to_owned();
        }
    };
    let words = match error {
        ClientWriteError::ForwardToLeader(_) => "another node leads now and will make this change",
        ClientWriteError::LogEntryDiscarded(_) => {
            "the leader has changed since this change began; the new leader makes the change if it was not made yet"
        }
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_)) => {
            "another change of the members is not finished yet"
        }
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::UncommittedLeaderLog(_)) => {
            "this node has just become the leader"
        }
        other => return format!("the consensus refuses this change of its members: {other}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use openraft::errors::{ForwardToLeader, InProgress};

    use super::*;

    #[test]
    fn errors_of_the_library_have_words_for_operators() {
        let nobody = ForwardToLeader::empty;
        let in_progress = InProgress {
            committed: None,
            membership_log_id: None,
        };
        for (error, said) in [
            (
                ClientWriteError::LogEntryDiscarded(nobody()),
                "if it was not made yet",
            ),
            (
                ClientWriteError::ForwardToLeader(nobody()),
                "another node leads now",
            ),
            (
                ClientWriteError::ChangeMembershipError(in_progress.into()),
                "another change of the members",
            ),
        ] {
            let words = words(&RaftError::APIError(error));
            assert!(words.contains(said), "{words}");
            for raw in ["log entry", "application", "LogId", "None"] {
                assert!(!words.contains(raw), "{words}");
            }
        }
        let stopped = words(&RaftError::Fatal(openraft::errors::Fatal::Stopped));
        assert!(!stopped.contains("raft"), "{stopped}");
    }
}
