//! Owns data that must be kept but may not fill memory: a stack, a sorter and a list of byte records that overflow to disk. Does not
//! interpret the records.

mod list;
mod room;
#[cfg(test)]
mod tests;

pub use list::SpillList;
pub use room::{Free, SpillRoom};
pub(crate) use room::{Taken, room_in};

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handles::with_room;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Most runs merged at a time; each needs a [`RUN_READ_BYTES`] buffer during the merge.
const RUNS_MERGED_MAX: usize = 32;
/// Bytes read from a run at a time.
const RUN_READ_BYTES: usize = 64 << 10;
/// Bytes of the length before or after each record.
const LENGTH_BYTES: usize = size_of::<u32>();

/// A file without a name in `directory`: it disappears when it is closed, even if the process is killed.
///
/// # Errors
/// The directory cannot contain such a file.
pub fn unnamed_file(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let open = || rustix::fs::open(directory, flags | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR);
    match with_room(open) {
        Ok(file) => return Ok(file.into()),
        // File systems and kernels without O_TMPFILE return one of these errors.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = directory.join(format!(".spill-{}-{number}", std::process::id()));
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    let file = with_room(|| rustix::fs::open(&name, flags, Mode::RUSR | Mode::WUSR))?;
    rustix::fs::unlink(&name)?;
    Ok(file.into())
}

fn length_of(record: &[u8]) -> io::Result<[u8; LENGTH_BYTES]> {
    u32::try_from(record.len())
        .map(u32::to_le_bytes)
        .map_err(io::Error::other)
}

/// A stack of byte records: the newest in memory, the older ones on disk.
#[derive(Debug)]
pub struct SpillStack {
    taken: Taken,
    /// Approximate size of one chunk on disk; memory holds up to two.
    chunk_bytes: usize,
    /// Records, each followed by its length, so that the last one can be removed.
    memory: Vec<u8>,
    /// End of the last record of the first chunk in memory, if that chunk is full.
    boundary: Option<usize>,
    file: Option<File>,
    /// Offset and length of the chunks on disk, oldest first.
    chunks: Vec<(u64, usize)>,
}

impl SpillStack {
    /// An empty stack that keeps about `bytes_max` in memory and the rest in a nameless file in `room`.
    pub fn new(room: impl Into<SpillRoom>, bytes_max: usize) -> Self {
        Self {
            taken: Taken::new(room),
            chunk_bytes: (bytes_max / 2).max(1),
            memory: Vec::new(),
            boundary: None,
            file: None,
            chunks: Vec::new(),
        }
    }

    /// Puts a record on top. After an error the record is not on the stack, and the stack is as before.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let length = length_of(record)?;
        if self.memory.len() >= self.chunk_bytes * 2 {
            self.spill()?;
        }
        self.memory.extend_from_slice(record);
        self.memory.extend_from_slice(&length);
        self.note_boundary();
        Ok(())
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.chunks.is_empty()
    }

    /// Takes the record on top. After an error the records on disk are lost.
    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.memory.is_empty() && !self.load()? {
            return Ok(None);
        }
        let Some((rest, length)) = self.memory.split_last_chunk::<LENGTH_BYTES>() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let start = rest
            .len()
            .checked_sub(u32::from_le_bytes(*length) as usize)
            .ok_or(io::ErrorKind::InvalidData)?;
        let record = rest[start..].to_vec();
        self.memory.truncate(start);
        if self.boundary.is_some_and(|boundary| boundary > start) {
            self.boundary = None;
        }
        Ok(Some(record))
    }

    fn note_boundary(&mut self) {
        if self.boundary.is_none() && self.memory.len() >= self.chunk_bytes {
            self.boundary = Some(self.memory.len());
        }
    }

    /// Writes the older half of memory after the chunks on disk.
    fn spill(&mut self) -> io::Result<()> {
        let bytes = self.boundary.unwrap_or(self.memory.len());
        let offset = self
            .chunks
            .last()
            .map_or(0, |(offset, bytes)| offset + *bytes as u64);
        self.taken.reach(offset + bytes as u64)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed_file(self.taken.directory())?),
        };
        file.write_all_at(&self.memory[..bytes], offset)?;
        self.chunks.push((offset, bytes));
        self.memory.drain(..bytes);
        self.boundary = None;
        self.note_boundary();
        Ok(())
    }

    fn load(&mut self) -> io::Result<bool> {
        let (Some(file), Some((offset, bytes))) = (&self.file, self.chunks.pop()) else {
            return Ok(false);
        };
        let mut memory = std::mem::take(&mut self.memory);
        memory.resize(bytes, 0);
        if let Err(error) = file.read_exact_at(&mut memory, offset) {
            self.chunks.clear();
            return Err(error);
        }
        self.memory = memory;
        self.note_boundary();
        Ok(true)
    }
}

