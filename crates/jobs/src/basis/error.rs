//! Why a request about a node's jobs was refused.
//! Chooses no HTTP status: `web` does, by the code.

use std::path::PathBuf;

use godwit_api::ask::{Refusal, code};
use godwit_api::failure::FailureCode;
use godwit_state::{CommandError, Fault, ProposeError};
use thiserror::Error;

/// Why something was not done.
#[derive(Debug, Error)]
pub enum JobsError {
    /// There is no such job.
    #[error("there is no job {0:?}; list the jobs with: godwit job list")]
    NoJob(String),
    /// The job has no manifest here.
    #[error("{0}")]
    NoManifest(String),
    /// Another node keeps the wanted file, and does not answer.
    #[error("{0}")]
    Elsewhere(String),
    /// The job has no divided work now.
    #[error("{0}")]
    NoWork(String),
    /// The request makes no sense.
    #[error("{detail}")]
    Invalid {
        /// For programs: `invalid`, `unknown_site`, `no_such_export`, `usage`.
        code: FailureCode,
        /// Names the faulty field, and the allowed values.
        detail: String,
    },
    /// The submitter may not do this.
    #[error("{detail}")]
    Forbidden {
        /// For programs: `not_granted`.
        code: FailureCode,
        /// Names the missing right, and how an admin gives it.
        detail: String,
    },
    /// The file of grants in the node's home cannot be read.
    #[error("{0}")]
    Grants(String),
    /// The state refused the change, or cannot take one now.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// The state cannot be read.
    #[error(transparent)]
    State(#[from] Fault),
    /// A file beside the state cannot be read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl From<godwit_history::Unreadable> for JobsError {
    fn from(fault: godwit_history::Unreadable) -> Self {
        Self::File {
            path: fault.path,
            source: fault.source,
        }
    }
}

/// The message about a file of the node itself, for users that are not its admins.
pub const OWN_FILE_FAILS: &str = "the node cannot use one of its files; an admin of the node sees the file's name with the same request, or with: godwit access list";

impl JobsError {
    /// The message for users and other sites: paths of the machine, and lines of its files, are for admins.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Grants(_)
            | Self::State(_)
            | Self::File { .. }
            | Self::Propose(ProposeError::Fault(_) | ProposeError::Ended(_)) => {
                OWN_FILE_FAILS.to_owned()
            }
            _ => self.to_string(),
        }
    }

    pub(crate) fn invalid(code: FailureCode, detail: impl Into<String>) -> Self {
        Self::Invalid {
            code,
            detail: detail.into(),
        }
    }
}

/// The message of an error, for the asker.
pub(crate) fn refuse(error: &JobsError) -> Refusal {
    let message = error.words();
    match error {
        JobsError::NoJob(_) => Refusal::new(code::NO_SUCH_JOB, message),
        JobsError::Invalid { code, .. } if *code == FailureCode::NoSuchExport => {
            Refusal::new(code::NO_SUCH_EXPORT, message)
        }
        JobsError::Propose(ProposeError::Refused(CommandError::TooMany { .. })) => {
            Refusal::later(code::BUSY, message)
        }
        JobsError::Invalid { .. } | JobsError::Propose(ProposeError::Refused(_)) => {
            Refusal::new(code::INVALID, message)
        }
        JobsError::Forbidden { .. } => Refusal::new(code::NOT_GRANTED, message),
        JobsError::NoManifest(_) | JobsError::NoWork(_) => Refusal::new(code::NOT_FOUND, message),
        JobsError::Propose(_)
        | JobsError::Elsewhere(_)
        | JobsError::State(_)
        | JobsError::File { .. }
        | JobsError::Grants(_) => Refusal::later(code::IO, message),
    }
}
