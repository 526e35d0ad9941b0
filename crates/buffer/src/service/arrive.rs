//! Owns the path of an arriving file to flash: blocks are gathered to extents, complete ones are written by the thread that completes them,
//! and a file that is durable gets its record. Drains nothing.
//!
//! Data that the buffer cannot take is never lost: [`Arriving::copy`] has everything that was accepted, so the caller can write the file to
//! slow storage instead.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_store::digest::DigestKind;

use super::fill::add;
use super::memory::Held;
use super::{Shared, lock, now};
use crate::extent::{Content, FileKey, Flow, Ticket, WHAT_BYTES_MAX};
use crate::ledger::{Begun, Incoming, Mark, Reason, ReservationId, Whole, WriteFault};
use crate::volume::PutError;

/// Questions for a slot, each after a change of the ledger or this time.
const TRIES: u32 = 10;
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The longest wait for memory that other files hold.
const MEMORY_WITHIN: Duration = Duration::from_secs(5);
/// The longest wait for a commit.
pub(super) const DURABLE_WITHIN: Duration = Duration::from_secs(60);
/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

/// The buffer cannot take the file, or the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transfer buffer cannot take the file")]
pub struct Unfit;

/// A file that arrives. Its extents go with this value, unless it has landed.
pub struct Arriving {
    shared: Arc<Shared>,
    key: Arc<FileKey>,
    room: ReservationId,
    parts: Mutex<Parts>,
    has_landed: AtomicBool,
}

#[derive(Default)]
struct Parts {
    /// Extents of which some blocks are there, by offset.
    open: HashMap<u64, Part>,
    /// The offsets of written extents.
    done: BTreeSet<u64>,
}

struct Part {
    held: Held,
    ranges: Vec<(usize, usize)>,
}

impl Arriving {
    pub(super) fn new(shared: &Arc<Shared>, key: FileKey, room: ReservationId) -> Self {
        shared.desk.open_one();
        Self {
            shared: Arc::clone(shared),
            key: Arc::new(key),
            room,
            parts: Mutex::default(),
            has_landed: AtomicBool::new(false),
        }
    }

    /// The name of the file among those that arrive.
    #[must_use]
    pub fn file(&self) -> &Arc<FileKey> {
        &self.key
    }

