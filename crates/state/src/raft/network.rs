//! Owns what the consensus says to other voters, as messages that a carrier takes there.
//! Opens no connection: `Peers` does, and with one voter there is nobody to speak to.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use openraft::{BasicNode, OptionalSend};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Types;
use super::machine::SnapshotFile;

/// Carries messages of the consensus to other voters.
pub trait Peers: Debug + Send + Sync + 'static {
    /// Takes `message` of that `kind` to the voter at `address`, and brings its answer.
    fn call(&self, address: &str, kind: &'static str, message: Vec<u8>) -> Answer;
}

/// The answer of a voter, once it comes.
pub type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send>>;

/// The peers of a single voter: there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn call(&self, address: &str, _kind: &'static str, _message: Vec<u8>) -> Answer {
        let what = format!("{address}: this node is its only voter");
        Box::pin(async { Err(io::Error::new(io::ErrorKind::Unsupported, what)) })
    }
}

/// Makes the handles by which the consensus speaks to voters.
#[derive(Debug)]
pub(crate) struct Network {
    peers: Arc<dyn Peers>,
}

impl Network {
    pub(crate) fn new(peers: Arc<dyn Peers>) -> Self {
        Self { peers }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Voter;

    async fn new_client(&mut self, _target: u64, node: &BasicNode) -> Voter {
        Voter {
            peers: Arc::clone(&self.peers),
            address: node.addr.clone(),
        }
    }
}

/// One other voter.
#[derive(Debug)]
pub(crate) struct Voter {
    peers: Arc<dyn Peers>,
    address: String,
}

impl Voter {
    async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        kind: &'static str,
        question: &Q,
    ) -> Result<A, RPCError<Types>> {
        let unreachable = |error: &io::Error| RPCError::Unreachable(Unreachable::new(error));
        let message = serde_json::to_vec(question).map_err(|error| unreachable(&error.into()))?;
        let answer = self.peers.call(&self.address, kind, message).await;
        let answer = answer.map_err(|error| unreachable(&error))?;
        serde_json::from_slice(&answer).map_err(|error| unreachable(&error.into()))
    }
}

impl RaftNetworkV2<Types> for Voter {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        self.ask("append", &rpc).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask("vote", &rpc).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask("pre-vote", &rpc).await
    }

    async fn full_snapshot(
        &mut self,
        _vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let what = format!(
            "{}: {} is not sent, for this node is its only voter",
            self.address,
            snapshot.snapshot.path.display()
        );
        Err(StreamingError::Unreachable(Unreachable::from_string(what)))
    }
}
