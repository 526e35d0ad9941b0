//! Owns the path from a reader of slow storage to flash: blocks are gathered to extents, and writers put complete ones onto volumes. Serves
//! nothing.
//!
//! Blocks of one extent may come from several threads and transfers, in any order.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_store::digest::DigestKind;

use super::memory::Held;
use super::{Shared, lock, now};
use crate::extent::{Content, FileKey, Flow, Keep, Ticket};
use crate::ledger::{Admission, Begun, IfFull, ReservationId, WriteFault};
use crate::volume::PutError;

/// Extents of which some blocks are there.
pub(super) const GATHERED_MAX: usize = 16;
/// Complete extents that wait for a writer.
pub(super) const QUEUED_MAX: usize = 8;
/// Writers of all volumes.
pub(super) const WRITERS_MAX: usize = 8;
/// Questions for a slot, each after a change of the ledger or this time.
const TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The longest wait of a reader for flash. A volume that hangs must not hold its transfers up for good.
const WAITS_MAX: Duration = Duration::from_secs(5);
const WAIT_STEP: Duration = Duration::from_millis(2);

/// The treatment of a complete extent while flash is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// The extent passes the buffer by.
    #[default]
    None,
    /// Its reader waits a moment.
    Waits,
}

/// Extents that became complete.
#[derive(Default)]
pub struct Filled(Vec<Pending>);

/// A complete extent.
pub(super) struct Pending {
    key: Arc<FileKey>,
    keep: Keep,
    offset: u64,
    bytes: usize,
    held: Held,
    room: Room,
}

/// Extents that are gathered.
pub(super) struct Fills {
    gathered: Mutex<Gathered>,
    queue: Mutex<Option<SyncSender<Pending>>>,
}

/// A file, and the number of an extent in it.
type Place = (Arc<FileKey>, u64);

#[derive(Default)]
struct Gathered {
    parts: HashMap<Place, (u64, Arc<Mutex<Part>>)>,
    uses: u64,
}

/// An extent of which some blocks have arrived.
struct Part {
    held: Option<(Held, Room)>,
    keep: Keep,
    /// The ranges that have arrived, in order. Between any two is a gap.
    ranges: Vec<(usize, usize)>,
    bytes: usize,
}

/// A reservation of one extent; it ends with this value.
struct Room {
    shared: std::sync::Weak<Shared>,
    id: ReservationId,
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.lock().release(self.id);
        }
    }
}

impl Filled {
    /// Whether nothing became complete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of extents. Each takes a whole slot, also if the end of its file is short.
    #[must_use]
    pub fn extents(&self) -> u64 {
        self.0.len() as u64
    }
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Filled").field(&self.0.len()).finish()
    }
}

impl Fills {
    pub(super) fn new() -> (Self, Receiver<Pending>) {
        let (queue, receiver) = sync_channel(QUEUED_MAX);
        let fills = Self {
            gathered: Mutex::default(),
            queue: Mutex::new(Some(queue)),
        };
        (fills, receiver)
    }

    /// Forgets what is not complete.
    pub(super) fn clear(&self) {
        let parts = std::mem::take(&mut lock(&self.gathered).parts);
        drop(parts);
    }

    /// The writers end once the queue is empty.
    pub(super) fn close(&self) {
        self.clear();
        lock(&self.queue).take();
    }
}

impl Part {
    /// Copies a block, and returns whether the extent is complete.
    fn put(&mut self, at: usize, data: &[u8]) -> bool {
        let Some((held, _)) = &mut self.held else {
            return false;
        };
        let end = at + data.len();
        let Some(there) = held.get_mut(at..end) else {
            return false;
        };
        there.copy_from_slice(data);
        add(&mut self.ranges, (at, end));
        self.ranges == [(0, self.bytes)]
    }
}

/// Adds a range, and joins it with those that it touches.
pub(super) fn add(ranges: &mut Vec<(usize, usize)>, (mut from, mut to): (usize, usize)) {
    ranges.retain(|(begin, end)| {
        let is_apart = *end < from || *begin > to;
        if !is_apart {
            (from, to) = (from.min(*begin), to.max(*end));
        }
        is_apart
    });
    let at = ranges.partition_point(|(begin, _)| *begin < from);
    ranges.insert(at, (from, to));
}

