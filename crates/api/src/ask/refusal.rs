//! Why a question of one node to another was not answered.
//! Decides nothing: the asked node does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a question was not answered, for programs and for people.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refusal {
    /// One of [`code`].
    pub code: String,
    /// What happened to which place or peer, whose fault it is, and what to do next.
    pub message: String,
    /// The same question may be answered later.
    #[serde(default)]
    pub retryable: bool,
}

/// Codes of refusals.
pub mod code {
    /// The other node does not know the question.
    pub const UNSUPPORTED: &str = "unsupported";
    /// The document makes no sense.
    pub const INVALID: &str = "invalid";
    /// The asker is known and may not do this.
    pub const NOT_GRANTED: &str = "not_granted";
    /// The asker's identity is not known there.
    pub const UNKNOWN_IDENTITY: &str = "unknown_identity";
    /// There is no such export.
    pub const NO_SUCH_EXPORT: &str = "no_such_export";
    /// The path leaves the export.
    pub const OUTSIDE: &str = "outside";
    /// No such job runs for the asker.
    pub const NO_SUCH_JOB: &str = "no_such_job";
    /// The asker was not let in for the job that it names. The job may run all the same.
    pub const NOT_LET_IN: &str = "not_let_in";
    /// The place of that name is on another file system than at the node that made the mark.
    pub const OTHER_PLACE: &str = "other_place";
    /// The claim has ended, was never set, or has another epoch by now.
    pub const NO_SUCH_CLAIM: &str = "no_such_claim";
    /// Nothing stands at the path.
    pub const NOT_FOUND: &str = "not_found";
    /// The path is no directory.
    pub const NOT_A_DIRECTORY: &str = "not_a_directory";
    /// Something stands at the path already, or a directory is not empty.
    pub const EXISTS: &str = "exists";
    /// The file system of the other node does not allow it.
    pub const PERMISSION: &str = "permission";
    /// The file system of the other node is full.
    pub const NO_SPACE: &str = "no_space";
    /// The file system of the other node failed.
    pub const IO: &str = "io";
    /// Too many questions at once.
    pub const BUSY: &str = "busy";
    /// The asker gave the work up.
    pub const GIVEN_UP: &str = "given_up";
    /// The asker is no node of this cluster, or means another cluster.
    pub const OTHER_CLUSTER: &str = "other_cluster";
    /// The answering node was made the only one of the asker's cluster, so the asker was left behind.
    pub const RECOVERED: &str = "recovered";
    /// The invitation is not good.
    pub const BAD_INVITATION: &str = "bad_invitation";
    /// Another node has the name.
    pub const NAME_TAKEN: &str = "name_taken";
    /// Nobody leads the cluster, or too few nodes can be reached.
    pub const NO_LEADER: &str = "no_leader";
    /// The site cannot be reached.
    pub const UNREACHABLE: &str = "unreachable";
    /// The site was reached, and then did not answer as it should.
    pub const BROKEN: &str = "broken";
}

impl Refusal {
    /// A refusal for good: the same question is refused again.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            retryable: false,
        }
    }

    /// A refusal for now: the same question may be answered later.
    pub fn later(code: &str, message: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::new(code, message)
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
