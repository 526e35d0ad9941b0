//! Owns the routes that tell of the node itself and of its exports.
//! Changes nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use godwit_api::rest::{ExportView, NodeView};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Viewer, role_name};
use crate::config::ExportInfo;
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(node))
        .routes(routes!(exports))
}

/// Describes the node and the caller.
#[utoipa::path(get, path = "/node", tag = "node", responses((status = 200, body = NodeView), Problems))]
async fn node(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<NodeView>, ApiError> {
    let exports = app.run(|app| Ok(exports_of(&app.node.exports))).await?;
    Ok(Json(NodeView {
        version: app.node.version.clone(),
        identity: app.node.identity.clone(),
        started: app.started,
        exports,
        user: caller.name,
        role: role_name(caller.role),
    }))
}

/// Lists the exports of the node.
#[utoipa::path(get, path = "/exports", tag = "node", responses((status = 200, body = Vec<ExportView>), Problems))]
async fn exports(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<ExportView>>, ApiError> {
    app.run(|app| Ok(exports_of(&app.node.exports)))
        .await
        .map(Json)
}

/// The exports with their free space. Blocks if no watcher has measured them.
pub(crate) fn exports_of(exports: &[ExportInfo]) -> Vec<ExportView> {
    exports
        .iter()
        .map(|export| {
            let room = (export.room)();
            ExportView {
                name: export.name.clone(),
                bytes_free: room.map(|room| room.free),
                bytes_total: room.map(|room| room.total),
            }
        })
        .collect()
}
