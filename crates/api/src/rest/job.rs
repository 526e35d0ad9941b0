//! The documents of jobs: submission, changes, views, attempts, failed entries, log and samples.
//! Decides nothing about jobs.

mod choice;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::merge::Merge;
use super::progress::{ForecastView, NodeProgress};
use super::rate::{self, RateInput};
use super::{AttemptOutcome, Bottleneck, JobState, Moved, Reason, Timestamp};
use crate::event::{Channel, Progress};
use crate::job::{JobKind, Selection, Text};
pub use choice::{Divide, Relay};

/// A job to submit.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Kind of the job.
    #[serde(default = "copy")]
    #[schema(value_type = String, example = "copy")]
    pub kind: JobKind,
    /// Places to copy from, each as `SITE:/EXPORT/PATH`.
    pub sources: Vec<String>,
    /// Place to copy to, as `SITE:/EXPORT/PATH`.
    pub destination: String,
    /// Further places to copy to. The job is then the parent of a job for each destination, and no node runs it itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_destinations: Vec<String>,
    /// Whether the job gathers its sources, which may be at different sites. The job is then the parent of a job for each source, and no
    /// node runs it itself. Contents of a source come below the name of its site in the destination, which must exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gather: bool,
    /// Where the contents of gathered sources go, and which entry stays if several have one name.
    #[serde(default, skip_serializing_if = "Merge::is_by_site")]
    pub merge: Merge,
    /// Free text that describes the job to people.
    #[serde(default)]
    pub label: String,
    /// Settings of the transfer by their names in the settings table, each with its values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub settings: BTreeMap<String, Vec<Text>>,
    /// Selected entries of the sources; default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Paths below the one source: only these entries are transferred. A directory includes its contents only with `selection.recursive`.
    /// Without a list, all entries of the sources are selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub list: Vec<Text>,
    /// Whether the job writes a manifest of the delivered entries. The node that runs the job keeps the manifest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manifest: bool,
    /// Whether the job is divided among several nodes.
    #[serde(default, skip_serializing_if = "Divide::is_auto")]
    pub divide: Divide,
    /// Whether a destination takes its data from another destination that is complete: after it failed or fell behind, or from the
    /// beginning. Only for a job with several destinations, and sources at this site.
    #[serde(default, skip_serializing_if = "Relay::is_never")]
    pub relay: Relay,
    /// Files of the source are removed once this number of destinations have proven copies of them, after all destinations have ended.
    /// Without it, the source stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_source_after: Option<u32>,
    /// Jobs with a higher priority run first.
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
    /// The job does not start before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The job fails if it has not ended by this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Number of retries. Without this number, only the deadline ends the retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_max: Option<u32>,
}

const fn copy() -> JobKind {
    JobKind::Copy
}

/// Changes to a job. Missing fields stay as they are.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeJob {
    /// Limit: bytes per second, or a text with a unit; 0 and `none` remove the limit.
    #[serde(
        default,
        deserialize_with = "rate::change",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<RateInput>)]
    pub limit: Option<u64>,
    /// Jobs with a higher priority run first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Free text that describes the job to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Reason for cancelling a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelJob {
    /// Comment of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobView {
    /// Short id. Ids sort by the time of submission.
    pub id: String,
    /// Free text that describes the job to people.
    pub label: String,
    /// Owner of the job.
    pub owner: String,
    /// Kind of the job.
    #[schema(value_type = String, example = "copy")]
    pub kind: JobKind,
    /// Places to copy from.
    pub sources: Vec<String>,
    /// Place to copy to; of several, the first.
    pub destination: String,
    /// The destinations of a job with several, or the sources of one that gathers. The list of jobs with this `parent` has a job for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<DestinationCount>,
    /// Id of the parent: the job with several destinations or sources to which this job belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// State of the job.
    pub state: JobState,
    /// Reason of the state. Always present while the job does not progress.
    pub reason: Option<Reason>,
    /// When the job entered its state.
    pub since: Timestamp,
    /// When the next attempt starts.
    pub next_attempt: Option<Timestamp>,
    /// Jobs with a higher priority run first.
    pub priority: i32,
    /// Limit in bytes per second.
    pub limit: Option<u64>,
    /// The job does not start before this time.
    pub not_before: Option<Timestamp>,
    /// The job fails if it has not ended by this time.
    pub deadline: Option<Timestamp>,
    /// Number of attempts so far.
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
    /// When the job ended; null before.
    pub ended: Option<Timestamp>,
    /// Progress of the running attempt; null if no attempt runs here. With several destinations, of all of them together: amounts and rates
    /// are sums, and the end is that of the last one.
    pub progress: Option<ProgressView>,
    /// Amounts moved, summed over all attempts.
    #[serde(default)]
    pub moved: Moved,
    /// Summary of the last attempt that ended, as in `--json`.
    #[schema(value_type = Option<Object>)]
    pub summary: Option<serde_json::Value>,
    /// Bytes that arrived while the job ran, are durable in the transfer buffer of this node, and are not at their export yet. Only at the
    /// node with the destination. Of many files below it, the first ones count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffered: Option<u64>,
}

