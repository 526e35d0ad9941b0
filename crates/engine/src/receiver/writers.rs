//! Checks a block's digest and passes it to the sink, on the stream's thread or on a writer's. Does not receive
//! blocks or acknowledge durability.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_net::Stream;
use godwit_proto::{
    Block as WireBlock, BlockKind, EntryKind, ErrorCode, Fault, Record, RecordFlags, Seq, block,
};
use godwit_store::digest;
use godwit_store::pool::{Block, Pool};

use super::shared::Shared;
use super::turns::Turns;
use crate::acks::Arrival;
use crate::counters::CpuMeter;
use crate::courtesy::Courtesy;
use crate::sink::Slice;
use crate::tuner::StageSample;
use crate::{End, StreamLoss, entry, limits, lock};

/// An arrived block: its head and its contents.
type Job = (WireBlock, Block);

/// Blocks that wait for a writer; there are never more than idle writers.
#[derive(Default)]
struct WriteQueue {
    inner: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    stopping: bool,
    threads: Vec<JoinHandle<()>>,
}

/// Checks blocks and writes them.
pub(super) struct Writers {
    shared: Arc<Shared>,
    /// One block for each stream and each writer.
    pool: Pool,
    queue: WriteQueue,
    turns: Turns<Job>,
    digest_failures: AtomicU64,
}

