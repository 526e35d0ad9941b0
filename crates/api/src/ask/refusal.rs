//! Reasons why a node refused a question of another node.
//! Decides nothing: the asked node does.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::failure::{Code, FailureCode};

/// Reason of a refusal, for programs and for people.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refusal {
    /// One of [`code`], or a word of another version.
    pub code: Code,
    /// Message for people: the event, the place or peer, whose fault it is, and what to do next.
    pub message: String,
    /// The same question may succeed later.
    #[serde(default)]
    pub retryable: bool,
}

/// Codes of refusals.
pub mod code {
    use crate::failure::FailureCode;

    /// The other node does not know the question.
    pub const UNSUPPORTED: FailureCode = FailureCode::Unsupported;
    /// The document is invalid.
    pub const INVALID: FailureCode = FailureCode::Invalid;
    /// The asker is known, but lacks the right.
    pub const NOT_GRANTED: FailureCode = FailureCode::NotGranted;
    /// The asker's identity is not known there.
    pub const UNKNOWN_IDENTITY: FailureCode = FailureCode::UnknownIdentity;
    /// No export has this name.
    pub const NO_SUCH_EXPORT: FailureCode = FailureCode::NoSuchExport;
    /// The path leaves the export.
    pub const OUTSIDE: FailureCode = FailureCode::Outside;
    /// No such job runs for the asker.
    pub const NO_SUCH_JOB: FailureCode = FailureCode::NoSuchJob;
    /// The asker got no access for the job that it names. The job may run all the same.
    pub const NOT_LET_IN: FailureCode = FailureCode::NotLetIn;
    /// The place of this name is on another file system than at the node that made the mark.
    pub const OTHER_PLACE: FailureCode = FailureCode::OtherPlace;
    /// The claim has ended, was never set, or has another epoch now.
    pub const NO_SUCH_CLAIM: FailureCode = FailureCode::NoSuchClaim;
    /// No entry exists at the path.
    pub const NOT_FOUND: FailureCode = FailureCode::NotFound;
    /// The path is no directory.
    pub const NOT_A_DIRECTORY: FailureCode = FailureCode::NotADirectory;
    /// An entry exists at the path already, or a directory is not empty.
    pub const EXISTS: FailureCode = FailureCode::Exists;
    /// The file system of the other node does not allow it.
    pub const PERMISSION: FailureCode = FailureCode::Permission;
    /// The file system of the other node is full.
    pub const NO_SPACE: FailureCode = FailureCode::NoSpace;
    /// The file system of the other node failed.
    pub const IO: FailureCode = FailureCode::Io;
    /// Too many questions at once.
    pub const BUSY: FailureCode = FailureCode::Busy;
    /// The asker abandoned the work.
    pub const GIVEN_UP: FailureCode = FailureCode::GivenUp;
    /// The asker is no node of this cluster, or means another cluster.
    pub const OTHER_CLUSTER: FailureCode = FailureCode::OtherCluster;
    /// The answering node was made the only node of the asker's cluster, so the asker was left behind.
    pub const RECOVERED: FailureCode = FailureCode::Recovered;
    /// The invitation is not valid.
    pub const BAD_INVITATION: FailureCode = FailureCode::BadInvitation;
    /// Another node has the name.
    pub const NAME_TAKEN: FailureCode = FailureCode::NameTaken;
    /// The cluster has no leader, or too few of its nodes can be reached.
    pub const NO_LEADER: FailureCode = FailureCode::NoLeader;
    /// The site cannot be reached.
    pub const UNREACHABLE: FailureCode = FailureCode::Unreachable;
    /// The site was reached, and then gave an invalid answer or none.
    pub const BROKEN: FailureCode = FailureCode::Broken;
}

impl Refusal {
    /// A permanent refusal: the same question is refused again.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retryable: false,
        }
    }

    /// A temporary refusal: the same question may succeed later.
    pub fn later(code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::new(code, message)
        }
    }
}

/// The message with fault and advice of the catalogue, where this version has the code.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let Some(code) = self.code.known() else {
            return Ok(());
        };
        let fault = code.culprit().as_str().replace('_', " ");
        let advice = code.advice().trim_end_matches('.');
        write!(f, "; fault: {fault}; what to do: {advice}")
    }
}

impl std::error::Error for Refusal {}
