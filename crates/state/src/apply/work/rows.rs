//! Owns the rows of the work of divided jobs. Does not decide.

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};

use super::super::{Stop, sql};
use crate::model::{OpenWork, Runner, Work, WorkCounts, WorkPart, WorkTargets};
use crate::read::work_by_job;
use crate::seal;

/// The kind of an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Assemble = 0,
    Part = 1,
    Scan = 2,
    Close = 3,
}

/// The state of an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Ready = 0,
    Leased = 1,
    Waits = 2,
    Settled = 3,
}

/// The row of a job's work.
pub(super) struct WorkRow {
    pub(super) id: i64,
    pub(super) part_bytes: u64,
    next: u64,
    pub(super) work: Work,
}

/// An item to add.
pub(super) struct New<'a> {
    pub(super) kind: Kind,
    pub(super) state: State,
    pub(super) root: u32,
    pub(super) path: &'a [u8],
    pub(super) piece: u64,
    pub(super) pieces: u64,
    pub(super) bytes: u64,
    pub(super) generation: u64,
    pub(super) parent: u64,
    pub(super) waits: u64,
}

impl New<'_> {
    pub(super) const fn of(kind: Kind, state: State) -> Self {
        Self {
            kind,
            state,
            root: 0,
            path: &[],
            piece: 0,
            pieces: 0,
            bytes: 0,
            generation: 0,
            parent: 0,
            waits: 0,
        }
    }
}

/// An existing item.
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) state: State,
    pub(super) root: u32,
    pub(super) path: Vec<u8>,
    pub(super) piece: u64,
    pub(super) pieces: u64,
    pub(super) bytes: u64,
    pub(super) generation: u64,
    pub(super) parent: u64,
    pub(super) waits: u64,
    pub(super) failed: u64,
    pub(super) lease: Option<u64>,
    /// The holder. If the item is ready, the node that returned it last.
    pub(super) node: Option<String>,
    pub(super) instance: Option<String>,
}

const COLUMNS: &str = seal::ITEMS_AND_SUM;

impl WorkRow {
    pub(super) fn new(index: u64, job: &str, open: &OpenWork, reports_names: bool) -> Self {
        Self {
            id: sql(index),
            part_bytes: open.part_bytes,
            next: 1,
            work: Work {
                job: job.to_owned(),
                epoch: open.epoch,
                claim: open.claim.clone(),
                roots: open.roots.clone(),
                pairs: Vec::new(),
                targets: WorkTargets::default(),
                trouble: None,
                closed: Vec::new(),
                open: 0,
                closes: 0,
                counts: WorkCounts {
                    reports_names,
                    ..WorkCounts::default()
                },
            },
        }
    }

    pub(super) fn find(db: &Connection, job: &str) -> Result<Option<Self>, Stop> {
        let Some(work) = work_by_job(db, job)? else {
            return Ok(None);
        };
        let row = db
            .prepare_cached("SELECT id, part_bytes, next_number FROM work WHERE job = ?1")?
            .query_row([job], |row| {
                Ok(Self {
                    id: row.get(0)?,
                    part_bytes: to_u64(row, 1)?,
                    next: to_u64(row, 2)?,
                    work,
                })
            })?;
        Ok(Some(row))
    }

    pub(super) fn insert(&self, db: &Connection) -> Result<(), Stop> {
        let work = &self.work;
        db
            .prepare_cached(
                "INSERT INTO work (job, id, epoch, claim, roots, part_bytes, pairs, closed, open, closes, next_number, counts) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, '[]', '[]', 0, 0, 1, '{}')",
            )?
            .execute(params![
                work.job,
                self.id,
                sql(work.epoch),
                work.claim,
                serde_json::to_string(&work.roots)?,
                sql(self.part_bytes)
            ])?;
        Ok(())
    }

    /// Writes the changed columns.
    pub(super) fn save(&self, db: &Connection) -> Result<(), Stop> {
        let work = &self.work;
        let trouble = work.trouble.as_ref();
        db
            .prepare_cached(
                "UPDATE work SET epoch = ?2, pairs = ?3, trouble = ?4, closed = ?5, open = ?6, closes = ?7, \
                 next_number = ?8, counts = ?9, targets = ?10 WHERE job = ?1",
            )?
            .execute(params![
                work.job,
                sql(work.epoch),
                serde_json::to_string(&work.pairs)?,
                trouble.map(serde_json::to_string).transpose()?,
                serde_json::to_string(&work.closed)?,
                sql(work.open),
                sql(work.closes),
                sql(self.next),
                serde_json::to_string(&work.counts)?,
                serde_json::to_string(&work.targets)?,
            ])?;
        Ok(())
    }

