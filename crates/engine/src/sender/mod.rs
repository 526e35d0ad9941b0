//! The sending end of a transfer: announces entries, reads requested ones, sends them, and keeps their descriptions until they
//! are durable. Does not dial, and does not know whether it is the client's end or the daemon's.
//!
//! | part | work | own state |
//! | --- | --- | --- |
//! | [`Scan`] | finds entries, announces them, takes the answers | list of names, numbers of entries, paths to reuse |
//! | [`Readers`] | read pieces into blocks and queue them | pool, threads that read ahead |
//! | [`Streams`] | send items and listen, one loop for each stream | when a status is due, the receiver's counters |
//! | [`Shared`] | what the parts share | [`state::State`]: items, wanted entries, attached streams, the end |
//!
//! Lock order: the threads of `Readers`, then the state of `Shared`, then one of several locks that are held last: the progress
//! of a large file, the decisions of the tuner, the tables of the counters. All other locks are taken alone.

mod feedback;
mod large;
mod pace;
mod readers;
mod scan;
mod shared;
mod shuffle;
mod state;
mod streams;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_net::Stream;
use godwit_proto::{Comparison, DigestKind, ErrorCode, TransferId};

use self::readers::Readers;
use self::scan::Scan;
use self::shared::Shared;
pub use self::shuffle::Order;
use self::shuffle::Shuffle;
use self::streams::Streams;
use crate::counters::{self, Snapshot};
use crate::names::NameQueue;
use crate::{
    Counters, End, Fence, Live, Observer, Resources, Source, StreamFigures, StreamLoss, Work, lock,
};

/// Configuration of a sender.
pub struct SenderConfig {
    /// Number of the transfer, assigned by the accepting side.
    pub transfer: TransferId,
    /// Digest of blocks and files.
    pub digest: DigestKind,
    /// Size of a block, a power of two.
    pub block_bytes: u32,
    /// Memory for blocks.
    pub pool_bytes: usize,
    /// Order in which slices and bundles are sent; ignored if contents can be read only once.
    pub order: Order,
    /// Receives failed entries and other events.
    pub observer: Arc<dyn Observer>,
    /// Returns the memory used, for the summary of the other end.
    pub resources: Resources,
    /// Names of the roots as the user knows them, for messages.
    pub root_names: Vec<Vec<u8>>,
    /// The requested comparison with the destination, if any.
    pub comparison: Option<Comparison>,
    /// Whether the observer receives the decision about every entry.
    pub itemise: bool,
    /// Decides before each item whether the transfer may still send, if that permission can end.
    pub fence: Option<Arc<dyn Fence>>,
}

/// The sending end of one transfer.
pub struct Sender {
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    scan: Arc<Scan>,
    streams: Streams,
    /// The threads that scan the sources and that adjust the pace.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Sender {
    /// Starts the sender: the scan runs at once; blocks are sent as soon as a stream is attached.
    ///
    /// # Errors
    /// The digest is unknown to this program, a thread cannot be started, or there are no random numbers.
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
        let order = match source.reads_again() {
            true => config.order,
            false => Order::Source,
        };
        let shuffle = Shuffle::new(order)?;
        counters.cores.set(counters::cores());
        let shared = Arc::new(Shared::new(config, digest, source, live, counters, shuffle));
        let scan = Arc::new(Scan::new(Arc::clone(&shared)));
        let readers = Arc::new(Readers::new(Arc::clone(&shared)));
        let sender = Arc::new(Self {
            streams: Streams::new(&shared, &scan, &readers),
            shared: Arc::clone(&shared),
            readers: Arc::clone(&readers),
            scan: Arc::clone(&scan),
            threads: Mutex::default(),
        });
        let thread = std::thread::Builder::new()
            .name("gw-scan".to_owned())
            .spawn(move || scan.run(work))?;
        lock(&sender.threads).push(thread);
        readers.begin()?;
        pace::follow(&shared, &mut lock(&sender.threads))?;
        Ok(sender)
    }

    /// Tunes the number of threads that read ahead; call some times a second.
    pub fn tune(&self) {
        self.readers.tune();
        // If no pace thread can be started, the next call retries.
        let _ = pace::follow(&self.shared, &mut lock(&self.threads));
    }

    /// Puts the parts of a list that the other end streams into `queue`. Call once, before any stream is attached;
    /// without a queue such parts violate the protocol.
    pub fn take_names(&self, queue: Arc<NameQueue>) {
        self.scan.take_names(queue);
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// The cause of the stream's loss. The transfer continues on the others.
    pub fn run_stream(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        self.streams.run(stream)
    }

    /// Ends stream `id` once everything sent on it is settled.
    pub fn retire(&self, id: u64) {
        self.shared.lock_state().retire(id);
    }

    /// Figures of the attached streams.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.shared.counters.streams()
    }

    /// Number of attached streams.
    pub fn stream_count(&self) -> usize {
        self.shared.lock_state().streams.count()
    }

    /// Whether there are blocks that no current stream may carry.
    pub fn wants_stream(&self) -> bool {
        self.shared.lock_state().streams.wants_stream
    }

    /// Whether everything is read and handed to streams, and only their data is still moving.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.lock_state().is_ending()
    }

    /// How the transfer ended, once it has.
    pub fn end(&self) -> Option<End> {
        self.shared.end()
    }

    /// Allows the other end, the client, to change the limit while the transfer runs. Otherwise only this side changes it.
    pub fn obey_limits(&self) {
        self.streams.obey_limits();
    }

    /// Waits for the end, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<End> {
        self.shared.wait(timeout)
    }

    /// Cancels the transfer. Streams announce that to the other end before they close.
    pub fn cancel(&self, reason: &str) {
        self.shared.finish(End::Cancelled(reason.to_owned()));
    }

    /// Ends with a failure.
    pub fn fail(&self, code: ErrorCode, message: &str) {
        self.shared.fail(code, message);
    }

    /// Waits until all threads of this end have stopped; call after the end has come.
    pub fn join(&self) {
        self.readers.close();
        self.shared.stop();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // If a thread panicked, the panic was already printed; the transfer's end does not depend on it.
            let _ = thread.join();
        }
        self.readers.join();
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.shared.config.observer
    }

    /// Settings that may change while the transfer runs.
    pub fn live(&self) -> &Arc<Live> {
        &self.shared.live
    }

    /// This end's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// The other end's counters, as last reported.
    pub fn peer_counters(&self) -> Option<Snapshot> {
        self.streams.peer_counters()
    }

    /// Whether the scan is over, so that the totals scanned are final.
    pub fn scan_done(&self) -> bool {
        self.shared.lock_state().scan_done
    }
}
