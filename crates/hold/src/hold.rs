//! The step machine of a hold: questions, reads, takes, and ends of destinations.
//! Keeps the order of blocks in `blocks`, and the patience in `destinations`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use crate::blocks::Blocks;
use crate::destinations::{Destinations, Mask, bit};
use crate::room::{
    Room, change_all, change_block, keep, make_current, release, renew_if_none_is_current, room,
    wake_for_room, wake_for_storage,
};
use crate::seen::Seen;
use crate::{Answer, AskId, Bound, Destination, Figures, Lane, Outcome, ReadId, TakeId};

/// Blocks of one source that several destinations share. `K` is a key, `B` a cheap handle of contents, `E` a reason of failure.
#[derive(Debug)]
pub struct ReadHold<K, B, E> {
    pub(crate) bound: Bound,
    pub(crate) destinations: Destinations,
    pub(crate) slots: HashMap<K, Slot>,
    pub(crate) blocks: Blocks<K, B>,
    pub(crate) reads: BTreeMap<u64, Reading<K>>,
    pub(crate) asks: BTreeMap<AskId, BlockQuestion<K, E>>,
    /// Questions that wait for room, in their order, and those that wait for storage.
    pub(crate) for_room: BTreeSet<AskId>,
    pub(crate) for_storage: BTreeSet<AskId>,
    pub(crate) seen: Seen,
    /// Bytes and number of blocks that are kept or will be.
    pub(crate) held: (u64, usize),
    /// Reads at normal priority.
    pub(crate) busy: usize,
    pub(crate) next: u64,
    pub(crate) woken: BTreeSet<AskId>,
    pub(crate) figures: Figures,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    Reading(u64),
    Kept(u64),
}

/// How a block is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) is_kept: bool,
    /// This destination is behind, so other destinations read first.
    pub(crate) is_low: bool,
    /// The block was read before, so no other destination waits for its reader.
    pub(crate) is_spare: bool,
}

#[derive(Debug)]
pub(crate) struct Reading<K> {
    pub(crate) who: Destination,
    pub(crate) key: K,
    pub(crate) bytes: u64,
    pub(crate) manner: Manner,
    pub(crate) began: Duration,
    pub(crate) waiting: BTreeSet<AskId>,
}

#[derive(Debug)]
pub(crate) struct BlockQuestion<K, E> {
    pub(crate) from: Lane,
    pub(crate) key: K,
    pub(crate) bytes: u64,
    /// Destinations that this question waits for.
    pub(crate) awaited: Mask,
    pub(crate) failed: Option<E>,
}