    /// Adds an item unless it exists. Returns its number if it is new.
    pub(super) fn add(&mut self, db: &Connection, new: &New<'_>) -> Result<Option<u64>, Stop> {
        let added = db
            .prepare_cached(
                "INSERT OR IGNORE INTO work_items (work, number, kind, state, root, path, piece, pieces, bytes, \
                 generation, parent, waits, failed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0)",
            )?
            .execute(params![
                self.id,
                sql(self.next),
                new.kind as i64,
                new.state as i64,
                new.root,
                new.path,
                sql(new.piece),
                sql(new.pieces),
                sql(new.bytes),
                bits(new.generation),
                sql(new.parent),
                sql(new.waits)
            ])?;
        if added == 0 {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(self.next - 1))
    }
}

/// The item with that number.
pub(super) fn find(db: &Connection, work: i64, number: u64) -> Result<Option<Row>, Stop> {
    let sql_text = format!("SELECT {COLUMNS} FROM work_items WHERE work = ?1 AND number = ?2");
    Ok(db
        .prepare_cached(&sql_text)?
        .query_row(params![work, sql(number)], row)
        .optional()?)
}

/// Items of a kind that can be leased, the largest first.
pub(super) fn ready(db: &Connection, work: i64, kind: Kind, max: i64) -> Result<Vec<Row>, Stop> {
    let sql_text = format!(
        "SELECT {COLUMNS} FROM work_items WHERE work = ?1 AND kind = ?2 AND state = 0 \
         ORDER BY bytes DESC, number LIMIT ?3"
    );
    let rows = db
        .prepare_cached(&sql_text)?
        .query_map(params![work, kind as i64, max], row)?
        .collect::<Result<_, _>>()?;
    Ok(rows)
}

/// Whether more than `max` items other than scans can be leased.
pub(super) fn has_more_ready(db: &Connection, work: i64, max: i64) -> Result<bool, Stop> {
    let count: i64 = db
        .prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM work_items WHERE work = ?1 AND kind < 2 AND state = 0 LIMIT ?2)",
        )?
        .query_row(params![work, max + 1], |row| row.get(0))?;
    Ok(count > max)
}

/// Whether a node holds a close.
pub(super) fn is_closing(db: &Connection, work: i64) -> Result<bool, Stop> {
    let held = db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM work_items WHERE work = ?1 AND kind = 3 AND state = 1)",
        )?
        .query_row([work], |row| row.get(0))?;
    Ok(held)
}