/// Destinations of a job with several, or sources of one that gathers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct DestinationCount {
    /// Number of destinations or sources.
    pub total: u64,
    /// Number of complete ones.
    pub complete: u64,
    /// Whether they are the sources of a job that gathers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gather: bool,
}

/// Progress of a running attempt.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ProgressView {
    /// Time of these figures.
    pub at: Timestamp,
    /// Finished bytes, including those of earlier attempts and of existing files.
    pub bytes: u64,
    /// Bytes of all files; null until the scan has ended.
    pub bytes_total: Option<u64>,
    /// Rate of the last seconds, in bytes per second; null while no data moves.
    pub bytes_per_second: Option<f64>,
    /// Complete files.
    pub files: u64,
    /// Files that the scan has found so far; all files once it has ended.
    #[serde(default)]
    pub files_total: u64,
    /// Files that are settled: delivered, or there already.
    #[serde(default)]
    pub files_settled: u64,
    /// When the job will end, as far as that can be foretold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastView>,
    /// The source is still being scanned.
    #[serde(default)]
    pub scanning: bool,
    /// The job reads again what jobs of the other destinations have read before, because it was slower. For a job with several
    /// destinations: true if one of them reads again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// Number of attached streams.
    pub streams: u32,
    /// The stage that limits the transfer, as a word.
    #[serde(default, deserialize_with = "Bottleneck::known")]
    pub bottleneck: Option<Bottleneck>,
    /// The limit of the transfer and advice, as a sentence.
    pub bottleneck_text: Option<String>,
    /// Number of entries that failed so far.
    pub failed: u64,
    /// Figures of each stage in the last seconds, by name, as in the event `progress` of `--json`.
    #[serde(default)]
    pub stages: BTreeMap<String, f64>,
    /// The network paths of the transfer.
    #[serde(default)]
    pub channels: Vec<ChannelView>,
    /// Amounts that this attempt moved.
    #[serde(default)]
    pub moved: Moved,
    /// Figures of the host that runs the attempt, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, f64>,
    /// Figures of the host at the other end, by name; empty if it gives none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_host: BTreeMap<String, f64>,
    /// The nodes at work on a divided job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeProgress>,
}

/// One network path of a running attempt.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ChannelView {
    /// Number of the path, counted from 0.
    pub number: u32,
    /// Interface and addresses of the path.
    pub name: String,
    /// Number of attached streams.
    pub streams: u32,
    /// Bytes that passed over the path, with all overhead.
    #[serde(default)]
    pub bytes: u64,
    /// Rate of the last seconds, in bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Smoothed RTT in seconds.
    pub round_trip_seconds: f64,
    /// Bytes that this node retransmitted.
    #[serde(default)]
    pub resent_bytes: u64,
    /// Streams that were closed because the path was dead.
    pub cuts: u64,
}

impl ChannelView {
    /// Replaces the name with the number of the path, since the name has addresses.
    pub fn unnamed(&mut self) {
        self.name = Self::unnamed_path(self.number.into());
    }

    /// The name of a path without interface and addresses.
    pub fn unnamed_path(number: u64) -> String {
        format!("path {number}")
    }

