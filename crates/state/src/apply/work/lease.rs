//! Leases items of a divided job to a node.
//! Takes none back: `settle` and `rows` do.

use std::cmp::Reverse;

use godwit_seeded::{STEP, mix};
use rusqlite::Connection;

use super::super::{Context, Stop, sql};
use super::rows::{self, Kind, Row, WorkRow};
use crate::affinity::{Crew, LOOKED_AT_MAX, Spot};
use crate::bounds;
use crate::model::{
    Effect, LEVEL_AFFINITY, LEVEL_REST, Pair, TakeWork, Task, WORK_PATHS_BYTES_MAX, WorkItem,
    WorkPart, WorkPath,
};
use crate::read::{committed_level, crew_of};

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

/// Leases items to a node: first files that can be assembled, then large parts, then scans. A close is leased alone. For a job of a family,
/// items that another node gets first are leased if there is nothing else.
pub(super) fn lease(
    context: &Context<'_>,
    work: &mut WorkRow,
    take: &TakeWork,
) -> Result<Effect, Stop> {
    bounds::name("node", &take.runner.node)?;
    bounds::name("instance", &take.runner.instance)?;
    let lease = context.index;
    let mut basket = Basket::default();
    let level = committed_level(context.db)?;
    // Below this level, a resting node could lease, and parts were leased in the order of the file.
    let is_new = level >= LEVEL_REST;
    let sends = |pair: &&Pair| !is_new || !pair.to.is_empty();
    let pairs = work.work.pairs.iter().filter(sends);
    let is_paired = pairs.clone().any(|pair| pair.node == take.runner.node);
    let nodes = pairs.count().max(1);
    if !is_paired {
        let items = basket.items;
        return Ok(Effect::Leased { lease, items });
    }
    let is_fenced = work.work.targets.is_fenced();
    if is_fenced {
        basket.add_assembles(context.db, work)?;
    }
    let crew = match level >= LEVEL_AFFINITY {
        true => crew_of(context.db, &work.work, &take.runner.node)?,
        false => None,
    };
    let order = match (crew, is_new) {
        (Some(crew), _) => Order::Family(crew),
        (None, true) => Order::Scattered(lease),
        (None, false) => Order::Found,
    };
    let ready = Ready {
        db: context.db,
        work,
        order,
        nodes,
    };
    let (parts, scans) = (ready.parts()?, ready.scans(take)?);
    basket.add_parts(&parts.own, parts.share, take.bytes_max);
    basket.add_scans(&scans.own, scans.share);
    if basket.items.is_empty() {
        basket.add_parts(&parts.others, parts.share, take.bytes_max);
        basket.add_scans(&scans.others, scans.share);
    }
    let waits = work.work.closes_alone() && rows::is_closing(context.db, work.id)?;
    if basket.items.is_empty() && is_fenced && !waits {
        for row in rows::ready(context.db, work.id, Kind::Close, 1)? {
            basket.push(&row, Vec::new());
        }
    }
    let items = basket.items;
    for item in &items {
        rows::give(context.db, work.id, item.number, lease, &take.runner)?;
    }
    work.work.counts.leases += u64::from(!items.is_empty());
    Ok(Effect::Leased { lease, items })
}

/// The order in which parts and scans are leased.
enum Order {
    /// In the order in which they were found, the largest first.
    Found,
    /// The same, and parts of one size in random order: an eavesdropper on one link cannot tell which parts of a file pass there.
    Scattered(u64),
    /// In the order of all jobs of a family, the node's own items first.
    Family(Crew),
}

/// The ready items of a job, for one node.
struct Ready<'a> {
    db: &'a Connection,
    work: &'a WorkRow,
    order: Order,
    /// Nodes that lease items.
    nodes: usize,
}

/// Ready items of one kind.
#[derive(Default)]
struct Rows {
    own: Vec<Row>,
    /// Items that other nodes get first.
    others: Vec<Row>,
    /// An even share of all: the last items are spread over all nodes.
    share: usize,
}

