//! Rebuilds the state of a volume from its bytes: both superblocks, the checkpoint, the changes behind it, and the damage among
//! them. Writes nothing.

use std::fmt;
use std::io;

use godwit_sys::page_buffer::PageBuffer;

use crate::backing::Backing;
use crate::frame::{Entry, FRAME_BYTES_MAX, FrameHead};
use crate::layout::{PAGE, SUPERBLOCK_AT};
use crate::superblock::{Superblock, later_version};
use crate::table::Table;
use crate::volume::OpenError;

/// Bytes read at once: a full log of 1 TiB takes some ten reads.
const WINDOW_BYTES: usize = 8 << 20;

/// A damaged part of a volume. A torn last frame is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Frames of the log, from the first number to the one before the second.
    Frames {
        /// The first bad frame.
        from: u64,
        /// The next good frame.
        to: u64,
        /// Where they lie on the volume.
        at: u64,
    },
    /// The checkpoint ends too early.
    Checkpoint {
        /// The first bad frame.
        from: u64,
        /// Where it lies on the volume.
        at: u64,
    },
    /// A frame is whole, and its records contradict the state.
    Contradiction {
        /// The frame.
        frame: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames { from, to, at } => write!(
                f,
                "the log is damaged at byte {at}: frames {from} to {} cannot be read, and later ones can",
                to - 1
            ),
            Self::Checkpoint { from, at } => write!(
                f,
                "the checkpoint is damaged at byte {at}: frame {from} cannot be read"
            ),
            Self::Contradiction { frame } => {
                write!(
                    f,
                    "frame {frame} of the log contradicts the frames before it"
                )
            }
        }
    }
}

/// The end of a log.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) table: Table,
    /// Where the next frame goes, from the beginning of the area.
    pub(crate) next_at: u64,
    /// Its number.
    pub(crate) sequence: u64,
    /// Bytes of the frame before it, with padding.
    pub(crate) last_bytes: u64,
    /// Whether a power cut tore the last frame.
    pub(crate) is_torn: bool,
    pub(crate) damage: Vec<Damage>,
}

/// Both superblocks, each `None` if it is not valid.
///
/// # Errors
/// Neither superblock can be read.
pub(crate) fn superblocks(backing: &dyn Backing) -> io::Result<[Option<Superblock>; 2]> {
    let mut page = PageBuffer::new(usize::try_from(PAGE).unwrap_or(usize::MAX))?;
    let mut read = |at| {
        backing.read_at(at, &mut page)?;
        Ok::<_, io::Error>(Superblock::decode(&page))
    };
    match (read(SUPERBLOCK_AT[0]), read(SUPERBLOCK_AT[1])) {
        (Err(error), Err(_)) => Err(error),
        (first, second) => Ok([first.ok().flatten(), second.ok().flatten()]),
    }
}

/// The superblock that counts.
///
/// # Errors
/// Neither is valid, or the place is smaller than the superblock says.
pub(crate) fn newer(
    both: &[Option<Superblock>; 2],
    backing: &dyn Backing,
) -> Result<Superblock, OpenError> {
    let newer = both.iter().flatten().max_by_key(|one| one.generation);
    let Some(newer) = newer else {
        return Err(nothing(backing));
    };
    if !backing.has_room(&newer.layout)? {
        return Err(OpenError::Shorter);
    }
    Ok(newer.clone())
}

/// Why there is no superblock that this program reads.
fn nothing(backing: &dyn Backing) -> OpenError {
    let mut page = match PageBuffer::new(usize::try_from(PAGE).unwrap_or(usize::MAX)) {
        Ok(page) => page,
        Err(error) => return error.into(),
    };
    let mut later = |at| {
        backing.read_at(at, &mut page).ok()?;
        later_version(&page)
    };
    let later = later(SUPERBLOCK_AT[0]).or_else(|| later(SUPERBLOCK_AT[1]));
    later.map_or(OpenError::NoBuffer, OpenError::Later)
}

