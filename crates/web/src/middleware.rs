//! Owns the work around each request: its id, the headers of every answer, the bounds of its length, and the figures.
//! Knows no route.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use godwit_api::failure::FailureCode;
use godwit_api::rest::{Problem, is_request_id};

use crate::app::App;
use crate::caller::Peer;
use crate::judged;
use crate::places::Key;
use crate::problem::{ApiError, render};
use crate::turns::{Holder, held_by};

/// The header that carries the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Identifies a request in logs.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// The id of the request.
    pub(crate) id: String,
    /// The whole path; routes see only their part of it.
    pub(crate) path: String,
}

/// Marks a request over the limit of its connection, which has not proven a user.
#[derive(Clone)]
pub(crate) struct Crowded;

/// The longest address: a path of the file system, each byte of it written in three.
const URI_BYTES_MAX: usize = 16 << 10;

/// Bytes of all headers: tokens and cookies are far shorter.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// For browsers that saw the operator's certificate here, in seconds: a year without plain HTTP.
const HSTS: &str = "max-age=31536000";

/// Sets the id of the request: the client's if valid, else a random one. Sets the common headers of the answer.
pub(crate) async fn identify(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let given = request.headers().get(&REQUEST_ID);
    let given = given.and_then(|value| value.to_str().ok());
    let given = given.filter(|text| is_request_id(text));
    let id = given.map_or_else(random, ToOwned::to_owned);
    let label = Label {
        id: id.clone(),
        path: request.uri().path().to_owned(),
    };
    let peer = request.extensions().get::<Peer>().copied();
    let by_network = matches!(peer, Some(Peer::Network(_)));
    request.extensions_mut().insert(label);
    let answered = judged::keeping(next.run(request));
    let answered = match peer {
        Some(peer) => held_by(Holder::Stranger(Key::of(peer)), answered).await,
        None => answered.await,
    };
    let mut response = described(answered);
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        problem.request = Some(id.clone());
        let (parts, _) = response.into_parts();
        let mut rendered = render(&problem);
        for (name, value) in &parts.headers {
            if !is_of_body(name) {
                rendered.headers_mut().insert(name.clone(), value.clone());
            }
        }
        response = rendered;
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Files of the page set their own cache headers.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if by_network && app.certified {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
    }
    response
}

/// Turns an error that is no problem document yet into one. The HTTP library has other texts.
fn described(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.extensions().get::<Problem>().is_some() {
        return response;
    }
    let detail = status.canonical_reason().unwrap_or("refused");
    let code = match status {
        StatusCode::NOT_FOUND => FailureCode::NoSuchRoute,
        StatusCode::METHOD_NOT_ALLOWED => FailureCode::NoSuchMethod,
        StatusCode::PAYLOAD_TOO_LARGE => FailureCode::TooLarge,
        status if status.is_client_error() => FailureCode::Invalid,
        _ => FailureCode::Internal,
    };
    let mut problem = ApiError::new(status, code, detail).into_response();
    for (name, value) in response.headers() {
        if !is_of_body(name) {
            problem.headers_mut().insert(name.clone(), value.clone());
        }
    }
    problem
}

/// Refuses requests before routing: too long ones, and too many of a stranger.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    if request.extensions().get::<Crowded>().is_some() {
        let detail =
            "this connection has too many requests without credentials; send fewer at a time";
        return ApiError::later(
            StatusCode::TOO_MANY_REQUESTS,
            FailureCode::TooManyRequests,
            detail,
            1,
        )
        .into_response();
    }
    let uri = request.uri();
    let uri_bytes = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if uri_bytes > URI_BYTES_MAX {
        let detail = format!("the address has {uri_bytes} bytes; at most {URI_BYTES_MAX}");
        return ApiError::new(StatusCode::URI_TOO_LONG, FailureCode::UriTooLong, detail)
            .into_response();
    }
    let of_header = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let header_bytes: usize = request.headers().iter().map(of_header).sum();
    if header_bytes > HEADER_BYTES_MAX {
        let detail = format!("the headers have {header_bytes} bytes; at most {HEADER_BYTES_MAX}");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return ApiError::new(status, FailureCode::HeadersTooLarge, detail).into_response();
    }
    next.run(request).await
}

/// Counts the request and measures how long its answer takes.
pub(crate) async fn measure(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let status = response.status().as_u16();
    app.metrics
        .answered(method.as_str(), route, status, began.elapsed());
    response
}

/// Route label of requests that match no route.
const UNMATCHED: &str = "none";

fn is_of_body(name: &HeaderName) -> bool {
    use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
    name == CONTENT_TYPE || name == CONTENT_LENGTH
}

fn random() -> String {
    let bits = getrandom::u64().unwrap_or_else(|_| godwit_jobs::now().0.cast_unsigned());
    format!("{bits:016x}")
}
