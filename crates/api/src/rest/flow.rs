//! The documents of flows: data that moves from place to place.
//! Starts nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NewJob, Reason, Timestamp};

/// A flow to add or replace.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFlow {
    /// The job of each hop, in the order of the data. Each has one source, a directory: the destination of the hop before.
    pub hops: Vec<NewJob>,
    /// Most seconds after which a hop looks for new files again.
    #[serde(default = "every")]
    #[schema(minimum = 1, maximum = 86400)]
    pub every_seconds: u32,
    /// The flow is suspended: no run starts.
    #[serde(default)]
    pub paused: bool,
    /// Free text.
    #[serde(default)]
    pub comment: String,
}

const fn every() -> u32 {
    NewFlow::EVERY_SECONDS
}

impl NewFlow {
    /// Seconds after which a hop looks for new files again, unless the flow says otherwise.
    pub const EVERY_SECONDS: u32 = 60;
}

/// A flow passes files from place to place, each as soon as it is whole.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct FlowView {
    /// Id.
    pub id: String,
    /// Owner of the jobs.
    pub owner: String,
    /// The hops, in the order of the data.
    pub hops: Vec<FlowHopView>,
    /// Most seconds after which a hop looks for new files again.
    pub every_seconds: u32,
    /// The flow is suspended: no run starts.
    pub paused: bool,
    /// Free text.
    pub comment: String,
    /// When the flow was added.
    pub created: Option<Timestamp>,
}

/// State of a hop.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowHopState {
    /// A run is at work.
    Running,
    /// A run waits for a node, or the hop waits for files.
    Waiting,
    /// The flow or the run is paused.
    Paused,
    /// The next run may not start.
    Refused,
    /// The latest run was not complete. Another one follows.
    Failed,
}

impl FlowHopState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Refused,
        Self::Failed,
    ];

    /// The word in documents and figures.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// A hop of a flow: from one place to the next.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct FlowHopView {
    /// The job of each run; null if it cannot be read.
    pub job: Option<NewJob>,
    /// State of the hop.
    pub state: FlowHopState,
    /// Reason of the state; null if files move or none wait.
    pub reason: Option<Reason>,
    /// Id of the job of the latest run.
    pub run: Option<String>,
    /// When the next run starts, at the latest; null while this depends on something else.
    pub next: Option<Timestamp>,
    /// Rate of the last seconds, in bytes per second; null while no data moves.
    pub bytes_per_second: Option<f64>,
    /// Bytes that the hop has moved since the flow was added.
    pub bytes: u64,
    /// Files that the hop has moved since the flow was added.
    pub files: u64,
    /// Bytes that are known to wait at the source of the hop.
    pub backlog_bytes: u64,
    /// Files that are known to wait at the source of the hop.
    pub backlog_files: u64,
    /// The oldest of the waiting files came to the source at this time or later; null if none is known to wait.
    pub oldest: Option<Timestamp>,
}
