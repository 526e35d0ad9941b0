//! Owns the routes of reports: everything of a job as one document, and as one file for people.
//! Makes neither: `jobs` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse, Response};
use godwit_api::rest::JobReport;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::Viewer;
use crate::problem::ApiError;

/// The file runs no script and fetches nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(report))
        .routes(routes!(html))
}

/// Gives everything of a job as one document.
#[utoipa::path(get, path = "/jobs/{id}/report", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = JobReport), Problems))]
async fn report(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobReport>, ApiError> {
    app.run(move |app| Ok(app.jobs.report(&id)?))
        .await
        .map(Json)
}

/// Gives everything of a job as one file for people.
#[utoipa::path(get, path = "/jobs/{id}/report.html", tag = "jobs", params(("id" = String, Path)), responses((status = 200, description = "The file.", content_type = "text/html", body = String), Problems))]
async fn html(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let text = app.run(move |app| Ok(app.jobs.report_html(&id)?)).await?;
    let mut answer = Html(text).into_response();
    answer
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(answer)
}