impl Shared {
    pub(super) fn fill(
        self: &Arc<Self>,
        key: &Arc<FileKey>,
        keep: Keep,
        offset: u64,
        data: &[u8],
    ) -> Filled {
        let each = u64::from(self.extent_bytes);
        let mut filled = Filled::default();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let begin = at / each * each;
            let within = usize::try_from(at - begin).unwrap_or(usize::MAX);
            let room = (self.extent_bytes as usize).saturating_sub(within);
            let some = &data[done..data.len().min(done + room)];
            done += some.len().max(1);
            let Some(part) = self.part(key, keep, begin) else {
                self.passed(some.len());
                continue;
            };
            let mut part = lock(&part);
            if part.put(within, some)
                && let Some((held, room)) = part.held.take()
            {
                filled.0.push(Pending {
                    key: Arc::clone(key),
                    keep: part.keep,
                    offset: begin,
                    bytes: part.bytes,
                    held,
                    room,
                });
                drop(part);
                lock(&self.fills.gathered)
                    .parts
                    .remove(&(Arc::clone(key), begin));
            }
        }
        filled
    }

    /// The gathering of an extent, which begins if the buffer takes the extent.
    fn part(
        self: &Arc<Self>,
        key: &Arc<FileKey>,
        keep: Keep,
        offset: u64,
    ) -> Option<Arc<Mutex<Part>>> {
        let name = (Arc::clone(key), offset);
        let mut old = None;
        let mut gathered = lock(&self.fills.gathered);
        gathered.uses += 1;
        let uses = gathered.uses;
        if let Some((used, part)) = gathered.parts.get_mut(&name) {
            *used = uses;
            let part = Arc::clone(part);
            drop(gathered);
            let mut kept = lock(&part);
            kept.keep = kept.keep.max(keep);
            drop(kept);
            return Some(part);
        }
        let room = {
            let mut ledger = self.lock();
            if ledger.has(key, offset) {
                return None;
            }
            match ledger.reserve(1, IfFull::PassThrough) {
                Admission::Granted(id) => Room {
                    shared: Arc::downgrade(self),
                    id,
                },
                Admission::Waits(..) | Admission::PassThrough(_) => return None,
            }
        };
        if gathered.parts.len() >= GATHERED_MAX {
            let parts = gathered.parts.iter();
            let oldest = parts.min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(name, _)| name.clone());
            // A reservation ends outside of the lock.
            old = oldest.and_then(|name| gathered.parts.remove(&name));
        }
        let bytes = key.generation.bytes.saturating_sub(offset);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let part = self.memory.take().map(|held| {
            Arc::new(Mutex::new(Part {
                held: Some((held, room)),
                keep,
                ranges: Vec::new(),
                bytes: bytes.min(self.extent_bytes as usize),
            }))
        });
        if let Some(part) = &part {
            gathered.parts.insert(name, (uses, Arc::clone(part)));
        }
        drop(gathered);
        drop(old);
        part
    }

    pub(super) fn store(&self, filled: Filled, patience: Patience) {
        let Some(queue) = lock(&self.fills.queue).clone() else {
            return;
        };
        let until = Instant::now() + WAITS_MAX;
        for pending in filled.0 {
            let bytes = pending.bytes;
            let mut next = Some(pending);
            while let Some(pending) = next.take() {
                match queue.try_send(pending) {
                    Ok(()) => {}
                    Err(TrySendError::Full(pending))
                        if patience == Patience::Waits && Instant::now() < until =>
                    {
                        std::thread::sleep(WAIT_STEP);
                        next = Some(pending);
                    }
                    Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                        self.passed(bytes);
                    }
                }
            }
        }
    }

    fn passed(&self, bytes: usize) {
        self.counts
            .passed
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes complete extents until the queue is closed and empty.
    pub(super) fn write_all(&self, queue: &Mutex<Receiver<Pending>>) {
        loop {
            let next = lock(queue).recv();
            let Ok(pending) = next else { return };
            self.write(pending);
        }
    }

    fn write(&self, mut pending: Pending) {
        let Some(ticket) = self.begin(&pending) else {
            return self.passed(pending.bytes);
        };
        let data = pending.held.get(..pending.bytes).unwrap_or_default();
        let content = Content::of(&pending.key, pending.offset, data, DigestKind::Crc64Nvme);
        let mount = self.mounts.get(usize::from(ticket.place.volume.0));
        let volume = mount.map(super::flash::Mount::volume);
        let written = match (volume, pending.held.pages()) {
            (Some(volume), Some(pages)) => volume.put(ticket.place.slot, &content, pages),
            _ => Err(PutError::Damaged),
        };
        let ended = match written {
            Ok(()) => Ok(content.digest),
            Err(PutError::Io(error)) if error.kind() == std::io::ErrorKind::StorageFull => {
                Err(WriteFault::NoSpace)
            }
            Err(_) => Err(WriteFault::Failed),
        };
        let count = match ended {
            Ok(_) => &self.counts.filled,
            Err(_) => &self.counts.passed,
        };
        count.fetch_add(pending.bytes as u64, Ordering::Relaxed);
        self.lock().handle_written(now(), ticket, ended);
        self.changed.notify_all();
    }

    /// A slot for the extent; `None` if it is not needed, or finds no room within a moment.
    fn begin(&self, pending: &Pending) -> Option<Ticket> {
        let mut ledger = self.lock();
        for _ in 0..TRIES {
            let (key, offset) = (&pending.key, pending.offset);
            match ledger.begin(now(), pending.room.id, key, offset, Flow::Out) {
                Begun::Here(ticket) => {
                    if pending.keep != Keep::No {
                        ledger.keep_at_least(key, pending.keep);
                    }
                    return Some(ticket);
                }
                Begun::Present(_) | Begun::Refused => return None,
                Begun::Later(_) => {
                    self.changed.notify_all();
                    let waited = self.changed.wait_timeout(ledger, TRY_AGAIN);
                    ledger = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::add;

    #[test]
    fn ranges_join_in_any_order() {
        let mut ranges = Vec::new();
        for range in [(6, 8), (0, 2), (3, 4), (2, 3), (9, 10)] {
            add(&mut ranges, range);
        }
        assert_eq!(ranges, [(0, 4), (6, 8), (9, 10)]);
        add(&mut ranges, (1, 9));
        assert_eq!(ranges, [(0, 10)]);
    }
}
