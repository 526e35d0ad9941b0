//! Lets the transfers of a process that have the same source share its reads. Decides nothing; `hold` does.
//!
//! - **Blocks** are read once. The first transfer that needs the digest of a block computes it for all that take the block in the same
//!   terms. A slice with holes, and a block that is read again for its peer, are hashed by their own transfer.
//! - **Scans** read each page once (`store::fs::pages`, which states how old it may be). Lookups of names in a list are not shared.
//! - **A check asks the storage.** No page and no kept block answers whether a file is still the announced one.
//!
//! Each transfer encrypts and sends its own blocks, and each receiver checks them.

mod reads;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use godwit_engine::{OnceDigest, ReadError, Source, SourceFile};
use godwit_hold::Destination;
use godwit_proto::{EntryId, Fault, Record};
use godwit_store::{ScanPages, ScanSeat};

use self::reads::{Asker, FileKey, Key, Reads};

pub use godwit_hold::{DESTINATIONS_MAX, Figures as ReadFigures, PageFigures};

/// Most open files that transfers may find opened by another one.
const OPEN_MAX: usize = 1024;

/// Scans keep at most this part of the bytes for contents, beside them …
const PAGES_PART: u64 = 8;

/// … and at most this: the metadata of some 40,000 files.
const PAGES_BYTES_MAX: u64 = 16 << 20;

/// The shared reads of one source. Clones are handles of the same reads.
#[derive(Clone)]
pub struct SharedReads(Arc<Shared>);

struct Shared {
    reads: Reads,
    pages: Arc<ScanPages>,
    open: Mutex<HashMap<Arc<FileKey>, Weak<dyn SourceFile>>>,
}

/// The share of one destination in the shared reads. No other destination waits for it once this value is dropped, unless it lasts.
pub struct Seat {
    shared: Arc<Shared>,
    who: Destination,
    /// The only root of its transfers, by its number among the roots of all destinations.
    root: Option<u16>,
    /// Others keep blocks for the destination between its transfers.
    lasts: bool,
}

impl SharedReads {
    /// Reads for this many destinations, at most [`DESTINATIONS_MAX`], which keep at most `bytes` of contents. Others join later.
    #[must_use]
    pub fn new(bytes: u64, destinations: usize) -> Self {
        let pages = (bytes / PAGES_PART).min(PAGES_BYTES_MAX);
        let shared = Shared {
            reads: Reads::new(bytes),
            pages: Arc::new(ScanPages::new(pages)),
            open: Mutex::default(),
        };
        for number in 0..destinations {
            shared.join(Destination(number));
        }
        Self(Arc::new(shared))
    }

    /// The place of the destination with this number. Take one for each.
    #[must_use]
    pub fn seat(&self, number: usize) -> Seat {
        self.place(number, false)
    }

    /// The place of a destination with many transfers, one after another. Between them, others keep blocks for it, until
    /// [`SharedReads::leave`].
    #[must_use]
    pub fn lasting_seat(&self, number: usize) -> Seat {
        self.place(number, true)
    }

    fn place(&self, number: usize, lasts: bool) -> Seat {
        Seat {
            shared: Arc::clone(&self.0),
            who: Destination(number),
            root: None,
            lasts,
        }
    }

    /// The destination with this number begins soon. Others keep blocks for it from now on.
    pub fn join(&self, number: usize) {
        self.0.reads.join(Destination(number));
    }

    /// The destination with this number has ended.
    pub fn leave(&self, number: usize) {
        self.0.leave(Destination(number));
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> ReadFigures {
        self.0.reads.figures()
    }

    /// The figures of scans so far.
    #[must_use]
    pub fn scanned(&self) -> PageFigures {
        self.0.pages.figures()
    }

    /// Whether this destination reads again what others have read before.
    #[must_use]
    pub fn is_behind(&self, number: usize) -> bool {
        self.0.reads.is_behind(Destination(number))
    }
}

impl Shared {
    fn join(&self, who: Destination) {
        self.reads.join(who);
        self.pages.join(who);
    }

    fn leave(&self, who: Destination) {
        self.reads.leave(who);
        self.pages.leave(who);
    }

    /// A transfer of this destination has ended. With more to come, others keep blocks for it, and no pages: a scan takes only those of its time.
    fn end(&self, who: Destination, lasts: bool) {
        self.pages.leave(who);
        if !lasts {
            self.reads.leave(who);
        }
    }
}

impl Seat {
    /// The place of this destination's scans.
    #[must_use]
    pub fn scans(&self) -> ScanSeat {
        ScanSeat::new(&self.shared.pages, self.who).at_root(self.root.unwrap_or_default())
    }

    /// Names the only root of the next transfers by its number among the roots of all destinations.
    pub const fn at_root(&mut self, root: u16) {
        self.root = Some(root);
    }

