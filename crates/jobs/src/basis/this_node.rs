//! Owns the facts about this node that every group needs: its name, its files, its clock, its log, and its state.
//! Decides nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_run::local::ExportedFiles;
use godwit_state::{Actor, Command, Done, JobOp, Op, ProposeError, Reader, Replica, Timestamp};

use crate::basis::buffered::Shown;
use crate::basis::clock::Clock;

/// Writes a line to the log of the node.
pub(crate) type Log = dyn Fn(&str) + Send + Sync;

/// The node that this process is.
pub(crate) struct ThisNode {
    /// The node's name in the state.
    pub(crate) name: String,
    /// The names of the node's exports.
    pub(crate) exports: Vec<String>,
    /// The files in the exports.
    pub(crate) files: Arc<dyn ExportedFiles>,
    /// Log and samples of each job are kept in a directory below this one.
    pub(crate) directory: PathBuf,
    pub(crate) replica: Arc<Replica>,
    pub(crate) clock: Clock,
    pub(crate) log: Arc<Log>,
    pub(crate) stopping: AtomicBool,
    /// Jobs that were shown while data of them waited in the transfer buffer.
    pub(crate) shown: Shown,
}

impl ThisNode {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn reader(&self) -> Arc<Reader> {
        self.replica.reader()
    }

    /// Changes the state in the name of this node.
    pub(crate) fn propose(&self, op: Op) -> Result<Done, ProposeError> {
        self.propose_at(self.now(), op)
    }

    /// The same, at a time that was read before.
    pub(crate) fn propose_at(&self, at: Timestamp, op: Op) -> Result<Done, ProposeError> {
        let actor = Actor::node(self.name.clone());
        self.replica.propose_blocking(Command::new(at, actor, op))
    }

    /// Changes a job in the name of this node.
    pub(crate) fn propose_for(&self, id: &str, op: JobOp) -> Result<(), ProposeError> {
        self.propose(Op::Job(id.to_owned(), op)).map(drop)
    }
}