/// Accepts byte records in any order and returns them sorted: in memory while they fit, otherwise by merging runs on disk.
#[derive(Debug)]
pub struct SpillSorter {
    taken: Taken,
    bytes_max: usize,
    /// The records that are not on disk yet, one after the other.
    memory: Vec<u8>,
    /// Position of each record in `memory`.
    spans: Vec<(usize, usize)>,
    file: Option<Arc<File>>,
    file_bytes: u64,
    /// Start and end of each run in the file.
    runs: Vec<(u64, u64)>,
}

impl SpillSorter {
    /// A sorter that keeps about `bytes_max` in memory and the rest in a nameless file in `room`.
    pub fn new(room: impl Into<SpillRoom>, bytes_max: usize) -> Self {
        Self {
            taken: Taken::new(room),
            bytes_max,
            memory: Vec::new(),
            spans: Vec::new(),
            file: None,
            file_bytes: 0,
            runs: Vec::new(),
        }
    }

    /// Adds a record. After an error the record is not in the sorter.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        if self.memory.len() + self.spans.len() * size_of::<(usize, usize)>() + record.len()
            > self.bytes_max
        {
            self.write_run()?;
        }
        let start = self.memory.len();
        self.memory.extend_from_slice(record);
        self.spans.push((start, self.memory.len()));
        Ok(())
    }

    /// Ends the input; the result returns the records in ascending order.
    pub fn finish(mut self) -> io::Result<SpillMerge> {
        if !self.runs.is_empty() {
            self.write_run()?;
        }
        while self.runs.len() > RUNS_MERGED_MAX {
            self.merge_oldest()?;
        }
        // Sorted descending, so that the least can be popped from the end.
        let memory = &self.memory;
        self.spans
            .sort_unstable_by(|a, b| memory[b.0..b.1].cmp(&memory[a.0..a.1]));
        let runs = std::mem::take(&mut self.runs);
        Ok(SpillMerge {
            merge: Merge::new(self.file.as_ref(), &runs)?,
            memory: self.memory,
            spans: self.spans,
            _taken: self.taken,
        })
    }

    fn write_run(&mut self) -> io::Result<()> {
        if self.spans.is_empty() {
            return Ok(());
        }
        let more = self.memory.len() + self.spans.len() * LENGTH_BYTES;
        self.check_room(more as u64)?;
        let memory = &self.memory;
        self.spans
            .sort_unstable_by(|a, b| memory[a.0..a.1].cmp(&memory[b.0..b.1]));
        let mut writer = RunWriter::begin(self.file()?, self.file_bytes);
        for (start, end) in &self.spans {
            writer.write(&self.memory[*start..*end])?;
        }
        let run = writer.end()?;
        self.file_bytes = run.1;
        self.runs.push(run);
        self.memory.clear();
        self.spans.clear();
        Ok(())
    }

    /// Merges the oldest runs into one, so that a bounded number of runs is left at the end.
    fn merge_oldest(&mut self) -> io::Result<()> {
        let lengths = self.runs[..RUNS_MERGED_MAX].iter();
        let more = lengths.map(|(start, end)| end - start).sum();
        self.check_room(more)?;
        let oldest: Vec<_> = self.runs.drain(..RUNS_MERGED_MAX).collect();
        let file = self.file()?;
        let mut merge = Merge::new(Some(&file), &oldest)?;
        let mut writer = RunWriter::begin(file, self.file_bytes);
        while let Some(record) = merge.next()? {
            writer.write(&record)?;
        }
        let run = writer.end()?;
        self.file_bytes = run.1;
        self.runs.push(run);
        Ok(())
    }

    fn check_room(&mut self, more: u64) -> io::Result<()> {
        self.taken.reach(self.file_bytes + more)
    }

    fn file(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(unnamed_file(self.taken.directory())?);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }
}

