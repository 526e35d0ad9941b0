//! The transfers of this daemon: running ones, and those whose destination is kept for an absent client. Does not begin them
//! (`open`) and does not decide when they end (`keeper`).
//!
//! A second transfer of the same name replaces one whose client is gone. If the client of the first seems to be present, it is
//! asked (PING); if it answers and stays, the second transfer is refused. A transfer of the same job by another node is treated likewise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::job::ClaimId;
use godwit_engine::session::Engine;
use godwit_net::IdentityId;
use godwit_proto::TransferId;

use crate::allow::Who;
use crate::claims::Spot;
use crate::session::{Claim, Session, locked};

/// How often to check whether a probed client has answered: about an RTT.
const ANSWER_LOOK_EVERY: Duration = Duration::from_millis(50);

/// State of the transfer that has a requested name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The transfer has ended.
    Free,
    /// The client of the transfer is present.
    Attended,
    /// The client has not answered, and the transfer has not ended in time.
    Silent,
}

/// How long to wait for a transfer whose name another one needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Wait if the client of the transfer does not answer.
    pub(crate) silent: Duration,
    /// Wait if the client of the transfer answers: a client that was just stopped still answers.
    pub(crate) leaving: Duration,
}

#[derive(Default)]
pub(crate) struct Table {
    inner: Mutex<Inner>,
    /// Whether there ever was a transfer.
    used: AtomicBool,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<[u8; 16], Entry>,
    /// Counts changes that the keeper should check.
    changes: u64,
}

#[derive(Clone)]
pub(crate) enum Entry {
    Running(Arc<Session>),
    /// The client is absent and the engine has ended. The journal records the data that arrived.
    Held {
        claim: Arc<Claim>,
        until: Instant,
    },
}

impl Entry {
    pub(crate) fn claim(&self) -> &Arc<Claim> {
        match self {
            Self::Running(session) => &session.claim,
            Self::Held { claim, .. } => claim,
        }
    }

    pub(crate) fn running(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Running(session) => Some(session),
            Self::Held { .. } => None,
        }
    }
}

impl Inner {
    fn running(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.entries.values().filter_map(Entry::running)
    }

    fn release(&mut self, transfer: &TransferId) {
        if let Some(entry) = self.entries.remove(&transfer.0) {
            entry.claim().release();
        }
        self.changes += 1;
    }
}

impl Table {
    pub(crate) fn insert(&self, session: &Arc<Session>) {
        let mut inner = locked(&self.inner);
        // A transfer without a client does nothing until the client returns, with a new session.
        for other in inner.running().filter(|other| !other.is_orphan()) {
            session.alone.store(false, Ordering::Relaxed);
            other.alone.store(false, Ordering::Relaxed);
        }
        let entry = Entry::Running(Arc::clone(session));
        inner.entries.insert(session.claim.transfer.0, entry);
        self.used.store(true, Ordering::SeqCst);
        self.note_change(inner);
    }

    /// Total of streams that the transfers' clients want; one more may connect to open a transfer.
    pub(crate) fn streams_wanted(&self) -> usize {
        let inner = locked(&self.inner);
        let wanted: usize = inner.running().map(|session| session.streams_wanted).sum();
        wanted.max(1)
    }

    /// Whether no transfer runs; transfers without a client do not count.
    pub(crate) fn is_at_rest(&self) -> bool {
        locked(&self.inner)
            .running()
            .all(|session| session.is_orphan())
    }

    /// The transfer, if it runs.
    pub(crate) fn find(&self, transfer: &TransferId) -> Option<Arc<Session>> {
        let inner = locked(&self.inner);
        inner.entries.get(&transfer.0)?.running().cloned()
    }

    /// All transfers, and the number of changes so far.
    pub(crate) fn entries(&self) -> (Vec<Entry>, u64) {
        let inner = locked(&self.inner);
        (inner.entries.values().cloned().collect(), inner.changes)
    }

