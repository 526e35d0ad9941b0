//! Owns the answer to a refused or failed request: a problem document with its status and headers.
//! Decides nothing about requests.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use godwit_api::failure::{Code, FailureCode};
use godwit_api::rest::Problem;
use godwit_jobs::JobsError;
use godwit_state::{CommandError, Fault, ProposeError};

/// Content type of RFC 9457.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Seconds after which a client may retry a request that was refused for now.
const RETRY_SECONDS: u64 = 2;

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    problem: Problem,
    header: Option<(HeaderName, HeaderValue)>,
    written: bool,
}

/// Marks a refusal that is in the log and the audit log already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written;

impl ApiError {
    /// An error of this status and code.
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Code>,
        detail: impl Into<String>,
    ) -> Self {
        Self(Box::new(Inner {
            problem: Problem::new(status.as_u16(), code, detail),
            header: None,
            written: false,
        }))
    }

    /// Marks this error as written to the log and the audit log already.
    pub(crate) fn written(mut self) -> Self {
        self.0.written = true;
        self
    }

    /// The request makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            FailureCode::Invalid,
            detail,
        )
    }

    /// A named thing is not there.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, FailureCode::NotFound, detail)
    }

    /// This program is at fault.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            FailureCode::Internal,
            detail,
        )
    }

    /// The sender has not proven a user.
    pub(crate) fn unauthenticated(code: impl Into<Code>, detail: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::UNAUTHORIZED, code, detail);
        error.0.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        error
    }

    /// The caller may not do this.
    pub(crate) fn forbidden(code: impl Into<Code>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// The client may retry the request after `seconds`.
    pub(crate) fn later(
        status: StatusCode,
        code: impl Into<Code>,
        detail: impl Into<String>,
        seconds: u64,
    ) -> Self {
        let mut error = Self::new(status, code, detail);
        error.0.header = Some((RETRY_AFTER, HeaderValue::from(seconds)));
        error
    }

    /// The code of the problem.
    pub(crate) fn code(&self) -> &Code {
        &self.0.problem.code
    }

    /// The status of the problem.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Inner {
            problem,
            header,
            written,
        } = *self.0;
        let mut response = render(&problem);
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(problem);
        if written {
            response.extensions_mut().insert(Written);
        }
        response
    }
}

/// The problem as a response.
pub(crate) fn render(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = (status, body).into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        let detail = error.to_string();
        match error {
            JobsError::NoJob(_) => Self::new(StatusCode::NOT_FOUND, FailureCode::NoSuchJob, detail),
            JobsError::NoManifest(_) => {
                Self::new(StatusCode::NOT_FOUND, FailureCode::NoManifest, detail)
            }
            JobsError::Elsewhere(_) => Self::later(
                StatusCode::SERVICE_UNAVAILABLE,
                FailureCode::NodeUnreachable,
                detail,
                RETRY_SECONDS,
            ),
            JobsError::NoWork(_) => {
                Self::new(StatusCode::NOT_FOUND, FailureCode::NotDivided, detail)
            }
            JobsError::Invalid { code, .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
            }
            JobsError::Forbidden { code, .. } => Self::forbidden(code, detail),
            JobsError::Grants(_) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                FailureCode::GrantsUnreadable,
                detail,
            ),
            JobsError::Propose(error) => error.into(),
            JobsError::State(fault) => fault.into(),
            JobsError::File { .. } => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                FailureCode::FileUnreadable,
                detail,
            ),
        }
    }
}

impl From<ProposeError> for ApiError {
    fn from(error: ProposeError) -> Self {
        let detail = error.to_string();
        let unavailable = |code: FailureCode| {
            Self::later(
                StatusCode::SERVICE_UNAVAILABLE,
                code,
                detail.clone(),
                RETRY_SECONDS,
            )
        };
        match error {
            ProposeError::Refused(refused) => {
                let status = match &refused {
                    CommandError::NotFound { .. } => StatusCode::NOT_FOUND,
                    CommandError::Conflict { .. }
                    | CommandError::Forbidden { .. }
                    | CommandError::Stale { .. }
                    | CommandError::Duplicate { .. }
                    | CommandError::AlreadyFired { .. }
                    | CommandError::TooMany { .. } => StatusCode::CONFLICT,
                    CommandError::Denied { .. } => StatusCode::FORBIDDEN,
                    CommandError::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                    CommandError::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
                };
                Self::new(status, refused.code(), detail)
            }
            ProposeError::NotLeader { .. } => unavailable(FailureCode::NotLeader),
            ProposeError::NoMajority { .. } => unavailable(FailureCode::NoMajority),
            ProposeError::Unable { .. } => unavailable(FailureCode::LeaderUnable),
            ProposeError::Busy => unavailable(FailureCode::Busy),
            ProposeError::Unknown => unavailable(FailureCode::OutcomeUnknown),
            ProposeError::Ended(_) => unavailable(FailureCode::StateStopped),
            ProposeError::LeftBehind(_) => unavailable(FailureCode::Recovered),
            ProposeError::Full { .. } => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                FailureCode::DiskFull,
                detail,
            ),
            ProposeError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, FailureCode::TooLarge, detail)
            }
            ProposeError::Fault(fault) => fault.into(),
        }
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        if fault.is_full() {
            let detail =
                "the file system of the node's state is full; make room in its GODWIT_HOME";
            return Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                FailureCode::DiskFull,
                detail,
            );
        }
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, FailureCode::StateUnreadable, fault.to_string())
    }
}
