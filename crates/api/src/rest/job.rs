//! The documents of jobs: submission, changes, views, attempts, failed entries, log and samples.
//! Decides nothing about jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::progress::{MovedView, NodeProgress};
use super::rate::{self, RateInput};
use super::{JobState, Reason, Timestamp};
use crate::event::{Channel, Progress};
use crate::job::{JobKind, Selection, Text};

/// A job to submit.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What is to be done.
    #[serde(default = "copy")]
    #[schema(value_type = String, example = "copy")]
    pub kind: JobKind,
    /// Places to copy from, each as `SITE:/EXPORT/PATH`.
    pub sources: Vec<String>,
    /// Place to copy to, as `SITE:/EXPORT/PATH`.
    pub destination: String,
    /// Free text by which people know the job.
    #[serde(default)]
    pub label: String,
    /// Settings of the transfer by their names in the settings table, each with its values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub settings: BTreeMap<String, Vec<Text>>,
    /// Which entries of the sources are meant; all of them if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Paths below the one source: only these entries are meant. A directory stands for itself, and with `selection.recursive` for all
    /// that is in it. Without a list, all entries of the sources are meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub list: Vec<Text>,
    /// The job writes a manifest of what arrives, which the node that runs the job keeps with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manifest: bool,
    /// Whether the job is divided into parts of its work that several nodes do.
    #[serde(default, skip_serializing_if = "Divide::is_auto")]
    pub divide: Divide,
    /// Higher runs first.
    #[serde(default)]
    pub priority: i32,
    /// Limit: bytes per second, or a text with a unit.
    #[serde(
        default,
        deserialize_with = "rate::limit",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RateInput>)]
    pub limit: Option<u64>,
    /// Time before which the job does not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Time after which the job is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Attempts after the first one; without it the deadline alone ends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_max: Option<u32>,
}

/// Whether a job is divided into parts of its work that several nodes do.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Divide {
    /// Where a site has several nodes.
    #[default]
    Auto,
    /// Also where each site has one node.
    Always,
    /// By no means.
    Never,
}

impl Divide {
    /// All words for it, in this order.
    pub const WORDS: [&str; 3] = ["auto", "always", "never"];

    /// The one of that word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            _ => None,
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "this is how serde asks whether to leave a field out"
    )]
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

const fn copy() -> JobKind {
    JobKind::Copy
}

/// What is to change of a job; what is missing stays.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeJob {
    /// Limit: bytes per second, or a text with a unit; 0 and `none` take it away.
    #[serde(
        default,
        deserialize_with = "rate::change",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RateInput>)]
    pub limit: Option<u64>,
    /// Higher runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Free text by which people know the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Why a job is cancelled.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelJob {
    /// The user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobView {
    /// Short id; ids sort by the time of submission.
    pub id: String,
    /// Free text by which people know the job.
    pub label: String,
    /// User to whom the job belongs.
    pub owner: String,
    /// What is done.
    #[schema(value_type = String, example = "copy")]
    pub kind: JobKind,
    /// Places to copy from.
    pub sources: Vec<String>,
    /// Place to copy to.
    pub destination: String,
    /// Where the job is on its way.
    pub state: JobState,
    /// Why it is there; always set where the job does not move.
    pub reason: Option<Reason>,
    /// When the job came into its state.
    pub since: Timestamp,
    /// When the job is tried next.
    pub next_attempt: Option<Timestamp>,
    /// Higher runs first.
    pub priority: i32,
    /// Limit in bytes per second.
    pub limit: Option<u64>,
    /// Time before which the job does not begin.
    pub not_before: Option<Timestamp>,
    /// Time after which the job is given up.
    pub deadline: Option<Timestamp>,
    /// Attempts begun so far.
    pub attempts: u32,
    /// The node that runs the job.
    pub node: Option<String>,
    /// Id of the request that submitted the job, as in its header `X-Request-Id` and in the logs.
    #[serde(default)]
    pub request: Option<String>,
    /// When the job was submitted.
    pub created: Timestamp,
    /// When the first attempt began.
    pub started: Option<Timestamp>,
    /// When the job ended.
    pub ended: Option<Timestamp>,
    /// How far the running attempt is; None while none runs here.
    pub progress: Option<ProgressView>,
    /// Sum over all attempts.
    #[serde(default)]
    pub moved: MovedView,
    /// The summary of the last attempt that ended, as in `--json`.
    #[schema(value_type = Option<Object>)]
    pub summary: Option<serde_json::Value>,
}

/// How far a running attempt is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ProgressView {
    /// When this was so.
    pub at: Timestamp,
    /// Bytes done, those of earlier attempts and of files that were there included.
    pub bytes: u64,
    /// Bytes of all files; None while the scan goes on.
    pub bytes_total: Option<u64>,
    /// Rate of the last seconds; None while nothing moves.
    pub bytes_per_second: Option<f64>,
    /// Complete files.
    pub files: u64,
    /// Files that the scan has found so far; all of them once it has ended.
    #[serde(default)]
    pub files_total: u64,
    /// The source is still being scanned.
    #[serde(default)]
    pub scanning: bool,
    /// Streams attached.
    pub streams: u32,
    /// What limits the transfer, as a word.
    pub bottleneck: Option<String>,
    /// What limits the transfer and what would help, as a sentence.
    pub bottleneck_text: Option<String>,
    /// Entries that failed so far.
    pub failed: u64,
    /// What each stage did in the last seconds, by name of the figure, as in the event `progress` of `--json`.
    #[serde(default)]
    pub stages: BTreeMap<String, f64>,
    /// The network paths of the transfer.
    #[serde(default)]
    pub channels: Vec<ChannelView>,
    /// Amounts of this attempt.
    #[serde(default)]
    pub moved: MovedView,
    /// The nodes that bring a divided job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeProgress>,
}

