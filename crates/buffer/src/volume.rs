//! Owns a volume: extents on a device or in a directory, and the log that says what they hold. Chooses no slots, and keeps no order of use;
//! the ledger does. `docs/buffer.md` has the format.
//!
//! A commit makes contents durable, then the records about them. The log lies in one of two areas. When an area is full, a checkpoint is
//! written to the other area. Then the superblocks name the other area.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_sys::page_buffer::PageBuffer;

use crate::backing::Backing;
use crate::extent::{Content, FileKey, Recovered, SlotIndex};
use crate::frame::{FrameWriter, crc};
use crate::layout::{Layout, PAGE, PROBE_AT, SUPERBLOCK_AT};
use crate::ledger::Commit;
use crate::replay::{self, Damage, Replay};
use crate::superblock::{Superblock, VERSION};
use crate::table::Table;

/// A frame of a checkpoint ends when it has this many bytes.
const CHECKPOINT_FRAME_BYTES: usize = 512 << 10;
/// Zeros at both ends of a new volume, where foreign signatures lie.
const WIPED_BYTES: usize = 1 << 20;

/// A new volume.
#[derive(Clone, Debug)]
pub struct Format {
    /// Names the volume; random.
    pub id: [u8; 16],
    /// Marks its frames; random.
    pub salt: u64,
    /// Identity of the node that owns the buffer.
    pub node: String,
    /// Serial of the device, or the path.
    pub serial: String,
    /// Size of the volume.
    pub bytes: u64,
    /// Size of an extent.
    pub extent_bytes: u32,
    /// The time, since the Unix epoch.
    pub made: Duration,
}

/// A volume could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Neither superblock is valid.
    #[error("there is no transfer buffer here, or both of its superblocks are damaged")]
    NoBuffer,
    /// A later program wrote it.
    #[error(
        "this transfer buffer has version {0} of its format; update the program, or format the place again"
    )]
    Later(u32),
    /// The place has fewer bytes than its superblock says.
    #[error("this place is smaller than the transfer buffer that its superblock describes")]
    Shorter,
    /// The buffer belongs to another node.
    #[error("this transfer buffer belongs to another node, {0}")]
    OtherNode(String),
    /// The log is damaged.
    #[error("{}", .0.first().map_or_else(String::new, ToString::to_string))]
    Damaged(Vec<Damage>),
}

/// A commit failed. The volume takes no more commits until it is opened again.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The kernel's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An earlier commit failed.
    #[error("an earlier change of the log failed, so the log has to be read again")]
    Closed,
    /// The names of the files do not fit into the log.
    #[error("the log of the transfer buffer has no room for the names of its files")]
    Full,
    /// A checkpoint that was read back differs from the written one.
    #[error("a checkpoint was not read back as it was written")]
    NotAsWritten,
}

/// An extent could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The kernel's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The data does not match its digest.
    #[error("the data does not match its digest")]
    Damaged,
}

/// An extent could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The kernel's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The content does not match the digest of its write.
    #[error("the content does not match its digest")]
    Damaged,
}

/// A volume. Contents are read and written by any number of threads; commits take turns.
#[derive(Debug)]
pub struct Volume<B> {
    backing: B,
    layout: Layout,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    superblock: Superblock,
    table: Table,
    /// Where the next frame goes, from the beginning of the area.
    next_at: u64,
    sequence: u64,
    is_closed: bool,
}

/// Makes a new volume. Everything on it is lost.
///
/// # Errors
/// The kernel's error; `InvalidInput` if there is room for too few extents.
pub fn format(backing: &dyn Backing, format: &Format) -> io::Result<Superblock> {
    let layout = Layout::of(format.bytes, format.extent_bytes).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the place is too small for a transfer buffer",
        )
    })?;
    backing.prepare(&layout)?;
    let zeros = PageBuffer::new(WIPED_BYTES)?;
    backing.write_at(0, &zeros)?;
    backing.sync()?;
    // A device without this operation keeps its old bytes. No slot refers to them.
    let _ = backing.discard(layout.data_at, layout.end() - layout.data_at);
    let superblock = Superblock {
        version: VERSION,
        generation: 1,
        id: format.id,
        layout,
        area: 0,
        checkpoint_frames: 0,
        changes_at: 0,
        salt: format.salt,
        made: format.made,
        node: format.node.clone(),
        serial: format.serial.clone(),
    };
    write_superblocks(backing, &superblock)?;
    Ok(superblock)
}

