//! Exit codes, and how they follow from a failure.
//! Prints nothing.

pub(crate) use godwit_api::failure::{Failure, FailureCode};

/// How the program ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// Everything that was asked for is done.
    Complete = 0,
    /// Nothing useful was done, or it cannot be told what was.
    Failed = 1,
    /// The command or a setting makes no sense.
    Usage = 2,
    /// Some entries failed and were listed; all others are complete.
    Partial = 3,
    /// The peer is not who was expected, or does not let us in.
    Authentication = 4,
    /// Stopped before the end; the same command resumes it.
    Interrupted = 5,
}

impl From<FailureCode> for Exit {
    fn from(code: FailureCode) -> Self {
        match code {
            FailureCode::Usage => Self::Usage,
            FailureCode::Failed => Self::Failed,
            FailureCode::Authentication => Self::Authentication,
            FailureCode::Interrupted => Self::Interrupted,
        }
    }
}
