//! Owns requests and their answers: headers, deadlines, bounds, and problem documents. Does not know routes, or
//! documents other than problems.

use std::time::Duration;

use godwit_api::failure::FailureCode;
use godwit_api::rest::Problem;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::address::NodeAddress;
use crate::error::ClientError;
use crate::transport::Target;

/// Time for an answer, from its first to its last byte. For a change, a node syncs its log and its state, which takes seconds on a slow
/// disk; the report of a long job has some MiB.
pub(crate) const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The largest answer: a report with a sample for each second of a day, at 500 bytes each, and a margin.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The largest part of another server's error page that is shown.
const FOREIGN_SIGNS_MAX: usize = 200;

/// A request.
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    /// Additional headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// A document in JSON.
    pub(crate) body: Option<Vec<u8>>,
    /// Time for the whole answer.
    pub(crate) deadline: Duration,
}

impl Ask {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: None,
            deadline: ANSWER_DEADLINE,
        }
    }

    /// Sets the time that the node has for the whole answer.
    pub(crate) fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn document<T: serde::Serialize>(mut self, document: &T) -> Self {
        // The document has only plain fields, so it always becomes JSON.
        self.body = Some(serde_json::to_vec(document).unwrap_or_default());
        self
    }
}

impl Target {
    /// The body of an answer that is not a problem.
    pub(crate) async fn exchange(&self, ask: Ask) -> Result<Bytes, ClientError> {
        let deadline = ask.deadline;
        let whole = async {
            let answer = self.open(ask).await?;
            self.collect(answer).await
        };
        timeout(deadline, whole).await.unwrap_or_else(|_late| {
            Err(ClientError::TimedOut {
                node: self.address.to_string(),
                seconds: deadline.as_secs(),
            })
        })
    }

    /// An answer that is not a problem; its body is yet to be read. The call has no deadline.
    pub(crate) async fn open(&self, ask: Ask) -> Result<Response<Incoming>, ClientError> {
        let mut sender = self.connect().await?;
        let request = self.request(ask)?;
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| self.broken(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = self.collect(answer).await?;
        Err(ClientError::Refused {
            node: self.address.to_string(),
            problem: Box::new(problem(status, &body)),
        })
    }

    /// Parses a document.
    pub(crate) fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|error| ClientError::Answer {
            node: self.address.to_string(),
            reason: error.to_string(),
        })
    }

    fn request(&self, ask: Ask) -> Result<Request<Full<Bytes>>, ClientError> {
        let host = match &self.address {
            NodeAddress::Home(_) | NodeAddress::Socket(_) => "localhost".to_owned(),
            NodeAddress::Https(host) => host.to_string(),
        };
        let mut request = Request::builder()
            .method(ask.method)
            .uri(&ask.path)
            .header(HOST, host)
            .header(USER_AGENT, concat!("godwit/", env!("CARGO_PKG_VERSION")));
        if !ask.headers.iter().any(|(name, _)| *name == ACCEPT.as_str()) {
            request = request.header(ACCEPT, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        if ask.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request
            .body(Full::from(ask.body.unwrap_or_default()))
            .map_err(|error| ClientError::Setup(format!("{}: {error}", ask.path)))
    }

    async fn collect(&self, answer: Response<Incoming>) -> Result<Bytes, ClientError> {
        match Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
        {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) => match error.downcast_ref::<hyper::Error>() {
                Some(error) => Err(self.broken(error)),
                None => Err(ClientError::Answer {
                    node: self.address.to_string(),
                    reason: format!("it is longer than {ANSWER_BYTES_MAX} bytes"),
                }),
            },
        }
    }

    pub(crate) fn broken(&self, error: &hyper::Error) -> ClientError {
        ClientError::Broken {
            node: self.address.to_string(),
            reason: error.to_string(),
        }
    }
}

/// The problem in an answer; if there is no problem document, the status and the beginning of the body.
fn problem(status: u16, body: &[u8]) -> Problem {
    let parsed: Option<Problem> = serde_json::from_slice(body).ok();
    // The status line decides: the author of the body may not have seen it.
    if let Some(problem) = parsed {
        return Problem { status, ..problem };
    }
    let text = String::from_utf8_lossy(body);
    let text: String = text.trim().chars().take(FOREIGN_SIGNS_MAX).collect();
    Problem::new(
        status,
        FailureCode::Foreign,
        format!("status {status}, {text:?}"),
    )
}
