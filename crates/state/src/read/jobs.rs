//! Owns reading of single jobs, their attempts, and counts.
//! Does not read which jobs are due: `queue` does.

use rusqlite::{Connection, OptionalExtension as _};

use super::row::{self, ATTEMPT_COLUMNS, JOB_COLUMNS};
use super::{Reader, committed_level, job_by_id, job_route, job_spec, node_by_number};
use crate::apply::{self, SITE, sql};
use crate::bounds::SPEC_BYTES_MAX;
use crate::fault::Fault;
use crate::model::{
    Attempt, FailureGroup, Invite, Job, JobState, LEVEL_LEFT, LEVEL_ORIGIN, Moved, Placed, Route,
    Timestamp,
};
use crate::seal;

/// Most tags of temporary files that an attempt searches for.
const TAGS_MAX: usize = 64;

impl Reader {
    /// The job with that id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn job(&self, id: &str) -> Result<Option<Job>, Fault> {
        self.with(|db| job_by_id(db, id))
    }

    /// The specification that the job was submitted with.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn job_spec(&self, id: &str) -> Result<Option<String>, Fault> {
        self.with(|db| job_spec(db, id))
    }

    /// The job that the owner submitted with that idempotency key.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn job_by_key(&self, owner: &str, key: &str) -> Result<Option<Job>, Fault> {
        self.with(|db| {
            db.prepare_cached(&format!(
                "SELECT {JOB_COLUMNS} FROM jobs WHERE owner = ?1 AND idempotency_key = ?2"
            ))?
            .query_row([owner, key], row::job)
            .optional()
        })
    }

    /// The attempts of a job, oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn attempts(&self, id: &str) -> Result<Vec<Attempt>, Fault> {
        self.with(|db| {
            let mut attempts: Vec<Attempt> = db
                .prepare_cached(&format!(
                    "SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job = ?1 ORDER BY number"
                ))?
                .query_map([id], row::attempt)?
                .collect::<rusqlite::Result<_>>()?;
            let mut again =
                db.prepare_cached("SELECT number, bytes FROM sent_again WHERE job = ?1")?;
            let mut rows = again.query([id])?;
            while let Some(row) = rows.next()? {
                let number: u32 = row.get(0)?;
                let bytes = row::to_u64(row, 1)?;
                let of = |attempt: &&mut Attempt| attempt.number == number;
                if let Some(attempt) = attempts.iter_mut().find(of) {
                    attempt.moved.bytes_again = bytes;
                }
            }
            Ok(attempts)
        })
    }

    /// The failed entries of a job, grouped by reason.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn failures(&self, id: &str) -> Result<Vec<FailureGroup>, Fault> {
        self.with(|db| {
            db.prepare_cached("SELECT body FROM failures WHERE job = ?1 ORDER BY number")?
                .query_map([id], |row| row::json(row, 0))?
                .collect()
        })
    }

    /// Number of jobs by state, of one owner or of all owners. States without jobs are left out.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn job_counts(&self, owner: Option<&str>) -> Result<Vec<(JobState, u64)>, Fault> {
        let select = match owner {
            None => {
                "SELECT state, count(*) FROM jobs WHERE ?1 IS NULL GROUP BY state ORDER BY state"
            }
            Some(_) => {
                "SELECT state, count(*) FROM jobs WHERE owner = ?1 GROUP BY state ORDER BY state"
            }
        };
        counts(self, select, owner)
    }
}

/// The counts of a statement with one parameter.
fn counts(
    reader: &Reader,
    select: &str,
    parameter: Option<&str>,
) -> Result<Vec<(JobState, u64)>, Fault> {
    let counts: Vec<(String, u64)> = reader.with(|db| {
        db.prepare_cached(select)?
            .query_map([parameter], |row| Ok((row.get(0)?, row::to_u64(row, 1)?)))?
            .collect()
    })?;
    Ok(counts
        .into_iter()
        .filter_map(|(name, count)| Some((JobState::from_name(&name)?, count)))
        .collect())
}