    /// The current paths of a transfer. With several paths, `reported` has their rates; a single path has the rate of the transfer.
    #[must_use]
    pub fn of(progress: &Progress, reported: &[Channel]) -> Vec<Self> {
        let alone = progress.channels.len() == 1;
        let view = |channel: &Channel| {
            let reported = reported
                .iter()
                .find(|reported| reported.number == channel.number);
            let reported = reported.and_then(|reported| reported.bytes_per_second);
            Self {
                number: channel.number,
                name: channel.name.clone(),
                streams: channel.streams,
                bytes: channel.bytes,
                bytes_per_second: reported.or_else(|| progress.bytes_per_second.filter(|_| alone)),
                round_trip_seconds: channel.round_trip_seconds,
                resent_bytes: channel.resent_bytes,
                cuts: channel.cuts,
            }
        };
        progress.channels.iter().map(view).collect()
    }
}

/// Progress of a running job, as an event.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobProgress {
    /// Id of the job.
    pub id: String,
    /// Progress of its attempt.
    pub progress: ProgressView,
}

/// A page of jobs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobList {
    /// The jobs, the newest first.
    pub jobs: Vec<JobView>,
    /// Cursor of the next page; null after the last page.
    pub next: Option<String>,
}

/// One attempt of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct AttemptView {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Node of the attempt.
    pub node: String,
    /// When the attempt started.
    pub started: Timestamp,
    /// When the attempt ended.
    pub ended: Option<Timestamp>,
    /// Outcome: a state, `backoff` or `restart`.
    #[schema(value_type = Option<String>)]
    pub outcome: Option<AttemptOutcome>,
    /// Reason of the outcome.
    pub reason: Option<Reason>,
    /// Bytes that the attempt moved.
    pub bytes: u64,
    /// Files that the attempt completed.
    pub files: u64,
    /// Bytes sent more than once, not counted in `bytes`.
    #[serde(default)]
    pub bytes_again: u64,
}

/// A line of a job's log.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct LogLine {
    /// Increases within a job. In a cluster, the lines of each attempt start at a separate multiple of 2^32.
    pub seq: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The event, as in `--json`.
    #[schema(value_type = Object)]
    pub event: serde_json::Value,
    /// Origin of the line, if another site ran the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<LineOrigin>,
    /// Name of the cluster node that wrote the line, unless it is the answering node.
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
    /// Number of the line in the log of that site.
    pub seq: u64,
}

/// A page of a job's log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct LogPage {
    /// The lines, the oldest first.
    pub lines: Vec<LogLine>,
    /// Value of `after` for the following lines.
    pub next: u64,
    /// Nodes of the cluster that ran attempts of the job and cannot be asked now. Their lines are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingNode>,
}

/// A node whose part of a job's history is missing.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct MissingNode {
    /// Name of the node.
    pub node: String,
    /// Why the part is missing, and the remedy.
    pub why: String,
}

/// A measurement of a running job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SampleView {
    /// Time of the measurement.
    pub at: Timestamp,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// Finished bytes.
    pub bytes: u64,
    /// Finished files.
    pub files: u64,
    /// Rate since the previous sample, in bytes per second.
    pub bytes_per_second: f64,
    /// Number of attached streams.
    pub streams: u32,
    /// Amounts that the attempt had moved.
    #[serde(default)]
    pub moved: Moved,
    /// Amounts that earlier runs had moved when the attempt started, as the destination reports.
    #[serde(default)]
    pub held: Moved,
    /// The stage that limited the transfer, as a word.
    #[serde(default, deserialize_with = "Bottleneck::known")]
    pub bottleneck: Option<Bottleneck>,
    /// Figures of each stage, by name, as in the event `progress` of `--json`.
    #[serde(default)]
    pub stages: BTreeMap<String, f64>,
    /// Figures of the host, by name.
    pub host: BTreeMap<String, f64>,
    /// Figures of the host at the other end, by name; empty if it gives none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_host: BTreeMap<String, f64>,
    /// The nodes that worked on a divided job, each with its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeProgress>,
    /// The forecast of the end that was given then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastView>,
    /// Name of the measuring site, if another site ran the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Name of the measuring cluster node, unless it is the answering node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}
