//! Owns the routes of access rules. Rules in the state can be changed; rules in the file `grants` are only shown.
//! Enforces none: the data port and the submission of jobs do.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::failure::FailureCode;
use godwit_api::grant::{Area, Grant};
use godwit_api::rest::{AccessView, NewAccess};
use godwit_jobs::{grant_of, now, rule_of};
use godwit_state::{AccessRule, Change, Op, Site};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::Admin;
use crate::extract::{Body, Path};
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, put, remove))
}

/// Lists the access rules: those of the file in the node's home, then those of the state.
#[utoipa::path(get, path = "/access", tag = "access", responses((status = 200, body = Vec<AccessView>), Problems))]
async fn list(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<AccessView>>, ApiError> {
    app.run(|app| {
        let now = now();
        let file = app.jobs.access().file_grants()?;
        let mut views: Vec<AccessView> = file
            .iter()
            .map(|grant| AccessView::of(grant, None, now))
            .collect();
        let rules = app.reader().objects::<AccessRule>()?;
        views.extend(rules.iter().filter_map(view));
        Ok(views)
    })
    .await
    .map(Json)
}

/// Shows a rule of the state.
#[utoipa::path(get, path = "/access/{id}", tag = "access", params(("id" = String, Path)), responses((status = 200, body = AccessView), Problems))]
async fn show(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<AccessView>, ApiError> {
    app.run(move |app| find(app, &id)).await.map(Json)
}

/// Adds or replaces a rule of the state. The rule takes effect at once.
#[utoipa::path(put, path = "/access/{id}", tag = "access", params(("id" = String, Path)), request_body = NewAccess, responses((status = 200, body = AccessView), Problems))]
async fn put(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(new): Body<NewAccess>,
) -> Result<Json<AccessView>, ApiError> {
    let grant = new
        .grant()
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    if !grant.holds(now()) {
        return Err(ApiError::invalid("expires: the time is in the past"));
    }
    app.run(move |app| {
        let site = match &grant.site {
            Some(name) => Some(find_site(app, name)?),
            None => {
                check_export(app, &grant)?;
                None
            }
        };
        let earlier = app.reader().object::<AccessRule>(&id)?;
        check_same_site(earlier.as_ref(), &grant)?;
        if let Some(job) = earlier.and_then(|rule| rule.job) {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                FailureCode::RuleOfAJob,
                format!(
                    "the rule {id} belongs to the job {job} and ends with it; choose another id"
                ),
            ));
        }
        let rule = rule_of(&id, &grant, site.as_ref())
            .ok_or_else(|| ApiError::internal("the rule names a different site"))?;
        app.propose(caller.actor(), Op::Access(Change::Put(rule)))?;
        find(app, &id)
    })
    .await
    .map(Json)
}

/// Removes a rule of the state. Transfers that it alone allowed end.
#[utoipa::path(delete, path = "/access/{id}", tag = "access", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn remove(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| app.propose(caller.actor(), Op::Access(Change::Remove(id))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn find(app: &App, id: &str) -> Result<AccessView, ApiError> {
    let rule = app.reader().object::<AccessRule>(id)?;
    rule.as_ref().and_then(view).ok_or_else(|| {
        ApiError::not_found(format!(
            "this node has no access rule {id:?}; list the rules with: godwit access list"
        ))
    })
}

fn view(rule: &AccessRule) -> Option<AccessView> {
    let grant = grant_of(rule)?;
    Some(AccessView::of(&grant, Some(rule.id.clone()), now()))
}

fn find_site(app: &App, name: &str) -> Result<Site, ApiError> {
    app.reader().object::<Site>(name)?.ok_or_else(|| {
        ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            FailureCode::UnknownSite,
            format!("this node knows no site {name:?}; list the sites with: godwit site list"),
        )
    })
}

/// Refuses to turn a rule for one site into one for another site, or for this node. A client may not know of sites.
fn check_same_site(earlier: Option<&AccessRule>, grant: &Grant) -> Result<(), ApiError> {
    let Some(rule) = earlier else {
        return Ok(());
    };
    let site = rule.site.as_ref().map(|site| &site.name);
    if site == grant.site.as_ref() {
        return Ok(());
    }
    let place = site.map_or_else(|| "this node".to_owned(), |site| format!("the site {site}"));
    Err(ApiError::new(
        StatusCode::CONFLICT,
        FailureCode::RuleOfAnotherSite,
        format!(
            "the rule {} already exists for {place}; choose another id, or remove the rule first",
            rule.id
        ),
    ))
}

fn check_export(app: &App, grant: &Grant) -> Result<(), ApiError> {
    let Area::Export { name, .. } = &grant.area else {
        return Ok(());
    };
    let exports = app.jobs.exports();
    if exports.contains(name) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        FailureCode::NoSuchExport,
        format!(
            "this node has no export {name:?}; it has: {}",
            exports.join(", ")
        ),
    ))
}
