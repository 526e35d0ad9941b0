//! Owns the route of the audit log.
//! Writes no line: the state does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use godwit_api::rest::{AuditView, Timestamp};
use godwit_state::{AuditFilter, AuditLine};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::Admin;
use crate::extract::{Parameters, limit};
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(audit))
}

/// Which lines to list; each parameter narrows the list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    /// Name of the actor that made the request.
    actor: Option<String>,
    /// At this time or later.
    since: Option<Timestamp>,
    /// Before this time.
    until: Option<Timestamp>,
    /// Only lines older than this number; for the next page, pass the last number of the page before.
    before: Option<u64>,
    /// Lines of the page; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists audited requests with their outcomes, the newest first.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditQuery), responses((status = 200, body = Vec<AuditView>), Problems))]
async fn audit(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
    Parameters(query): Parameters<AuditQuery>,
) -> Result<Json<Vec<AuditView>>, ApiError> {
    let limit = limit(query.limit, 100, 1_000)?;
    let filter = AuditFilter {
        actor: query.actor,
        since: query.since,
        until: query.until,
        before: query.before,
    };
    let lines = app
        .run(move |app| Ok(app.reader().audit(&filter, limit)?))
        .await?;
    Ok(Json(lines.into_iter().map(view).collect()))
}

fn view(line: AuditLine) -> AuditView {
    AuditView {
        seq: line.seq,
        at: line.at,
        actor: line.actor,
        role: line.role,
        action: line.action,
        object: line.object,
        outcome: line.outcome,
        remote: line.remote,
        request: line.request,
        via: line.via,
    }
}
