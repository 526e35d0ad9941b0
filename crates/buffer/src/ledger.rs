//! Owns the decisions of a transfer buffer: where an extent lies, which one is evicted, which reader waits, which file drains
//! next. Does no I/O and reads no
//! clock: time and results are arguments.
//!
//! A shell calls [`Ledger::poll_action`] until it returns nothing, carries the actions out, and hands back their results. Many
//! threads may call it behind one lock. `now` is the time since the Unix epoch, because ages outlive the process.
//!
//! The ledger promises:
//! - a dirty extent goes only after a drain, or when its owner [abandons](Ledger::abandon) it;
//! - an extent is found only under the generation that it was written for, after its commit, on a volume that is in;
//! - a slot is used again only after the log says that it is free;
//! - a granted reservation has its room: other requests and files that stay cannot take it. A volume that goes out can.

mod drain;
mod files;
mod incoming;
mod loading;
mod outcome;
mod policy;
mod rack;
mod room;
mod shelf;
mod status;
mod view;
mod words;

use std::sync::Arc;
use std::time::Duration;

use crate::extent::{
    BlockDigest, Content, FileKey, Flow, Generation, Keep, Place, Record, Recovered, SourceId,
    State, Step, Ticket, VolumeIndex,
};
use crate::health::{Cause, HUNG_AFTER};
pub use drain::{DrainSettings, Order};
pub use incoming::{Incoming, Mark, Whole};
use outcome::{end_operation, give_up, judge, settle_written, take_out_hung};
use policy::{choose, evict, grant, make_room};
pub use rack::{Commit, NAME_BYTES_EACH};
pub use room::{Admission, IfFull, Reason, ReservationId};
use shelf::Shelf;
pub use status::{Status, Stranded, VolumeStatus};
pub use view::{FileList, FileView};
pub use words::{Action, Begun, Drained, Notice, ReadEnd, Settings, Span, WriteFault};

/// A volume without room in its file system is left alone for this long.
const FULL_FOR: Duration = Duration::from_secs(10);
/// The decisions of a buffer.
#[derive(Debug)]
pub struct Ledger {
    settings: Settings,
    shelf: Shelf,
    reopens: Vec<VolumeIndex>,
}

