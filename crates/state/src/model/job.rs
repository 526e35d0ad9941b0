//! Owns what is known of a job: its states, why it waits, who runs it, and its attempts.
//! Does not change jobs: `apply` does.
//!
//! Each claim of a job has an epoch. A runner whose epoch has passed is refused, so of two nodes one runs the job. `STATES.md`
//! has the table of states.

use serde::{Deserialize, Serialize};

use godwit_model::{JobState, Reason, Timestamp, millis};

use super::RetryPolicy;

/// Codes of the reasons that the state itself gives.
pub mod reason {
    use godwit_model::FailureCode;

    /// No node has taken the job yet.
    pub const WAITING: FailureCode = FailureCode::Waiting;
    /// The job may begin later only.
    pub const NOT_BEFORE: FailureCode = FailureCode::NotBefore;
    /// A user paused the job.
    pub const PAUSED: FailureCode = FailureCode::PausedByUser;
    /// A user resumed the job.
    pub const RESUMED: FailureCode = FailureCode::ResumedByUser;
    /// A user had the job run again.
    pub const RETRIED: FailureCode = FailureCode::RetriedByUser;
    /// A user cancelled the job.
    pub const CANCELLED: FailureCode = FailureCode::CancelledByUser;
    /// The node that ran the job was started anew.
    pub const NODE_RESTARTED: FailureCode = FailureCode::NodeRestarted;
    /// The node that ran the job is not heard of any more, or was removed.
    pub const NODE_LOST: FailureCode = FailureCode::NodeLost;
    /// The deadline of the job passed.
    pub const DEADLINE_PASSED: FailureCode = FailureCode::DeadlinePassed;
    /// The job used up its retries.
    pub const RETRIES_EXHAUSTED: FailureCode = FailureCode::RetriesExhausted;
    /// The owner is no user of the node any more.
    pub const USER_REMOVED: FailureCode = FailureCode::UserRemoved;
    /// The job is done.
    pub const COMPLETE: FailureCode = FailureCode::Complete;
}

/// A site and a path in it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPlace {
    /// Name of the site.
    pub site: String,
    /// Path below it: export first.
    pub path: String,
}

/// A node that runs jobs, and which start of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Runner {
    /// Name of the node.
    pub node: String,
    /// Random text that the node made at its start.
    pub instance: String,
}

/// Which site runs the transfer of a job. The first attempt that needs to know decides it, for all attempts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// A node of this cluster.
    Here,
    /// The site that has both ends.
    Within,
    /// The site of the sources, which sends.
    Push,
    /// The site of the destination, which fetches.
    Pull,
}

impl Route {
    const ALL: [Self; 4] = [Self::Here, Self::Within, Self::Push, Self::Pull];

    /// The name in commands and in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Within => "within",
            Self::Push => "push",
            Self::Pull => "pull",
        }
    }

    /// The route of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.name() == name)
    }

    /// The name, and the asker behind it, as a row of an attempt has them.
    pub(crate) fn with_asker(self, asker: Option<&str>) -> String {
        match asker {
            Some(asker) => format!("{} {asker}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// The same, read again.
    pub(crate) fn from_row(text: &str) -> Option<(Self, Option<&str>)> {
        match text.split_once(' ') {
            Some((name, asker)) => Some((Self::from_name(name)?, Some(asker))),
            None => Some((Self::from_name(text)?, None)),
        }
    }
}

/// A job as it is stored; its specification is read apart, for it may be long.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Job {
    /// Short id that the submitter's node made; ids sort by time.
    pub id: String,
    /// Free text of the owner.
    pub label: String,
    /// User to whom the job belongs.
    pub owner: String,
    /// Places to copy from.
    pub sources: Vec<StoredPlace>,
    /// StoredPlace to copy to.
    pub destination: StoredPlace,
    /// Where the job is on its way.
    pub state: JobState,
    /// Why it is there; always set where the job does not move.
    pub reason: Option<Reason>,
    /// When the job came into its state.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// When the job is tried next.
    #[serde(with = "millis::option")]
    pub next_attempt: Option<Timestamp>,
    /// Higher runs first.
    pub priority: i32,
    /// Limit in bytes per second.
    pub limit: Option<u64>,
    /// Time before which the job does not begin.
    #[serde(with = "millis::option")]
    pub not_before: Option<Timestamp>,
    /// Time after which the job is given up.
    #[serde(with = "millis::option")]
    pub deadline: Option<Timestamp>,
    /// How the job is retried.
    pub retry: RetryPolicy,
    /// Attempts begun so far.
    pub attempts: u32,
    /// Retries that count against the policy.
    pub retries: u32,
    /// Rises with each claim, and whenever a claim ends.
    pub epoch: u64,
    /// Who runs the job.
    pub runner: Option<Runner>,
    /// Key by which the owner's repeated submission is known.
    pub idempotency_key: Option<String>,
    /// When the job was submitted.
    #[serde(with = "millis")]
    pub created: Timestamp,
    /// When the first attempt began.
    #[serde(with = "millis::option")]
    pub started: Option<Timestamp>,
    /// When the job ended.
    #[serde(with = "millis::option")]
    pub ended: Option<Timestamp>,
    /// Result as JSON text.
    pub summary: Option<String>,
    /// Schedule from which the job came.
    pub schedule: Option<String>,
    /// Id of the request that submitted the job.
    pub request: Option<String>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All of it is done.
    Complete,
    /// It is done except for failed entries.
    Partial,
    /// It failed.
    Failed,
}

impl Outcome {
    /// The state of a job that ended so.
    #[must_use]
    pub const fn state(self) -> JobState {
        match self {
            Self::Complete => JobState::Complete,
            Self::Partial => JobState::Partial,
            Self::Failed => JobState::Failed,
        }
    }
}

/// Amounts that an attempt, or all attempts of a job, moved.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Files that were finished.
    pub files: u64,
    /// Bytes that were sent more than once.
    pub again: u64,
}

impl Moved {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
            again: self.again.saturating_add(other.again),
        }
    }

    /// The difference; 0 where the other is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            files: self.files.saturating_sub(other.files),
            again: self.again.saturating_sub(other.again),
        }
    }
}

/// One attempt of a job.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Epoch under which the attempt ran.
    pub epoch: u64,
    /// Node that ran it.
    pub node: String,
    /// When it began.
    #[serde(with = "millis")]
    pub started: Timestamp,
    /// When it ended.
    #[serde(with = "millis::option")]
    pub ended: Option<Timestamp>,
    /// How it ended: a state, or `backoff` or `restart`.
    pub outcome: Option<String>,
    /// Why it ended so.
    pub reason: Option<Reason>,
    /// Amounts of the attempt.
    pub moved: Moved,
}

/// What attempts of a job found and left at its destination.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Placed {
    /// Sources go into the destination, or the only one becomes it; None if no attempt got so far.
    pub into: Option<bool>,
    /// Tags of temporary files, the latest first; at most 64.
    pub tags: Vec<u64>,
}
