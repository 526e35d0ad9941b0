//! Makes the two ends of a transfer, for a command, a daemon and an agent. Does not find places, read settings,
//! or make streams.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_engine::governor::Lease;
use godwit_engine::names::Names;
use godwit_engine::tuner::Bounds;
use godwit_engine::{
    Acks, Counters, Fence, Live, NetworkUse, Observer, Order, Receiver, ReceiverConfig, Resources,
    Sender, SenderConfig, Sink, Source, Work,
};
use godwit_proto::{Comparison, DigestKind, Preserve, TransferId};
use godwit_store::ScanSeat;
use godwit_tree::pipe::{InOrder, PipeSink, PipeSource};
use godwit_tree::select::Select;
use godwit_tree::shared::Seat;
use godwit_tree::synthetic::{MemorySource, NullSink};
use godwit_tree::{
    Buffering, FoundRoot, Keeper, ListWork, NoNames, OwnFiles, PreparedDestination, Selecting,
    TreeSink, TreeSource, TreeWork, WorkItem,
};

/// Configuration of an end, independent of its direction.
pub struct EndConfig {
    /// The transfer.
    pub transfer: TransferId,
    /// The digest of blocks and files.
    pub digest: DigestKind,
    /// Content bytes of one block.
    pub block_bytes: u32,
    /// The requested comparison, if any.
    pub comparison: Option<Comparison>,
    /// Report the outcome of each entry.
    pub itemise: bool,
    /// How the transfer behaves towards others.
    pub network_use: NetworkUse,
    /// The place of the end among the transfers of this process.
    pub lease: Option<Lease>,
    /// Receives an event for each entry.
    pub observer: Arc<dyn Observer>,
    /// Reports the resources of the process.
    pub resources: Resources,
    /// Counters of this end.
    pub counters: Arc<Counters>,
}

/// Destination of the data at a receiving end.
pub enum Sinks {
    /// All data is discarded.
    Nothing,
    /// Below a destination, whose own digest is used.
    Tree(Box<PreparedDestination>),
    /// Into a pipe, in order.
    Pipe {
        /// The pipe.
        out: File,
        /// Most bytes of blocks that wait for earlier ones.
        bytes_max: usize,
        /// Nothing is written.
        dry_run: bool,
    },
}

/// The source of the data at a sending end.
pub enum Sources {
    /// Memory.
    Memory(MemorySource),
    /// A pipe, as a single entry.
    Pipe(PipeSource, Box<dyn Work>),
    /// Files.
    Trees(Trees),
}

/// Files to send.
pub struct Trees {
    /// The sources, in order.
    pub roots: Vec<FoundRoot>,
    /// The names of a list, if a list selects entries of the first source.
    pub names: Option<Box<dyn Names>>,
    /// Directory for data that exceeds memory.
    pub spill: PathBuf,
    /// The metadata to preserve.
    pub preserve: Preserve,
    /// The selected entries.
    pub select: Arc<Select>,
    /// Skipped entries are announced, so that the receiver does not delete them.
    pub announces_passed: bool,
    /// Files that are never sent.
    pub own: Arc<OwnFiles>,
    /// Parts of files, and files to assemble. Without a list, only these are sent of the first source.
    pub items: Vec<WorkItem>,
}

/// Settings that only a sending end needs.
pub struct SenderSettings<'a> {
    /// Memory for blocks.
    pub pool_bytes: usize,
    /// Names of the sources in messages.
    pub root_names: Vec<Vec<u8>>,
    /// Limit in content bytes a second; 0 for none.
    pub limit: u64,
    /// Threads that read ahead.
    pub readers: Bounds,
    /// Blocks are sent in the order of the contents.
    pub in_order: bool,
    /// The order of slices and bundles, unless another rule sets it.
    pub order: Order,
    /// Decides before each item whether this end may still send, if that permission can end.
    pub fence: Option<Arc<dyn Fence>>,
    /// The place at shared reads of the files, if other transfers send the same ones.
    pub seat: Option<&'a Seat>,
    /// The transfer buffer of this process, if it has one.
    pub buffering: Option<Buffering>,
}

