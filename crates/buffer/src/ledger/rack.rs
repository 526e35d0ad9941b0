//! Owns one volume as the ledger sees it: the states of its slots, its free slots, and the changes that its log does not have yet. Chooses
//! nothing; the ledger does.

use std::time::Duration;

use super::ReservationId;
use super::files::FileNumber;
use crate::extent::{
    BlockDigest, Flow, Place, Record, SlotIndex, State, Step, Ticket, VolumeIndex, after,
};
use crate::health::Watch;

/// Bytes of paths that each slot contributes to the log's room for names.
pub const NAME_BYTES_EACH: u64 = 256;

/// Most records of a commit.
pub(super) const RECORDS_MAX: usize = 1024;

/// An extent, or an unused slot.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) state: State,
    pub(super) turn: u32,
    pub(super) flow: Flow,
    /// The file, from `Filling` on, except in `Freeing`.
    pub(super) file: Option<FileNumber>,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// From `Written` on.
    pub(super) digest: Option<BlockDigest>,
    pub(super) readers: u16,
    /// The extent is removed as soon as its state allows that.
    pub(super) is_unwanted: bool,
    /// The extent counts among the clean extents that stay.
    pub(super) is_kept: bool,
    pub(super) since: Duration,
    /// The latest use, counted by the ledger.
    pub(super) used: u64,
    pub(super) reservation: Option<ReservationId>,
    /// Its share of the log's room for names.
    pub(super) name_bytes: u32,
}

impl Extent {
    fn unused() -> Self {
        Self {
            state: State::Free,
            turn: 0,
            flow: Flow::Out,
            file: None,
            offset: 0,
            bytes: 0,
            digest: None,
            readers: 0,
            is_unwanted: false,
            is_kept: false,
            since: Duration::ZERO,
            used: 0,
            reservation: None,
            name_bytes: 0,
        }
    }
}

/// A commit that the shell carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The volume.
    pub volume: VolumeIndex,
    /// Number of the commit, for [`super::Ledger::handle_committed`].
    pub number: u64,
    /// First: make the contents of these slots durable.
    pub slots: Vec<SlotIndex>,
    /// Then: append these records, and make them durable.
    pub records: Vec<Record>,
    /// At last: discard the contents of these slots. A failure to discard is no failure of the commit.
    pub freed: Vec<SlotIndex>,
}

/// Changes on their way into the log.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) number: u64,
    pub(super) in_flight: Option<InFlight>,
    /// Extents with all bytes on the volume, to be made durable.
    pub(super) written: Vec<Ticket>,
    pub(super) records: Vec<Record>,
    /// Records ever added, given to commits, and durable.
    pub(super) added: u64,
    taken: u64,
    pub(super) durable: u64,
    /// Counts the losses of all records that were not durable.
    pub(super) losses: u64,
}

/// A commit under way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) number: u64,
    pub(super) written: Vec<Ticket>,
    pub(super) freed: Vec<SlotIndex>,
    /// Records that are durable once this commit is.
    pub(super) up_to: u64,
}

/// A volume.
#[derive(Debug)]
pub(super) struct Rack {
    pub(super) index: VolumeIndex,
    slots: Vec<Extent>,
    /// Unused slots. The last one in the list is used next.
    free: Vec<SlotIndex>,
    counts: [u32; State::ALL.len()],
    /// Clean extents that stay.
    pub(super) kept: u32,
    name_bytes: u64,
    pub(super) changes: Changes,
    pub(super) watch: Watch,
    /// Writes and reads under way, with the time at which each began.
    pub(super) under_way: Vec<(Ticket, Duration)>,
    /// The file system of the volume had no room. The ledger tries it again after this time.
    pub(super) full_until: Duration,
}

impl Rack {
    /// A volume with this number of unused slots.
    pub(super) fn new(index: VolumeIndex, slots: u32) -> Self {
        let mut rack = Self {
            index,
            slots: Vec::new(),
            free: Vec::new(),
            counts: [0; State::ALL.len()],
            kept: 0,
            name_bytes: 0,
            changes: Changes::default(),
            watch: Watch::default(),
            under_way: Vec::new(),
            full_until: Duration::ZERO,
        };
        rack.slots.resize(slots as usize, Extent::unused());
        rack.clear(Watch::default());
        rack
    }

    /// Makes all slots unused. The numbers of turns continue, so that results of earlier uses can be recognised.
    pub(super) fn clear(&mut self, watch: Watch) {
        for extent in &mut self.slots {
            let turn = extent.turn.wrapping_add(1);
            *extent = Extent {
                turn,
                ..Extent::unused()
            };
        }
        self.free = (0..self.len()).rev().map(SlotIndex).collect();
        self.counts = [0; State::ALL.len()];
        self.counts[State::Free as usize] = self.len();
        self.kept = 0;
        self.name_bytes = 0;
        self.changes = Changes {
            number: self.changes.number,
            losses: self.changes.losses + 1,
            ..Changes::default()
        };
        self.under_way.clear();
        self.watch = watch;
    }

