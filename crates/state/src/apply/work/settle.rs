//! Applies changes of items: the finds of scans, and the ends of items. Leases no item.

mod closed;

use rusqlite::Connection;

use super::super::{Context, Stop};
use super::rows::{self, Kind, New, Row, State, WorkRow};
use crate::bounds;
use crate::model::{
    CLOSE_SHARES_MAX, Closed, CommandError, Effect, FILE_PARTS_MAX, FOUND_ITEMS_MAX, Found,
    LEVEL_AFFINITY, LEVEL_FEWER_PARTS, SHARES_MAX, Settle, Settlement, Taken, WORK_LIST_MAX,
    WORK_PATHS_BYTES_MAX, WorkPath,
};
use crate::read::committed_level;

/// Longest digest as text.
const DIGEST_BYTES_MAX: usize = 128;
/// Longest path below a root.
const PATH_BYTES_MAX: usize = 4_096;
/// Open items multiplied by the most parts of a further file. Many sparse files would have millions of parts otherwise.
const OPEN_TIMES_PARTS: u64 = 1 << 24;
/// Most parts of a file, however many items are open.
const PARTS_ALWAYS: u64 = 4;
/// Most bytes of groups of failures, and their texts, in the report of one close.
const CLOSED_BYTES_MAX: usize = 192 << 10;

/// Adds the finds of the scan of an item, if the node still holds the item.
pub(super) fn add_finds(
    db: &Connection,
    work: &mut WorkRow,
    (number, lease): (u64, u64),
    finds: &[Found],
) -> Result<Effect, Stop> {
    bounds::count("finds", finds.len(), WORK_LIST_MAX)?;
    let bytes: usize = finds.iter().map(|find| find.path().0.len()).sum();
    bounds::count("paths of finds", bytes, WORK_PATHS_BYTES_MAX)?;
    let is_close = matches!(finds, [Found::Close { .. }, ..]);
    let is_alike = |find: &Found| matches!(find, Found::Close { .. }) == is_close;
    if !finds.iter().all(is_alike) {
        return Err(CommandError::invalid("finds", "are of a scan or of a close").into());
    }
    let is_bounded = committed_level(db)? >= LEVEL_FEWER_PARTS;
    let parts_max = match is_bounded {
        true => parts_max(work.work.open),
        false => FILE_PARTS_MAX,
    };
    if is_bounded {
        check_items(work, finds, parts_max)?;
    }
    let kind = if is_close { Kind::Close } else { Kind::Scan };
    let scan = rows::find(db, work.id, number)?;
    let holds = |row: &Row| {
        // A close hands its regions to other leases once. A second time, regions that are settled would be offered again.
        let is_new = !is_close || row.bytes == 0;
        row.kind == kind && row.state == State::Leased && row.lease == Some(lease) && is_new
    };
    let Some(scan) = scan.filter(holds) else {
        return Ok(Effect::Settled { items: 0 });
    };
    let mut items = 0;
    for find in finds {
        if find.path().0.len() > PATH_BYTES_MAX {
            return Err(CommandError::invalid("path", "is too long").into());
        }
        items += match find {
            Found::Scan { path, shares } => {
                if !(1..=SHARES_MAX).contains(shares) {
                    let what = format!("a directory must have 1 to {SHARES_MAX} shares");
                    return Err(CommandError::invalid("shares", what).into());
                }
                let mut added = 0;
                for share in 0..*shares {
                    let new = New {
                        root: scan.root,
                        path: &path.0,
                        piece: share.into(),
                        pieces: (*shares).into(),
                        parent: number,
                        ..New::of(Kind::Scan, State::Ready)
                    };
                    added += u64::from(work.add(db, &new)?.is_some());
                }
                added
            }
            Found::Close { path, shares } => closes(db, work, &scan, (path, *shares))?,
            Found::File {
                path,
                bytes,
                generation,
            } => {
                let found = (path.0.as_slice(), *bytes, *generation);
                file(db, work, &scan, found, parts_max)?
            }
        };
    }
    match is_close {
        true => {
            work.work.closes += items;
            rows::wait_for_closes(db, work.id, number, items)?;
        }
        false => work.work.open += items,
    }
    Ok(Effect::Settled { items })
}

/// Most parts of a file while this many items are open.
fn parts_max(open: u64) -> u64 {
    (OPEN_TIMES_PARTS / open.max(1)).clamp(PARTS_ALWAYS, FILE_PARTS_MAX)
}

/// Refuses finds that add too many items at once. Meanwhile the state would take no other command.
fn check_items(work: &WorkRow, finds: &[Found], parts_max: u64) -> Result<(), CommandError> {
    let all = finds
        .iter()
        .map(|find| adds(work, find, parts_max))
        .fold(0, u64::saturating_add);
    if all > FOUND_ITEMS_MAX {
        let what = format!("add {all} items; at most {FOUND_ITEMS_MAX}");
        return Err(CommandError::invalid("finds", what));
    }
    Ok(())
}