impl<K: Clone + Eq + Hash, B: Clone, E: Clone> ReadHold<K, B, E> {
    /// An empty hold.
    #[must_use]
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            destinations: Destinations::default(),
            slots: HashMap::new(),
            blocks: Blocks::default(),
            reads: BTreeMap::new(),
            asks: BTreeMap::new(),
            for_room: BTreeSet::new(),
            for_storage: BTreeSet::new(),
            seen: Seen::default(),
            held: (0, 0),
            busy: 0,
            next: 0,
            woken: BTreeSet::new(),
            figures: Figures::default(),
        }
    }

    /// A destination begins, perhaps again.
    pub fn join(&mut self, now: Duration, who: Destination) {
        settle(self, now);
        if !self.destinations.is_here(who) {
            self.destinations.join(now, who);
        }
    }

    /// A destination has ended, or begins again later. Only its own blocks leave.
    pub fn leave(&mut self, now: Duration, who: Destination) {
        settle(self, now);
        if !self.destinations.is_here(who) {
            return;
        }
        self.destinations.leave(who);
        renew_if_none_is_current(self);
        change_all(self, |block| block.wanted &= !bit(who));
        let asks = self.asks.iter();
        let own = asks.filter(|(_, ask)| ask.from.0 == who);
        self.woken.extend(own.map(|(id, _)| *id));
        wake_for_room(self);
        wake_for_storage(self);
    }

    /// A lane of a destination asks for a key.
    pub fn ask(&mut self, now: Duration, from: Lane, key: &K, bytes: u64) -> Answer<B, E> {
        settle(self, now);
        self.destinations.note_ask(now, from.0, from.1);
        let asked = BlockQuestion {
            from,
            key: key.clone(),
            bytes,
            awaited: 0,
            failed: None,
        };
        answer(self, now, asked, None)
    }

    /// A question that waited is asked again.
    pub fn again(&mut self, now: Duration, id: AskId) -> Answer<B, E> {
        settle(self, now);
        let Some(asked) = remove_ask(self, now, id) else {
            return Answer::Gone;
        };
        match asked.failed {
            Some(error) => Answer::Failed(error),
            None => answer(self, now, asked, Some(id)),
        }
    }

    /// A question that waited is not asked again.
    pub fn forget(&mut self, now: Duration, id: AskId) {
        settle(self, now);
        remove_ask(self, now, id);
    }

    /// A read has ended.
    pub fn finish(&mut self, now: Duration, id: ReadId, outcome: Outcome<B, E>) {
        settle(self, now);
        let Some(read) = self.reads.remove(&id.0) else {
            return;
        };
        if read.manner.is_low {
            let took = now.saturating_sub(read.began);
            self.destinations.low_ends(now, read.who, took);
        } else {
            self.busy = self.busy.saturating_sub(1);
        }
        if let Outcome::Content(_) = &outcome {
            self.figures.read_bytes += read.bytes;
            if self.seen.has(&read.key) {
                self.figures.again_bytes += read.bytes;
            }
            self.seen.add(&read.key);
        }
        if read.manner.is_kept {
            self.slots.remove(&read.key);
            match outcome {
                Outcome::Content(Some(content)) => keep(self, id.0, &read, content),
                Outcome::Failed(error) => {
                    release(self, read.bytes);
                    for waiting in &read.waiting {
                        if let Some(ask) = self.asks.get_mut(waiting) {
                            ask.failed = Some(error.clone());
                        }
                    }
                }
                Outcome::Content(None) | Outcome::Abandoned => release(self, read.bytes),
            }
            self.woken.extend(&read.waiting);
            wake_for_room(self);
        }
        if self.busy == 0 {
            wake_for_storage(self);
        }
    }

    /// A copy of a kept block is made.
    pub fn handle_copied(&mut self, now: Duration, id: TakeId) {
        settle(self, now);
        change_block(self, id.0, |block| {
            block.copying = block.copying.saturating_sub(1);
        });
    }

    /// The questions to ask again, each once.
    pub fn woken(&mut self) -> BTreeSet<AskId> {
        std::mem::take(&mut self.woken)
    }

    /// Whether the destination is behind.
    #[must_use]
    pub fn is_behind(&self, who: Destination) -> bool {
        self.destinations.is_behind(who)
    }

    /// Whether other destinations are here.
    #[must_use]
    pub fn has_others(&self, who: Destination) -> bool {
        self.destinations.here() & !bit(who) != 0
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            kept_bytes: self.held.0,
            ..self.figures
        }
    }
}

/// Only a destination that sends nothing loses anything by waiting.
fn settle<K, B, E>(hold: &mut ReadHold<K, B, E>, now: Duration) {
    let waiting = hold.for_room.iter().filter_map(|id| hold.asks.get(id));
    let held_up = waiting.filter(|ask| hold.destinations.is_held_up(now, ask.from.0));
    let awaited = held_up.fold(0, |all, ask| all | ask.awaited);
    hold.destinations.settle(now, awaited);
}

fn remove_ask<K: Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    now: Duration,
    id: AskId,
) -> Option<BlockQuestion<K, E>> {
    hold.for_room.remove(&id);
    hold.for_storage.remove(&id);
    let asked = hold.asks.remove(&id)?;
    let Lane(who, lane) = asked.from;
    hold.destinations.note_wait(now, who, lane, false);
    if let Some(Slot::Reading(read)) = hold.slots.get(&asked.key)
        && let Some(read) = hold.reads.get_mut(read)
    {
        read.waiting.remove(&id);
    }
    Some(asked)
}