/// Reads a log from its checkpoint to its end.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn replay(backing: &dyn Backing, superblock: &Superblock) -> io::Result<Replay> {
    let layout = &superblock.layout;
    let start = layout.area_at(superblock.area);
    let mut window = Window::new(backing, start, layout.area_bytes)?;
    let mut table = Table::new(layout.slots);
    let mut damage = Vec::new();
    let (mut at, mut sequence) = (0, 0);
    let mut is_torn = false;
    let mut last_bytes = 0;
    loop {
        if let Some((head, entries)) = window.frame(at, superblock.salt)?
            && head.sequence == sequence
        {
            // Each entry is applied, even after one that makes no sense.
            let wrong = entries.iter().filter(|entry| !table.apply(entry)).count();
            if wrong > 0 {
                damage.push(Damage::Contradiction { frame: sequence });
            }
            last_bytes = head.padded();
            at += last_bytes;
            let Some(next) = sequence.checked_add(1) else {
                // No log has that many frames.
                damage.push(Damage::Contradiction { frame: sequence });
                break;
            };
            sequence = next;
            continue;
        }
        let is_checkpoint = sequence < u64::from(superblock.checkpoint_frames);
        match window.resync(at, sequence, superblock.salt)? {
            Some((next_at, next)) => {
                damage.push(Damage::Frames {
                    from: sequence,
                    to: next,
                    at: start + at,
                });
                (at, sequence) = (next_at, next);
            }
            None if is_checkpoint => {
                damage.push(Damage::Checkpoint {
                    from: sequence,
                    at: start + at,
                });
                // New frames must not lie inside the checkpoint.
                at = at.max(superblock.changes_at);
                break;
            }
            None => {
                let head = window.head(at, superblock.salt)?;
                is_torn = head.is_some_and(|head| head.sequence == sequence);
                break;
            }
        }
    }
    Ok(Replay {
        table,
        next_at: at,
        sequence,
        last_bytes,
        is_torn,
        damage,
    })
}

/// A part of a log area in memory.
struct Window<'a> {
    backing: &'a dyn Backing,
    start: u64,
    end: u64,
    buffer: PageBuffer,
    /// The part of the area that `buffer` has.
    from: u64,
    length: usize,
}

impl<'a> Window<'a> {
    fn new(backing: &'a dyn Backing, start: u64, end: u64) -> io::Result<Self> {
        Ok(Self {
            backing,
            start,
            end,
            buffer: PageBuffer::new(FRAME_BYTES_MAX + WINDOW_BYTES)?,
            from: 0,
            length: 0,
        })
    }

    /// At least `bytes` bytes from offset `at` of the area; fewer at the end of the area.
    fn bytes(&mut self, at: u64, bytes: usize) -> io::Result<&[u8]> {
        let end = self.end.min(at.saturating_add(bytes as u64));
        let has = at >= self.from && end <= self.from + self.length as u64;
        if !has {
            let most = self.end.saturating_sub(at);
            let want = bytes.max(WINDOW_BYTES).min(self.buffer.len()) as u64;
            self.length = usize::try_from(want.min(most)).unwrap_or(0);
            self.from = at;
            // Nothing is there if the read fails.
            let length = std::mem::take(&mut self.length);
            let part = self.buffer.get_mut(..length).unwrap_or_default();
            if !part.is_empty() {
                self.backing.read_at(self.start + at, part)?;
            }
            self.length = length;
        }
        let skip = usize::try_from(at - self.from).unwrap_or(usize::MAX);
        Ok(self.buffer.get(skip..self.length).unwrap_or_default())
    }

    fn head(&mut self, at: u64, salt: u64) -> io::Result<Option<FrameHead>> {
        let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
        Ok(FrameHead::decode(self.bytes(at, page)?, salt))
    }

    /// The whole frame at `at`, if there is one.
    fn frame(&mut self, at: u64, salt: u64) -> io::Result<Option<(FrameHead, Vec<Entry>)>> {
        let Some(head) = self.head(at, salt)? else {
            return Ok(None);
        };
        let frame = self.bytes(at, head.bytes)?;
        Ok(head.records(frame, salt).map(|entries| (head, entries)))
    }

    /// The next whole frame behind `at` with a higher number. A log that has one is damaged before it.
    fn resync(&mut self, at: u64, sequence: u64, salt: u64) -> io::Result<Option<(u64, u64)>> {
        let last = at.saturating_add(FRAME_BYTES_MAX as u64).min(self.end);
        let mut next = at + PAGE;
        while next < last {
            if let Some((head, _)) = self.frame(next, salt)?
                && head.sequence > sequence
            {
                return Ok(Some((next, head.sequence)));
            }
            next += PAGE;
        }
        Ok(None)
    }
}
