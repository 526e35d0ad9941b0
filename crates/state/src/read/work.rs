//! Owns reading the work of divided jobs. Does not change it.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::Reader;
use super::families::crew_of;
use super::row::{json, to_u64};
use crate::affinity::{Crew, LOOKED_AT_MAX, Spot};
use crate::fault::Fault;
use crate::model::{Node, Object as _, Work};
use crate::seal;

const COLUMNS: &str = seal::WORK_AND_SUM;

/// The kind of an item.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum WorkKind {
    /// Scans below a directory.
    Scan,
    /// Copies a range of a file.
    Part,
    /// Assembles a file from its parts.
    Assemble,
    /// Finishes the tree of a root.
    Close,
}

/// Unsettled items of one kind with the same holder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldItems {
    /// Kind of the items.
    pub kind: WorkKind,
    /// Whether the items wait for others: for parts of their file, or for all items before a close.
    pub waits: bool,
    /// Node that holds the items; `None` if there is no holder.
    pub node: Option<String>,
    /// Number of items.
    pub items: u64,
    /// Bytes of the parts among the items.
    pub part_bytes: u64,
}

/// The work of divided jobs.
#[derive(Clone, Copy, Debug)]
pub struct Works<'a>(pub &'a Reader);

impl Works<'_> {
    /// The work of a job, if the job is divided.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn of(self, job: &str) -> Result<Option<Work>, Fault> {
        self.0.with(|db| work_by_job(db, job))
    }

    /// The work of all divided jobs that have not ended.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn all(self) -> Result<Vec<Work>, Fault> {
        self.0.with(|db| {
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM work ORDER BY job"))?
                .query_map([], work)?
                .collect()
        })
    }

    /// Whether an item of this work can be leased.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn has_ready(self, work: &Work) -> Result<bool, Fault> {
        let kinds = match (work.targets.is_fenced(), work.closes_alone()) {
            // No file is assembled and no tree closed while late writes are possible.
            (false, _) => "AND kind IN (1, 2)",
            (true, false) => "",
            (true, true) => {
                "AND (kind <> 3 OR NOT EXISTS \
                 (SELECT 1 FROM work_items AS held WHERE held.work = id AND held.kind = 3 AND held.state = 1))"
            }
        };
        self.0.with(|db| {
            db.prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM work JOIN work_items ON work = id \
                 WHERE job = ?1 AND state = 0 {kinds})"
            ))?
            .query_row([&work.job], |row| row.get(0))
        })
    }

    /// Whether an item of this work can be leased that this node leases before others. In a job of no family, that is any item.
    /// Before the first lease of a job, other nodes of the cluster may still join.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn has_own_ready(self, work: &Work, node: &str) -> Result<bool, Fault> {
        self.0.with(|db| {
            let Some(crew) = crew_of(db, work, node)? else {
                return Ok(true);
            };
            if crew.is_alone() && work.counts.leases == 0 && has_others(db, node)? {
                return Ok(false);
            }
            // No node comes first for assembles and closes.
            let is_common: bool = db
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM work JOIN work_items ON work = id \
                     WHERE job = ?1 AND state = 0 AND kind IN (0, 3))",
                )?
                .query_row([&work.job], |row| row.get(0))?;
            if is_common && work.targets.is_fenced() {
                return Ok(true);
            }
            for kind in [1, 2] {
                if has_own(db, &crew, &work.job, kind)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Whether a node holds an item of the job's work.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn holds(self, job: &str, node: &str) -> Result<bool, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM work JOIN work_items ON work = id \
                 WHERE job = ?1 AND state = 1 AND node = ?2)",
            )?
            .query_row([job, node], |row| row.get(0))
        })
    }

    /// The unsettled items of the job's work, counted by kind and by holder. Reads all of them.
    ///
    /// SQLite fails if a sum is too large, and two files may have 8 EiB each. So the query adds the two halves of each number separately.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn open_items(self, job: &str) -> Result<Vec<HeldItems>, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT kind, state, CASE state WHEN 1 THEN node END AS holder, count(*), \
                 sum(CASE kind WHEN 1 THEN bytes >> 32 ELSE 0 END), \
                 sum(CASE kind WHEN 1 THEN bytes & 4294967295 ELSE 0 END) \
                 FROM work JOIN work_items ON work = id WHERE job = ?1 AND state < 3 \
                 GROUP BY kind, state, holder ORDER BY kind DESC, state, holder",
            )?
            .query_map([job], |row| {
                let (high, low) = (to_u64(row, 4)?, to_u64(row, 5)?);
                Ok(HeldItems {
                    kind: match row.get::<_, i64>(0)? {
                        0 => WorkKind::Assemble,
                        1 => WorkKind::Part,
                        2 => WorkKind::Scan,
                        _ => WorkKind::Close,
                    },
                    waits: row.get::<_, i64>(1)? == 2,
                    node: row.get(2)?,
                    items: to_u64(row, 3)?,
                    part_bytes: high.saturating_mul(1 << 32).saturating_add(low),
                })
            })?
            .collect()
        })
    }

    /// Number of kept items of the job's work.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn items(self, job: &str) -> Result<u64, Fault> {
        self.0.with(|db| {
            db.prepare_cached(
                "SELECT count(*) FROM work JOIN work_items ON work = id WHERE job = ?1",
            )?
            .query_row([job], |row| to_u64(row, 0))
        })
    }
}

/// Whether the cluster has other nodes.
fn has_others(db: &Connection, node: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM objects WHERE kind = ?1 AND id <> ?2)")?
        .query_row([Node::KIND, node], |row| row.get(0))
}

/// Whether a ready item of this kind, parts or scans, is the node's own.
fn has_own(db: &Connection, crew: &Crew, job: &str, kind: i64) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(
        "SELECT root, path, piece, bytes, node FROM work JOIN work_items ON work = id \
         WHERE job = ?1 AND kind = ?2 AND state = 0 ORDER BY bytes DESC, number LIMIT ?3",
    )?;
    let mut rows = statement.query(params![job, kind, LOOKED_AT_MAX])?;
    while let Some(row) = rows.next()? {
        let path: Vec<u8> = row.get(1)?;
        let returned_by: Option<String> = row.get(4)?;
        let spot = Spot {
            root: row.get(0)?,
            path: &path,
            piece: to_u64(row, 2)?,
            bytes: to_u64(row, 3)?,
            returned_by: returned_by.as_deref(),
        };
        if crew.is_own(spot) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The work of a job.
pub(crate) fn work_by_job(db: &Connection, job: &str) -> rusqlite::Result<Option<Work>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM work WHERE job = ?1"))?
        .query_row([job], work)
        .optional()
}

fn work(row: &Row<'_>) -> rusqlite::Result<Work> {
    seal::check("work", row)?;
    let trouble: Option<String> = row.get(5)?;
    Ok(Work {
        job: row.get(0)?,
        epoch: to_u64(row, 1)?,
        claim: row.get(2)?,
        roots: json(row, 3)?,
        pairs: json(row, 4)?,
        trouble: trouble.map(|_| json(row, 5)).transpose()?,
        closed: json(row, 6)?,
        open: to_u64(row, 7)?,
        closes: to_u64(row, 8)?,
        counts: json(row, 9)?,
        targets: json(row, 10)?,
    })
}
