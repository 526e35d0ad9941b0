//! Reads files through a transfer buffer: from flash what it has, from the storage all else, which the buffer then gets.
//! Decides nothing about room; the buffer does.
//!
//! Each file is opened at its storage first. So the rights of this process count, and only the present generation is served.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use godwit_buffer::extent::{FileKey, Generation, Keep, SourceId};
use godwit_buffer::pool::Wish;
use godwit_buffer::service::{Buffer, BufferedFile, Patience};
use godwit_engine::{ReadError, Source, SourceFile};
use godwit_proto::{Fault, Record};
use godwit_store::{Meta, Timestamp};

use super::pace::{Pace, SMALL_BYTES};
use super::pooled;
use super::source::{TreeFile, TreeSource};

/// How a transfer uses the buffer.
#[derive(Clone, Debug)]
pub struct Buffering {
    /// The buffer.
    pub buffer: Buffer,
    /// How long the files stay there from now on. If they stay, the transfer waits a moment for flash that is slower than it.
    pub keep_for: Duration,
}

impl Buffering {
    /// The usual use of a buffer.
    #[must_use]
    pub fn of(buffer: &Buffer) -> Self {
        Self {
            buffer: buffer.clone(),
            keep_for: Duration::ZERO,
        }
    }
}

/// Files of some roots, behind a buffer.
pub(crate) struct BufferedTree {
    tree: TreeSource,
    buffering: Arc<Filling>,
}

/// The part that all files of one transfer share.
struct Filling {
    buffering: Buffering,
    keep: Keep,
    patience: Patience,
    /// Room that this transfer has taken in the buffer: whole extents, in bytes.
    filled: AtomicU64,
    /// For small files.
    small: Mutex<Pace>,
    /// For the rest of a data set that is larger than the buffers.
    rest: Mutex<Pace>,
}

impl BufferedTree {
    pub(crate) fn new(tree: TreeSource, buffering: Buffering) -> Self {
        let (keep, patience) = match buffering.keep_for {
            Duration::ZERO => (Keep::No, Patience::None),
            keep_for => (Keep::Until(now().saturating_add(keep_for)), Patience::Waits),
        };
        Self {
            tree,
            buffering: Arc::new(Filling {
                buffering,
                keep,
                patience,
                filled: AtomicU64::new(0),
                small: Mutex::default(),
                rest: Mutex::default(),
            }),
        }
    }

    /// The file of a record in the buffer, once its generation is known to be the present one.
    fn buffered(&self, record: &Record) -> Option<BufferedFile> {
        let (root, path) = self.tree.locate(record).ok()?;
        let key = FileKey {
            source: SourceId(root.storage.origin()?),
            path: path.as_bytes().to_vec(),
            generation: Generation {
                bytes: record.bytes,
                stamp: record.generation.0,
            },
        };
        let filling = &self.buffering;
        filling.buffering.buffer.file(key, filling.keep)
    }

    /// The open file of a record and its state, if it still has the record's generation.
    fn present(&self, record: &Record) -> Result<(TreeFile, Meta), ReadError> {
        let file = self.tree.open_file(record).map_err(ReadError::Failed)?;
        let meta = file.meta()?;
        match meta.generation() == record.generation.0 {
            true => Ok((file, meta)),
            false => Err(ReadError::Changed),
        }
    }
}

impl Filling {
    /// Whether the transfer may put a file into the buffer that has this state before it is read. A data set larger than the buffer would
    /// evict its own beginning.
    fn takes(&self, file: &BufferedFile, meta: &Meta) -> bool {
        is_settled(meta, now()) && self.has_room(file)
    }

    fn has_room(&self, file: &BufferedFile) -> bool {
        let room = self.buffering.buffer.pool_room(file.key().source);
        self.filled.load(Ordering::Relaxed) < room
    }