/// Items that a find adds, if none of them exists.
fn adds(work: &WorkRow, find: &Found, parts_max: u64) -> u64 {
    match find {
        Found::Scan { shares, .. } | Found::Close { shares, .. } => (*shares).into(),
        Found::File { bytes, .. } => {
            let part = part_bytes(work.part_bytes, *bytes, parts_max);
            bytes.div_ceil(part).saturating_add(1)
        }
    }
}

/// Adds closes for regions of a close's region: a directory, or shares of its directories.
fn closes(
    db: &Connection,
    work: &mut WorkRow,
    close: &Row,
    (path, shares): (&WorkPath, u32),
) -> Result<u64, Stop> {
    let (first, of) = match path.0 == close.path {
        true => (close.piece, close.pieces.max(1)),
        false => (0, 1),
    };
    let pieces = of.saturating_mul(shares.into());
    if shares == 0 || pieces > CLOSE_SHARES_MAX.into() || (path.0 == close.path && shares == 1) {
        let what = "a close is not divided so";
        return Err(CommandError::invalid("shares", what).into());
    }
    let mut added = 0;
    for share in 0..u64::from(shares) {
        let new = New {
            root: close.root,
            path: &path.0,
            piece: first + of * share,
            pieces,
            parent: close.number,
            ..New::of(Kind::Close, State::Ready)
        };
        added += u64::from(work.add(db, &new)?.is_some());
    }
    Ok(added)
}

/// Divides a file into parts: aligned powers of two, the last one up to the end of the file.
fn file(
    db: &Connection,
    work: &mut WorkRow,
    scan: &Row,
    (path, bytes, generation): (&[u8], u64, u64),
    parts_max: u64,
) -> Result<u64, Stop> {
    if bytes == 0 || bytes > i64::MAX.cast_unsigned() {
        return Err(CommandError::invalid("bytes", "no such file has parts").into());
    }
    let part = part_bytes(work.part_bytes, bytes, parts_max);
    let count = bytes.div_ceil(part);
    let assemble = New {
        root: scan.root,
        path,
        bytes,
        generation,
        parent: scan.number,
        waits: count,
        ..New::of(Kind::Assemble, State::Waits)
    };
    let Some(assemble) = work.add(db, &assemble)? else {
        return Ok(0);
    };
    for number in 0..count {
        let offset = number * part;
        let new = New {
            root: scan.root,
            path,
            piece: offset,
            bytes: part.min(bytes - offset),
            generation,
            parent: assemble,
            ..New::of(Kind::Part, State::Ready)
        };
        work.add(db, &new)?;
    }
    Ok(count + 1)
}

/// Length of the parts of a file.
fn part_bytes(least: u64, bytes: u64, parts_max: u64) -> u64 {
    let least = least.max(bytes.div_ceil(parts_max));
    least.checked_next_power_of_two().unwrap_or(1 << 62)
}

/// Settles the items that the node still holds under this lease.
pub(super) fn settle(
    context: &Context<'_>,
    work: &mut WorkRow,
    ends: &Settle,
) -> Result<Effect, Stop> {
    bounds::count("items", ends.items.len(), WORK_LIST_MAX)?;
    if let Some(trouble) = &ends.trouble {
        super::super::jobs::check_reason(trouble)?;
    }
    let (mut items, mut settled) = (0, 0_u64);
    for one in &ends.items {
        let row = rows::find(context.db, work.id, one.number)?.filter(|row| {
            row.state == State::Leased
                && row.lease == Some(ends.lease)
                && row.node.as_ref() == Some(&ends.runner.node)
                && row.instance.as_ref() == Some(&ends.runner.instance)
        });
        let Some(row) = row else {
            continue;
        };
        items += 1;
        settled += u64::from(item(context.db, work, &row, &one.outcome)?);
    }
    // A program of an earlier level does not report that a transfer was cut off.
    if settled > 0 || (items > 0 && ends.looked.is_some()) {
        let counts = &mut work.work.counts;
        counts.files = counts.files.saturating_add(ends.files);
        counts.bytes = counts.bytes.saturating_add(ends.bytes);
        counts.looked = counts.looked.plus(ends.looked.unwrap_or_default());
    }
    if ends.cut {
        let taken = &mut work.work.targets.taken;
        taken.retain(|taken| taken.node != ends.runner.node);
        taken.push(Taken {
            node: ends.runner.node.clone(),
            index: context.index,
        });
    }
    if items > 0 {
        work.work.trouble.clone_from(&ends.trouble);
    }
    if work.work.open == 0 {
        rows::free_closes(context.db, work.id)?;
    }
    Ok(Effect::Settled { items })
}

