//! Owns failures: a code of the catalogue (`model::failure`), a message for people, and the file or peer concerned.
//! Prints nothing, and decides nothing about retries.

pub mod page;

use std::fmt::{self, Display};

use crate::settings::{SettingError, SettingErrors};

pub use godwit_model::failure::{Code, Culprit, Exit, FailureCode, Retry, Scope};

/// Why a job could not be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// For programs.
    pub code: FailureCode,
    /// Message for people: the event, its object, whose fault it is, and what to do.
    pub message: String,
    /// The file, directory or peer concerned, if any.
    pub detail: Option<String>,
    /// Exit code of the command, if it is not that of the code.
    pub exit: Option<Exit>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(code: FailureCode, message: impl Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            detail: None,
            exit: None,
        }
    }

    /// Exit code of a command that fails so.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit.unwrap_or_else(|| self.code.exit())
    }

    /// The job is invalid as given.
    pub fn usage(message: impl Display) -> Self {
        Self::new(FailureCode::Usage, message)
    }

    /// An operation on this machine failed.
    pub fn local(message: impl Display) -> Self {
        Self::new(FailureCode::LocalFailure, message)
    }

    /// The same failure, about this file, directory or peer.
    #[must_use]
    pub fn about(mut self, what: impl Display) -> Self {
        self.detail = Some(what.to_string());
        self
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<SettingErrors> for Failure {
    fn from(errors: SettingErrors) -> Self {
        // A message is one line.
        Self::usage(errors.to_string().replace('\n', "; "))
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        Self::usage(error)
    }
}

#[cfg(test)]
mod tests;