    /// Waits until a change after number `seen`, at most until `until`; without transfers, until `idle`.
    pub(crate) fn wait_for_change(&self, seen: u64, until: Instant, idle: Instant) {
        let mut inner = locked(&self.inner);
        while inner.changes == seen {
            let until = match inner.entries.is_empty() {
                true => idle,
                false => until,
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            inner = self.waited_for(inner, left);
        }
    }

    /// Wakes the keeper: a stream has ended, or the daemon ends.
    pub(crate) fn stream_ended(&self) {
        self.note_change(locked(&self.inner));
    }

    /// Keeps the claim of the transfer, whose engine has ended, until `until`.
    pub(crate) fn hold(&self, transfer: &TransferId, until: Instant) {
        let mut inner = locked(&self.inner);
        if let Some(entry) = inner.entries.get_mut(&transfer.0) {
            let claim = Arc::clone(entry.claim());
            *entry = Entry::Held { claim, until };
        }
        self.note_change(inner);
    }

    /// Removes a transfer that has ended.
    pub(crate) fn remove(&self, transfer: &TransferId) {
        let mut inner = locked(&self.inner);
        inner.release(transfer);
        self.note_change(inner);
    }

    /// Releases the suspended transfer whose time ends first. Returns false if there is none.
    pub(crate) fn release_oldest_held(&self) -> bool {
        let mut inner = locked(&self.inner);
        let held = inner.entries.values().filter_map(|entry| match entry {
            Entry::Held { claim, until } => Some((*until, claim.transfer)),
            Entry::Running(_) => None,
        });
        let Some((_, transfer)) = held.min_by_key(|(until, _)| *until) else {
            return false;
        };
        inner.release(&transfer);
        self.note_change(inner);
        true
    }

    /// Number of running transfers of this identity, and of transfers that wait for their client.
    pub(crate) fn count_of(&self, owner: &IdentityId) -> (usize, usize) {
        let inner = locked(&self.inner);
        let own = || {
            inner
                .entries
                .values()
                .filter(|entry| entry.claim().owner == *owner)
        };
        let running = own().filter_map(Entry::running).count();
        (running, own().count() - running)
    }

    /// Whether a transfer that is no member of a claim writes to this place, or above or below it.
    pub(crate) fn is_written(&self, spot: &Spot) -> bool {
        let inner = locked(&self.inner);
        let mut claims = inner.entries.values().map(Entry::claim);
        claims.any(|claim| claim.lease.is_none() && claim.writes_to.overlap(spot))
    }

    /// Whether there is a transfer of a member whose claim has ended, or that was fenced. Transfers of other claims count only if they
    /// write to this place, or above or below it.
    pub(crate) fn has_fenced(&self, of: ClaimId, place: Option<&Spot>) -> bool {
        let now = Instant::now();
        let inner = locked(&self.inner);
        let mut claims = inner.entries.values().map(Entry::claim);
        let is_near = |claim: &Claim| place.is_some_and(|spot| claim.writes_to.overlap(spot));
        claims.any(|claim| {
            let hold = claim.lease.as_ref().filter(|hold| !hold.holds_at(now));
            hold.is_some_and(|hold| hold.claim == of || is_near(claim))
        })
    }

    /// Whether the owner has a transfer with this key.
    pub(crate) fn has(&self, key: &[u8; 32], owner: &IdentityId) -> bool {
        let inner = locked(&self.inner);
        let mut claims = inner.entries.values().map(Entry::claim);
        claims.any(|claim| claim.key.as_ref() == Some(key) && claim.owner == *owner)
    }

    /// Ends the transfer with this key if its client is gone, or leaves within `patience`.
    pub(crate) fn supersede(
        &self,
        key: &[u8; 32],
        owner: &IdentityId,
        patience: Patience,
    ) -> Holder {
        let began = Instant::now();
        let mut inner = locked(&self.inner);
        let mut asked = None;
        let mut answered = false;
        loop {
            let mut entries = inner.entries.values();
            let Some(entry) = entries.find(|entry| entry.claim().key.as_ref() == Some(key)) else {
                return Holder::Free;
            };
            let transfer = entry.claim().transfer;
            if entry.claim().owner != *owner {
                return Holder::Attended;
            }
            match entry {
                Entry::Held { .. } => {
                    inner.release(&transfer);
                    self.changed.notify_all();
                    continue;
                }
                Entry::Running(session) if session.is_orphan() => {
                    session.engine.cancel("the same transfer was started again");
                    inner.changes += 1;
                    self.changed.notify_all();
                }
                Entry::Running(session) => {
                    if let Engine::Receiver(receiver) = &session.engine {
                        let question = *asked.get_or_insert_with(|| receiver.ask_sender());
                        answered |= receiver.sender_answered(question);
                    }
                }
            }
            let (patience, way) = if answered {
                (patience.leaving, Holder::Attended)
            } else {
                (patience.silent, Holder::Silent)
            };
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return way;
            }
            inner = self.waited_for(inner, left.min(ANSWER_LOOK_EVERY));
        }
    }

