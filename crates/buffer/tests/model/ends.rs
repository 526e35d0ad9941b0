//! Owns the steps in which drains and reads end, files change, and bits flip.

use std::time::Duration;

use godwit_buffer::extent::{Keep, Place, State};
use godwit_buffer::ledger::{DrainSettings, Drained, Order, ReadEnd};

use super::world::{World, pick};

impl World {
    pub(crate) fn end_drain(&mut self) {
        let Some(ticket) = pick(&mut self.seeded, &self.drains) else {
            return;
        };
        self.drains.retain(|one| *one != ticket);
        let entry = self.reference.at(ticket).cloned();
        let Some(entry) = entry.filter(|entry| entry.state == State::Draining) else {
            self.ledger.handle_drained(self.now, ticket, Drained::Done);
            return;
        };
        let is_right = self.media.get(&ticket.place) == entry.digest.as_ref();
        let end = match self.seeded.below(60) {
            0..3 => Drained::TargetFailed,
            3 => Drained::Unread,
            _ if is_right => Drained::Done,
            _ => Drained::Damaged,
        };
        self.settle(&entry, end == Drained::Done, end == Drained::Damaged);
        self.reference.drained(ticket, end);
        self.ledger.handle_drained(self.now, ticket, end);
    }

    /// Settles an extent: the slow storage has it, or it is reported as lost.
    pub(crate) fn settle(
        &mut self,
        entry: &super::reference::Entry,
        is_drained: bool,
        is_damaged: bool,
    ) {
        let digest = entry.digest.expect("durable").value.0;
        let owed = ((*entry.file).clone(), entry.offset, digest);
        if is_drained || is_damaged {
            self.owed.remove(&owed);
        }
        self.lost += u64::from(is_damaged);
    }

    pub(crate) fn read(&mut self) {
        if !self.reads.is_empty() && self.seeded.one_in(2) {
            let (ticket, _) = pick(&mut self.seeded, &self.reads).expect("there");
            let at = self
                .reads
                .iter()
                .position(|(one, _)| *one == ticket)
                .expect("there");
            self.reads.remove(at);
            let Some(entry) = self.reference.at(ticket).cloned() else {
                self.ledger.handle_read(self.now, ticket, ReadEnd::Good);
                return;
            };
            let is_right = self.media.get(&ticket.place) == entry.digest.as_ref();
            let end = match self.seeded.below(100) {
                0 => ReadEnd::Failed,
                1 => ReadEnd::GaveUp,
                _ if is_right => ReadEnd::Good,
                _ => ReadEnd::Damaged,
            };
            if end == ReadEnd::Damaged && entry.state.is_only_copy() {
                self.settle(&entry, false, entry.state != State::Lost);
            }
            self.reference.read(ticket, end);
            self.ledger.handle_read(self.now, ticket, end);
            return;
        }
        let (file, offset) = (self.file(), self.offset());
        let shown = self.reference.shown(&file, offset).cloned();
        let expected =
            shown.filter(|entry| entry.state.is_served() && !self.reference.is_superseded(&file));
        let found = self.ledger.find(self.now, &file, offset);
        assert_eq!(
            found.is_some(),
            expected.is_some(),
            "{file} {offset}: {expected:?}"
        );
        let (Some((ticket, content)), Some(entry)) = (found, expected) else {
            return;
        };
        assert_eq!(
            (&*content.file, content.offset, Some(content.digest)),
            (&*file, offset, entry.digest)
        );
        self.reference.learn(ticket);
        self.reference.touch(ticket);
        self.reference.at(ticket).expect("the same extent").readers += 1;
        self.reads.push((ticket, self.now));
        self.count("find");
    }

    pub(crate) fn keep_or_change(&mut self) {
        let file = self.file();
        match self.seeded.below(8) {
            0 => {
                self.ledger
                    .observe(file.source, &file.path, file.generation);
                self.reference.observe(&file, file.generation);
                self.count("observe");
            }
            1 if self.seeded.one_in(20) => {
                let settings = DrainSettings {
                    order: pick(
                        &mut self.seeded,
                        &[Order::Oldest, Order::ByFile, Order::SmallFiles],
                    )
                    .expect("there"),
                    rate: pick(&mut self.seeded, &[None, Some(32_768), Some(1 << 30)])
                        .expect("there"),
                    at_once: 3,
                };
                self.ledger.set_drain(settings);
            }
            _ => {
                let until = Keep::Until(self.now + Duration::from_secs(self.seeded.below(20)));
                let keep =
                    pick(&mut self.seeded, &[Keep::No, until, until, Keep::Pinned]).expect("there");
                let here = self
                    .reference
                    .entries
                    .iter()
                    .filter(|entry| *entry.file == *file && entry.state != State::Freeing);
                let is_known = here.clone().count() > 0;
                let clean = here
                    .filter(|entry| entry.shown && entry.state == State::Clean)
                    .count() as u64;
                let before = self.reference.keeps.get(&file).copied().unwrap_or_default();
                let fits =
                    before != Keep::No || keep == Keep::No || clean <= self.reference.available();
                assert_eq!(self.ledger.keep(&file, keep), is_known && fits);
                if is_known && fits {
                    self.reference.keeps.insert((*file).clone(), keep);
                }
            }
        }
    }

    pub(crate) fn abandon(&mut self) {
        let (file, with_dirty) = (self.file(), self.seeded.one_in(2));
        self.ledger.abandon(&file, with_dirty);
        self.reference.give_up(&file, with_dirty);
        if with_dirty {
            self.owed.retain(|(one, ..)| *one != *file);
        }
        self.count("abandon");
    }

    /// A bit flips on a volume.
    pub(crate) fn corrupt(&mut self) {
        let places: Vec<Place> = self.media.keys().copied().collect();
        if let Some(place) = pick(&mut self.seeded, &places) {
            let digest = self.media.get_mut(&place).expect("there");
            digest.value.0[20] ^= 1;
            self.count("corrupt");
        }
    }
}