/// Jobs that this cluster runs for other sites, which also count them.
#[derive(Clone, Copy, Debug)]
pub struct GuestJobs<'a>(pub &'a Reader);

impl GuestJobs<'_> {
    /// Their number by state. States without jobs are left out.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn counts(self) -> Result<Vec<(JobState, u64)>, Fault> {
        // An index has the state and the owner of each job.
        let select = "SELECT state, count(*) FROM jobs WHERE substr(owner, 1, length(?1)) = ?1 \
                      GROUP BY state ORDER BY state";
        counts(self.0, select, Some(SITE))
    }
}

/// Amounts of stored data of an owner's jobs.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a>(pub &'a Reader);

impl Kept<'_> {
    /// Bytes of the descriptions of all jobs of an owner.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn spec_bytes(self, owner: &str) -> Result<u64, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT coalesce(sum(octet_length(spec)), 0) FROM jobs JOIN job_specs ON job = id WHERE owner = ?1",
            )?
            .query_row([owner], |row| row::to_u64(row, 0))
        })
    }

    /// Number of an owner's jobs that wait or are paused.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn waiting(self, owner: &str) -> Result<u64, Fault> {
        self.0.with(|db| {
            // This index has the jobs of each state together, so ended jobs are not read.
            db.prepare_cached(
                "SELECT count(*) FROM jobs INDEXED BY jobs_state \
                 WHERE owner = ?1 AND state IN ('queued', 'scheduled', 'paused')",
            )?
            .query_row([owner], |row| row::to_u64(row, 0))
        })
    }

    /// Bytes of the descriptions of an owner's jobs that wait or are paused.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn waiting_bytes(self, owner: &str) -> Result<u64, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT coalesce(sum(octet_length(spec)), 0) \
                 FROM jobs INDEXED BY jobs_state CROSS JOIN job_specs ON job = id \
                 WHERE owner = ?1 AND state IN ('queued', 'scheduled', 'paused')",
            )?
            .query_row([owner], |row| row::to_u64(row, 0))
        })
    }

    /// Users whose ended jobs have descriptions of more than `most` bytes in total. Each has the time up to which the surplus jobs were
    /// submitted. Empty below the level that supports this.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn surplus(self, most: u64) -> Result<Vec<(String, Timestamp)>, Fault> {
        self.0.with(|db| {
            let pages: u64 = db.pragma_query_value(None, "page_count", |row| row::to_u64(row, 0))?;
            let page: u64 = db.pragma_query_value(None, "page_size", |row| row::to_u64(row, 0))?;
            // If the database is smaller, the jobs need not be examined.
            if committed_level(db)? < LEVEL_LEFT || pages.saturating_mul(page) <= most {
                return Ok(Vec::new());
            }
            let fewest = most / SPEC_BYTES_MAX as u64;
            db.prepare_cached(
                "SELECT owner, max(created) FROM (SELECT owner, created, \
                 sum(octet_length(spec)) OVER (PARTITION BY owner ORDER BY created DESC, id DESC) AS bytes \
                 FROM jobs JOIN job_specs ON job = id WHERE ended IS NOT NULL AND owner IN \
                 (SELECT owner FROM jobs WHERE owner < 'site:' OR owner >= 'site;' GROUP BY owner HAVING count(*) >= ?1)) \
                 WHERE bytes > ?2 GROUP BY owner ORDER BY owner",
            )?
            .query_map([sql(fewest), sql(most)], |row| {
                Ok((row.get(0)?, Timestamp(row.get(1)?)))
            })?
            .collect()
        })
    }
}

/// Amounts that jobs have moved.
#[derive(Clone, Copy, Debug)]
pub struct JobAmounts<'a>(pub &'a Reader);

impl JobAmounts<'_> {
    /// Sum over the attempts of a job that have ended or reported amounts. Summed here and not by SQLite, which fails if a sum is too
    /// large; other sites report their own figures.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn of(self, id: &str) -> Result<Moved, Fault> {
        self.0.with(|db| moved_of(db, id))
    }
}

