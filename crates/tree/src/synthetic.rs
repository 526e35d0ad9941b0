//! Implements `mem:` and `null:`: a source of bytes from memory, and a sink that discards all data. They measure the rest of
//! the path. Uses no storage.

use godwit_seeded::Seeded;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use godwit_engine::{
    Acks, Counters, Ending, FinishReport, Offers, ReadError, Sink, SinkFailure, Slice, Source,
    SourceFile, Work, limits, lock,
};
use godwit_proto::{
    EntryId, EntryKind, Fault, FaultCode, Generation, Record, RecordFlags, Seq, Side, Verdict,
};

/// Name of the single entry of a `mem:` source, if a name is needed.
pub const MEMORY_NAME: &[u8] = b"mem";

/// Size of the region that a memory source repeats: larger than any second-level cache, as real data would be.
const REGION_BYTES: usize = 8 << 20;

/// A `mem:` source: one entry of pseudo-random bytes.
#[derive(Debug, Clone, Copy)]
pub struct MemorySource {
    bytes: u64,
    /// Time since 1970. All entries have the start of this run as their time, so that copies of an earlier run are not skipped.
    mtime: Duration,
}

impl MemorySource {
    /// An entry of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let mtime = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            bytes,
            mtime: mtime.unwrap_or_default(),
        }
    }

    fn record(self) -> Record {
        Record {
            kind: EntryKind::FILE,
            generation: Generation(self.bytes),
            bytes: self.bytes,
            mtime_seconds: i64::try_from(self.mtime.as_secs()).unwrap_or(i64::MAX),
            mtime_nanoseconds: self.mtime.subsec_nanos(),
            mode: 0o644,
            ..Record::default()
        }
    }
}

impl Work for MemorySource {
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        out.entries.push(self.record());
        false
    }
}

impl Source for MemorySource {
    fn open(&self, _record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        Ok(Arc::new(*self))
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = usize::try_from(record.bytes)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        self.read_at(0, &mut buffer[..bytes])?;
        Ok(bytes)
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        let mut fresh = self.record();
        fresh.id = record.id;
        Ok(fresh)
    }
}

impl SourceFile for MemorySource {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let region = region();
        let mut at = usize::try_from(offset % REGION_BYTES as u64).unwrap_or(0);
        let mut filled = 0;
        while filled < buffer.len() {
            let bytes = (buffer.len() - filled).min(region.len() - at);
            buffer[filled..filled + bytes].copy_from_slice(&region[at..at + bytes]);
            filled += bytes;
            at = 0;
        }
        Ok(())
    }

    fn lend(&self, offset: u64, bytes: usize) -> Option<&'static [u8]> {
        let at = usize::try_from(offset % REGION_BYTES as u64).ok()?;
        region().get(at..at.checked_add(bytes)?)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        Ok((offset < self.bytes).then_some(offset..self.bytes))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        Ok(self.bytes)
    }
}

/// Incompressible bytes, the same in every process: splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", OOPSLA 2014) from a fixed seed.
fn region() -> &'static [u8] {
    static REGION: OnceLock<Vec<u8>> = OnceLock::new();
    REGION.get_or_init(|| {
        let mut bytes = vec![0; REGION_BYTES];
        let mut seeded = Seeded(0x676f_6477_6974);
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&seeded.draw().to_le_bytes());
        }
        bytes
    })
}

/// A `null:` sink: all arriving data is checked, acknowledged and dropped.
pub struct NullSink {
    acks: Arc<Acks>,
    counters: Arc<Counters>,
    /// The latest large files of which data arrived.
    partial: Mutex<BTreeMap<EntryId, PartialFile>>,
}

/// The received part of a large file.
#[derive(Default)]
struct PartialFile {
    attempt: u16,
    /// Content of this attempt, in bytes.
    counted: u64,
}

impl NullSink {
    /// A sink that acknowledges through `acks`.
    pub fn new(acks: Arc<Acks>, counters: Arc<Counters>) -> Self {
        Self {
            acks,
            counters,
            partial: Mutex::default(),
        }
    }
}

impl NullSink {
    /// Counts content of an entry; data of an earlier attempt is subtracted.
    fn count(&self, id: EntryId, attempt: u16, bytes: u64) {
        let mut partial = lock(&self.partial);
        let file = partial.entry(id).or_default();
        if attempt > file.attempt {
            self.counters.bytes_durable.take_back(file.counted);
            *file = PartialFile {
                attempt,
                counted: 0,
            };
        }
        if attempt == file.attempt {
            file.counted += bytes;
            self.counters.bytes_durable.add(bytes);
        }
        // The oldest entry is then complete, because no sender has this many in progress.
        if partial.len() > limits::LARGE_FILES_OPEN_MAX {
            partial.pop_first();
        }
    }
}

impl Sink for NullSink {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        let verdict = |record: &Record| match record.kind {
            _ if record.flags & RecordFlags::PASSED_OVER != 0 => Verdict::Done,
            EntryKind::FILE => Verdict::Send,
            EntryKind::DIRECTORY => Verdict::Done,
            EntryKind::SYMLINK | EntryKind::HARD_LINK => {
                self.counters.files_done.add(1);
                Verdict::Done
            }
            _ => Verdict::Failed(Fault {
                entry: EntryId(record.id.0),
                side: Side::DESTINATION,
                code: FaultCode::UNSUPPORTED,
                errno: None,
                message: "this version does not know this kind of entry".to_owned(),
            }),
        };
        records.iter().map(verdict).collect()
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        if slice.record.digest.is_some() {
            self.counters.files_done.add(1);
            self.acks.observer.entry_done(slice.record);
        }
        let bytes = slice.payload.len() as u64;
        self.count(slice.record.id, slice.record.attempt, bytes);
        self.acks.durable(&[slice.header.seq]);
        Ok(())
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        let files = records
            .iter()
            .filter(|record| record.digest.is_some())
            .count();
        self.counters.files_done.add(files as u64);
        for record in records.iter().filter(|record| record.digest.is_some()) {
            self.acks.observer.entry_done(record);
        }
        let whole: usize = contents.iter().map(|content| content.len()).sum();
        self.counters.bytes_durable.add(whole as u64);
        for record in records {
            if record.flags & RecordFlags::SOURCE_FAILED != 0 {
                self.count(record.id, u16::MAX, 0);
            } else if record.attempt > 0 {
                self.count(record.id, record.attempt, 0);
            }
        }
        self.acks.durable(&[seq]);
        Vec::new()
    }

    fn finish(&self, _ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure> {
        Ok(FinishReport {
            synced: true,
            ..FinishReport::default()
        })
    }

    fn suspend(&self) {}

    fn display_path(&self, _root: u16, path: &[u8]) -> Vec<u8> {
        [b"null:", path].concat()
    }
}
