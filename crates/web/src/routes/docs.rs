//! Owns the description of the API: the document for programs, and a self-contained page for people.
//! Describes nothing by hand: the document comes from the handlers.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use crate::app::App;

/// The page that shows the document.
const PAGE: &str = include_str!("docs.html");

/// The page loads nothing from elsewhere, only its own script and style.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes(document: String) -> Router<Arc<App>> {
    // Shared by all answers, since it needs no credentials.
    let document = Bytes::from(document);
    let json = move || {
        let document = document.clone();
        async move { ([(CONTENT_TYPE, "application/json")], document) }
    };
    Router::new()
        .route("/openapi.json", get(json.clone()))
        .route("/api/v1/openapi.json", get(json))
        .route("/docs", get(page))
}

async fn page() -> Response {
    let mut page = Html(PAGE).into_response();
    page.headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    page
}
