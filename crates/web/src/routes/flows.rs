//! Owns the routes of flows.
//! Starts no run: `jobs` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use godwit_api::failure::FailureCode;
use godwit_api::rest::{FlowView, NewFlow, NewJob, Place};
use godwit_jobs::Seen;
use godwit_state::{Change, FLOW_SECONDS, Flow, Hop, Op};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Caller, Operator, Viewer};
use crate::extract::{Body, Path};
use crate::long_answer::until_gone;
use crate::problem::ApiError;

/// Flows of one owner: the state has room for those of ten such owners.
const OF_OWNER_MAX: usize = 20;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(flows))
        .routes(routes!(put_flow, remove_flow))
}

/// Lists the flows, with what their hops are like now.
#[utoipa::path(get, path = "/flows", tag = "flows", responses((status = 200, body = Vec<FlowView>), Problems))]
async fn flows(Viewer(caller): Viewer, State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    // The jobs of all flows take some megabytes.
    let turn = app.long_answers.turn().await?;
    let flows: Vec<FlowView> = app
        .run(move |app| {
            let seen = app.seen(&caller)?;
            let flows = app.reader().objects::<Flow>()?.into_iter();
            flows.map(|flow| view(app, &seen, flow)).collect()
        })
        .await?;
    Ok(until_gone(Json(flows).into_response(), turn))
}

/// Adds or replaces a flow. The caller owns a new one and its jobs. The places of existing hops stay.
#[utoipa::path(put, path = "/flows/{id}", tag = "flows", params(("id" = String, Path)), request_body = NewFlow, responses((status = 200, body = FlowView), Problems))]
async fn put_flow(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(new): Body<NewFlow>,
) -> Result<Json<FlowView>, ApiError> {
    app.run(move |app| {
        let _turn = app.jobs.turn("flows", &caller.name);
        let earlier = of_caller(app, &caller, &id)?;
        let flow = flow_of(app, &caller, &id, new, earlier)?;
        app.propose(caller.actor(), Op::Flow(Change::Put(flow)))?;
        let made = app.reader().object::<Flow>(&id)?;
        let seen = app.seen(&caller)?;
        view(app, &seen, made.ok_or_else(|| no_flow(&id))?)
    })
    .await
    .map(Json)
}

/// Removes a flow. Its jobs stay, and those that run go on.
#[utoipa::path(delete, path = "/flows/{id}", tag = "flows", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn remove_flow(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| {
        of_caller(app, &caller, &id)?.ok_or_else(|| no_flow(&id))?;
        app.propose(caller.actor(), Op::Flow(Change::Remove(id)))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The flow as the state takes it, if the caller may have it.
fn flow_of(
    app: &App,
    caller: &Caller,
    id: &str,
    new: NewFlow,
    earlier: Option<Flow>,
) -> Result<Flow, ApiError> {
    if !FLOW_SECONDS.contains(&new.every_seconds) {
        let (least, most) = (*FLOW_SECONDS.start(), *FLOW_SECONDS.end());
        let detail = format!("every_seconds: must be {least} to {most}");
        return Err(ApiError::invalid(detail));
    }
    let owner = match &earlier {
        Some(earlier) => earlier.owner.clone(),
        None => {
            check_count(app, &caller.name)?;
            caller.name.clone()
        }
    };
    let before: Vec<String> = earlier.as_ref().map_or_else(Vec::new, templates);
    // A flow that its owner may no longer have can still be paused.
    let templates = match written(&new.hops)? {
        same if new.paused && same == before => same,
        _ => {
            let hops = app.jobs.flows().check(&new.hops, &owner, caller.role)?;
            check_places(&before, &hops)?;
            written(&hops)?
        }
    };
    // Another admin that pauses or resumes a flow does not widen the rights of its jobs.
    let kept = earlier
        .filter(|_| templates == before)
        .and_then(|earlier| earlier.role);
    let hop = |template: String| Hop {
        template,
        ..Hop::default()
    };
    Ok(Flow {
        id: id.to_owned(),
        owner,
        role: Some(kept.map_or(caller.role, |kept| kept.min(caller.role))),
        hops: templates.into_iter().map(hop).collect(),
        every: new.every_seconds,
        paused: new.paused,
        comment: new.comment,
        created: None,
    })
}

fn templates(flow: &Flow) -> Vec<String> {
    let hops = flow.hops.iter();
    hops.map(|hop| hop.template.clone()).collect()
}

/// The jobs as the state keeps them.
fn written(hops: &[NewJob]) -> Result<Vec<String>, ApiError> {
    let written = hops.iter().map(serde_json::to_string);
    let written: Result<_, serde_json::Error> = written.collect();
    written.map_err(|error| ApiError::invalid(format!("hops: {error}")))
}

/// Checks that existing hops keep their places: a hop knows what it has moved, and whether its job still runs.
fn check_places(before: &[String], hops: &[NewJob]) -> Result<(), ApiError> {
    let places = |job: &NewJob| -> Option<(Place, Place)> {
        let source = job.sources.first()?.parse().ok()?;
        Some((source, job.destination.parse().ok()?))
    };
    for (number, (before, job)) in (1..).zip(before.iter().zip(hops)) {
        let before: Option<NewJob> = serde_json::from_str(before).ok();
        let before = before.as_ref().and_then(places);
        if before.is_some() && before != places(job) {
            return Err(ApiError::invalid(format!(
                "hops: hop {number} has other places; remove the flow and add another one"
            )));
        }
    }
    Ok(())
}

/// Checks that the owner may have one more flow.
fn check_count(app: &App, owner: &str) -> Result<(), ApiError> {
    let flows = app.reader().objects::<Flow>()?;
    let own = flows.iter().filter(|flow| flow.owner == owner);
    if own.count() < OF_OWNER_MAX {
        return Ok(());
    }
    let detail = format!("{owner} has {OF_OWNER_MAX} flows; remove some first");
    Err(ApiError::new(
        StatusCode::CONFLICT,
        FailureCode::TooMany,
        detail,
    ))
}

/// The flow of that id, if the caller may change it.
fn of_caller(app: &App, caller: &Caller, id: &str) -> Result<Option<Flow>, ApiError> {
    let found = app.reader().object::<Flow>(id)?;
    if let Some(flow) = &found
        && !caller.owns(&flow.owner)
    {
        app.refused(caller.actor(), "flow", id, FailureCode::NotYourFlow);
        return Err(ApiError::forbidden(
            FailureCode::NotYourFlow,
            format!("flow {id:?} belongs to {}", flow.owner),
        )
        .written());
    }
    Ok(found)
}

fn no_flow(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no flow {id:?}"))
}

/// The flow as the caller sees it.
fn view(app: &App, seen: &Seen, flow: Flow) -> Result<FlowView, ApiError> {
    let hops = app.jobs.flows().hops(&flow)?;
    let who = (flow.owner.as_str(), flow.role);
    let hops = hops.into_iter().zip(&flow.hops);
    let hops = hops.map(|(hop, stored)| seen.hop(who, &stored.template, hop));
    Ok(FlowView {
        hops: hops.collect(),
        id: flow.id,
        owner: flow.owner,
        every_seconds: flow.every,
        paused: flow.paused,
        comment: flow.comment,
        created: flow.created,
    })
}