fn answer<K: Clone + Eq + Hash, B: Clone, E: Clone>(
    hold: &mut ReadHold<K, B, E>,
    now: Duration,
    asked: BlockQuestion<K, E>,
    id: Option<AskId>,
) -> Answer<B, E> {
    let who = asked.from.0;
    if !hold.destinations.is_here(who) {
        return Answer::Gone;
    }
    match hold.slots.get(&asked.key).copied() {
        Some(Slot::Kept(number)) => return take(hold, who, number),
        Some(Slot::Reading(read)) => {
            let read_of = hold.reads.get(&read);
            if read_of.is_some_and(|read| !read.manner.is_spare) {
                make_current(hold, who);
            }
            let id = wait(hold, now, asked, id);
            if let Some(read) = hold.reads.get_mut(&read) {
                read.waiting.insert(id);
            }
            return Answer::Wait(id, None);
        }
        None => {}
    }
    if hold.destinations.here() & !bit(who) == 0 {
        return begin(hold, now, asked, Manner::default());
    }
    let is_seen = hold.seen.has(&asked.key);
    let is_low = hold.destinations.is_behind(who) && (is_seen || hold.seen.has_forgotten());
    let is_spare = is_seen || is_low;
    if is_low && hold.busy > 0 {
        let due = hold.destinations.low_due(who);
        if now < due {
            let id = wait(hold, now, asked, id);
            hold.for_storage.insert(id);
            return Answer::Wait(id, Some(due));
        }
    }
    let manner = Manner {
        is_kept: true,
        is_low,
        is_spare,
    };
    match room(hold, now, asked.bytes, is_spare) {
        Room::Free => begin(hold, now, asked, manner),
        Room::None => begin(
            hold,
            now,
            asked,
            Manner {
                is_kept: false,
                ..manner
            },
        ),
        Room::Wait(awaited, until) => {
            let id = wait(hold, now, BlockQuestion { awaited, ..asked }, id);
            hold.for_room.insert(id);
            Answer::Wait(id, until)
        }
    }
}

fn take<K: Clone + Eq + Hash, B: Clone, E>(
    hold: &mut ReadHold<K, B, E>,
    who: Destination,
    number: u64,
) -> Answer<B, E> {
    let Some(block) = hold.blocks.get(number) else {
        return Answer::Gone;
    };
    let (content, is_spare) = (block.content.clone(), block.is_spare);
    if !is_spare {
        make_current(hold, who);
    }
    change_block(hold, number, |block| {
        block.wanted &= !bit(who);
        block.copying += 1;
    });
    Answer::Take(TakeId(number), content)
}

fn wait<K: Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    now: Duration,
    asked: BlockQuestion<K, E>,
    id: Option<AskId>,
) -> AskId {
    let Lane(who, lane) = asked.from;
    hold.destinations.note_wait(now, who, lane, true);
    let id = id.unwrap_or_else(|| {
        hold.next += 1;
        AskId(hold.next)
    });
    hold.asks.insert(id, asked);
    id
}

fn begin<K: Clone + Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    now: Duration,
    asked: BlockQuestion<K, E>,
    manner: Manner,
) -> Answer<B, E> {
    hold.next += 1;
    let number = hold.next;
    if manner.is_kept {
        hold.held.0 += asked.bytes + hold.bound.beside;
        hold.held.1 += 1;
        hold.slots.insert(asked.key.clone(), Slot::Reading(number));
    }
    if manner.is_low {
        hold.destinations.low_begins(now, asked.from.0);
    } else {
        make_current(hold, asked.from.0);
        hold.busy += 1;
    }
    hold.reads.insert(
        number,
        Reading {
            who: asked.from.0,
            key: asked.key,
            bytes: asked.bytes,
            manner,
            began: now,
            waiting: BTreeSet::new(),
        },
    );
    Answer::Read(ReadId(number), manner.is_kept)
}
