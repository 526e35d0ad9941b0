//! Results and leftovers of other attempts of the same job at a destination. Stores nothing; the job's owner does.

use std::time::Duration;

/// Results and leftovers of earlier attempts of a job at its destination, perhaps by other senders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Whether sources go into the destination, or the only source becomes it; `None` lets the existing entry
    /// decide.
    pub into: Option<bool>,
    /// Tags of the temporary files of earlier attempts.
    pub tags: Vec<u64>,
    /// Time since the first attempt began.
    pub age: Option<Duration>,
}
