//! Owns the questions of a scheduler: which jobs are due, run, or are past their deadline, and when that changes next.
//! Starts nothing.

use godwit_model::FailureCode;
use rusqlite::{OptionalExtension as _, params};

use super::Reader;
use super::row::{self, JOB_COLUMNS};
use crate::apply::sql;
use crate::bounds::PAGE_ROWS_MAX;
use crate::fault::Fault;
use crate::model::{Child, DELAY_MAX_MS, Job, Object as _, Timestamp};

/// Jobs that a scheduler looks for.
#[derive(Clone, Copy, Debug)]
pub struct JobQueue<'a>(pub &'a Reader);

impl JobQueue<'_> {
    /// Jobs that are due at `now`: at most `each` per owner, by priority and age, `limit` in total. If a next attempt is further ahead
    /// than any delay, the clock was set back, and the job is due too. Jobs that must wait for another child of their parent
    /// come last, so that they displace no other job. So do jobs that wait for a relay, which itself is one of the later jobs.
    /// At
    /// most `each` more of these are returned.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn due(self, now: Timestamp, each: u32, limit: usize) -> Result<Vec<Job>, Fault> {
        let limit = i64::try_from(limit.min(PAGE_ROWS_MAX)).unwrap_or(i64::MAX);
        let kind = Child::KIND;
        let relaying = FailureCode::Relaying.as_str();
        self.0.with(|db| {
            db.prepare_cached(&format!(
                "WITH taken AS (SELECT other.id FROM jobs mover \
                 JOIN objects one ON one.kind = ?5 AND one.id = mover.id \
                 JOIN objects two ON two.kind = one.kind AND two.lookup = one.lookup \
                 JOIN jobs other ON other.id = two.id AND other.id <> mover.id \
                 WHERE mover.state IN ('scanning', 'running', 'verifying') AND other.destination = mover.destination) \
                 SELECT {JOB_COLUMNS} FROM jobs WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER \
                 (PARTITION BY owner, reason_code IS ?6 ORDER BY id IN taken, priority DESC, created, id) AS place \
                 FROM jobs INDEXED BY jobs_due \
                 WHERE state IN ('queued', 'scheduled') AND (due <= ?1 OR (next_attempt > ?1 + ?4 AND \
                 coalesce(not_before, 0) <= ?1))) WHERE place <= ?2) \
                 ORDER BY id IN taken OR reason_code IS ?6, priority DESC, created, id LIMIT ?3"
            ))?
            .query_map(params![now.0, each, limit, sql(DELAY_MAX_MS), kind, relaying], row::job)?
            .collect()
        })
    }

    /// The next time after `now` at which a waiting job becomes due.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn next_due(self, now: Timestamp) -> Result<Option<Timestamp>, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT due FROM jobs INDEXED BY jobs_wake \
                 WHERE state IN ('queued', 'scheduled') AND due > ?1 ORDER BY due LIMIT 1",
            )?
            .query_row([now.0], |row| row.get(0).map(Timestamp))
            .optional()
        })
    }

    /// Jobs that have not ended and whose deadline is `now` or earlier.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn expired(self, now: Timestamp) -> Result<Vec<Job>, Fault> {
        self.some(
            "deadline IS NOT NULL AND ended IS NULL AND deadline <= ?1 ORDER BY deadline, id",
            now.0,
        )
    }

    /// The earliest deadline of a job that has not ended.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn next_deadline(self) -> Result<Option<Timestamp>, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT min(deadline) FROM jobs WHERE deadline IS NOT NULL AND ended IS NULL",
            )?
            .query_row([], |row| row::time(row, 0))
        })
    }

    /// Jobs that nodes run, by node.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn running(self) -> Result<Vec<Job>, Fault> {
        self.some(
            "runner_node IS NOT NULL AND ended IS ?1 ORDER BY runner_node, id",
            None::<i64>,
        )
    }

    /// Whether any job, ended or not, names another site than this one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn any_beyond(self, site: &str) -> Result<bool, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM job_sites WHERE site < ?1) \
                 OR EXISTS (SELECT 1 FROM job_sites WHERE site > ?1)",
            )?
            .query_row([site], |row| row.get(0))
        })
    }

    fn some(self, condition: &str, value: impl rusqlite::ToSql) -> Result<Vec<Job>, Fault> {
        self.0.with(|db| {
            db.prepare_cached(&format!(
                "SELECT {JOB_COLUMNS} FROM jobs WHERE {condition} LIMIT {PAGE_ROWS_MAX}"
            ))?
            .query_map([value], row::job)?
            .collect()
        })
    }
}
