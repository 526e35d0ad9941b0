//! Owns the routes of jobs: submission, lists, steering, and details of each job.
//! Checks only ownership; `godwit_jobs::Seen` decides what a caller sees of a job.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use godwit_api::failure::FailureCode;
use godwit_api::rest::{
    AttemptView, CancelJob, ChangeJob, FailureGroup, JobList, JobView, LogPage, NewJob, SampleView,
    Timestamp, WorkView,
};
use godwit_jobs::{Jobs, JobsError, Seen};
use godwit_state::{Actor, Cursor, DESTINATIONS_MAX, JobFilter, JobState, PAGE_BYTES, Role};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{BASE, Problems};
use crate::app::App;
use crate::caller::{Caller, Operator, Viewer};
use crate::extract::{Body, Parameters, Path, idempotency_key, limit};
use crate::long_answer::until_gone;
use crate::problem::ApiError;

/// Jobs of a page.
const PAGE_USUAL: u32 = 100;
/// Most jobs of a page: the state returns no more at once.
const PAGE_MAX: u32 = 1_000;
/// Bytes of places, labels, reasons and summaries of a page. A user may leave as many pages unread as it has requests at once.
const PAGE_OF_JOBS_BYTES: usize = PAGE_BYTES / 4;
/// Lines of a page of a log.
const LINES_MAX: u32 = 10_000;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, submit))
        .routes(routes!(show, change))
        .routes(routes!(description))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(attempts))
        .routes(routes!(failures))
        .routes(routes!(log))
        .routes(routes!(samples))
        .routes(routes!(work))
}

/// Which jobs to list; each parameter narrows the list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// States, separated by commas; the parameter may be repeated.
    #[param(value_type = Option<Vec<JobState>>, style = Form, explode = false)]
    state: Option<String>,
    /// Prefix of the id.
    id: Option<String>,
    /// Owner.
    owner: Option<String>,
    /// Site of a source or of the destination.
    site: Option<String>,
    /// Substring of the label; case-sensitive.
    label: Option<String>,
    /// Id of a job with several destinations, whose jobs are listed.
    parent: Option<String>,
    /// Submitted at this time or later.
    since: Option<Timestamp>,
    /// Submitted before this time.
    until: Option<Timestamp>,
    /// Cursor of the page: `next` of the page before.
    cursor: Option<String>,
    /// Jobs of the page; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists jobs, the newest first.
#[utoipa::path(get, path = "/jobs", tag = "jobs", params(ListQuery), responses((status = 200, body = JobList), Problems))]
async fn list(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Json<JobList>, ApiError> {
    let bad =
        |detail: String| ApiError::new(StatusCode::BAD_REQUEST, FailureCode::BadQuery, detail);
    let limit = limit(query.limit, PAGE_USUAL, PAGE_MAX)?;
    let mut states = Vec::new();
    let names = query.state.as_deref().unwrap_or_default();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let state = JobState::from_name(name).ok_or_else(|| {
            let known = JobState::ALL.map(JobState::name).join(", ");
            bad(format!(
                "state: {name:?} is no state; the states are: {known}"
            ))
        })?;
        states.push(state);
    }
    let cursor: Option<Cursor> = query
        .cursor
        .map(|text| text.parse())
        .transpose()
        .map_err(|error| bad(format!("cursor: {error}")))?;
    let filter = JobFilter {
        states,
        id_prefix: query.id,
        owner: query.owner,
        site: query.site,
        label: query.label,
        parent: query.parent,
        since: query.since,
        until: query.until,
        of_users: false,
        bytes_max: Some(PAGE_OF_JOBS_BYTES),
    };
    app.run(move |app| Ok(app.seen(&caller)?.list(&filter, cursor.as_ref(), limit)?))
        .await
        .map(Json)
}

