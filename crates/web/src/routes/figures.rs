//! Owns the routes of the node's rates and of the settings table.
//! Measures nothing: `rates` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use godwit_api::failure::FailureCode;
use godwit_api::rest::{RatesView, SettingView};
use godwit_api::settings::{AppliesTo, Kind, Scope, Setting, range_text};
use godwit_state::Role;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::Viewer;
use crate::extract::Parameters;
use crate::long_answer::until_gone;
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(rates))
        .routes(routes!(settings))
}

/// Lists the rates of jobs in the last hours: of the node, of each site, and of each network path.
#[utoipa::path(get, path = "/rates", tag = "node", responses((status = 200, body = RatesView), Problems))]
async fn rates(Viewer(caller): Viewer, State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    // The rates of a hundred sites and channels take some megabytes.
    let turn = app.long_answers.turn().await?;
    let rates = app.rates.view(caller.role == Role::Admin);
    Ok(until_gone(Json(rates).into_response(), turn))
}

/// Whose settings to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct SettingsQuery {
    /// `serve` for the node itself; `cp`, `sync` or `verify` for jobs; default `serve`.
    command: Option<String>,
}

/// Lists settings with their meaning. The settings of the node also have their value and its origin.
#[utoipa::path(get, path = "/settings", tag = "node", params(SettingsQuery), responses((status = 200, body = Vec<SettingView>), Problems))]
async fn settings(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Parameters(query): Parameters<SettingsQuery>,
) -> Result<Json<Vec<SettingView>>, ApiError> {
    let scope = match query.command.as_deref() {
        None | Some("serve") => Scope::Serve,
        Some("cp") => Scope::Cp,
        Some("sync") => Scope::Sync,
        Some("verify") => Scope::Verify,
        Some(other) => {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                FailureCode::BadQuery,
                format!("command: {other:?} is not serve, cp, sync or verify"),
            ));
        }
    };
    let is_admin = caller.role == Role::Admin;
    let view = |setting: &Setting| {
        let of_node = app.node.settings.iter();
        let set = of_node
            .filter(|_| scope == Scope::Serve)
            .find(|set| set.name == setting.name);
        SettingView {
            name: setting.name.to_owned(),
            help: setting.help.to_owned(),
            detail: setting.detail.to_owned(),
            default: setting.default.to_owned(),
            form: range_text(&setting.kind),
            choices: choices(&setting.kind),
            list: setting.is_list(),
            job: setting.applies_to == AppliesTo::Jobs,
            value: set
                .filter(|_| is_admin || !may_name_paths(&setting.kind))
                .map(|set| set.value.clone()),
            origin: set
                .map(|set| set.origin.clone())
                .filter(|origin| is_admin || !origin.contains('/')),
        }
    };
    Ok(Json(Setting::all_of(scope).map(view).collect()))
}

/// Whether values of this kind may be or contain paths of the machine. Only admins see those values, and origins that are files.
const fn may_name_paths(kind: &Kind) -> bool {
    matches!(kind, Kind::Text { .. } | Kind::File | Kind::List { .. })
}

fn choices(kind: &Kind) -> Vec<String> {
    match kind {
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
        Kind::Choice(choices) => choices.iter().map(|choice| (*choice).to_owned()).collect(),
        _ => Vec::new(),
    }
}