impl<B: Backing> Volume<B> {
    /// Opens a volume of this node, and returns its extents.
    ///
    /// # Errors
    /// See [`OpenError`]. A torn end of the log is no error: those changes were not acknowledged.
    pub fn open(backing: B, node: &str) -> Result<(Self, Vec<Recovered>), OpenError> {
        let both = replay::superblocks(&backing)?;
        let superblock = replay::newer(&both, &backing)?;
        if superblock.node != node {
            return Err(OpenError::OtherNode(superblock.node));
        }
        let replayed = replay::replay(&backing, &superblock)?;
        if !replayed.damage.is_empty() {
            return Err(OpenError::Damaged(replayed.damage));
        }
        settle(&backing, &superblock, &replayed)?;
        let Replay {
            table,
            next_at,
            sequence,
            ..
        } = replayed;
        let extents = table.extents();
        let held: HashSet<SlotIndex> = extents.iter().map(|extent| extent.slot).collect();
        backing.sweep(&superblock.layout, &|slot| held.contains(&slot))?;
        let volume = Self {
            backing,
            layout: superblock.layout,
            log: Mutex::new(Log {
                superblock,
                table,
                next_at,
                sequence,
                is_closed: false,
            }),
        };
        Ok((volume, extents))
    }

    /// The geometry.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The bytes below, for probes.
    #[must_use]
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// Checks the digest of the first bytes of `buffer`, and writes them. They are durable after a commit.
    ///
    /// # Errors
    /// See [`PutError`].
    pub fn put(
        &self,
        slot: SlotIndex,
        content: &Content,
        buffer: &mut PageBuffer,
    ) -> Result<(), PutError> {
        let bytes = content.bytes as usize;
        let data = buffer.get(..bytes).ok_or(PutError::Damaged)?;
        if !content.matches(data) {
            return Err(PutError::Damaged);
        }
        let padded = padded(&self.layout, content);
        let whole = buffer.get_mut(..padded).ok_or(PutError::Damaged)?;
        whole[bytes..].fill(0);
        self.backing.write_slot(&self.layout, slot, whole)?;
        Ok(())
    }

    /// Reads an extent, and checks its digest. The content is the first bytes of `buffer`.
    ///
    /// # Errors
    /// See [`GetError`]. The buffer then holds nothing that may be served.
    pub fn get<'b>(
        &self,
        slot: SlotIndex,
        content: &Content,
        buffer: &'b mut PageBuffer,
    ) -> Result<&'b [u8], GetError> {
        get(&self.backing, &self.layout, slot, content, buffer)
    }

    /// Makes contents durable, then the records, then discards the contents of freed slots.
    ///
    /// # Errors
    /// See [`CommitError`]. Then the log has all of the records or none of them.
    pub fn commit(&self, commit: &Commit) -> Result<(), CommitError> {
        let mut log = self.lock();
        if log.is_closed {
            return Err(CommitError::Closed);
        }
        // An error leaves the log closed: after a failed sync it is unknown which writes arrived.
        log.is_closed = true;
        if !commit.slots.is_empty() {
            self.backing.sync_slots(&self.layout, &commit.slots)?;
        }
        log.append(&self.backing, commit)?;
        log.is_closed = false;
        drop(log);
        for slot in &commit.freed {
            // The device may have no such operation.
            let _ = self.backing.discard_slot(&self.layout, *slot);
        }
        Ok(())
    }

    /// Writes a page that nothing else uses, and reads it back.
    ///
    /// # Errors
    /// The kernel's error; `InvalidData` if other bytes were read.
    pub fn probe(&self) -> io::Result<()> {
        let mut page = PageBuffer::new(usize::try_from(PAGE).unwrap_or(usize::MAX))?;
        let mark = RandomState::new().build_hasher().finish().to_le_bytes();
        page[..mark.len()].copy_from_slice(&mark);
        self.backing.write_at(PROBE_AT, &page)?;
        self.backing.sync()?;
        page.fill(0);
        self.backing.read_at(PROBE_AT, &mut page)?;
        match page.starts_with(&mark) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The extents, as the log has them.
    #[must_use]
    pub fn extents(&self) -> Vec<Recovered> {
        self.lock().table.extents()
    }

    /// The files that have arrived as the log says, and where each goes.
    #[must_use]
    pub fn arrived(&self) -> Vec<(Arc<FileKey>, Arc<[u8]>)> {
        self.lock().table.arrived()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an extent of a volume that is not open, and checks its digest.
///
/// # Errors
/// As [`Volume::get`].
pub fn get<'b>(
    backing: &dyn Backing,
    layout: &Layout,
    slot: SlotIndex,
    content: &Content,
    buffer: &'b mut PageBuffer,
) -> Result<&'b [u8], GetError> {
    let bytes = content.bytes as usize;
    let whole = buffer.get_mut(..padded(layout, content));
    let whole = whole.ok_or(GetError::Damaged)?;
    backing.read_slot(layout, slot, whole)?;
    let data = whole.get(..bytes).ok_or(GetError::Damaged)?;
    if !content.matches(data) {
        return Err(GetError::Damaged);
    }
    Ok(data)
}

