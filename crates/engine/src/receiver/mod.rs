//! The receiving end of a transfer: answers manifests, checks what arrives, gives it to the sink, acknowledges it.
//! Does not dial, and does not know where the sink puts things.

mod answer;
mod answers;
mod finish;
mod leave;
mod parts;
mod stream;
mod turns;
mod write;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use godwit_net::{Stream, Waker};
use godwit_proto::{Comparison, DigestKind, ErrorCode, Finished, Status, TransferId};
use godwit_store::digest;
use godwit_store::pool::Pool;

use self::answer::CheckQueue;
use self::answers::Answers;
use self::turns::Turns;
use self::write::{Job, WriteQueue};
use crate::counters::{self, Snapshot};
use crate::decided::Decided;
use crate::names::NameFeed;
use crate::sink::MakeSink;
use crate::{
    Acks, Counters, End, IfPanicking, Live, Observer, PANICKED, Resources, Sink, StreamFigures,
    StreamLoss, entry, limits, lock,
};

/// What a receiver is told at its beginning.
pub struct ReceiverConfig {
    /// Number of the transfer.
    pub transfer: TransferId,
    /// Digest of blocks and files.
    pub digest: DigestKind,
    /// Largest block that may come.
    pub block_bytes: u32,
    /// Is told of entries that fail.
    pub observer: Arc<dyn Observer>,
    /// Tells the memory used, for the summary of the other end.
    pub resources: Resources,
    /// What was asked of the comparison, if anything.
    pub comparison: Option<Comparison>,
    /// Whether the observer is told what was decided about every entry.
    pub itemise: bool,
}

/// The receiving end of one transfer.
pub struct Receiver {
    config: ReceiverConfig,
    digest: digest::DigestKind,
    sink: Arc<dyn Sink>,
    acks: Arc<Acks>,
    pub(crate) live: Arc<Live>,
    counters: Arc<Counters>,
    pool: Pool,
    queue: WriteQueue,
    answers: Answers,
    turns: Turns<Job>,
    checks: CheckQueue,
    feed: OnceLock<Arc<NameFeed>>,
    state: Mutex<State>,
    changed: Condvar,
    finishing: Mutex<Option<Finished>>,
    /// Frames of notices, to be said again.
    said: Mutex<Vec<Vec<u8>>>,
    peer: Mutex<Option<Snapshot>>,
    decided: Decided,
    peer_max_rss: Mutex<Option<u64>>,
    /// The sender has blocks that no stream there is may carry.
    peer_wants_stream: AtomicBool,
    /// Content bytes of all entries, once the sender has found them all.
    announced: Mutex<Option<u64>>,
    status_due: Mutex<Instant>,
    digest_failures: AtomicU64,
    limit: Mutex<AskedLimit>,
    comes_once: AtomicBool,
}

/// A limit that the sender is asked for.
#[derive(Default)]
struct AskedLimit {
    wanted: Option<u64>,
    said: Option<Instant>,
}

#[derive(Default)]
struct State {
    next_stream: u64,
    streams: HashMap<u64, Waker>,
    /// Streams that the sender is to be asked to end.
    retiring: Vec<u64>,
    /// Threads that are in the sink.
    writing: usize,
    /// How often the sender was asked whether it is there, and to which of those it has answered.
    asked: u64,
    answered: u64,
    end: Option<End>,
}

/// A thread that is in the sink.
struct Writing<'a>(&'a Receiver);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.writing -= 1;
        if state.writing == 0 && state.end.is_some() {
            self.0.changed.notify_all();
        }
    }
}

