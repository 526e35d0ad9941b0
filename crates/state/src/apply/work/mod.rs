//! Owns the effects of the commands about the work of a divided job: opening it, pairs, leases, and its end.
//! See `lease` for leases, `settle` for settlements, and `rows` for rows.
//!
//! A lease is identified by the index of its command. A holder under another lease, or without one, cannot change an item. Therefore an
//! item is settled once, even if commands are repeated or reordered. Identity of an item: kind, root, path, share or offset, generation
//! of the file. Repeated finds of a scan are ignored: a settled item is kept until the scan that found it is settled.

mod lease;
mod rows;
mod settle;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::notices::Notices;
use super::{Context, Stop};
use crate::bounds;
use crate::model::{
    CommandError, Effect, Job, LEVEL_CLOSES, OpenWork, Peer, ROOTS_MAX, SetPairs, TARGETS_MAX,
    Taken, WorkOp,
};
use crate::read::{committed_level, job_by_id};
use rows::{Kind, New, State, WorkRow};

/// Bounds of a part's length in bytes.
const PART_BYTES: std::ops::RangeInclusive<u64> = 1..=1 << 50;
/// Nodes of the source of one job.
const PAIRS_MAX: usize = 1_024;
/// Most numbers of an observation, by which nodes compare their sources.
const OBSERVATION_MAX: usize = 64;
/// Items that the end of a job removes at once; the rest is deleted with old history.
const REMOVED_MAX: i64 = 10_000;

/// Changes the work of one job.
pub(super) fn change(context: &Context<'_>, id: &str, op: &WorkOp) -> Result<Effect, Stop> {
    if let WorkOp::Open(open) = op {
        return self::open(context, id, open);
    }
    let mut work =
        WorkRow::find(context.db, id)?.ok_or_else(|| CommandError::not_found("work of job", id))?;
    let effect = match op {
        WorkOp::Open(_) => Effect::Done,
        WorkOp::Pairs(set) => {
            let job = moving(context.db, &work, set.epoch)?;
            set_pairs(&mut work, set)?;
            Notices(context).job(&job, false)?;
            Effect::Done
        }
        WorkOp::Decline { epoch, node, why } => {
            let job = moving(context.db, &work, *epoch)?;
            bounds::name("node", node)?;
            super::jobs::check_reason(why)?;
            let targets = &mut work.work.targets;
            targets.declined.retain(|(declined, _)| declined != node);
            targets.declined.push((node.clone(), why.clone()));
            bounds::count("nodes that decline", targets.declined.len(), PAIRS_MAX)?;
            work.work.pairs.retain(|pair| pair.node != *node);
            Notices(context).job(&job, false)?;
            Effect::Done
        }
        WorkOp::Lease(take) => {
            moving(context.db, &work, take.epoch)?;
            lease::lease(context, &mut work, take)?
        }
        WorkOp::Found {
            number,
            lease,
            finds,
        } => settle::add_finds(context.db, &mut work, (*number, *lease), finds)?,
        WorkOp::Settle(ends) => settle::settle(context, &mut work, ends)?,
        WorkOp::Return { node } => {
            bounds::name("node", node)?;
            let items = rows::return_of(context.db, node, Some(work.id), None)?;
            Effect::Settled { items }
        }
    };
    work.save(context.db)?;
    Ok(effect)
}

/// Returns the items of earlier runs of a node; without an instance, returns all items of the node.
pub(super) fn return_all(
    context: &Context<'_>,
    node: &str,
    but: Option<&str>,
) -> Result<u64, Stop> {
    for mut work in rows::held_by(context.db, node, but)? {
        // Late writes of the node must not change finished files of others.
        let taken = &mut work.work.targets.taken;
        taken.retain(|taken| taken.node != node);
        taken.push(Taken {
            node: node.to_owned(),
            index: context.index,
        });
        work.save(context.db)?;
    }
    rows::return_of(context.db, node, None, but)
}

/// Ends the work of a job that has ended.
pub(super) fn end(db: &Connection, id: &str) -> Result<(), Stop> {
    let Some(work) = WorkRow::find(db, id)? else {
        return Ok(());
    };
    db.prepare_cached("DELETE FROM work WHERE job = ?1")?
        .execute([id])?;
    db.prepare_cached(
        "DELETE FROM work_items WHERE work = ?1 AND number IN \
             (SELECT number FROM work_items WHERE work = ?1 ORDER BY number LIMIT ?2)",
    )?
    .execute(params![work.id, REMOVED_MAX])?;
    Ok(())
}

/// Removes items whose work has ended, a bounded number of them.
pub(super) fn prune(db: &Connection) -> Result<bool, Stop> {
    let work: Option<i64> = db
        .prepare_cached(
            "SELECT work FROM work_items WHERE work NOT IN (SELECT id FROM work) ORDER BY work LIMIT 1",
        )?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(work) = work else {
        return Ok(false);
    };
    db.prepare_cached(
        "DELETE FROM work_items WHERE work = ?1 AND number IN \
             (SELECT number FROM work_items WHERE work = ?1 ORDER BY number LIMIT ?2)",
    )?
    .execute(params![work, REMOVED_MAX])?;
    Ok(true)
}

