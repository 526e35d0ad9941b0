//! Why a job as a whole could not be done: a code for programs, a message for people.
//! Knows no exit codes; the command derives those from the code.

use std::fmt::{self, Display};

use crate::settings::SettingError;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FailureCode {
    /// The job makes no sense as it was given.
    Usage,
    /// The job could not be done.
    Failed,
    /// The peer is not the expected one, or does not let us in.
    Authentication,
    /// The job was stopped; the same job resumes it.
    Interrupted,
}

/// Why a job could not be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// For programs.
    pub code: FailureCode,
    /// What happened to what, whose fault it is, what to do.
    pub message: String,
}

impl Failure {
    /// The job makes no sense as it was given.
    pub fn usage(message: impl Display) -> Self {
        Self::new(FailureCode::Usage, message)
    }

    /// The job could not be done.
    pub fn failed(message: impl Display) -> Self {
        Self::new(FailureCode::Failed, message)
    }

    /// The peer is not the expected one, or does not let us in.
    pub fn authentication(message: impl Display) -> Self {
        Self::new(FailureCode::Authentication, message)
    }

    /// A failure of this kind.
    pub fn new(code: FailureCode, message: impl Display) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Self::usage(error)
    }
}
