//! Owns the routes for monitoring: whether the node is alive, whether it is ready, and its figures.
//! Heals nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use godwit_api::rest::Health;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::Viewer;
use crate::long_answer::until_gone;
use crate::problem::ApiError;

/// Content type of the figures.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(metrics))
}

/// Reports that the node is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = Health), Problems))]
async fn healthz() -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        notes: Vec::new(),
    })
}

/// Reports whether the node takes changes: its state leads, and its disk has room.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses((status = 200, body = Health), Problems))]
async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Health>, ApiError> {
    app.run(|app| {
        app.jobs.replica().readiness().check().map_err(|error| {
            // Callers without a role do not see paths of the node.
            let error = ApiError::from(error);
            ApiError::later(
                StatusCode::SERVICE_UNAVAILABLE,
                error.code().clone(),
                "the node accepts no changes now; see its log",
                10,
            )
        })?;
        Ok(Json(Health {
            status: "ready".to_owned(),
            notes: notes(app),
        }))
    })
    .await
}

/// Parts that do not work. Strangers read them, so they have no numbers and no paths: `/metrics` counts volumes, and the log names them.
fn notes(app: &App) -> Vec<String> {
    let view = app.node.buffer.as_ref().map(|buffer| buffer.view());
    let volumes = view.map(|view| view.volumes).unwrap_or_default();
    let is_lacking = |state: &str| [super::buffer::CLOSED, "out"].contains(&state);
    match volumes.iter().any(|volume| is_lacking(&volume.state)) {
        true => vec!["the transfer buffer is not whole; see: godwit buffer status".to_owned()],
        false => Vec::new(),
    }
}

/// Serves the figures of the node to Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, description = "The figures as OpenMetrics text.", content_type = "application/openmetrics-text", body = String), Problems))]
async fn metrics(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Response, ApiError> {
    // Those of a hundred divided jobs take many megabytes.
    let turn = app.long_answers.turn().await?;
    let text = app.run(move |app| app.metrics.text(app)).await?;
    let answer = ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response();
    Ok(until_gone(answer, turn))
}
