//! One transfer at this daemon: its claim, and its engine while it runs. Does not know other transfers (`table`).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::record::TransferStart;
use godwit_api::rest::Timestamp;
use godwit_engine::session::Engine;
use godwit_engine::{Fence, limits};
use godwit_net::IdentityId;
use godwit_proto::limits::TOKENS_MAX;
use godwit_proto::{Mapping, Token, TransferId};
use godwit_run::Receiving;
use godwit_store::journal::JournalHold;
use godwit_tree::Arrived;

use crate::allow::Who;
use crate::claims::{MemberLease, Spots};
use crate::gate::Slot;
use crate::keeper::Watch;
use crate::leave::Leave;

/// How long a transfer is kept for an absent client that had no data connections. Its data connections failed, or a new transfer is better
/// for it. Its last message may have been lost.
const KEPT_UNREACHED: Duration = Duration::from_secs(10);

/// Valid tokens of one transfer: as many as it may have streams.
pub(crate) const TOKENS: usize = limits::STREAMS_MAX as usize;
const _: () = assert!(TOKENS <= TOKENS_MAX);

/// The resources of a transfer in this daemon, with or without a running engine: a place among the transfers, and its destination.
pub(crate) struct Claim {
    pub(crate) transfer: TransferId,
    pub(crate) owner: IdentityId,
    /// Identifies the transfer's destination; `None` if the destination needs no exclusive writer.
    pub(crate) key: Option<[u8; 32]>,
    /// How long the claim is kept after the last stream.
    pub(crate) keep_for: Duration,
    pub(crate) label: String,
    /// The client's label of the job; empty for a command.
    pub(crate) job: String,
    /// The other nodes that its client lets take over this job.
    pub(crate) heirs: HashSet<IdentityId>,
    /// Absolute paths that only this transfer may write to.
    pub(crate) writes_to: Spots,
    /// The lease of the job's claim, for a member.
    pub(crate) lease: Option<Arc<MemberLease>>,
    /// Decides whether the transfer may still write, if it is no member.
    pub(crate) fence: Option<Arc<dyn Fence>>,
    /// The rights that the transfer needs to continue.
    pub(crate) leave: Leave,
    /// This file exists once another process wants the same transfer.
    pub(crate) wanted: Option<PathBuf>,
    /// `None` once it was released.
    pub(crate) held: Mutex<Option<HeldResources>>,
}

/// The parts of a claim that others may wait for.
pub(crate) struct HeldResources {
    /// Keeps the journal locked, and with it the destination.
    pub(crate) journal: Option<JournalHold>,
    /// Counts as one transfer.
    pub(crate) _slot: Slot<IdentityId>,
}

/// The daemon's end of a running transfer.
pub(crate) struct Session {
    pub(crate) claim: Arc<Claim>,
    pub(crate) engine: Engine,
    /// The report of its start, with the time.
    pub(crate) start: TransferStart,
    pub(crate) began: Timestamp,
    pub(crate) plain_payload: bool,
    /// Whether a stream that carries blocks was attached at some time.
    pub(crate) reached: AtomicBool,
    /// Whether the client cannot open the transfer again, because its bytes come from or go into a pipe.
    pub(crate) output_once: bool,
    /// Whether no other transfer ran at the same time, so that the process's memory is its own.
    pub(crate) alone: Arc<AtomicBool>,
    pub(crate) resumed: bool,
    pub(crate) arrived: Arrived,
    /// The destination in messages.
    pub(crate) mapped: Vec<u8>,
    /// In a push to files: the meaning of the destination, and the tag of temporary files.
    pub(crate) placed: Option<(Mapping, u64)>,
    pub(crate) tokens: Mutex<Vec<Token>>,
    /// Streams that the client wants.
    pub(crate) streams_wanted: usize,
    /// Number of streams being served; `None` once no more may attach.
    pub(crate) serving: Mutex<Option<usize>>,
    pub(crate) watch: Mutex<Watch>,
    /// Counts the bytes that the client sends to this node.
    pub(crate) _receiving: Option<Receiving>,
}

/// A stream that is being served.
pub(crate) struct Serving<'a>(&'a Session);

impl Claim {
    /// Whether a transfer of `who` with this label may replace this transfer, whose client is gone. A transfer for a job of
    /// another node can be replaced by peers with access for that job, which the grants prove. Any other transfer can be
    /// replaced by its owner. So can a node to which the owner gives the job, if that node names the same job. The name alone
    /// does not suffice. The caller has
    /// checked the right to write to the destination.
    pub(crate) fn makes_way(&self, who: &Who, label: &str) -> bool {
        match (&self.leave.who.mandate, &who.mandate) {
            (Some(held), Some(named)) => held == named,
            (None, None) => {
                let is_heir = || self.heirs.contains(&who.peer);
                self.owner == who.peer || (!label.is_empty() && self.job == label && is_heir())
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    pub(crate) fn holds_journal(&self) -> bool {
        let held = locked(&self.held);
        held.as_ref().is_some_and(|held| held.journal.is_some())
    }

    /// Whether the transfer belongs to a member whose claim has ended.
    pub(crate) fn has_lost_claim(&self, now: Instant) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| !lease.holds_at(now))
    }

    /// Releases the destination and the place for others.
    pub(crate) fn release(&self) {
        *locked(&self.held) = None;
    }
}

impl Session {
    /// New tokens for the client.
    pub(crate) fn issue(&self, count: usize) -> Result<Vec<Vec<u8>>, getrandom::Error> {
        let mut issued = Vec::with_capacity(count);
        let mut tokens = locked(&self.tokens);
        for _ in 0..count {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes)?;
            tokens.push(Token(bytes));
            issued.push(bytes.to_vec());
        }
        Ok(issued)
    }

    /// Removes the token; returns whether it was valid.
    pub(crate) fn redeem(&self, token: &Token) -> bool {
        let mut tokens = locked(&self.tokens);
        match tokens.iter().position(|known| known == token) {
            Some(index) => {
                tokens.swap_remove(index);
                true
            }
            None => false,
        }
    }

    /// Admits a stream, unless the engine is about to end.
    pub(crate) fn enter(&self) -> Option<Serving<'_>> {
        let mut serving = locked(&self.serving);
        let count = serving.as_mut()?;
        *count += 1;
        Some(Serving(self))
    }

    /// Admits no more streams. Returns false, and changes nothing, if streams are being served.
    pub(crate) fn close(&self) -> bool {
        let mut serving = locked(&self.serving);
        if serving.is_some_and(|count| count > 0) {
            return false;
        }
        *serving = None;
        true
    }

    /// How long the transfer is kept without any stream.
    pub(crate) fn kept_for(&self) -> Duration {
        match self.reached.load(Ordering::Relaxed) {
            true => self.claim.keep_for,
            false => self.claim.keep_for.min(KEPT_UNREACHED),
        }
    }

    /// Whether the client cannot open the transfer again.
    pub(crate) fn is_once(&self) -> bool {
        match &self.engine {
            Engine::Sender(_) => self.output_once,
            Engine::Receiver(receiver) => receiver.comes_once(),
        }
    }

    /// Whether no stream is attached or about to attach.
    pub(crate) fn is_orphan(&self) -> bool {
        let is_served = locked(&self.serving).is_some_and(|count| count > 0);
        !is_served && self.engine.stream_count() == 0
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if let Some(count) = locked(&self.0.serving).as_mut() {
            *count -= 1;
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