/// The records of a [`SpillSorter`] in ascending order.
#[derive(Debug)]
pub struct SpillMerge {
    merge: Merge,
    memory: Vec<u8>,
    spans: Vec<(usize, usize)>,
    _taken: Taken,
}

impl SpillMerge {
    /// Returns the next record in ascending order. After an error the remaining records are lost.
    pub fn next_record(&mut self) -> io::Result<Option<Vec<u8>>> {
        // Either everything is in memory or everything is in runs.
        match self.spans.pop() {
            Some((start, end)) => Ok(Some(self.memory[start..end].to_vec())),
            None => self.merge.next(),
        }
    }
}

/// Several sorted runs, read as one.
#[derive(Debug)]
struct Merge {
    runs: Vec<RunReader>,
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl Merge {
    fn new(file: Option<&Arc<File>>, runs: &[(u64, u64)]) -> io::Result<Self> {
        let mut merge = Self {
            runs: Vec::new(),
            heads: BinaryHeap::new(),
        };
        let Some(file) = file else {
            return Ok(merge);
        };
        for (start, end) in runs {
            let file = Arc::clone(file);
            merge.runs.push(RunReader {
                file,
                next: *start,
                end: *end,
                buffer: Vec::new(),
                taken: 0,
            });
            merge.advance(merge.runs.len() - 1)?;
        }
        Ok(merge)
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(Reverse((record, run))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(run)?;
        Ok(Some(record))
    }

    fn advance(&mut self, run: usize) -> io::Result<()> {
        if let Some(record) = self.runs[run].next()? {
            self.heads.push(Reverse((record, run)));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct RunReader {
    file: Arc<File>,
    next: u64,
    end: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl RunReader {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.taken == self.buffer.len() && self.next == self.end {
            return Ok(None);
        }
        let mut length = [0; LENGTH_BYTES];
        length.copy_from_slice(self.take(LENGTH_BYTES)?);
        Ok(Some(
            self.take(u32::from_le_bytes(length) as usize)?.to_vec(),
        ))
    }

    fn take(&mut self, bytes: usize) -> io::Result<&[u8]> {
        let have = self.buffer.len() - self.taken;
        if have < bytes {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
            let more = (bytes - have).max(RUN_READ_BYTES).min(left);
            self.buffer.resize(have + more, 0);
            self.file
                .read_exact_at(&mut self.buffer[have..], self.next)?;
            self.next += more as u64;
        }
        let start = self.taken;
        let end = start + bytes;
        let taken = self
            .buffer
            .get(start..end)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        self.taken = end;
        Ok(taken)
    }
}

struct RunWriter {
    file: Arc<File>,
    start: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl RunWriter {
    fn begin(file: Arc<File>, offset: u64) -> Self {
        Self {
            file,
            start: offset,
            offset,
            buffer: Vec::with_capacity(RUN_READ_BYTES),
        }
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(&length_of(record)?);
        self.buffer.extend_from_slice(record);
        if self.buffer.len() >= RUN_READ_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn end(mut self) -> io::Result<(u64, u64)> {
        self.flush()?;
        Ok((self.start, self.offset))
    }
}
