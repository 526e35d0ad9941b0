//! Owns the machine-readable part of a failure, beside its message.
//! Decides nothing: the catalogue of failures does.

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure, FailureCode};

/// A row of the catalogue of failures, in words. All fields are missing if nothing failed, and in reports of older versions.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// The code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The party at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Advice on what to do next, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Whether a retry can help: `transient` or `permanent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

impl Blame {
    /// The code, if this version knows it.
    #[must_use]
    pub fn known(&self) -> Option<FailureCode> {
        self.code.as_ref().and_then(Code::known)
    }
}

impl From<FailureCode> for Blame {
    fn from(code: FailureCode) -> Self {
        Self {
            code: Some(code.into()),
            fault: Some(code.culprit().as_str().to_owned()),
            advice: Some(code.advice().to_owned()),
            retry: Some(code.retry().as_str().to_owned()),
        }
    }
}

/// The job cannot continue.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ErrorEvent {
    /// Error message for people.
    pub message: String,
    /// The file, directory or peer concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The row of the catalogue.
    #[serde(flatten)]
    pub blame: Blame,
}

impl From<&Failure> for ErrorEvent {
    fn from(failure: &Failure) -> Self {
        Self {
            message: failure.message.clone(),
            detail: failure.detail.clone(),
            blame: failure.code.into(),
        }
    }
}
