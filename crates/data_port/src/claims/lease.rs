//! Owns the duration of a claim, and of the transfers of its members. Does not know places or peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use godwit_api::job::ClaimId;
use godwit_engine::Fence;

/// The duration of a claim.
pub(super) struct Lease {
    pub(super) begin: Instant,
    /// End of the lease in nanoseconds after its beginning.
    ends_after: AtomicU64,
    ended: AtomicBool,
    pub(super) copies: AtomicBool,
}

impl Lease {
    pub(super) fn new(now: Instant, lasts: Duration) -> Arc<Self> {
        Arc::new(Self {
            begin: now,
            ends_after: AtomicU64::new(nanoseconds(lasts)),
            ended: AtomicBool::new(false),
            copies: AtomicBool::new(false),
        })
    }

    /// Whether the lease is valid. Once this returns false it never returns true again, even if the lease is being
    /// renewed at this moment.
    pub(super) fn holds_at(&self, now: Instant) -> bool {
        let age = nanoseconds(now.saturating_duration_since(self.begin));
        if age >= self.ends_after.load(Ordering::SeqCst) {
            self.end();
        }
        !self.ended.load(Ordering::SeqCst)
    }

    /// Extends the lease by this time from now on; returns false if it has ended.
    pub(super) fn renew(&self, now: Instant, lasts: Duration) -> bool {
        if !self.holds_at(now) {
            return false;
        }
        let age = now.saturating_duration_since(self.begin);
        let ends_after = nanoseconds(age.saturating_add(lasts));
        self.ends_after.fetch_max(ends_after, Ordering::SeqCst);
        !self.ended.load(Ordering::SeqCst)
    }

    /// Whether the lease was found to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The transfers of one member are valid as long as the claim, and until the member is fenced.
#[derive(Clone)]
pub(super) struct Entry(Arc<AtomicBool>);

impl Entry {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    pub(super) fn end(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The validity of one member's transfers.
pub(crate) struct MemberLease {
    pub(crate) claim: ClaimId,
    pub(super) lease: Arc<Lease>,
    pub(super) entry: Entry,
}

impl MemberLease {
    /// The lease of a member whose claim has ended.
    #[cfg(test)]
    pub(crate) fn ended(claim: ClaimId) -> Arc<Self> {
        Arc::new(Self {
            claim,
            lease: Lease::new(Instant::now(), Duration::ZERO),
            entry: Entry::new(),
        })
    }

    pub(crate) fn holds_at(&self, now: Instant) -> bool {
        !self.entry.0.load(Ordering::SeqCst) && self.lease.holds_at(now)
    }
}

impl Fence for MemberLease {
    fn holds(&self) -> bool {
        self.holds_at(Instant::now())
    }

    fn copies(&self) -> bool {
        self.lease.copies.load(Ordering::SeqCst)
    }
}
