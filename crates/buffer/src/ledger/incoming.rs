//! Owns what the ledger does with a file that arrives: whether all of it is durable, the record that says where it goes, and its state while
//! it drains. Chooses no file; `waiting` does.
//!
//! The record lies in the log of the volume that has the first extent of the file.

use std::sync::Arc;

use super::Ledger;
use super::files::FileNumber;
use super::outcome::give_up;
use crate::extent::{FileKey, Place, Record, State, Step, VolumeIndex};

/// Bytes of the record of an arrival beside its words.
const RECORD_BYTES: usize = 32;

/// How much of a file is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// All of it.
    Durable,
    /// All of it is written, and some of it is not durable yet.
    Later,
    /// A part is missing.
    Never,
}

/// A record on its way into the log of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    volume: VolumeIndex,
    at: u64,
    losses: u64,
}

/// The ledger, for files that arrive.
#[derive(Debug)]
pub struct Incoming<'a>(&'a mut Ledger);

impl<'a> Incoming<'a> {
    /// Wraps this ledger for arriving files.
    pub fn of(ledger: &'a mut Ledger) -> Self {
        Self(ledger)
    }

    /// How much of the file is durable.
    #[must_use]
    pub fn whole(&self, file: &FileKey) -> Whole {
        let shelf = &self.0.shelf;
        let number = shelf.files.find(file);
        let Some(known) = number.and_then(|number| shelf.files.get(number)) else {
            return Whole::Never;
        };
        let mut bytes = 0;
        let mut is_durable = true;
        for place in known.extents.values() {
            let Some(extent) = shelf.get(*place) else {
                return Whole::Never;
            };
            match extent.state {
                State::Dirty | State::Draining | State::Clean => {}
                State::Filling | State::Written => is_durable = false,
                State::Free | State::Freeing | State::Lost => return Whole::Never,
            }
            bytes += u64::from(extent.bytes);
        }
        match (bytes == file.generation.bytes, is_durable) {
            (false, _) => Whole::Never,
            (true, false) => Whole::Later,
            (true, true) => Whole::Durable,
        }
    }

    /// Records that a file has arrived, and where it goes. `None` if its volume is out, or its log has no room.
    pub fn land(&mut self, file: &Arc<FileKey>, what: &Arc<[u8]>) -> Option<Mark> {
        let first = self.first(file)?;
        let bytes = what.len() + RECORD_BYTES;
        let rack = self.0.shelf.rack_mut(first.volume)?;
        if rack.watch.is_out() || !rack.has_name_room(bytes) {
            return None;
        }
        rack.charge(first.slot, bytes);
        let record = Record::Arrived(Arc::clone(file), Arc::clone(what));
        self.record(first.volume, record)
    }

    /// Counts the words of an arrival that a log has.
    pub fn load(&mut self, file: &FileKey, what: &[u8]) {
        let first = self.first(file);
        if let Some(first) = first
            && let Some(rack) = self.0.shelf.rack_mut(first.volume)
        {
            rack.charge(first.slot, what.len() + RECORD_BYTES);
        }
    }

    /// Whether a record is durable; `None` if that is open.
    #[must_use]
    pub fn is_durable(&self, mark: Mark) -> Option<bool> {
        let changes = &self.0.shelf.rack(mark.volume)?.changes;
        match changes.losses == mark.losses {
            false => Some(false),
            true => (changes.durable >= mark.at).then_some(true),
        }
    }

    /// The file drains from now on.
    pub fn begin_drain(&mut self, file: &FileKey) {
        for place in self.places(file) {
            if self.0.shelf.step(place, Step::DrainBegun) {
                self.0.shelf.drain.remove(place);
            }
        }
    }

    /// The file is not at slow storage; it drains later.
    pub fn end_drain(&mut self, file: &FileKey) {
        for place in self.places(file) {
            self.0.shelf.step(place, Step::DrainFailed);
        }
    }

