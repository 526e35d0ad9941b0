//! Reads for a sender: the pool of blocks, the threads that read ahead, and their number. Does not choose the data to read;
//! the state does.
//!
//! There are no reading threads until the tuner finds that streams wait for storage. Therefore the parallelism of storage and
//! of the network change independently while a transfer runs.

mod bundle;
mod changed;
mod digests;
mod piece;
mod slice;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_store::pool::{Block, Pool};

use self::piece::PieceReader;
use super::shared::Shared;
use super::state::Piece;
use crate::counters::CpuMeter;
use crate::courtesy::Courtesy;
use crate::lock;
use crate::tuner::StageSample;

/// Fewest blocks in the pool.
const BLOCKS_MIN: usize = 4;

pub(super) struct Readers {
    shared: Arc<Shared>,
    pool: Pool,
    reader: PieceReader,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let block_bytes = shared.config.block_bytes as usize;
        let blocks = (shared.config.pool_bytes / block_bytes).max(BLOCKS_MIN);
        Self {
            pool: shared.live.make_pool(block_bytes, blocks),
            reader: PieceReader {
                shared: Arc::clone(&shared),
            },
            shared,
            threads: Mutex::default(),
        }
    }

    /// Starts the requested number of threads; the tuner may change it later.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn begin(self: &Arc<Self>) -> std::io::Result<()> {
        let shared = &self.shared;
        self.set_count(shared.live.readers())?;
        if let Some(decision) = shared.live.begin_readers()
            && shared.source.reads_again()
        {
            shared.decided.decide(&decision, &*shared.config.observer);
        }
        Ok(())
    }

    /// Changes the number of threads that read ahead of the streams.
    ///
    /// # Errors
    /// A thread cannot be started; fewer run than requested.
    pub(super) fn set_count(self: &Arc<Self>, count: usize) -> std::io::Result<()> {
        // Data that can be read only once is read in order, and perhaps slowly, so a single dedicated thread reads it.
        let count = if self.shared.source.reads_again() {
            count
        } else {
            1
        };
        self.shared.live.store_readers(count);
        let count = self.shared.live.readers();
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        for index in 0..count {
            let name = format!("gw-read-{index}");
            if !threads
                .iter()
                .any(|thread| thread.thread().name() == Some(&name))
            {
                let reader = Arc::clone(self);
                threads.push(
                    std::thread::Builder::new()
                        .name(name)
                        .spawn(move || reader.read_ahead(index))?,
                );
            }
        }
        // A reader that saw the old number is waiting once this lock is taken, so it receives the notification.
        drop(self.shared.lock_state());
        self.shared.notify();
        Ok(())
    }

    /// Tunes the number of threads that read ahead; call some times a second. A fixed number stays unchanged, and data that
    /// can be read only once has its own reader.
    pub(super) fn tune(self: &Arc<Self>) {
        self.shared.live.fit_pool();
        if !self.shared.source.reads_again() || self.shared.is_over() {
            return;
        }
        if self.shared.live.take_helpers() {
            // If no further thread can be started, the existing ones continue.
            let _ = self.set_count(self.shared.live.helpers_wanted());
        }
        let own = self.shared.counters.snapshot();
        // If there are readers, an idle stream waits for them.
        let starved = if self.shared.live.readers() > 0 {
            own.starved_ns
        } else {
            0
        };
        let sample = StageSample {
            streams: u32::try_from(own.streams).unwrap_or(u32::MAX),
            bytes: own.bytes_read,
            storage: Duration::from_nanos(own.reading_ns + starved),
            processor: Duration::from_nanos(own.cpu_ns + own.cpu_waiting_ns),
        };
        let decided = self
            .shared
            .live
            .tune_readers(Duration::from_nanos(own.elapsed_ns), &sample);
        if let Some(decision) = decided
            && self.set_count(decision.to as usize).is_ok()
        {
            self.shared
                .decided
                .decide(&decision, &*self.shared.config.observer);
        }
    }

    /// Takes a block of the pool, if one is free.
    pub(super) fn try_take_block(&self) -> Option<Block> {
        self.pool.try_take()
    }

    /// Reads a piece on the calling thread. While a large hole is hashed, `stop` is called now and then; once it
    /// returns true, the piece is dropped.
    pub(super) fn read(&self, piece: Piece, block: Block, stop: &dyn Fn() -> bool) {
        self.reader.read(piece, block, stop);
    }

    /// Ends every wait for a block, now and later.
    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Waits until all threads have stopped.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // If a thread panicked, the panic was already printed; the transfer's end does not depend on it.
            let _ = thread.join();
        }
    }

    /// Main function of a thread that reads ahead, with its `index` among the allowed threads.
    fn read_ahead(&self, index: usize) {
        let _panic = self.shared.if_panicking();
        let mut courtesy = Courtesy::default();
        courtesy.follow(&self.shared.live);
        let mut meter = CpuMeter::default();
        while let Some(piece) = self.wait_for_piece(index) {
            courtesy.follow(&self.shared.live);
            let Some(block) = self.pool.take() else { break };
            self.shared
                .counters
                .helping_ns
                .time(|| self.read(piece, block, &|| self.shared.is_over()));
            meter.settle(&self.shared.counters);
        }
    }

    fn wait_for_piece(&self, index: usize) -> Option<Piece> {
        // Streams are numbered from 0 upwards, these readers from the maximum downwards.
        let reader = u64::MAX - index as u64;
        let mut state = self.shared.lock_state();
        loop {
            if state.end.is_some() || index >= self.shared.live.readers() {
                state.files.let_go(reader);
                return None;
            }
            let now = Instant::now();
            state.again.take_rested(now);
            // At most half of the pool waits for streams; the rest is for blocks being sent and for unacknowledged ones.
            if state.items.ready_blocks() * 2 <= self.pool.counters().blocks_max
                && let Some(piece) = state.next_piece(reader, self.shared.config.block_bytes)
            {
                return Some(piece);
            }
            let left = state.again.rest_left(now);
            state = self.shared.wait_for_change(state, left);
        }
    }
}
