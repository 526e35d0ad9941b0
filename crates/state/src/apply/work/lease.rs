//! Leases items of a divided job to a node.
//! Takes none back: `settle` and `rows` do.

use std::cmp::Reverse;

use godwit_seeded::{STEP, mix};

use super::super::{Context, Stop, sql};
use super::rows::{self, Kind, Row, WorkRow};
use crate::bounds;
use crate::model::{
    Effect, LEVEL_REST, Pair, TakeWork, Task, WORK_PATHS_BYTES_MAX, WorkItem, WorkPart, WorkPath,
};
use crate::read::committed_level;

/// If more items than this are ready, besides scans, no scan is leased, because scans would find more of them.
const READY_MAX: i64 = 10_000;
/// Largest number of assembles in one lease, and largest number of parts of all its assembles.
const ASSEMBLES_MAX: i64 = 64;
const LEASED_PARTS_MAX: usize = 2_048;
/// Parts and scans of one lease.
const LEASED_MAX: usize = 256;

/// A pseudo-random order that is the same at each voter.
const fn scattered(number: u64) -> u64 {
    mix(number.wrapping_add(STEP))
}

/// Leases items to a node: first files that can be assembled, then large parts, then scans. A close is leased alone.
pub(super) fn lease(
    context: &Context<'_>,
    work: &mut WorkRow,
    take: &TakeWork,
) -> Result<Effect, Stop> {
    bounds::name("node", &take.runner.node)?;
    bounds::name("instance", &take.runner.instance)?;
    let lease = context.index;
    let mut items = Vec::new();
    // Below this level, a resting node could lease, and parts were leased in the order of the file.
    let is_new = committed_level(context.db)? >= LEVEL_REST;
    let sends = |pair: &&Pair| !is_new || !pair.to.is_empty();
    let pairs = work.work.pairs.iter().filter(sends);
    let is_paired = pairs.clone().any(|pair| pair.node == take.runner.node);
    let nodes = pairs.count().max(1);
    if !is_paired {
        return Ok(Effect::Leased { lease, items });
    }
    let mut paths = 0;
    let mut parts = 0;
    let is_fenced = work.work.targets.is_fenced();
    let assembles_max = if is_fenced { ASSEMBLES_MAX } else { 0 };
    for row in rows::ready(context.db, work.id, Kind::Assemble, assembles_max)? {
        let held = rows::parts_of(context.db, work.id, row.number)?;
        if !items.is_empty() && parts + held.len() > LEASED_PARTS_MAX {
            break;
        }
        parts += held.len();
        push(&mut items, &mut paths, &row, held);
    }
    // A node gets at most an even share of the ready items, so that the last items are spread over all nodes.
    let mut bytes = 0_u64;
    let mut waiting = rows::ready(context.db, work.id, Kind::Part, limit(LEASED_MAX))?;
    // Among parts of the same size: an eavesdropper on one link cannot tell which parts of a file pass there.
    if is_new {
        waiting.sort_by_key(|row| (Reverse(row.bytes), scattered(lease ^ row.number)));
    }
    let share = waiting.len().div_ceil(nodes);
    for row in waiting.into_iter().take(share) {
        bytes = bytes.saturating_add(row.bytes);
        if (bytes > take.bytes_max && bytes > row.bytes) || is_full(&items, paths) {
            break;
        }
        push(&mut items, &mut paths, &row, Vec::new());
    }
    if !rows::has_more_ready(context.db, work.id, READY_MAX)? {
        let scans = usize::try_from(take.scans_max).unwrap_or(LEASED_MAX);
        let looked_at = limit(scans.saturating_mul(nodes).min(LEASED_MAX));
        let waiting = rows::ready(context.db, work.id, Kind::Scan, looked_at)?;
        let share = waiting.len().div_ceil(nodes).min(scans);
        for row in waiting.into_iter().take(share) {
            if is_full(&items, paths) {
                break;
            }
            push(&mut items, &mut paths, &row, Vec::new());
        }
    }
    let waits = work.work.closes_alone() && rows::is_closing(context.db, work.id)?;
    if items.is_empty() && is_fenced && !waits {
        for row in rows::ready(context.db, work.id, Kind::Close, 1)? {
            push(&mut items, &mut paths, &row, Vec::new());
        }
    }
    for item in &items {
        rows::give(context.db, work.id, item.number, lease, &take.runner)?;
    }
    work.work.counts.leases += u64::from(!items.is_empty());
    Ok(Effect::Leased { lease, items })
}

fn is_full(items: &[WorkItem], paths: usize) -> bool {
    items.len() >= LEASED_MAX || paths >= WORK_PATHS_BYTES_MAX
}

fn push(items: &mut Vec<WorkItem>, paths: &mut usize, row: &Row, parts: Vec<WorkPart>) {
    *paths += row.path.len();
    let path = WorkPath(row.path.clone());
    let task = match row.kind {
        Kind::Assemble => Task::Assemble {
            path,
            generation: row.generation,
            parts,
        },
        Kind::Part => Task::Part {
            path,
            offset: row.piece,
            bytes: row.bytes,
            generation: row.generation,
        },
        Kind::Scan => Task::Scan {
            path,
            share: u32::try_from(row.piece).unwrap_or(u32::MAX),
            shares: u32::try_from(row.pieces).unwrap_or(u32::MAX),
        },
        // In a close, the bytes count the directories that it has left to other closes.
        Kind::Close if row.path.is_empty() && row.pieces <= 1 && row.bytes == 0 => Task::Close {},
        Kind::Close => Task::Region {
            path,
            share: u32::try_from(row.piece).unwrap_or(u32::MAX),
            shares: u32::try_from(row.pieces.max(1)).unwrap_or(u32::MAX),
            flat: row.bytes > 0,
        },
    };
    items.push(WorkItem {
        number: row.number,
        root: row.root,
        task,
    });
}

fn limit(count: usize) -> i64 {
    sql(count as u64)
}
