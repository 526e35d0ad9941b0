//! The report of a job: all its data in one document.
//! Draws nothing: `jobs` makes the HTML form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AttemptView, FailureGroup, ForecastView, JobView, LogLine, MissingNode, NewJob, SampleView,
    Timestamp,
};

/// All data of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobReport {
    /// When the report was made.
    pub made: Timestamp,
    /// The job.
    pub job: JobView,
    /// The job as it was submitted.
    pub description: NewJob,
    /// The attempts, the first one first.
    pub attempts: Vec<AttemptView>,
    /// Failed entries grouped by reason.
    pub failures: Vec<FailureGroup>,
    /// Seconds during which an attempt ran.
    pub seconds_running: f64,
    /// Bytes that the attempts moved.
    pub bytes_moved: u64,
    /// Bytes that the attempts sent more than once, not counted in `bytes_moved`.
    #[serde(default)]
    pub bytes_again: u64,
    /// Energy of the host's processor packages per terabyte moved, in joules; null if the machine does not measure it.
    pub joules_per_terabyte: Option<f64>,
    /// Share of the samples in which each stage was the bottleneck, by stage.
    pub bottlenecks: BTreeMap<String, f64>,
    /// Distribution of each figure over the samples, by name.
    pub figures: BTreeMap<String, Distribution>,
    /// Each node that worked on a divided job, according to the samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeShare>,
    /// The forecast after a tenth of the bytes of the last attempt, if the job is complete and there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastReview>,
    /// Tuner changes, lost connections, notes and errors, the oldest first.
    pub time_line: Vec<LogLine>,
    /// The samples, the oldest first.
    pub samples: Vec<SampleView>,
    /// Nodes of the cluster that ran attempts of the job and cannot be asked now. Their lines and samples are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingNode>,
}

/// The forecast that the job gave after a tenth of its bytes, beside its end.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ForecastReview {
    /// When it was given.
    pub given: Timestamp,
    /// The forecast.
    pub forecast: ForecastView,
    /// How much later than the job the likely end was, as a share of the time from the beginning of the attempt to the end of the job.
    /// Below 0 if it was earlier.
    pub error: f64,
    /// The job ended between the earliest and the latest end.
    pub held: bool,
}

impl ForecastReview {
    /// The review as a sentence without its subject.
    #[must_use]
    pub fn words(&self) -> String {
        let way = if self.error < 0.0 { "early" } else { "late" };
        let held = if self.held { "inside" } else { "outside" };
        format!(
            "after a tenth of the bytes, at {}: about {} ({:.0} % of the time too {way}); the job ended {held} the range from {} to {}",
            self.given.utc(),
            self.forecast.likely.utc(),
            self.error.abs() * 100.0,
            self.forecast.earliest.utc(),
            self.forecast.latest.utc()
        )
    }
}

/// Distribution of a figure over the samples.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Distribution {
    /// Number of samples with the figure.
    pub samples: u64,
    /// Minimum.
    pub min: f64,
    /// First quartile: a quarter of the samples is below.
    pub quartile1: f64,
    /// Median: half of the samples are below.
    pub median: f64,
    /// Third quartile: three quarters of the samples are below.
    pub quartile3: f64,
    /// Maximum.
    pub max: f64,
    /// Number of samples in each of ten equal steps from the minimum to the maximum.
    pub histogram: Vec<u64>,
}

/// The share of one node in a divided job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NodeShare {
    /// Its name.
    pub node: String,
    /// Time of the first sample with data from the node.
    pub began: Timestamp,
    /// Time of the last sample with data from the node.
    pub ended: Timestamp,
    /// Mean rate between the two, in bytes per second.
    pub bytes_per_second: f64,
    /// Share of the data of all nodes, from 0 to 1.
    pub share: f64,
    /// The stage that limited the node most of the time.
    pub bottleneck: Option<String>,
}
