//! Findings and leftovers of other attempts of the same job at a destination.
//! Keeps nothing; the job's owner does.

/// Findings and leftovers of earlier attempts of a job at its destination; other senders may have made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Whether sources go into the destination, or the only one becomes it; `None` lets the existing entry decide.
    pub into: Option<bool>,
    /// Tags of their temporary files.
    pub tags: Vec<u64>,
}
