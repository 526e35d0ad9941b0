//! Owns submission of jobs and changes by users.
//! See `claims` for the commands of runners.

use rusqlite::{Connection, OptionalExtension as _, params};

use godwit_model::FailureCode;

use super::{Context, Stop, claims, knows_origin, notices, sql, work};
use crate::bounds::{self, ATTEMPTS_MAX};
use crate::model::{
    Cause, CommandError, Effect, Job, JobChange, JobOp, JobState, LEVEL_ATTEMPTS, LEVEL_TRY_NOW,
    Moved, NewJob, Reason, Timestamp, allowed, reason,
};
use crate::read::{committed_level, job_by_id, job_spec};

/// Adds a job. From: nothing. To: queued, scheduled.
pub(super) fn submit(
    context: &Context<'_>,
    new: &NewJob,
    schedule: Option<&str>,
) -> Result<Effect, Stop> {
    check(context, new)?;
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
    notices::job(context, &job, true)?;
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

/// Changes one job.
pub(super) fn change(context: &Context<'_>, id: &str, op: &JobOp) -> Result<Effect, Stop> {
    let mut job = job_by_id(context.db, id)?.ok_or_else(|| CommandError::not_found("job", id))?;
    let before = job.state;
    match op {
        JobOp::Claim { runner, seen } => claims::claim(context, &mut job, runner, *seen)?,
        JobOp::Report {
            epoch,
            state,
            reason,
        } => claims::report(context, &mut job, *epoch, *state, reason.as_ref())?,
        JobOp::Placed { epoch, into, tag } => {
            claims::placed(context.db, &job, *epoch, *into, *tag)?
        }
        JobOp::Route {
            epoch,
            route,
            asker,
            at,
        } => claims::route(context.db, &job, *epoch, *route, (asker.as_deref(), at))?,
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
                again: 0,
            };
            claims::backoff(context, &mut job, *epoch, reason, *next_attempt, moved)?;
        }
        JobOp::Moved { attempt, moved } => claims::moved(context.db, id, *attempt, *moved)?,
        JobOp::Finish(finish) => claims::finish(context, &mut job, finish)?,
        JobOp::Explain { seen, reason } => explain(&mut job, *seen, reason)?,
        JobOp::Expire => expire(context, &mut job)?,
        JobOp::Deny { seen, reason } => claims::deny(context, &mut job, *seen, reason)?,
        JobOp::Pause => {
            let text = format!("{} paused the job.", context.actor.name);
            let why = Reason::new(reason::PAUSED, text);
            claims::stop(context, &mut job, Cause::Pause, JobState::Paused, why)?;
        }
        JobOp::Resume => {
            check_room_again(context.db)?;
            check_attempts(context.db, &job)?;
            resume(context, &mut job)?;
        }
        JobOp::Cancel { comment } => {
            let text = match comment {
                Some(comment) => format!("{} cancelled the job: {comment}", context.actor.name),
                None => format!("{} cancelled the job.", context.actor.name),
            };
            bounds::text("comment", &text)?;
            let why = Reason::new(reason::CANCELLED, text);
            claims::stop(context, &mut job, Cause::Cancel, JobState::Cancelled, why)?;
        }
        JobOp::Retry if waits_for_attempt(context.db, &job)? => try_now(context, &mut job)?,
        JobOp::Retry => {
            check_room_again(context.db)?;
            check_attempts(context.db, &job)?;
            if job.state == JobState::Queued {
                return Err(CommandError::forbidden(id, job.state, Cause::Retry).into());
            }
            retry(context, &mut job)?;
        }
        JobOp::Change(change) => set(&mut job, change)?,
    }
    if job.state.ended() {
        work::end(context.db, id)?;
    }
    save(context.db, &job)?;
    notices::job(context, &job, job.state != before)?;
    Ok(effect(&job))
}

