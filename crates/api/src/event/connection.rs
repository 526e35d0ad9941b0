//! The events of a connection that is lost and regained.
//! Decides nothing about connections.

use serde::{Deserialize, Serialize};

/// No data reaches the other end, or none comes back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLost {
    /// Seconds without a connection, or without an answer, so far.
    pub lost_seconds: f64,
    /// Seconds for which the client retries, counted from the loss.
    pub retry_for_seconds: f64,
    /// Cause of the loss, for people.
    pub why: String,
    /// The connections are still open, but the other end answers on none of them.
    pub silent: bool,
    /// The one channel that is lost while others live.
    #[serde(flatten)]
    pub channel: Option<LostChannel>,
    /// Seconds since the job began.
    pub seconds: f64,
}

/// The other end answers again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRegained {
    /// Total seconds without a connection, or without an answer.
    pub lost_seconds: f64,
    /// The one channel that was lost while others lived.
    #[serde(flatten)]
    pub channel: Option<LostChannel>,
    /// Seconds since the job began.
    pub seconds: f64,
}

/// One of several channels.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LostChannel {
    /// Number of the channel, counted from 0.
    #[serde(rename = "channel")]
    pub number: u32,
    /// The interface and the addresses.
    pub name: String,
}
