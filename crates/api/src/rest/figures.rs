//! The documents of a node's rates and settings.
//! Measures and resolves nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The rates of jobs in the last hours.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct RatesView {
    /// Time of the first value.
    pub begin: Timestamp,
    /// Seconds from one value to the next.
    pub step_seconds: u32,
    /// The rates, each with the same number of values.
    pub series: Vec<RateSeries>,
}

/// The rates of the node, of one site, or of one network path.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct RateSeries {
    /// Subject of the rates.
    pub kind: RateKind,
    /// Name of the node, site or channel.
    pub name: String,
    /// Bytes per second, the oldest value first; null for a time in which the node did not run.
    pub bytes_per_second: Vec<Option<f64>>,
}

/// Subject of rates.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateKind {
    /// All jobs that run at the nodes of the cluster.
    Node,
    /// The jobs with a site.
    Site,
    /// One network path, over all jobs that use it.
    Channel,
}

/// A setting of the settings table.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct SettingView {
    /// Name of the setting, as after `--`.
    pub name: String,
    /// Meaning, in one line.
    pub help: String,
    /// Further explanation; may be empty.
    pub detail: String,
    /// Default value; empty for an empty list.
    pub default: String,
    /// Form of a value.
    pub form: String,
    /// Allowed values; empty if they cannot be listed.
    pub choices: Vec<String>,
    /// Several values are allowed.
    pub list: bool,
    /// The setting is allowed in jobs.
    pub job: bool,
    /// Value at this node; null if the setting is not the node's.
    pub value: Option<String>,
    /// Origin of the value.
    pub origin: Option<String>,
}