    /// The file is at slow storage, durable, under another key. The record about that must be durable before [`Self::settle`].
    pub fn place(&mut self, file: &Arc<FileKey>, to: &Arc<FileKey>) -> Option<Mark> {
        let first = self.first(file)?;
        let number = self.0.shelf.files.find(file)?;
        if !self.0.shelf.files.rename(number, to) {
            return None;
        }
        self.0.shelf.drained_bytes += file.generation.bytes;
        let record = Record::Placed(Arc::clone(file), Arc::clone(to));
        let mark = self.record(first.volume, record);
        self.clean(number, |volume| volume == first.volume);
        mark
    }

    /// The extents of a placed file on its other volumes are clean, too.
    pub fn settle(&mut self, file: &Arc<FileKey>, to: &Arc<FileKey>) {
        let Some(number) = self.0.shelf.files.find(to) else {
            return;
        };
        let first = self.first(to).map(|place| place.volume);
        let mut others: Vec<VolumeIndex> = self
            .places(to)
            .iter()
            .map(|place| place.volume)
            .filter(|volume| Some(*volume) != first)
            .collect();
        others.sort_unstable();
        others.dedup();
        for volume in others {
            let record = Record::Placed(Arc::clone(file), Arc::clone(to));
            self.record(volume, record);
        }
        self.clean(number, |volume| Some(volume) != first);
    }

    /// The file has no place any more. When that is durable, [`Self::remove`] may follow.
    pub fn cancel(&mut self, file: &Arc<FileKey>) -> Option<Mark> {
        let first = self.first(file)?;
        let record = Record::Arrived(Arc::clone(file), [].into());
        self.record(first.volume, record)
    }

    /// Removes the extents of a file that did not arrive whole, or has no place any more.
    pub fn remove(&mut self, file: &FileKey) {
        self.end_drain(file);
        let places = self.places(file);
        give_up(&mut self.0.shelf, places, true);
    }

    /// The files with an only copy that `knows` does not name. With `headed`, only those whose first extent is here: its log would name
    /// them.
    #[must_use]
    pub fn others(&self, headed: bool, knows: impl Fn(&FileKey) -> bool) -> Vec<Arc<FileKey>> {
        let shelf = &self.0.shelf;
        let files = shelf.files.iter().filter(|file| {
            let mut places = file.extents.values();
            let is_only = places.any(|place| {
                let extent = shelf.get(*place);
                extent.is_some_and(|extent| extent.state.is_only_copy())
            });
            is_only && (!headed || file.extents.contains_key(&0)) && !knows(&file.key)
        });
        files.map(|file| Arc::clone(&file.key)).collect()
    }

    fn record(&mut self, volume: VolumeIndex, record: Record) -> Option<Mark> {
        self.0.shelf.record(volume, record);
        let rack = self.0.shelf.rack(volume)?;
        (!rack.watch.is_out()).then_some(Mark {
            volume,
            at: rack.changes.added,
            losses: rack.changes.losses,
        })
    }

    fn clean(&mut self, number: FileNumber, on: impl Fn(VolumeIndex) -> bool) {
        let Some(known) = self.0.shelf.files.get(number) else {
            return;
        };
        let places: Vec<Place> = known.extents.values().copied().collect();
        for place in places.into_iter().filter(|place| on(place.volume)) {
            self.0.shelf.step(place, Step::DrainBegun);
            if self.0.shelf.step(place, Step::Drained) {
                self.0.shelf.touch(place, |_| {});
                self.0.shelf.record(place.volume, Record::Clean(place.slot));
            }
        }
    }

    fn first(&self, file: &FileKey) -> Option<Place> {
        let shelf = &self.0.shelf;
        let known = shelf.files.get(shelf.files.find(file)?)?;
        known.extents.get(&0).copied()
    }

    fn places(&self, file: &FileKey) -> Vec<Place> {
        let shelf = &self.0.shelf;
        let number = shelf.files.find(file);
        let known = number.and_then(|number| shelf.files.get(number));
        known.map_or_else(Vec::new, |known| known.extents.values().copied().collect())
    }
}
