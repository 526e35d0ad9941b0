//! Owns the routes of schedules.
//! Submits nothing: `jobs` does.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::body::Body as Content;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{NewSchedule, Reason, ScheduleView};
use godwit_jobs::{Jobs, Seen, time_zone_trouble};
use godwit_state::{ById, Change, Op, PAGE_BYTES, Schedule};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Caller, Operator, Viewer};
use crate::extract::{Body, Path};
use crate::long_answer::until_gone;
use crate::problem::ApiError;
use crate::turns;

/// Schedules of one owner: the state has room for those of twenty such owners.
const OF_OWNER_MAX: usize = 500;

/// Bytes of the descriptions and comments of one owner. The scheduler reads all schedules at once.
const OF_OWNER_BYTES_MAX: usize = PAGE_BYTES;

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
) -> Result<Response, ApiError> {
    let turn = app.long_answers.turn().await?;
    let caller = Arc::new(caller);
    let of = Arc::clone(&caller);
    let first = app.run(move |app| {
        let (mut text, mut next) = chunk(app, &of, None)?;
        if let Some(after) = next {
            let (rest, behind) = chunk(app, &of, Some(&after))?;
            text.extend(rest);
            next = behind;
        }
        Ok((text, next))
    });
    let first = first.await?;
    let json = [(CONTENT_TYPE, "application/json")];
    // A list of one page has a length.
    if first.1.is_none() {
        return Ok(until_gone((json, first.0).into_response(), turn));
    }
    let holder = turns::holder();
    let pieces = stream::try_unfold(Some((Some(first), None)), move |state| {
        let (app, caller, holder) = (Arc::clone(&app), Arc::clone(&caller), holder.clone());
        async move {
            let Some((first, after)) = state else {
                return Ok::<_, io::Error>(None);
            };
            let (text, next) = match first {
                Some(first) => first,
                None => {
                    let read = move |app: &App| chunk(app, &caller, after.as_deref());
                    let read = app.run_for(holder, read).await;
                    read.map_err(|_error| io::Error::other("the schedules cannot be read"))?
                }
            };
            Ok(Some((text, next.map(|next| (None, Some(next))))))
        }
    });
    let answer = (json, Content::from_stream(pieces)).into_response();
    Ok(until_gone(answer, turn))
}