/// Submits a job. The caller owns it. A repeated idempotency key submits once.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", request_body = NewJob,
    params(("Idempotency-Key" = Option<String>, Header, description = "A text that the caller chose for this submission.")),
    responses(
        (status = 201, description = "The job was submitted.", body = JobView),
        (status = 200, description = "The job was submitted with the same key before.", body = JobView),
        Problems,
    ),
)]
async fn submit(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(new): Body<NewJob>,
) -> Result<Response, ApiError> {
    let key = idempotency_key(&headers)?;
    let (job, created) = app
        .run(move |app| {
            let (shown, children) = (caller.standing.as_ref(), children_of(&new));
            app.changes
                .take_many(&caller.name, shown, children, Instant::now())?;
            let submitted = app.jobs.submit(caller.actor(), &caller.name, &new, key);
            let (job, created) = submitted
                .map_err(|error| noted(app, &caller, "job.submit", &new.destination, error))?;
            if created {
                (app.log)(&format!(
                    "job {}: submitted by {}",
                    job.id,
                    caller.described()
                ));
            }
            // A job of this key may be one of a larger role.
            Ok((app.seen(&caller)?.view(job), created))
        })
        .await?;
    let place = HeaderValue::from_str(&format!("{BASE}/jobs/{}", job.id));
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut response = (status, Json(job)).into_response();
    if let Ok(place) = place {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}

/// The jobs that a submission adds besides its own: one for each destination, or for each source of a gather.
fn children_of(new: &NewJob) -> u32 {
    let count = match (new.gather, new.more_destinations.len()) {
        (true, _) => new.sources.len(),
        (false, 0) => 0,
        (false, more) => more.saturating_add(1),
    };
    // More are refused.
    u32::try_from(count.min(DESTINATIONS_MAX)).unwrap_or(u32::MAX)
}

/// Runs a reading call about one job, as far as the caller sees the job.
async fn read<T: Send + 'static>(
    app: &Arc<App>,
    caller: Caller,
    id: String,
    call: impl FnOnce(&Seen, &str) -> Result<T, JobsError> + Send + 'static,
) -> Result<Json<T>, ApiError> {
    app.run(move |app| Ok(call(&app.seen(&caller)?, &id)?))
        .await
        .map(Json)
}

/// Runs a reading call about the history of a job. Other nodes may keep it, and the answer may be long.
async fn read_history<T: Serialize + Send + 'static>(
    app: &Arc<App>,
    caller: Caller,
    id: String,
    call: impl FnOnce(&Seen, &str) -> Result<T, JobsError> + Send + 'static,
) -> Result<Response, ApiError> {
    let read = app.run_at_places(move |app| Ok(call(&app.seen(&caller)?, &id)?));
    in_turn(app, async { read.await.map(Json) }).await
}

/// Makes an answer that may be long. Few long answers are in memory at a time.
async fn in_turn(
    app: &App,
    answer: impl Future<Output = Result<impl IntoResponse, ApiError>>,
) -> Result<Response, ApiError> {
    let turn = app.long_answers.turn().await?;
    Ok(until_gone(answer.await?.into_response(), turn))
}

/// Runs a change of one job, if the caller owns it.
async fn steer(
    app: &Arc<App>,
    caller: Caller,
    id: String,
    call: impl FnOnce(&Jobs, Actor, &str) -> Result<JobView, JobsError> + Send + 'static,
) -> Result<Json<JobView>, ApiError> {
    app.run(move |app| {
        let owner = app.jobs.job(&id)?.owner;
        if !caller.owns(&owner) {
            app.refused(caller.actor(), "job", &id, FailureCode::NotYourJob);
            return Err(ApiError::forbidden(
                FailureCode::NotYourJob,
                format!(
                    "job {id} belongs to {owner}; {} is {} here and can change only their own jobs",
                    caller.name,
                    Role::name(caller.role)
                ),
            )
            .written());
        }
        let called = call(&app.jobs, caller.actor(), &id);
        let job = called.map_err(|error| noted(app, &caller, "job", &id, error))?;
        Ok(app.seen(&caller)?.view(job))
    })
    .await
    .map(Json)
}

