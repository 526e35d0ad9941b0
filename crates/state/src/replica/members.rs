//! Owns who is in the consensus: who votes, who only follows, and how far each is.
//! Does not decide it: the leader's keeper of the cluster does.

use std::collections::BTreeMap;

use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::RaftError;
use openraft::{BasicNode, ChangeMembers};

use super::Replica;

/// The members of the consensus, as this node sees them.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a>(pub &'a Replica);

/// One member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Address at which others reach it.
    pub address: String,
    /// Whether it votes.
    pub votes: bool,
    /// Index of the last command that it has; known to the leader only.
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

    /// Adds a node that follows and does not vote, or gives a member another address. Blocks.
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
            told(added)
        })
    }

    /// Has these members vote, and no others. Blocks.
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
            // Who votes no more still follows.
            told(tokio::time::timeout(within, raft.change_membership(change, true)).await)
        })
    }
}

fn told<T, E: std::error::Error>(
    changed: Result<Result<T, RaftError<crate::raft::Types, E>>, tokio::time::error::Elapsed>,
) -> Result<(), String> {
    match changed {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no majority of the voters answered in time".to_owned()),
    }
}
