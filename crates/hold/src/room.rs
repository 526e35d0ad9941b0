//! Room in a hold: which block leaves for a new one, and which questions are asked again when one has left.
//! Answers no question.

use std::hash::Hash;
use std::time::Duration;

use crate::Destination;
use crate::blocks::{Changed, Kept};
use crate::destinations::{Mask, bit};
use crate::hold::{ReadHold, Reading, Slot};
use crate::seen::Seen;

pub(crate) enum Room {
    Free,
    None,
    Wait(Mask, Option<Duration>),
}

/// Makes room for a block.
pub(crate) fn room<K: Clone + Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    now: Duration,
    bytes: u64,
    is_spare: bool,
) -> Room {
    let bytes = bytes.saturating_add(hold.bound.beside);
    if bytes > hold.bound.bytes {
        return Room::None;
    }
    loop {
        if hold.held.0 + bytes <= hold.bound.bytes && hold.held.1 < hold.bound.blocks {
            return Room::Free;
        }
        if let Some(block) = hold.blocks.take_free() {
            drop_block(hold, &block);
            continue;
        }
        if is_spare {
            return Room::None;
        }
        let Some(oldest) = hold.blocks.oldest_wanted() else {
            // All blocks are read or copied now, which ends soon.
            return Room::Wait(0, None);
        };
        let wanted = oldest.wanted & hold.destinations.current();
        let (patient, least) = hold.destinations.patient(wanted);
        make_behind(hold, wanted & !patient);
        if patient != 0 {
            return Room::Wait(patient, Some(now + least));
        }
        if let Some(block) = hold.blocks.take_oldest() {
            drop_block(hold, &block);
        }
    }
}

pub(crate) fn keep<K: Clone + Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    number: u64,
    read: &Reading<K>,
    content: B,
) {
    let others = hold.destinations.here() & !bit(read.who);
    let wanted = if read.manner.is_spare { 0 } else { others };
    if others == 0 {
        return release(hold, read.bytes);
    }
    let block = Kept {
        key: read.key.clone(),
        content,
        bytes: read.bytes,
        wanted,
        is_spare: read.manner.is_spare,
        copying: 0,
    };
    hold.slots.insert(read.key.clone(), Slot::Kept(number));
    let current = hold.destinations.current();
    hold.blocks.insert(number, block, current);
}

pub(crate) fn change_block<K: Clone + Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    number: u64,
    change: impl FnOnce(&mut Kept<K, B>),
) {
    let current = hold.destinations.current();
    match hold.blocks.change(number, current, change) {
        Changed::Left(block) => {
            drop_block(hold, &block);
            wake_for_room(hold);
        }
        Changed::Free => wake_for_room(hold),
        Changed::Wanted => {
            // These wait for no destination yet.
            let waiting = hold.for_room.iter();
            let unbound = waiting.filter(|id| hold.asks.get(id).is_none_or(|ask| ask.awaited == 0));
            hold.woken.extend(unbound);
        }
        Changed::Nothing => {}
    }
}

pub(crate) fn change_all<K: Clone + Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    change: impl Fn(&mut Kept<K, B>),
) {
    let current = hold.destinations.current();
    let (left, frees) = hold.blocks.change_all(current, change);
    for block in &left {
        drop_block(hold, block);
    }
    if frees || !left.is_empty() {
        wake_for_room(hold);
    }
}

pub(crate) fn drop_block<K: Eq + Hash, B, E>(hold: &mut ReadHold<K, B, E>, block: &Kept<K, B>) {
    hold.slots.remove(&block.key);
    release(hold, block.bytes);
}

pub(crate) const fn release<K, B, E>(hold: &mut ReadHold<K, B, E>, bytes: u64) {
    hold.held.0 = hold.held.0.saturating_sub(bytes + hold.bound.beside);
    hold.held.1 = hold.held.1.saturating_sub(1);
}

pub(crate) fn make_current<K: Clone + Eq + Hash, B, E>(
    hold: &mut ReadHold<K, B, E>,
    who: Destination,
) {
    if hold.destinations.make_current(who) {
        sort_all(hold);
    }
}

pub(crate) fn make_behind<K: Clone + Eq + Hash, B, E>(hold: &mut ReadHold<K, B, E>, of: Mask) {
    if of == 0 {
        return;
    }
    hold.destinations.make_behind(of);
    renew_if_none_is_current(hold);
    sort_all(hold);
}

/// Without a destination that keeps up, all that are here begin again.
pub(crate) fn renew_if_none_is_current<K, B, E>(hold: &mut ReadHold<K, B, E>) {
    if hold.destinations.current() == 0 {
        hold.destinations.make_all_current();
        hold.seen = Seen::default();
    }
}

pub(crate) fn sort_all<K: Clone + Eq + Hash, B, E>(hold: &mut ReadHold<K, B, E>) {
    change_all(hold, |_| {});
}

pub(crate) fn wake_for_room<K, B, E>(hold: &mut ReadHold<K, B, E>) {
    hold.woken.extend(&hold.for_room);
}

pub(crate) fn wake_for_storage<K, B, E>(hold: &mut ReadHold<K, B, E>) {
    hold.woken.extend(&hold.for_storage);
}
