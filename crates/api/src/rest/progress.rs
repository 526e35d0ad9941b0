//! What attempts moved, and what each node of a divided job does.
//! Leaves the job and its attempts to `job`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an attempt, or all attempts of a job, moved.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct MovedView {
    /// Bytes of contents that arrived, each counted once.
    pub bytes: u64,
    /// Files that were finished.
    pub files: u64,
    /// Bytes that were sent more than once, beside the others.
    pub bytes_again: u64,
}

impl MovedView {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
            bytes_again: self.bytes_again.saturating_add(other.bytes_again),
        }
    }
}

/// What one node brings of a divided job now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NodeProgress {
    /// Its name.
    pub node: String,
    /// The node of the destination that it sends to; empty while it sends to none.
    pub to: String,
    /// Rate of the last seconds, in bytes per second.
    pub bytes_per_second: f64,
    /// Streams attached.
    pub streams: u32,
    /// What limits it, as a word.
    pub bottleneck: Option<String>,
    /// What limits it and what would help, as a sentence.
    pub bottleneck_text: Option<String>,
    /// What each stage did between the two nodes, by name of the figure.
    pub stages: BTreeMap<String, f64>,
    /// What its host did, by name of the figure.
    pub host: BTreeMap<String, f64>,
}
