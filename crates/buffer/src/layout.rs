//! Owns the geometry of a volume: where superblocks, log areas and slots lie. Reads and writes nothing. `docs/buffer.md` has the picture.

use crate::extent::SlotIndex;
use crate::ledger::NAME_BYTES_EACH;

/// Everything begins and ends at a page, as direct I/O requires.
pub const PAGE: u64 = 4096;
/// Where the two superblocks lie.
pub const SUPERBLOCK_AT: [u64; 2] = [0, 64 << 10];
/// The place to which probes of a failed volume write.
pub const PROBE_AT: u64 = 128 << 10;
/// Where the first log area begins.
const AREAS_AT: u64 = 1 << 20;
/// Sizes that a user may choose for an extent.
pub const EXTENT_BYTES: [u32; 3] = [1 << 20, 2 << 20, 4 << 20];
/// The usual size of an extent.
pub const EXTENT_BYTES_DEFAULT: u32 = 4 << 20;
/// Room of a slot in a checkpoint: one HOLDS and one FILE record with their heads (78 and 63 bytes), its names, and a fourteenth more for
/// the ends of frames.
const CHECKPOINT_BYTES_EACH: u64 = (78 + 63 + NAME_BYTES_EACH) * 15 / 14;
/// Least room of a slot that holds something: the HOLDS record with its head.
const HOLDS_BYTES: u64 = 78;
/// Least room for changes behind the largest checkpoint: 64 small commits.
const CHANGES_BYTES_MIN: u64 = 256 << 10;
/// Fewest slots of a volume.
pub const SLOTS_MIN: u32 = 8;

/// The geometry of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of an extent; whole pages.
    pub extent_bytes: u32,
    /// Number of slots.
    pub slots: u32,
    /// Size of each of the two log areas.
    pub area_bytes: u64,
    /// Where the first slot begins, a multiple of the size of an extent.
    pub data_at: u64,
}

impl Layout {
    /// The geometry of `bytes` bytes. `None` if there is room for fewer than [`SLOTS_MIN`] slots.
    #[must_use]
    pub fn of(bytes: u64, extent_bytes: u32) -> Option<Self> {
        let each = u64::from(extent_bytes);
        let most = u32::try_from(bytes.checked_div(each)?).unwrap_or(u32::MAX);
        let area_bytes = area_bytes(most);
        let data_at = (AREAS_AT + 2 * area_bytes).next_multiple_of(each);
        let room = bytes.checked_sub(data_at)? / each;
        let slots = u32::try_from(room).unwrap_or(u32::MAX);
        (slots >= SLOTS_MIN).then_some(Self {
            extent_bytes,
            slots,
            area_bytes,
            data_at,
        })
    }

    /// Where a log area begins.
    #[must_use]
    pub fn area_at(&self, area: u32) -> u64 {
        AREAS_AT + u64::from(area) * self.area_bytes
    }

    /// Where a slot begins on a device.
    #[must_use]
    pub fn slot_at(&self, slot: SlotIndex) -> u64 {
        self.data_at + u64::from(slot.0) * u64::from(self.extent_bytes)
    }

    /// The end of the last slot.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.data_at + u64::from(self.slots) * u64::from(self.extent_bytes)
    }

    /// Whether the fields agree with each other, so that nothing overlaps. The fields come from a device.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let each = u64::from(self.extent_bytes);
        let areas_end = self
            .area_bytes
            .checked_mul(2)
            .and_then(|areas| areas.checked_add(AREAS_AT));
        each > 0
            && each.is_multiple_of(PAGE)
            && each <= u64::from(EXTENT_BYTES_DEFAULT)
            && self.slots >= SLOTS_MIN
            && self.area_bytes >= CHANGES_BYTES_MIN
            && self.area_bytes.is_multiple_of(PAGE)
            && u64::from(self.slots) * HOLDS_BYTES <= self.area_bytes
            && self.data_at.is_multiple_of(PAGE)
            && self.data_at < 1 << 62
            && areas_end.is_some_and(|end| end <= self.data_at)
    }
}

/// The size of the largest checkpoint of this number of slots, with a quarter more for changes.
fn area_bytes(slots: u32) -> u64 {
    let checkpoint = u64::from(slots) * CHECKPOINT_BYTES_EACH;
    let changes = (checkpoint / 4).max(CHANGES_BYTES_MIN);
    (checkpoint + changes).next_multiple_of(64 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_little_is_lost() {
        for (bytes, extent_bytes) in [
            (64 << 20, 1 << 20),
            (64 << 20, 4 << 20),
            ((1 << 40) + 12_345, 4 << 20),
            (200 << 40, 4 << 20),
            (4 << 20, 64 << 10),
        ] {
            let layout = Layout::of(bytes, extent_bytes).expect("room");
            assert!(layout.is_sound(), "{layout:?}");
            assert!(layout.area_at(2) <= layout.data_at);
            assert!(layout.end() <= bytes);
            assert!(
                layout
                    .slot_at(SlotIndex(1))
                    .is_multiple_of(u64::from(extent_bytes))
            );
            assert!(u64::from(layout.slots) * u64::from(extent_bytes) > bytes / 100 * 40);
        }
        let layout = Layout::of(64 << 20, 1 << 20).expect("room");
        let forged = Layout {
            slots: u32::MAX,
            ..layout
        };
        assert!(!forged.is_sound(), "no log holds so many slots");
        assert_eq!(Layout::of(20 << 20, 4 << 20), None);
        assert_eq!(Layout::of(0, 4 << 20), None);
    }
}
