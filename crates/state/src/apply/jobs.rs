//! Owns submission of jobs and changes by users.
//! See `row` for the moves of one job, `claims` for the commands of runners, and `families` for jobs with several destinations.

mod row;

use rusqlite::{Connection, OptionalExtension as _, params};

use godwit_model::FailureCode;

use super::notices::Notices;
use super::{Context, Stop, claims, families, knows_origin, sql, work};
use crate::bounds;
use crate::model::{
    Cause, CommandError, Effect, Job, JobOp, JobState, Moved, NewJob, Reason, Timestamp, reason,
};
use crate::read::{job_by_id, job_spec};
pub(super) use row::JobRow;
use row::insert;

/// Adds a job. From: nothing. To: queued, scheduled.
pub(super) fn submit(
    context: &Context<'_>,
    new: &NewJob,
    schedule: Option<&str>,
) -> Result<Effect, Stop> {
    check_job(new, context.at)?;
    if let Some(request) = &context.actor.request {
        bounds::name("request", request)?;
    }
    if let Some(key) = &new.idempotency_key {
        let earlier: Option<String> = context
            .db
            .prepare_cached("SELECT id FROM jobs WHERE owner = ?1 AND idempotency_key = ?2")?
            .query_row(params![new.owner, key], |row| row.get(0))
            .optional()?;
        if let Some(job) = earlier {
            let same = job_spec(context.db, &job)?.as_deref() == Some(new.spec.as_str());
            return Err(CommandError::Duplicate { job, same }.into());
        }
    }
    if job_by_id(context.db, &new.id)?.is_some() {
        return Err(CommandError::Conflict {
            kind: "job".to_owned(),
            id: new.id.clone(),
        }
        .into());
    }
    check_room(context.db)?;
    let (state, why) = waits(
        new.not_before,
        context.at,
        reason::WAITING,
        "The job waits for a node.",
    );
    let job = Job {
        id: new.id.clone(),
        label: new.label.clone(),
        owner: new.owner.clone(),
        sources: new.sources.clone(),
        destination: new.destination.clone(),
        state,
        reason: Some(why),
        since: context.at,
        next_attempt: None,
        priority: new.priority,
        limit: new.limit,
        not_before: new.not_before,
        deadline: new.deadline,
        retry: new.retry,
        attempts: 0,
        retries: 0,
        epoch: 0,
        runner: None,
        idempotency_key: new.idempotency_key.clone(),
        created: context.at,
        started: None,
        ended: None,
        summary: None,
        schedule: schedule.map(ToOwned::to_owned),
        request: context.actor.request.clone(),
    };
    insert(context.db, &job, &new.spec)?;
    Notices(context).job(&job, true)?;
    Ok(effect(&job))
}

/// Refuses one more waiting job if the maximum is reached.
fn check_room(db: &Connection) -> Result<(), Stop> {
    let waiting: i64 = db
        .prepare_cached("SELECT count(*) FROM jobs WHERE state IN ('queued', 'scheduled')")?
        .query_row([], |row| row.get(0))?;
    if waiting < sql(bounds::JOBS_WAITING_MAX) {
        return Ok(());
    }
    Err(CommandError::TooMany {
        kind: "waiting job".to_owned(),
        max: bounds::JOBS_WAITING_MAX,
    }
    .into())
}

/// Refuses a job that waits again if the maximum is reached. Clusters below this level do not check.
fn check_room_again(db: &Connection) -> Result<(), Stop> {
    if knows_origin(db)? {
        check_room(db)?;
    }
    Ok(())
}

/// Changes a job, its children, or the parent that follows it.
pub(super) fn change(context: &Context<'_>, id: &str, op: &JobOp) -> Result<Effect, Stop> {
    let row = JobRow::find(context, id)?.ok_or_else(|| CommandError::not_found("job", id))?;
    if families::has_children(context, &row.job)? {
        return families::change(context, row.job, op);
    }
    let job = change_one(row, op)?;
    families::follow(context, &job)?;
    Ok(effect(&job))
}

