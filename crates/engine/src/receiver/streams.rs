//! Serves the streams of a receiver: attaches and detaches each, and holds what all of them share.
//! Does not place what arrives; `writers` and the sink do.

mod finish;
mod frames;
mod leave;
mod names;
mod stream_loop;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use godwit_net::Stream;
use godwit_proto::{Limit, Status};

use self::stream_loop::StreamLoop;
use super::answer::Answerer;
use super::asked::Asked;
use super::closing::Closing;
use super::peer::Peer;
use super::shared::Shared;
use super::writers::Writers;
use crate::names::NameFeed;
use crate::{StreamLoss, limits, lock};

pub(super) struct Streams {
    shared: Arc<Shared>,
    writers: Arc<Writers>,
    answerer: Arc<Answerer>,
    closing: Closing,
    peer: Peer,
    /// The list that the sender is sent, if there is one.
    feed: OnceLock<Arc<NameFeed>>,
    /// When one of the streams is to say how far this end is.
    status_due: Mutex<Instant>,
    asked: Mutex<Asked>,
}

impl Streams {
    pub(super) fn new(
        shared: &Arc<Shared>,
        writers: &Arc<Writers>,
        answerer: &Arc<Answerer>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            writers: Arc::clone(writers),
            answerer: Arc::clone(answerer),
            closing: Closing::new(Arc::clone(shared)),
            peer: Peer::default(),
            feed: OnceLock::new(),
            status_due: Mutex::new(Instant::now()),
            asked: Mutex::default(),
        }
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// What broke the stream. The transfer goes on with the others.
    pub(super) fn run(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let _panic = self.shared.if_panicking();
        let id = self.shared.attach(stream.waker());
        self.shared.acks.attach(id, stream.waker());
        self.shared.counters.streams_attached.add(1);
        self.shared.counters.table.attach(id, stream);
        let member = self.shared.counters.channels.attach(stream);
        // The thread that watches the channels was started: one that inherits a low priority sees late what is dead.
        let (result, left) = StreamLoop::new(self, id, stream).run();
        self.shared
            .counters
            .table
            .detach(id, stream, &self.shared.counters);
        // One that has left in order has said all, and been heard.
        if !left {
            self.shared.acks.detach(id);
        }
        self.detach_names(id);
        self.shared.detach(id);
        let result = self.shared.counters.channels.detach(member, result);
        if result.is_err() {
            self.shared.counters.streams_lost.add(1);
        }
        result
    }

    /// What the sender says of itself.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the sink is closed, and the last word known.
    pub(super) fn is_finished(&self) -> bool {
        lock(&self.closing.finished).is_some()
    }

    /// What the sender is asked for.
    pub(super) fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }

    /// What the sender has counted and decided. One stream may bring later news than another that comes after it.
    fn take_peer(&self, status: &Status, announced: Option<u64>) {
        let shared = &self.shared;
        shared.decided.hear(&status.tuned, &*shared.config.observer);
        if self.peer.take(status, announced) {
            let limit = status.limit_bytes_per_second;
            self.asked().hear(limit, status.priority);
        }
    }

    /// What the sender is to be asked for now. Another stream says it where this one would have to wait.
    fn poll_limit(&self) -> Option<Limit> {
        self.asked.try_lock().ok()?.poll_limit(Instant::now())
    }

    fn status_is_due(&self) -> bool {
        let now = Instant::now();
        let Ok(mut due) = self.status_due.try_lock() else {
            return false;
        };
        let is_due = *due <= now;
        if is_due {
            *due = now + limits::STATUS_EVERY;
        }
        is_due
    }
}
