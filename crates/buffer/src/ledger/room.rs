//! Owns admission to the buffer: reservations, and those who wait for room, in the order in which they came. Does not know which extents
//! can make room; the ledger counts them.

use std::collections::{HashMap, VecDeque};
use std::fmt;

/// Names a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(pub u32);

/// The choice when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfFull {
    /// Wait for room.
    Wait,
    /// Do without the buffer.
    PassThrough,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The data is larger than the whole buffer.
    LargerThanBuffer,
    /// Volumes are out, and the others have no room.
    VolumesOut,
    /// Slow storage takes data more slowly than it arrives.
    Undrained,
    /// Files that stay fill the buffer.
    Kept,
    /// Others have reserved the room, or asked for it earlier.
    Reserved,
    /// Slots are being freed.
    Freeing,
    /// The log has no room for more long paths.
    Names,
    /// The file systems below the buffer's directories are full.
    FileSystemFull,
    /// All volumes with room are slow and busy.
    SlowVolumes,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LargerThanBuffer => "the data is larger than the transfer buffer",
            Self::VolumesOut => "a volume of the transfer buffer is out, and the others are full",
            Self::Undrained => {
                "the transfer buffer is full of data that slow storage does not have yet"
            }
            Self::Kept => "the transfer buffer is full of files that stay",
            Self::Reserved => "the room in the transfer buffer is reserved for others",
            Self::Freeing => "the transfer buffer frees room now",
            Self::Names => "the paths of the files in the transfer buffer are too long for its log",
            Self::FileSystemFull => "the file systems below the transfer buffer are full",
            Self::SlowVolumes => "the volumes of the transfer buffer are slower than usual",
        })
    }
}

/// Answer to a request for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The room is reserved.
    Granted(ReservationId),
    /// The request waits; [`super::Notice::Granted`] comes when there is room.
    Waits(ReservationId, Reason),
    /// The data bypasses the buffer.
    PassThrough(Reason),
}

/// Reservations.
#[derive(Debug, Default)]
pub(super) struct Room {
    last: u32,
    /// Slots that each reservation has not used yet.
    granted: HashMap<ReservationId, u64>,
    waiting: VecDeque<(ReservationId, u64)>,
    promised: u64,
}

impl Room {
    /// Slots that are reserved and not used yet.
    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn next_id(&mut self) -> ReservationId {
        self.last = self.last.wrapping_add(1);
        ReservationId(self.last)
    }

    pub(super) fn grant(&mut self, slots: u64) -> ReservationId {
        let id = self.next_id();
        self.granted.insert(id, slots);
        self.promised += slots;
        id
    }

    pub(super) fn wait(&mut self, slots: u64) -> ReservationId {
        let id = self.next_id();
        self.waiting.push_back((id, slots));
        id
    }

    /// Grants the first waiting request if it fits into `available` slots.
    pub(super) fn poll_grant(&mut self, available: u64) -> Option<ReservationId> {
        let (id, slots) = *self.waiting.front()?;
        if slots > available {
            return None;
        }
        self.waiting.pop_front();
        self.granted.insert(id, slots);
        self.promised += slots;
        Some(id)
    }

    /// The reservation ends; its unused slots are for others.
    pub(super) fn release(&mut self, id: ReservationId) {
        if let Some(left) = self.granted.remove(&id) {
            self.promised -= left;
        }
        self.waiting.retain(|(waiting, _)| *waiting != id);
    }

    /// Slots left of a reservation.
    pub(super) fn left(&self, id: ReservationId) -> u64 {
        self.granted.get(&id).copied().unwrap_or(0)
    }

    /// Uses one slot.
    pub(super) fn spend(&mut self, id: ReservationId) {
        if let Some(left) = self.granted.get_mut(&id)
            && *left > 0
        {
            *left -= 1;
            self.promised -= 1;
        }
    }

    /// Gives one slot back, after a failure.
    pub(super) fn refund(&mut self, id: ReservationId) {
        if let Some(left) = self.granted.get_mut(&id) {
            *left += 1;
            self.promised += 1;
        }
    }
}