    /// Takes bytes of the file.
    ///
    /// # Errors
    /// [`Unfit`]: the bytes were not taken, or not all of them.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Unfit> {
        let each = u64::from(self.shared.extent_bytes);
        let end = offset.checked_add(data.len() as u64).ok_or(Unfit)?;
        if end > self.key.generation.bytes {
            return Err(Unfit);
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let begin = at / each * each;
            let within = usize::try_from(at - begin).map_err(|_error| Unfit)?;
            let room = (self.shared.extent_bytes as usize).saturating_sub(within);
            let some = data.get(done..data.len().min(done + room)).ok_or(Unfit)?;
            self.put(begin, within, some)?;
            done += some.len();
        }
        Ok(())
    }

    /// Whether all bytes were taken and written.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let each = u64::from(self.shared.extent_bytes);
        let extents = self.key.generation.bytes.div_ceil(each);
        lock(&self.parts).done.len() as u64 == extents
    }

    /// Waits until the file is durable. Returns false if a part is missing, or flash fails.
    #[must_use]
    pub fn make_durable(&self) -> bool {
        let until = Instant::now() + DURABLE_WITHIN;
        self.is_complete() && self.shared.wait_until_whole(&self.key, until)
    }

    /// Records where the durable file goes, and queues it. The record is durable after [`super::Arrivals::confirm`].
    ///
    /// # Errors
    /// [`Unfit`]: the words are too long, the log has no room, or its volume is out.
    pub fn land(&self, what: &[u8]) -> Result<Mark, Unfit> {
        if what.is_empty() || what.len() > WHAT_BYTES_MAX {
            return Err(Unfit);
        }
        let what: Arc<[u8]> = what.into();
        let mark = Incoming::of(&mut self.shared.lock()).land(&self.key, &what);
        let mark = mark.ok_or(Unfit)?;
        self.has_landed.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        self.shared.desk.add(&self.key, what, now());
        Ok(mark)
    }

    /// Gives all bytes that were taken to `out`, in ranges. Returns false if flash cannot return some of them.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn copy<E>(&self, mut out: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<bool, E> {
        let parts = lock(&self.parts);
        let each = u64::from(self.shared.extent_bytes);
        let until = Instant::now() + DURABLE_WITHIN;
        let mut buffer = vec![0; COPY_BYTES];
        for begin in &parts.done {
            let end = self.key.generation.bytes.min(begin + each);
            let mut at = *begin;
            while at < end {
                let some = usize::try_from(end - at).unwrap_or(usize::MAX);
                let Some(buffer) = buffer.get_mut(..some.min(COPY_BYTES)) else {
                    return Ok(false);
                };
                if !self.shared.read_soon(&self.key, at, buffer, until) {
                    return Ok(false);
                }
                out(at, buffer)?;
                at += buffer.len() as u64;
            }
        }
        for (begin, part) in &parts.open {
            for (from, to) in &part.ranges {
                let bytes = part.held.get(*from..*to).unwrap_or_default();
                out(begin + *from as u64, bytes)?;
            }
        }
        Ok(true)
    }

    fn put(&self, begin: u64, within: usize, data: &[u8]) -> Result<(), Unfit> {
        let bytes = self.extent(begin);
        let mut parts = lock(&self.parts);
        if parts.done.contains(&begin) {
            // A block that was asked for again.
            return Ok(());
        }
        let part = match parts.open.entry(begin) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert(Part {
                held: self.memory().ok_or(Unfit)?,
                ranges: Vec::new(),
            }),
        };
        let end = within + data.len();
        let there = part.held.get_mut(within..end).ok_or(Unfit)?;
        there.copy_from_slice(data);
        add(&mut part.ranges, (within, end));
        if part.ranges != [(0, bytes)] {
            return Ok(());
        }
        let Some(mut part) = parts.open.remove(&begin) else {
            return Err(Unfit);
        };
        // The lock is kept while flash writes: a sink has one writer for each file.
        match self.write_extent(begin, bytes, &mut part.held) {
            true => {
                parts.done.insert(begin);
                Ok(())
            }
            false => {
                parts.open.insert(begin, part);
                Err(Unfit)
            }
        }
    }

    fn extent(&self, begin: u64) -> usize {
        let left = self.key.generation.bytes.saturating_sub(begin);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        left.min(self.shared.extent_bytes as usize)
    }

    fn memory(&self) -> Option<Held> {
        let memory = self.shared.desk.memory();
        memory.take_within(MEMORY_WITHIN, &|| self.shared.is_closed())
    }

    fn write_extent(&self, begin: u64, bytes: usize, held: &mut Held) -> bool {
        let Some(ticket) = self.slot(begin) else {
            return false;
        };
        let data = held.get(..bytes).unwrap_or_default();
        let content = Content::of(&self.key, begin, data, DigestKind::Crc64Nvme);
        let mount = self.shared.mounts.get(usize::from(ticket.place.volume.0));
        let written = match (mount, held.pages()) {
            (Some(mount), Some(pages)) => mount.volume().put(ticket.place.slot, &content, pages),
            _ => Err(PutError::Damaged),
        };
        let ended = match written {
            Ok(()) => Ok(content.digest),
            Err(PutError::Io(error)) if error.kind() == std::io::ErrorKind::StorageFull => {
                Err(WriteFault::NoSpace)
            }
            Err(_) => Err(WriteFault::Failed),
        };
        self.shared.lock().handle_written(now(), ticket, ended);
        self.shared.changed.notify_all();
        ended.is_ok()
    }

    /// A slot for an extent; `None` if there is none within a moment.
    fn slot(&self, begin: u64) -> Option<Ticket> {
        let mut ledger = self.shared.lock();
        for _ in 0..TRIES {
            match ledger.begin(now(), self.room, &self.key, begin, Flow::In) {
                Begun::Here(ticket) => return Some(ticket),
                Begun::Present(_)
                | Begun::Refused
                | Begun::Later(Reason::VolumesOut | Reason::Names) => return None,
                Begun::Later(_) => {
                    self.shared.changed.notify_all();
                    let waited = self.shared.changed.wait_timeout(ledger, TRY_AGAIN);
                    ledger = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        None
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.shared.desk.close_one();
        let mut ledger = self.shared.lock();
        ledger.release(self.room);
        if !self.has_landed.load(Ordering::SeqCst) {
            Incoming::of(&mut ledger).remove(&self.key);
        }
        drop(ledger);
        self.shared.changed.notify_all();
    }
}

impl std::fmt::Debug for Arriving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Arriving").field(&self.key).finish()
    }
}

impl Shared {
    /// Waits until all of a file is durable.
    fn wait_until_whole(&self, file: &FileKey, until: Instant) -> bool {
        let mut ledger = self.lock();
        loop {
            match Incoming::of(&mut ledger).whole(file) {
                Whole::Durable => return true,
                Whole::Later if Instant::now() < until => {}
                Whole::Later | Whole::Never => return false,
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(ledger, TRY_AGAIN);
            ledger = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads bytes that may not be durable yet.
    fn read_soon(&self, file: &FileKey, offset: u64, out: &mut [u8], until: Instant) -> bool {
        while !self.read(file, offset, out) {
            let begin = offset / u64::from(self.extent_bytes) * u64::from(self.extent_bytes);
            let mut ledger = self.lock();
            if !ledger.has(file, begin) || Instant::now() >= until || self.is_closed() {
                return false;
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(ledger, TRY_AGAIN);
            ledger = waited.unwrap_or_else(PoisonError::into_inner).0;
            drop(ledger);
        }
        true
    }
}
