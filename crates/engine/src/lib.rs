//! Carries one transfer from end to end: slices, reads, sends, receives, writes, acknowledges, resumes.
//! Does not know jobs, exports, users or the command line; `run` and `node` give it work and end points.
//!
//! # The library
//!
//! A transfer has two ends, which need not be on the sides that dialled and accepted:
//!
//! * [`Sender`] takes [`Work`] (which entries there are) and a [`Source`] (their bytes);
//! * [`Receiver`] gives what arrives to a [`Sink`].
//!
//! Streams are attached to either with `run_stream`, which serves one [`godwit_net::Stream`] on the calling thread until the
//! transfer ends or the stream breaks. Any number of streams may come and go at any time; any item may travel on any of them.
//! [`Live`] changes limits and parallelism while the transfer runs; [`Counters`] may be read at any time.
//!
//! Ready-made part: [`session`] (dialling, opening, joining and retrying for a client). The crate `tree` has the usual sources and
//! sinks. `examples/buffers.rs` moves buffers without any files.

pub mod acks;
mod channels;
pub mod counters;
mod courtesy;
mod decided;
pub mod entry;
mod failed;
pub mod governor;
mod item;
mod last_words;
pub mod limits;
mod live;
mod loss;
pub mod names;
mod receiver;
mod sender;
mod seqs;
pub mod session;
mod sink;
mod source;
mod streams;
pub mod usage;
mod work;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use acks::Acks;
pub use channels::ChannelFigures;
pub use counters::{Counters, Snapshot};
pub use godwit_tuner as tuner;
pub use godwit_tuner::{Background, Bottleneck, ChannelRate, Chosen, Finding, PathSample, Shares};
pub use item::{Action, Item};
pub use live::{Live, RateLimit, Share};
pub use loss::StreamLoss;
pub use receiver::{Receiver, ReceiverConfig};
pub use sender::{Order, Sender, SenderConfig};
pub use sink::{Ending, FinishReport, MakeSink, Sink, SinkFailure, Slice};
pub use source::{ReadError, Source, SourceFile, only_once};
pub use streams::StreamFigures;
pub use work::{Offers, Unoffered, Work};

use godwit_net::Waker;
use godwit_proto::{Cancel, DigestKind, Error as WireFailure, ErrorCode, Fault, Record};
use godwit_store::digest;

/// Tells the peak memory of this process, where it can be attributed to the one transfer.
pub type Resources = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// The wire's number of a digest kind as storage knows it; `None` for one that this program does not have.
pub const fn digest_kind(kind: DigestKind) -> Option<digest::DigestKind> {
    match kind {
        DigestKind::CRC64_NVME => Some(digest::DigestKind::Crc64Nvme),
        DigestKind::BLAKE3 => Some(digest::DigestKind::Blake3),
        _ => None,
    }
}

/// The number on the wire of a digest kind.
pub const fn wire_digest_kind(kind: digest::DigestKind) -> DigestKind {
    match kind {
        digest::DigestKind::Crc64Nvme => DigestKind::CRC64_NVME,
        digest::DigestKind::Blake3 => DigestKind::BLAKE3,
    }
}

/// How one end of a transfer ended.
#[expect(clippy::large_enum_variant, reason = "there is one for each transfer")]
#[derive(Debug, Clone)]
pub enum End {
    /// Everything was said and acknowledged; the receiver's closing words.
    Finished(godwit_proto::Finished),
    /// This end or the other gave it up; it can be resumed.
    Cancelled(String),
    /// Either end failed, or no connection was to be had; trying again as it is does not help unless `retryable`.
    Failed {
        /// Why, for programs: a row of the catalogue of failures.
        code: ErrorCode,
        /// What is wrong, whose fault it is, what to do.
        message: String,
        /// Whether the same may succeed later.
        retryable: bool,
    },
}

