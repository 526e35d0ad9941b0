//! A pipe as a destination: one file, written in order by a dedicated thread, for any order of its slices. A slice that arrives too
//! early while many bytes already wait is requested again later, so memory stays bounded.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use godwit_engine::{
    Acks, Counters, Ending, FinishReport, IfPanicking, Sink, SinkFailure, Slice, entry, lock,
};
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Record, RecordFlags, Seq, Side, Verdict};
use godwit_store::digest::{Digest, DigestKind, FileDigest};

/// Writes the one file of a transfer to a pipe.
pub struct PipeSink {
    acks: Arc<Acks>,
    counters: Arc<Counters>,
    bytes_max: usize,
    dry_run: bool,
    /// Whether there is a file to write.
    planned: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    entry: Option<EntryId>,
    generation: u64,
    attempt: u16,
    waiting: BTreeMap<u64, Part>,
    waiting_bytes: usize,
    /// Offset of the next part to write.
    next: u64,
    digest: FileDigest,
    /// The last record: size and digest of the whole file.
    end: Option<Record>,
    had_no_room: bool,
    stopping: bool,
    failure: Option<SinkFailure>,
}

struct Part {
    seq: Seq,
    bytes: Vec<u8>,
    digest: Digest,
}

/// Memory of a part in addition to its bytes. It counts because a sender may cut a file into pieces of one byte.
const PART_BYTES: usize = 128;

impl Part {
    fn memory(&self) -> usize {
        self.bytes.len() + PART_BYTES
    }
}

impl PipeSink {
    /// Starts the thread that writes to `out`; at most about `bytes_max` bytes wait in the queue. In a dry run no data arrives, and
    /// that is not a failure.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        out: Box<dyn Write + Send>,
        kind: DigestKind,
        bytes_max: usize,
        dry_run: bool,
        acks: Arc<Acks>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Arc<Self>> {
        let sink = Arc::new(Self {
            acks,
            counters,
            bytes_max,
            dry_run,
            planned: AtomicBool::new(false),
            state: Mutex::new(State {
                entry: None,
                generation: 0,
                attempt: 0,
                waiting: BTreeMap::new(),
                waiting_bytes: 0,
                next: 0,
                digest: FileDigest::new(kind),
                end: None,
                had_no_room: false,
                stopping: false,
                failure: None,
            }),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&sink);
        // The thread is not joined, because a reader that stops reading may block it for ever.
        std::thread::Builder::new()
            .name("gw-out".to_owned())
            .spawn(move || own.write_parts(out))?;
        Ok(sink)
    }

    fn write_parts(&self, mut out: Box<dyn Write + Send>) {
        let _panic = IfPanicking(|| self.fail(SinkFailure::Panicked));
        let mut state = lock(&self.state);
        loop {
            if state.stopping || state.failure.is_some() {
                return;
            }
            let at = state.next;
            let Some(part) = state.waiting.remove(&at) else {
                if state.waiting.is_empty() && state.is_whole() {
                    drop(state);
                    if let Err(error) = out.flush() {
                        self.fail(closed(&error, at));
                    }
                    return;
                }
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let written = out.write_all(&part.bytes);
            state = lock(&self.state);
            state.waiting_bytes -= part.memory();
            if let Err(error) = written {
                drop(state);
                self.fail(closed(&error, at));
                return;
            }
            let bytes = part.bytes.len() as u64;
            state.next += bytes;
            state.digest.add(at, bytes, part.digest);
            self.counters.bytes_durable.add(bytes);
            let wake = std::mem::take(&mut state.had_no_room);
            let done = state.is_whole().then(|| state.end.clone()).flatten();
            drop(state);
            if let Some(record) = done {
                self.counters.files_done.add(1);
                self.acks.observer.entry_done(&record);
            }
            self.acks.durable(&[part.seq]);
            if wake {
                self.acks.wake_all();
            }
            state = lock(&self.state);
        }
    }

    fn fail(&self, failure: SinkFailure) {
        lock(&self.state).failure.get_or_insert(failure);
        self.changed.notify_all();
        self.acks.wake_all();
    }

    /// Accepts bytes of the entry, or refuses them for now.
    fn add(&self, seq: Seq, record: &Record, offset: u64, bytes: &[u8], digest: Digest) {
        let mut state = lock(&self.state);
        if state.failure.is_some() {
            return;
        }
        let is_same = state.entry == Some(record.id)
            && (state.generation, state.attempt) == (record.generation.0, record.attempt);
        if !is_same {
            if state.entry.is_some() && record.attempt < state.attempt {
                drop(state);
                self.acks.durable(&[seq]);
                return;
            }
            let untouched = state.next == 0 && state.waiting.is_empty();
            if state.entry.is_some() && !untouched {
                drop(state);
                self.fail(SinkFailure::Output("the source file changed while it was read, and data already written to standard output cannot be taken back; start again".to_owned()));
                return;
            }
            state.entry = Some(record.id);
            state.generation = record.generation.0;
            state.attempt = record.attempt;
        }
        if record.digest.is_some() {
            state.end = Some(record.clone());
        }
        let known = offset < state.next || state.waiting.contains_key(&offset);
        if known || (bytes.is_empty() && record.bytes > 0) {
            drop(state);
            self.changed.notify_all();
            self.acks.durable(&[seq]);
            return;
        }
        let memory = bytes.len() + PART_BYTES;
        if state.waiting_bytes + memory > self.bytes_max && offset != state.next {
            drop(state);
            self.acks.resend(&[seq]);
            return;
        }
        state.waiting_bytes += memory;
        let bytes = bytes.to_vec();
        state.waiting.insert(offset, Part { seq, bytes, digest });
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn is_whole(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.bytes == self.next)
    }
}

impl Sink for PipeSink {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        let verdict = |record: &Record| {
            if record.kind == EntryKind::FILE && record.path.is_empty() && record.root == 0 {
                self.planned.store(true, Ordering::Relaxed);
                return Verdict::Send;
            }
            let message = "standard output takes one file, not a directory or a link";
            self.fail(SinkFailure::Output(message.to_owned()));
            Verdict::Failed(Fault {
                entry: record.id,
                side: Side::DESTINATION,
                code: FaultCode::UNSUPPORTED,
                errno: None,
                message: message.to_owned(),
            })
        };
        records.iter().map(verdict).collect()
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        if !slice.ranges.is_empty() {
            self.fail(SinkFailure::Output(
                "the sender leaves out holes, which cannot be written in order".to_owned(),
            ));
            return Ok(());
        }
        let digest = entry::digest_to_store(&slice.header.digest);
        let header = slice.header;
        self.add(
            header.seq,
            slice.record,
            header.offset,
            slice.payload,
            digest,
        );
        Ok(())
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        let mut taken = false;
        for (record, content) in records.iter().zip(contents) {
            if record.flags & RecordFlags::SOURCE_FAILED != 0 {
                self.fail(SinkFailure::Output(format!(
                    "the source failed: {}",
                    entry::fault_of(record).message
                )));
            } else if let Some(digest) = &record.digest {
                taken = true;
                let digest = entry::digest_to_store(digest);
                self.add(seq, record, 0, content, digest);
            }
        }
        if !taken {
            self.acks.durable(&[seq]);
        }
        Vec::new()
    }

    fn has_room(&self) -> bool {
        let mut state = lock(&self.state);
        // The next slice must be accepted, however many bytes wait.
        let next = state.next;
        let room = state.waiting_bytes < self.bytes_max || !state.waiting.contains_key(&next);
        state.had_no_room |= !room;
        room
    }

    fn failure(&self) -> Option<SinkFailure> {
        lock(&self.state).failure.clone()
    }

    fn finish(&self, _ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure> {
        let output = |message: &str| Err(SinkFailure::Output(message.to_owned()));
        let state = lock(&self.state);
        match (&state.failure, &state.end) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(end)) if state.is_whole() => {
                let expected = end.digest.as_ref().map(entry::digest_to_store);
                if expected == Some(state.digest.finish(end.bytes)) {
                    Ok(FinishReport::default())
                } else {
                    output("the digest of the written data differs from the source's")
                }
            }
            (None, None) if self.dry_run && self.planned.load(Ordering::Relaxed) => {
                Ok(FinishReport::default())
            }
            (None, _) => output("the source gave nothing that could be written"),
        }
    }