/// Ends the jobs of a removed user. From: all that have not ended. To: failed, as if the owner had lost the right.
pub(super) fn end_of(context: &Context<'_>, owner: &str) -> Result<(), Stop> {
    let ids: Vec<String> = context
        .db
        .prepare_cached("SELECT id FROM jobs WHERE owner = ?1 AND ended IS NULL ORDER BY id")?
        .query_map([owner], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let text = format!("{owner} is no longer a user of this node");
    for id in ids {
        let Some(mut job) = job_by_id(context.db, &id)? else {
            continue;
        };
        let cause = match job.state.moves() {
            true => Cause::Finish,
            false => Cause::Deny,
        };
        let why = Reason::new(FailureCode::AccessDenied, clip(text.clone()));
        claims::stop(context, &mut job, cause, JobState::Failed, why)?;
        work::end(context.db, &id)?;
        save(context.db, &job)?;
        notices::job(context, &job, true)?;
    }
    Ok(())
}

/// Sets state, reason and time, if the table allows it.
pub(super) fn shift(
    context: &Context<'_>,
    job: &mut Job,
    cause: Cause,
    to: JobState,
    why: Option<Reason>,
) -> Result<(), CommandError> {
    if !allowed(job.state, cause, to) {
        return Err(CommandError::forbidden(&job.id, job.state, cause));
    }
    if job.state != to {
        job.since = context.at;
    }
    job.state = to;
    job.reason = why;
    job.ended = to.ended().then_some(context.at);
    Ok(())
}

/// Writes the columns that change.
pub(super) fn save(db: &Connection, job: &Job) -> Result<(), Stop> {
    let mut statement = db.prepare_cached(
        "UPDATE jobs SET label = ?2, state = ?3, reason_code = ?4, reason_text = ?5, since = ?6, next_attempt = ?7, \
         priority = ?8, rate_limit = ?9, deadline = ?10, due = ?11, attempts = ?12, retries = ?13, epoch = ?14, \
         runner_node = ?15, runner_instance = ?16, started = ?17, ended = ?18, summary = ?19 WHERE id = ?1",
    )?;
    statement.execute(params![
        job.id,
        job.label,
        job.state.name(),
        job.reason.as_ref().map(|reason| reason.code.as_str()),
        job.reason.as_ref().map(|reason| &reason.text),
        job.since.0,
        job.next_attempt.map(|time| time.0),
        job.priority,
        job.limit.map(sql),
        job.deadline.map(|time| time.0),
        due(job),
        job.attempts,
        job.retries,
        sql(job.epoch),
        job.runner.as_ref().map(|runner| &runner.node),
        job.runner.as_ref().map(|runner| &runner.instance),
        job.started.map(|time| time.0),
        job.ended.map(|time| time.0),
        job.summary,
    ])?;
    Ok(())
}

/// When a waiting job is due.
fn due(job: &Job) -> i64 {
    let times = [job.not_before, job.next_attempt];
    times.into_iter().flatten().max().map_or(0, |time| time.0)
}

/// Refuses to start a job again that has had too many attempts.
fn check_attempts(db: &Connection, job: &Job) -> Result<(), Stop> {
    if job.attempts < ATTEMPTS_MAX || committed_level(db)? < LEVEL_ATTEMPTS {
        return Ok(());
    }
    let what = format!(
        "the job has had {} attempts, and {ATTEMPTS_MAX} is the limit; submit it as a new job, which skips what is complete",
        job.attempts
    );
    Err(CommandError::invalid("attempts", what).into())
}

/// From: paused. To: queued, scheduled.
fn resume(context: &Context<'_>, job: &mut Job) -> Result<(), CommandError> {
    let text = format!(
        "{} resumed the job; the job waits for a node.",
        context.actor.name
    );
    let (state, why) = waits(job.not_before, context.at, reason::RESUMED, &text);
    shift(context, job, Cause::Resume, state, Some(why))?;
    job.epoch += 1;
    job.next_attempt = None;
    Ok(())
}

/// From: partial, failed, cancelled. To: queued, scheduled.
fn retry(context: &Context<'_>, job: &mut Job) -> Result<(), CommandError> {
    let text = format!(
        "{} started the job again; the job waits for a node.",
        context.actor.name
    );
    let (state, why) = waits(job.not_before, context.at, reason::RETRIED, &text);
    shift(context, job, Cause::Retry, state, Some(why))?;
    job.epoch += 1;
    job.retries = 0;
    job.next_attempt = None;
    // A deadline that has passed would end the job at once.
    job.deadline = job.deadline.filter(|deadline| *deadline > context.at);
    Ok(())
}

/// Whether the job waits for its next attempt, and all nodes know that it can begin now.
fn waits_for_attempt(db: &Connection, job: &Job) -> Result<bool, Stop> {
    let waits = job.state == JobState::Queued && job.next_attempt.is_some();
    Ok(waits && committed_level(db)? >= LEVEL_TRY_NOW)
}

/// From: queued, after a failure. To: queued, with the next attempt due. The count of retries stays.
fn try_now(context: &Context<'_>, job: &mut Job) -> Result<(), Stop> {
    check_attempts(context.db, job)?;
    let text = format!(
        "{} asked for the next attempt now; the job waits for a node.",
        context.actor.name
    );
    let why = Reason::new(reason::RETRIED, text);
    shift(context, job, Cause::Retry, JobState::Queued, Some(why))?;
    job.next_attempt = None;
    Ok(())
}

/// From: all states that have not ended. To: failed.
fn expire(context: &Context<'_>, job: &mut Job) -> Result<(), Stop> {
    let Some(deadline) = job.deadline.filter(|deadline| *deadline <= context.at) else {
        return Err(CommandError::invalid("at", "the job's deadline has not passed").into());
    };
    let last = job.reason.as_ref().map_or("", |reason| &reason.text);
    let text = clip(format!("The deadline passed at {}. {last}", deadline.utc()));
    let why = Reason::new(reason::DEADLINE_PASSED, text);
    claims::stop(context, job, Cause::Expire, JobState::Failed, why)
}

fn explain(job: &mut Job, seen: u64, why: &Reason) -> Result<(), CommandError> {
    check_reason(why)?;
    if seen != job.epoch {
        return Err(CommandError::Stale {
            id: job.id.clone(),
            given: seen,
            now: job.epoch,
        });
    }
    if !job.state.waits() {
        return Err(CommandError::Forbidden {
            id: job.id.clone(),
            state: job.state,
            action: "explain".to_owned(),
        });
    }
    job.reason = Some(why.clone());
    Ok(())
}

/// Applies all parts of the change, or none. Only the label of an ended job may change.
fn set(job: &mut Job, change: &JobChange) -> Result<(), CommandError> {
    let steers = change.limit.is_some() || change.priority.is_some();
    if steers && job.state.ended() {
        return Err(CommandError::Forbidden {
            id: job.id.clone(),
            state: job.state,
            action: "change".to_owned(),
        });
    }
    if let Some(label) = &change.label {
        bounds::text("label", label)?;
        job.label.clone_from(label);
    }
    if let Some(limit) = change.limit {
        job.limit = (limit > 0).then_some(limit);
    }
    job.priority = change.priority.unwrap_or(job.priority);
    Ok(())
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

fn check(context: &Context<'_>, new: &NewJob) -> Result<(), CommandError> {
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
    if new.deadline.is_some_and(|deadline| deadline <= context.at) {
        return Err(CommandError::invalid("deadline", "has passed already"));
    }
    new.retry.check()
}

fn insert(db: &Connection, job: &Job, spec: &str) -> Result<(), Stop> {
    let mut statement = db.prepare_cached(
        "INSERT INTO jobs (id, created, owner, label, state, reason_code, reason_text, since, priority, rate_limit, \
         not_before, deadline, due, retry, attempts, retries, epoch, idempotency_key, schedule, sources, destination, \
         request) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?2, ?8, ?9, ?10, ?11, ?12, ?13, 0, 0, 0, ?14, ?15, ?16, ?17, ?18)",
    )?;
    statement.execute(params![
        job.id,
        job.created.0,
        job.owner,
        job.label,
        job.state.name(),
        job.reason.as_ref().map(|reason| reason.code.as_str()),
        job.reason.as_ref().map(|reason| &reason.text),
        job.priority,
        job.limit.map(sql),
        job.not_before.map(|time| time.0),
        job.deadline.map(|time| time.0),
        due(job),
        serde_json::to_string(&job.retry)?,
        job.idempotency_key,
        job.schedule,
        serde_json::to_string(&job.sources)?,
        serde_json::to_string(&job.destination)?,
        job.request,
    ])?;
    db.prepare_cached("INSERT INTO job_specs (job, spec) VALUES (?1, ?2)")?
        .execute(params![job.id, spec])?;
    db
        .prepare_cached(
            "INSERT INTO job_kinds (job, kind) SELECT ?1, kind FROM (SELECT CASE WHEN json_valid(?2) THEN \
             coalesce(json_extract(?2, '$.kind'), json_extract(?2, '$.new.kind')) END AS kind) \
             WHERE kind IS NOT NULL",
        )?
        .execute(params![job.id, spec])?;
    let mut site = db.prepare_cached(
        "INSERT OR IGNORE INTO job_sites (site, created, job) VALUES (?1, ?2, ?3)",
    )?;
    for place in job.sources.iter().chain([&job.destination]) {
        site.execute(params![place.site, job.created.0, job.id])?;
    }
    Ok(())
}
