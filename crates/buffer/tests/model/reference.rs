//! Owns a second, plain implementation of the ledger's rules: one list of extents, searched from end to end. Chooses no slots: it takes
//! those of the ledger, and checks that they were unused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::extent::{
    BlockDigest, FileKey, Flow, Generation, Keep, Place, Recovered, State, Ticket, VolumeIndex,
};
use godwit_buffer::ledger::{Commit, Drained, ReadEnd, ReservationId};

/// An extent that is not free.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) ticket: Ticket,
    pub(crate) state: State,
    pub(crate) file: Arc<FileKey>,
    pub(crate) offset: u64,
    pub(crate) flow: Flow,
    pub(crate) digest: Option<BlockDigest>,
    pub(crate) readers: u32,
    pub(crate) unwanted: bool,
    /// A find may return it.
    pub(crate) shown: bool,
    used: u64,
    reservation: Option<ReservationId>,
}

#[derive(Default)]
pub(crate) struct Reference {
    pub(crate) entries: Vec<Entry>,
    pub(crate) slots: Vec<u32>,
    pub(crate) out: Vec<bool>,
    pub(crate) keeps: BTreeMap<FileKey, Keep>,
    pub(crate) superseded: Vec<FileKey>,
    pub(crate) reservations: BTreeMap<ReservationId, u64>,
    pub(crate) waiting: Vec<(ReservationId, u64)>,
    pub(crate) uses: u64,
}

