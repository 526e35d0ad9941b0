//! Owns the routes of schedules and webhooks.
//! Submits and sends nothing: `jobs` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use godwit_api::rest::{NewSchedule, NewWebhook, ScheduleView, Timestamp, WebhookView};
use godwit_jobs::Jobs;
use godwit_state::{Change, JobState, Op, Schedule, Secret, Webhook};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Admin, Caller, Operator, Viewer};
use crate::extract::Body;
use crate::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(schedules))
        .routes(routes!(put_schedule, remove_schedule))
        .routes(routes!(webhooks))
        .routes(routes!(put_webhook, remove_webhook))
}

/// Lists the schedules.
#[utoipa::path(get, path = "/schedules", tag = "schedules", responses((status = 200, body = Vec<ScheduleView>), Problems))]
async fn schedules(
    Viewer(_caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<ScheduleView>>, ApiError> {
    app.run(|app| {
        let schedules = app.reader().objects::<Schedule>()?;
        let views = schedules.into_iter();
        Ok(views.map(|one| schedule_view(&app.jobs, one)).collect())
    })
    .await
    .map(Json)
}

/// Adds or replaces a schedule. The caller owns a new one and its jobs.
#[utoipa::path(put, path = "/schedules/{id}", tag = "schedules", params(("id" = String, Path)), request_body = NewSchedule, responses((status = 200, body = ScheduleView), Problems))]
async fn put_schedule(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(new): Body<NewSchedule>,
) -> Result<Json<ScheduleView>, ApiError> {
    app.run(move |app| {
        app.jobs
            .check_schedule(&new.cron, &new.time_zone, &new.job)?;
        let earlier = of_caller(app, &caller, &id)?;
        let template = serde_json::to_string(&new.job)
            .map_err(|error| ApiError::invalid(format!("job: {error}")))?;
        let schedule = Schedule {
            id: id.clone(),
            cron: new.cron,
            time_zone: new.time_zone,
            owner: earlier.map_or_else(|| caller.name.clone(), |earlier| earlier.owner),
            template,
            disabled: new.disabled,
            fired: None,
            comment: new.comment,
        };
        app.propose(caller.actor(), Op::Schedule(Change::Put(schedule)))?;
        let made = app.reader().object::<Schedule>(&id)?;
        made.map(|made| schedule_view(&app.jobs, made))
            .ok_or_else(|| no_schedule(&id))
    })
    .await
    .map(Json)
}

/// Removes a schedule; jobs that it submitted stay.
#[utoipa::path(delete, path = "/schedules/{id}", tag = "schedules", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn remove_schedule(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| {
        of_caller(app, &caller, &id)?.ok_or_else(|| no_schedule(&id))?;
        app.propose(caller.actor(), Op::Schedule(Change::Remove(id)))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The schedule of that id, if the caller may change it.
fn of_caller(app: &App, caller: &Caller, id: &str) -> Result<Option<Schedule>, ApiError> {
    let found = app.reader().object::<Schedule>(id)?;
    if let Some(schedule) = &found
        && !caller.owns(&schedule.owner)
    {
        app.refused(caller.actor(), "schedule", id, "not_your_schedule");
        return Err(ApiError::forbidden(
            "not_your_schedule",
            format!("schedule {id:?} belongs to {}", schedule.owner),
        ));
    }
    Ok(found)
}

fn no_schedule(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no schedule {id:?}"))
}

fn schedule_view(jobs: &Jobs, schedule: Schedule) -> ScheduleView {
    let next = jobs.next_tick(&schedule).filter(|_| !schedule.disabled);
    ScheduleView {
        next: next.map(|time| Timestamp(time.0)),
        job: serde_json::from_str(&schedule.template).ok(),
        id: schedule.id,
        owner: schedule.owner,
        cron: schedule.cron,
        time_zone: schedule.time_zone,
        disabled: schedule.disabled,
        comment: schedule.comment,
        fired: schedule.fired.map(|time| Timestamp(time.0)),
    }
}

/// Lists the webhooks, without their keys.
#[utoipa::path(get, path = "/webhooks", tag = "webhooks", responses((status = 200, body = Vec<WebhookView>), Problems))]
async fn webhooks(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<WebhookView>>, ApiError> {
    let webhooks = app
        .run(|app| Ok(app.reader().objects::<Webhook>()?))
        .await?;
    Ok(Json(webhooks.into_iter().map(webhook_view).collect()))
}

/// Adds or replaces a webhook. The node does not deliver anything to it yet.
#[utoipa::path(put, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)), request_body = NewWebhook, responses((status = 200, body = WebhookView), Problems))]
async fn put_webhook(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(new): Body<NewWebhook>,
) -> Result<Json<WebhookView>, ApiError> {
    if !(new.url.starts_with("https://") || new.url.starts_with("http://")) {
        return Err(ApiError::invalid("url: begins with https:// or http://"));
    }
    if let Some(wrong) = new
        .events
        .iter()
        .find(|name| JobState::from_name(name).is_none())
    {
        let known = JobState::ALL.map(JobState::name).join(", ");
        return Err(ApiError::invalid(format!(
            "events: {wrong:?} is no state; the states are: {known}"
        )));
    }
    app.run(move |app| {
        let earlier = app.reader().object::<Webhook>(&id)?;
        let secret = new.secret.map(Secret::new);
        let secret = secret.or_else(|| earlier.map(|earlier| earlier.secret));
        let webhook = Webhook {
            id,
            url: new.url,
            events: new.events,
            owner: new.owner,
            secret: secret.ok_or_else(|| {
                ApiError::invalid("secret: a new webhook needs a key for its signatures")
            })?,
            disabled: new.disabled,
        };
        app.propose(caller.actor(), Op::Webhook(Change::Put(webhook.clone())))?;
        Ok(webhook_view(webhook))
    })
    .await
    .map(Json)
}

/// Removes a webhook.
#[utoipa::path(delete, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn remove_webhook(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| app.propose(caller.actor(), Op::Webhook(Change::Remove(id))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn webhook_view(webhook: Webhook) -> WebhookView {
    WebhookView {
        id: webhook.id,
        url: webhook.url,
        events: webhook.events,
        owner: webhook.owner,
        disabled: webhook.disabled,
    }
}
