//! Owns the steps of callers: room, writes, polls and commits. Each step goes to the ledger and to the reference.

use std::collections::BTreeSet;
use std::time::Duration;

use godwit_buffer::extent::{
    FileKey, Flow, Generation, Place, Record, Recovered, SourceId, State, Ticket, VolumeIndex,
};
use godwit_buffer::ledger::{
    Action, Admission, Begun, Commit, IfFull, Notice, Reason, ReservationId, WriteFault,
};

use super::world::{World, pick};

impl World {
    pub(crate) fn reserve(&mut self) {
        let all: u64 = self
            .reference
            .slots
            .iter()
            .map(|slots| u64::from(*slots))
            .sum();
        let extents = match self.seeded.below(40) {
            0 => all + 1,
            1 => self.seeded.below(all),
            _ => 1 + self.seeded.below(4),
        };
        let if_full = if self.seeded.one_in(2) {
            IfFull::Wait
        } else {
            IfFull::PassThrough
        };
        let fits = self.reference.waiting.is_empty() && extents <= self.reference.available();
        match self.ledger.reserve(extents, if_full) {
            Admission::Granted(id) => {
                assert!(fits, "granted {extents}");
                self.reference.reservations.insert(id, extents);
            }
            Admission::Waits(id, _) => {
                assert!(!fits && if_full == IfFull::Wait && extents <= all);
                self.reference.waiting.push((id, extents));
                self.count("wait");
            }
            Admission::PassThrough(reason) => {
                let is_larger = reason == Reason::LargerThanBuffer;
                assert_eq!(is_larger, extents > all);
                assert!(is_larger || (!fits && if_full == IfFull::PassThrough));
                self.count("pass through");
            }
        }
    }

    pub(crate) fn release(&mut self) {
        let mut seeded = self.seeded.clone();
        let granted = self
            .reference
            .reservations
            .iter()
            .filter(|(_, left)| **left == 0 || seeded.one_in(4))
            .map(|(id, _)| *id);
        let waiting = self.reference.waiting.iter().map(|(id, _)| *id);
        let all: Vec<ReservationId> = granted.chain(waiting).collect();
        if let Some(id) = pick(&mut self.seeded, &all) {
            self.ledger.release(id);
            self.reference.reservations.remove(&id);
            self.reference.waiting.retain(|(waiting, _)| *waiting != id);
        }
    }

    pub(crate) fn begin(&mut self) {
        let (file, offset) = (self.file(), self.offset());
        let flow = if self.seeded.one_in(2) {
            Flow::In
        } else {
            Flow::Out
        };
        let with_room = self
            .reference
            .reservations
            .iter()
            .filter(|(_, left)| **left > 0);
        let with_room: Vec<ReservationId> = with_room.map(|(id, _)| *id).collect();
        let id = pick(&mut self.seeded, &with_room).unwrap_or(ReservationId(u32::MAX));
        let left = self.reference.reservations.get(&id).copied().unwrap_or(0);
        let shown = self
            .reference
            .shown(&file, offset)
            .map(|entry| entry.ticket);
        let begun = self.ledger.begin(self.now, id, &file, offset, flow);
        let is_refused = offset >= file.generation.bytes || self.reference.is_superseded(&file);
        assert_eq!(begun == Begun::Refused, is_refused, "{file} {offset}");
        match begun {
            Begun::Here(ticket) => {
                assert!(shown.is_none() && left > 0, "{ticket:?} beside {shown:?}");
                self.reference.begin(ticket, &file, offset, flow, id);
                self.writes.push((ticket, self.now));
                self.count("begin");
            }
            Begun::Present(ticket) => {
                let shown = shown.expect("present");
                assert!(shown.place == ticket.place && (shown.turn == 0 || shown == ticket));
            }
            Begun::Later(Reason::Reserved) => assert_eq!(left, 0),
            Begun::Later(reason) => {
                assert!(shown.is_none() && left > 0);
                for at in 0..self.logs.len() {
                    let volume = VolumeIndex(u16::try_from(at).expect("small"));
                    let is_full = self
                        .full_until
                        .get(&volume)
                        .is_some_and(|until| self.now < *until);
                    let may = !self.reference.out[at] && !is_full && !self.slow.contains(&volume);
                    let free = self.reference.counts(at)[State::Free as usize];
                    assert!(!may || free == 0, "{reason:?} with room on {volume:?}");
                }
                if reason == Reason::Freeing {
                    self.reference.make_room();
                }
                self.count("later");
            }
            Begun::Refused => {}
        }
    }

