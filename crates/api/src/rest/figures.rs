//! The documents of a node's rates and settings.
//! Measures and resolves nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// The rates of the jobs of the last hours.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct RatesView {
    /// When the first value was taken.
    pub begin: Timestamp,
    /// Seconds from one value to the next.
    pub step_seconds: u32,
    /// The rates, each with as many values.
    pub series: Vec<RateSeries>,
}

/// The rates of one thing.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct RateSeries {
    /// What the rates are of.
    pub kind: RateKind,
    /// Name of the node, site or channel.
    pub name: String,
    /// Bytes per second, the oldest value first; null for a time in which the node did not run.
    pub bytes_per_second: Vec<Option<f64>>,
}

/// What rates are of.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateKind {
    /// All jobs that the node runs.
    Node,
    /// The jobs with a site.
    Site,
    /// One network path, over all jobs that use it.
    Channel,
}

/// A setting of the settings table.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct SettingView {
    /// Name, as behind `--`.
    pub name: String,
    /// The meaning in one line.
    pub help: String,
    /// More of the meaning; may be empty.
    pub detail: String,
    /// The usual value; empty for an empty list.
    pub default: String,
    /// What a value looks like.
    pub form: String,
    /// The values that are allowed; empty where they cannot be listed.
    pub choices: Vec<String>,
    /// Several values are allowed.
    pub list: bool,
    /// A job may have the setting.
    pub job: bool,
    /// The value at this node; None where the setting is not the node's.
    pub value: Option<String>,
    /// Where the value was given.
    pub origin: Option<String>,
}
