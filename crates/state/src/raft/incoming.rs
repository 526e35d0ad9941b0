//! Owns the file in which a snapshot of the leader is assembled: its pieces, its room, and its removal. Does not install it; the library
//! does.

use std::fs::{self, OpenOptions};
use std::future::Future;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use openraft::raft::SnapshotResponse;
use openraft::type_config::alias::{SnapshotOf, VoteOf};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::Types;
use super::machine::SnapshotFile;
use super::network::{CHUNK_BYTES, CHUNK_WITHIN, Chunk, Taken};
use crate::store::{check_copy, free_bytes};

/// Largest accepted snapshot: a hundred times the state of a node with 10⁵ jobs.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 30;

/// A snapshot without a further piece for this time has stopped: its sender would have repeated the piece.
pub(crate) const STOPPED_AFTER: Duration = CHUNK_WITHIN.saturating_mul(2);

/// The file of a snapshot that arrives. Only one arrives at a time.
#[derive(Debug)]
pub(crate) struct Incoming {
    file: PathBuf,
    /// Free space that the snapshot must leave.
    free_bytes_min: u64,
    stopped_after: Duration,
    progress: Arc<Mutex<Progress>>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The leader that sends the snapshot; `None` while none arrives.
    vote: Option<VoteOf<Types>>,
    /// Number of bytes received.
    end: u64,
    /// Number of pieces of all snapshots.
    pieces: u64,
    /// A task waits for the end of the pieces.
    is_watched: bool,
}

impl Incoming {
    /// Removes the part that an earlier process left. If that fails, the next snapshot fails, too.
    pub(crate) fn new(file: PathBuf, free_bytes_min: u64, stopped_after: Duration) -> Self {
        let _ = fs::remove_file(&file);
        Self {
            file,
            free_bytes_min,
            stopped_after,
            progress: Arc::default(),
        }
    }

    /// Adds a piece. The last one completes the file, which `install` takes.
    pub(crate) async fn take<F>(
        &self,
        piece: Chunk,
        install: impl FnOnce(VoteOf<Types>, SnapshotOf<Types, SnapshotFile>) -> F,
    ) -> io::Result<Taken>
    where
        F: Future<Output = io::Result<SnapshotResponse<Types>>>,
    {
        let mut progress = self.progress.lock().await;
        // Pieces of two leaders must not be mixed.
        let is_same = progress.vote == Some(piece.vote);
        let next = if is_same { progress.end } else { 0 };
        if piece.offset != 0 && piece.offset != next {
            return Ok(Taken::Next(next));
        }
        let data = BASE64.decode(piece.data.as_bytes());
        let data = data.map_err(|error| invalid(&error.to_string()))?;
        let end = piece.offset.saturating_add(data.len() as u64);
        if data.len() > CHUNK_BYTES || end > piece.total || piece.total > SNAPSHOT_BYTES_MAX {
            return Err(invalid("a piece of a snapshot has an impossible length"));
        }
        if data.is_empty() && end < piece.total {
            return Err(invalid("a piece of a snapshot is empty"));
        }
        let (file, offset, total) = (self.file.clone(), piece.offset, piece.total);
        let free_min = self.free_bytes_min;
        let stored = tokio::task::spawn_blocking(move || {
            make_room(&file, offset, total, free_min)?;
            store(&file, offset, &data, end == total)
        });
        stored.await.map_err(io::Error::other)??;
        progress.vote = Some(piece.vote);
        progress.end = end;
        progress.pieces += 1;
        if end < piece.total {
            self.watch(&mut progress);
            return Ok(Taken::Next(end));
        }
        progress.vote = None;
        let snapshot = SnapshotOf::<Types, SnapshotFile> {
            meta: piece.meta,
            snapshot: SnapshotFile {
                path: self.file.clone(),
            },
        };
        let installed = install(piece.vote, snapshot).await;
        // The state machine has renamed the file, unless the snapshot was not newer than the state.
        let _ = fs::remove_file(&self.file);
        installed.map(Taken::Whole)
    }

    /// Removes the file once its pieces have stopped.
    fn watch(&self, progress: &mut Progress) {
        if progress.is_watched {
            return;
        }
        progress.is_watched = true;
        let (shared, file) = (Arc::clone(&self.progress), self.file.clone());
        let (mut seen, stopped_after) = (progress.pieces, self.stopped_after);
        tokio::spawn(async move {
            loop {
                sleep(stopped_after).await;
                let mut progress = shared.lock().await;
                if progress.vote.is_some() && progress.pieces != seen {
                    seen = progress.pieces;
                    continue;
                }
                if progress.vote.take().is_some() {
                    let _ = fs::remove_file(&file);
                }
                progress.is_watched = false;
                return;
            }
        });
    }
}

/// Refuses a snapshot whose rest does not fit beside the space that must stay free. The first piece replaces an earlier part.
fn make_room(file: &Path, offset: u64, total: u64, free_min: u64) -> io::Result<()> {
    if offset == 0 {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let directory = file.parent().unwrap_or_else(|| Path::new("."));
    let free = free_bytes(directory)?.saturating_sub(free_min);
    let needed = total.saturating_sub(offset);
    if needed > free {
        let what = format!("a snapshot needs {needed} bytes, and has room for {free}");
        return Err(io::Error::new(io::ErrorKind::StorageFull, what));
    }
    Ok(())
}

/// Writes a piece. The last one completes the file, which is checked before the consensus gets it.
fn store(file: &Path, offset: u64, data: &[u8], last: bool) -> io::Result<()> {
    let mut into = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(file)?;
    into.seek(SeekFrom::Start(offset))?;
    into.write_all(data)?;
    if last {
        into.sync_all()?;
        check_copy(file).inspect_err(|_| drop(fs::remove_file(file)))?;
    }
    Ok(())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::Membership;
    use openraft::type_config::alias::SnapshotMetaOf;
    use std::time::Instant;

    /// Longer than any step takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_part_disappears_after_its_last_piece() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("incoming.db");
        let incoming = Incoming::new(file.clone(), 0, Duration::from_millis(100));
        for _ in 0..2 {
            let piece = Chunk {
                vote: VoteOf::<Types>::new_committed(1, 2),
                meta: SnapshotMetaOf::<Types> {
                    last_log_id: None,
                    last_membership: Membership::default(),
                },
                offset: 0,
                total: 4,
                data: "AAAA".to_owned(),
            };
            let none = |_, _| async { Err(io::Error::other("it is not complete")) };
            let taken = runtime.block_on(incoming.take(piece, none));
            assert!(matches!(taken, Ok(Taken::Next(3))));
            let until = Instant::now() + PATIENCE;
            while file.exists() {
                assert!(Instant::now() < until, "the part stays");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