    /// Number of slots.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, slot: SlotIndex) -> Option<&Extent> {
        self.slots.get(slot.0 as usize)
    }

    pub(super) fn get_mut(&mut self, slot: SlotIndex) -> Option<&mut Extent> {
        self.slots.get_mut(slot.0 as usize)
    }

    /// All slots with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SlotIndex, &Extent)> {
        (0..).map(SlotIndex).zip(&self.slots)
    }

    pub(super) fn place(&self, slot: SlotIndex) -> Place {
        Place {
            volume: self.index,
            slot,
        }
    }

    /// Slots in this state.
    pub(super) fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// Takes the step, and keeps the counts. Returns whether the state allowed it.
    pub(super) fn step(&mut self, slot: SlotIndex, step: Step) -> bool {
        let Some(extent) = self.slots.get_mut(slot.0 as usize) else {
            return false;
        };
        let from = extent.state;
        let Ok(to) = after(from, step) else {
            return false;
        };
        extent.state = to;
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        if matches!(to, State::Free | State::Freeing) {
            extent.file = None;
            self.name_bytes -= u64::from(std::mem::take(&mut extent.name_bytes));
        }
        if to == State::Free {
            let turn = extent.turn.wrapping_add(1);
            *extent = Extent {
                turn,
                ..Extent::unused()
            };
            self.free.push(slot);
        }
        true
    }

    /// Whether the log has room for the name of one more extent of a file with such a path.
    pub(super) fn has_name_room(&self, path_bytes: usize) -> bool {
        let room = u64::from(self.len()) * NAME_BYTES_EACH;
        self.name_bytes + path_bytes as u64 <= room
    }

    /// Puts an extent in the state `Filling` into an unused slot.
    pub(super) fn take(&mut self, path_bytes: usize) -> Option<SlotIndex> {
        let slot = self.free.pop()?;
        self.step(slot, Step::Begun);
        self.charge(slot, path_bytes);
        Some(slot)
    }

    /// Puts an extent of the log into its slot. Returns whether the slot was unused.
    pub(super) fn put(&mut self, slot: SlotIndex, is_dirty: bool, path_bytes: usize) -> bool {
        let Some(extent) = self.slots.get_mut(slot.0 as usize) else {
            return false;
        };
        if extent.state != State::Free {
            return false;
        }
        let state = if is_dirty { State::Dirty } else { State::Clean };
        extent.state = state;
        extent.flow = if is_dirty { Flow::In } else { Flow::Out };
        self.counts[State::Free as usize] -= 1;
        self.counts[state as usize] += 1;
        self.charge(slot, path_bytes);
        true
    }

    /// Adds bytes to the share of a used slot in the log's room for names.
    pub(super) fn charge(&mut self, slot: SlotIndex, bytes: usize) {
        let name_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(extent) = self.slots.get_mut(slot.0 as usize) {
            extent.name_bytes = extent.name_bytes.saturating_add(name_bytes);
            self.name_bytes += u64::from(name_bytes);
        }
    }

    /// Forgets the used slots in the list of unused ones, after [`Self::put`].
    pub(super) fn settle_free(&mut self) {
        let slots = &self.slots;
        self.free
            .retain(|slot| slots[slot.0 as usize].state == State::Free);
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The next commit, if there is something to commit and no commit is under way.
    pub(super) fn next_commit(
        &mut self,
        holds: impl FnMut(&Extent, SlotIndex) -> Option<Record>,
    ) -> Option<Commit> {
        let changes = &mut self.changes;
        let is_idle = changes.written.is_empty() && changes.records.is_empty();
        if changes.in_flight.is_some() || is_idle || self.watch.is_out() {
            return None;
        }
        let mut holds = holds;
        let some = changes.records.len().min(RECORDS_MAX);
        let mut records: Vec<Record> = changes.records.drain(..some).collect();
        changes.taken += some as u64;
        let freed = records.iter().filter_map(|record| match record {
            Record::Free(slot) => Some(*slot),
            _ => None,
        });
        let freed: Vec<SlotIndex> = freed.collect();
        let some = changes.written.len().min(RECORDS_MAX - records.len());
        let mut written = Vec::new();
        for ticket in changes.written.drain(..some) {
            let slot = ticket.place.slot;
            let extent = &self.slots[slot.0 as usize];
            if extent.turn == ticket.turn
                && extent.state == State::Written
                && let Some(record) = holds(extent, slot)
            {
                records.push(record);
                written.push(ticket);
            }
        }
        if records.is_empty() {
            return None;
        }
        changes.number += 1;
        let commit = Commit {
            volume: self.index,
            number: changes.number,
            slots: written.iter().map(|ticket| ticket.place.slot).collect(),
            records,
            freed: freed.clone(),
        };
        changes.in_flight = Some(InFlight {
            number: changes.number,
            written,
            freed,
            up_to: changes.taken,
        });
        Some(commit)
    }
}
