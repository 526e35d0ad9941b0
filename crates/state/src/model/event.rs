//! Owns the events by which readers follow the state. Does not store them; the database contains a
//! bounded number of them.

use serde::{Deserialize, Serialize};

use godwit_model::millis;

use super::Timestamp;

/// Events of sites that webhooks may select: a site stopped or resumed answering.
pub const SITE_EVENTS: [&str; 2] = ["site_away", "site_back"];

/// Event of a job that webhooks may select: none of its data waits in a transfer buffer any more.
pub const DRAINED_EVENT: &str = "drained";

/// The subject of an event.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// A job.
    Job,
    /// A site, user or other named object.
    Object,
    /// Deleted history.
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
    /// Number of the event, increased by one for each event; a reader resumes after it.
    pub seq: u64,
    /// Index of the command in the log.
    pub index: u64,
    /// Time in the command.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// The subject of the event.
    pub topic: Topic,
    /// Id of the job, or kind and id of the object: `site/siteB`.
    pub object: String,
    /// Name of the change: `job.pause`.
    pub change: String,
    /// State and reason of the job after the change, as JSON text.
    pub body: String,
}
