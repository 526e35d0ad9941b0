//! Owns the routes of reports: all data of a job as one document, as one file for people, and its manifest.
//! Makes no report: `jobs` does.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse, Response};
use futures_util::stream;
use godwit_api::rest::JobReport;
use godwit_state::Role;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Need, Request, Viewer};
use crate::extract::Path;
use crate::lasting::Lasting;
use crate::long_answer::until_gone;
use crate::problem::ApiError;
use crate::turns;

/// The file runs no script and fetches nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(report))
        .routes(routes!(html))
        .routes(routes!(manifest))
}

/// Returns all data of a job as one document.
#[utoipa::path(get, path = "/jobs/{id}/report", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = JobReport), Problems))]
async fn report(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let turn = app.long_answers.turn().await?;
    let report = app.run_at_places(move |app| Ok(app.seen(&caller)?.report(&id)?));
    Ok(until_gone(Json(report.await?).into_response(), turn))
}

/// Returns all data of a job as one file for people.
#[utoipa::path(get, path = "/jobs/{id}/report.html", tag = "jobs", params(("id" = String, Path)), responses((status = 200, description = "The file.", content_type = "text/html", body = String), Problems))]
async fn html(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let turn = app.long_answers.turn().await?;
    let html = move |app: &App| Ok(app.seen(&caller)?.report_html(&id)?);
    let text = app.run_at_places(html).await?;
    let mut answer = Html(text).into_response();
    answer
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(until_gone(answer, turn))
}

/// Returns the manifest that a job wrote, in the format of `docs/manifest.md`.
#[utoipa::path(get, path = "/jobs/{id}/manifest", tag = "jobs", params(("id" = String, Path)), responses((status = 200, description = "The manifest.", content_type = "text/plain", body = String), Problems))]
async fn manifest(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    parts: Parts,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let of = id.clone();
    let lasting = Lasting::new(
        Arc::clone(&app),
        Request::of(&parts),
        Need::Role(Role::Viewer),
    )
    .while_allowed(move |app, caller| Ok(app.seen(caller)?.check_manifest(&of)?));
    let manifest = app
        .run_at_places(move |app| Ok(app.seen(&caller)?.manifest(&id)?))
        .await?;
    let bytes = manifest.bytes();
    let holder = turns::holder();
    // The file is complete. A later attempt makes another file, and never changes this one.
    let chunks = stream::try_unfold((manifest, lasting), move |(mut manifest, mut lasting)| {
        let (app, holder) = (Arc::clone(&app), holder.clone());
        async move {
            if !lasting.holds().await {
                return Err(io::Error::other("the right to read it has ended"));
            }
            // In the turns of the reader: another node, or a disk, may give each piece late.
            let read = app.run_for(holder, move |_| Ok((manifest.chunk(), manifest)));
            let read = read.await;
            let (chunk, manifest) =
                read.map_err(|_error| io::Error::other("it cannot be read now"))?;
            let chunk = chunk?;
            Ok((!chunk.is_empty()).then_some((chunk, (manifest, lasting))))
        }
    });
    let mut answer = Body::from_stream(chunks).into_response();
    let headers = answer.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    Ok(answer)
}