fn padded(layout: &Layout, content: &Content) -> usize {
    let bytes = content.bytes.min(layout.extent_bytes);
    let padded = u64::from(bytes).next_multiple_of(PAGE);
    usize::try_from(padded).unwrap_or(usize::MAX)
}

impl Log {
    fn append(&mut self, backing: &dyn Backing, commit: &Commit) -> Result<(), CommitError> {
        let mut frame = FrameWriter::new(self.superblock.salt, self.sequence);
        let mut version = self.superblock.version;
        for record in &commit.records {
            for entry in self.table.change(record) {
                version = version.max(entry.version());
                frame.push(&entry);
            }
        }
        if frame.is_empty() {
            return Ok(());
        }
        if version > self.superblock.version {
            // An older program must not take the frame for a torn one. The superblocks change with a checkpoint.
            self.superblock.version = version;
            return self.checkpoint(backing);
        }
        let frame = frame.finish();
        let layout = self.superblock.layout;
        if self.next_at + frame.len() as u64 > layout.area_bytes {
            // The table has the changes already.
            return self.checkpoint(backing);
        }
        let at = layout.area_at(self.superblock.area) + self.next_at;
        write(backing, at, &frame)?;
        backing.sync()?;
        self.next_at += frame.len() as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Writes the whole state into the other area, reads it back, and makes that area the one in use.
    fn checkpoint(&mut self, backing: &dyn Backing) -> Result<(), CommitError> {
        let mut next = self.superblock.clone();
        next.generation += 1;
        next.area = 1 - next.area;
        next.salt = fresh_salt(&next);
        let start = next.layout.area_at(next.area);
        let (mut at, mut sequence) = (0, 0);
        let mut put = |frame: FrameWriter| {
            let frame = frame.finish();
            if at + frame.len() as u64 > next.layout.area_bytes {
                return Err(CommitError::Full);
            }
            write(backing, start + at, &frame)?;
            at += frame.len() as u64;
            sequence += 1;
            Ok(FrameWriter::new(next.salt, sequence))
        };
        let mut frame = FrameWriter::new(next.salt, 0);
        for entry in self.table.entries() {
            frame.push(&entry);
            if frame.len() >= CHECKPOINT_FRAME_BYTES {
                frame = put(frame)?;
            }
        }
        if !frame.is_empty() {
            put(frame)?;
        }
        backing.sync()?;
        next.changes_at = at;
        next.checkpoint_frames = u32::try_from(sequence).unwrap_or(u32::MAX);
        let read = replay::replay(backing, &next)?;
        let is_same = read.damage.is_empty() && read.next_at == at && read.sequence == sequence;
        let is_same = is_same && read.table.arrived() == self.table.arrived();
        if !is_same || read.table.extents() != self.table.extents() {
            return Err(CommitError::NotAsWritten);
        }
        write_superblocks(backing, &next)?;
        self.superblock = next;
        self.next_at = at;
        self.sequence = sequence;
        Ok(())
    }
}

/// Makes the bytes durable from which a log was read. After a failed sync, reads may return the last frame and the superblocks although a
/// power cut can still destroy them. So the same bytes are written again. A torn write of the same bytes changes nothing.
fn settle(backing: &dyn Backing, superblock: &Superblock, replayed: &Replay) -> io::Result<()> {
    let bytes = usize::try_from(replayed.last_bytes).unwrap_or(usize::MAX);
    if bytes > 0 {
        let area_at = superblock.layout.area_at(superblock.area);
        let at = area_at + replayed.next_at - replayed.last_bytes;
        let mut frame = PageBuffer::new(bytes)?;
        backing.read_at(at, &mut frame)?;
        backing.write_at(at, &frame)?;
        backing.sync()?;
    }
    write_superblocks(backing, superblock)
}

/// A salt that no earlier checkpoint has used, not even one that a power cut interrupted in the same area under the same generation.
fn fresh_salt(superblock: &Superblock) -> u64 {
    let chance = RandomState::new().build_hasher().finish();
    let mixed = [superblock.salt, superblock.generation, chance].map(u64::to_le_bytes);
    crc(&[&superblock.id, &mixed[0], &mixed[1], &mixed[2]])
}

/// Writes both superblocks, one after the other: at each moment one of them is whole.
fn write_superblocks(backing: &dyn Backing, superblock: &Superblock) -> io::Result<()> {
    let first = usize::from(superblock.generation % 2 == 1);
    for copy in [first, 1 - first] {
        let mut page = superblock.encode().to_vec();
        page.resize(usize::try_from(PAGE).unwrap_or(usize::MAX), 0);
        write(backing, SUPERBLOCK_AT[copy], &page)?;
        backing.sync()?;
    }
    Ok(())
}

/// Writes bytes from memory that direct I/O accepts.
fn write(backing: &dyn Backing, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut buffer = PageBuffer::new(bytes.len())?;
    buffer.copy_from_slice(bytes);
    backing.write_at(at, &buffer)
}