impl Writers {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let blocks = limits::STREAMS_MAX as usize + shared.live.writers_max();
        let block_bytes = shared.config.block_bytes as usize;
        Self {
            pool: shared.live.make_pool(block_bytes, blocks),
            shared,
            queue: WriteQueue::default(),
            turns: Turns::default(),
            digest_failures: AtomicU64::new(0),
        }
    }

    /// Starts the requested number of threads; the tuner may change it later.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn begin(self: &Arc<Self>) -> std::io::Result<()> {
        let shared = &self.shared;
        self.set_count(shared.live.writers())?;
        if let Some(decision) = shared.live.begin_writers() {
            shared.decided.decide(&decision, &*shared.config.observer);
        }
        Ok(())
    }

    pub(super) fn take_block(
        &self,
        stream: &mut dyn Stream,
        wire: WireBlock,
    ) -> Result<(), StreamLoss> {
        let bytes = wire.header.payload_bytes as usize;
        let start = Instant::now();
        let Some(mut block) = self.pool.take_overdue(limits::PING_EVERY) else {
            return Ok(());
        };
        if bytes > block.len() {
            let what = format!("a block of {bytes} bytes, but {} were agreed", block.len());
            return Err(self.shared.refuse(stream, what));
        }
        if !matches!(wire.header.kind, BlockKind::SLICE | BlockKind::BUNDLE) {
            let what = format!("a block of the unknown kind {}", wire.header.kind.0);
            return Err(self.shared.refuse(stream, what));
        }
        // A block counts as received only once it is complete: this stream may break, and another stream may send
        // the block again.
        stream.recv_payload(&mut block[..bytes])?;
        let arrival = self.shared.acks.arrive(wire.header.seq);
        self.shared.counters.receiving_ns.add_since(start);
        self.shared.counters.bytes_received.add(bytes as u64);
        match arrival {
            Arrival::Process => {}
            Arrival::Known => return Ok(()),
            Arrival::Scattered => return Err(self.shared.refuse(stream, scattered())),
        }
        if let Some((wire, block)) = self.queue.offer(wire, block) {
            let _working = self.shared.acks.work();
            self.check_and_write(wire, block);
        }
        Ok(())
    }

    /// Checks one block and writes it, or hands it to the thread that writes to its entry; then writes blocks that
    /// others handed over.
    fn check_and_write(&self, wire: WireBlock, block: Block) {
        let Some(_busy) = self.shared.begin_write() else {
            return;
        };
        let start = Instant::now();
        let payload = payload_of(&wire, &block);
        if wire.header.kind == BlockKind::BUNDLE {
            let contents = split_bundle(&wire, payload);
            if self.accept(&wire, payload, &contents) {
                self.write_bundle(&wire, payload, &contents);
            }
        } else if self.accept(&wire, payload, &[]) {
            if self.shared.sink.one_writer_an_entry() {
                let entry = wire.header.entry;
                self.turns.run(entry, (wire, block), |(wire, block)| {
                    self.write_slice(&wire, payload_of(&wire, &block));
                });
            } else {
                self.write_slice(&wire, payload);
            }
        }
        self.shared.counters.writing_ns.add_since(start);
    }

    /// Whether the digests of a block are right; a wrong block is requested again.
    fn accept(&self, wire: &WireBlock, payload: &[u8], contents: &[&[u8]]) -> bool {
        let matched = self
            .shared
            .counters
            .digesting_ns
            .time(|| self.digests_match(wire, payload, contents));
        if !matched {
            self.shared.counters.digest_failures.add(1);
            if self.digest_failures.fetch_add(1, Ordering::Relaxed) >= limits::DIGEST_FAILURES_MAX {
                self.shared.finish(End::Failed {
                    code: ErrorCode::DAMAGED,
                    message: format!(
                        "{} blocks arrived damaged; memory or network hardware may be faulty",
                        limits::DIGEST_FAILURES_MAX + 1
                    ),
                    retryable: false,
                });
            }
            self.shared.acks.rejected(wire.header.seq);
            return false;
        }
        true
    }

    /// Passes one slice to the sink and acknowledges it.
    fn write_slice(&self, wire: &WireBlock, payload: &[u8]) {
        let seq = wire.header.seq;
        if let Some(record) = wire.records.first() {
            self.shared.counters.current.note(record);
            let slice = Slice {
                header: &wire.header,
                record,
                ranges: &wire.ranges,
                payload,
            };
            let written = self
                .shared
                .counters
                .storage_writing_ns
                .time(|| self.shared.sink.write_slice(&slice));
            if let Err(fault) = written {
                self.report(seq, fault, record);
            }
        }
        self.written(seq, payload);
    }

    /// Passes one bundle to the sink and acknowledges it.
    fn write_bundle(&self, wire: &WireBlock, payload: &[u8], contents: &[&[u8]]) {
        let seq = wire.header.seq;
        for record in wire
            .records
            .iter()
            .filter(|record| record.flags & RecordFlags::SOURCE_FAILED != 0)
        {
            // If a batch could not be synced, it is sent again, including the entries that failed.
            if !self.shared.acks.count_failure(record.id) {
                continue;
            }
            let invalid_name = entry::invalid_name(record);
            if record.path.is_empty() && invalid_name.is_none() {
                self.shared.counters.sources_failed.add(1);
            }
            let mut shown = self.shared.sink.display_path(record.root, &record.path);
            if let Some(name) = invalid_name {
                if !shown.is_empty() && !shown.ends_with(b"/") {
                    shown.push(b'/');
                }
                shown.extend_from_slice(name);
            }
            self.shared
                .config
                .observer
                .entry_failed(&crate::FailedEntry {
                    root: Some(record.root),
                    path: invalid_name.unwrap_or(&record.path),
                    shown: &shown,
                    fault: &entry::fault_of(record),
                });
        }
        let is_file = |record: &&Record| record.kind == EntryKind::FILE;
        if let Some(record) = wire.records.iter().find(is_file) {
            self.shared.counters.current.note(record);
        }
        let faults = self
            .shared
            .counters
            .storage_writing_ns
            .time(|| self.shared.sink.write_bundle(seq, &wire.records, contents));
        for fault in faults {
            if let Some(record) = wire.records.iter().find(|record| record.id == fault.entry) {
                self.report(seq, fault, record);
            }
        }
        self.written(seq, payload);
    }

    fn written(&self, seq: Seq, payload: &[u8]) {
        self.shared.counters.bytes_written.add(payload.len() as u64);
        self.shared.acks.written(seq);
    }

    fn report(&self, seq: Seq, fault: Fault, record: &Record) {
        let shown = self.shared.sink.display_path(record.root, &record.path);
        self.shared
            .acks
            .fault(seq, fault, record.root, &record.path, &shown);
    }

    fn digests_match(&self, wire: &WireBlock, payload: &[u8], contents: &[&[u8]]) -> bool {
        let header = &wire.header;
        if header.digest_kind != self.shared.config.digest {
            return false;
        }
        if header.kind == BlockKind::SLICE {
            let digest = if header.flags & block::SPARSE == 0 {
                digest::digest_slice(
                    self.shared.digest,
                    header.offset,
                    header.entry_bytes,
                    payload,
                )
            } else {
                let mut rest = payload;
                let mut pieces = Vec::with_capacity(wire.ranges.len());
                for range in &wire.ranges {
                    let (piece, tail) = rest.split_at(
                        usize::try_from(range.bytes)
                            .unwrap_or(usize::MAX)
                            .min(rest.len()),
                    );
                    pieces.push((range.offset, piece));
                    rest = tail;
                }
                digest::digest_sparse_slice(
                    self.shared.digest,
                    header.offset,
                    u64::from(header.length),
                    header.entry_bytes,
                    &pieces,
                )
            };
            return entry::digest_to_wire(&digest) == header.digest;
        }
        wire.records.iter().zip(contents).all(|(record, bytes)| {
            !entry::is_whole_file(record)
                || record.digest.is_some_and(|expected| {
                    entry::digest_to_wire(&digest::digest_slice(
                        self.shared.digest,
                        0,
                        record.bytes,
                        bytes,
                    )) == expected
                })
        })
    }

    /// Tunes the number of writing threads; call some times a second. A fixed number stays unchanged.
    pub(super) fn tune(self: &Arc<Self>) {
        self.shared.live.fit_pool();
        if self.shared.end().is_some() {
            return;
        }
        if self.shared.live.take_helpers() {
            // If no further thread can be started, the existing ones continue.
            let _ = self.set_count(self.shared.live.helpers_wanted());
        }
        let own = self.shared.counters.snapshot();
        let sample = StageSample {
            streams: u32::try_from(own.streams).unwrap_or(u32::MAX),
            bytes: own.bytes_received,
            storage: Duration::from_nanos(own.writing_ns),
            processor: Duration::from_nanos(own.cpu_ns + own.cpu_waiting_ns),
        };
        let decided = self
            .shared
            .live
            .tune_writers(Duration::from_nanos(own.elapsed_ns), &sample);
        if let Some(decision) = decided
            && self.set_count(decision.to as usize).is_ok()
        {
            self.shared
                .decided
                .decide(&decision, &*self.shared.config.observer);
        }
    }

    /// Changes the number of threads that write for the streams; if all writers are busy, a stream writes itself.
    ///
    /// # Errors
    /// A thread cannot be started; fewer run than requested.
    pub(super) fn set_count(self: &Arc<Self>, count: usize) -> std::io::Result<()> {
        self.shared.live.store_writers(count);
        let count = self.shared.live.writers();
        let mut queue = lock(&self.queue.inner);
        queue.threads.retain(|thread| !thread.is_finished());
        for index in 0..count {
            let name = format!("gw-write-{index}");
            if !queue
                .threads
                .iter()
                .any(|thread| thread.thread().name() == Some(&name))
            {
                let writer = Arc::clone(self);
                queue.threads.push(
                    std::thread::Builder::new()
                        .name(name)
                        .spawn(move || writer.write_jobs(index))?,
                );
            }
        }
        drop(queue);
        self.queue.changed.notify_all();
        Ok(())
    }

    fn write_jobs(&self, index: usize) {
        let _panic = self.shared.if_panicking();
        let mut courtesy = Courtesy::default();
        let mut meter = CpuMeter::default();
        loop {
            let mut queue = lock(&self.queue.inner);
            queue.idle += 1;
            let job = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break Some(job);
                }
                if queue.stopping || index >= self.shared.live.writers() {
                    break None;
                }
                queue = self
                    .queue
                    .changed
                    .wait(queue)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            };
            queue.idle -= 1;
            drop(queue);
            let Some((wire, block)) = job else { return };
            courtesy.follow(&self.shared.live);
            self.shared
                .counters
                .helping_ns
                .time(|| self.check_and_write(wire, block));
            meter.settle(&self.shared.counters);
        }
    }

    /// Stops the threads, and waits for them.
    pub(super) fn stop(&self) {
        let threads = {
            let mut queue = lock(&self.queue.inner);
            queue.stopping = true;
            std::mem::take(&mut queue.threads)
        };
        self.queue.changed.notify_all();
        for thread in threads {
            // A thread's panic was already printed, and has ended the transfer.
            let _ = thread.join();
        }
    }
}

