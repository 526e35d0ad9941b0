//! Owns what is done around each request: its id, the id in problems, and the figures.
//! Knows no route.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use godwit_api::rest::{Problem, is_request_id};

use crate::app::App;
use crate::problem::render;

/// The header that carries the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// By what a request is found in logs.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// The id of the request.
    pub(crate) id: String,
    /// The whole path; routes see only their part of it.
    pub(crate) path: String,
}

/// Gives the request an id: the client's where it makes sense, else a random one.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID);
    let given = given.and_then(|value| value.to_str().ok());
    let given = given.filter(|text| is_request_id(text));
    let id = given.map_or_else(random, ToOwned::to_owned);
    let label = Label {
        id: id.clone(),
        path: request.uri().path().to_owned(),
    };
    request.extensions_mut().insert(label);
    let mut response = next.run(request).await;
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
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
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

/// The route of requests for which there is none.
const UNMATCHED: &str = "none";

fn is_of_body(name: &HeaderName) -> bool {
    use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
    name == CONTENT_TYPE || name == CONTENT_LENGTH
}

fn random() -> String {
    let bits = getrandom::u64().unwrap_or_else(|_| godwit_jobs::now().0.cast_unsigned());
    format!("{bits:016x}")
}
