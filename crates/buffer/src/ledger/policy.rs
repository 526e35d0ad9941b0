//! Owns the choice of volumes for new extents, of extents to evict, and of requests to grant. Keeps nothing.

use std::time::Duration;

use super::room::Reason;
use super::shelf::Shelf;
use super::status;
use super::words::{Notice, Settings};
use crate::extent::{State, Step, VolumeIndex};
use crate::health::Health;

/// Extents evicted at once when a writer needs a slot.
const EVICT_AT_ONCE: usize = 8;

/// The volume for the next extent: the one with the largest free share, and a slow one only if it has nothing else to do.
pub(super) fn choose(
    shelf: &Shelf,
    now: Duration,
    path_bytes: usize,
) -> Result<VolumeIndex, Reason> {
    let mut best: Option<(u64, VolumeIndex)> = None;
    let mut reason = Reason::VolumesOut;
    for rack in shelf.racks.iter().filter(|rack| !rack.watch.is_out()) {
        let is_slow = rack.watch.health() == Health::Slow;
        let hindrance = if !rack.has_name_room(path_bytes) {
            Reason::Names
        } else if now < rack.full_until {
            Reason::FileSystemFull
        } else if !rack.has_free() {
            Reason::Freeing
        } else if is_slow && !rack.under_way.is_empty() {
            Reason::SlowVolumes
        } else {
            let slots = u64::from(rack.len().max(1));
            let free = u64::from(rack.count(State::Free)) * 1_000_000 / slots;
            let score = if is_slow { 0 } else { free + 1 };
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, rack.index));
            }
            continue;
        };
        // Eviction will make room, so this reason comes before all others.
        if reason != Reason::Freeing {
            reason = hindrance;
        }
    }
    best.map(|(_, volume)| volume).ok_or(reason)
}

/// Evicts down to the low watermark when the use is above the high one.
pub(super) fn evict(shelf: &mut Shelf, settings: &Settings) {
    let (used, all) = status::used(shelf);
    if used * 1000 <= all * u64::from(settings.high) {
        return;
    }
    for _ in all * u64::from(settings.low) / 1000..used {
        let Some(place) = shelf.least_recent() else {
            return;
        };
        shelf.step(place, Step::Dropped);
    }
}

/// Evicts some extents, unless slots are being freed already.
pub(super) fn make_room(shelf: &mut Shelf) {
    let freeing: u32 = shelf
        .racks
        .iter()
        .map(|rack| rack.count(State::Freeing))
        .sum();
    if freeing > 0 {
        return;
    }
    for _ in 0..EVICT_AT_ONCE {
        let Some(place) = shelf.least_recent() else {
            return;
        };
        shelf.step(place, Step::Dropped);
    }
}

/// Grants waiting requests in their order.
pub(super) fn grant(shelf: &mut Shelf) {
    while shelf.room.is_waited_for() {
        let available = status::available(shelf);
        let Some(id) = shelf.room.poll_grant(available) else {
            return;
        };
        shelf.notices.push_back(Notice::Granted(id));
    }
}