impl End {
    /// Ends what a stream waits for: at once, unless everything was said and the last word may be asked for again.
    pub(crate) fn tell(&self, waker: &Waker) {
        match self {
            Self::Finished(_) => waker.wake(),
            Self::Cancelled(_) | Self::Failed { .. } => waker.end(),
        }
    }

    /// The frame that tells the other side of it; none where that knows already.
    pub(crate) fn last_word(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        match self {
            Self::Cancelled(reason) => {
                let reason = reason.clone();
                Cancel { reason }.encode(&mut frame);
            }
            Self::Failed {
                code,
                message,
                retryable,
            } => WireFailure {
                code: code.0,
                message: message.clone(),
                retryable: *retryable,
            }
            .encode(&mut frame),
            Self::Finished(_) => {}
        }
        frame
    }

    /// The other side failed, or refused.
    pub(crate) fn by_failure(failure: WireFailure) -> Self {
        Self::Failed {
            code: ErrorCode::heard(failure.code),
            message: failure.message,
            retryable: failure.retryable,
        }
    }

    /// The other side gave the transfer up in good order: it was stopped, and may be there again soon.
    pub(crate) fn by_peer(reason: &str) -> Self {
        Self::Failed {
            code: ErrorCode::CANCELLED,
            message: format!("the other side ended the transfer: {reason}"),
            retryable: true,
        }
    }
}

/// An entry that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedEntry<'a> {
    /// The number of its source; `None` where nobody knows which entry it is.
    pub root: Option<u16>,
    /// The name below the source. It may be what somebody has written in a list.
    pub path: &'a [u8],
    /// The name that the user knows it by.
    pub shown: &'a [u8],
    /// What went wrong, with the number of the entry.
    pub fault: &'a Fault,
}

/// Is told what people want to know at once.
pub trait Observer: Send + Sync {
    /// An entry failed. Each entry is told once.
    fn entry_failed(&self, failed: &FailedEntry<'_>);

    /// Whether [`entry_done`](Self::entry_done) is of use; if not, nothing is kept for it.
    fn wants_entries(&self) -> bool {
        false
    }

    /// An entry is complete at the destination. A file that was found there has no digest in its record. What is said at
    /// the sending end may still be followed by the entry's failure.
    fn entry_done(&self, record: &Record) {
        let _ = record;
    }

    /// A part of a file, or an entry that is put together of parts, has got its number. Called at the sending end alone.
    fn portion_announced(&self, record: &Record) {
        let _ = record;
    }

    /// Something worth knowing that needs no action.
    fn note(&self, message: &str) {
        let _ = message;
    }

    /// The tuner has changed a number: of streams, of readers, of writers. `channel` says whose streams they are where there are
    /// several channels; readers and writers belong to none.
    fn tuned(&self, decision: &tuner::Decision, channel: Option<u32>) {
        let _ = (decision, channel);
    }

    /// The tuner of the other end has changed a number of its own: of readers, or of writers. The reason is a peer's text.
    fn tuned_there(&self, decision: &tuner::Decision) {
        let _ = decision;
    }

    /// What was decided about an entry. Called for every one where the end was told to itemise, for deleted ones always.
    fn item(&self, item: &Item<'_>) {
        let _ = item;
    }
}

/// Takes a lock whose holder may have panicked: the state behind our locks is valid between any two statements that can.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something if the thread panics before this is dropped: others may wait for what it has left undone.
pub struct IfPanicking<F: Fn()>(pub F);

impl<F: Fn()> Drop for IfPanicking<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// What is said where a thread has panicked.
pub const PANICKED: &str = "a mistake in this program has ended one of its threads, which says above what it was; please report it. The same command goes on where this one stopped";

/// Waits until `end` finds one in the state, at most `timeout`; `changed` is told of it.
pub(crate) fn wait_for_end<S>(
    state: &Mutex<S>,
    changed: &Condvar,
    timeout: Duration,
    end: impl Fn(&S) -> Option<&End>,
) -> Option<End> {
    let waited = changed.wait_timeout_while(lock(state), timeout, |state| end(state).is_none());
    let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    end(&state).cloned()
}
