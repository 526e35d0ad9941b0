//! Owns reading of families of jobs: parents and their children.
//! Derives nothing.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::Reader;
use super::row::{self, JOB_COLUMNS, committed_level, object_by_id};
use crate::affinity::Crew;
use crate::bounds::{RELAYS_MAX, STOPS_WITHIN_MS};
use crate::fault::Fault;
use crate::model::{
    AttemptOutcome, Child, Job, JobState, LEVEL_STOPS, Object as _, RelayKey, Timestamp, Work,
};

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

    /// The relays to a child, rounds included, the newest first; a bounded number.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn relays(self, taker: &Job) -> Result<Vec<Job>, Fault> {
        let [first, end] = RelayKey::range(&taker.id);
        self.0.with(|db| {
            db.prepare_cached(&format!(
                "SELECT {JOB_COLUMNS} FROM jobs WHERE owner = ?1 AND idempotency_key >= ?2 AND idempotency_key < ?3 \
                 ORDER BY id DESC LIMIT {RELAYS_MAX}"
            ))?
            .query_map(params![taker.owner, first, end], row::job)?
            .collect()
        })
    }

    /// The parent of a job, if it has one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn parent(self, job: &str) -> Result<Option<String>, Fault> {
        self.0.with(|db| parent_of(db, job))
    }

    /// Whether a job moves data at this time, or may still do so at another node than `node`. If a user, the loss of its node or its deadline
    /// ends an attempt, the attempt may write until its node has stopped it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn may_write(self, job: &Job, node: &str, at: Timestamp) -> Result<bool, Fault> {
        self.0.with(|db| may_write(db, job, node, at))
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

/// Whether another child of the job's parent may write to the job's destination, as [`Families::may_write`] says.
pub(crate) fn is_destination_taken(
    db: &Connection,
    job: &Job,
    node: &str,
    at: Timestamp,
) -> rusqlite::Result<bool> {
    let Some(parent) = parent_of(db, &job.id)? else {
        return Ok(false);
    };
    for other in children_of(db, &parent)? {
        let is_there = other.id != job.id && other.destination == job.destination;
        if is_there && may_write(db, &other, node, at)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the job moves data, or may still do so at another node than this one.
fn may_write(db: &Connection, job: &Job, node: &str, at: Timestamp) -> rusqlite::Result<bool> {
    if job.state.moves() {
        return Ok(true);
    }
    if committed_level(db)? < LEVEL_STOPS {
        return Ok(false);
    }
    // An attempt reports these outcomes at its own end. Clocks of leaders differ, so an end may lie ahead.
    db.prepare_cached(
        "SELECT 1 FROM attempts WHERE job = ?1 AND node <> ?2 AND abs(?3 - ended) < ?4 \
         AND outcome NOT IN (?5, ?6, ?7)",
    )?
    .exists(params![
        job.id,
        node,
        at.0,
        STOPS_WITHIN_MS,
        AttemptOutcome::BACKOFF,
        JobState::Complete.name(),
        JobState::Partial.name()
    ])
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

/// The nodes that lease items of a job of a family, seen from one of them; `None` of another job. The jobs of a gather read different files,
/// so it has no crew.
pub(crate) fn crew_of(db: &Connection, work: &Work, node: &str) -> rusqlite::Result<Option<Crew>> {
    let Some(parent) = parent_of(db, &work.job)? else {
        return Ok(None);
    };
    if has_other_sources(db, &parent, &work.job)? {
        return Ok(None);
    }
    let senders = work.pairs.iter().filter(|pair| !pair.to.is_empty());
    let names = senders.map(|pair| pair.node.as_str());
    Ok(Some(Crew::new(&parent, node, names)))
}

/// Whether a child of the parent has other sources than this child.
fn has_other_sources(db: &Connection, parent: &str, child: &str) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM jobs WHERE id IN (SELECT id FROM objects WHERE kind = ?1 AND lookup = ?2) \
         AND sources <> (SELECT sources FROM jobs WHERE id = ?3)",
    )?
    .exists(params![Child::KIND, parent, child])
}
