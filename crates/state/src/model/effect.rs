//! Owns the result of a command: its effect, or the reason for refusing it. Does not contain
//! failures of the machine, which are in `store` and `replica`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use godwit_model::FailureCode;

use super::{Cause, JobState, WorkItem};

/// The effect of a command, or the reason why it changed nothing.
pub type Applied = Result<Effect, CommandError>;

/// The effect of a command.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The change is made.
    Done,
    /// The job now has this state and this epoch.
    Job {
        /// Id of the job.
        id: String,
        /// The new state.
        state: JobState,
        /// The new epoch.
        epoch: u64,
    },
    /// Jobs that returned to the queue.
    Restarted {
        /// Number of jobs.
        jobs: u64,
    },
    /// The node is a member.
    Joined {
        /// Name of the node.
        name: String,
        /// Number of the node in the consensus.
        number: u64,
    },
    /// Items of work that a node now holds.
    Leased {
        /// The lease under which the node holds the items.
        lease: u64,
        /// The items; empty if there is no work now.
        items: Vec<WorkItem>,
    },
    /// Items of work that were added, settled or returned.
    Settled {
        /// Number of items. Items that the node no longer held are not counted.
        items: u64,
    },
    /// Deleted history.
    Pruned {
        /// Deleted jobs.
        jobs: u64,
        /// Deleted lines of the audit log.
        audit: u64,
        /// Deleted deliveries to webhooks.
        deliveries: u64,
        /// Whether the same command would delete more.
        more: bool,
    },
}

/// Reason why a command changed nothing.
#[derive(Clone, Debug, Deserialize, Eq, Error, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandError {
    /// The object does not exist.
    #[error("there is no {kind} {id:?}")]
    NotFound {
        /// Kind of the object.
        kind: String,
        /// Id of the object.
        id: String,
    },
    /// An object with that id exists already.
    #[error("the {kind} {id:?} already exists")]
    Conflict {
        /// Kind of the object.
        kind: String,
        /// Id of the object.
        id: String,
    },
    /// The job's state does not allow the change.
    #[error("job {id} is {state}: {action} is not possible")]
    Forbidden {
        /// Id of the job.
        id: String,
        /// State of the job.
        state: JobState,
        /// The change.
        action: String,
    },
    /// Another claim replaced the caller's, or the job changed since the caller read it.
    #[error("job {id} has epoch {now}; epoch {given} is no longer valid")]
    Stale {
        /// Id of the job.
        id: String,
        /// Epoch in the command.
        given: u64,
        /// Epoch of the job.
        now: u64,
    },
    /// The owner has already submitted a job with this idempotency key.
    #[error("job {job} was submitted with this idempotency key before")]
    Duplicate {
        /// Id of the earlier job.
        job: String,
        /// Whether the description of the job is the same.
        same: bool,
    },
    /// The schedule's tick was already handled.
    #[error("schedule {schedule} has fired for this time or a later one")]
    AlreadyFired {
        /// Id of the schedule.
        schedule: String,
    },
    /// A field of the command is invalid.
    #[error("{field}: {what}")]
    Invalid {
        /// Name of the field.
        field: String,
        /// The fault of the field.
        what: String,
    },
    /// The sender may not request this.
    #[error("{what}")]
    Denied {
        /// The refused party, and the reason.
        what: String,
    },
    /// There are already as many objects of this kind as allowed.
    #[error("there are {max} {kind}s; remove some first")]
    TooMany {
        /// Kind of the object.
        kind: String,
        /// The maximum.
        max: u64,
    },
    /// An internal error; nothing was changed.
    #[error("internal error: {what}. Please report it")]
    Internal {
        /// Text of the error.
        what: String,
    },
}

impl CommandError {
    /// An invalid field.
    pub fn invalid(field: &str, what: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.to_owned(),
            what: what.into(),
        }
    }

    /// A command of a level that the cluster does not have.
    pub(crate) fn below(needs: u32, level: u32) -> Self {
        let what = format!(
            "the change needs cluster level {needs}; the cluster stays at level {level} until all its nodes are updated"
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