/// The error of a call. A refusal for missing rights goes into the audit log.
fn noted(app: &App, caller: &Caller, action: &str, object: &str, error: JobsError) -> ApiError {
    match &error {
        JobsError::Forbidden { code, .. } => {
            app.refused(caller.actor(), action, object, *code);
            ApiError::from(error).written()
        }
        _ => error.into(),
    }
}

/// Shows a job.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = JobView), Problems))]
async fn show(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    read(&app, caller, id, Seen::job).await
}

/// Shows the description that the job was submitted with.
#[utoipa::path(get, path = "/jobs/{id}/description", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = NewJob), Problems))]
async fn description(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<NewJob>, ApiError> {
    read(&app, caller, id, Seen::description).await
}

/// Changes limit, priority or label of a job. A running job applies them at once.
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)), request_body = ChangeJob, responses((status = 200, body = JobView), Problems))]
async fn change(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(wish): Body<ChangeJob>,
) -> Result<Json<JobView>, ApiError> {
    steer(&app, caller, id, move |jobs, actor, id| {
        jobs.change(actor, id, &wish)
    })
    .await
}

/// Pauses a job. Data that has arrived stays.
#[utoipa::path(post, path = "/jobs/{id}/pause", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = JobView), Problems))]
async fn pause(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    steer(&app, caller, id, Jobs::pause).await
}

/// Resumes a paused job.
#[utoipa::path(post, path = "/jobs/{id}/resume", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = JobView), Problems))]
async fn resume(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    steer(&app, caller, id, Jobs::resume).await
}

/// Cancels a job.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path)), request_body = Option<CancelJob>, responses((status = 200, body = JobView), Problems))]
async fn cancel(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    body: Option<Body<CancelJob>>,
) -> Result<Json<JobView>, ApiError> {
    let comment = body.and_then(|Body(cancel)| cancel.comment);
    steer(&app, caller, id, move |jobs, actor, id| {
        jobs.cancel(actor, id, comment)
    })
    .await
}

/// Runs an ended job again, or starts the next attempt of a job that waits after a failure.
#[utoipa::path(post, path = "/jobs/{id}/retry", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = JobView), Problems))]
async fn retry(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    steer(&app, caller, id, Jobs::retry).await
}

/// Lists the attempts of a job, oldest first.
#[utoipa::path(get, path = "/jobs/{id}/attempts", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = Vec<AttemptView>), Problems))]
async fn attempts(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    in_turn(&app, read(&app, caller, id, Seen::attempts)).await
}

/// Lists the failed entries of a job by reason.
#[utoipa::path(get, path = "/jobs/{id}/failures", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = Vec<FailureGroup>), Problems))]
async fn failures(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    in_turn(&app, read(&app, caller, id, Seen::failures)).await
}

/// Which lines of a log to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct LogQuery {
    /// Only lines after this number; default 0.
    after: Option<u64>,
    /// Most lines of the page; default 1000. Long lines make it shorter. The page behind the last line is empty.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
}

/// Lists lines of the job's log, the oldest first.
#[utoipa::path(get, path = "/jobs/{id}/log", tag = "jobs", params(("id" = String, Path), LogQuery), responses((status = 200, body = LogPage), Problems))]
async fn log(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Parameters(query): Parameters<LogQuery>,
) -> Result<Response, ApiError> {
    let limit = limit(query.limit, 1_000, LINES_MAX)?;
    let after = query.after.unwrap_or(0);
    read_history(&app, caller, id, move |seen, id| seen.log(id, after, limit)).await
}

/// Lists the samples of the job, the oldest first.
#[utoipa::path(get, path = "/jobs/{id}/samples", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = Vec<SampleView>), Problems))]
async fn samples(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    read_history(&app, caller, id, Seen::samples).await
}

/// Shows the work of a divided job: its controller, its senders, and the work that each node holds.
#[utoipa::path(get, path = "/jobs/{id}/work", tag = "jobs", params(("id" = String, Path)), responses((status = 200, body = WorkView), Problems))]
async fn work(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<WorkView>, ApiError> {
    read(&app, caller, id, Seen::work).await
}