    /// Fills the front of a block with bytes of other nodes, and returns how many.
    fn fetch(&self, file: &BufferedFile, offset: u64, out: &mut [u8]) -> usize {
        let buffer = &self.buffering.buffer;
        let Some(mates) = buffer.pool() else { return 0 };
        let pace = self.pace(file);
        if pace.is_some_and(|pace| !lock(pace).asks()) {
            return 0;
        }
        let fill = pace.is_none() && self.has_room(file);
        let wish = |offset, bytes| Wish {
            offset,
            bytes,
            fill,
            keep_for: self.buffering.keep_for,
        };
        let place = (buffer.extent_bytes(), offset);
        let begun = Instant::now();
        let got = pooled::fetch(&*mates, file, wish, place, out);
        if let Some(pace) = pace.filter(|_| got.has_asked) {
            let has_all = got.bytes == out.len();
            lock(pace).handle_answer(begun.elapsed(), has_all);
        }
        self.filled.fetch_add(got.new, Ordering::Relaxed);
        got.bytes
    }

    /// The times that decide whether other nodes are asked for a file, which then only give what they have. None if they are asked anyway.
    fn pace(&self, file: &BufferedFile) -> Option<&Mutex<Pace>> {
        let is_small = file.key().generation.bytes < SMALL_BYTES;
        match self.buffering.keep_for {
            Duration::ZERO if is_small => Some(&self.small),
            Duration::ZERO if !self.has_room(file) => Some(&self.rest),
            _ => None,
        }
    }

    /// Notes how long the export takes, since the read began.
    fn handle_read(&self, file: &BufferedFile, begun: Instant) {
        if let Some(pace) = self.pace(file) {
            lock(pace).handle_read(begun.elapsed());
        }
    }

    /// Hands over a block of a file that has this generation, if `generation` says so afterwards, too.
    fn fill(
        &self,
        file: &BufferedFile,
        offset: u64,
        data: &[u8],
        is_present: impl FnOnce() -> bool,
    ) {
        let filled = file.fill(offset, data);
        if !filled.is_empty() && is_present() {
            let each = u64::from(self.buffering.buffer.extent_bytes());
            let taken = filled.extents().saturating_mul(each);
            self.filled.fetch_add(taken, Ordering::Relaxed);
            file.store(filled, self.patience);
        }
    }
}

impl Source for BufferedTree {
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        let file = self.tree.open_file(record)?;
        let present = file.meta().ok();
        let present = present.filter(|meta| meta.generation() == record.generation.0);
        let buffered = present.and_then(|meta| Some((self.buffered(record)?, meta)));
        let file: Arc<dyn SourceFile> = Arc::new(file);
        Ok(match buffered {
            None => file,
            Some((buffered, meta)) => Arc::new(File {
                file,
                generation: record.generation.0,
                is_settled: is_settled(&meta, now()),
                fills: self.buffering.takes(&buffered, &meta),
                buffered,
                filling: Arc::clone(&self.buffering),
            }),
        })
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = usize::try_from(record.bytes).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > buffer.len() {
            return self.tree.read_whole(record, buffer);
        }
        let Ok((root, _)) = self.tree.locate(record) else {
            return self.tree.read_whole(record, buffer);
        };
        if root.storage.origin().is_none() {
            return self.tree.read_whole(record, buffer);
        }
        let (file, meta) = self.present(record)?;
        let Some(buffered) = self.buffered(record) else {
            return self.tree.read_whole(record, buffer);
        };
        if buffered.find(0, &mut buffer[..bytes]) {
            return Ok(bytes);
        }
        let takes = self.buffering.takes(&buffered, &meta);
        if is_settled(&meta, now())
            && self.buffering.fetch(&buffered, 0, &mut buffer[..bytes]) == bytes
        {
            return Ok(bytes);
        }
        buffered.count_missed(record.bytes);
        let begun = Instant::now();
        file.read_at(0, &mut buffer[..bytes])?;
        self.buffering.handle_read(&buffered, begun);
        let is_present = || {
            let now = file.generation();
            now.is_ok_and(|generation| generation == record.generation.0)
        };
        if !is_present() {
            return Err(ReadError::Changed);
        }
        if takes {
            // The check above came after the read.
            self.buffering.fill(&buffered, 0, &buffer[..bytes], || true);
        }
        Ok(bytes)
    }

    fn reads_again(&self) -> bool {
        self.tree.reads_again()
    }

    fn reads_apart(&self) -> bool {
        self.tree.reads_apart()
    }

    fn close(&self) {
        self.tree.close();
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        self.tree.refresh(record)
    }
}