/// Sum over the attempts of a job. Summed here and not by SQLite, which fails if a sum is too large; other
/// sites report their own figures.
pub(crate) fn moved_of(db: &Connection, id: &str) -> rusqlite::Result<Moved> {
    let mut rows = db.prepare_cached(
        "SELECT a.bytes, a.files, coalesce(s.bytes, 0) FROM attempts a \
         LEFT JOIN sent_again s ON s.job = a.job AND s.number = a.number \
         WHERE a.job = ?1",
    )?;
    let each = rows.query_map([id], |row| {
        Ok(Moved {
            bytes: row::to_u64(row, 0)?,
            files: row::to_u64(row, 1)?,
            bytes_again: row::to_u64(row, 2)?,
        })
    })?;
    each.into_iter()
        .try_fold(Moved::default(), |sum, one| Ok(sum.plus(one?)))
}

/// Data on which all nodes of the cluster agree: its level, and results of earlier attempts of a job.
#[derive(Clone, Copy, Debug)]
pub struct Agreed<'a>(pub &'a Reader);

impl Agreed<'_> {
    /// The level of the cluster, which all of its nodes support.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn level(self) -> Result<u32, Fault> {
        self.0.with(committed_level)
    }

    /// Whether a new node may join with the invitation at this time.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn admits(self, invite: &Invite, at: Timestamp) -> Result<bool, Fault> {
        self.0.with(|db| apply::admits(db, invite, at))
    }

    /// The number that a command contains for its proposing node. `None` in a state of one node, and below the level that supports it.
    pub(crate) fn origin(self, number: u64) -> Result<Option<u64>, Fault> {
        self.0.with(|db| {
            let is_known =
                committed_level(db)? >= LEVEL_ORIGIN && node_by_number(db, number)?.is_some();
            Ok(is_known.then_some(number))
        })
    }

    /// The site that runs the transfer of a job, if an attempt has decided it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn route(self, id: &str) -> Result<Option<Route>, Fault> {
        let noted = self.0.with(|db| job_route(db, id))?;
        Ok(noted.map(|noted| noted.route))
    }

    /// Identity of the node under which the running site knows the job, if a site was asked to run it. The node may have left the cluster
    /// since.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn asker(self, id: &str) -> Result<Option<String>, Fault> {
        let noted = self.0.with(|db| job_route(db, id))?;
        Ok(noted.and_then(|noted| noted.asker))
    }

    /// Identities of the nodes that have the job at sites of independent nodes, as the first attempt chose them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn nodes_with(self, id: &str) -> Result<Vec<String>, Fault> {
        let noted = self.0.with(|db| job_route(db, id))?;
        Ok(noted.map(|noted| noted.at).unwrap_or_default())
    }

    /// One attempt of a job, without the bytes that it sent again.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn attempt(self, id: &str, number: u32) -> Result<Option<Attempt>, Fault> {
        self.0.with(|db| row::attempt_by_number(db, id, number))
    }

    /// Results of attempts about the destination of a job. The first attempt that finds out the meaning of the destination decides it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn placed(self, id: &str) -> Result<Placed, Fault> {
        self.0.with(|db| {
            let mut placed = Placed {
                into: None,
                tags: Vec::new(),
            };
            let mut statement = db.prepare_cached(&format!(
                "SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job = ?1 ORDER BY number DESC"
            ))?;
            let mut rows = statement.query([id])?;
            while let Some(row) = rows.next()? {
                seal::check("attempts", row)?;
                placed.into = row
                    .get("goes_into")
                    .map(|into: Option<_>| into.or(placed.into))?;
                let tag: Option<i64> = row.get("tag")?;
                let tag = tag.map(i64::cast_unsigned);
                if let Some(tag) = tag.filter(|tag| !placed.tags.contains(tag))
                    && placed.tags.len() < TAGS_MAX
                {
                    placed.tags.push(tag);
                }
            }
            Ok(placed)
        })
    }
}
