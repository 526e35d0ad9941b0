//! Divides a process's resources among its transfers: which are admitted, in which order, and how much each may use. Never blocks
//! and allocates no resource; the governor calls this module and enforces its results.

use std::collections::{BTreeMap, VecDeque};

use godwit_net::IdentityId;

/// Resources of a process that transfers use. Each amount is divided separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of block buffers.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open files and sockets.
    pub files: u64,
}

/// The side that begins a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This process begins the transfer.
    Own,
    /// A peer begins the transfer. An own transfer waits for an accepted one at the peer, so neither class may use the other's
    /// room: otherwise two full processes would wait for each other.
    Accepted,
}

/// Resources that one end of a transfer needs and can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// Minimum without which the end cannot move; always granted.
    pub(super) least: Resources,
    /// Maximum that the end ever uses.
    pub(super) most: Resources,
}

/// Number of an admitted end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SeatId(u64);

/// Number of a waiting transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
struct Seat {
    class: Class,
    owner: Option<IdentityId>,
    want: Want,
    share: Resources,
    /// Memory that the end holds.
    held: u64,
}

/// A transfer that waits.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    class: Class,
    /// The identity that the transfer counts for. All transfers without an identity share one queue, and only their class bounds them.
    owner: Option<IdentityId>,
    wants: Vec<Want>,
}

/// The division of the resources.
#[derive(Debug)]
pub(super) struct Core {
    budget: Resources,
    seats: BTreeMap<SeatId, Seat>,
    queue: VecDeque<Waiting>,
    next: u64,
    held: u64,
    held_most: u64,
}

impl Resources {
    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            memory: of(self.memory, other.memory),
            threads: of(self.threads, other.threads),
            files: of(self.files, other.files),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// The smaller of each amount.
    pub fn min(self, other: Self) -> Self {
        self.each(other, u64::min)
    }

    /// The larger of each amount.
    pub fn max(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn fits(self, room: Self) -> bool {
        self.min(room) == self
    }

    fn part(self, numerator: u64, denominator: u64) -> Self {
        self.each(Self::default(), |all, _| {
            all / denominator * numerator + all % denominator * numerator / denominator
        })
    }
}

impl Core {
    pub(super) fn new(budget: Resources) -> Self {
        Self {
            budget,
            seats: BTreeMap::new(),
            queue: VecDeque::new(),
            next: 0,
            held: 0,
            held_most: 0,
        }
    }

    /// Puts the ends of a transfer at the end of the queue of their class and owner.
    pub(super) fn enqueue(
        &mut self,
        class: Class,
        owner: Option<IdentityId>,
        wants: Vec<Want>,
    ) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.queue.push_back(Waiting {
            ticket,
            class,
            owner,
            wants,
        });
        ticket
    }

    /// Admits the ends of a transfer if there is room and no earlier transfer of the same class and owner waits. Transfers of other
    /// owners may pass.
    pub(super) fn poll_admission(&mut self, ticket: Ticket) -> Option<Vec<SeatId>> {
        let (at, waiting) = self.place(ticket)?;
        if self.ahead(ticket) > 0 || !self.has_room(waiting) {
            return None;
        }
        let Waiting {
            class,
            owner,
            wants,
            ..
        } = self.queue.remove(at)?;
        let ids = wants.into_iter().map(|want| self.seat(class, owner, want));
        let ids = ids.collect();
        self.divide();
        Some(ids)
    }

    /// Number of transfers of the same class and owner ahead of this one.
    pub(super) fn ahead(&self, ticket: Ticket) -> usize {
        let Some((at, waiting)) = self.place(ticket) else {
            return 0;
        };
        let before = self.queue.iter().take(at);
        before
            .filter(|other| (other.class, other.owner) == (waiting.class, waiting.owner))
            .count()
    }

    /// Removes a transfer that no longer waits.
    pub(super) fn give_up(&mut self, ticket: Ticket) {
        self.queue.retain(|waiting| waiting.ticket != ticket);
    }

    /// The owner with the least reserved memory.
    pub(super) fn lightest(&self, owners: &[IdentityId]) -> Option<IdentityId> {
        let memory = |owner: &IdentityId| self.least_of(|seat| seat.owner == Some(*owner)).memory;
        owners.iter().copied().min_by_key(memory)
    }

    /// The amounts that the accepted transfers of one owner may have as their minimum.
    pub(super) fn share_of_owner(&self) -> Resources {
        self.budget.part(1, 4)
    }

    /// Removes an end; its memory becomes free.
    pub(super) fn leave(&mut self, id: SeatId) {
        if let Some(seat) = self.seats.remove(&id) {
            self.held -= seat.held;
            self.divide();
        }
    }

    /// The resources that the seat's holder may use now.
    pub(super) fn share(&self, id: SeatId) -> Resources {
        self.seats
            .get(&id)
            .map_or_else(Resources::default, |seat| seat.share)
    }

