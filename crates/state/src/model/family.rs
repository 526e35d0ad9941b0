//! Owns families of jobs: a parent, and a child for each destination, or for each source of a gather. An ordinary job has neither.
//! Derives no state; `apply` does.

use serde::{Deserialize, Serialize};

use super::{CommandError, NewJob, Object};

/// Prefix of the key of a relay: a job that brings data from a complete child to another child of the same parent. The ids of the two follow,
/// the one that gets the data first, with a colon between them.
pub const RELAY_KEY: &str = "relay:";

/// A submitted job with several destinations, or one that gathers several sources.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewFamily {
    /// The job that no node runs; its state follows from its children.
    pub parent: NewJob,
    /// An ordinary job for each destination, or for each source.
    pub children: Vec<NewJob>,
}

/// The parent of a child.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Child {
    /// Id of the child.
    pub job: String,
    /// Id of the parent.
    pub parent: String,
}

impl Object for Child {
    const KIND: &'static str = "child";
    fn id(&self) -> String {
        self.job.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.parent.clone())
    }
    fn check(&self) -> Result<(), CommandError> {
        Ok(())
    }
}