    fn suspend(&self) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
    }

    fn display_path(&self, _root: u16, path: &[u8]) -> Vec<u8> {
        [b"-".as_slice(), path].concat()
    }
}

fn closed(error: &std::io::Error, at: u64) -> SinkFailure {
    SinkFailure::Output(if error.kind() == std::io::ErrorKind::BrokenPipe {
        format!("the reader of standard output has gone away after about {at} bytes")
    } else {
        format!("standard output cannot be written: {error}")
    })
}

#[cfg(test)]
mod tests {
    use godwit_proto::TransferId;

    use super::*;
    use godwit_engine::Observer;

    struct Deaf;

    impl Observer for Deaf {
        fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
    }

    struct Panicking;

    impl Write for Panicking {
        fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
            panic!("on purpose");
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_of_one_byte_that_wait_take_bounded_memory() {
        let counters = Arc::new(Counters::default());
        let acks = Acks::new(TransferId([1; 16]), Arc::new(Deaf), Arc::clone(&counters));
        let kind = DigestKind::Crc64Nvme;
        let most = 100 * PART_BYTES;
        let out = Box::new(std::io::sink());
        let sink = PipeSink::start(out, kind, most, false, Arc::new(acks), counters).unwrap();
        let record = Record {
            kind: EntryKind::FILE,
            bytes: 100_000,
            ..Record::default()
        };
        let digest = godwit_store::digest::digest_slice(kind, 1, record.bytes, b"x");
        // The first byte never comes.
        for offset in 1..1_000 {
            sink.add(Seq(offset), &record, offset, b"x", digest);
        }
        let count = lock(&sink.state).waiting.len();
        assert!((50..=100).contains(&count), "{count}");
        sink.suspend();
    }

    #[test]
    fn a_writer_that_panics_ends_the_transfer() {
        let counters = Arc::new(Counters::default());
        let acks = Acks::new(TransferId([1; 16]), Arc::new(Deaf), Arc::clone(&counters));
        let kind = DigestKind::Crc64Nvme;
        let out = Box::new(Panicking);
        let sink = PipeSink::start(out, kind, 1 << 20, false, Arc::new(acks), counters).unwrap();
        let record = Record {
            kind: EntryKind::FILE,
            bytes: 100,
            ..Record::default()
        };
        let digest = godwit_store::digest::digest_slice(kind, 0, 100, &[7; 10]);
        sink.add(Seq(1), &record, 0, &[7; 10], digest);
        let mut state = lock(&sink.state);
        while state.failure.is_none() {
            state = sink.changed.wait(state).unwrap();
        }
        drop(state);
        assert_eq!(sink.failure(), Some(SinkFailure::Panicked));
    }
}
