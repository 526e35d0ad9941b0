//! Owns what becomes of a command: its effect, or why it was refused.
//! Knows nothing of failures of the machine: those are in `store` and `replica`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use godwit_model::FailureCode;

use super::{Cause, JobState, WorkItem};

/// What a command did, or why it changed nothing.
pub type Applied = Result<Effect, CommandError>;

/// What a command did.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The change is made.
    Done,
    /// The job is in this state and has this epoch.
    Job {
        /// Its id.
        id: String,
        /// Its state now.
        state: JobState,
        /// Its epoch now.
        epoch: u64,
    },
    /// Jobs that returned to the queue.
    Restarted {
        /// How many.
        jobs: u64,
    },
    /// The node is a member.
    Joined {
        /// Its name.
        name: String,
        /// Its number in the consensus.
        number: u64,
    },
    /// Items of work that a node holds from now on.
    Leased {
        /// The lease under which it holds them.
        lease: u64,
        /// The items; none if nothing is to be done now.
        items: Vec<WorkItem>,
    },
    /// Items of work that were added, settled or returned.
    Settled {
        /// How many; those that the node held no more are not counted.
        items: u64,
    },
    /// History that was deleted.
    Pruned {
        /// Jobs.
        jobs: u64,
        /// Lines of the audit log.
        audit: u64,
        /// Deliveries to webhooks.
        deliveries: u64,
        /// Whether the same command would delete more.
        more: bool,
    },
}

/// Why a command changed nothing.
#[derive(Clone, Debug, Deserialize, Eq, Error, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandError {
    /// The object is not there.
    #[error("there is no {kind} {id:?}")]
    NotFound {
        /// Kind of the object.
        kind: String,
        /// Its id.
        id: String,
    },
    /// An object of that id is there already.
    #[error("there is a {kind} {id:?} already")]
    Conflict {
        /// Kind of the object.
        kind: String,
        /// Its id.
        id: String,
    },
    /// The job's state does not allow the change.
    #[error("job {id} is {state}: {action} is not possible")]
    Forbidden {
        /// Id of the job.
        id: String,
        /// Its state.
        state: JobState,
        /// The change.
        action: String,
    },
    /// Another claim took the place of the caller's, or the job changed since the caller looked.
    #[error("job {id} has epoch {now}; epoch {given} is no longer valid")]
    Stale {
        /// Id of the job.
        id: String,
        /// Epoch in the command.
        given: u64,
        /// Epoch of the job.
        now: u64,
    },
    /// The owner submitted a job with this idempotency key before.
    #[error("job {job} was submitted with this idempotency key before")]
    Duplicate {
        /// Id of the earlier job.
        job: String,
        /// Whether its description is the same.
        same: bool,
    },
    /// The schedule's tick was dealt with before.
    #[error("schedule {schedule} has fired for this time or a later one")]
    AlreadyFired {
        /// Id of the schedule.
        schedule: String,
    },
    /// A field of the command is not acceptable.
    #[error("{field}: {what}")]
    Invalid {
        /// Name of the field.
        field: String,
        /// What is wrong with it.
        what: String,
    },
    /// Whoever sent the command may not ask for it.
    #[error("{what}")]
    Denied {
        /// Who may not, and why.
        what: String,
    },
    /// There are as many objects of this kind as there may be.
    #[error("there are {max} {kind}s; remove some first")]
    TooMany {
        /// Kind of the object.
        kind: String,
        /// How many there may be.
        max: u64,
    },
    /// A mistake in this program; nothing was changed.
    #[error("internal error: {what}. Please report it")]
    Internal {
        /// Text of the error.
        what: String,
    },
}

impl CommandError {
    /// A field that is not acceptable.
    pub fn invalid(field: &str, what: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.to_owned(),
            what: what.into(),
        }
    }

    /// A command of a level that the cluster has not got.
    pub(crate) fn below(needs: u32, level: u32) -> Self {
        let what = format!(
            "the change needs level {needs} of the cluster, which is at {level} until all of its nodes are updated"
        );
        Self::invalid("level", what)
    }

    pub(crate) fn denied(what: impl Into<String>) -> Self {
        Self::Denied { what: what.into() }
    }

    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        Self::NotFound {
            kind: kind.to_owned(),
            id: id.to_owned(),
        }
    }

    pub(crate) fn forbidden(id: &str, state: JobState, cause: Cause) -> Self {
        Self::Forbidden {
            id: id.to_owned(),
            state,
            action: format!("{cause:?}").to_lowercase(),
        }
    }

    /// The code for logs, metrics and the API.
    #[must_use]
    pub const fn code(&self) -> FailureCode {
        match self {
            Self::NotFound { .. } => FailureCode::NotFound,
            Self::Conflict { .. } => FailureCode::Conflict,
            Self::Forbidden { .. } => FailureCode::ForbiddenTransition,
            Self::Stale { .. } => FailureCode::StaleEpoch,
            Self::Duplicate { .. } => FailureCode::Duplicate,
            Self::AlreadyFired { .. } => FailureCode::AlreadyFired,
            Self::Invalid { .. } => FailureCode::Invalid,
            Self::Denied { .. } => FailureCode::Denied,
            Self::TooMany { .. } => FailureCode::TooMany,
            Self::Internal { .. } => FailureCode::Internal,
        }
    }
}