impl Reference {
    pub(crate) fn at(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.ticket == ticket)
    }

    /// Records the turn of an extent that was loaded from a log, once the ledger names the extent.
    pub(crate) fn learn(&mut self, ticket: Ticket) {
        let mut all = self.entries.iter_mut();
        let loaded = Ticket { turn: 0, ..ticket };
        if let Some(entry) = all.find(|entry| entry.ticket == loaded) {
            entry.ticket = ticket;
        }
    }

    fn is_out(&self, volume: VolumeIndex) -> bool {
        self.out[usize::from(volume.0)]
    }

    pub(crate) fn is_superseded(&self, file: &FileKey) -> bool {
        self.superseded.contains(file)
    }

    fn is_kept(&self, entry: &Entry) -> bool {
        let keep = self.keeps.get(&entry.file).copied().unwrap_or_default();
        entry.state == State::Clean && entry.shown && keep != Keep::No
    }

    /// Forgets the marks of files without extents.
    fn forget(&mut self) {
        let named = |file: &FileKey| {
            let held = |entry: &&Entry| entry.state != State::Freeing;
            self.entries
                .iter()
                .filter(held)
                .any(|entry| *entry.file == *file)
        };
        let gone: Vec<FileKey> = self
            .keeps
            .keys()
            .filter(|file| !named(file))
            .cloned()
            .collect();
        let gone_marks: Vec<FileKey> = self
            .superseded
            .iter()
            .filter(|file| !named(file))
            .cloned()
            .collect();
        self.keeps.retain(|file, _| !gone.contains(file));
        self.superseded.retain(|file| !gone_marks.contains(file));
    }

    pub(crate) fn promised(&self) -> u64 {
        self.reservations.values().sum()
    }

    pub(crate) fn available(&self) -> u64 {
        let mut usable = 0u64;
        for (at, slots) in self
            .slots
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.out[*at])
        {
            let mut taken = 0;
            for entry in self
                .entries
                .iter()
                .filter(|entry| usize::from(entry.ticket.place.volume.0) == at)
            {
                let can_go = entry.state == State::Freeing
                    || (entry.state == State::Clean && !self.is_kept(entry));
                taken += u64::from(!can_go);
            }
            usable += u64::from(*slots) - taken;
        }
        usable.saturating_sub(self.promised())
    }

    /// Grants waiting requests in turn; returns the granted ones.
    pub(crate) fn grant(&mut self) -> Vec<ReservationId> {
        let mut granted = Vec::new();
        while let Some((id, extents)) = self.waiting.first().copied() {
            if extents > self.available() {
                break;
            }
            self.waiting.remove(0);
            self.reservations.insert(id, extents);
            granted.push(id);
        }
        granted
    }

    /// Slots in each state on a volume.
    pub(crate) fn counts(&self, volume: usize) -> [u32; State::ALL.len()] {
        let here = self.entries.iter();
        let here = here.filter(|entry| usize::from(entry.ticket.place.volume.0) == volume);
        let mut counts = [0; State::ALL.len()];
        for entry in here {
            counts[entry.state as usize] += 1;
        }
        let taken: u32 = counts.iter().sum();
        counts[State::Free as usize] = self.slots[volume] - taken;
        counts
    }

    /// The extent that a find returns, if any.
    pub(crate) fn shown(&self, file: &FileKey, offset: u64) -> Option<&Entry> {
        let mut all = self.entries.iter();
        all.find(|entry| entry.shown && *entry.file == *file && entry.offset == offset)
    }

    pub(crate) fn touch(&mut self, ticket: Ticket) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(entry) = self.at(ticket) {
            entry.used = uses;
        }
    }

    pub(crate) fn begin(
        &mut self,
        ticket: Ticket,
        file: &Arc<FileKey>,
        offset: u64,
        flow: Flow,
        reservation: ReservationId,
    ) {
        let is_taken = self
            .entries
            .iter()
            .any(|entry| entry.ticket.place == ticket.place);
        assert!(!is_taken, "{ticket:?} is in use");
        assert!(!self.is_out(ticket.place.volume), "{ticket:?} is out");
        self.entries.push(Entry {
            ticket,
            state: State::Filling,
            file: Arc::clone(file),
            offset,
            flow,
            digest: None,
            readers: 0,
            unwanted: false,
            shown: true,
            used: 0,
            reservation: Some(reservation),
        });
        *self.reservations.get_mut(&reservation).expect("granted") -= 1;
        self.touch(ticket);
    }

    /// An extent that never became durable is gone.
    pub(crate) fn fail(&mut self, ticket: Ticket) {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.ticket == ticket)
            .expect("known");
        let gone = self.entries.remove(at);
        assert!(matches!(gone.state, State::Filling | State::Written));
        let left = gone
            .reservation
            .and_then(|id| self.reservations.get_mut(&id));
        if let Some(left) = left {
            *left += 1;
        }
        self.forget();
    }

    fn free(&mut self, ticket: Ticket) {
        let entry = self.at(ticket).expect("known");
        entry.state = State::Freeing;
        entry.shown = false;
        self.forget();
    }

    /// The clean extent with the oldest use that may be evicted.
    fn least_recent(&self) -> Option<Ticket> {
        let may = self.entries.iter().filter(|entry| {
            entry.state == State::Clean
                && entry.readers == 0
                && !self.is_kept(entry)
                && !self.is_out(entry.ticket.place.volume)
        });
        may.min_by_key(|entry| entry.used).map(|entry| entry.ticket)
    }

    fn evict(&mut self, most: u64) {
        for _ in 0..most {
            let Some(ticket) = self.least_recent() else {
                return;
            };
            self.free(ticket);
        }
    }

    pub(crate) fn make_room(&mut self) {
        if !self
            .entries
            .iter()
            .any(|entry| entry.state == State::Freeing)
        {
            self.evict(8);
        }
    }

    pub(crate) fn watermarks(&mut self, high: u64, low: u64) {
        let (mut used, mut all) = (0, 0);
        for (at, slots) in self
            .slots
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.out[*at])
        {
            let counts = self.counts(at);
            all += u64::from(*slots);
            let unused = counts[State::Free as usize] + counts[State::Freeing as usize];
            used += u64::from(slots - unused);
        }
        if used * 1000 > all * high {
            self.evict(used - (all * low / 1000));
        }
    }

    pub(crate) fn end_keeps(&mut self, now: Duration) {
        for keep in self.keeps.values_mut() {
            if let Keep::Until(until) = *keep
                && until <= now
            {
                *keep = Keep::No;
            }
        }
    }

    pub(crate) fn committed(&mut self, commit: &Commit, written: &[Ticket]) {
        let volume = commit.volume;
        for slot in &commit.freed {
            let place = Place {
                volume,
                slot: *slot,
            };
            let at = self
                .entries
                .iter()
                .position(|entry| entry.ticket.place == place)
                .expect("known");
            let gone = self.entries.remove(at);
            assert_eq!(gone.state, State::Freeing);
        }
        for ticket in written {
            let entry = self.at(*ticket).expect("known");
            assert_eq!(entry.state, State::Written);
            entry.state = if entry.flow == Flow::In {
                State::Dirty
            } else {
                State::Clean
            };
            entry.reservation = None;
            if entry.unwanted {
                self.free(*ticket);
            }
        }
    }

    pub(crate) fn drained(&mut self, ticket: Ticket, end: Drained) {
        let entry = self.at(ticket).expect("known");
        let (unwanted, file) = (entry.unwanted, Arc::clone(&entry.file));
        entry.state = match end {
            Drained::Done => State::Clean,
            Drained::Damaged => State::Lost,
            Drained::TargetFailed | Drained::Unread => State::Dirty,
        };
        entry.shown &= end != Drained::Damaged;
        if end == Drained::Done {
            self.touch(ticket);
        }
        if unwanted || (end == Drained::Done && self.is_superseded(&file)) {
            self.free(ticket);
        }
    }

    pub(crate) fn read(&mut self, ticket: Ticket, end: ReadEnd) {
        let Some(entry) = self.at(ticket) else { return };
        entry.readers -= 1;
        match (entry.state, end) {
            (State::Clean, ReadEnd::Damaged | ReadEnd::Failed) => self.free(ticket),
            (State::Dirty | State::Draining, ReadEnd::Damaged) => {
                entry.state = State::Lost;
                entry.shown = false;
            }
            _ => {}
        }
    }

    pub(crate) fn give_up(&mut self, file: &FileKey, with_dirty: bool) {
        let here: Vec<Ticket> = self
            .entries
            .iter()
            .filter(|entry| entry.shown && *entry.file == *file)
            .map(|entry| entry.ticket)
            .collect();
        for ticket in here {
            let entry = self.at(ticket).expect("known");
            let may_go = entry.flow == Flow::Out || with_dirty;
            match entry.state {
                State::Clean => self.free(ticket),
                State::Dirty if with_dirty => self.free(ticket),
                State::Filling | State::Written | State::Draining if may_go => {
                    entry.unwanted = true
                }
                _ => {}
            }
        }
    }

    pub(crate) fn observe(&mut self, file: &FileKey, generation: Generation) {
        let mut known: Vec<FileKey> = self
            .entries
            .iter()
            .filter(|entry| entry.state != State::Freeing)
            .map(|entry| (*entry.file).clone())
            .collect();
        known.sort();
        known.dedup();
        for one in known {
            if one.source != file.source || one.path != file.path {
                continue;
            }
            self.superseded.retain(|other| *other != one);
            if one.generation != generation {
                self.superseded.push(one.clone());
                self.give_up(&one, false);
            }
        }
        self.forget();
    }

    /// A volume goes out.
    pub(crate) fn strand(&mut self, volume: VolumeIndex) {
        self.out[usize::from(volume.0)] = true;
        let here: Vec<Ticket> = self
            .entries
            .iter()
            .map(|entry| entry.ticket)
            .filter(|ticket| ticket.place.volume == volume)
            .collect();
        for ticket in here {
            let entry = self.at(ticket).expect("known");
            entry.shown = false;
            match entry.state {
                State::Filling | State::Written => self.fail(ticket),
                State::Draining => entry.state = State::Dirty,
                _ => {}
            }
        }
    }

    /// The log of a volume is loaded; `tickets` gives the turns.
    pub(crate) fn load(&mut self, volume: VolumeIndex, extents: &[Recovered]) {
        self.entries
            .retain(|entry| entry.ticket.place.volume != volume);
        self.out[usize::from(volume.0)] = false;
        self.forget();
        let mut gone = Vec::new();
        for one in extents {
            let place = Place {
                volume,
                slot: one.slot,
            };
            self.uses += 1;
            let keep = self.keeps.entry((*one.content.file).clone()).or_default();
            *keep = (*keep).max(one.keep);
            let entry = Entry {
                ticket: Ticket { place, turn: 0 },
                state: if one.is_dirty {
                    State::Dirty
                } else {
                    State::Clean
                },
                file: Arc::clone(&one.content.file),
                offset: one.content.offset,
                flow: if one.is_dirty { Flow::In } else { Flow::Out },
                digest: Some(one.content.digest),
                readers: 0,
                unwanted: false,
                shown: true,
                used: self.uses,
                reservation: None,
            };
            let other = self.shown(&one.content.file, one.content.offset).cloned();
            let ticket = entry.ticket;
            self.entries.push(entry);
            let Some(other) = other else { continue };
            let is_only = other.state.is_only_copy();
            if one.is_dirty && !is_only {
                gone.push(other.ticket);
                self.at(other.ticket).expect("known").shown = false;
            } else {
                self.at(ticket).expect("known").shown = false;
                if !one.is_dirty || other.digest == Some(one.content.digest) {
                    gone.push(ticket);
                }
            }
        }
        for ticket in gone {
            let state = self.at(ticket).map(|entry| entry.state);
            if matches!(state, Some(State::Clean | State::Dirty)) {
                self.free(ticket);
            }
        }
    }
}
