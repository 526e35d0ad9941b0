//! The report of a job: all its data in one document.
//! Draws nothing: `jobs` makes the HTML form.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AttemptView, Bottleneck, FailureGroup, ForecastView, JobView, LogLine, MissingNode, NewJob,
    SampleView, Timestamp,
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
    /// The job of each destination, for a job with several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<JobView>,
    /// The attempts, oldest first.
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
    /// Energy of the processor packages of all nodes that ran the job, per terabyte moved, in joules; null if a machine does not measure it.
    pub joules_per_terabyte: Option<f64>,
    /// Share of the samples in which each stage was the bottleneck, by stage.
    #[serde(deserialize_with = "Bottleneck::known_keys")]
    #[schema(value_type = BTreeMap<String, f64>)]
    pub bottlenecks: BTreeMap<Bottleneck, f64>,
    /// Distribution of each figure over the samples, by name. Figures of hosts are those of all nodes that ran the job.
    pub figures: BTreeMap<String, Distribution>,
    /// Each node that worked on a divided job, according to the samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeShare>,
    /// How evenly several nodes shared a divided job that has ended; null for fewer than two nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evenness: Option<EvennessView>,
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

impl JobReport {
    /// The stages that limited the job, each with its share of the time, the largest first; empty if nothing was measured.
    #[must_use]
    pub fn limits_text(&self) -> String {
        let mut stages: Vec<(&Bottleneck, &f64)> = self.bottlenecks.iter().collect();
        stages.sort_by(|one, other| other.1.total_cmp(one.1));
        let part =
            |(stage, part): (&Bottleneck, &f64)| format!("{} {:.0} %", stage.words(), part * 100.0);
        let parts: Vec<String> = stages.into_iter().map(part).collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("{} of the time", parts.join(", ")),
        }
    }
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
    #[serde(default, deserialize_with = "Bottleneck::known")]
    pub bottleneck: Option<Bottleneck>,
    /// The network interfaces by which the node sent meanwhile, by the counts of its machine. Empty for fewer than two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceShare>,
}

impl NodeShare {
    /// The interfaces with their shares, for people; empty for fewer than two.
    #[must_use]
    pub fn interfaces_text(&self) -> String {
        let text = |one: &InterfaceShare| format!("{} {:.0} %", one.interface, one.share * 100.0);
        let texts: Vec<String> = self.interfaces.iter().map(text).collect();
        texts.join(", ")
    }
}

/// The share of one network interface.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct InterfaceShare {
    /// Its name.
    pub interface: String,
    /// Share of the bytes that all interfaces of the machine sent, from 0 to 1.
    pub share: f64,
}

/// The first and the last node of a divided job, and how evenly the nodes shared it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct EvennessView {
    /// The node that was done first.
    pub first: String,
    /// When it was done.
    pub first_ended: Timestamp,
    /// The node that was done last.
    pub last: String,
    /// When it was done.
    pub last_ended: Timestamp,
    /// The smallest share of a node divided by the largest; 1 means equal shares.
    pub nodes: f64,
    /// The same of the interfaces of the node whose interfaces were the least even; null if no node used several.
    pub interfaces: Option<f64>,
}

impl EvennessView {
    /// The words about nodes. Names in braces stand for figures. The page has these words by a generated table.
    pub const OF_NODES: &str = "{first} was done first and {last} last, {late} s later. The node that moved least moved {nodes} % as much as the node that moved most.";

    /// The words about interfaces, which follow those about nodes.
    pub const OF_INTERFACES: &str = "The interface of a node that sent least sent at least {interfaces} % as much as the one that sent most.";

    /// As sentences.
    #[must_use]
    pub fn words(&self) -> String {
        let late = self.last_ended.0.saturating_sub(self.first_ended.0);
        let late = Duration::from_millis(late.unsigned_abs()).as_secs_f64();
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        // The names come last, so that no figure is put into a name.
        let words = Self::OF_NODES
            .replace("{late}", &format!("{late:.1}"))
            .replace("{nodes}", &percent(self.nodes))
            .replace("{last}", &self.last)
            .replace("{first}", &self.first);
        match self.interfaces {
            Some(even) => format!(
                "{words} {}",
                Self::OF_INTERFACES.replace("{interfaces}", &percent(even))
            ),
            None => words,
        }
    }
}
