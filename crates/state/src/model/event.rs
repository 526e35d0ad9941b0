//! Owns the events by which others follow the state.
//! Does not keep them: a bounded number of them is in the database.

use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::Timestamp;

/// What webhooks hear of sites if they name it: one answers no more, or again.
pub const SITE_EVENTS: [&str; 2] = ["site_away", "site_back"];

/// What an event is about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// A job.
    Job,
    /// A site, user or other named object.
    Object,
    /// History that was deleted.
    History,
}

impl Topic {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Object => "object",
            Self::History => "history",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Job, Self::Object, Self::History]
            .into_iter()
            .find(|topic| topic.name() == name)
    }
}

/// One change of the state.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Event {
    /// Rises by one from event to event; a reader resumes after it.
    pub seq: u64,
    /// Index of the command in the log.
    pub index: u64,
    /// Time in the command.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// What it is about.
    pub topic: Topic,
    /// Id of the job, or kind and id of the object: `site/siteB`.
    pub object: String,
    /// Name of the change: `job.pause`.
    pub change: String,
    /// State and reason of the job after the change, as JSON text.
    pub body: String,
}
