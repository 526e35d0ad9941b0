//! Owns reading of families of jobs: parents and their children.
//! Derives nothing.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::Reader;
use super::row::{self, JOB_COLUMNS, object_by_id};
use crate::fault::Fault;
use crate::model::{Child, Job, JobState, Object as _};

/// Parents and children among the jobs.
#[derive(Clone, Copy, Debug)]
pub struct Families<'a>(pub &'a Reader);

impl Families<'_> {
    /// The children of a job in the order of its destinations or sources; none of an ordinary job.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn children(self, parent: &str) -> Result<Vec<Job>, Fault> {
        self.0.with(|db| children_of(db, parent))
    }

    /// Whether the children of a job have different sources: it gathers them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn gathers(self, parent: &str) -> Result<bool, Fault> {
        Ok(gathers(&self.children(parent)?))
    }

    /// The parent of a job, if it has one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn parent(self, job: &str) -> Result<Option<String>, Fault> {
        self.0.with(|db| parent_of(db, job))
    }

    /// Number of jobs with children in each state.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn parents(self) -> Result<Vec<(JobState, u64)>, Fault> {
        let counts: Vec<(String, u64)> = self.0.with(|db| {
            db.prepare_cached(
                "SELECT state, count(*) FROM jobs WHERE id IN (SELECT lookup FROM objects WHERE kind = ?1) \
                 GROUP BY state ORDER BY state",
            )?
            .query_map([Child::KIND], |row| Ok((row.get(0)?, row::to_u64(row, 1)?)))?
            .collect()
        })?;
        let known = |(name, count): (String, u64)| Some((JobState::from_name(&name)?, count));
        Ok(counts.into_iter().filter_map(known).collect())
    }
}

/// Whether these children have different sources. Children with different destinations share theirs.
pub(crate) fn gathers(children: &[Job]) -> bool {
    let mut pairs = children.iter().zip(children.iter().skip(1));
    pairs.any(|(one, next)| one.sources != next.sources)
}

/// The children of a job in the order of its destinations or sources.
pub(crate) fn children_of(db: &Connection, parent: &str) -> rusqlite::Result<Vec<Job>> {
    db.prepare_cached(&format!(
        "SELECT {JOB_COLUMNS} FROM jobs WHERE id IN (SELECT id FROM objects WHERE kind = ?1 AND lookup = ?2) ORDER BY id"
    ))?
    .query_map(params![Child::KIND, parent], row::job)?
    .collect()
}

/// Whether another child of the job's parent moves data to the job's destination.
pub(crate) fn is_destination_taken(db: &Connection, job: &Job) -> rusqlite::Result<bool> {
    let Some(parent) = parent_of(db, &job.id)? else {
        return Ok(false);
    };
    let children = children_of(db, &parent)?;
    let mut others = children.iter().filter(|other| other.id != job.id);
    Ok(others.any(|other| other.state.moves() && other.destination == job.destination))
}

/// Whether a job has children.
pub(crate) fn is_parent(db: &Connection, job: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM objects WHERE kind = ?1 AND lookup = ?2 LIMIT 1")?
        .query_row(params![Child::KIND, job], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

/// The parent of a job, if it has one.
pub(crate) fn parent_of(db: &Connection, job: &str) -> rusqlite::Result<Option<String>> {
    let child = object_by_id::<Child>(db, job)?;
    Ok(child.map(|child| child.parent))
}
