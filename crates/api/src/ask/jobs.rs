//! The documents by which a node has another node run a job for it: access for the job, the job itself, and its steering.
//! Moves no data.
//!
//! The asker names a job by its own id. So a question may be asked again after a crash, and nothing is doubled.

use serde::{Deserialize, Serialize};

use super::Peer;
use crate::job::Text;
use crate::rest::{FailureGroup, JobView, LogLine, NewJob, ProgressView, SampleView, Timestamp};

/// A job that runs at the asked node, for a node of the same cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunningJob {
    /// Its id.
    pub id: String,
    /// How far it is.
    pub progress: ProgressView,
    /// Another node controls it: the progress is that of what this node brings of it now.
    #[serde(default)]
    pub works: bool,
    /// Identity of the node of the other site that this node sends to now, if `works`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
}

/// A site to connect to, and what the job does at the asked one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ReachSite {
    /// The other site.
    pub peer: Peer,
    /// Paths of the job here, export first. The asker needs the right to them.
    #[serde(default)]
    pub paths: Vec<Text>,
    /// The job writes to them, else it reads.
    #[serde(default)]
    pub write: bool,
}

/// Access for the other end of a job, and for nobody and nothing else.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GrantJob {
    /// Asker's id of the job.
    pub job: String,
    /// Identity that gets the access.
    pub identity: String,
    /// Paths, export first.
    pub paths: Vec<Text>,
    /// The access is for writing, else for reading.
    pub write: bool,
    /// When the access ends by the clock of the asker. Counts only without `lasts_ms`, which nodes of older versions do not know.
    pub until: Timestamp,
    /// Milliseconds until the access ends, by the clock of the node that gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_ms: Option<u64>,
}

/// A job to run for the asker.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunJob {
    /// Asker's id of the job.
    pub job: String,
    /// A job that is there, has ended and is not complete is run once more; one that is paused is resumed.
    #[serde(default)]
    pub again: bool,
    /// The job, whose places are at the site `here` or at that of `other`.
    pub new: NewJob,
    /// Milliseconds until the deadline of the job, by any clock. Counts instead of the deadline in `new`, which is by the asker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Id of the request that the asker's job came from, for both logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The other end, as the asked node reaches it; None where both ends are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Peer>,
    /// The owner of the job may list its destination. Else, or where an older node does not say so, nothing names what only the
    /// destination has. An older node does not look at it, and so is asked for no job whose owner may not list or read there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_list: Option<bool>,
    /// The same of reading: else no file that is there gets a further name by its size and time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_read: Option<bool>,
}

/// What is to change of a job that is run for the asker.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SteerJob {
    /// Asker's id of the job.
    pub job: String,
    /// Stops, resumes or gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<SteerVerb>,
    /// Limit in bytes per second; 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Higher runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SteerVerb {
    /// It stops for a time.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up.
    Cancel,
}

/// A job that is run for the asker.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct JobSeen {
    /// The job as the asked node shows it, under that node's own id.
    pub view: JobView,
    /// Failed entries by reason, once it has ended.
    #[serde(default)]
    pub failures: Vec<FailureGroup>,
}

/// Which part of the log and of the samples of a job is wanted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PastAfter {
    /// Asker's id of the job; a node of the same cluster may ask for any of its jobs.
    pub job: String,
    /// Lines of this attempt or later ones; an older node does not look at it.
    #[serde(default)]
    pub attempt: u32,
    /// Lines of the log after the one with this number.
    pub line: u64,
    /// Samples after this time.
    pub sample: Timestamp,
}

/// A part of the log and of the samples of a job, as the asked node wrote them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct JobPast {
    /// Lines of the log, the oldest first.
    pub lines: Vec<LogLine>,
    /// Samples, the oldest first.
    pub samples: Vec<SampleView>,
    /// There is more: ask again, after the last of these.
    #[serde(default)]
    pub more: bool,
}

/// Which part of the manifest of a job is wanted, by a node of the same cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ManifestAfter {
    /// Id of the job.
    pub job: String,
    /// Bytes from here on.
    pub offset: u64,
    /// The file that the bytes before came from, as the asked node named it; None at the beginning.
    #[serde(default)]
    pub of: Option<String>,
}

/// A part of the manifest of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ManifestPiece {
    /// Which file it is: a later attempt puts another one in its place.
    pub of: String,
    /// Length of the file in bytes.
    pub total: u64,
    /// The bytes; none at the end.
    pub bytes: Text,
}
