//! The sending end of a transfer: announces entries, reads what is wanted, sends it, keeps it until it is durable.
//! Does not dial, and does not know whether it is the client's end or the daemon's.

mod anew;
mod answer;
mod digests;
mod done;
mod failures;
mod large;
mod leave;
mod pace;
mod parts;
mod read;
mod say;
mod scan;
mod state;
mod step;
mod stream;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError};
use godwit_proto::{Comparison, DigestKind, ErrorCode, TransferId};
use godwit_store::digest;
use godwit_store::pool::Pool;

use self::state::State;
use crate::counters::{self, Snapshot};
use crate::decided::Decided;
use crate::last_words::last_words;
use crate::names::NameQueue;
use crate::tuner::StageSample;
use crate::{
    Counters, End, IfPanicking, Live, Observer, PANICKED, Resources, Source, StreamFigures,
    StreamLoss, Work, limits, lock,
};

/// What a sender is told at its beginning.
pub struct SenderConfig {
    /// Number of the transfer, given by the side that accepted it.
    pub transfer: TransferId,
    /// Digest of blocks and files.
    pub digest: DigestKind,
    /// Size of a block, a power of two.
    pub block_bytes: u32,
    /// Memory for blocks.
    pub pool_bytes: usize,
    /// Is told of entries that fail.
    pub observer: Arc<dyn Observer>,
    /// Tells the memory used, for the summary of the other end.
    pub resources: Resources,
    /// Names of the roots as the user knows them, for messages.
    pub root_names: Vec<Vec<u8>>,
    /// What was asked of the comparison with the destination, if anything.
    pub comparison: Option<Comparison>,
    /// Whether the observer is told what was decided about every entry.
    pub itemise: bool,
}

/// The sending end of one transfer.
pub struct Sender {
    config: SenderConfig,
    digest: digest::DigestKind,
    source: Arc<dyn Source>,
    live: Arc<Live>,
    counters: Arc<Counters>,
    pool: Pool,
    state: Mutex<State>,
    /// Work or windows have changed, for threads that scan or read ahead.
    changed: Condvar,
    /// How many of those threads wait: without any, nobody needs a system call to be told.
    waiting: AtomicUsize,
    /// The end has come.
    ended: Condvar,
    /// Where the parts of a list go that the other end streams.
    names: OnceLock<Arc<NameQueue>>,
    peer: Mutex<Option<Snapshot>>,
    decided: Decided,
    status_due: Mutex<Instant>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Paths of entries that are done with, for the memory of the next ones.
    used_paths: Mutex<Vec<Vec<u8>>>,
    /// The number that was given to an entry last.
    last_entry: AtomicU64,
    /// The end has come, for those who must not wait for the state's lock.
    over: AtomicBool,
    /// The client at the other end may change the limit.
    obeys_limits: AtomicBool,
}