/// The parts of an assemble, all of them done.
pub(super) fn parts_of(db: &Connection, work: i64, assemble: u64) -> Result<Vec<WorkPart>, Stop> {
    let parts = db
        .prepare_cached(
            &format!("SELECT {COLUMNS} FROM work_items WHERE work = ?1 AND parent = ?2 AND kind = 1 ORDER BY piece"),
        )?
        .query_map(params![work, sql(assemble)], |row| {
            seal::check("work_items", row)?;
            Ok(WorkPart {
                offset: to_u64(row, 5)?,
                bytes: to_u64(row, 7)?,
                digest: row.get::<_, Option<String>>("digest")?.unwrap_or_default(),
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(parts)
}

/// Leases an item to a node.
pub(super) fn give(
    db: &Connection,
    work: i64,
    number: u64,
    lease: u64,
    runner: &Runner,
) -> Result<(), Stop> {
    db
        .prepare_cached(
            "UPDATE work_items SET state = 1, lease = ?3, node = ?4, instance = ?5 WHERE work = ?1 AND number = ?2",
        )?
        .execute(params![work, sql(number), sql(lease), runner.node, runner.instance])?;
    Ok(())
}

/// Puts an item into a state without a holder.
pub(super) fn set(
    db: &Connection,
    work: i64,
    number: u64,
    state: State,
    digest: Option<&str>,
) -> Result<(), Stop> {
    db.prepare_cached(
        "UPDATE work_items SET state = ?3, lease = NULL, node = NULL, instance = NULL, digest = ?4 \
             WHERE work = ?1 AND number = ?2",
    )?
    .execute(params![work, sql(number), state as i64, digest])?;
    Ok(())
}

/// Keeps the node that held an item and returned it, until another node leases the item.
pub(super) fn returned_by(db: &Connection, work: i64, held: &Row) -> Result<(), Stop> {
    db.prepare_cached("UPDATE work_items SET node = ?3 WHERE work = ?1 AND number = ?2")?
        .execute(params![work, sql(held.number), held.node])?;
    Ok(())
}

/// Counts settled parts of an assemble, and the failed ones among them.
pub(super) fn count_parts(
    db: &Connection,
    work: i64,
    assemble: u64,
    settled: u64,
    failed: u64,
) -> Result<(), Stop> {
    db
        .prepare_cached(
            "UPDATE work_items SET waits = waits - ?3, failed = failed + ?4 WHERE work = ?1 AND number = ?2",
        )?
        .execute(params![work, sql(assemble), sql(settled), sql(failed)])?;
    Ok(())
}

/// Records that a close waits for this many other closes, and is then leased again.
pub(super) fn wait_for_closes(
    db: &Connection,
    work: i64,
    close: u64,
    count: u64,
) -> Result<(), Stop> {
    db
        .prepare_cached(
            "UPDATE work_items SET waits = waits + ?3, bytes = bytes + ?3 WHERE work = ?1 AND number = ?2",
        )?
        .execute(params![work, sql(close), sql(count)])?;
    Ok(())
}

/// Settles the parts of an assemble that no node holds. Returns their number.
pub(super) fn drop_ready_parts(db: &Connection, work: i64, assemble: u64) -> Result<u64, Stop> {
    let count = db
        .prepare_cached(
            "UPDATE work_items SET state = 3 WHERE work = ?1 AND parent = ?2 AND kind = 1 AND state = 0",
        )?
        .execute(params![work, sql(assemble)])?;
    Ok(count as u64)
}

/// Removes settled items that were kept for the item with that number.
pub(super) fn forget_settled(db: &Connection, work: i64, parent: u64) -> Result<(), Stop> {
    db.prepare_cached("DELETE FROM work_items WHERE work = ?1 AND parent = ?2 AND state = 3")?
        .execute(params![work, sql(parent)])?;
    Ok(())
}

/// Removes an item.
pub(super) fn remove(db: &Connection, work: i64, number: u64) -> Result<(), Stop> {
    db.prepare_cached("DELETE FROM work_items WHERE work = ?1 AND number = ?2")?
        .execute(params![work, sql(number)])?;
    Ok(())
}

/// Makes the closes ready to lease that wait for no other close.
pub(super) fn free_closes(db: &Connection, work: i64) -> Result<(), Stop> {
    db.prepare_cached(
        "UPDATE work_items SET state = 0 WHERE work = ?1 AND kind = 3 AND state = 2 AND waits = 0",
    )?
    .execute([work])?;
    Ok(())
}

/// Returns all leased items of a work. A close that has left regions to others waits for those.
pub(super) fn return_of_work(db: &Connection, work: i64) -> Result<(), Stop> {
    db
        .prepare_cached(
            "UPDATE work_items SET state = CASE WHEN waits > 0 THEN 2 ELSE 0 END, lease = NULL, node = NULL, \
             instance = NULL WHERE work = ?1 AND state = 1",
        )?
        .execute([work])?;
    Ok(())
}

/// The works of which a node holds items, except for items of its run `but`.
pub(super) fn held_by(
    db: &Connection,
    node: &str,
    but: Option<&str>,
) -> Result<Vec<WorkRow>, Stop> {
    let jobs: Vec<String> = db
        .prepare_cached(
            "SELECT DISTINCT job FROM work JOIN work_items ON work = id \
             WHERE node = ?1 AND state = 1 AND (?2 IS NULL OR instance <> ?2) ORDER BY job",
        )?
        .query_map(params![node, but], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut works = Vec::new();
    for job in jobs {
        works.extend(WorkRow::find(db, &job)?);
    }
    Ok(works)
}

/// Returns the items of a node, of one work or of all, except for items of its run `but`.
pub(super) fn return_of(
    db: &Connection,
    node: &str,
    work: Option<i64>,
    but: Option<&str>,
) -> Result<u64, Stop> {
    let count = db
        .prepare_cached(
            "UPDATE work_items SET state = CASE WHEN waits > 0 THEN 2 ELSE 0 END, lease = NULL, node = NULL, \
             instance = NULL WHERE node = ?1 AND state = 1 AND (?2 IS NULL OR work = ?2) AND (?3 IS NULL OR instance <> ?3)",
        )?
        .execute(params![node, work, but])?;
    Ok(count as u64)
}

fn row(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    seal::check("work_items", row)?;
    Ok(Row {
        number: to_u64(row, 0)?,
        kind: match row.get::<_, i64>(1)? {
            0 => Kind::Assemble,
            1 => Kind::Part,
            2 => Kind::Scan,
            _ => Kind::Close,
        },
        state: match row.get::<_, i64>(2)? {
            0 => State::Ready,
            1 => State::Leased,
            2 => State::Waits,
            _ => State::Settled,
        },
        root: row.get(3)?,
        path: row.get(4)?,
        piece: to_u64(row, 5)?,
        pieces: to_u64(row, 6)?,
        bytes: to_u64(row, 7)?,
        generation: row.get::<_, i64>(8)?.cast_unsigned(),
        parent: to_u64(row, 9)?,
        waits: to_u64(row, 10)?,
        failed: to_u64(row, 11)?,
        lease: row.get::<_, Option<i64>>(12)?.map(i64::cast_unsigned),
        node: row.get(13)?,
        instance: row.get(14)?,
    })
}

fn to_u64(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0).cast_unsigned())
}

/// A generation uses all 64 bits.
const fn bits(value: u64) -> i64 {
    value.cast_signed()
}