    /// The source for one attempt of this destination. All destinations must have the same roots in the same order.
    #[must_use]
    pub fn share(&self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        self.shared.join(self.who);
        Arc::new(SharedSource {
            shared: Arc::clone(&self.shared),
            who: self.who,
            root: self.root,
            lasts: self.lasts,
            source,
            is_closed: Arc::default(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.end(self.who, self.lasts);
    }
}

struct SharedSource {
    shared: Arc<Shared>,
    who: Destination,
    root: Option<u16>,
    lasts: bool,
    source: Arc<dyn Source>,
    is_closed: Arc<AtomicBool>,
}

impl SharedSource {
    fn key(&self, record: &Record) -> Arc<FileKey> {
        Arc::new(FileKey::of(record, self.root.unwrap_or(record.root)))
    }

    fn asker(&self, id: EntryId) -> Asker {
        Asker {
            who: self.who,
            id,
            is_closed: Arc::clone(&self.is_closed),
        }
    }

    /// The file as another destination has opened it, or opens it.
    fn opened(&self, key: &Arc<FileKey>, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        let open = || {
            self.shared
                .open
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let found = open().get(key).and_then(Weak::upgrade);
        if let Some(file) = found {
            return Ok(file);
        }
        // Not under the lock, because the storage may hang. The file that the last destination opened stays open for other
        // destinations.
        let file = self.source.open(record)?;
        let mut open = open();
        open.retain(|_, file| file.strong_count() > 0);
        if open.len() < OPEN_MAX {
            open.insert(Arc::clone(key), Arc::downgrade(&file));
        }
        Ok(file)
    }
}

impl Source for SharedSource {
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        let key = self.key(record);
        Ok(Arc::new(SharedFile {
            file: self.opened(&key, record)?,
            shared: Arc::clone(&self.shared),
            asker: self.asker(record.id),
            key,
        }))
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        Ok(self.read_whole_shared(record, buffer)?.0)
    }

    fn read_whole_shared(
        &self,
        record: &Record,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<OnceDigest>), ReadError> {
        let bytes = usize::try_from(record.bytes).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > buffer.len() {
            return Ok((self.source.read_whole(record, buffer)?, None));
        }
        let key = Key::new(self.key(record), 0, bytes);
        let (asker, reads) = (self.asker(record.id), &self.shared.reads);
        let digest = reads.read(&asker, &key, buffer, &mut |buffer| match self
            .source
            .read_whole(record, buffer)?
        {
            read if read == bytes => Ok(()),
            _ => Err(ReadError::Changed),
        })?;
        Ok((bytes, digest))
    }

    fn read_whole_again(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.source.read_whole_again(record, buffer)
    }

    fn reads_again(&self) -> bool {
        self.source.reads_again()
    }

    /// All destinations read the files in one order.
    fn reads_apart(&self) -> bool {
        false
    }

    fn close(&self) {
        // The next attempt may have begun.
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.shared.end(self.who, self.lasts);
            if self.lasts {
                self.shared.reads.wake_all();
            }
        }
        self.source.close();
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        self.source.refresh(record)
    }
}

struct SharedFile {
    file: Arc<dyn SourceFile>,
    shared: Arc<Shared>,
    asker: Asker,
    key: Arc<FileKey>,
}

impl SharedFile {
    /// An error of a file that another destination may have opened.
    fn own<T>(&self, read: Result<T, ReadError>) -> Result<T, ReadError> {
        read.map_err(|error| with_entry(error, self.asker.id))
    }
}

impl SourceFile for SharedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.read_shared(offset, buffer).map(|_| ())
    }

    fn read_shared(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<OnceDigest>, ReadError> {
        let key = Key::new(Arc::clone(&self.key), offset, buffer.len());
        let reads = &self.shared.reads;
        reads.read(&self.asker, &key, buffer, &mut |buffer| {
            self.file.read_at(offset, buffer)?;
            // Others must not get bytes of a newer state.
            match self.file.generation()? == self.key.generation() {
                true => Ok(()),
                false => Err(ReadError::Changed),
            }
        })
    }

    fn read_again(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.own(self.file.read_again(offset, buffer))
    }

    fn read_next(&self, buffer: &mut [u8]) -> Result<(usize, bool), ReadError> {
        self.own(self.file.read_next(buffer))
    }

    fn lend(&self, offset: u64, bytes: usize) -> Option<&'static [u8]> {
        self.file.lend(offset, bytes)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        self.own(self.file.next_data(offset))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        self.own(self.file.generation())
    }
}

/// The error, with the number that the entry has in the other transfer.
fn with_entry(error: ReadError, id: EntryId) -> ReadError {
    match error {
        ReadError::Changed => ReadError::Changed,
        ReadError::Failed(fault) => ReadError::Failed(Fault { entry: id, ..fault }),
    }
}
