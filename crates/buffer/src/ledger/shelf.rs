//! Owns the extents of all volumes, their index, and the order of their last use, and keeps the three consistent. Decides nothing about
//! admission, eviction or draining.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::drain::{Drain, DrainSettings, Waiting};
use super::files::{FileNumber, Files};
use super::rack::{Extent, Rack};
use super::room::{ReservationId, Room};
use super::words::{Notice, Span};
use crate::extent::{
    Content, FileKey, Flow, Keep, Place, Record, State, Step, Ticket, VolumeIndex,
};
use crate::health::Health;

/// All extents.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) racks: Vec<Rack>,
    pub(super) files: Files,
    pub(super) drain: Drain,
    pub(super) room: Room,
    pub(super) notices: VecDeque<Notice>,
    /// Bytes that slow storage has since the start.
    pub(super) drained_bytes: u64,
    /// Clean extents that may be evicted, by their last use.
    recency: BTreeSet<(u64, Place)>,
    uses: u64,
}

impl Shelf {
    pub(super) fn new(drain: DrainSettings) -> Self {
        Self {
            racks: Vec::new(),
            files: Files::default(),
            drain: Drain::new(drain),
            room: Room::default(),
            notices: VecDeque::new(),
            drained_bytes: 0,
            recency: BTreeSet::new(),
            uses: 0,
        }
    }

    pub(super) fn rack(&self, volume: VolumeIndex) -> Option<&Rack> {
        self.racks.get(usize::from(volume.0))
    }

    pub(super) fn rack_mut(&mut self, volume: VolumeIndex) -> Option<&mut Rack> {
        self.racks.get_mut(usize::from(volume.0))
    }

