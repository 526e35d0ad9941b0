//! The sender's reports: its counters, its announced totals, and whether it wants a stream.
//! Does not know the frames that carry them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_proto::Status;

use crate::counters::Snapshot;
use crate::{entry, lock};

#[derive(Default)]
pub(super) struct Peer {
    counters: Mutex<Option<Snapshot>>,
    /// Content bytes of all entries, once the sender has found them all.
    announced: Mutex<Option<u64>>,
    max_rss: Mutex<Option<u64>>,
    /// The sender has blocks that no current stream may carry.
    wants_stream: AtomicBool,
}

impl Peer {
    /// Stores the sender's counters and decisions. Reports on different streams may arrive out of order; returns
    /// whether this one is the latest.
    pub(super) fn take(&self, status: &Status, announced: Option<u64>) -> bool {
        let reported = entry::snapshot_from_status(status);
        let mut peer = lock(&self.counters);
        let is_latest = peer.is_none_or(|known| known.elapsed_ns <= reported.elapsed_ns);
        if is_latest {
            *peer = Some(reported);
            *lock(&self.announced) = announced;
        }
        is_latest
    }

    pub(super) fn counters(&self) -> Option<Snapshot> {
        *lock(&self.counters)
    }

    pub(super) fn announced(&self) -> Option<u64> {
        *lock(&self.announced)
    }

    pub(super) fn max_rss(&self) -> Option<u64> {
        *lock(&self.max_rss)
    }

    pub(super) fn set_max_rss(&self, bytes: Option<u64>) {
        *lock(&self.max_rss) = bytes;
    }

    pub(super) fn wants_stream(&self) -> bool {
        self.wants_stream.load(Ordering::Relaxed)
    }

    pub(super) fn set_wants_stream(&self, wants: bool) {
        self.wants_stream.store(wants, Ordering::Relaxed);
    }
}