struct File {
    file: Arc<dyn SourceFile>,
    buffered: BufferedFile,
    generation: u64,
    is_settled: bool,
    fills: bool,
    filling: Arc<Filling>,
}

impl SourceFile for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        if self.buffered.find(offset, buffer) {
            return Ok(());
        }
        let fetched = match self.is_settled {
            true => self.filling.fetch(&self.buffered, offset, buffer),
            false => 0,
        };
        let (offset, buffer) = (offset + fetched as u64, &mut buffer[fetched..]);
        if buffer.is_empty() {
            return Ok(());
        }
        self.buffered.count_missed(buffer.len() as u64);
        let begun = Instant::now();
        self.file.read_at(offset, buffer)?;
        self.filling.handle_read(&self.buffered, begun);
        if self.fills {
            let is_present = || {
                let now = self.file.generation();
                now.is_ok_and(|generation| generation == self.generation)
            };
            self.filling
                .fill(&self.buffered, offset, buffer, is_present);
        }
        Ok(())
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        self.file.next_data(offset)
    }

    fn generation(&self) -> Result<u64, ReadError> {
        self.file.generation()
    }
}

/// Times of files advance in steps. A file that changed within the last step may change again and keep its generation.
const STEP: Duration = Duration::from_millis(100);
/// The step of file systems that keep whole seconds.
const STEP_OF_SECONDS: Duration = Duration::from_secs(2);

/// Whether a later change of the file gives it another generation. A writer can set the time of contents back, but not the time of the change.
pub(super) fn is_settled(meta: &Meta, now: Duration) -> bool {
    let mut times = [meta.mtime, meta.ctime].into_iter();
    times.all(|time| is_over(time, now))
}

/// Whether the step of a time is over.
fn is_over(time: Timestamp, now: Duration) -> bool {
    let Ok(seconds) = u64::try_from(time.seconds) else {
        return true;
    };
    let step = match time.nanoseconds {
        0 => STEP_OF_SECONDS,
        _ => STEP,
    };
    let changed = Duration::new(seconds, time.nanoseconds.min(999_999_999));
    changed.saturating_add(step) <= now
}

fn lock(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use godwit_store::Kind;

    use super::*;

    fn file(mtime: Timestamp, ctime: Timestamp) -> Meta {
        Meta {
            kind: Kind::File,
            mode: 0o644,
            bytes: 1,
            sparse: false,
            mtime,
            ctime,
            inode: 1,
            device: 1,
            links: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
        }
    }

    const fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds,
        }
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_settled() {
        let now = Duration::from_millis(1_000_500);
        let is_settled = |time| is_settled(&file(time, time), now);
        assert!(is_settled(at(1_000, 400_000_000)));
        assert!(!is_settled(at(1_000, 400_000_001)));
        assert!(!is_settled(at(1_000, 0)), "whole seconds");
        assert!(is_settled(at(998, 0)));
        assert!(!is_settled(at(2_000, 1)), "the future");
        assert!(is_settled(at(-5, 0)));
    }

    #[test]
    fn a_file_that_has_just_changed_and_got_an_old_time_is_not_settled() {
        let now = Duration::from_millis(1_000_500);
        let old = at(5, 1);
        assert!(is_settled(&file(old, at(1_000, 400_000_000)), now));
        assert!(!is_settled(&file(old, at(1_000, 499_000_000)), now));
        assert!(!is_settled(&file(old, at(999, 0)), now), "whole seconds");
    }
}
