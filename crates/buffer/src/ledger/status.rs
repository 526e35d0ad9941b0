//! Owns the figures of a buffer: bytes by state, ages, room, and the files whose only copy cannot be had. Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::files::File;
use super::rack::Rack;
use super::room::Reason;
use super::shelf::Shelf;
use crate::extent::{FileKey, Keep, State, VolumeIndex};
use crate::health::Health;

/// Figures of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// The volume.
    pub volume: VolumeIndex,
    /// Its state.
    pub health: Health,
    /// Slots in each state, in the order of [`State::ALL`].
    pub slots: [u32; State::ALL.len()],
}

/// Figures of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Size of an extent.
    pub extent_bytes: u32,
    /// Slots in each state, in the order of [`State::ALL`], on all volumes.
    pub slots: [u64; State::ALL.len()],
    /// Slots that new reservations may have now.
    pub available: u64,
    /// Slots reserved and not used yet.
    pub promised: u64,
    /// Clean extents that stay, because their files do.
    pub kept: u64,
    /// Time since which the oldest extent is durable.
    pub oldest: Option<Duration>,
    /// Time since which the oldest dirty extent is durable.
    pub oldest_dirty: Option<Duration>,
    /// Files with extents.
    pub files: u64,
    /// Files that stay until a user changes that.
    pub pinned_files: u64,
    /// Bytes that slow storage got since the start.
    pub drained_bytes: u64,
    /// Each volume.
    pub volumes: Vec<VolumeStatus>,
}

impl Status {
    /// Slots in this state.
    #[must_use]
    pub fn count(&self, state: State) -> u64 {
        self.slots[state as usize]
    }
}

/// A file whose only copy is in the buffer and cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    /// The file.
    pub file: Arc<FileKey>,
    /// The volume.
    pub volume: VolumeIndex,
    /// Extents that cannot be read.
    pub extents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The contents are damaged; otherwise the volume is out, and may come back.
    pub is_damaged: bool,
}

/// Slots that new reservations may have.
pub(super) fn available(shelf: &Shelf) -> u64 {
    usable(shelf).saturating_sub(shelf.room.promised())
}

/// Slots that are free, or can be.
fn usable(shelf: &Shelf) -> u64 {
    let racks = shelf.racks.iter().filter(|rack| !rack.watch.is_out());
    let each = racks.map(|rack| {
        let slots = rack.count(State::Free) + rack.count(State::Freeing) + rack.count(State::Clean);
        u64::from(slots - rack.kept)
    });
    each.sum()
}

/// Slots in use, and all slots, of the volumes that are not out.
pub(super) fn used(shelf: &Shelf) -> (u64, u64) {
    let racks = shelf.racks.iter().filter(|rack| !rack.watch.is_out());
    racks.fold((0, 0), |(used, all), rack| {
        let unused = rack.count(State::Free) + rack.count(State::Freeing);
        let slots = u64::from(rack.len());
        (used + slots - u64::from(unused), all + slots)
    })
}

/// The main reason why this number of extents finds no room.
pub(super) fn reason(shelf: &Shelf, extents: u64) -> Reason {
    let inside = shelf.racks.iter().filter(|rack| !rack.watch.is_out());
    let slots: u64 = inside.clone().map(|rack| u64::from(rack.len())).sum();
    if slots < extents {
        return Reason::VolumesOut;
    }
    let sum = |count: fn(&Rack) -> u32| -> u64 {
        inside.clone().map(|rack| u64::from(count(rack))).sum()
    };
    let kept = sum(|rack| rack.kept);
    let only = sum(|rack| {
        let states = State::ALL.into_iter().filter(|state| state.is_only_copy());
        states.map(|state| rack.count(state)).sum()
    });
    let under_way = sum(|rack| rack.count(State::Filling) + rack.count(State::Written));
    let reserved = shelf.room.promised() + under_way;
    let most = kept.max(only).max(reserved);
    match most {
        _ if most == reserved => Reason::Reserved,
        _ if most == only => Reason::Undrained,
        _ => Reason::Kept,
    }
}

pub(super) fn of(shelf: &Shelf, extent_bytes: u32) -> Status {
    let is_pinned = |file: &&File| file.keep == Keep::Pinned;
    let mut slots = [0; State::ALL.len()];
    let mut volumes = Vec::new();
    let (mut oldest, mut oldest_dirty) = (None, None);
    for rack in &shelf.racks {
        let counts = State::ALL.map(|state| rack.count(state));
        for (all, count) in slots.iter_mut().zip(counts) {
            *all += u64::from(count);
        }
        volumes.push(VolumeStatus {
            volume: rack.index,
            health: rack.watch.health(),
            slots: counts,
        });
        let durable = rack
            .iter()
            .map(|(_, extent)| extent)
            .filter(|extent| extent.state == State::Clean || extent.state.is_only_copy());
        for extent in durable {
            let is_older = |than: Option<Duration>| than.is_none_or(|than| extent.since < than);
            if is_older(oldest) {
                oldest = Some(extent.since);
            }
            if extent.state.is_only_copy() && is_older(oldest_dirty) {
                oldest_dirty = Some(extent.since);
            }
        }
    }
    Status {
        extent_bytes,
        slots,
        available: available(shelf),
        promised: shelf.room.promised(),
        kept: shelf.racks.iter().map(|rack| u64::from(rack.kept)).sum(),
        oldest,
        oldest_dirty,
        files: shelf.files.iter().count() as u64,
        pinned_files: shelf.files.iter().filter(is_pinned).count() as u64,
        drained_bytes: shelf.drained_bytes,
        volumes,
    }
}

/// Files whose only copy cannot be read now.
pub(super) fn stranded(shelf: &Shelf) -> Vec<Stranded> {
    let mut found: BTreeMap<(VolumeIndex, bool, Arc<FileKey>), (u64, u64)> = BTreeMap::new();
    for rack in &shelf.racks {
        for (_, extent) in rack.iter() {
            let is_damaged = extent.state == State::Lost;
            let is_out = rack.watch.is_out() && extent.state.is_only_copy();
            let Some(file) = extent.file.and_then(|file| shelf.files.get(file)) else {
                continue;
            };
            if is_damaged || is_out {
                let key = (rack.index, is_damaged, Arc::clone(&file.key));
                let (extents, bytes) = found.entry(key).or_default();
                *extents += 1;
                *bytes += u64::from(extent.bytes);
            }
        }
    }
    let each = found.into_iter();
    each.map(|((volume, is_damaged, file), (extents, bytes))| Stranded {
        file,
        volume,
        extents,
        bytes,
        is_damaged,
    })
    .collect()
}
