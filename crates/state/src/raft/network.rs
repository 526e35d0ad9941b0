//! Owns the messages of the consensus to other voters, which a carrier delivers.
//! Opens no connection: `Peers` does. The answers of a voter are in `consensus_receiver`.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use openraft::entry::RaftEntry as _;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf, VoteOf};
use openraft::{BasicNode, OptionalSend};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Types;
use super::machine::SnapshotFile;
use super::majority::{LostMajority, Marked};
use super::plausible::Standing;
use crate::model::COMMAND_BYTES_MAX;

/// Bytes of entries in one message, as JSON. One entry of the maximum length fits.
const APPEND_BYTES_MAX: usize = COMMAND_BYTES_MAX + (16 << 10);

/// Bytes of a snapshot in one message, before encoding as text.
pub(crate) const CHUNK_BYTES: usize = 384 << 10;

/// Time limit for one piece of a snapshot.
pub(crate) const CHUNK_WITHIN: Duration = Duration::from_secs(30);

/// Entries of the log, and heartbeats.
pub(crate) const APPEND: &str = "append";
/// A request for a vote.
pub(crate) const VOTE: &str = "vote";
/// Asks whether the voter would give its vote.
pub(crate) const PRE_VOTE: &str = "pre-vote";
/// A piece of a snapshot.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// The leader transfers the leadership.
pub(crate) const TRANSFER: &str = "transfer";
/// Asks whether this voter has enough disk space to lead.
pub(crate) const ROOM: &str = "room";
/// A command for the leader. This is the only message that has a further effect if it arrives twice.
pub const PROPOSE: &str = "propose";

/// Carries messages of the consensus to other nodes.
pub trait Peers: Debug + Send + Sync + 'static {
    /// Sends `message`, which is JSON, of that `kind` to the node with the number `to` at `address`, and returns its answer. Fails with
    /// [`io::ErrorKind::NotConnected`] if the message certainly did not arrive.
    fn call(
        &self,
        to: u64,
        address: &str,
        kind: &'static str,
        message: Vec<u8>,
        within: Duration,
    ) -> Answer;
}

/// Whether messages of this kind are answered immediately. Proposals wait for other voters, and pieces of snapshots for the disk.
#[must_use]
pub fn is_short(kind: &str) -> bool {
    [APPEND, VOTE, PRE_VOTE, TRANSFER, ROOM].contains(&kind)
}

/// The future answer of a node.
pub type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send>>;

/// The carrier of a single node, which has no peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn call(&self, _: u64, address: &str, _: &'static str, _: Vec<u8>, _: Duration) -> Answer {
        let what = format!("{address}: this node cannot reach other nodes");
        Box::pin(async { Err(io::Error::new(io::ErrorKind::NotConnected, what)) })
    }
}

/// A piece of a snapshot. Pieces are sent in order; the reply to the last one is the answer of the consensus.
#[derive(Deserialize, Serialize)]
#[serde(bound = "")]
pub(crate) struct Chunk {
    pub(crate) vote: VoteOf<Types>,
    pub(crate) meta: SnapshotMetaOf<Types>,
    pub(crate) offset: u64,
    pub(crate) total: u64,
    /// BASE64.
    pub(crate) data: String,
}

/// Answer of a voter to a piece.
#[derive(Deserialize, Serialize)]
#[serde(bound = "", rename_all = "snake_case")]
pub(crate) enum Taken {
    /// The offset of the next piece.
    Next(u64),
    /// The snapshot is complete.
    Whole(SnapshotResponse<Types>),
}

/// Makes the connections of the consensus to voters.
#[derive(Debug)]
pub(crate) struct Network {
    peers: Arc<dyn Peers>,
    majority: LostMajority,
}

impl Network {
    pub(crate) fn new(peers: Arc<dyn Peers>) -> Self {
        Self {
            peers,
            majority: LostMajority::default(),
        }
    }

    /// Decides whether messages have the mark of a leader without a majority.
    pub(crate) fn majority(&self) -> LostMajority {
        self.majority.clone()
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Voter;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Voter {
        Voter {
            number: target,
            peers: Arc::clone(&self.peers),
            majority: self.majority.clone(),
            address: node.addr.clone(),
        }
    }
}

/// One other voter.
#[derive(Debug)]
pub(crate) struct Voter {
    number: u64,
    peers: Arc<dyn Peers>,
    majority: LostMajority,
    address: String,
}

impl Voter {
    async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        kind: &'static str,
        question: &Q,
        within: Duration,
    ) -> Result<A, RPCError<Types>> {
        let answer = say(
            &*self.peers,
            (self.number, &self.address),
            kind,
            question,
            within,
        )
        .await;
        answer.map_err(|error| match error.kind() {
            // The consensus pauses for a moment before it retries.
            io::ErrorKind::NotConnected => RPCError::Unreachable(Unreachable::new(&error)),
            _ => RPCError::Network(NetworkError::new(&error)),
        })
    }
}

/// Sends a message to the node with this number at an address.
pub(crate) async fn say<Q: Serialize, A: DeserializeOwned>(
    peers: &dyn Peers,
    (number, address): (u64, &str),
    kind: &'static str,
    question: &Q,
    within: Duration,
) -> io::Result<A> {
    let message = serde_json::to_vec(question)?;
    let answer = peers.call(number, address, kind, message, within).await?;
    Ok(serde_json::from_slice(&answer)?)
}

impl RaftNetworkV2<Types> for Voter {
    type SnapshotData = SnapshotFile;