    pub(crate) fn end_write(&mut self) {
        let Some((ticket, begun)) = pick(&mut self.seeded, &self.writes) else {
            return;
        };
        self.writes.retain(|(one, _)| *one != ticket);
        let entry = self.reference.at(ticket).cloned();
        let end = match self.seeded.below(150) {
            0 => Err(WriteFault::Failed),
            1 => Err(WriteFault::NoSpace),
            2 => Err(WriteFault::GaveUp),
            _ => Ok(()),
        };
        let _ = begun;
        let digest = match &entry {
            Some(entry) => self.digest(&entry.file.clone(), entry.offset),
            None => self.digest(&self.file_for_late(), 0),
        };
        // A late write of an extent that is not valid any more has no place to go: the shell fences it by the ticket.
        if let Some(entry) = entry.filter(|entry| entry.state == State::Filling) {
            match end {
                Ok(()) if !entry.unwanted => {
                    self.media.insert(ticket.place, digest);
                    let known = self.reference.at(ticket).expect("known");
                    known.state = State::Written;
                    known.digest = Some(digest);
                    self.reference.touch(ticket);
                }
                Err(WriteFault::NoSpace) => {
                    self.full_until
                        .insert(ticket.place.volume, self.now + Duration::from_secs(10));
                }
                _ => {}
            }
        }
        self.ledger
            .handle_written(self.now, ticket, end.map(|()| digest));
    }

    pub(crate) fn file_for_late(&self) -> FileKey {
        FileKey {
            source: SourceId([9; 16]),
            path: vec![b'z'],
            generation: Generation { bytes: 1, stamp: 1 },
        }
    }

    pub(crate) fn poll(&mut self) {
        for _ in 0..=self.seeded.below(4) {
            self.before_poll();
            let granted = self.reference.grant();
            let action = self.ledger.poll_action(self.now);
            self.take_grants(&granted);
            match action {
                Some(Action::Commit(commit)) => self.begin_commit(commit),
                Some(Action::Drain(ticket, content)) => {
                    self.reference.learn(ticket);
                    let entry = self.reference.at(ticket).expect("known");
                    assert_eq!(entry.state, State::Dirty, "only dirty extents drain");
                    assert_eq!(Some(content.digest), entry.digest);
                    entry.state = State::Draining;
                    self.drains.push(ticket);
                    self.count("drain");
                }
                Some(Action::Probe(volume)) => {
                    let is_good = !self.seeded.one_in(4);
                    self.ledger.handle_probed(self.now, volume, is_good);
                    self.count("probe");
                }
                Some(Action::Reopen(volume)) => {
                    let extents: Vec<Recovered> =
                        self.logs[usize::from(volume.0)].values().cloned().collect();
                    if self.seeded.one_in(4) {
                        self.ledger.handle_reopened(volume, None);
                    } else {
                        self.ledger.handle_reopened(volume, Some(extents.clone()));
                        self.reference.load(volume, &extents);
                        self.count("reopen");
                    }
                }
                None => return,
            }
        }
    }

    /// The effects of a poll before it returns an action.
    pub(crate) fn before_poll(&mut self) {
        self.reference.end_keeps(self.now);
        let all = self.writes.iter().chain(&self.reads);
        let hung: BTreeSet<VolumeIndex> = all
            .filter(|(ticket, begun)| {
                let place = ticket.place;
                let is_live = self
                    .reference
                    .entries
                    .iter()
                    .any(|entry| entry.ticket == *ticket);
                is_live
                    && self.now - *begun > Duration::from_secs(30)
                    && !self.reference.out[usize::from(place.volume.0)]
            })
            .map(|(ticket, _)| ticket.place.volume)
            .collect();
        for volume in hung {
            self.reference.strand(volume);
            self.count("hung");
        }
        self.reference.watermarks(950, 900);
    }