impl Ledger {
    /// A buffer without volumes.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            shelf: Shelf::new(settings.drain),
            reopens: Vec::new(),
        }
    }

    /// Adds a volume with this number of slots, and with these extents in its log.
    pub fn attach(&mut self, slots: u32, extents: Vec<Recovered>) -> VolumeIndex {
        let volume = VolumeIndex(u16::try_from(self.shelf.racks.len()).unwrap_or(u16::MAX));
        self.shelf.racks.push(rack::Rack::new(volume, slots));
        loading::load(&mut self.shelf, volume, extents);
        volume
    }

    /// Changes order and rate of draining.
    pub fn set_drain(&mut self, settings: DrainSettings) {
        self.settings.drain = settings;
        self.shelf.drain.set(settings);
    }

    /// Asks for room for this number of extents.
    pub fn reserve(&mut self, extents: u64, if_full: IfFull) -> Admission {
        let all: u64 = self
            .shelf
            .racks
            .iter()
            .map(|rack| u64::from(rack.len()))
            .sum();
        if extents > all {
            return Admission::PassThrough(Reason::LargerThanBuffer);
        }
        let free = status::available(&self.shelf);
        if !self.shelf.room.is_waited_for() && extents <= free {
            return Admission::Granted(self.shelf.room.grant(extents));
        }
        let reason = status::reason(&self.shelf, extents);
        match if_full {
            IfFull::PassThrough => Admission::PassThrough(reason),
            IfFull::Wait => Admission::Waits(self.shelf.room.wait(extents), reason),
        }
    }

    /// Ends a reservation, granted or waiting.
    pub fn release(&mut self, reservation: ReservationId) {
        self.shelf.room.release(reservation);
    }

    /// Begins an extent of a file. `Present` costs the reservation nothing.
    pub fn begin(
        &mut self,
        now: Duration,
        reservation: ReservationId,
        file: &Arc<FileKey>,
        offset: u64,
        flow: Flow,
    ) -> Begun {
        let extent_bytes = u64::from(self.settings.extent_bytes);
        let left = file
            .generation
            .bytes
            .saturating_sub(offset)
            .min(extent_bytes);
        let is_whole = offset.is_multiple_of(extent_bytes) && left > 0;
        if !is_whole || file.path.len() > crate::extent::PATH_BYTES_MAX {
            return Begun::Refused;
        }
        let bytes = u32::try_from(left).unwrap_or(u32::MAX);
        if let Some(number) = self.shelf.files.find(file)
            && let Some(known) = self.shelf.files.get(number)
        {
            if known.is_superseded {
                return Begun::Refused;
            }
            let ticket = known.extents.get(&offset).copied();
            if let Some(ticket) = ticket.and_then(|place| self.shelf.ticket(place)) {
                return Begun::Present(ticket);
            }
        }
        if self.shelf.room.left(reservation) == 0 {
            return Begun::Later(Reason::Reserved);
        }
        match choose(&self.shelf, now, file.path.len()) {
            Ok(volume) => {
                let what = (file, offset, bytes);
                let begun = self.shelf.begin(volume, what, flow, reservation);
                let Some(ticket) = begun else {
                    return Begun::Later(Reason::Freeing);
                };
                if let Some(rack) = self.shelf.rack_mut(volume) {
                    rack.under_way.push((ticket, now));
                }
                Begun::Here(ticket)
            }
            Err(Reason::Freeing) => {
                make_room(&mut self.shelf);
                Begun::Later(Reason::Freeing)
            }
            Err(reason) => Begun::Later(reason),
        }
    }

    /// A write ended. Either all bytes are on the volume, with the digest in `written`, or the write failed.
    pub fn handle_written(
        &mut self,
        now: Duration,
        ticket: Ticket,
        written: Result<BlockDigest, WriteFault>,
    ) {
        let place = ticket.place;
        let ended = end_operation(&mut self.shelf, ticket);
        let Some(extent) = self.shelf.current(ticket) else {
            return;
        };
        if extent.state != State::Filling {
            return;
        }
        let (bytes, is_unwanted) = (extent.bytes, extent.is_unwanted);
        match written {
            Ok(digest) if !is_unwanted => {
                self.shelf.step(place, Step::Written);
                self.shelf
                    .touch(place, |extent| extent.digest = Some(digest));
                if let Some(rack) = self.shelf.rack_mut(place.volume) {
                    rack.changes.written.push(ticket);
                }
            }
            Ok(_) => self.shelf.fail(place),
            Err(fault) => {
                self.shelf.fail(place);
                if fault == WriteFault::NoSpace
                    && let Some(rack) = self.shelf.rack_mut(place.volume)
                {
                    rack.full_until = now.saturating_add(FULL_FOR);
                }
            }
        }
        let is_fault = written == Err(WriteFault::Failed);
        if written.is_ok() || is_fault {
            judge(&mut self.shelf, now, place.volume, bytes, ended, !is_fault);
        }
    }

    /// A commit ended. After a failure it is unknown whether the log has its records. So the volume is out until its log is read again.
    pub fn handle_committed(
        &mut self,
        now: Duration,
        volume: VolumeIndex,
        number: u64,
        is_good: bool,
    ) {
        let Some(rack) = self.shelf.rack_mut(volume) else {
            return;
        };
        let changes = &mut rack.changes;
        let Some(done) = changes.in_flight.take_if(|one| one.number == number) else {
            return;
        };
        if !is_good {
            if let Some(health) = rack.watch.take_out(now, Cause::Commit) {
                self.shelf.strand(volume, health);
            }
            return;
        }
        changes.durable = changes.durable.max(done.up_to);
        for slot in done.freed {
            self.shelf.step(Place { volume, slot }, Step::Freed);
        }
        for ticket in done.written {
            settle_written(&mut self.shelf, ticket, now);
        }
    }

    /// A drain ended.
    pub fn handle_drained(&mut self, now: Duration, ticket: Ticket, end: Drained) {
        let place = ticket.place;
        let Some(extent) = self.shelf.current(ticket) else {
            return;
        };
        if extent.state != State::Draining {
            return;
        }
        let file = extent.file.and_then(|file| self.shelf.files.get(file));
        let is_superseded = file.is_some_and(|file| file.is_superseded);
        let (is_unwanted, bytes) = (extent.is_unwanted, u64::from(extent.bytes));
        self.shelf.drain.handle_end();
        match end {
            Drained::Done => {
                self.shelf.drained_bytes += bytes;
                self.shelf.step(place, Step::Drained);
                self.shelf.touch(place, |_| {});
                let record = Record::Clean(place.slot);
                self.shelf.record(place.volume, record);
                if is_superseded {
                    self.shelf.step(place, Step::Dropped);
                }
            }
            Drained::Damaged => {
                self.shelf.step(place, Step::Unreadable);
            }
            Drained::TargetFailed | Drained::Unread => {
                self.shelf.step(place, Step::DrainFailed);
                self.shelf.drain.put_off(place, now);
            }
        }
        if is_unwanted {
            self.shelf.step(place, Step::Abandoned);
        }
        if matches!(end, Drained::Unread | Drained::Damaged) {
            judge(&mut self.shelf, now, place.volume, 0, None, false);
        }
    }

    /// Finds an extent to read. The caller owes a [`Self::handle_read`].
    pub fn find(
        &mut self,
        now: Duration,
        file: &FileKey,
        offset: u64,
    ) -> Option<(Ticket, Content)> {
        let number = self.shelf.files.find(file)?;
        let known = self.shelf.files.get(number)?;
        if known.is_superseded {
            return None;
        }
        let place = *known.extents.get(&offset)?;
        let is_served = self.shelf.get(place)?.state.is_served();
        let rack = self.shelf.rack(place.volume)?;
        if !is_served || rack.watch.is_out() {
            return None;
        }
        let content = self.shelf.content(place)?;
        self.shelf.touch(place, |extent| {
            extent.readers = extent.readers.saturating_add(1)
        });
        let ticket = self.shelf.ticket(place)?;
        if let Some(rack) = self.shelf.rack_mut(place.volume) {
            rack.under_way.push((ticket, now));
        }
        Some((ticket, content))
    }

    /// A read ended.
    pub fn handle_read(&mut self, now: Duration, ticket: Ticket, end: ReadEnd) {
        let place = ticket.place;
        let ended = end_operation(&mut self.shelf, ticket);
        let Some(extent) = self.shelf.current(ticket) else {
            return;
        };
        let (state, bytes) = (extent.state, extent.bytes);
        self.shelf.change(place, |extent| {
            extent.readers = extent.readers.saturating_sub(1);
        });
        let is_unread = self
            .shelf
            .get(place)
            .is_some_and(|extent| extent.readers == 0);
        if state == State::Freeing && is_unread {
            self.shelf.record(place.volume, Record::Free(place.slot));
        }
        // After a failed read, slow storage still has a clean extent. An only copy stays, so that it can be read again.
        if end == ReadEnd::Damaged || (end == ReadEnd::Failed && state == State::Clean) {
            if state == State::Draining {
                self.shelf.drain.handle_end();
            }
            self.shelf.step(place, Step::Unreadable);
        }
        let is_good = end == ReadEnd::Good;
        if end != ReadEnd::GaveUp {
            judge(&mut self.shelf, now, place.volume, bytes, ended, is_good);
        }
    }

    /// A probe ended.
    pub fn handle_probed(&mut self, now: Duration, volume: VolumeIndex, is_good: bool) {
        if let Some(rack) = self.shelf.rack_mut(volume)
            && rack.watch.handle_probed(now, is_good)
        {
            self.reopens.push(volume);
        }
    }

    /// The log of a volume was read again: these are its extents, or it cannot be read.
    pub fn handle_reopened(&mut self, volume: VolumeIndex, extents: Option<Vec<Recovered>>) {
        let Some(rack) = self.shelf.rack_mut(volume) else {
            return;
        };
        let Some(extents) = extents.filter(|_| rack.watch.is_out()) else {
            return;
        };
        loading::clear(&mut self.shelf, volume);
        if let Some(rack) = self.shelf.rack_mut(volume)
            && let Some(health) = rack.watch.let_in()
        {
            self.shelf.notices.push_back(Notice::Health(volume, health));
        }
        loading::load(&mut self.shelf, volume, extents);
    }

    /// Sets how long the clean extents of a file stay. Refuses if reservations need the room; returns whether the file has extents and
    /// stays as asked.
    pub fn keep(&mut self, file: &FileKey, keep: Keep) -> bool {
        let Some(number) = self.shelf.files.find(file) else {
            return false;
        };
        let Some(known) = self.shelf.files.get(number) else {
            return false;
        };
        if known.keep == Keep::No && keep != Keep::No {
            let places = known.extents.values();
            let clean = places.filter(|place| {
                let extent = self.shelf.get(**place);
                extent.is_some_and(|extent| extent.state == State::Clean)
            });
            if clean.count() as u64 > status::available(&self.shelf) {
                return false;
            }
        }
        self.shelf.set_keep(number, keep);
        true
    }

    /// The present generation of a file. Extents of other generations can no longer be found, and the clean ones are removed.
    pub fn observe(&mut self, source: SourceId, path: &[u8], generation: Generation) {
        for number in self.shelf.files.generations(source, path) {
            let Some(file) = self.shelf.files.get_mut(number) else {
                continue;
            };
            file.is_superseded = file.key.generation != generation;
            if file.is_superseded {
                let places = file.extents.values().copied().collect();
                give_up(&mut self.shelf, places, false);
            }
        }
    }

    /// Removes the clean extents of a file, or all of them if its owner abandons the file.
    pub fn abandon(&mut self, file: &FileKey, with_dirty: bool) {
        if let Some(number) = self.shelf.files.find(file)
            && let Some(known) = self.shelf.files.get(number)
        {
            let places = known.extents.values().copied().collect();
            give_up(&mut self.shelf, places, with_dirty);
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self, now: Duration) -> Option<Action> {
        while let Some(number) = self.shelf.files.ended(now) {
            self.shelf.set_keep(number, Keep::No);
        }
        take_out_hung(&mut self.shelf, now);
        evict(&mut self.shelf, &self.settings);
        grant(&mut self.shelf);
        if let Some(volume) = self.reopens.pop() {
            return Some(Action::Reopen(volume));
        }
        let Shelf { racks, files, .. } = &mut self.shelf;
        for rack in racks.iter_mut() {
            let commit = rack.next_commit(|extent, slot| {
                Some(Record::Holds {
                    slot,
                    content: shelf::content_of(files, extent)?,
                    is_dirty: extent.flow == Flow::In,
                    since: now,
                    keep: files.get(extent.file?)?.keep,
                })
            });
            if let Some(commit) = commit {
                return Some(Action::Commit(commit));
            }
            if rack.watch.poll_probe(now) {
                return Some(Action::Probe(rack.index));
            }
        }
        let place = self.shelf.drain.poll(now)?;
        self.shelf.step(place, Step::DrainBegun);
        let ticket = self.shelf.ticket(place)?;
        Some(Action::Drain(ticket, self.shelf.content(place)?))
    }

    /// The next news.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.shelf.notices.pop_front()
    }

    /// The next time at which [`Self::poll_action`] may return an action without a change of the ledger.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let racks = self.shelf.racks.iter();
        let probes = racks.clone().filter_map(|rack| rack.watch.probe_due());
        let hangs = racks.filter_map(|rack| {
            let begun = rack.under_way.iter().map(|(_, begun)| *begun).min()?;
            Some(begun.saturating_add(HUNG_AFTER))
        });
        let others = [self.shelf.drain.due(), self.shelf.files.next_end()];
        probes
            .chain(hangs)
            .chain(others.into_iter().flatten())
            .min()
    }

    /// Figures of the buffer.
    #[must_use]
    pub fn status(&self) -> Status {
        status::of(&self.shelf, self.settings.extent_bytes)
    }

    /// Files whose only copy is damaged, or on a volume that is out.
    #[must_use]
    pub fn stranded(&self) -> Vec<Stranded> {
        status::stranded(&self.shelf)
    }
}
