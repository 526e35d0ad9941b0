//! State that all parts of a receiver share: its configuration, sink and outbox, its end, and the permission to
//! write. Does none of the work; `answer`, `writers` and `streams` do it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_net::{Stream, Waker};
use godwit_proto::{ErrorCode, Status, WireError};
use godwit_store::digest;

use super::ReceiverConfig;
use crate::counters::Snapshot;
use crate::decided::Decided;
use crate::{Acks, Counters, End, IfPanicking, Live, PANICKED, Sink, StreamLoss, entry, lock};

pub(super) struct Shared {
    pub(super) config: ReceiverConfig,
    pub(super) digest: digest::DigestKind,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) acks: Arc<Acks>,
    pub(super) live: Arc<Live>,
    pub(super) counters: Arc<Counters>,
    pub(super) decided: Decided,
    state: Mutex<State>,
    /// Signals that the transfer has ended, a stream is gone, or the last writing thread has left the sink.
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) next_stream: u64,
    pub(super) streams: HashMap<u64, Waker>,
    /// Streams that the sender must be asked to end.
    pub(super) retiring: Vec<u64>,
    /// Threads inside the sink.
    pub(super) writing: usize,
    /// Number of liveness questions to the sender, and the latest answered one.
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) end: Option<End>,
}

/// Counts a thread inside the sink while it lives.
pub(super) struct WriterCount<'a>(&'a Shared);

impl Drop for WriterCount<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.writing -= 1;
        if state.writing == 0 && state.end.is_some() {
            self.0.changed.notify_all();
        }
    }
}

impl Shared {
    pub(super) fn new(
        config: ReceiverConfig,
        digest: digest::DigestKind,
        sink: Arc<dyn Sink>,
        acks: Arc<Acks>,
        live: Arc<Live>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            config,
            digest,
            sink,
            acks,
            live,
            counters,
            decided: Decided::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn end(&self) -> Option<End> {
        self.lock_state().end.clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock_state().end.is_some()
    }

    /// Waits for the end, at most `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Option<End> {
        crate::wait_for_end(&self.state, &self.changed, timeout, |state| {
            state.end.as_ref()
        })
    }

    pub(super) fn finish(&self, end: End) {
        let mut state = lock(&self.state);
        let State {
            end: ended,
            streams,
            ..
        } = &mut *state;
        let end = ended.get_or_insert(end);
        for waker in streams.values() {
            end.end_wait(waker);
        }
        self.acks.over.set();
        drop(state);
        self.changed.notify_all();
    }

    /// Ends with a failure.
    pub(super) fn fail(&self, code: ErrorCode, message: &str) {
        self.finish(End::Failed {
            code,
            message: message.to_owned(),
            retryable: false,
        });
    }

    /// The sender broke the protocol: ends the transfer, and returns the reason as this stream's loss.
    pub(super) fn refuse(&self, stream: &dyn Stream, what: String) -> StreamLoss {
        self.fail(
            ErrorCode::PROTOCOL,
            &format!("the sender broke the protocol: {what}"),
        );
        StreamLoss::Peer {
            peer: stream.peer(),
            what,
        }
    }

    /// Fails the transfer if a frame of this end does not fit, which should be impossible.
    pub(super) fn encoded(&self, result: Result<(), WireError>) {
        if let Err(error) = result {
            self.fail(
                ErrorCode::INTERNAL,
                &format!("a frame cannot be encoded: {error}"),
            );
        }
    }

    /// Ends the transfer if a thread of this end panics, because others would wait for the thread.
    pub(super) fn if_panicking(&self) -> IfPanicking<impl Fn() + '_> {
        IfPanicking(|| self.fail(ErrorCode::INTERNAL, PANICKED))
    }

    /// Permission to write until the result is dropped; `None` after the end, when the destination may soon
    /// belong to another transfer.
    pub(super) fn begin_write(&self) -> Option<WriterCount<'_>> {
        let mut state = lock(&self.state);
        if state.end.is_some() {
            return None;
        }
        state.writing += 1;
        Some(WriterCount(self))
    }

    /// Waits until no thread is inside the sink; call after the transfer has ended.
    pub(super) fn wait_while_writing(&self) {
        let mut state = self.lock_state();
        while state.writing > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a stream and returns its number.
    pub(super) fn attach(&self, waker: Waker) -> u64 {
        let mut state = self.lock_state();
        state.next_stream += 1;
        let id = state.next_stream;
        state.streams.insert(id, waker);
        id
    }

    /// Removes a stream.
    pub(super) fn detach(&self, id: u64) {
        let mut state = self.lock_state();
        state.streams.remove(&id);
        state.retiring.retain(|other| *other != id);
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn wake_streams(&self) {
        for waker in self.lock_state().streams.values() {
            waker.wake();
        }
    }

    /// This end's counters and decisions.
    pub(super) fn status(&self, counted: &Snapshot) -> Status {
        Status {
            tuned: self.decided.latest(),
            ..entry::status_from_snapshot(counted)
        }
    }
}
