//! The documents by which a node makes another node run a job for it: access for the job, the job itself, and its steering.
//! Moves no data.
//!
//! The asker's own id names the job. So a question can be repeated after a crash without duplicating anything.

use serde::{Deserialize, Serialize};

use super::Peer;
use crate::failure::Code;
use crate::job::Text;
use crate::rest::{FailureGroup, JobView, LogLine, NewJob, ProgressView, SampleView, Timestamp};

/// A job that runs at the asked node, for a node of the same cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunningJob {
    /// Its id.
    pub id: String,
    /// Progress of the job at this node.
    pub progress: ProgressView,
    /// Another node controls the job. The progress then covers only this node's current part.
    #[serde(default)]
    pub works: bool,
    /// Identity of the node of the other site that this node sends to now, if `works`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Nodes of the other site that could not write, if `works`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<NodeFault>,
    /// Bytes that this node has written at the other site since it began to work on the job, if `works`. An older node sends none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A node of the destination could not write items, and another node of the destination then took them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NodeFault {
    /// Its identity.
    pub at: String,
    /// How often that happened.
    pub times: u32,
    /// The last reason.
    pub code: Code,
}

/// A site to connect to, and the access of the job at the asked site.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ReachSite {
    /// The other site.
    pub peer: Peer,
    /// Paths of the job here, export first. The asker needs the right to them.
    #[serde(default)]
    pub paths: Vec<Text>,
    /// The job writes to the paths; otherwise it reads them.
    #[serde(default)]
    pub write: bool,
}

/// Access for the other end of one job only.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GrantJob {
    /// Asker's id of the job.
    pub job: String,
    /// Identity that gets the access.
    pub identity: String,
    /// Paths, export first.
    pub paths: Vec<Text>,
    /// The access is for writing; otherwise for reading.
    pub write: bool,
    /// When the access ends by the asker's clock. Used only without `lasts_ms`, which nodes of older versions do not send.
    pub until: Timestamp,
    /// Milliseconds until the access ends, by the clock of the node that grants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_ms: Option<u64>,
}

/// A job to run for the asker.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunJob {
    /// Asker's id of the job.
    pub job: String,
    /// An existing job that has ended incomplete runs again; a paused job resumes.
    #[serde(default)]
    pub again: bool,
    /// The job, with places at the site `here` or at the site of `other`.
    pub new: NewJob,
    /// Milliseconds until the deadline of the job. Replaces the deadline in `new`, which is by the asker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Id of the request that submitted the asker's job, for the logs of both nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The other end, with addresses that the asked node can reach. None if both ends are at the asked node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Peer>,
    /// The owner of the job may list its destination. Otherwise, or if an older node omits the field, no report names entries that exist
    /// only at the destination. An older asked node ignores the field, so it gets no job whose owner may neither list nor read there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_list: Option<bool>,
    /// The owner of the job may read its destination. Otherwise, no existing file gets a hard link because of its size and time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_read: Option<bool>,
}

/// Changes to a job that runs for the asker.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SteerJob {
    /// Asker's id of the job.
    pub job: String,
    /// Pauses, resumes or cancels the job, or begins its next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<SteerVerb>,
    /// Limit in bytes per second; 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Jobs with a higher priority run first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// An action on a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SteerVerb {
    /// Pauses the job.
    Pause,
    /// Resumes the job.
    Resume,
    /// Cancels the job.
    Cancel,
    /// Begins the next attempt of a job that waits after a failure. Older nodes do not know this action.
    TryNow,
}

/// The state of a job that runs for the asker.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct JobSeen {
    /// The job as the asked node shows it, under that node's own id.
    pub view: JobView,
    /// Failed entries by reason, once it has ended.
    #[serde(default)]
    pub failures: Vec<FailureGroup>,
}

/// Selects a part of the log and of the samples of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PastAfter {
    /// Asker's id of the job; a node of the same cluster may ask for any of its jobs.
    pub job: String,
    /// Only lines of this attempt or later ones. An older node ignores the field.
    #[serde(default)]
    pub attempt: u32,
    /// Only lines of the log after the line with this number.
    pub line: u64,
    /// Only samples after this time.
    pub sample: Timestamp,
}

/// A part of the log and of the samples of a job, as the asked node recorded them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct JobPast {
    /// Lines of the log, the oldest first.
    pub lines: Vec<LogLine>,
    /// Samples, the oldest first.
    pub samples: Vec<SampleView>,
    /// There is more: ask again, with the position of the last line and sample.
    #[serde(default)]
    pub more: bool,
}

/// Selects a part of the manifest of a job, for a node of the same cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ManifestAfter {
    /// Id of the job.
    pub job: String,
    /// Offset of the first byte.
    pub offset: u64,
    /// The file that the earlier bytes came from, as the asked node named it; None at the beginning.
    #[serde(default)]
    pub of: Option<String>,
}

/// A part of the manifest of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ManifestChunk {
    /// The file that the bytes come from. A later attempt has another file.
    pub of: String,
    /// Length of the file in bytes.
    pub total: u64,
    /// The bytes; empty at the end.
    pub bytes: Text,
}
