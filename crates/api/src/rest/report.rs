//! The report of a job: everything that is known of it, in one document.
//! Draws nothing; the HTML form is made of it in `jobs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AttemptView, FailureGroup, JobView, LogLine, MissingNode, NewJob, SampleView, Timestamp,
};

/// Everything that is known of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobReport {
    /// When the report was made.
    pub made: Timestamp,
    /// The job.
    pub job: JobView,
    /// How the job was submitted.
    pub description: NewJob,
    /// The attempts, the first one first.
    pub attempts: Vec<AttemptView>,
    /// Failed entries grouped by reason.
    pub failures: Vec<FailureGroup>,
    /// Seconds in which an attempt ran.
    pub seconds_running: f64,
    /// Bytes that the attempts moved.
    pub bytes_moved: u64,
    /// Bytes that attempts sent more than once, beside those.
    #[serde(default)]
    pub bytes_again: u64,
    /// Energy of the host's processor packages for each terabyte moved; None where the machine does not count it.
    pub joules_per_terabyte: Option<f64>,
    /// The part of the samples in which each stage was the bottleneck.
    pub bottlenecks: BTreeMap<String, f64>,
    /// How each figure of the samples was distributed.
    pub figures: BTreeMap<String, Distribution>,
    /// Each node that brought a divided job, as the samples show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeShare>,
    /// Changes that the tuner made, lost connections, notes and errors, the oldest first.
    pub time_line: Vec<LogLine>,
    /// The samples, the oldest first.
    pub samples: Vec<SampleView>,
    /// Nodes of the cluster that ran attempts of the job and do not tell now what they wrote: their lines and samples are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingNode>,
}

/// How a figure was distributed over the samples.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Distribution {
    /// Samples that have the figure.
    pub samples: u64,
    /// The least.
    pub min: f64,
    /// A quarter of the samples is below.
    pub quartile1: f64,
    /// Half of the samples are below.
    pub median: f64,
    /// Three quarters of the samples are below.
    pub quartile3: f64,
    /// The greatest.
    pub max: f64,
    /// Samples in each of ten equal steps from the least to the greatest.
    pub histogram: Vec<u64>,
}

/// The share of one node in a divided job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NodeShare {
    /// Its name.
    pub node: String,
    /// When it was first seen to bring something.
    pub began: Timestamp,
    /// When it was last seen to bring something.
    pub ended: Timestamp,
    /// Its mean rate between the two, in bytes per second.
    pub bytes_per_second: f64,
    /// Its part of what all nodes brought.
    pub share: f64,
    /// The stage that limited the node most of the time.
    pub bottleneck: Option<String>,
}
