//! Owns the application of committed entries to the state, and snapshots of the state. Does not
//! interpret commands; `apply` does.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::Stream;
use openraft::entry::RaftEntry as _;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use tokio::sync::watch;

use super::{Guard, LogId, Membership, Types, blocking, read_position};
use crate::fault::Fault;
use crate::model::{Effect, Op};
use crate::store::{Position, Store, check_copy, copy_into, free_bytes};

/// Most entries of one transaction: it takes about 50 ms at most.
const BATCH_MAX: usize = 256;

/// Size of SQLite's own log of the state at which it is moved into the file: 1,000 pages.
const LOG_BYTES: u64 = 4 << 20;

/// The state, in the interface of the consensus.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    store: Arc<Mutex<Store>>,
    snapshot: PathBuf,
    applied: watch::Sender<u64>,
    guard: Arc<Guard>,
    /// The newest feature level that the program supports.
    level: u32,
}

/// A complete state in a separate file.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
}

impl Machine {
    /// A machine that applies to `store`, keeps its snapshot at `snapshot`, and reports applied entries.
    pub(crate) fn new(
        store: Store,
        snapshot: PathBuf,
        applied: watch::Sender<u64>,
        guard: Arc<Guard>,
        level: u32,
    ) -> Self {
        Self {
            store: Arc::new(Mutex::new(store)),
            snapshot,
            applied,
            guard,
            level,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies entries in one transaction, and only then answers the waiting proposals.
    fn apply_batch(&self, batch: Vec<EntryResponder<Types>>) -> io::Result<()> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut store = self.lock();
        let mut position = store.position()?.unwrap_or_default();
        let mut transaction = store.batch()?;
        for (entry, responder) in batch {
            let log_id = entry.log_id();
            let applied = match &entry.payload {
                EntryPayload::Normal(command) => transaction.apply(log_id.index, command)?,
                _ => Ok(Effect::Done),
            };
            if let EntryPayload::Normal(command) = &entry.payload
                && let Op::Level(level) = command.op
                && level > self.level
                && applied.is_ok()
            {
                // The whole batch is discarded, so that a newer program can apply it again.
                return Err(transaction.beyond(self.level, level).into());
            }
            if let Some(membership) = entry.get_membership() {
                let membership = Membership::new(Some(log_id), membership);
                position.membership = serde_json::to_string(&membership)?;
            }
            position.index = log_id.index;
            position.log_id = serde_json::to_string(&log_id)?;
            answers.extend(responder.map(|responder| (responder, applied)));
        }
        transaction.mark(&position)?;
        transaction.commit()?;
        drop(store);
        self.applied.send_replace(position.index);
        for (responder, applied) in answers {
            responder.send(applied);
        }
        Ok(())
    }

    /// Writes a new snapshot. The log may be cut up to the snapshot, so the state is synced too.
    fn build(&self) -> io::Result<SnapshotOf<Types, SnapshotFile>> {
        let file = self.lock().file().to_owned();
        let position = copy_into(&file, &self.snapshot)?;
        self.lock().sync()?;
        snapshot(&self.snapshot, &position)
    }

    /// Whether there is space for a copy of the state with its log, and as much again for later data.
    fn has_room(&self) -> io::Result<bool> {
        let file = self.lock().file().to_owned();
        let bytes = std::fs::metadata(&file)
            .map_err(|error| Fault::io(&file, error))?
            .len();
        Ok(free_bytes(&file)? >= bytes.saturating_mul(2).saturating_add(LOG_BYTES))
    }

    fn install(&self, from: &Path) -> io::Result<()> {
        let mut store = self.lock();
        store.replace(from)?;
        store.check_level(self.level)?;
        let position = store.position()?.unwrap_or_default();
        drop(store);
        if from != self.snapshot {
            std::fs::rename(from, &self.snapshot)
                .map_err(|error| Fault::io(&self.snapshot, error))?;
        }
        self.applied.send_replace(position.index);
        Ok(())
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Membership)> {
        let machine = self.clone();
        blocking(&self.guard, move || {
            let position = machine.lock().position()?;
            read_position(position.as_ref())
        })
        .await
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        loop {
            let mut batch = Vec::new();
            let mut end = false;
            std::future::poll_fn(|context| {
                while batch.len() < BATCH_MAX {
                    match Pin::new(&mut entries).poll_next(context) {
                        Poll::Ready(Some(entry)) => batch.push(entry),
                        Poll::Ready(None) => {
                            end = true;
                            return Poll::Ready(());
                        }
                        Poll::Pending if batch.is_empty() => return Poll::Pending,
                        Poll::Pending => return Poll::Ready(()),
                    }
                }
                Poll::Ready(())
            })
            .await;
            if !batch.is_empty() {
                let batch = batch.into_iter().collect::<io::Result<Vec<_>>>()?;
                let machine = self.clone();
                blocking(&self.guard, move || machine.apply_batch(batch)).await?;
            }
            if end {
                return Ok(());
            }
        }
    }

    /// Postpones the snapshot while there is no space, because a failed snapshot would end the
    /// consensus.
    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Self> {
        let machine = self.clone();
        let room = blocking(&self.guard, move || machine.has_room()).await;
        (force || room.unwrap_or(false)).then(|| self.clone())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMetaOf<Types>,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        let machine = self.clone();
        blocking(&self.guard, move || machine.install(&snapshot.path)).await
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<Types, SnapshotFile>>> {
        let path = self.snapshot.clone();
        blocking(&self.guard, move || {
            if !path.exists() {
                return Ok(None);
            }
            let position = check_copy(&path)?;
            snapshot(&path, &position).map(Some)
        })
        .await
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, SnapshotFile>> {
        let machine = self.clone();
        blocking(&self.guard, move || machine.build()).await
    }
}

fn snapshot(path: &Path, position: &Position) -> io::Result<SnapshotOf<Types, SnapshotFile>> {
    let (last_log_id, last_membership) = read_position(Some(position))?;
    Ok(SnapshotOf::<Types, SnapshotFile> {
        meta: SnapshotMetaOf::<Types> {
            last_log_id,
            last_membership,
        },
        snapshot: SnapshotFile {
            path: path.to_owned(),
        },
    })
}
