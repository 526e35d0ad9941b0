//! Replaces a node's state with a backup. Does not delete: the earlier files are kept beside the new ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::Directory;
use crate::fault::{Fault, FaultKind};
use crate::model::{Actor, Change, Command, FormerNode, Invite, Node, Op, Timestamp};
use crate::raft::{Log, begins_after, only_voter, read_position, vote_of};
use crate::read::Reader;
use crate::store::{Position, Store, check_copy, copy_into, make_directory, sync_directory};

/// Most earlier states that are kept beside the current one.
const KEPT_MAX: u32 = 1_000;

/// Writes a copy of the state in `directory` as one file, complete or not at all. The node may be running.
///
/// # Errors
/// When there is no state, or the copy cannot be written.
pub fn backup(directory: &Path, copy: &Path) -> Result<(), Fault> {
    copy_into(&directory.join("state.db"), copy).map(drop)
}

/// Result of a restore.
#[derive(Debug)]
pub struct Restored {
    /// The directory with the earlier files, if there were any.
    pub kept: Option<PathBuf>,
    /// The row of the node; `None` for a node that was alone.
    pub node: Option<Node>,
    /// Number of other nodes of the state. They belong to the earlier cluster.
    pub others: usize,
}

/// Replaces the state in `directory` with the backup `copy`. The node with this identity becomes the only voter and the only node, and jobs
/// of other nodes return to the queue. Open invitations end. `at` is the current time. The node must not be running.
///
/// # Errors
/// When the backup is damaged, of another kind or from a newer program. Nothing has changed then.
pub fn restore(
    directory: &Path,
    copy: &Path,
    identity: &str,
    at: Timestamp,
) -> Result<Restored, Fault> {
    check_copy(copy)?;
    let directory = Directory::lock(directory)?;
    // The first node of a cluster has a row only once there are others.
    make_only(&directory, copy, at, 1, StateAge::Earlier, |node| {
        node.identity == identity
    })
}

/// Makes the node with this number the only one, in the same way. Its state is in `directory`. The node must not be running.
///
/// # Errors
/// When the state is damaged or missing. Nothing has changed then.
pub fn recover(directory: &Path, number: u64, at: Timestamp) -> Result<Restored, Fault> {
    let directory = Directory::lock(directory)?;
    directory.check_restored()?;
    let state = directory.state();
    check_copy(&state)?;
    make_only(&directory, &state, at, number, StateAge::Latest, |node| {
        node.number == number
    })
}

/// Age of the state of a node that continues alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum StateAge {
    /// The latest state that the node has.
    Latest,
    /// That of a backup. Its invitations may have been used or revoked since.
    Earlier,
}

/// Keeps only the node for which `is_own` is true, otherwise the node with the number `without_row`.
fn make_only(
    directory: &Directory,
    copy: &Path,
    at: Timestamp,
    without_row: u64,
    age: StateAge,
    is_own: impl Fn(&Node) -> bool,
) -> Result<Restored, Fault> {
    let new = bring(directory, copy)?;
    let reader = Reader::new(new.join("state.db"));
    let nodes: Vec<Node> = reader.objects()?;
    let mut invites: Vec<Invite> = reader.objects()?;
    invites.retain(|invite| age == StateAge::Earlier && invite.used.is_none());
    drop(reader);
    let (own, others): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(is_own);
    let node = own.into_iter().next();
    let number = node.as_ref().map_or(without_row, |node| node.number);
    prepare(directory, copy, &new, number)?;
    remove(&new.join("state.db"), &others, &invites, at)?;
    Ok(Restored {
        kept: exchange(directory, &new)?,
        node,
        others: others.len(),
    })
}

/// Removes nodes and ends invitations, as commands would, and records the nodes as former ones.
fn remove(state: &Path, nodes: &[Node], invites: &[Invite], at: Timestamp) -> Result<(), Fault> {
    let mut store = Store::open(state)?;
    let index = store.position()?.unwrap_or_default().index;
    let mut batch = store.batch()?;
    for invite in invites {
        let op = Op::Invite(Change::Remove(invite.id.clone()));
        let _ = batch.apply(index, &Command::new(at, Actor::node("recover"), op))?;
    }
    for node in nodes {
        let op = Op::Node(Change::Remove(node.name.clone()));
        // A refusal means that the node does not exist.
        let _ = batch.apply(index, &Command::new(at, Actor::node("recover"), op))?;
        let former = FormerNode {
            identity: node.identity.clone(),
            name: node.name.clone(),
        };
        batch.note_former(&former, at)?;
    }
    batch.commit()
}

