//! Owns the data of a job: its states and reasons, its runner, and its attempts.
//! Does not change jobs: `apply` does.
//!
//! Each claim of a job has an epoch. A runner with an earlier epoch is refused, so only one of two nodes runs the job.
//! `STATES.md` has the table of states.

use serde::{Deserialize, Serialize};

use godwit_model::{AttemptOutcome, JobState, Moved, Reason, Timestamp, millis};

use super::RetryPolicy;

/// Codes of the reasons that the state itself uses.
pub mod reason {
    use godwit_model::FailureCode;

    /// No node has taken the job yet.
    pub const WAITING: FailureCode = FailureCode::Waiting;
    /// The job may not start yet.
    pub const NOT_BEFORE: FailureCode = FailureCode::NotBefore;
    /// A user paused the job.
    pub const PAUSED: FailureCode = FailureCode::PausedByUser;
    /// A user resumed the job.
    pub const RESUMED: FailureCode = FailureCode::ResumedByUser;
    /// A user ran the job again.
    pub const RETRIED: FailureCode = FailureCode::RetriedByUser;
    /// A user cancelled the job.
    pub const CANCELLED: FailureCode = FailureCode::CancelledByUser;
    /// The node that ran the job was restarted.
    pub const NODE_RESTARTED: FailureCode = FailureCode::NodeRestarted;
    /// The node that ran the job was lost or removed.
    pub const NODE_LOST: FailureCode = FailureCode::NodeLost;
    /// The deadline of the job passed.
    pub const DEADLINE_PASSED: FailureCode = FailureCode::DeadlinePassed;
    /// The job used up its retries.
    pub const RETRIES_EXHAUSTED: FailureCode = FailureCode::RetriesExhausted;
    /// The owner is no longer a user of the node.
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
    /// Path at the site; its first component is the export.
    pub path: String,
}

/// A node that runs jobs, and one run of its program.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Runner {
    /// Name of the node.
    pub node: String,
    /// Random text that the node generates at each start.
    pub instance: String,
}

/// The site that runs the transfer of a job. The first attempt that needs the route decides it for all attempts.
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

    /// The name, followed by the asker and the independent nodes that have the job, as in the row of an attempt.
    pub(crate) fn as_row(self, asker: Option<&str>, at: &[String]) -> String {
        let asker = asker.or_else(|| (!at.is_empty()).then_some(NO_ASKER));
        let words = asker.into_iter().chain(at.iter().map(String::as_str));
        words.fold(self.name().to_owned(), |row, word| format!("{row} {word}"))
    }
}

/// Replaces an unknown asker in a row.
const NO_ASKER: &str = "-";

/// A route in the form of an attempt's row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NotedRoute {
    pub(crate) route: Route,
    pub(crate) asker: Option<String>,
    pub(crate) at: Vec<String>,
}

impl NotedRoute {
    /// Parses the output of [`Route::as_row`].
    pub(crate) fn from_row(text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(str::to_owned);
        let route = Route::from_name(&words.next()?)?;
        let asker = words.next().filter(|asker| asker != NO_ASKER);
        let at = words.collect();
        Some(Self { route, asker, at })
    }
}

/// A stored job. Its specification is read separately, because it may be long.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Job {
    /// Short id, made by the submitter's node. Ids sort by time.
    pub id: String,
    /// Free text of the owner.
    pub label: String,
    /// Owner of the job.
    pub owner: String,
    /// Places to copy from.
    pub sources: Vec<StoredPlace>,
    /// Place to copy to.
    pub destination: StoredPlace,
    /// State of the job.
    pub state: JobState,
    /// Reason of the state. Always present if the job does not progress.
    pub reason: Option<Reason>,
    /// When the job entered its state.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// When the next attempt starts.
    #[serde(with = "millis::option")]
    pub next_attempt: Option<Timestamp>,
    /// Jobs with a higher priority run first.
    pub priority: i32,
    /// Limit in bytes per second.
    pub limit: Option<u64>,
    /// The job does not start before this time.
    #[serde(with = "millis::option")]
    pub not_before: Option<Timestamp>,
    /// The job fails if it has not ended by this time.
    #[serde(with = "millis::option")]
    pub deadline: Option<Timestamp>,
    /// The retry policy of the job.
    pub retry: RetryPolicy,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Retries that count against the policy.
    pub retries: u32,
    /// Increases with each claim, and whenever a claim ends.
    pub epoch: u64,
    /// The runner of the job.
    pub runner: Option<Runner>,
    /// Key that identifies repeated submissions of the owner.
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
    /// Schedule that created the job.
    pub schedule: Option<String>,
    /// Id of the request that submitted the job.
    pub request: Option<String>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The job is done completely.
    Complete,
    /// The job is done except for failed entries.
    Partial,
    /// The job failed.
    Failed,
}

impl Outcome {
    /// The state of a job with this outcome.
    #[must_use]
    pub const fn state(self) -> JobState {
        match self {
            Self::Complete => JobState::Complete,
            Self::Partial => JobState::Partial,
            Self::Failed => JobState::Failed,
        }
    }
}

/// The spelling of [`Moved`] in the log, which is older than the one in the API.
#[derive(Deserialize, Serialize)]
#[serde(remote = "Moved", deny_unknown_fields)]
pub(super) struct LoggedMoved {
    bytes: u64,
    files: u64,
    #[serde(rename = "again")]
    bytes_again: u64,
}

/// One attempt of a job.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Epoch under which the attempt ran.
    pub epoch: u64,
    /// Node of the attempt.
    pub node: String,
    /// When the attempt began.
    #[serde(with = "millis")]
    pub started: Timestamp,
    /// When the attempt ended.
    #[serde(with = "millis::option")]
    pub ended: Option<Timestamp>,
    /// How the attempt ended.
    pub outcome: Option<AttemptOutcome>,
    /// Reason of the outcome.
    pub reason: Option<Reason>,
    /// Amounts of the attempt.
    #[serde(with = "LoggedMoved")]
    pub moved: Moved,
}

/// Results of attempts about the destination: its meaning, and temporary files.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Placed {
    /// True if the sources go into the destination, false if the only source becomes it. `None` if no attempt has found out.
    pub into: Option<bool>,
    /// Tags of temporary files, latest first; at most 64.
    pub tags: Vec<u64>,
}