/// One network path of a running attempt.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ChannelView {
    /// Counted from 0.
    pub number: u32,
    /// The interface and the addresses.
    pub name: String,
    /// Streams attached.
    pub streams: u32,
    /// Bytes that passed over the path, with all overhead.
    #[serde(default)]
    pub bytes: u64,
    /// Rate of the last seconds.
    pub bytes_per_second: Option<f64>,
    /// The smoothed RTT.
    pub round_trip_seconds: f64,
    /// Bytes that this node sent again.
    #[serde(default)]
    pub resent_bytes: u64,
    /// Streams that were cut off because the path was dead.
    pub cuts: u64,
}

impl ChannelView {
    /// Leaves the number of the path: its name has addresses.
    pub fn unnamed(&mut self) {
        self.name = Self::unnamed_path(self.number.into());
    }

    /// The name of a path without its interface and addresses.
    pub fn unnamed_path(number: u64) -> String {
        format!("path {number}")
    }

    /// The paths of a transfer as they are now. The rates of several were told apart; the rate of one is that of the transfer.
    #[must_use]
    pub fn of(progress: &Progress, told: &[Channel]) -> Vec<Self> {
        let alone = progress.channels.len() == 1;
        let view = |channel: &Channel| {
            let told = told.iter().find(|told| told.number == channel.number);
            let told = told.and_then(|told| told.bytes_per_second);
            Self {
                number: channel.number,
                name: channel.name.clone(),
                streams: channel.streams,
                bytes: channel.bytes,
                bytes_per_second: told.or_else(|| progress.bytes_per_second.filter(|_| alone)),
                round_trip_seconds: channel.round_trip_seconds,
                resent_bytes: channel.resent_bytes,
                cuts: channel.cuts,
            }
        };
        progress.channels.iter().map(view).collect()
    }
}

/// How far a running job is, as an event.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobProgress {
    /// Id of the job.
    pub id: String,
    /// How far its attempt is.
    pub progress: ProgressView,
}

/// A page of jobs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobList {
    /// The jobs, the newest first.
    pub jobs: Vec<JobView>,
    /// Give this as `cursor` for the next page; None after the last one.
    pub next: Option<String>,
}

/// One attempt of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct AttemptView {
    /// From 1.
    pub number: u32,
    /// Node that ran it.
    pub node: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended: a state, `backoff` or `restart`.
    pub outcome: Option<String>,
    /// Why it ended so.
    pub reason: Option<Reason>,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Files that it finished.
    pub files: u64,
    /// Bytes that it sent more than once, beside the others.
    #[serde(default)]
    pub bytes_again: u64,
}

/// A line of a job's log.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct LogLine {
    /// Rises within a job. In a cluster the lines of each attempt begin at their own multiple of 2^32.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The event, as in `--json`.
    #[schema(value_type = Object)]
    pub event: serde_json::Value,
    /// Where the line was written, if another site ran the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<LineOrigin>,
    /// Name of the node of the cluster that wrote the line, if that is not the node that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A line of the log that another site wrote.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct LineOrigin {
    /// Name of the site.
    pub site: String,
    /// Id of the job at that site.
    pub job: String,
    /// Number of the line in the log there.
    pub seq: u64,
}

/// A page of a job's log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct LogPage {
    /// The lines, the oldest first.
    pub lines: Vec<LogLine>,
    /// Give this as `after` for the lines that follow.
    pub next: u64,
    /// Nodes of the cluster that ran attempts of the job and do not tell now what they wrote: their lines are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingNode>,
}

/// A node whose part of the history of a job is missing.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct MissingNode {
    /// Name of the node.
    pub node: String,
    /// Why it does not tell, and what helps.
    pub why: String,
}

/// What was measured of a running job at one moment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SampleView {
    /// When.
    pub at: Timestamp,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// Bytes done.
    pub bytes: u64,
    /// Files done.
    pub files: u64,
    /// Rate since the sample before, in bytes per second.
    pub bytes_per_second: f64,
    /// Streams attached.
    pub streams: u32,
    /// Amounts that the attempt had moved by then.
    #[serde(default)]
    pub moved: MovedView,
    /// Amounts that earlier runs had moved when the attempt began, as the destination says.
    #[serde(default)]
    pub held: MovedView,
    /// What limited the transfer, as a word.
    pub bottleneck: Option<String>,
    /// What each stage did, by name of the figure, as in the event `progress` of `--json`.
    #[serde(default)]
    pub stages: BTreeMap<String, f64>,
    /// What the host did meanwhile, by name of the figure.
    pub host: BTreeMap<String, f64>,
    /// The nodes that brought a divided job, each with its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeProgress>,
    /// Name of the site that measured, if another site ran the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Name of the node of the cluster that measured, if that is not the node that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}
