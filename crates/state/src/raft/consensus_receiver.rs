//! Answers the other voters' messages to this voter. Accepts a node's messages only about itself, not about
//! other nodes. The carrier authenticates the sender.

use std::io;

use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use openraft::type_config::alias::VoteOf;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::incoming::Incoming;
use super::network::Chunk;
use super::plausible::Standing;
use super::{Raft, Types, network};

/// Answers messages for one voter.
#[derive(Debug)]
pub(crate) struct ConsensusReceiver {
    incoming: Incoming,
}

impl ConsensusReceiver {
    pub(crate) const fn new(incoming: Incoming) -> Self {
        Self { incoming }
    }

    /// Answers a message of the consensus from the node with the number `from`. `None` if the kind is
    /// unknown.
    pub(crate) async fn answer(
        &self,
        raft: &Raft,
        from: u64,
        kind: &str,
        message: &[u8],
    ) -> Option<io::Result<Vec<u8>>> {
        let own = Standing::of(raft);
        Some(match kind {
            network::APPEND => {
                let rpc = read(message, from, |rpc: &AppendEntriesRequest<Types>| rpc.vote);
                match checked(rpc, |rpc| own.check_append(rpc)) {
                    Ok(rpc) => written(raft.append_entries(rpc).await),
                    Err(error) => Err(error),
                }
            }
            network::VOTE => match read_vote(message, from, &own) {
                Ok(rpc) => written(raft.vote(rpc).await),
                Err(error) => Err(error),
            },
            network::PRE_VOTE => match read_vote(message, from, &own) {
                Ok(rpc) => written(raft.pre_vote(rpc).await),
                Err(error) => Err(error),
            },
            network::TRANSFER => {
                let leader = |rpc: &TransferLeaderRequest<Types>| *rpc.from_leader();
                match checked(read(message, from, leader), |rpc| own.check_transfer(rpc)) {
                    Ok(rpc) => written(raft.handle_transfer_leader(rpc).await),
                    Err(error) => Err(error),
                }
            }
            network::SNAPSHOT => {
                let piece = read(message, from, |piece: &Chunk| piece.vote);
                match checked(piece, |piece| own.check_piece(piece)) {
                    Ok(piece) => self.take(raft, piece).await,
                    Err(error) => Err(error),
                }
            }
            _ => return None,
        })
    }

    async fn take(&self, raft: &Raft, piece: Chunk) -> io::Result<Vec<u8>> {
        let install = |vote, snapshot| async move {
            let installed = raft.install_full_snapshot(vote, snapshot).await;
            installed.map_err(|error| io::Error::other(error.to_string()))
        };
        let taken = self.incoming.take(piece, install).await?;
        written(Ok::<_, io::Error>(taken))
    }
}

/// Parses a message of the node with the number `from`. The node may send messages only about itself.
fn read<T: DeserializeOwned>(
    message: &[u8],
    from: u64,
    vote: impl Fn(&T) -> VoteOf<Types>,
) -> io::Result<T> {
    let read: T = serde_json::from_slice(message).map_err(|error| invalid(&error))?;
    let speaks_for = vote(&read).leader_id().node_id;
    if speaks_for == from {
        return Ok(read);
    }
    let what = format!("node number {from} speaks for node number {speaks_for}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// A message whose numbers are plausible.
fn checked<T>(message: io::Result<T>, check: impl FnOnce(&T) -> io::Result<()>) -> io::Result<T> {
    let message = message?;
    check(&message)?;
    Ok(message)
}

fn read_vote(message: &[u8], from: u64, own: &Standing) -> io::Result<VoteRequest<Types>> {
    let rpc = read(message, from, |rpc: &VoteRequest<Types>| rpc.vote);
    let mut rpc = checked(rpc, |rpc| own.check_request(rpc))?;
    // The leader's consent cannot be proven. A leader that transfers the leadership informs each voter
    // itself.
    rpc.leadership_transfer = false;
    Ok(rpc)
}

fn written<T: Serialize, E: ToString>(answer: Result<T, E>) -> io::Result<Vec<u8>> {
    let answer = answer.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(serde_json::to_vec(&answer)?)
}

fn invalid(what: &(impl ToString + ?Sized)) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}