/// Makes a receiving end with this many threads that write.
///
/// # Errors
/// The digest is unknown, or the destination or a thread is not available.
pub fn receiver(end: EndConfig, writers: Bounds, sinks: Sinks) -> io::Result<Arc<Receiver>> {
    let digest = match &sinks {
        Sinks::Tree(prepared) => godwit_engine::wire_digest_kind(prepared.config.digest),
        Sinks::Nothing | Sinks::Pipe { .. } => end.digest,
    };
    let config = ReceiverConfig {
        transfer: end.transfer,
        digest,
        block_bytes: end.block_bytes,
        observer: end.observer,
        resources: end.resources,
        comparison: end.comparison,
        itemise: end.itemise,
    };
    let live = Arc::new(
        Live::receiving(writers)
            .sharing(end.network_use)
            .governed(end.lease),
    );
    let counted = Arc::clone(&end.counters);
    let make = move |acks: Arc<Acks>| -> io::Result<Arc<dyn Sink>> {
        Ok(match sinks {
            Sinks::Nothing => Arc::new(NullSink::new(acks, counted)),
            Sinks::Tree(prepared) => TreeSink::start(
                prepared.config,
                prepared.journal,
                prepared.recovered,
                acks,
                counted,
            )?,
            Sinks::Pipe {
                out,
                bytes_max,
                dry_run,
            } => {
                let kind = godwit_engine::digest_kind(digest)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "unknown digest"))?;
                PipeSink::start(Box::new(out), kind, bytes_max, dry_run, acks, counted)?
            }
        })
    };
    Receiver::start(config, Box::new(make), live, end.counters)
}

/// Makes a sending end.
///
/// # Errors
/// The digest is unknown, or a thread is not available.
pub fn sender(
    end: EndConfig,
    sending: SenderSettings<'_>,
    sources: Sources,
) -> io::Result<Arc<Sender>> {
    let (work, source): (Box<dyn Work>, Arc<dyn Source>) = match sources {
        Sources::Memory(memory) => (Box::new(memory), Arc::new(memory)),
        Sources::Pipe(pipe, work) => (work, Arc::new(pipe)),
        Sources::Trees(trees) => {
            let scans = sending.seat.map(Seat::scans);
            let (work, source) = trees.open(&end.counters, sending.buffering, scans);
            let shared = sending.seat.map(|seat| seat.share(Arc::clone(&source)));
            (work, shared.unwrap_or(source))
        }
    };
    let source: Arc<dyn Source> = if sending.in_order {
        Arc::new(InOrder::new(source))
    } else {
        source
    };
    let config = SenderConfig {
        transfer: end.transfer,
        digest: end.digest,
        block_bytes: end.block_bytes,
        pool_bytes: sending.pool_bytes,
        order: sending.order,
        observer: end.observer,
        root_names: sending.root_names,
        resources: end.resources,
        comparison: end.comparison,
        itemise: end.itemise,
        fence: sending.fence,
    };
    let live = Live::sending(sending.limit, sending.readers)
        .sharing(end.network_use)
        .governed(end.lease);
    Sender::start(config, work, source, Arc::new(live), end.counters)
}

impl Trees {
    fn open(
        self,
        counters: &Arc<Counters>,
        buffering: Option<Buffering>,
        scans: Option<ScanSeat>,
    ) -> (Box<dyn Work>, Arc<dyn Source>) {
        let keeper = Arc::new(Keeper::new(self.preserve));
        let selecting = Selecting {
            select: self.select,
            counters: Arc::clone(counters),
            announces_passed: self.announces_passed,
        };
        let kept = Arc::clone(&keeper);
        let nothing_else = || Box::new(NoNames) as Box<dyn Names>;
        let names = self
            .names
            .or_else(|| (!self.items.is_empty()).then(nothing_else));
        let work: Box<dyn Work> = match (names, self.roots.first()) {
            (Some(names), Some(Ok(root))) => {
                let work = ListWork::new(root.clone(), names, selecting, &self.spill);
                let work = work.with_items(self.items);
                Box::new(work.without(self.own).keeping(kept).sharing(scans))
            }
            _ => {
                let work = TreeWork::found(self.roots.clone(), selecting);
                Box::new(work.without(self.own).keeping(kept).sharing(scans))
            }
        };
        let source = TreeSource::found(self.roots).keeping(keeper);
        match buffering {
            None => (work, Arc::new(source)),
            Some(buffering) => (work, source.buffered(buffering)),
        }
    }
}