/// Settles one item, or returns it. Returns whether it was settled.
fn item(
    db: &Connection,
    work: &mut WorkRow,
    row: &Row,
    outcome: &Settlement,
) -> Result<bool, Stop> {
    let counts = &mut work.work.counts;
    match (row.kind, outcome) {
        (_, Settlement::Back {}) => {
            // A close that has left regions to others is leased again after them.
            let state = match row.waits {
                0 => State::Ready,
                _ => State::Waits,
            };
            rows::set(db, work.id, row.number, state, None)?;
            let has_first_node = matches!(row.kind, Kind::Part | Kind::Scan);
            if has_first_node && committed_level(db)? >= LEVEL_AFFINITY {
                rows::returned_by(db, work.id, row)?;
            }
            return Ok(false);
        }
        (Kind::Scan, Settlement::Done { .. } | Settlement::Failed {}) => {
            match outcome {
                Settlement::Failed {} => counts.scans_failed += 1,
                _ => counts.scans += 1,
            }
            work.work.open -= 1;
            leave(db, work.id, row)?;
        }
        (
            Kind::Part,
            Settlement::Done {
                digest: Some(digest),
            },
        ) => {
            bounds::count("digest", digest.len(), DIGEST_BYTES_MAX)?;
            counts.parts += 1;
            rows::set(db, work.id, row.number, State::Settled, Some(digest))?;
            parts_settled(db, work, row.parent, 1, 0)?;
        }
        (Kind::Part, Settlement::Failed {}) => {
            rows::set(db, work.id, row.number, State::Settled, None)?;
            // The other parts are not needed any more.
            let dropped = rows::drop_ready_parts(db, work.id, row.parent)?;
            work.work.counts.parts_left += 1 + dropped;
            parts_settled(db, work, row.parent, 1 + dropped, 1 + dropped)?;
        }
        (Kind::Assemble, Settlement::Done { .. } | Settlement::Failed {}) => {
            let is_done = !matches!(outcome, Settlement::Failed {});
            assembled(db, work, row, is_done)?;
        }
        (Kind::Close, Settlement::Closed(closed)) => {
            check_closed(closed, row.root)?;
            counts.closes += u64::from(counts.reports_names);
            closed::add(&mut work.work.closed, closed);
            work.work.closes -= 1;
            rows::remove(db, work.id, row.number)?;
            rows::count_parts(db, work.id, row.parent, 1, 0)?;
            let around = rows::find(db, work.id, row.parent)?;
            if around.is_some_and(|around| around.waits == 0 && around.state == State::Waits) {
                rows::set(db, work.id, row.parent, State::Ready, None)?;
            }
        }
        _ => {
            let what = "items of this kind cannot end like this";
            return Err(CommandError::invalid("outcome", what).into());
        }
    }
    Ok(true)
}

/// Counts settled parts of a file. After the last one, the file can be assembled, or is given up.
fn parts_settled(
    db: &Connection,
    work: &mut WorkRow,
    assemble: u64,
    settled: u64,
    failed: u64,
) -> Result<(), Stop> {
    work.work.open -= settled;
    rows::count_parts(db, work.id, assemble, settled, failed)?;
    let whole = rows::find(db, work.id, assemble)?.filter(|row| row.waits == 0);
    match whole {
        Some(row) if row.failed > 0 => assembled(db, work, &row, false),
        Some(row) => rows::set(db, work.id, row.number, State::Ready, None),
        None => Ok(()),
    }
}

/// A file is assembled, or abandoned.
fn assembled(db: &Connection, work: &mut WorkRow, row: &Row, is_done: bool) -> Result<(), Stop> {
    match is_done {
        true => work.work.counts.assembled += 1,
        false => work.work.counts.files_left += 1,
    }
    work.work.open -= 1;
    leave(db, work.id, row)
}

/// Removes a settled item, with the items kept for it. The item stays as long as the scan that found it could find it again.
fn leave(db: &Connection, work: i64, row: &Row) -> Result<(), Stop> {
    rows::forget_settled(db, work, row.number)?;
    let finder = rows::find(db, work, row.parent)?;
    match finder.is_some_and(|finder| finder.state != State::Settled) {
        true => rows::set(db, work, row.number, State::Settled, None),
        false => rows::remove(db, work, row.number),
    }
}

fn check_closed(closed: &Closed, root: u32) -> Result<(), Stop> {
    if closed.root != root {
        return Err(CommandError::invalid("root", "is the root of another close").into());
    }
    bounds::spec("summary", &closed.summary)?;
    bounds::count(
        "failures",
        closed.failures.len(),
        bounds::FAILURE_GROUPS_MAX,
    )?;
    let bytes = serde_json::to_string(closed)?.len();
    Ok(bounds::count("bytes of a close", bytes, CLOSED_BYTES_MAX)?)
}
