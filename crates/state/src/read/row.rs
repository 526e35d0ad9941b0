//! Owns the conversion of rows into jobs and objects. Does not select rows.

use godwit_model::Code;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;

use crate::apply::sql;
use crate::model::{
    Attempt, AttemptOutcome, Job, JobState, LEVEL_FIRST, Moved, Node, NotedRoute, Object, Reason,
    Runner, Timestamp,
};
use crate::seal::{self, select_objects};

/// Columns of a job, in the order in which [`job`] reads them. They are all columns, the checksum too.
pub(crate) const JOB_COLUMNS: &str = seal::JOBS_AND_SUM;

/// Columns of an attempt, in the order in which [`attempt`] reads them.
pub(super) const ATTEMPT_COLUMNS: &str = seal::ATTEMPTS_AND_SUM;

/// The job of a row of [`JOB_COLUMNS`].
pub(crate) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    seal::check("jobs", row)?;
    let state: String = row.get(4)?;
    let runner: Option<String> = row.get(17)?;
    let instance: Option<String> = row.get(18)?;
    Ok(Job {
        id: row.get(0)?,
        created: Timestamp(row.get(1)?),
        owner: row.get(2)?,
        label: row.get(3)?,
        state: JobState::from_name(&state)
            .ok_or_else(|| bad(4, format!("not a state of a job: {state:?}").into()))?,
        reason: reason(row.get(5)?, row.get(6)?),
        since: Timestamp(row.get(7)?),
        next_attempt: time(row, 8)?,
        priority: row.get(9)?,
        limit: row.get::<_, Option<i64>>(10)?.map(i64::unsigned_abs),
        not_before: time(row, 11)?,
        deadline: time(row, 12)?,
        retry: json(row, 13)?,
        attempts: row.get(14)?,
        retries: row.get(15)?,
        epoch: to_u64(row, 16)?,
        runner: runner
            .zip(instance)
            .map(|(node, instance)| Runner { node, instance }),
        idempotency_key: row.get(19)?,
        started: time(row, 20)?,
        ended: time(row, 21)?,
        summary: row.get(22)?,
        schedule: row.get(23)?,
        sources: json(row, 24)?,
        destination: json(row, 25)?,
        request: row.get(26)?,
    })
}

/// The attempt of a row of [`ATTEMPT_COLUMNS`].
pub(super) fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    seal::check("attempts", row)?;
    Ok(Attempt {
        number: row.get(0)?,
        epoch: to_u64(row, 1)?,
        node: row.get(2)?,
        started: Timestamp(row.get(3)?),
        ended: time(row, 4)?,
        outcome: row
            .get_ref(5)?
            .as_str_or_null()?
            .map(AttemptOutcome::of_word),
        reason: reason(row.get(6)?, row.get(7)?),
        moved: Moved {
            bytes: to_u64(row, 8)?,
            files: to_u64(row, 9)?,
            bytes_again: 0,
        },
    })
}

/// The level that all nodes of the cluster support.
pub(crate) fn committed_level(db: &Connection) -> rusqlite::Result<u32> {
    db.prepare_cached("SELECT level, one, sum FROM cluster")?
        .query_row([], |row| {
            seal::check("cluster", row)?;
            row.get(0)
        })
        .optional()
        .map(|level| level.unwrap_or(LEVEL_FIRST))
}

/// The job with that id.
pub(crate) fn job_by_id(db: &Connection, id: &str) -> rusqlite::Result<Option<Job>> {
    db.prepare_cached(&format!("SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?1"))?
        .query_row([id], job)
        .optional()
}

/// The site that runs the transfer of a job, if decided; the asker last recorded with that site; and the independent nodes of the job.
pub(crate) fn job_route(db: &Connection, id: &str) -> rusqlite::Result<Option<NotedRoute>> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job = ?1 AND route IS NOT NULL ORDER BY number"
    ))?;
    let mut rows = statement.query([id])?;
    let mut noted: Option<NotedRoute> = None;
    while let Some(row) = rows.next()? {
        seal::check("attempts", row)?;
        let text: String = row.get("route")?;
        let Some(read) = NotedRoute::from_row(&text) else {
            continue;
        };
        let noted = noted.get_or_insert_with(|| NotedRoute {
            route: read.route,
            asker: None,
            at: Vec::new(),
        });
        if read.asker.is_some() {
            noted.asker = read.asker;
        }
        if noted.at.is_empty() {
            noted.at = read.at;
        }
    }
    Ok(noted)
}

/// The site that runs the transfer of a job, if decided, the asker recorded last with it, and the independent nodes that have the job.
pub(crate) fn attempt_by_number(
    db: &Connection,
    job: &str,
    number: u32,
) -> rusqlite::Result<Option<Attempt>> {
    db.prepare_cached(&format!(
        "SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job = ?1 AND number = ?2"
    ))?
    .query_row(params![job, number], attempt)
    .optional()
}

/// The node that ran an attempt of a job.
pub(crate) fn attempt_node(
    db: &Connection,
    job: &str,
    number: u32,
) -> rusqlite::Result<Option<String>> {
    let found = attempt_by_number(db, job, number)?;
    Ok(found.map(|attempt| attempt.node))
}

/// The node whose claim of a job had this epoch.
pub(crate) fn claimed_by(
    db: &Connection,
    job: &str,
    epoch: u64,
) -> rusqlite::Result<Option<String>> {
    let found = db
        .prepare_cached(&format!(
            "SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job = ?1 AND epoch = ?2"
        ))?
        .query_row(params![job, sql(epoch)], attempt)
        .optional()?;
    Ok(found.map(|attempt| attempt.node))
}

/// The specification of the job with that id.
pub(crate) fn job_spec(db: &Connection, id: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT spec, job, sum FROM job_specs WHERE job = ?1")?
        .query_row([id], |row| {
            seal::check("job_specs", row)?;
            row.get(0)
        })
        .optional()
}

/// The object with that kind and id.
pub(crate) fn object_by_id<T: Object>(db: &Connection, id: &str) -> rusqlite::Result<Option<T>> {
    db.prepare_cached(select_objects!("kind = ?1 AND id = ?2"))?
        .query_row(params![T::KIND, id], object)
        .optional()
}

/// The node with that number in the consensus.
pub(crate) fn node_by_number(db: &Connection, number: u64) -> rusqlite::Result<Option<Node>> {
    db.prepare_cached(select_objects!(
        "kind = ?1 AND json_extract(body, '$.number') = ?2"
    ))?
    .query_row(params![Node::KIND, number.cast_signed()], object)
    .optional()
}

/// The object of a row of [`select_objects`].
pub(super) fn object<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    seal::check("objects", row)?;
    json(row, 0)
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| bad(column, error.into()))
}

pub(super) fn to_u64(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|error| bad(column, error.into()))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

fn reason(code: Option<String>, text: Option<String>) -> Option<Reason> {
    code.zip(text)
        .map(|(code, text)| Reason::new(Code::of_word(&code), text))
}

pub(super) fn bad(
    column: usize,
    error: Box<dyn std::error::Error + Send + Sync>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error)
}