    /// Grants the end `bytes` more if possible, and returns whether it did. With `must` the bytes are always granted.
    pub(super) fn grow(&mut self, id: SeatId, bytes: u64, must: bool) -> bool {
        let reserved = self.reserved();
        let Some(seat) = self.seats.get_mut(&id) else {
            return false;
        };
        let after = seat.held.saturating_add(bytes);
        // The end's minimum is reserved; memory beyond it comes from the unreserved rest.
        let more = after
            .max(seat.want.least.memory)
            .saturating_sub(seat.held.max(seat.want.least.memory));
        let fits = reserved.saturating_add(more) <= self.budget.memory;
        if !must && (after > seat.share.memory || (more > 0 && !fits)) {
            return false;
        }
        seat.held = after;
        self.held += bytes;
        self.held_most = self.held_most.max(self.held);
        true
    }

    /// The end has released `bytes`.
    pub(super) fn shrink(&mut self, id: SeatId, bytes: u64) {
        if let Some(seat) = self.seats.get_mut(&id) {
            let bytes = bytes.min(seat.held);
            seat.held -= bytes;
            self.held -= bytes;
        }
    }

    pub(super) const fn budget(&self) -> Resources {
        self.budget
    }

    /// Memory that the ends of transfers hold now, and its largest amount so far.
    pub(super) const fn held(&self) -> (u64, u64) {
        (self.held, self.held_most)
    }

    /// Numbers of admitted ends and of waiting transfers.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.seats.len(), self.queue.len())
    }

    fn place(&self, ticket: Ticket) -> Option<(usize, &Waiting)> {
        let mut queue = self.queue.iter().enumerate();
        queue.find(|(_, waiting)| waiting.ticket == ticket)
    }

    /// The sum of what these ends need at least.
    fn least_of(&self, which: impl Fn(&Seat) -> bool) -> Resources {
        let seats = self.seats.values().filter(|seat| which(seat));
        seats.fold(Resources::default(), |sum, seat| sum.plus(seat.want.least))
    }

    /// Memory that is not available to others: each end's holding or its guaranteed minimum.
    fn reserved(&self) -> u64 {
        let each = |seat: &Seat| seat.held.max(seat.want.least.memory);
        self.seats.values().map(each).sum()
    }

    fn has_room(&self, waiting: &Waiting) -> bool {
        let Waiting { class, owner, .. } = *waiting;
        let sum = |sum: Resources, want: &Want| sum.plus(want.least);
        let new = waiting.wants.iter().fold(Resources::default(), sum);
        let of_class = new.plus(self.least_of(|seat| seat.class == class));
        let is_of_class = |seat: &Seat| seat.class == class;
        // The only transfer of its class is admitted even if the process has too little for any transfer.
        let fits_class =
            !self.seats.values().any(is_of_class) || of_class.fits(self.budget.part(1, 2));
        let is_own = |seat: &Seat| seat.class == class && seat.owner == owner;
        // An owner that has no transfer yet may use the part that those with transfers leave.
        let fits_owner = owner.is_none() || !self.seats.values().any(is_own) || {
            let own = new.plus(self.least_of(is_own));
            own.fits(self.share_of_owner()) && of_class.fits(self.budget.part(3, 8))
        };
        let free = self.budget.memory.saturating_sub(self.reserved());
        fits_class && fits_owner && (new.memory <= free || self.seats.is_empty())
    }

    fn seat(&mut self, class: Class, owner: Option<IdentityId>, want: Want) -> SeatId {
        self.next += 1;
        let id = SeatId(self.next);
        let seat = Seat {
            class,
            owner,
            want: Want {
                least: want.least,
                most: want.most.max(want.least),
            },
            share: want.least,
            held: 0,
        };
        self.seats.insert(id, seat);
        id
    }

    /// Gives each end the same share of every amount, except for ends that cannot use it or need more.
    fn divide(&mut self) {
        let room = self.budget.part(SHARED, SHARED + SPARE);
        let all: Vec<Want> = self.seats.values().map(|seat| seat.want).collect();
        let level = |of: fn(&Resources) -> u64| {
            let bounds: Vec<(u64, u64)> = all
                .iter()
                .map(|want| (of(&want.least), of(&want.most)))
                .collect();
            level(&bounds, of(&room))
        };
        let level = Resources {
            memory: level(|amounts| amounts.memory),
            threads: level(|amounts| amounts.threads),
            files: level(|amounts| amounts.files),
        };
        for seat in self.seats.values_mut() {
            seat.share = level.min(seat.want.most).max(seat.want.least);
        }
    }
}

/// Parts of the budget that are divided …
const SHARED: u64 = 3;
/// … and parts that stay free: a new transfer starts with them, before the running ones release anything.
const SPARE: u64 = 1;

/// The highest equal share, each within its bounds, that fits into `room`.
fn level(bounds: &[(u64, u64)], room: u64) -> u64 {
    let sum = |level: u64| {
        bounds.iter().fold(0_u64, |sum, (least, most)| {
            sum.saturating_add(level.clamp(*least, *most))
        })
    };
    let (mut low, mut high) = (0, bounds.iter().map(|(_, most)| *most).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if sum(middle) <= room {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
