//! Owns the routes of schedules.
//! Submits nothing: `jobs` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::rest::{NewJob, NewSchedule, ReasonView, ScheduleView, Timestamp};
use godwit_jobs::{Jobs, Seen, time_zone_trouble};
use godwit_state::{Change, Op, Schedule};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Caller, Operator, Viewer};
use crate::extract::{Body, Path};
use crate::problem::ApiError;

/// Schedules of one owner: the state has room for those of twenty such owners.
const OF_OWNER_MAX: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(schedules))
        .routes(routes!(put_schedule, remove_schedule))
}

/// Lists the schedules.
#[utoipa::path(get, path = "/schedules", tag = "schedules", responses((status = 200, body = Vec<ScheduleView>), Problems))]
async fn schedules(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<ScheduleView>>, ApiError> {
    app.run(move |app| {
        let seen = app.seen(&caller)?;
        let schedules = app.reader().objects::<Schedule>()?;
        let views = schedules.into_iter();
        Ok(views
            .map(|one| schedule_view(&app.jobs, &seen, one))
            .collect())
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
    Body(mut new): Body<NewSchedule>,
) -> Result<Json<ScheduleView>, ApiError> {
    if new.time_zone.is_empty() {
        "UTC".clone_into(&mut new.time_zone);
    }
    app.run(move |app| {
        let _turn = app.jobs.turn("schedules", &caller.name);
        let earlier = of_caller(app, &caller, &id)?;
        let owner = match &earlier {
            Some(earlier) => &earlier.owner,
            None => {
                check_room(app, &caller.name)?;
                &caller.name
            }
        };
        app.jobs
            .check_schedule(&new.cron, &new.time_zone, &new.job, owner, caller.role)?;
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
            reason: None,
            comment: new.comment,
        };
        app.propose(caller.actor(), Op::Schedule(Change::Put(schedule)))?;
        let made = app.reader().object::<Schedule>(&id)?;
        let seen = app.seen(&caller)?;
        made.map(|made| schedule_view(&app.jobs, &seen, made))
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

/// Whether the owner may have one more schedule.
fn check_room(app: &App, owner: &str) -> Result<(), ApiError> {
    let schedules = app.reader().objects::<Schedule>()?;
    let own = schedules.iter().filter(|schedule| schedule.owner == owner);
    if own.count() < OF_OWNER_MAX {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::CONFLICT,
        "too_many",
        format!("{owner} has {OF_OWNER_MAX} schedules; remove some first"),
    ))
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

fn schedule_view(jobs: &Jobs, seen: &Seen, schedule: Schedule) -> ScheduleView {
    let next = jobs.next_tick(&schedule).filter(|_| !schedule.disabled);
    let unknown_zone = time_zone_trouble(&schedule.time_zone).map(|trouble| ReasonView {
        code: "unknown_time_zone".to_owned(),
        text: format!("The schedule submits nothing, for its time zone {trouble}."),
    });
    let job: Option<NewJob> = serde_json::from_str(&schedule.template).ok();
    let reason = schedule.reason.map(|reason| {
        let reason = ReasonView {
            code: reason.code,
            text: reason.text,
        };
        seen.reason(&schedule.owner, job.as_ref(), reason)
    });
    ScheduleView {
        next: next.map(|time| Timestamp(time.0)),
        job: job.map(|job| seen.template(&schedule.owner, job)),
        id: schedule.id,
        owner: schedule.owner,
        cron: schedule.cron,
        time_zone: schedule.time_zone,
        disabled: schedule.disabled,
        comment: schedule.comment,
        fired: schedule.fired.map(|time| Timestamp(time.0)),
        reason: unknown_zone.or(reason),
    }
}