impl Receiver {
    /// Begins; `make_sink` is given the outbox through which the sink acknowledges.
    ///
    /// # Errors
    /// The digest is one that this program does not know, the sink cannot be made, or a thread cannot be started.
    pub fn start(
        config: ReceiverConfig,
        make_sink: Box<MakeSink<'_>>,
        live: Arc<Live>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Arc<Self>> {
        let digest = crate::digest_kind(config.digest).ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::Unsupported, "unknown digest")
        })?;
        counters.cores.set(counters::cores());
        let acks = Arc::new(Acks::new(
            config.transfer,
            Arc::clone(&config.observer),
            Arc::clone(&counters),
        ));
        let sink = make_sink(Arc::clone(&acks))?;
        // One block for each stream and each writer.
        let blocks = limits::STREAMS_MAX as usize + live.writers_max();
        let pool = live.make_pool(config.block_bytes as usize, blocks);
        let receiver = Arc::new(Self {
            digest,
            sink,
            acks,
            pool,
            queue: WriteQueue::default(),
            answers: Answers::default(),
            turns: Turns::default(),
            checks: CheckQueue::default(),
            feed: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            finishing: Mutex::default(),
            said: Mutex::default(),
            peer: Mutex::default(),
            decided: Decided::default(),
            peer_max_rss: Mutex::default(),
            peer_wants_stream: AtomicBool::new(false),
            announced: Mutex::default(),
            status_due: Mutex::new(Instant::now()),
            digest_failures: AtomicU64::new(0),
            limit: Mutex::default(),
            comes_once: AtomicBool::new(false),
            config,
            live,
            counters,
        });
        receiver.set_writers(receiver.live.writers())?;
        if let Some(decision) = receiver.live.begin_writers() {
            let observer = &*receiver.config.observer;
            receiver.decided.decide(&decision, observer);
        }
        receiver.start_checkers()?;
        Ok(receiver)
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// What broke the stream. The transfer goes on with the others.
    pub fn run_stream(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let _panic = self.if_panicking();
        let id = {
            let mut state = lock(&self.state);
            state.next_stream += 1;
            let id = state.next_stream;
            state.streams.insert(id, stream.waker());
            id
        };
        self.acks.attach(id, stream.waker());
        self.counters.streams_attached.add(1);
        self.counters.table.attach(id, stream);
        let member = self.counters.channels.attach(stream);
        // After the thread was started that watches the channels: one that inherits a low priority sees late what is dead.
        self.begin_sharing();
        let (result, left) = self.stream_loop(id, stream);
        self.counters.table.detach(id, stream, &self.counters);
        // One that has left in order has said all, and been heard.
        if !left {
            self.acks.detach(id);
        }
        self.detach_parts(id);
        {
            let mut state = lock(&self.state);
            state.streams.remove(&id);
            state.retiring.retain(|other| *other != id);
        }
        self.changed.notify_all();
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

    /// Asks the sender, a daemon, for another limit, until it says that it obeys; 0 is none.
    pub fn ask_limit(&self, bytes_per_second: u64) {
        *lock(&self.limit) = AskedLimit {
            wanted: Some(bytes_per_second),
            said: None,
        };
        for waker in lock(&self.state).streams.values() {
            waker.wake();
        }
    }

    /// The limit that was asked for last, if one was.
    pub fn asked_limit(&self) -> Option<u64> {
        lock(&self.limit).wanted
    }

    /// A thread of this end that panics ends the transfer: others would wait for it.
    fn if_panicking(&self) -> IfPanicking<impl Fn() + '_> {
        IfPanicking(|| self.fail(ErrorCode::INTERNAL.0, PANICKED))
    }

    /// In the background the calling thread lets others go first.
    fn begin_sharing(&self) {
        if self.live.share().background {
            godwit_net::lower_thread();
        }
    }

    /// Number of streams attached now.
    pub fn stream_count(&self) -> usize {
        lock(&self.state).streams.len()
    }

    /// Asks the sender on each stream whether it is there; gives the question's number.
    pub fn ask_sender(&self) -> u64 {
        let mut state = lock(&self.state);
        state.asked += 1;
        for waker in state.streams.values() {
            waker.wake();
        }
        state.asked
    }

    /// Whether the sender has answered this question, or a later one. What it had sent before it was asked is no answer.
    pub fn sender_answered(&self, question: u64) -> bool {
        lock(&self.state).answered >= question
    }

    /// Whether the bytes of some file come from a pipe: no later run can send them again.
    pub fn comes_once(&self) -> bool {
        self.comes_once.load(Ordering::Relaxed)
    }

    /// The end, if it has come.
    pub fn end(&self) -> Option<End> {
        lock(&self.state).end.clone()
    }

    /// Waits for the end, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<End> {
        crate::wait_for_end(&self.state, &self.changed, timeout, |state| {
            state.end.as_ref()
        })
    }

    /// Gives up; what has arrived is kept for a later run once `join` is called.
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

    /// Stops the threads of this end; unless everything was finished, makes what has arrived ready for a later run.
    pub fn join(&self) {
        self.finish(End::Cancelled("the transfer ends".to_owned()));
        self.stop_parts();
        self.stop_writers();
        self.stop_checkers();
        let mut state = lock(&self.state);
        while state.writing > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(state);
        if lock(&self.finishing).is_none() {
            self.sink.suspend();
        }
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.config.observer
    }

    /// This end's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The other end's counters, as it last reported them.
    pub fn peer_counters(&self) -> Option<Snapshot> {
        *lock(&self.peer)
    }

    /// Peak memory of the sending process, where it could attribute it to this transfer.
    pub fn peer_max_rss(&self) -> Option<u64> {
        *lock(&self.peer_max_rss)
    }

    /// What this end has counted and decided.
    fn status(&self, counted: &Snapshot) -> Status {
        Status {
            tuned: self.decided.latest(),
            ..entry::status_from_snapshot(counted)
        }
    }

    /// What the sender has counted and decided. One stream may bring later news than another that comes after it.
    fn take_peer(&self, status: &Status, announced: Option<u64>) {
        self.decided.hear(&status.tuned, &*self.config.observer);
        let told = entry::snapshot_from_status(status);
        let mut peer = lock(&self.peer);
        if peer.is_none_or(|known| known.elapsed_ns <= told.elapsed_ns) {
            *peer = Some(told);
            *lock(&self.announced) = announced;
        }
    }

    /// Whether the sender has blocks that no stream there is may carry.
    pub fn wants_stream(&self) -> bool {
        self.peer_wants_stream.load(Ordering::Relaxed)
    }

    /// Content bytes of all entries, once the sender has found them all.
    pub fn bytes_announced(&self) -> Option<u64> {
        *lock(&self.announced)
    }

    /// Leave to write until the result is dropped; none after the end, when the destination may soon be another's.
    fn begin_write(&self) -> Option<Writing<'_>> {
        let mut state = lock(&self.state);
        if state.end.is_some() {
            return None;
        }
        state.writing += 1;
        Some(Writing(self))
    }

    fn finish(&self, end: End) {
        let mut state = lock(&self.state);
        let State {
            end: ended,
            streams,
            ..
        } = &mut *state;
        let end = ended.get_or_insert(end);
        for waker in streams.values() {
            end.tell(waker);
        }
        self.acks.end();
        drop(state);
        self.changed.notify_all();
    }
}