    pub(super) fn get(&self, place: Place) -> Option<&Extent> {
        self.rack(place.volume)?.get(place.slot)
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Extent> {
        self.rack_mut(place.volume)?.get_mut(place.slot)
    }

    /// The extent of a ticket; `None` if its place has been used again since.
    pub(super) fn current(&self, ticket: Ticket) -> Option<&Extent> {
        let extent = self.get(ticket.place)?;
        (extent.turn == ticket.turn).then_some(extent)
    }

    pub(super) fn ticket(&self, place: Place) -> Option<Ticket> {
        let turn = self.get(place)?.turn;
        Some(Ticket { place, turn })
    }

    /// Content of an extent that has a digest.
    pub(super) fn content(&self, place: Place) -> Option<Content> {
        let extent = self.get(place)?;
        content_of(&self.files, extent)
    }

    /// Takes a step, and updates index, last uses and queues. Returns whether the state allowed it.
    pub(super) fn step(&mut self, place: Place, step: Step) -> bool {
        let Some(before) = self.get(place).cloned() else {
            return false;
        };
        self.forget_use(place);
        let taken = self
            .rack_mut(place.volume)
            .is_some_and(|rack| rack.step(place.slot, step));
        if taken {
            let now = self.get(place).map_or(State::Free, |extent| extent.state);
            let drained = matches!(before.state, State::Dirty | State::Draining);
            if drained && !matches!(now, State::Dirty | State::Draining) {
                self.drain.remove(place);
            }
            match now {
                State::Dirty => self.queue(place),
                State::Lost => self.report_lost(place, &before),
                State::Freeing | State::Free => {
                    if let Some(file) = before.file {
                        self.files.let_go(file, before.offset, place);
                    }
                }
                _ => {}
            }
            if now == State::Freeing && before.readers == 0 {
                self.record(place.volume, Record::Free(place.slot));
            }
        }
        self.note_use(place);
        taken
    }

    fn report_lost(&mut self, place: Place, before: &Extent) {
        let Some(number) = before.file else { return };
        self.files.hide(number, before.offset, place);
        if let Some(file) = self.files.get(number) {
            self.notices.push_back(Notice::Lost(Span {
                file: Arc::clone(&file.key),
                offset: before.offset,
                bytes: before.bytes,
            }));
        }
    }

    pub(super) fn queue(&mut self, place: Place) {
        if let Some(waiting) = self.waiting(place) {
            self.drain.add(waiting);
        }
    }

    fn waiting(&self, place: Place) -> Option<Waiting> {
        let extent = self.get(place)?;
        let file = extent.file?;
        Some(Waiting {
            place,
            file,
            file_bytes: self.files.get(file)?.key.generation.bytes,
            offset: extent.offset,
            bytes: extent.bytes,
            since: extent.since,
        })
    }

    /// Adds a record to the next commit of a volume. A volume that is out gets none: its log is read again before it comes back.
    pub(super) fn record(&mut self, volume: VolumeIndex, record: Record) {
        if let Some(rack) = self.rack_mut(volume)
            && !rack.watch.is_out()
        {
            rack.changes.records.push(record);
            rack.changes.added += 1;
        }
    }

    fn forget_use(&mut self, place: Place) {
        let Some(extent) = self.get(place) else {
            return;
        };
        let (used, was_kept) = (extent.used, extent.is_kept);
        self.recency.remove(&(used, place));
        if was_kept && let Some(rack) = self.rack_mut(place.volume) {
            rack.kept -= 1;
            if let Some(extent) = rack.get_mut(place.slot) {
                extent.is_kept = false;
            }
        }
    }

    fn note_use(&mut self, place: Place) {
        let Some(extent) = self.get(place) else {
            return;
        };
        if extent.state != State::Clean {
            return;
        }
        let (used, readers, offset) = (extent.used, extent.readers, extent.offset);
        let file = extent.file.and_then(|file| self.files.get(file));
        let is_kept = file
            .is_some_and(|file| file.keep != Keep::No && file.extents.get(&offset) == Some(&place));
        let Some(rack) = self.rack_mut(place.volume) else {
            return;
        };
        if is_kept {
            rack.kept += 1;
            if let Some(extent) = rack.get_mut(place.slot) {
                extent.is_kept = true;
            }
        } else if readers == 0 && !rack.watch.is_out() {
            self.recency.insert((used, place));
        }
    }

    /// The extent was used just now.
    pub(super) fn touch(&mut self, place: Place, change: impl FnOnce(&mut Extent)) {
        self.forget_use(place);
        self.uses += 1;
        let uses = self.uses;
        if let Some(extent) = self.get_mut(place) {
            extent.used = uses;
            change(extent);
        }
        self.note_use(place);
    }

    /// Changes an extent in a way that affects whether it may be evicted, and records no use.
    pub(super) fn change(&mut self, place: Place, change: impl FnOnce(&mut Extent)) {
        self.forget_use(place);
        if let Some(extent) = self.get_mut(place) {
            change(extent);
        }
        self.note_use(place);
    }

    /// The clean extent that was used longest ago and may be evicted.
    pub(super) fn least_recent(&self) -> Option<Place> {
        self.recency.first().map(|(_, place)| *place)
    }

    /// Sets how long a file stays, here and in the logs.
    pub(super) fn set_keep(&mut self, number: FileNumber, keep: Keep) {
        let Some(file) = self.files.get(number) else {
            return;
        };
        let key = Arc::clone(&file.key);
        let places: Vec<Place> = file.extents.values().copied().collect();
        for place in &places {
            self.forget_use(*place);
        }
        let changed = self.files.set_keep(number, keep);
        for place in &places {
            self.note_use(*place);
        }
        let mut volumes: Vec<VolumeIndex> = places.iter().map(|place| place.volume).collect();
        volumes.sort_unstable();
        volumes.dedup();
        for volume in volumes.into_iter().filter(|_| changed) {
            self.record(volume, Record::Keep(Arc::clone(&key), keep));
        }
    }

    /// Takes a volume out: its extents can no longer be found, and writes to it count as failed.
    pub(super) fn strand(&mut self, volume: VolumeIndex, health: Health) {
        self.notices.push_back(Notice::Health(volume, health));
        let Some(rack) = self.rack(volume) else {
            return;
        };
        let slots: Vec<Place> = rack.iter().map(|(slot, _)| rack.place(slot)).collect();
        for place in slots {
            let Some(extent) = self.get(place).cloned() else {
                continue;
            };
            match extent.state {
                State::Filling | State::Written => self.fail(place),
                State::Draining => {
                    self.drain.handle_end();
                    self.step(place, Step::DrainFailed);
                    self.drain.remove(place);
                }
                State::Dirty => self.drain.remove(place),
                State::Clean => {
                    self.recency.remove(&(extent.used, place));
                }
                _ => {}
            }
            if let Some(number) = extent.file {
                self.files.hide(number, extent.offset, place);
            }
        }
        if let Some(rack) = self.rack_mut(volume) {
            rack.under_way.clear();
            rack.changes.records.clear();
            rack.changes.written.clear();
            rack.changes.in_flight = None;
            rack.changes.losses += 1;
        }
    }

    /// Removes an extent that is not durable. Its owner gets a notice, and the slot returns to its reservation.
    pub(super) fn fail(&mut self, place: Place) {
        let Some(extent) = self.get(place).cloned() else {
            return;
        };
        let Some(file) = extent.file.and_then(|file| self.files.get(file)) else {
            return;
        };
        let span = Span {
            file: Arc::clone(&file.key),
            offset: extent.offset,
            bytes: extent.bytes,
        };
        let ticket = Ticket {
            place,
            turn: extent.turn,
        };
        if self.step(place, Step::Failed) {
            if let Some(reservation) = extent.reservation {
                self.room.refund(reservation);
            }
            self.notices.push_back(Notice::Failed(ticket, span));
        }
    }

    /// Begins an extent in an unused slot of the volume.
    pub(super) fn begin(
        &mut self,
        volume: VolumeIndex,
        (key, offset, bytes): (&Arc<FileKey>, u64, u32),
        flow: Flow,
        reservation: ReservationId,
    ) -> Option<Ticket> {
        let rack = self.rack_mut(volume)?;
        let slot = rack.take(key.path.len())?;
        let place = rack.place(slot);
        let number = self.files.hold(key);
        if let Some(file) = self.files.get_mut(number) {
            file.extents.insert(offset, place);
        }
        self.room.spend(reservation);
        self.touch(place, |extent| {
            extent.flow = flow;
            extent.file = Some(number);
            extent.offset = offset;
            extent.bytes = bytes;
            extent.reservation = Some(reservation);
        });
        self.ticket(place)
    }
}

/// Content of an extent that has a digest.
pub(super) fn content_of(files: &Files, extent: &Extent) -> Option<Content> {
    Some(Content {
        file: Arc::clone(&files.get(extent.file?)?.key),
        offset: extent.offset,
        bytes: extent.bytes,
        digest: extent.digest?,
    })
}
