//! Reads extents that several nodes share: of other nodes for a reader here, and of this node's exports for readers there.
//! Asks no node, and admits none; its callers do.
//!
//! A reader has opened the file at its own export first, so the generation that it names is the present one. The node that fills an extent
//! opens the file, too, and compares.

use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::extent::{FileKey, Generation, Keep, SourceId};
use godwit_buffer::pool::flights::{Begun, Bounds, Flights, Landed, Limits};
use godwit_buffer::pool::{Extent, Fetched, Mates, Wish, checksum};
use godwit_buffer::service::{Buffer, BufferedFile, Patience};
use godwit_store::{Meta, RelPath, Storage};

use super::buffered::{is_settled, now};

/// Threads that read extents for other nodes, and extents of theirs that stay in memory for the next questions: four nodes ask for parts of
/// four at once.
const BOUNDS: Bounds = Bounds {
    threads: 4,
    waiting: 32,
    kept: 16,
};
/// The longest wait of one question. The asking node then asks again, so it knows that this one lives.
const WAITS: Limits = Limits {
    silent: Duration::from_millis(500),
    all: Duration::from_millis(500),
};

/// The front of a block that other nodes gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Got {
    /// Its length.
    pub(super) bytes: usize,
    /// The room that those bytes took there which no buffer had before.
    pub(super) new: u64,
    /// A node was asked.
    pub(super) has_asked: bool,
}

/// Fills the front of `out` with bytes of other nodes. The rest is this node's to read.
pub(super) fn fetch(
    mates: &dyn Mates,
    file: &BufferedFile,
    wish: impl Fn(u64, u32) -> Wish,
    (extent_bytes, offset): (u32, u64),
    out: &mut [u8],
) -> Got {
    let each = u64::from(extent_bytes);
    let mut got = Got::default();
    let mut done = 0;
    while done < out.len() {
        let at = offset + done as u64;
        let begin = at / each * each;
        let left = file.key().generation.bytes.saturating_sub(begin).min(each);
        let Ok(bytes) = u32::try_from(left) else {
            break;
        };
        let fetched = mates.fetch(file.key(), wish(begin, bytes));
        got.has_asked |= !matches!(fetched, Fetched::Own);
        let Fetched::Here(extent) = fetched else {
            break;
        };
        let within = usize::try_from(at - begin).unwrap_or(usize::MAX);
        let rest = extent.bytes.get(within..).unwrap_or_default();
        let some = rest.len().min(out.len() - done);
        if some == 0 {
            break;
        }
        out[done..done + some].copy_from_slice(&rest[..some]);
        done += some;
        // A small file takes a whole slot there, too.
        got.new += match (extent.filled, some == extent.bytes.len()) {
            (false, _) => 0,
            (true, true) => each,
            (true, false) => some as u64,
        };
    }
    file.count_pooled(done as u64);
    got.bytes = done;
    got
}

/// An extent of a file of this node that another node asks for.
#[derive(Clone, Debug)]
pub struct PoolQuestion {
    /// The name under which the buffer has the files of the export.
    pub origin: [u8; 16],
    /// Path of the file below the export.
    pub path: Vec<u8>,
    /// Length of the file.
    pub bytes: u64,
    /// Its generation.
    pub stamp: u64,
    /// Where the extent begins.
    pub offset: u64,
    /// Length of the extent.
    pub length: u32,
    /// How long the file stays in the buffer if the extent is read into it.
    pub keep_for: Duration,
}

/// A part of such an extent.
#[derive(Debug)]
pub struct PoolPart {
    /// The buffer did not have it before.
    pub filled: bool,
    /// Checksum over place and bytes.
    pub checksum: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Why another node gets no extent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolFault {
    /// No buffer of this node can have such an extent.
    #[error(
        "the buffer of this node has no such extent: its extents have another size, or the range is outside of the file"
    )]
    NoExtent,
    /// The extent is not there, and is not to be read.
    #[error("the buffer of this node does not have the extent")]
    NotHeld,
    /// The file cannot be read here in this generation.
    #[error("the file cannot be read here as the asking node sees it: {0}")]
    Unread(String),
    /// The work is not done yet.
    #[error("the extent is being read; ask again")]
    Later,
}

/// Opens the storage of an export.
pub type OpenStorage = Arc<dyn Fn() -> Result<Arc<dyn Storage>, String> + Send + Sync>;

/// Gives extents to other nodes.
pub struct PoolAnswers(Arc<Flights<(FileKey, u64), Extent, PoolFault>>);

impl Default for PoolAnswers {
    fn default() -> Self {
        Self(Flights::new(BOUNDS))
    }
}

impl PoolAnswers {
    /// The part of an extent that begins at its byte `from`, of at most `most` bytes. With `open`, the extent is read if it is not there, and
    /// the extents at `next` in the background.
    ///
    /// # Errors
    /// The extent cannot be had now, or at all.
    pub fn part(
        &self,
        buffer: &Buffer,
        question: &PoolQuestion,
        (from, most): (u32, usize),
        open: Option<&OpenStorage>,
        next: &[u64],
    ) -> Result<PoolPart, PoolFault> {
        question.check(buffer.extent_bytes())?;
        let left = question.length.saturating_sub(from);
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        if bytes == 0 {
            return Err(PoolFault::NoExtent);
        }
        let at = question.offset + u64::from(from);
        let key = question.key();
        if open.is_none() && !buffer.has(&key, question.offset) {
            return Err(PoolFault::NotHeld);
        }
        let begun = self.begin(buffer, question, true, open);
        if let Some(open) = open {
            for offset in next {
                let further = question.at(*offset, buffer.extent_bytes());
                self.ahead(buffer, &further, open);
            }
        }
        let extent = match begun {
            Begun::Ready(extent) => extent,
            Begun::Full => return Err(PoolFault::Later),
            Begun::Flies(flight) => match flight.wait(WAITS) {
                Landed::Here(extent) => extent,
                Landed::Failed(fault) => return Err(fault),
                Landed::Silent | Landed::Late | Landed::Waits => return Err(PoolFault::Later),
            },
        };
        let bytes = slice(&extent, from, bytes)?;
        Ok(PoolPart {
            filled: extent.filled,
            checksum: checksum(&key, at, &bytes),
            bytes,
        })
    }

