//! Owns the documents of the forecast, and of each node at work on a divided job.
//! See `job` for the job and its attempts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Bottleneck, Timestamp};

/// The forecast of the end of a running job. It comes from the amounts so far, from earlier jobs between the same sites, and from the
/// limits that are known to come.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ForecastView {
    /// The job ends before this time with a probability of 10 %.
    pub earliest: Timestamp,
    /// The job ends before this time with a probability of 50 %.
    pub likely: Timestamp,
    /// The job ends after this time with a probability of 10 %.
    pub latest: Timestamp,
}

/// One node at work on a divided job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NodeProgress {
    /// Its name.
    pub node: String,
    /// The node of the destination that receives its data; empty if there is none.
    pub to: String,
    /// Rate of the last seconds, in bytes per second.
    pub bytes_per_second: f64,
    /// Number of attached streams.
    pub streams: u32,
    /// The stage that limits the node.
    #[serde(default, deserialize_with = "Bottleneck::known")]
    pub bottleneck: Option<Bottleneck>,
    /// The limit of the node and advice, as a sentence.
    pub bottleneck_text: Option<String>,
    /// Figures of the stages between the two nodes, by name.
    pub stages: BTreeMap<String, f64>,
    /// Figures of the host of the node, by name.
    pub host: BTreeMap<String, f64>,
    /// Figures of the host of the node `to`, by name; empty if it gives none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_host: BTreeMap<String, f64>,
}
