//! Where the bytes of a transfer go: the `Sink` trait and the acknowledgements that a sink gives.
//! Does not know streams; digests of what arrives are checked before a sink sees it.

use std::sync::Arc;

use godwit_proto::{BlockHeader, ErrorCode, Fault, Notice, Range, Record, Seq, Verdict};

use crate::PANICKED;
use crate::acks::Acks;

/// Takes entries and their bytes. Called from many threads at once.
pub trait Sink: Send + Sync {
    /// Compares announced entries with what is there, and makes those that need no contents.
    /// One verdict for each record, in order.
    fn plan(&self, records: &[Record]) -> Vec<Verdict>;

    /// Places a slice. Its contents are written when this returns; they become durable later, which the sink says
    /// through its [`Acks`] by `seq`, in success and in failure. Late identical copies are harmless.
    ///
    /// # Errors
    /// The entry's fault; the sink forgets the entry.
    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault>;

    /// Places a bundle: each file of it on its own, so the faults are those of single entries.
    /// `contents` holds, for each record, its bytes (empty for records without).
    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault>;

    /// Whether threads that write into one entry at the same time hinder each other.
    fn one_writer_an_entry(&self) -> bool {
        false
    }

    /// Whether more may come; after `false` the sink calls [`Acks::wake_all`] when it has room again.
    fn has_room(&self) -> bool {
        true
    }

    /// The sender waits for durability: no use in letting a batch fill up.
    fn hurry(&self) {}

    /// What ended the sink before the transfer, if anything did; afterwards nothing more becomes durable.
    fn failure(&self) -> Option<SinkFailure> {
        None
    }

    /// Everything was sent: makes all of it durable and final. Called once, after all writes have returned.
    /// Entries that fail now are reported through [`Acks::fault`], other news through `ending`.
    ///
    /// # Errors
    /// What makes the whole transfer fail.
    fn finish(&self, ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure>;

    /// The transfer ends unfinished: makes what is there durable so that a later run can go on from it.
    fn suspend(&self);

    /// Path of an entry at the destination, for messages.
    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8>;
}

/// A slice that arrived and whose digest was right.
#[derive(Debug)]
pub struct Slice<'a> {
    /// Its header.
    pub header: &'a BlockHeader,
    /// The entry.
    pub record: &'a Record,
    /// Data ranges within, empty if all of it is data.
    pub ranges: &'a [Range],
    /// Bytes of the ranges, one after the other.
    pub payload: &'a [u8],
}

/// What the sender said when it had nothing left, and how the sink is heard while it closes.
pub struct Ending<'a> {
    /// Entries that failed, as far as the sender knows.
    pub failed: u64,
    /// Places of the source that could not be looked at: what is below them was not announced.
    pub scan_faults: u64,
    /// Takes news for the other end and its user, and `None` as a sign of life.
    pub say: &'a mut dyn FnMut(Option<Notice>),
    /// Whether the transfer goes on. It may end while the sink closes, as when the right to it is taken back.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl Ending<'_> {
    /// News for the other end and its user.
    pub fn tell(&mut self, notice: Notice) {
        (self.say)(Some(notice));
    }

    /// Closing takes its time and goes on; to be said every few seconds.
    pub fn is_alive(&mut self) {
        (self.say)(None);
    }
}

/// What a sink says at the end.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FinishReport {
    /// Whether what was delivered survives a power cut.
    pub synced: bool,
}

/// What ends a sink before the transfer ends, and the transfer with it. The text says what happened and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkFailure {
    /// Nothing can be written to the place that the user named.
    #[error("{0}")]
    Unusable(String),
    /// The destination lies in the source.
    #[error("{0}")]
    IntoItself(String),
    /// The storage does not make durable what was written.
    #[error("{0}")]
    Sync(String),
    /// The journal cannot be written or removed.
    #[error("{0}")]
    Journal(String),
    /// What was kept on disk for the end of the transfer is lost.
    #[error("{0}")]
    Spill(String),
    /// Temporary files of an earlier run cannot be removed.
    #[error("{0}")]
    Leftovers(String),
    /// The claim of which the transfer is a member has ended.
    #[error("{0}")]
    Fenced(String),
    /// The reader of the output is gone, or the output is not what was sent.
    #[error("{0}")]
    Output(String),
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
            Self::Output(_) => ErrorCode::OUTPUT,
            Self::Panicked => ErrorCode::INTERNAL,
        }
    }
}

/// Makes the sink of a transfer once its acknowledgement box exists. Where that fails, the receiver does not start.
pub type MakeSink<'a> = dyn FnOnce(Arc<Acks>) -> std::io::Result<Arc<dyn Sink>> + 'a;