/// Moves the state in `directory` aside. Returns the directory with the moved files, if there were any. The node must not be running.
///
/// # Errors
/// When another process uses the state, or the files cannot be moved.
pub fn set_aside(directory: &Path) -> Result<Option<PathBuf>, Fault> {
    keep(&Directory::lock(directory)?)
}

/// Replaces the existing files with those in `new`.
fn exchange(directory: &Directory, new: &Path) -> Result<Option<PathBuf>, Fault> {
    let kept = keep(directory)?;
    // While the directory of the new files exists, the node refuses to open the state, which may be incomplete at this moment.
    for name in ["state.db", "raft.db"] {
        let (from, to) = (new.join(name), directory.path().join(name));
        fs::rename(&from, &to).map_err(|error| Fault::io(&to, error))?;
        sync_directory(directory.path())?;
    }
    fs::remove_dir_all(new).map_err(|error| Fault::io(new, error))?;
    sync_directory(directory.path())?;
    Ok(kept)
}

/// Writes the state to a separate directory, in the newest version.
fn bring(directory: &Directory, copy: &Path) -> Result<PathBuf, Fault> {
    let new = directory.restored();
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Fault::io(&new, error));
        }
        _ => {}
    }
    make_directory(&new)?;
    let state = new.join("state.db");
    copy_into(copy, &state)?;
    // SQLite removes its own files when the last connection closes.
    Store::open(&state)?;
    Ok(new)
}

/// Makes the node with that number the only voter, and writes a log that matches the state.
fn prepare(directory: &Directory, copy: &Path, new: &Path, number: u64) -> Result<(), Fault> {
    let (state, log) = (new.join("state.db"), new.join("raft.db"));
    let mut store = Store::open(&state)?;
    let position = store.position()?.unwrap_or_default();
    let (log_id, _) = read_position(Some(&position)).map_err(|error| Fault::io(copy, error))?;
    let Some(log_id) = log_id else {
        let what = "the backup holds no command".to_owned();
        return Err(Fault::new(copy, FaultKind::Apart(what)));
    };
    let Some(log_id) = begins_after(log_id) else {
        let what = format!(
            "its last command has the impossible number {}",
            log_id.index
        );
        return Err(Fault::new(copy, FaultKind::Damaged(what)));
    };
    let alone = only_voter(log_id, number).map_err(|error| Fault::io(copy, error.into()))?;
    let text = serde_json::to_string(&log_id);
    let text = text.map_err(|error| Fault::io(copy, error.into()))?;
    let mut batch = store.batch()?;
    batch.mark(&Position {
        index: position.index,
        log_id: text,
        membership: alone,
    })?;
    batch.commit()?;
    drop(store);
    Log::open(&log, directory.guard())?
        .begin_after(log_id, vote_of(log_id))
        .map_err(|error| Fault::io(&log, error))?;
    sync_directory(new)
}

/// Moves the existing files to a separate directory.
fn keep(directory: &Directory) -> Result<Option<PathBuf>, Fault> {
    let names = [
        "raft.db",
        "raft.db-wal",
        "raft.db-shm",
        "state.db",
        "state.db-wal",
        "state.db-shm",
        "snapshot.db",
        "incoming.db",
    ];
    let present: Vec<_> = names
        .into_iter()
        .filter(|name| directory.path().join(name).exists())
        .collect();
    if present.is_empty() {
        return Ok(None);
    }
    let kept = (1..=KEPT_MAX)
        .map(|number| directory.path().join(format!("kept-{number}")))
        .find(|kept| !kept.exists())
        .ok_or_else(|| {
            let error =
                io::Error::other("too many copies of earlier states are kept here; remove some");
            Fault::io(directory.path(), error)
        })?;
    make_directory(&kept)?;
    for name in present {
        let (from, to) = (directory.path().join(name), kept.join(name));
        fs::rename(&from, &to).map_err(|error| Fault::io(&from, error))?;
    }
    sync_directory(&kept)?;
    sync_directory(directory.path())?;
    Ok(Some(kept))
}
