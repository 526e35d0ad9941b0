//! Owns the errors of proposing a command, and of opening a replica. Does not contain refusals of commands, which are
//! `CommandError`.

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
    /// The consensus could not be started.
    #[error("the state did not become ready: {0}")]
    Start(String),
}

/// Reason why the effect of a proposal is not known.
#[derive(Debug, Error)]
pub enum ProposeError {
    /// The command changed nothing.
    #[error(transparent)]
    Refused(CommandError),
    /// Another voter leads; propose there. Nothing was changed.
    #[error("this node does not lead; {}", hint(leader.as_ref()))]
    NotLeader {
        /// Number and address of the leader, if known.
        leader: Option<(u64, String)>,
    },
    /// No leader has a majority. Nothing was changed, unless the majority returns and finds the change in the log.
    #[error(
        "too few of the cluster's {voters} voters can be reached, so changes are impossible; running transfers continue. Start the missing nodes or mend the network{}",
        recovery(*voters, *answering)
    )]
    NoMajority {
        /// Number of voters.
        voters: usize,
        /// Number of other voters that answered recently.
        answering: usize,
    },
    /// The leader cannot write, and no other voter leads yet. Nothing was changed.
    #[error("node number {number} leads, and refuses changes: {why}")]
    Unable {
        /// Number of the leader.
        number: u64,
        /// The leader's reason.
        why: String,
    },
    /// Another node was made the only one of this cluster, and this node ends. Nothing was changed.
    #[error("the cluster has continued without this node: {0}")]
    LeftBehind(String),
    /// Too many proposals wait. Nothing was changed.
    #[error("too many changes wait for the disk; try again later")]
    Busy,
    /// It is unknown whether the command is or will be applied. Check the state before proposing it again.
    #[error("no answer in time; the change may or may not have been made")]
    Unknown,
    /// The file system of the state has too little free space. Nothing was changed.
    #[error(
        "only {free} bytes are free in the file system of the node's state, and changes need {needed}; make room in its GODWIT_HOME"
    )]
    Full {
        /// Directory of the state.
        directory: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The command exceeds the maximum length. Nothing was changed.
    #[error("the change has {bytes} bytes; at most {COMMAND_BYTES_MAX}")]
    TooLarge {
        /// Length of the command as JSON.
        bytes: usize,
    },
    /// The free space of the file system is unknown. Nothing was changed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The consensus ended. The next start shows whether the command is applied.
    #[error("{0}")]
    Ended(Ended),
}

impl ProposeError {
    /// The message for users and other nodes, without paths of this machine. The log of the node contains them.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Fault(fault) => fault.kind.to_string(),
            Self::Ended(_) => {
                "the node's state stopped; its log says why. Restart the node".to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// The reason why the consensus ended.
#[derive(Clone, Debug, Error, Eq, PartialEq)]
#[error("the node's state stopped: {0}. Restart the node")]
pub struct Ended(pub String);

/// Advice for a cluster without a majority. Making a survivor the only node while others are alive splits the cluster in two.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn words_for_others_name_no_path_of_the_machine() {
        let file = Path::new("/srv/op/godwit/state/state.db");
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let fault = Fault::io(file, full);
        let ended = Ended(fault.to_string());
        assert!(ended.to_string().contains("/srv/op"));
        let said = ProposeError::Ended(ended).words();
        assert!(
            said.contains("Restart the node") && !said.contains("/srv"),
            "{said}"
        );
        let said = ProposeError::Fault(fault).words();
        assert!(
            said.contains("make room") && !said.contains("/srv"),
            "{said}"
        );
    }
}
