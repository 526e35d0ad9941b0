//! What programs are told of a failure, beside its message.
//! Decides nothing: the catalogue of failures does.

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure, FailureCode};

/// A row of the catalogue of failures, in words; all are missing where nothing failed, or in what an older version tells.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// The code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Whose fault it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What to do next, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Whether a retry can help: `transient` or `permanent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

impl Blame {
    /// The code, if it is one that this version knows.
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

/// The job cannot go on.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ErrorTold {
    /// What happened, for people.
    pub message: String,
    /// The file, directory or peer that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The row of the catalogue.
    #[serde(flatten)]
    pub blame: Blame,
}

impl From<&Failure> for ErrorTold {
    fn from(failure: &Failure) -> Self {
        Self {
            message: failure.message.clone(),
            detail: failure.detail.clone(),
            blame: failure.code.into(),
        }
    }
}
