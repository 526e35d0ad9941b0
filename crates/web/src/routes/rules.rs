//! Owns the routes of limits and shares.
//! Enforces neither: `jobs` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::rest::{
    LimitScopeName, LimitView, NewLimit, NewShare, NewWindow, ShareView, WindowView,
};
use godwit_jobs::{check_time_zone, time_zone_trouble};
use godwit_state::{Change, Limit, LimitScope, LimitWindow, Object as _, Op, Share};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Admin, Viewer};
use crate::extract::{Body, Path};
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(limits))
        .routes(routes!(put_limit, remove_limit))
        .routes(routes!(shares))
        .routes(routes!(put_share, remove_share))
}

/// Lists the limits.
#[utoipa::path(get, path = "/limits", tag = "rules", responses((status = 200, body = Vec<LimitView>), Problems))]
async fn limits(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<LimitView>>, ApiError> {
    let limits = app.run(|app| Ok(app.reader().objects::<Limit>()?)).await?;
    Ok(Json(limits.into_iter().map(limit_view).collect()))
}

/// Adds or replaces a limit. Running jobs obey at once.
#[utoipa::path(put, path = "/limits/{scope}/{name}", tag = "rules", params(("scope" = LimitScopeName, Path), ("name" = String, Path)), request_body = NewLimit, responses((status = 200, body = LimitView), Problems))]
async fn put_limit(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path((scope, name)): Path<(String, String)>,
    Body(new): Body<NewLimit>,
) -> Result<Json<LimitView>, ApiError> {
    check_time_zone(&new.time_zone)?;
    let limit = Limit {
        scope: scope_of(&scope)?,
        name,
        rate: new.rate,
        jobs_max: new.jobs_max,
        windows: new.windows.into_iter().map(window).collect(),
        time_zone: new.time_zone,
    };
    app.run(move |app| {
        app.propose(caller.actor(), Op::Limit(Change::Put(limit.clone())))?;
        Ok(limit_view(limit))
    })
    .await
    .map(Json)
}

/// Removes a limit.
#[utoipa::path(delete, path = "/limits/{scope}/{name}", tag = "rules", params(("scope" = LimitScopeName, Path), ("name" = String, Path)), responses((status = 204), Problems))]
async fn remove_limit(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path((scope, name)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let limit = Limit {
        scope: scope_of(&scope)?,
        name,
        rate: None,
        jobs_max: None,
        windows: Vec::new(),
        time_zone: String::new(),
    };
    app.run(move |app| app.propose(caller.actor(), Op::Limit(Change::Remove(limit.id()))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the shares.
#[utoipa::path(get, path = "/shares", tag = "rules", responses((status = 200, body = Vec<ShareView>), Problems))]
async fn shares(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<ShareView>>, ApiError> {
    let shares = app.run(|app| Ok(app.reader().objects::<Share>()?)).await?;
    let views = shares.into_iter().map(|share| ShareView {
        owner: share.owner,
        weight: share.weight,
    });
    Ok(Json(views.collect()))
}

/// Adds or replaces an owner's share.
#[utoipa::path(put, path = "/shares/{owner}", tag = "rules", params(("owner" = String, Path)), request_body = NewShare, responses((status = 200, body = ShareView), Problems))]
async fn put_share(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(owner): Path<String>,
    Body(new): Body<NewShare>,
) -> Result<Json<ShareView>, ApiError> {
    let weight = new.weight;
    app.run(move |app| {
        let share = Share {
            owner: owner.clone(),
            weight,
        };
        app.propose(caller.actor(), Op::Share(Change::Put(share)))?;
        Ok(ShareView { owner, weight })
    })
    .await
    .map(Json)
}

/// Removes an owner's share. The owner then has the weight 1.
#[utoipa::path(delete, path = "/shares/{owner}", tag = "rules", params(("owner" = String, Path)), responses((status = 204), Problems))]
async fn remove_share(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(owner): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| app.propose(caller.actor(), Op::Share(Change::Remove(owner))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn scope_of(name: &str) -> Result<LimitScope, ApiError> {
    let known = LimitScopeName::ALL;
    let scope = known.into_iter().find(|scope| scope.word() == name);
    Ok(match scope {
        Some(LimitScopeName::Node) => LimitScope::Node,
        Some(LimitScopeName::Owner) => LimitScope::Owner,
        Some(LimitScopeName::Site) => LimitScope::Site,
        Some(LimitScopeName::JobDefault) => LimitScope::JobDefault,
        None => {
            return Err(ApiError::invalid(format!(
                "scope: {name:?} is not possible; limits exist for {}",
                known.map(LimitScopeName::word).join(", ")
            )));
        }
    })
}

fn window(window: NewWindow) -> LimitWindow {
    LimitWindow {
        days: window.days,
        from: window.from,
        to: window.to,
        rate: window.rate,
    }
}

fn limit_view(limit: Limit) -> LimitView {
    let windows = limit.windows.into_iter().map(|window| WindowView {
        days: window.days,
        from: window.from,
        to: window.to,
        rate: window.rate,
    });
    LimitView {
        scope: match limit.scope {
            LimitScope::Node => LimitScopeName::Node,
            LimitScope::Owner => LimitScopeName::Owner,
            LimitScope::Site => LimitScopeName::Site,
            LimitScope::JobDefault => LimitScopeName::JobDefault,
        },
        name: limit.name,
        rate: limit.rate,
        jobs_max: limit.jobs_max,
        windows: windows.collect(),
        trouble: time_zone_trouble(&limit.time_zone)
            .map(|trouble| format!("its times are read as UTC, for its time zone {trouble}")),
        time_zone: limit.time_zone,
    }
}
