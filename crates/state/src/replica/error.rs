//! Owns what can go wrong between a proposal and its effect, and when a replica is opened.
//! Does not hold refusals of commands themselves: those are `CommandError`.

use std::path::PathBuf;

use thiserror::Error;

use crate::fault::Fault;
use crate::model::{COMMAND_BYTES_MAX, CommandError};

/// Why a replica did not open.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A file is at fault.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The consensus did not begin.
    #[error("the state did not become ready: {0}")]
    Start(String),
}

/// Why a proposal has no effect to tell.
#[derive(Debug, Error)]
pub enum ProposeError {
    /// The command changed nothing.
    #[error(transparent)]
    Refused(CommandError),
    /// Another voter leads; propose there. Nothing was changed.
    #[error("this node does not lead; {}", hint(leader.as_ref()))]
    NotLeader {
        /// Number and address of the leader, if it is known.
        leader: Option<(u64, String)>,
    },
    /// No leader has a majority. Nothing was changed, unless the majority comes back and finds the change on its way.
    #[error(
        "too few of the cluster's {voters} voters can be reached, so nothing can be changed; running transfers go on. Start the missing nodes or mend the network{}",
        recovery(*voters, *answering)
    )]
    NoMajority {
        /// How many vote.
        voters: usize,
        /// How many of the others answered lately.
        answering: usize,
    },
    /// The leader can write nothing, and no other voter leads yet. Nothing was changed.
    #[error("node number {number} leads, and takes no change: {why}")]
    Unable {
        /// Number of the leader.
        number: u64,
        /// What it said.
        why: String,
    },
    /// Too many proposals wait. Nothing was changed.
    #[error("too many changes wait for the disk; try again later")]
    Busy,
    /// Whether the command is or will be applied is not known: look before proposing it again.
    #[error("no answer in time; whether the change was made is not known yet")]
    Unknown,
    /// The file system of the state has too little room. Nothing was changed.
    #[error(
        "only {free} bytes are free under the state of the node, and changes need {needed}; make room in its GODWIT_HOME"
    )]
    Full {
        /// Directory of the state.
        directory: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The command is longer than commands may be. Nothing was changed.
    #[error("the change has {bytes} bytes; at most {COMMAND_BYTES_MAX}")]
    TooLarge {
        /// Its length as JSON.
        bytes: usize,
    },
    /// The room on the file system cannot be told. Nothing was changed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The consensus ended; whether the command is applied shows after the next start.
    #[error("{0}")]
    Ended(Ended),
}

/// Why the consensus ended.
#[derive(Clone, Debug, Error, Eq, PartialEq)]
#[error("the node's state stopped: {0}. Restart the node")]
pub struct Ended(pub String);

/// A survivor that is made the cluster while others live makes two of it.
fn recovery(voters: usize, answering: usize) -> String {
    match answering {
        0 => "; if a majority is lost for good: godwit cluster recover".to_owned(),
        _ => format!(
            ". {answering} of the {} others answer",
            voters.saturating_sub(1)
        ),
    }
}

fn hint(leader: Option<&(u64, String)>) -> String {
    match leader {
        Some((number, address)) => format!("node {number} at {address} does"),
        None => "try again when a leader is known".to_owned(),
    }
}