    /// Reads a further extent into the buffer in the background, if there is room for the work.
    fn ahead(&self, buffer: &Buffer, question: &PoolQuestion, open: &OpenStorage) {
        let is_new = || !buffer.has(&question.key(), question.offset);
        if question.check(buffer.extent_bytes()).is_ok() && is_new() {
            self.begin(buffer, question, false, Some(open));
        }
    }

    fn begin(
        &self,
        buffer: &Buffer,
        question: &PoolQuestion,
        is_urgent: bool,
        open: Option<&OpenStorage>,
    ) -> Begun<Extent, PoolFault> {
        let (buffer, open) = (buffer.clone(), open.cloned());
        let wish = question.clone();
        let key = (question.key(), question.offset);
        // Whole extents stay in memory for the questions about their further parts.
        self.0.begin(key, is_urgent, move |_| {
            if let Some(held) = held(&buffer, &wish) {
                return Ok(held);
            }
            let open = open.ok_or(PoolFault::NotHeld)?;
            let storage = open().map_err(PoolFault::Unread)?;
            fill(&buffer, &*storage, &wish)
        })
    }

    /// Forgets extents that have not been asked for lately.
    pub fn trim(&self) {
        self.0.trim();
    }
}

fn slice(extent: &Extent, from: u32, bytes: usize) -> Result<Vec<u8>, PoolFault> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let part = extent.bytes.get(from..).and_then(|rest| rest.get(..bytes));
    part.map(<[u8]>::to_vec).ok_or(PoolFault::NoExtent)
}

impl PoolQuestion {
    /// The same question about another extent of the file.
    #[must_use]
    pub fn at(&self, offset: u64, extent_bytes: u32) -> Self {
        let left = self.bytes.saturating_sub(offset);
        let length = left.min(u64::from(extent_bytes));
        Self {
            offset,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }

    fn key(&self) -> FileKey {
        FileKey {
            source: SourceId(self.origin),
            path: self.path.clone(),
            generation: Generation {
                bytes: self.bytes,
                stamp: self.stamp,
            },
        }
    }

    fn keep(&self) -> Keep {
        match self.keep_for {
            Duration::ZERO => Keep::No,
            keep_for => Keep::Until(now().saturating_add(keep_for)),
        }
    }

    const fn patience(&self) -> Patience {
        match self.keep_for {
            Duration::ZERO => Patience::None,
            _ => Patience::Waits,
        }
    }

    fn check(&self, extent_bytes: u32) -> Result<(), PoolFault> {
        let each = u64::from(extent_bytes);
        let left = self.bytes.saturating_sub(self.offset).min(each);
        let is_extent = self.offset.is_multiple_of(each) && left > 0;
        match is_extent && u64::from(self.length) == left {
            true => Ok(()),
            false => Err(PoolFault::NoExtent),
        }
    }
}

/// An extent that the buffer has.
fn held(buffer: &Buffer, question: &PoolQuestion) -> Option<Extent> {
    let named = buffer.named(question.key(), question.keep())?;
    let mut bytes = vec![0; usize::try_from(question.length).unwrap_or(usize::MAX)];
    named.find(question.offset, &mut bytes).then_some(Extent {
        bytes,
        filled: false,
    })
}

/// Reads an extent of a file into the buffer, if the file has the generation here, too.
fn fill(
    buffer: &Buffer,
    storage: &dyn Storage,
    question: &PoolQuestion,
) -> Result<Extent, PoolFault> {
    let unread = PoolFault::Unread;
    if storage.origin() != Some(question.origin) {
        return Err(unread("the export has another directory".to_owned()));
    }
    let path = RelPath::parse(&question.path).map_err(|error| unread(error.to_string()))?;
    let file = storage
        .open(&path)
        .map_err(|error| unread(error.to_string()))?;
    let meta = || file.meta().map_err(|error| unread(error.to_string()));
    let before = meta()?;
    question.is_present(&before)?;
    if !is_settled(&before, now()) {
        return Err(unread("it has just changed".to_owned()));
    }
    // From here on this node has seen the generation.
    let buffered = buffer.file(question.key(), question.keep());
    let buffered = buffered.ok_or_else(|| unread("the buffer cannot have it".to_owned()))?;
    let mut bytes = vec![0; usize::try_from(question.length).unwrap_or(usize::MAX)];
    let mut done = 0;
    while done < bytes.len() {
        let at = question.offset + done as u64;
        let read = file.read_at(at, &mut bytes[done..]);
        match read.map_err(|error| unread(error.to_string()))? {
            0 => return Err(unread("it became shorter".to_owned())),
            some => done += some,
        }
    }
    question.is_present(&meta()?)?;
    buffered.count_missed(bytes.len() as u64);
    let filled = buffered.fill(question.offset, &bytes);
    // As for a reader here: one that keeps nothing waits for no flash.
    buffered.store(filled, question.patience());
    Ok(Extent {
        bytes,
        filled: true,
    })
}

impl PoolQuestion {
    fn is_present(&self, meta: &Meta) -> Result<(), PoolFault> {
        match meta.generation() == self.stamp && meta.bytes == self.bytes {
            true => Ok(()),
            false => Err(PoolFault::Unread("it is another generation".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