impl Sender {
    /// Begins: the scan runs from now on; blocks go out as soon as a stream is attached.
    ///
    /// # Errors
    /// The digest is one that this program does not know, or a thread cannot be started.
    pub fn start(
        config: SenderConfig,
        work: Box<dyn Work>,
        source: Arc<dyn Source>,
        live: Arc<Live>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>, std::io::Error> {
        let digest = crate::digest_kind(config.digest).ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::Unsupported, "unknown digest")
        })?;
        counters.cores.set(counters::cores());
        let blocks = (config.pool_bytes / config.block_bytes as usize).max(4);
        let sender = Arc::new(Self {
            digest,
            live,
            counters,
            pool: Pool::new(config.block_bytes as usize, blocks),
            state: Mutex::new(State::new(source.reads_apart())),
            source,
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            ended: Condvar::new(),
            names: OnceLock::new(),
            peer: Mutex::default(),
            decided: Decided::default(),
            status_due: Mutex::new(Instant::now() + limits::STATUS_EVERY),
            threads: Mutex::default(),
            used_paths: Mutex::default(),
            last_entry: AtomicU64::new(0),
            over: AtomicBool::new(false),
            obeys_limits: AtomicBool::new(false),
            config,
        });
        let scanner = Arc::clone(&sender);
        let thread = std::thread::Builder::new()
            .name("gw-scan".to_owned())
            .spawn(move || scanner.scan(work))?;
        lock(&sender.threads).push(thread);
        sender.set_readers(sender.live.readers())?;
        if let Some(decision) = sender.live.begin_readers()
            && sender.source.reads_again()
        {
            sender.decided.decide(&decision, &*sender.config.observer);
        }
        sender.keep_pace()?;
        Ok(sender)
    }

    /// Changes the number of threads that read ahead of the streams.
    ///
    /// # Errors
    /// A thread cannot be started; fewer run than asked for.
    pub fn set_readers(self: &Arc<Self>, count: usize) -> std::io::Result<()> {
        // Bytes that come once come in order, and perhaps slowly: to one thread that has nothing else to do.
        let count = if self.source.reads_again() { count } else { 1 };
        self.live.store_readers(count);
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
        // A reader that has just looked at the old number waits by the time the lock is had, and is told.
        drop(self.lock_state());
        self.notify();
        Ok(())
    }

    /// Has the tuner look at the number of threads that read ahead; to be called some times a second. It changes nothing if
    /// the number was given, and has nobody read ahead of bytes that come once.
    pub fn tune(self: &Arc<Self>) {
        if !self.source.reads_again() || self.is_over() {
            return;
        }
        let own = self.counters.snapshot();
        // With readers, a stream without anything to send waits for them.
        let starved = if self.live.readers() > 0 {
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
            .live
            .tune_readers(Duration::from_nanos(own.elapsed_ns), &sample);
        if let Some(decision) = decided
            && self.set_readers(decision.to as usize).is_ok()
        {
            self.decided.decide(&decision, &*self.config.observer);
        }
    }

    /// Puts the parts of a list that the other end streams into `queue`. To be called once, before any stream is attached; without
    /// it such parts break the rules.
    pub fn take_names(&self, queue: Arc<NameQueue>) {
        // A second queue would have nobody who fills it.
        let _ = self.names.set(queue);
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// What broke the stream. The transfer goes on with the others.
    pub fn run_stream(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let _panic = self.if_panicking();
        let share = self.live.share();
        stream.share(&share.congestion, share.background)?;
        let id = self
            .lock_state()
            .attach(stream.waker(), stream.carries_blocks());
        self.counters.streams_attached.add(1);
        self.counters.table.attach(id, stream);
        let member = self.counters.channels.attach(stream);
        // After the thread was started that watches the channels: one that inherits a low priority sees late what is dead.
        self.begin_sharing();
        let result = match self.stream_loop(id, stream) {
            // There was no room for the last word.
            Err(StreamLoss::Stream(StreamError::Ended { .. })) => {
                stream.shutdown();
                Ok(())
            }
            Err(loss) if self.end().is_none() => match last_words(stream, &loss) {
                Some(end) => {
                    self.finish(end);
                    Ok(())
                }
                None => Err(loss),
            },
            other => other,
        };
        if let Some(names) = self.names.get() {
            names.say_again();
        }
        self.counters.table.detach(id, stream, &self.counters);
        self.lock_state().detach(id);
        self.tell_unnamed();
        let result = self.counters.channels.detach(member, result);
        if result.is_err() {
            self.counters.streams_lost.add(1);
        }
        result
    }

    /// The streams attached now, one by one.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.counters.streams()
    }

    /// Number of streams attached now.
    pub fn stream_count(&self) -> usize {
        self.lock_state().streams.len()
    }

    /// Whether there are blocks that no stream there is may carry.
    pub fn wants_stream(&self) -> bool {
        self.lock_state().wants_stream
    }

    /// The end, if it has come.
    pub fn end(&self) -> Option<End> {
        self.lock_state().end.clone()
    }

    /// Lets the other end, which is the client, change the limit while the transfer runs. Without it nobody but this side does.
    pub fn obey_limits(&self) {
        self.obeys_limits.store(true, Ordering::Relaxed);
    }

    /// In the background the calling thread lets others go first.
    fn begin_sharing(&self) {
        if self.live.share().background {
            godwit_net::lower_thread();
        }
    }

    /// Waits for the end, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<End> {
        crate::wait_for_end(&self.state, &self.ended, timeout, |state| {
            state.end.as_ref()
        })
    }

    /// Gives up. Streams say so to the other end before they close.
    pub fn cancel(&self, reason: &str) {
        self.finish(End::Cancelled(reason.to_owned()));
    }

    /// Ends with a failure.
    pub fn fail(&self, code: u32, message: &str) {
        self.finish(End::Failed {
            code,
            message: message.to_owned(),
            retryable: false,
        });
    }

    /// Waits until all threads of this end have stopped; call after the end has come.
    pub fn join(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.pool.close();
        self.notify();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A panic of one of them has been printed; the transfer's end does not depend on it.
            let _ = thread.join();
        }
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.config.observer
    }

    /// What may be changed while it runs.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// This end's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The other end's counters, as it last reported them.
    pub fn peer_counters(&self) -> Option<Snapshot> {
        *lock(&self.peer)
    }

    /// Whether the scan is over, so that the totals scanned are final.
    pub fn scan_done(&self) -> bool {
        self.lock_state().scan_done
    }

    /// A thread of this end that panics ends the transfer: others would wait for it.
    fn if_panicking(&self) -> IfPanicking<impl Fn() + '_> {
        IfPanicking(|| self.fail(ErrorCode::INTERNAL.0, PANICKED))
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn finish(&self, end: End) {
        self.source.close();
        if let End::Finished(finished) = &end {
            // The receiver knows which of it became part of an entry that failed.
            let durable = &self.counters.bytes_durable;
            durable.take_back(durable.get().saturating_sub(finished.bytes));
            self.counters.files_done.set(finished.files);
        }
        self.over.store(true, Ordering::Relaxed);
        self.lock_state().finish(end);
        self.notify();
        self.ended.notify_all();
    }

    /// Tells threads that scan or read ahead that something has changed. They count themselves under the state's lock, so
    /// whoever changes the state under it and calls this afterwards misses none.
    fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for a change of the state.
    fn wait_for_change<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let state = self
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        state
    }

    fn is_dry(&self) -> bool {
        self.config
            .comparison
            .is_some_and(|comparison| comparison.dry_run)
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn display(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let mut name = self
            .config
            .root_names
            .get(usize::from(root))
            .cloned()
            .unwrap_or_default();
        if !path.is_empty() {
            if !name.is_empty() && !name.ends_with(b"/") {
                name.push(b'/');
            }
            name.extend_from_slice(path);
        }
        name
    }

    /// Records in a window, for the scan.
    fn scan_may_go_on(state: &State) -> bool {
        state.unanswered < limits::UNANSWERED_RECORDS_MAX
            && state.wanted() < limits::WANTED_RECORDS_MAX
            && state.extensions_held() < limits::EXTENSIONS_HELD_BYTES_MAX
            && state.notices.len() < limits::NOTICES_MAX
    }
}
