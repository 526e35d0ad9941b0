//! Defines the destination of a transfer's bytes: the `Sink` trait and the acknowledgements of a sink. Does not know
//! streams; digests of arriving data are checked before the sink gets the data.

use std::sync::Arc;

use godwit_proto::{BlockHeader, ErrorCode, Fault, Notice, Range, Record, Seq, Verdict};

use crate::PANICKED;
use crate::acks::Acks;

/// Receives entries and their bytes. Called from many threads at once.
pub trait Sink: Send + Sync {
    /// Compares announced entries with existing ones, and makes those that need no contents. Returns one verdict for each
    /// record, in order.
    fn plan(&self, records: &[Record]) -> Vec<Verdict>;

    /// Writes a slice. Its contents are written when this call returns. They become durable later; the sink reports success
    /// or failure through its [`Acks`] by `seq`. Late identical copies are harmless.
    ///
    /// # Errors
    /// The entry's fault; the sink forgets the entry.
    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault>;

    /// Writes the files of a bundle, each separately, so that faults belong to single entries. `contents` holds the bytes of
    /// each record (empty for records without contents).
    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault>;

    /// Whether threads that write into one entry at the same time hinder each other.
    fn one_writer_an_entry(&self) -> bool {
        false
    }

    /// Whether the sink accepts more; after returning `false` the sink calls [`Acks::wake_all`] when it has room again.
    fn has_room(&self) -> bool {
        true
    }

    /// Called when the sender waits for durability, so that filling a batch further has no use.
    fn hurry(&self) {}

    /// The failure that ended the sink before the transfer, if any; afterwards no more data becomes durable.
    fn failure(&self) -> Option<SinkFailure> {
        None
    }

    /// Called once, after all writes have returned: makes everything durable and final. Entries that fail now are reported
    /// through [`Acks::fault`], other news through `ending`.
    ///
    /// # Errors
    /// The failure of the whole transfer.
    fn finish(&self, ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure>;

    /// Called when the transfer ends unfinished: makes the received data durable so that a later run can resume.
    fn suspend(&self);

    /// Path of an entry at the destination, for messages.
    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8>;
}

/// A slice that arrived with the right digest.
#[derive(Debug)]
pub struct Slice<'a> {
    /// The header of the slice.
    pub header: &'a BlockHeader,
    /// The entry.
    pub record: &'a Record,
    /// Data ranges within the slice; empty if all of it is data.
    pub ranges: &'a [Range],
    /// Bytes of the ranges, one after the other.
    pub payload: &'a [u8],
}

/// The sender's final counts, and the sink's callbacks while it closes.
pub struct Ending<'a> {
    /// Entries that failed, as far as the sender knows.
    pub failed: u64,
    /// Places of the source that could not be examined: entries below them were not announced.
    pub scan_faults: u64,
    /// Sends news to the other end and its user; `None` is a keep-alive.
    pub say: &'a mut dyn FnMut(Option<Notice>),
    /// Whether the transfer continues. It may end while the sink closes, for example when its grant is revoked.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl Ending<'_> {
    /// Sends news to the other end and its user.
    pub fn notify(&mut self, notice: Notice) {
        (self.say)(Some(notice));
    }

    /// Reports that closing takes long but continues; call every few seconds.
    pub fn is_alive(&mut self) {
        (self.say)(None);
    }
}

/// A sink's final report.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FinishReport {
    /// Whether the delivered data survives a power cut.
    pub synced: bool,
    /// Files that existed because other members of the same claim delivered them, and their bytes. Only a closer counts them.
    pub delivered: (u64, u64),
}

/// A failure that ends a sink before the transfer, and the transfer with it. The text describes the event and the necessary
/// action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkFailure {
    /// Nothing can be written at the user's destination.
    #[error("{0}")]
    Unusable(String),
    /// The destination is inside the source.
    #[error("{0}")]
    IntoItself(String),
    /// The storage did not make the written data durable.
    #[error("{0}")]
    Sync(String),
    /// The journal cannot be written or removed.
    #[error("{0}")]
    Journal(String),
    /// Data kept on disk for the end of the transfer is lost.
    #[error("{0}")]
    Spill(String),
    /// Temporary files of an earlier run cannot be removed.
    #[error("{0}")]
    Leftovers(String),
    /// The claim to which the transfer belongs has ended.
    #[error("{0}")]
    Fenced(String),
    /// The source is empty, and the deletion would empty the destination.
    #[error("{0}")]
    EmptySource(String),
    /// The reader of the output is gone, or the output differs from the sent data.
    #[error("{0}")]
    Output(String),
    /// The sender broke the protocol.
    #[error("{0}")]
    Protocol(String),
    /// A thread panicked.
    #[error("{PANICKED}")]
    Panicked,
}

impl SinkFailure {
    /// The code on the wire.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unusable(_) => ErrorCode::DESTINATION,
            Self::IntoItself(_) => ErrorCode::INTO_ITSELF,
            Self::Sync(_) => ErrorCode::SYNC,
            Self::Journal(_) => ErrorCode::JOURNAL,
            Self::Spill(_) => ErrorCode::SPILL,
            Self::Leftovers(_) => ErrorCode::LEFTOVERS,
            Self::Fenced(_) => ErrorCode::BUSY,
            Self::EmptySource(_) => ErrorCode::EMPTY_SOURCE,
            Self::Output(_) => ErrorCode::OUTPUT,
            Self::Protocol(_) => ErrorCode::PROTOCOL,
            Self::Panicked => ErrorCode::INTERNAL,
        }
    }
}

/// Makes the sink of a transfer once its acknowledgement box exists. If that fails, the receiver does not start.
pub type MakeSink<'a> = dyn FnOnce(Arc<Acks>) -> std::io::Result<Arc<dyn Sink>> + 'a;
