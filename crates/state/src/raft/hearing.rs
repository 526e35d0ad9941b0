//! Answers the other voters' messages to this voter. Accepts a node's messages only about itself, not about
//! other nodes. The carrier authenticates the sender.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::machine::SnapshotFile;
use super::network::{PIECE_BYTES, Piece, Taken};
use super::{Raft, Types, network};
use crate::store::check_copy;

/// Largest accepted snapshot: a hundred times the state of a node with 10⁵ jobs.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 30;

/// Answers messages for one voter.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// File in which an incoming snapshot is assembled.
    incoming: PathBuf,
    /// Sender of the current snapshot, and number of bytes received. Only one snapshot is received at a
    /// time.
    taken: Mutex<(u64, u64)>,
}

impl Hearing {
    pub(crate) fn new(incoming: PathBuf) -> Self {
        Self {
            incoming,
            taken: Mutex::new((0, 0)),
        }
    }

    /// Answers a message of the consensus from the node with the number `from`. `None` if the kind is
    /// unknown.
    pub(crate) async fn hear(
        &self,
        raft: &Raft,
        from: u64,
        kind: &str,
        message: &[u8],
    ) -> Option<io::Result<Vec<u8>>> {
        Some(match kind {
            network::APPEND => {
                match read(message, from, |rpc: &AppendEntriesRequest<Types>| rpc.vote) {
                    Ok(rpc) => written(raft.append_entries(rpc).await),
                    Err(error) => Err(error),
                }
            }
            network::VOTE => match read_vote(message, from) {
                Ok(rpc) => written(raft.vote(rpc).await),
                Err(error) => Err(error),
            },
            network::PRE_VOTE => match read_vote(message, from) {
                Ok(rpc) => written(raft.pre_vote(rpc).await),
                Err(error) => Err(error),
            },
            network::TRANSFER => {
                let leader = |rpc: &TransferLeaderRequest<Types>| *rpc.from_leader();
                match read(message, from, leader) {
                    Ok(rpc) => written(raft.handle_transfer_leader(rpc).await),
                    Err(error) => Err(error),
                }
            }
            network::SNAPSHOT => match read(message, from, |piece: &Piece| piece.vote) {
                Ok(piece) => self.take(raft, from, piece).await,
                Err(error) => Err(error),
            },
            _ => return None,
        })
    }

    async fn take(&self, raft: &Raft, from: u64, piece: Piece) -> io::Result<Vec<u8>> {
        let mut taken = self.taken.lock().await;
        // Pieces of two senders must not be mixed.
        let next = if taken.0 == from { taken.1 } else { 0 };
        if piece.offset != 0 && piece.offset != next {
            return written(Ok::<_, io::Error>(Taken::Next(next)));
        }
        let data = BASE64
            .decode(piece.data.as_bytes())
            .map_err(|error| invalid(&error))?;
        let end = piece.offset.saturating_add(data.len() as u64);
        if data.len() > PIECE_BYTES || end > piece.total || piece.total > SNAPSHOT_BYTES_MAX {
            return Err(invalid("a piece of a snapshot has an impossible length"));
        }
        if data.is_empty() && end < piece.total {
            return Err(invalid("a piece of a snapshot is empty"));
        }
        let (path, offset, total) = (self.incoming.clone(), piece.offset, piece.total);
        let stored = tokio::task::spawn_blocking(move || store(&path, offset, &data, end == total));
        stored.await.map_err(io::Error::other)??;
        *taken = (from, end);
        if end < piece.total {
            return written(Ok::<_, io::Error>(Taken::Next(end)));
        }
        *taken = (from, 0);
        let snapshot = SnapshotOf::<Types, SnapshotFile> {
            meta: piece.meta,
            snapshot: SnapshotFile {
                path: self.incoming.clone(),
            },
        };
        let installed = raft.install_full_snapshot(piece.vote, snapshot).await;
        written(installed.map(Taken::Whole))
    }
}

/// Writes a piece. The last one completes the file, which is checked before the consensus gets it.
fn store(path: &Path, offset: u64, data: &[u8], last: bool) -> io::Result<()> {
    if offset == 0 {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(data)?;
    if last {
        file.sync_all()?;
        check_copy(path)?;
    }
    Ok(())
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

fn read_vote(message: &[u8], from: u64) -> io::Result<VoteRequest<Types>> {
    let mut rpc = read(message, from, |rpc: &VoteRequest<Types>| rpc.vote)?;
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