/// Opens the work of a job, or takes it over in a higher epoch.
fn open(context: &Context<'_>, id: &str, open: &OpenWork) -> Result<Effect, Stop> {
    bounds::name("claim", &open.claim)?;
    bounds::count("roots", open.roots.len(), ROOTS_MAX)?;
    if open.roots.is_empty() || !PART_BYTES.contains(&open.part_bytes) {
        let what = "work must have a root, and parts of 1 byte to 1 PiB";
        return Err(CommandError::invalid("roots", what).into());
    }
    for root in &open.roots {
        bounds::text("source", &root.source)?;
        bounds::text("file", root.file.as_deref().unwrap_or_default())?;
        bounds::text("destination", &root.destination)?;
        bounds::count("sight", root.observation.len(), OBSERVATION_MAX)?;
    }
    let job = job_by_id(context.db, id)?.ok_or_else(|| CommandError::not_found("job", id))?;
    check_epoch(&job, open.epoch)?;
    if let Some(mut work) = WorkRow::find(context.db, id)? {
        if work.work.epoch > open.epoch {
            return Err(stale(id, open.epoch, work.work.epoch).into());
        }
        if work.work.epoch < open.epoch {
            work.work.epoch = open.epoch;
            work.work.pairs.clear();
            // A claim of this epoch will fence all earlier ones, at each reachable node of the destination.
            work.work.targets.waits = true;
            work.work.targets.taken.clear();
            work.work.targets.declined.clear();
            rows::return_of_work(context.db, work.id)?;
            if work.work.is_done() {
                close_again(context.db, &mut work)?;
            }
        }
        work.work.trouble = None;
        work.save(context.db)?;
    } else {
        let reports_names = committed_level(context.db)? >= LEVEL_CLOSES;
        let mut work = WorkRow::new(context.index, id, open, reports_names);
        work.insert(context.db)?;
        for root in 0..u32::try_from(open.roots.len()).unwrap_or(u32::MAX) {
            let scan = New {
                root,
                pieces: 1,
                ..New::of(Kind::Scan, State::Ready)
            };
            work.work.open += u64::from(work.add(context.db, &scan)?.is_some());
        }
        add_closes(context.db, &mut work, State::Waits)?;
        work.save(context.db)?;
    }
    Notices(context).job(&job, false)?;
    Ok(Effect::Done)
}

/// The job continues after its end, for failed entries that may succeed now.
fn close_again(db: &Connection, work: &mut WorkRow) -> Result<(), Stop> {
    for closed in std::mem::take(&mut work.work.closed) {
        let counts = &mut work.work.counts;
        counts.files = counts.files.saturating_add(closed.files);
        counts.bytes = counts.bytes.saturating_add(closed.bytes);
    }
    add_closes(db, work, State::Ready)
}

fn add_closes(db: &Connection, work: &mut WorkRow, state: State) -> Result<(), Stop> {
    for root in 0..u32::try_from(work.work.roots.len()).unwrap_or(u32::MAX) {
        let close = New {
            root,
            ..New::of(Kind::Close, state)
        };
        work.work.closes += u64::from(work.add(db, &close)?.is_some());
    }
    Ok(())
}

fn check_target(target: &Peer) -> Result<(), Stop> {
    bounds::name("name", &target.name)?;
    bounds::name("identity", &target.identity)?;
    bounds::count("addresses", target.addresses.len(), bounds::LIST_MAX)?;
    for address in &target.addresses {
        bounds::text("address", address)?;
    }
    Ok(())
}

fn set_pairs(work: &mut WorkRow, set: &SetPairs) -> Result<(), Stop> {
    bounds::count("pairs", set.pairs.len(), PAIRS_MAX)?;
    bounds::count("targets", set.targets.len(), TARGETS_MAX)?;
    for target in &set.targets {
        check_target(target)?;
    }
    for pair in &set.pairs {
        bounds::name("node", &pair.node)?;
        bounds::count("to", pair.to.len(), TARGETS_MAX)?;
        let is_known = |to: &u32| usize::try_from(*to).is_ok_and(|to| to < set.targets.len());
        if !pair.to.iter().all(is_known) {
            return Err(CommandError::invalid("to", "is none of the targets").into());
        }
    }
    work.work.pairs.clone_from(&set.pairs);
    let targets = &mut work.work.targets;
    targets.nodes.clone_from(&set.targets);
    targets.waits = set.waits;
    targets.taken.retain(|taken| !set.fenced.contains(taken));
    Ok(())
}

/// The job, if a node works on it in this epoch.
fn moving(db: &Connection, work: &WorkRow, epoch: u64) -> Result<Job, Stop> {
    let id = &work.work.job;
    let job = job_by_id(db, id)?.ok_or_else(|| CommandError::not_found("job", id))?;
    check_epoch(&job, epoch)?;
    if work.work.epoch != epoch {
        return Err(stale(id, epoch, work.work.epoch).into());
    }
    Ok(job)
}

fn check_epoch(job: &Job, epoch: u64) -> Result<(), CommandError> {
    if job.epoch != epoch || !job.state.moves() {
        return Err(stale(&job.id, epoch, job.epoch));
    }
    Ok(())
}

fn stale(id: &str, seen: u64, now: u64) -> CommandError {
    CommandError::Stale {
        id: id.to_owned(),
        given: seen,
        now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_ended_works_are_removed_by_their_number() {
        let db = Connection::open_in_memory().expect("open");
        db.execute_batch(include_str!("../../schema/v3.sql"))
            .expect("the tables");
        // An index by the parent has these items in the opposite order.
        db.execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n <= ?1) \
             INSERT INTO work_items (work, number, kind, state, root, path, piece, pieces, bytes, \
                 generation, parent, waits, failed) \
             SELECT 7, n, 1, 0, 0, x'61', n, 1, 1, 0, ?1 + 1 - n, 0, 0 FROM n",
            [REMOVED_MAX],
        )
        .expect("items");
        assert!(matches!(prune(&db), Ok(true)));
        let left: i64 = db
            .query_row("SELECT number FROM work_items", [], |row| row.get(0))
            .expect("one item");
        assert_eq!(left, REMOVED_MAX + 1);
        assert!(matches!(prune(&db), Ok(true)));
        assert!(matches!(prune(&db), Ok(false)));
    }
}
