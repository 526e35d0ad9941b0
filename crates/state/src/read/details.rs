//! Owns reading of what is shown of jobs besides their rows: kinds, families and amounts, of many jobs at once.
//! Reads no rows of jobs: `page` does.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::Reader;
use super::row::{object, to_u64};
use crate::fault::Fault;
use crate::model::{Child, JobState, Moved, Object as _};
use crate::seal::select_objects;

/// Facts of a job that are not in its row.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Details {
    /// The kind of the job according to its description; `None` if the description has none.
    pub kind: Option<String>,
    /// The parent of the job, if it has one.
    pub parent: Option<String>,
    /// Number of children of the job, and of those that are complete; `None` of an ordinary job.
    pub children: Option<(u64, u64)>,
    /// Sum over the attempts that have ended or reported amounts.
    pub moved: Moved,
    /// Sum over the attempts except the running one.
    pub moved_before: Moved,
}

type All = HashMap<String, Details>;

/// Details of jobs.
#[derive(Clone, Copy, Debug)]
pub struct JobDetails<'a>(pub &'a Reader);

impl JobDetails<'_> {
    /// The details of all these jobs, by id. A few queries, however many jobs.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn of<'b>(
        self,
        jobs: impl IntoIterator<Item = &'b str>,
    ) -> Result<HashMap<String, Details>, Fault> {
        let jobs = jobs.into_iter();
        let mut all: All = jobs
            .map(|job| (job.to_owned(), Details::default()))
            .collect();
        if all.is_empty() {
            return Ok(all);
        }
        let ids: Vec<String> = all.keys().cloned().collect();
        let ids = serde_json::Value::from(ids).to_string();
        self.0.with(|db| {
            kinds(db, &ids, &mut all)?;
            parents(db, &ids, &mut all)?;
            children(db, &ids, &mut all)?;
            amounts(db, &ids, &mut all)
        })?;
        Ok(all)
    }
}

fn kinds(db: &Connection, ids: &str, all: &mut All) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT job, kind FROM job_kinds WHERE job IN (SELECT value FROM json_each(?1))",
    )?;
    let mut rows = statement.query([ids])?;
    while let Some(row) = rows.next()? {
        let job: String = row.get(0)?;
        if let Some(details) = all.get_mut(&job) {
            details.kind = row.get(1)?;
        }
    }
    Ok(())
}

fn parents(db: &Connection, ids: &str, all: &mut All) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(select_objects!(
        "kind = ?2 AND id IN (SELECT value FROM json_each(?1))"
    ))?;
    let mut rows = statement.query(params![ids, Child::KIND])?;
    while let Some(row) = rows.next()? {
        let child: Child = object(row)?;
        if let Some(details) = all.get_mut(&child.job) {
            details.parent = Some(child.parent);
        }
    }
    Ok(())
}

fn children(db: &Connection, ids: &str, all: &mut All) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT c.lookup, count(*), coalesce(sum(j.state = ?3), 0) FROM objects c JOIN jobs j ON j.id = c.id \
         WHERE c.kind = ?2 AND c.lookup IN (SELECT value FROM json_each(?1)) GROUP BY c.lookup",
    )?;
    let mut rows = statement.query(params![ids, Child::KIND, JobState::Complete.name()])?;
    while let Some(row) = rows.next()? {
        let parent: String = row.get(0)?;
        if let Some(details) = all.get_mut(&parent) {
            details.children = Some((to_u64(row, 1)?, to_u64(row, 2)?));
        }
    }
    Ok(())
}

/// Summed here and not by SQLite, which fails if a sum is too large; other sites report their own figures.
fn amounts(db: &Connection, ids: &str, all: &mut All) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT a.job, a.bytes, a.files, coalesce(s.bytes, 0), a.ended IS NOT NULL FROM attempts a \
         LEFT JOIN sent_again s ON s.job = a.job AND s.number = a.number \
         WHERE a.job IN (SELECT value FROM json_each(?1))",
    )?;
    let mut rows = statement.query([ids])?;
    while let Some(row) = rows.next()? {
        let job: String = row.get(0)?;
        let Some(details) = all.get_mut(&job) else {
            continue;
        };
        let moved = Moved {
            bytes: to_u64(row, 1)?,
            files: to_u64(row, 2)?,
            bytes_again: to_u64(row, 3)?,
        };
        details.moved = details.moved.plus(moved);
        let has_ended: bool = row.get(4)?;
        if has_ended {
            details.moved_before = details.moved_before.plus(moved);
        }
    }
    Ok(())
}