impl Ready<'_> {
    fn parts(&self) -> Result<Rows, Stop> {
        self.rows(Kind::Part, LEASED_MAX)
    }

    fn scans(&self, take: &TakeWork) -> Result<Rows, Stop> {
        if rows::has_more_ready(self.db, self.work.id, READY_MAX)? {
            return Ok(Rows::default());
        }
        let scans = usize::try_from(take.scans_max).unwrap_or(LEASED_MAX);
        let looked_at = scans.saturating_mul(self.nodes).min(LEASED_MAX);
        let rows = self.rows(Kind::Scan, looked_at)?;
        Ok(Rows {
            share: rows.share.min(scans),
            ..rows
        })
    }

    fn rows(&self, kind: Kind, looked_at: usize) -> Result<Rows, Stop> {
        let looked_at = match self.order {
            Order::Family(_) => LOOKED_AT_MAX.into(),
            Order::Found | Order::Scattered(_) => limit(looked_at),
        };
        let mut ready = rows::ready(self.db, self.work.id, kind, looked_at)?;
        let share = ready.len().div_ceil(self.nodes);
        let (own, others) = match &self.order {
            Order::Family(crew) => {
                let portion = crew.portion(ready, spot);
                (portion.own, portion.others)
            }
            Order::Scattered(lease) if kind == Kind::Part => {
                ready.sort_by_key(|row| (Reverse(row.bytes), scattered(lease ^ row.number)));
                (ready, Vec::new())
            }
            Order::Found | Order::Scattered(_) => (ready, Vec::new()),
        };
        Ok(Rows { own, others, share })
    }
}

fn spot(row: &Row) -> Spot<'_> {
    Spot {
        root: row.root,
        path: &row.path,
        piece: row.piece,
        bytes: row.bytes,
        // A ready item has no holder.
        returned_by: row.node.as_deref(),
    }
}

/// The items of a lease.
#[derive(Default)]
struct Basket {
    items: Vec<WorkItem>,
    /// Bytes of their paths.
    paths: usize,
    /// Bytes of the parts among them.
    bytes: u64,
}

impl Basket {
    fn is_full(&self) -> bool {
        self.items.len() >= LEASED_MAX || self.paths >= WORK_PATHS_BYTES_MAX
    }

    /// Adds files whose parts are all there.
    fn add_assembles(&mut self, db: &Connection, work: &WorkRow) -> Result<(), Stop> {
        let mut parts = 0;
        for row in rows::ready(db, work.id, Kind::Assemble, ASSEMBLES_MAX)? {
            let held = rows::parts_of(db, work.id, row.number)?;
            if !self.items.is_empty() && parts + held.len() > LEASED_PARTS_MAX {
                break;
            }
            parts += held.len();
            self.push(&row, held);
        }
        Ok(())
    }

    /// Adds parts of at most `bytes_max`, but for the first part.
    fn add_parts(&mut self, rows: &[Row], most: usize, bytes_max: u64) {
        for row in rows.iter().take(most) {
            self.bytes = self.bytes.saturating_add(row.bytes);
            let is_first = self.bytes <= row.bytes;
            if (self.bytes > bytes_max && !is_first) || self.is_full() {
                break;
            }
            self.push(row, Vec::new());
        }
    }

    fn add_scans(&mut self, rows: &[Row], most: usize) {
        for row in rows.iter().take(most) {
            if self.is_full() {
                break;
            }
            self.push(row, Vec::new());
        }
    }

    fn push(&mut self, row: &Row, parts: Vec<WorkPart>) {
        self.paths += row.path.len();
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
            Kind::Close if row.path.is_empty() && row.pieces <= 1 && row.bytes == 0 => {
                Task::Close {}
            }
            Kind::Close => Task::Region {
                path,
                share: u32::try_from(row.piece).unwrap_or(u32::MAX),
                shares: u32::try_from(row.pieces.max(1)).unwrap_or(u32::MAX),
                flat: row.bytes > 0,
            },
        };
        self.items.push(WorkItem {
            number: row.number,
            root: row.root,
            task,
        });
    }
}

fn limit(count: usize) -> i64 {
    sql(count as u64)
}