    /// Ends the transfer that writes to `destination`, an absolute path, if its client is gone. Ends only a transfer that `who` may
    /// end, see [`Claim::makes_way`]. A suspended node keeps its connections, so it counts as gone if it does not answer. Returns
    /// whether such a transfer existed and ended within `patience`, once its client was known to be gone.
    pub(crate) fn end_deserted(
        &self,
        destination: &[u8],
        who: &Who,
        label: &str,
        patience: Duration,
    ) -> bool {
        let began = Instant::now();
        let mut until = began + patience;
        let mut inner = locked(&self.inner);
        let mut asked = None;
        let mut any = false;
        loop {
            let (mut left, mut held) = (false, Vec::new());
            for entry in inner.entries.values() {
                let claim = entry.claim();
                let is_own = claim.owner == who.peer;
                let mut paths = claim.writes_to.paths().iter();
                if !claim.makes_way(who, label) || !paths.any(|path| path == destination) {
                    continue;
                }
                match entry {
                    Entry::Held { .. } => held.push(claim.transfer),
                    Entry::Running(session) if session.is_orphan() => {
                        session
                            .engine
                            .cancel("another transfer to its destination was started");
                        left = true;
                    }
                    Entry::Running(session) if !is_own => {
                        let Engine::Receiver(receiver) = &session.engine else {
                            continue;
                        };
                        let question = *asked.get_or_insert_with(|| {
                            until += patience;
                            receiver.ask_sender()
                        });
                        if receiver.sender_answered(question) {
                            return false;
                        }
                        if began.elapsed() >= patience {
                            session.engine.cancel("another node has the job");
                        }
                        left = true;
                    }
                    Entry::Running(_) => continue,
                }
                any = true;
            }
            for transfer in held {
                inner.release(&transfer);
            }
            inner.changes += 1;
            self.changed.notify_all();
            let time = until.saturating_duration_since(Instant::now());
            if !left || time.is_zero() {
                return any && !left;
            }
            inner = self.waited_for(inner, time.min(ANSWER_LOOK_EVERY));
        }
    }

    pub(crate) fn stop_all(&self, reason: &str) {
        let mut inner = locked(&self.inner);
        let mut held = Vec::new();
        for entry in inner.entries.values() {
            match entry {
                Entry::Running(session) => session.engine.cancel(reason),
                Entry::Held { claim, .. } => held.push(claim.transfer),
            }
        }
        for transfer in held {
            inner.release(&transfer);
        }
        self.note_change(inner);
    }

    pub(crate) fn wait_until_empty(&self) {
        let mut inner = locked(&self.inner);
        while !inner.entries.is_empty() {
            inner = self.waited(inner);
        }
    }

    /// Waits until a transfer has started and all transfers have ended.
    pub(crate) fn wait_until_over(&self) {
        let mut inner = locked(&self.inner);
        while !inner.entries.is_empty() || !self.used.load(Ordering::SeqCst) {
            inner = self.waited(inner);
        }
    }

    fn note_change(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.changes += 1;
        drop(inner);
        self.changed.notify_all();
    }

    fn waited<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.changed
            .wait(inner)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn waited_for<'a>(
        &self,
        inner: MutexGuard<'a, Inner>,
        time: Duration,
    ) -> MutexGuard<'a, Inner> {
        self.changed
            .wait_timeout(inner, time)
            .map_or_else(|poisoned| poisoned.into_inner().0, |(inner, _)| inner)
    }
}