/// Changes one job without children.
pub(super) fn change_one(mut row: JobRow<'_>, op: &JobOp) -> Result<Job, Stop> {
    let context = row.context;
    let before = row.job.state;
    let id = &row.job.id.clone();
    match op {
        JobOp::Claim { runner, seen } => row.claim(runner, *seen)?,
        JobOp::Report {
            epoch,
            state,
            reason,
        } => row.report(*epoch, *state, reason.as_ref())?,
        JobOp::Placed { epoch, into, tag } => row.placed(*epoch, *into, *tag)?,
        JobOp::Route {
            epoch,
            route,
            asker,
            at,
        } => row.route(*epoch, *route, (asker.as_deref(), at))?,
        JobOp::Backoff {
            epoch,
            reason,
            next_attempt,
            bytes,
            files,
        } => {
            let moved = Moved {
                bytes: *bytes,
                files: *files,
                bytes_again: 0,
            };
            row.backoff(*epoch, reason, *next_attempt, moved)?;
        }
        JobOp::Moved { attempt, moved } => claims::moved(context.db, id, *attempt, *moved)?,
        JobOp::Finish(finish) => row.finish(finish)?,
        JobOp::Drained => {
            // A job that runs again may bring more.
            if before.ended() {
                Notices(context).drained(&row.job)?;
            }
            return Ok(row.job);
        }
        JobOp::Explain { seen, reason } => row.explain(*seen, reason)?,
        JobOp::Expire => row.expire()?,
        JobOp::Deny { seen, reason } => row.deny(*seen, reason)?,
        JobOp::Pause => {
            let text = format!("{} paused the job.", context.actor.name);
            let why = Reason::new(reason::PAUSED, text);
            row.stop(Cause::Pause, JobState::Paused, why)?;
        }
        JobOp::Resume => {
            check_room_again(context.db)?;
            row.check_attempts()?;
            row.resume()?;
        }
        JobOp::Cancel { comment } => {
            let text = match comment {
                Some(comment) => format!("{} cancelled the job: {comment}", context.actor.name),
                None => format!("{} cancelled the job.", context.actor.name),
            };
            bounds::text("comment", &text)?;
            let why = Reason::new(reason::CANCELLED, text);
            row.stop(Cause::Cancel, JobState::Cancelled, why)?;
        }
        JobOp::Retry if row.waits_for_attempt()? => row.try_now()?,
        JobOp::Retry => {
            check_room_again(context.db)?;
            row.check_attempts()?;
            if row.job.state == JobState::Queued {
                return Err(CommandError::forbidden(id, row.job.state, Cause::Retry).into());
            }
            row.retry()?;
        }
        JobOp::Change(change) => row.set(change)?,
    }
    if row.job.state.ended() {
        work::end(context.db, id)?;
    }
    row.save()?;
    Notices(context).job(&row.job, row.job.state != before)?;
    Ok(row.job)
}

/// Ends the jobs of a removed user. From: all that have not ended. To: failed, as if the owner had lost the right.
pub(super) fn end_of(context: &Context<'_>, owner: &str) -> Result<(), Stop> {
    let ids: Vec<String> = context
        .db
        .prepare_cached("SELECT id FROM jobs WHERE owner = ?1 AND ended IS NULL ORDER BY id")?
        .query_map([owner], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let text = format!("{owner} is no longer a user of this node");
    let mut parents = families::Parents::default();
    for id in ids {
        let Some(mut row) = JobRow::find(context, &id)? else {
            continue;
        };
        if families::has_children(context, &row.job)? {
            continue;
        }
        let cause = match row.job.state.moves() {
            true => Cause::Finish,
            false => Cause::Deny,
        };
        let why = Reason::new(FailureCode::AccessDenied, clip(text.clone()));
        row.stop(cause, JobState::Failed, why)?;
        work::end(context.db, &id)?;
        row.save()?;
        Notices(context).job(&row.job, true)?;
        parents.add(context, &row.job)?;
    }
    parents.follow(context)
}

/// When a waiting job is due.
fn due(job: &Job) -> i64 {
    let times = [job.not_before, job.next_attempt];
    times.into_iter().flatten().max().map_or(0, |time| time.0)
}

/// The state and reason of a job that waits, at the time `at`.
fn waits(
    not_before: Option<Timestamp>,
    at: Timestamp,
    code: FailureCode,
    text: &str,
) -> (JobState, Reason) {
    match not_before {
        Some(time) if time > at => {
            let text = format!("The job begins at {} or later.", time.utc());
            (JobState::Scheduled, Reason::new(reason::NOT_BEFORE, text))
        }
        _ => (JobState::Queued, Reason::new(code, text)),
    }
}

/// Cuts a composed sentence to the maximum length of a text.
pub(super) fn clip(mut text: String) -> String {
    const SENTENCE_BYTES_MAX: usize = 2_048;
    if text.len() > SENTENCE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SENTENCE_BYTES_MAX));
        text.push('…');
    }
    text
}

pub(super) fn check_reason(why: &Reason) -> Result<(), CommandError> {
    bounds::name("reason.code", why.code.as_str())?;
    bounds::text("reason.text", &why.text)
}

pub(super) fn effect(job: &Job) -> Effect {
    Effect::Job {
        id: job.id.clone(),
        state: job.state,
        epoch: job.epoch,
    }
}

fn check_limit(limit: Option<u64>) -> Result<(), CommandError> {
    if limit == Some(0) {
        let what = "must be at least 1; pause the job to stop it";
        return Err(CommandError::invalid("limit", what));
    }
    Ok(())
}

/// Whether the facts of a job permit its submission at this time.
///
/// # Errors
/// Names the field at fault.
pub fn check_job(new: &NewJob, at: Timestamp) -> Result<(), CommandError> {
    bounds::name("id", &new.id)?;
    bounds::name("owner", &new.owner)?;
    bounds::text("label", &new.label)?;
    bounds::spec("spec", &new.spec)?;
    bounds::count("sources", new.sources.len(), bounds::SOURCES_MAX)?;
    if new.sources.is_empty() {
        return Err(CommandError::invalid("sources", "a job has a source"));
    }
    for place in new.sources.iter().chain([&new.destination]) {
        bounds::name("site", &place.site)?;
        bounds::text("path", &place.path)?;
    }
    if let Some(key) = &new.idempotency_key {
        bounds::name("idempotency_key", key)?;
    }
    check_limit(new.limit)?;
    if new.deadline.is_some_and(|deadline| deadline <= at) {
        return Err(CommandError::invalid("deadline", "has passed already"));
    }
    new.retry.check()
}
