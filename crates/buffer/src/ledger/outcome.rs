//! Owns the consequences of results: durable extents, extents that are given up, and volumes that are slow, fail or hang. Keeps nothing.

use std::time::Duration;

use super::shelf::Shelf;
use super::words::Notice;
use crate::extent::{Flow, Place, State, Step, Ticket, VolumeIndex};
use crate::health::{Cause, HUNG_AFTER, Health};

/// An extent is durable now.
pub(super) fn settle_written(shelf: &mut Shelf, ticket: Ticket, now: Duration) {
    let place = ticket.place;
    let Some(extent) = shelf.current(ticket) else {
        return;
    };
    let (flow, is_unwanted) = (extent.flow, extent.is_unwanted);
    shelf.change(place, |extent| {
        extent.since = now;
        extent.reservation = None;
    });
    shelf.step(place, Step::Committed(flow));
    if is_unwanted && !shelf.step(place, Step::Dropped) {
        shelf.step(place, Step::Abandoned);
    }
}

/// Releases extents: clean extents at once, and extents in an operation after it. With `with_dirty`, the only copies are released, too.
pub(super) fn give_up(shelf: &mut Shelf, places: Vec<Place>, with_dirty: bool) {
    for place in places {
        let Some(extent) = shelf.get(place) else {
            continue;
        };
        let may_go = extent.flow == Flow::Out || with_dirty;
        match extent.state {
            State::Clean => {
                shelf.step(place, Step::Dropped);
            }
            State::Dirty | State::Lost if with_dirty => {
                shelf.step(place, Step::Abandoned);
            }
            State::Filling | State::Written | State::Draining if may_go => {
                shelf.change(place, |extent| extent.is_unwanted = true);
            }
            _ => {}
        }
    }
}

/// Forgets an operation under way. Returns the time at which it began, and the number of operations on the volume, this one included.
pub(super) fn end_operation(shelf: &mut Shelf, ticket: Ticket) -> Option<(Duration, u32)> {
    let rack = shelf.rack_mut(ticket.place.volume)?;
    let at_once = u32::try_from(rack.under_way.len()).unwrap_or(u32::MAX);
    let at = rack.under_way.iter().position(|(one, _)| *one == ticket)?;
    Some((rack.under_way.swap_remove(at).1, at_once))
}

/// Judges a volume by an operation that ended.
pub(super) fn judge(
    shelf: &mut Shelf,
    now: Duration,
    volume: VolumeIndex,
    bytes: u32,
    ended: Option<(Duration, u32)>,
    is_good: bool,
) {
    let Some(rack) = shelf.rack_mut(volume) else {
        return;
    };
    let turned = match (is_good, ended) {
        (true, Some((begun, at_once))) => {
            let took = now.saturating_sub(begun);
            rack.watch.handle_done(u64::from(bytes), took, at_once)
        }
        (true, None) => None,
        (false, _) => rack.watch.handle_error(now),
    };
    match turned {
        Some(health @ Health::Out(_)) => shelf.strand(volume, health),
        Some(health) => shelf.notices.push_back(Notice::Health(volume, health)),
        None => {}
    }
}

/// Takes volumes out whose operations do not end.
pub(super) fn take_out_hung(shelf: &mut Shelf, now: Duration) {
    for at in 0..shelf.racks.len() {
        let rack = &mut shelf.racks[at];
        let hangs = |(_, begun): &(Ticket, Duration)| now.saturating_sub(*begun) > HUNG_AFTER;
        if rack.under_way.iter().any(hangs)
            && let Some(health) = rack.watch.take_out(now, Cause::Hung)
        {
            let volume = rack.index;
            shelf.strand(volume, health);
        }
    }
}
