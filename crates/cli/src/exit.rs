//! Exit codes, and a failure that ends the program with one of them.
//! Prints nothing.

use godwit_api::settings::SettingError;
use std::fmt::Display;

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

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened to what, whose fault it is, what to do.
    pub(crate) message: String,
}

impl Failure {
    /// What was typed makes no sense.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.to_string(),
        }
    }

    /// What was asked for could not be done.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.to_string(),
        }
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Self::usage(error)
    }
}
