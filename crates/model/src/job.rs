//! Owns the states of a job, why it is in one, and its failed entries in groups.
//! Changes no job: `state` does.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::failure::Code;

/// The state of a job.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job waits for a node that takes it, or for its next attempt.
    Queued,
    /// The job waits for the time at which it may begin.
    Scheduled,
    /// A node looks for the entries to copy.
    Scanning,
    /// A node copies.
    Running,
    /// A user stopped the job for a time.
    Paused,
    /// A node compares the copied data.
    Verifying,
    /// All of the job is done.
    Complete,
    /// The job is done except for failed entries.
    Partial,
    /// The job ended without its result.
    Failed,
    /// A user gave the job up.
    Cancelled,
}

impl JobState {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Scheduled,
        Self::Scanning,
        Self::Running,
        Self::Paused,
        Self::Verifying,
        Self::Complete,
        Self::Partial,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name in commands, in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Scheduled => "scheduled",
            Self::Scanning => "scanning",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Verifying => "verifying",
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a node is at work on the job.
    #[must_use]
    pub const fn moves(self) -> bool {
        matches!(self, Self::Scanning | Self::Running | Self::Verifying)
    }

    /// Whether the job waits for a node to take it.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::Queued | Self::Scheduled)
    }

    /// Whether the job ended.
    #[must_use]
    pub const fn ended(self) -> bool {
        matches!(
            self,
            Self::Complete | Self::Partial | Self::Failed | Self::Cancelled
        )
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why a job is in its state.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Reason {
    /// For programs.
    #[schema(value_type = String)]
    pub code: Code,
    /// One sentence for people.
    pub text: String,
}

impl Reason {
    /// A reason of `code` and `text`.
    pub fn new(code: impl Into<Code>, text: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            text: text.into(),
        }
    }
}

/// Failed entries of one reason.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct FailureGroup {
    /// Why these entries failed.
    pub reason: Reason,
    /// How many there are.
    pub count: u64,
    /// Some of their paths.
    pub examples: Vec<String>,
}