    pub(crate) fn take_grants(&mut self, granted: &[ReservationId]) {
        let mut ids = Vec::new();
        while let Some(notice) = self.ledger.poll_notice() {
            match notice {
                Notice::Granted(id) => ids.push(id),
                other => self.take_notice(other),
            }
        }
        assert_eq!(ids, granted, "grants in their order");
    }

    pub(crate) fn begin_commit(&mut self, commit: Commit) {
        assert!(
            self.commits
                .iter()
                .all(|one| one.volume != commit.volume || one.number < commit.number)
        );
        for record in &commit.records {
            match record {
                Record::Holds {
                    slot,
                    content,
                    is_dirty,
                    ..
                } => {
                    let place = Place {
                        volume: commit.volume,
                        slot: *slot,
                    };
                    // A flipped bit may be in it already.
                    let media = self.media.get(&place).map(|digest| &digest.value.0[..20]);
                    assert_eq!(
                        media,
                        Some(&content.digest.value.0[..20]),
                        "written before it is durable"
                    );
                    let entry = self
                        .reference
                        .entries
                        .iter()
                        .find(|entry| entry.ticket.place == place)
                        .expect("known");
                    assert_eq!(
                        (entry.state, *is_dirty),
                        (State::Written, entry.flow == Flow::In)
                    );
                }
                Record::Free(slot) => {
                    let place = Place {
                        volume: commit.volume,
                        slot: *slot,
                    };
                    let entry = self
                        .reference
                        .entries
                        .iter()
                        .find(|entry| entry.ticket.place == place)
                        .expect("known");
                    assert_eq!((entry.state, entry.readers), (State::Freeing, 0));
                }
                Record::Clean(_) | Record::Keep(..) => {}
                Record::Arrived(..) | Record::Placed(..) => unreachable!("no file arrives here"),
            }
        }
        self.commits.push(commit);
    }

    pub(crate) fn end_commit(&mut self) {
        if self.commits.is_empty() {
            return;
        }
        let at = usize::try_from(self.seeded.below(self.commits.len() as u64)).expect("small");
        let commit = self.commits.swap_remove(at);
        let (volume, is_out) = (
            commit.volume,
            self.reference.out[usize::from(commit.volume.0)],
        );
        let is_good = !self.seeded.one_in(100);
        // A commit of a volume that went out meanwhile: the shell closed its log, so nothing arrives.
        let some = match (is_out, is_good) {
            (true, _) => 0,
            (false, true) => commit.records.len(),
            (false, false) => {
                usize::try_from(self.seeded.below(commit.records.len() as u64 + 1)).expect("small")
            }
        };
        let stale = is_out || self.stale(&commit);
        if !stale {
            for record in &commit.records[..some] {
                self.apply(volume, record);
            }
        }
        self.ledger
            .handle_committed(self.now, volume, commit.number, is_good);
        if stale || !is_good {
            self.count("bad commit");
            return;
        }
        let places = commit.slots.iter().map(|slot| Place {
            volume,
            slot: *slot,
        });
        let places: Vec<Place> = places.collect();
        let written: Vec<Ticket> = self
            .reference
            .entries
            .iter()
            .map(|entry| entry.ticket)
            .filter(|ticket| places.contains(&ticket.place))
            .collect();
        for ticket in &written {
            let entry = self.reference.at(*ticket).expect("known");
            if entry.flow == Flow::In && !entry.unwanted {
                let digest = entry.digest.expect("written").value.0;
                self.owed
                    .insert(((*entry.file).clone(), entry.offset, digest));
            }
        }
        self.reference.committed(&commit, &written);
        self.count("commit");
    }
}
