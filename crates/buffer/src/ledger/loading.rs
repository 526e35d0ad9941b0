//! Loads the extents of a volume's log into the ledger, at the start and after the volume was out. Reads no log.

use super::shelf::Shelf;
use crate::extent::{Keep, Place, Recovered, Step, VolumeIndex};

/// Adds the extents of a log to a volume without extents.
pub(super) fn load(shelf: &mut Shelf, volume: VolumeIndex, extents: Vec<Recovered>) {
    let mut again = Vec::new();
    for one in extents {
        let place = Place {
            volume,
            slot: one.slot,
        };
        let path_bytes = one.content.file.path.len();
        let Some(rack) = shelf.rack_mut(volume) else {
            return;
        };
        if !rack.put(one.slot, one.is_dirty, path_bytes) {
            continue;
        }
        let number = shelf.files.hold(&one.content.file);
        let kept = shelf.files.get(number).map_or(Keep::No, |file| file.keep);
        shelf.set_keep(number, kept.max(one.keep));
        shelf.touch(place, |extent| {
            extent.file = Some(number);
            extent.offset = one.content.offset;
            extent.bytes = one.content.bytes;
            extent.digest = Some(one.content.digest);
            extent.since = one.since;
        });
        if one.is_dirty {
            shelf.queue(place);
        }
        again.extend(index(shelf, place));
        // Now the extent can be found, so it may also be one that stays.
        shelf.change(place, |_| {});
    }
    if let Some(rack) = shelf.rack_mut(volume) {
        rack.settle_free();
    }
    for place in again {
        drop_one(shelf, place);
    }
}

/// Makes an extent findable. Returns the extent that becomes superfluous: after a volume was out, two volumes may have the same range.
fn index(shelf: &mut Shelf, place: Place) -> Option<Place> {
    let extent = shelf.get(place)?;
    let (number, offset, digest) = (extent.file?, extent.offset, extent.digest);
    let is_dirty = extent.state.is_only_copy();
    let file = shelf.files.get_mut(number)?;
    let Some(other) = file.extents.get(&offset).copied() else {
        file.extents.insert(offset, place);
        return None;
    };
    let there = shelf.get(other)?;
    let (is_there_dirty, is_same) = (there.state.is_only_copy(), there.digest == digest);
    match (is_dirty, is_there_dirty) {
        (false, _) => Some(place),
        (true, true) if is_same => Some(place),
        // Both are only copies, so both drain; readers find the other one.
        (true, true) => None,
        (true, false) => {
            let file = shelf.files.get_mut(number)?;
            file.extents.insert(offset, place);
            Some(other)
        }
    }
}

/// Removes an extent of which a better copy exists.
fn drop_one(shelf: &mut Shelf, place: Place) {
    if !shelf.step(place, Step::Dropped) {
        shelf.step(place, Step::Abandoned);
    }
}

/// Forgets all extents of a volume, before its log is loaded again.
pub(super) fn clear(shelf: &mut Shelf, volume: VolumeIndex) {
    let Some(rack) = shelf.rack(volume) else {
        return;
    };
    let held = rack.iter().filter_map(|(slot, extent)| {
        let file = extent.file?;
        Some((file, extent.offset, rack.place(slot)))
    });
    for (file, offset, place) in held.collect::<Vec<_>>() {
        shelf.files.let_go(file, offset, place);
    }
    if let Some(rack) = shelf.rack_mut(volume) {
        let watch = rack.watch.clone();
        rack.clear(watch);
    }
}
