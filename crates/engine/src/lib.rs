//! Runs one transfer from end to end: slices, reads, sends, receives, writes, acknowledges, resumes. Does not know jobs, exports,
//! users or the command line; `run` and `node` supply work and ends.
//!
//! # The library
//!
//! A transfer has two ends, which need not be on the sides that dialled and accepted:
//!
//! * [`Sender`] takes [`Work`] (which entries there are) and a [`Source`] (their bytes);
//! * * [`Receiver`] passes arriving data to a [`Sink`].
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
mod current;
mod decided;
pub mod entry;
mod failed;
mod fence;
mod flag;
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
pub use fence::Fence;
pub use flag::Flag;
pub use godwit_tuner as tuner;
pub use godwit_tuner::{
    Background, Bottleneck, ChannelRate, Chosen, EndCounters, Finding, PathSample,
};
pub use item::{Action, Item};
pub use live::{Live, NetworkUse, RateLimit};
pub use loss::StreamLoss;
pub use receiver::{Receiver, ReceiverConfig};
pub use sender::{Order, Sender, SenderConfig};
pub use sink::{Ending, FinishReport, MakeSink, Sink, SinkFailure, Slice};
pub use source::{DigestTerms, OnceDigest, ReadError, Source, SourceFile, only_once};
pub use streams::StreamFigures;
pub use work::{Offers, Unoffered, Work};

use godwit_net::Waker;
use godwit_proto::{Cancel, DigestKind, Error as WireFailure, ErrorCode, Fault, Record};
use godwit_store::digest;

/// Returns the peak memory of this process, if it can be attributed to this transfer alone.
pub type Resources = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// Converts the wire's number of a digest kind; `None` if this program does not have that kind. The wire keeps such a number.
pub fn digest_kind(kind: DigestKind) -> Option<digest::DigestKind> {
    digest::DigestKind::from_number(kind.0)
}

/// The number on the wire of a digest kind.
pub fn wire_digest_kind(kind: digest::DigestKind) -> DigestKind {
    DigestKind(kind.number())
}

/// How one end of a transfer ended.
#[expect(clippy::large_enum_variant, reason = "there is one for each transfer")]
#[derive(Debug, Clone)]
pub enum End {
    /// Everything was sent and acknowledged; holds the receiver's final frame.
    Finished(godwit_proto::Finished),
    /// This end or the other cancelled the transfer; it can be resumed.
    Cancelled(String),
    /// Either end failed, or no connection could be made. An unchanged retry helps only if `retryable`.
    Failed {
        /// Cause for programs: a row of the catalogue of failures.
        code: ErrorCode,
        /// The failure, whose fault it is, and what to do.
        message: String,
        /// Whether the same transfer may succeed later.
        retryable: bool,
    },
}

impl End {
    /// Ends the wait of a stream: at once, unless the transfer finished and the peer may still ask for the last frame.
    pub(crate) fn end_wait(&self, waker: &Waker) {
        match self {
            Self::Finished(_) => waker.wake(),
            Self::Cancelled(_) | Self::Failed { .. } => waker.end(),
        }
    }

    /// The frame that announces this end to the other side; empty if that side knows already.
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

    /// The end that results from the other side's failure or refusal.
    pub(crate) fn by_failure(failure: WireFailure) -> Self {
        Self::Failed {
            code: ErrorCode::received(failure.code),
            message: failure.message,
            retryable: failure.retryable,
        }
    }

    /// The failure after the other side stopped in good order. It can be retried, because that side may be available again
    /// soon.
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
    /// Number of its source; `None` if the entry is not known.
    pub root: Option<u16>,
    /// Name below the source. It may be a line of a user's list.
    pub path: &'a [u8],
    /// Name that the user knows.
    pub shown: &'a [u8],
    /// The failure, with the number of the entry.
    pub fault: &'a Fault,
}

/// Receives events that users want to see immediately.
pub trait Observer: Send + Sync {
    /// An entry failed. Called once for each entry.
    fn entry_failed(&self, failed: &FailedEntry<'_>);

    /// Whether the observer uses [`entry_done`](Self::entry_done); if not, no records are kept for it.
    fn wants_entries(&self) -> bool {
        false
    }

    /// An entry is complete at the destination. A file that already existed has no digest in its record. At the sending end, the
    /// entry's failure may still follow.
    fn entry_done(&self, record: &Record) {
        let _ = record;
    }

    /// A part of a file, or an assembled file, got its number. Called only at the sending end.
    fn portion_announced(&self, record: &Record) {
        let _ = record;
    }

    /// Reports a fact that needs no action.
    fn note(&self, message: &str) {
        let _ = message;
    }

    /// The tuner changed a number of streams, readers or writers. With several channels, `channel` names the channel of
    /// the streams; it is `None` for readers and writers.
    fn tuned(&self, decision: &tuner::Decision, channel: Option<u32>) {
        let _ = (decision, channel);
    }

    /// The tuner of the other end changed its number of readers or writers. The reason is a peer's text.
    fn tuned_there(&self, decision: &tuner::Decision) {
        let _ = decision;
    }

    /// A decision about an entry. Called for every entry if the end itemises, and always for deleted ones.
    fn item(&self, item: &Item<'_>) {
        let _ = item;
    }
}

/// Takes a lock even if a holder panicked: the protected state is valid at every point that can panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function if the thread panics before this value is dropped, because others may wait for its unfinished work.
pub struct IfPanicking<F: Fn()>(pub F);

impl<F: Fn()> Drop for IfPanicking<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Message for a thread that panicked.
pub const PANICKED: &str = "internal error: a thread panicked (see above); please report it. To resume, run the same command again";

/// Waits until `end` finds an end in the state, at most `timeout`; `changed` signals each change.
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