    /// Sends as many entries as one message holds.
    async fn append_entries(
        &mut self,
        mut rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let mut bytes = 0_usize;
        let fitting = rpc.entries.iter().take_while(|entry| {
            let first = bytes == 0;
            bytes += serde_json::to_vec(entry).map_or(usize::MAX / 2, |json| json.len());
            first || bytes <= APPEND_BYTES_MAX
        });
        let count = fitting.count();
        let cut = count < rpc.entries.len();
        rpc.entries.truncate(count);
        let last = rpc.entries.last().map(|entry| entry.log_id());
        let within = option.soft_ttl();
        let answer = match self.majority.is_lost() {
            false => self.ask(APPEND, &rpc, within).await?,
            true => self.ask(APPEND, &Marked::new(&rpc), within).await?,
        };
        Ok(match answer {
            AppendEntriesResponse::Success if cut => AppendEntriesResponse::PartialSuccess(last),
            AppendEntriesResponse::HigherVote(vote) => {
                check_vote(rpc.vote, vote)?;
                answer
            }
            // Only this method makes it: a voter stores all entries or none.
            AppendEntriesResponse::PartialSuccess(_) => {
                return Err(false_answer(&io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the voter has stored a part of the entries",
                )));
            }
            answer => answer,
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let answer = self.ask(VOTE, &rpc, option.soft_ttl()).await?;
        check_response(&rpc, answer)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let answer = self.ask(PRE_VOTE, &rpc, option.soft_ttl()).await?;
        check_response(&rpc, answer)
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        self.ask(TRANSFER, &rpc, option.soft_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sending = async {
            let mut offset = 0;
            loop {
                let path = snapshot.snapshot.path.clone();
                let read = tokio::task::spawn_blocking(move || read_piece(&path, offset));
                let read = read.await.map_err(io::Error::other).and_then(|read| read);
                let (data, total) =
                    read.map_err(|error| StreamingError::Unreachable(Unreachable::new(&error)))?;
                let piece = Chunk {
                    vote,
                    meta: snapshot.meta.clone(),
                    offset,
                    total,
                    data: BASE64.encode(&data),
                };
                let taken = self.ask(SNAPSHOT, &piece, CHUNK_WITHIN).await?;
                match taken {
                    Taken::Whole(response) => {
                        check_vote(vote, response.vote)?;
                        return Ok(response);
                    }
                    Taken::Next(next) => offset = next,
                }
            }
        };
        tokio::select! {
            sent = sending => sent,
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }
}

/// Refuses a vote in an answer that no election can follow.
fn check_vote(asked: VoteOf<Types>, answered: VoteOf<Types>) -> Result<(), RPCError<Types>> {
    let own = Standing::of_asker(asked);
    own.check_vote(answered)
        .map_err(|error| false_answer(&error))
}

fn check_response(
    asked: &VoteRequest<Types>,
    answer: VoteResponse<Types>,
) -> Result<VoteResponse<Types>, RPCError<Types>> {
    check_vote(asked.vote, answer.vote)?;
    if let Some(last) = answer.last_log_id {
        let own = Standing::of_asker(asked.vote);
        own.check_id(last).map_err(|error| false_answer(&error))?;
    }
    Ok(answer)
}

fn false_answer(error: &io::Error) -> RPCError<Types> {
    RPCError::Network(NetworkError::new(error))
}

/// A piece of the file, and the length of the file.
fn read_piece(path: &Path, offset: u64) -> io::Result<(Vec<u8>, u64)> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let total = file.metadata()?.len();
    file.seek(SeekFrom::Start(offset))?;
    let mut data = Vec::with_capacity(CHUNK_BYTES);
    file.take(CHUNK_BYTES as u64).read_to_end(&mut data)?;
    Ok((data, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A voter that gives one answer to all messages.
    #[derive(Debug)]
    struct Liar(Value);

    impl Peers for Liar {
        fn call(&self, _: u64, _: &str, _: &'static str, _: Vec<u8>, _: Duration) -> Answer {
            let answer = serde_json::to_vec(&self.0);
            Box::pin(async move { Ok(answer?) })
        }
    }

    fn voter(answer: Value) -> Voter {
        Voter {
            number: 2,
            peers: Arc::new(Liar(answer)),
            majority: LostMajority::default(),
            address: "node-2".to_owned(),
        }
    }

    #[test]
    fn an_answer_cannot_use_up_the_terms() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let option = || RPCOption::new(Duration::from_secs(1));
        let vote = VoteOf::<Types>::new_committed(5, 1);
        let appended = |answer: Value| {
            let rpc = AppendEntriesRequest {
                vote,
                prev_log_id: None,
                entries: Vec::new(),
                leader_commit: None,
            };
            runtime.block_on(voter(answer).append_entries(rpc, option()))
        };
        let voted = |answer: Value| {
            let rpc = VoteRequest::new(vote, None);
            runtime.block_on(voter(answer).vote(rpc, option()))
        };
        let of_term =
            |term: u64| json!({"leader_id": {"term": term, "node_id": 2}, "committed": false});
        let response =
            |term: u64| json!({"vote": of_term(term), "vote_granted": false, "last_log_id": null});
        for term in [u64::MAX, 1 << 49, 1 << 21] {
            appended(json!({"HigherVote": of_term(term)})).expect_err("impossible");
            voted(response(term)).expect_err("impossible");
        }
        let far = json!({"leader_id": {"term": 5, "node_id": 2}, "index": u64::MAX});
        appended(json!({"PartialSuccess": far})).expect_err("not stored");
        appended(json!({"HigherVote": of_term(9)})).expect("a later election");
        voted(response(9)).expect("a later election");
    }
}