impl WriteQueue {
    /// Hands a block to an idle writer, or returns it.
    fn offer(&self, wire: WireBlock, block: Block) -> Option<Job> {
        let mut queue = lock(&self.inner);
        if queue.idle <= queue.jobs.len() {
            return Some((wire, block));
        }
        queue.jobs.push_back((wire, block));
        drop(queue);
        self.changed.notify_one();
        None
    }
}

pub(super) fn scattered() -> String {
    format!(
        "the numbers of its items have more than {} gaps",
        limits::ITEM_RANGES_MAX
    )
}

fn payload_of<'a>(wire: &WireBlock, block: &'a Block) -> &'a [u8] {
    &block[..wire.header.payload_bytes as usize]
}

/// The contents of each record of a bundle. Decoding has ensured that the contents fill the payload.
fn split_bundle<'a>(wire: &WireBlock, payload: &'a [u8]) -> Vec<&'a [u8]> {
    let mut rest = payload;
    wire.records
        .iter()
        .map(|record| {
            if record.kind != EntryKind::FILE || !entry::is_whole_file(record) {
                return &[][..];
            }
            let (bytes, tail) = rest.split_at(
                usize::try_from(record.bytes)
                    .unwrap_or(usize::MAX)
                    .min(rest.len()),
            );
            rest = tail;
            bytes
        })
        .collect()
}
