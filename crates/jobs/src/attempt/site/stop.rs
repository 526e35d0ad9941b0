//! Owns why an attempt that another site runs ends at this node.
//! Says nothing to anyone: `ending` does.

use godwit_api::ask::Refusal;

use crate::basis::error::JobsError;

/// Why the attempt ends here.
pub(super) enum Stop {
    /// The claim has ended, or this node stops: the state knows already.
    ClaimEnded,
    /// A site refused, or cannot be reached.
    Refused(Refusal),
    /// This node failed.
    Failed(JobsError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<JobsError> for Stop {
    fn from(error: JobsError) -> Self {
        Self::Failed(error)
    }
}
