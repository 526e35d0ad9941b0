//! The sending end of a transfer: announces entries, reads what is wanted, sends it, keeps it until it is durable.
//! Does not dial, and does not know whether it is the client's end or the daemon's.

mod failures;
mod large;
mod leave;
mod pace;
mod parts;
mod readers;
mod say;
mod scan;
mod shared;
mod state;
mod step;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError};
use godwit_proto::{Comparison, DigestKind, TransferId};

use self::readers::Readers;
use self::scan::Scan;
use self::shared::Shared;
use crate::counters::{self, Snapshot};
use crate::last_words::last_words;
use crate::names::NameQueue;
use crate::{
    Counters, End, Live, Observer, Resources, Source, StreamFigures, StreamLoss, Work, limits, lock,
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
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    scan: Arc<Scan>,
    peer: Mutex<Option<Snapshot>>,
    status_due: Mutex<Instant>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
        let shared = Arc::new(Shared::new(config, digest, source, live, counters));
        let scan = Arc::new(Scan::new(Arc::clone(&shared)));
        let readers = Arc::new(Readers::new(Arc::clone(&shared)));
        let sender = Arc::new(Self {
            shared: Arc::clone(&shared),
            readers: Arc::clone(&readers),
            scan: Arc::clone(&scan),
            peer: Mutex::default(),
            status_due: Mutex::new(Instant::now() + limits::STATUS_EVERY),
            threads: Mutex::default(),
            obeys_limits: AtomicBool::new(false),
        });
        let thread = std::thread::Builder::new()
            .name("gw-scan".to_owned())
            .spawn(move || scan.run(work))?;
        lock(&sender.threads).push(thread);
        readers.begin()?;
        sender.keep_pace()?;
        Ok(sender)
    }

    /// Has the tuner look at the number of threads that read ahead; to be called some times a second.
    pub fn tune(&self) {
        self.readers.tune();
    }

    /// Puts the parts of a list that the other end streams into `queue`. To be called once, before any stream is attached; without
    /// it such parts break the rules.
    pub fn take_names(&self, queue: Arc<NameQueue>) {
        self.scan.take_names(queue);
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// What broke the stream. The transfer goes on with the others.
    pub fn run_stream(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let _panic = self.shared.if_panicking();
        let share = self.shared.live.share();
        stream.share(&share.congestion, share.background)?;
        let id = self
            .shared
            .lock_state()
            .attach(stream.waker(), stream.carries_blocks());
        self.shared.counters.streams_attached.add(1);
        self.shared.counters.table.attach(id, stream);
        let member = self.shared.counters.channels.attach(stream);
        // After the thread was started that watches the channels: one that inherits a low priority sees late what is dead.
        self.shared.begin_sharing();
        let result = match self.stream_loop(id, stream) {
            // There was no room for the last word.
            Err(StreamLoss::Stream(StreamError::Ended { .. })) => {
                stream.shutdown();
                Ok(())
            }
            Err(loss) if self.shared.end().is_none() => match last_words(stream, &loss) {
                Some(end) => {
                    self.shared.finish(end);
                    Ok(())
                }
                None => Err(loss),
            },
            other => other,
        };
        if let Some(names) = self.scan.names() {
            names.say_again();
        }
        self.shared
            .counters
            .table
            .detach(id, stream, &self.shared.counters);
        self.shared.lock_state().detach(id);
        self.tell_unnamed();
        let result = self.shared.counters.channels.detach(member, result);
        if result.is_err() {
            self.shared.counters.streams_lost.add(1);
        }
        result
    }

    /// The streams attached now, one by one.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.shared.counters.streams()
    }

    /// Number of streams attached now.
    pub fn stream_count(&self) -> usize {
        self.shared.lock_state().streams.len()
    }

    /// Whether there are blocks that no stream there is may carry.
    pub fn wants_stream(&self) -> bool {
        self.shared.lock_state().wants_stream
    }

    /// The end, if it has come.
    pub fn end(&self) -> Option<End> {
        self.shared.end()
    }

    /// Lets the other end, which is the client, change the limit while the transfer runs. Without it nobody but this side does.
    pub fn obey_limits(&self) {
        self.obeys_limits.store(true, Ordering::Relaxed);
    }

    /// Waits for the end, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<End> {
        self.shared.wait(timeout)
    }

    /// Gives up. Streams say so to the other end before they close.
    pub fn cancel(&self, reason: &str) {
        self.shared.finish(End::Cancelled(reason.to_owned()));
    }

    /// Ends with a failure.
    pub fn fail(&self, code: u32, message: &str) {
        self.shared.fail(code, message);
    }

    /// Waits until all threads of this end have stopped; call after the end has come.
    pub fn join(&self) {
        self.readers.close();
        self.shared.stop();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A panic of one of them has been printed; the transfer's end does not depend on it.
            let _ = thread.join();
        }
        self.readers.join();
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.shared.config.observer
    }

    /// What may be changed while it runs.
    pub fn live(&self) -> &Arc<Live> {
        &self.shared.live
    }

    /// This end's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// The other end's counters, as it last reported them.
    pub fn peer_counters(&self) -> Option<Snapshot> {
        *lock(&self.peer)
    }

    /// Whether the scan is over, so that the totals scanned are final.
    pub fn scan_done(&self) -> bool {
        self.shared.lock_state().scan_done
    }
}
