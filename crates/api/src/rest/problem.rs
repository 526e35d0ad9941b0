//! Errors of the API: problem details of RFC 9457.
//! Chooses no status: the routes do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::Blame;
use crate::failure::Code;

/// The longest id of a request.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// Whether a text can be the id of a request: short, and harmless in a log.
#[must_use]
pub fn is_request_id(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=REQUEST_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(sign)
}

/// Why a request was not carried out.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Problem {
    /// `urn:godwit:problem:CODE`.
    pub r#type: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Message for people: the event, its object, whose fault it is, and what to do.
    pub detail: String,
    /// Code for programs: from the failure catalogue, or of the API.
    #[schema(value_type = String)]
    pub code: Code,
    /// The party that must act, as in the failure catalogue. Missing if the code is not in the catalogue of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Advice on what to do next, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Whether a retry can help: `transient` or `permanent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// Id of the request, as in the log of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Problem {
    /// A problem with this code.
    #[must_use]
    pub fn new(status: u16, code: impl Into<Code>, detail: impl Into<String>) -> Self {
        let code = code.into();
        let blame = code.known().map_or_else(Blame::default, Blame::from);
        Self {
            r#type: format!("urn:godwit:problem:{code}"),
            title: code.as_str().replace('_', " "),
            status,
            detail: detail.into(),
            fault: blame.fault,
            advice: blame.advice,
            retry: blame.retry,
            code,
            request: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureCode;

    #[test]
    fn a_problem_has_the_row_of_its_code() {
        for code in FailureCode::ALL {
            let problem = Problem::new(409, *code, "detail");
            assert_eq!(problem.advice.as_deref(), Some(code.advice()));
            assert_eq!(problem.fault.as_deref(), Some(code.culprit().as_str()));
            assert_eq!(problem.retry.as_deref(), Some(code.retry().as_str()));
        }
        let foreign = Problem::new(409, Code::of_word("of_a_newer_version"), "detail");
        assert_eq!(foreign.advice, None);
        let older = r#"{"type":"t","title":"t","status":409,"detail":"d","code":"busy"}"#;
        let older: Problem = serde_json::from_str(older).unwrap();
        assert_eq!(older.fault, None);
    }
}
