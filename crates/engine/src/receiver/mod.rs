//! The receiving end of a transfer: answers manifests, checks arriving data, passes it to the sink, acknowledges it. Does not dial,
//! and does not know where the sink stores data.
//!
//! | part | work | own state |
//! | --- | --- | --- |
//! | [`Answerer`] | answers manifests, on separate threads if digests are compared | answers given, manifests that wait |
//! | [`Writers`] | check blocks and write them | pool, blocks that wait, threads that write, whose turn it is |
//! | [`Streams`] | listen, acknowledge, close the sink; one loop for each stream | the sender's reports, final frame, list of names |
//! | [`Shared`] | what the parts share | [`State`]: attached streams, threads in the sink, the end |
//!
//! Lock order: the final frame of `Streams`, then the state of `Shared`, then the outbox (`Acks`). All other locks are taken
//! alone.

mod answer;
mod answers;
mod closing;
mod peer;
mod sender_requests;
mod shared;
mod streams;
mod turns;
mod writers;

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use godwit_net::Stream;
use godwit_proto::{Comparison, DigestKind, ErrorCode, TransferId};

use self::answer::Answerer;
use self::sender_requests::SenderRequests;
use self::shared::{Shared, State};
use self::streams::Streams;
use self::writers::Writers;
use crate::counters::{self, Snapshot};
use crate::names::Names;
use crate::sink::MakeSink;
use crate::{Acks, Counters, End, Live, Observer, Resources, StreamFigures, StreamLoss};

/// Configuration of a receiver.
pub struct ReceiverConfig {
    /// Number of the transfer.
    pub transfer: TransferId,
    /// Digest of blocks and files.
    pub digest: DigestKind,
    /// Largest block that the sender may send.
    pub block_bytes: u32,
    /// Receives failed entries and other events.
    pub observer: Arc<dyn Observer>,
    /// Returns the memory used, for the summary of the other end.
    pub resources: Resources,
    /// The requested comparison, if any.
    pub comparison: Option<Comparison>,
    /// Whether the observer receives the decision about every entry.
    pub itemise: bool,
}

/// The receiving end of one transfer.
pub struct Receiver {
    shared: Arc<Shared>,
    writers: Arc<Writers>,
    answerer: Arc<Answerer>,
    streams: Streams,
}

impl Receiver {
    /// Starts the receiver; `make_sink` gets the outbox through which the sink acknowledges.
    ///
    /// # Errors
    /// The digest is unknown to this program, the sink cannot be made, or a thread cannot be started.
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
        let shared = Arc::new(Shared::new(config, digest, sink, acks, live, counters));
        let writers = Arc::new(Writers::new(Arc::clone(&shared)));
        let answerer = Arc::new(Answerer::new(Arc::clone(&shared)));
        let receiver = Arc::new(Self {
            streams: Streams::new(&shared, &writers, &answerer),
            shared,
            writers,
            answerer,
        });
        receiver.writers.begin()?;
        receiver.answerer.start()?;
        Ok(receiver)
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// The cause of the stream's loss. The transfer continues on the others.
    pub fn run_stream(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        self.streams.run(stream)
    }

    /// Asks the sender to end stream `id` once everything sent on it is settled.
    pub fn retire(&self, id: u64) {
        let mut state = self.shared.lock_state();
        let State {
            streams, retiring, ..
        } = &mut *state;
        if let Some(waker) = streams.get(&id)
            && !retiring.contains(&id)
        {
            retiring.push(id);
            waker.wake();
        }
    }

    /// Streams the names of a list to the sending end, which waits for them. To be called once, before any stream is attached.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn send_names(&self, names: Box<dyn Names>) -> std::io::Result<()> {
        self.streams.send_names(names)
    }

    /// Tunes the number of writing threads; call some times a second.
    pub fn tune(&self) {
        self.writers.tune();
    }

    /// Figures of the attached streams.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.shared.counters.streams()
    }

    /// Asks the sender, a daemon, for another limit or priority, until the sender reports that it obeys; a limit of 0
    /// means none.
    pub fn ask(&self, limit: Option<u64>, background: Option<bool>) {
        let mut asked = self.streams.asked();
        limit.into_iter().for_each(|limit| asked.ask_limit(limit));
        if let Some(background) = background {
            asked.ask_background(background);
            // The threads of this end yield too.
            self.shared.live.set_background(background);
        }
        drop(asked);
        self.shared.wake_streams();
    }

    /// The requests to the sender, and the state that the sender reports.
    pub(crate) fn asked(&self) -> MutexGuard<'_, SenderRequests> {
        self.streams.asked()
    }

    /// Number of attached streams.
    pub fn stream_count(&self) -> usize {
        self.shared.lock_state().streams.len()
    }

    /// Asks the sender on each stream whether it is alive; returns the question's number.
    pub fn ask_sender(&self) -> u64 {
        let mut state = self.shared.lock_state();
        state.asked += 1;
        for waker in state.streams.values() {
            waker.wake();
        }
        state.asked
    }

    /// Whether the sender has answered this question, or a later one. Frames sent before the question are no answer.
    pub fn sender_answered(&self, question: u64) -> bool {
        self.shared.lock_state().answered >= question
    }

    /// Whether the data of some file comes from a pipe, so that no later run can send it again.
    pub fn comes_once(&self) -> bool {
        self.answerer.comes_once()
    }

    /// How the transfer ended, once it has.
    pub fn end(&self) -> Option<End> {
        self.shared.end()
    }

    /// Waits for the end, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<End> {
        self.shared.wait(timeout)
    }

    /// Cancels the transfer; received data is kept for a later run once `join` is called.
    pub fn cancel(&self, reason: &str) {
        self.shared.finish(End::Cancelled(reason.to_owned()));
    }

    /// Ends with a failure.
    pub fn fail(&self, code: ErrorCode, message: &str) {
        self.shared.fail(code, message);
    }

    /// Stops the threads of this end; unless everything was finished, prepares the received data for a later run.
    pub fn join(&self) {
        self.shared
            .finish(End::Cancelled("the transfer ends".to_owned()));
        self.streams.stop_names();
        self.writers.stop();
        self.answerer.stop();
        self.shared.wait_while_writing();
        if !self.streams.is_finished() {
            self.shared.sink.suspend();
        }
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.shared.config.observer
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.shared.live
    }

    /// This end's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// The other end's counters, as last reported.
    pub fn peer_counters(&self) -> Option<Snapshot> {
        self.streams.peer().counters()
    }

    /// Peak memory of the sending process, if that process could attribute it to this transfer.
    pub fn peer_max_rss(&self) -> Option<u64> {
        self.streams.peer().max_rss()
    }

    /// Whether the sender has blocks that no current stream may carry.
    pub fn wants_stream(&self) -> bool {
        self.streams.peer().wants_stream()
    }

    /// Content bytes of all entries, once the sender has found them all.
    pub fn bytes_announced(&self) -> Option<u64> {
        self.streams.peer().announced()
    }
}