/// The next part of the list of schedules, after an id; and the last id of that part. Blocks.
fn chunk(
    app: &App,
    caller: &Caller,
    after: Option<&str>,
) -> Result<(Vec<u8>, Option<String>), ApiError> {
    // Checked for each part: a client that reads slowly may have lost the right meanwhile.
    let seen = app.seen(&caller.again(app)?)?;
    let reader = app.reader();
    let schedules: Vec<Schedule> = ById(&reader).after(after.unwrap_or_default(), PAGE_BYTES)?;
    let next = schedules.last().map(|last| last.id.clone());
    let mut text = if after.is_none() { vec![b'['] } else { vec![] };
    for (number, schedule) in schedules.into_iter().enumerate() {
        if after.is_some() || number > 0 {
            text.push(b',');
        }
        let view = schedule_view(&app.jobs, &seen, schedule);
        serde_json::to_writer(&mut text, &view)
            .map_err(|error| ApiError::internal(error.to_string()))?;
    }
    if next.is_none() {
        text.push(b']');
    }
    Ok((text, next))
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
                check_count(app, &caller.name)?;
                &caller.name
            }
        };
        let template = serde_json::to_string(&new.job)
            .map_err(|error| ApiError::invalid(format!("job: {error}")))?;
        let is_as_before = |before: &Schedule| {
            (&before.cron, &before.time_zone, &before.template)
                == (&new.cron, &new.time_zone, &template)
        };
        // The owner can still disable a schedule that would not be allowed now.
        if !(new.disabled && earlier.as_ref().is_some_and(is_as_before)) {
            app.jobs
                .schedules()
                .check(&new.cron, &new.time_zone, &new.job, owner, caller.role)?;
        }
        check_room(app, owner, &id, template.len() + new.comment.len())?;
        let earlier_role = earlier.as_ref().filter(|one| is_as_before(one));
        let role = (app.jobs.schedules()).kept_role(caller.role, earlier_role)?;
        let schedule = Schedule {
            id: id.clone(),
            cron: new.cron,
            time_zone: new.time_zone,
            owner: earlier.map_or_else(|| caller.name.clone(), |earlier| earlier.owner),
            role,
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

/// Removes a schedule. Jobs that it submitted stay.
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

/// Checks that the owner may have one more schedule.
fn check_count(app: &App, owner: &str) -> Result<(), ApiError> {
    if sizes(app, owner)?.len() < OF_OWNER_MAX {
        return Ok(());
    }
    let detail = format!("{owner} has {OF_OWNER_MAX} schedules; remove some first");
    Err(ApiError::new(
        StatusCode::CONFLICT,
        FailureCode::TooMany,
        detail,
    ))
}

/// Checks that this schedule of the owner may have this many bytes. An existing schedule may always shrink.
fn check_room(app: &App, owner: &str, id: &str, bytes: usize) -> Result<(), ApiError> {
    let (mut before, mut others) = (0, 0);
    for (one, size) in sizes(app, owner)? {
        let sum = if one == id { &mut before } else { &mut others };
        *sum += size;
    }
    if bytes <= before || others + bytes <= OF_OWNER_BYTES_MAX {
        return Ok(());
    }
    let most = OF_OWNER_BYTES_MAX >> 20;
    let detail = format!(
        "the schedules of {owner} would have more than {most} MiB of descriptions and comments; shorten or remove some first"
    );
    Err(ApiError::new(
        StatusCode::CONFLICT,
        FailureCode::TooMany,
        detail,
    ))
}

/// The schedules of an owner, each with the bytes of its description and comment. Reads a page at a time.
fn sizes(app: &App, owner: &str) -> Result<Vec<(String, usize)>, ApiError> {
    let (reader, mut after, mut sizes) = (app.reader(), String::new(), Vec::new());
    loop {
        let page: Vec<Schedule> = ById(&reader).after(&after, PAGE_BYTES)?;
        let Some(last) = page.last() else {
            return Ok(sizes);
        };
        after.clone_from(&last.id);
        let own = page.into_iter().filter(|one| one.owner == owner);
        sizes.extend(own.map(|one| (one.id, one.template.len() + one.comment.len())));
    }
}

/// The schedule of that id, if the caller may change it.
fn of_caller(app: &App, caller: &Caller, id: &str) -> Result<Option<Schedule>, ApiError> {
    let found = app.reader().object::<Schedule>(id)?;
    if let Some(schedule) = &found
        && !caller.owns(&schedule.owner)
    {
        app.refused(caller.actor(), "schedule", id, FailureCode::NotYourSchedule);
        return Err(ApiError::forbidden(
            FailureCode::NotYourSchedule,
            format!("schedule {id:?} belongs to {}", schedule.owner),
        )
        .written());
    }
    Ok(found)
}

fn no_schedule(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no schedule {id:?}"))
}

fn schedule_view(jobs: &Jobs, seen: &Seen, schedule: Schedule) -> ScheduleView {
    let next = jobs
        .schedules()
        .next_tick(&schedule)
        .filter(|_| !schedule.disabled);
    let unknown_zone = time_zone_trouble(&schedule.time_zone).map(|trouble| Reason {
        code: FailureCode::UnknownTimeZone.into(),
        text: format!("The schedule submits no jobs, because its time zone {trouble}."),
    });
    let who = (schedule.owner.as_str(), schedule.role);
    let (job, reason) = seen.submitted(who, &schedule.template, schedule.reason.clone());
    ScheduleView {
        next,
        job,
        id: schedule.id,
        owner: schedule.owner,
        cron: schedule.cron,
        time_zone: schedule.time_zone,
        disabled: schedule.disabled,
        comment: schedule.comment,
        fired: schedule.fired,
        reason: unknown_zone.or(reason),
    }
}
