//! Serves the streams of a receiver: attaches and detaches each, and holds their shared state.
//! Does not store received data; `writers` and the sink do.

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
use super::closing::Closing;
use super::peer::Peer;
use super::sender_requests::SenderRequests;
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
    /// The list of names to send, if there is one.
    feed: OnceLock<Arc<NameFeed>>,
    /// When one of the streams must send the next STATUS.
    status_due: Mutex<Instant>,
    asked: Mutex<SenderRequests>,
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
    /// The cause of the stream's loss. The transfer continues on the others.
    pub(super) fn run(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let _panic = self.shared.if_panicking();
        let id = self.shared.attach(stream.waker());
        self.shared.acks.attach(id, stream.waker());
        self.shared.counters.streams_attached.add(1);
        self.shared.counters.table.attach(id, stream);
        let member = self.shared.counters.channels.attach(stream);
        // The watch of the channels was started above. If a loop with low priority started it, it would notice
        // dead channels late.
        let (result, left) = StreamLoop::new(self, id, stream).run();
        self.shared
            .counters
            .table
            .detach(id, stream, &self.shared.counters);
        // A stream that left in order has sent everything, and the sender has received it.
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

    /// The sender's reports.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the sink is closed, and the final frame known.
    pub(super) fn is_finished(&self) -> bool {
        lock(&self.closing.finished).is_some()
    }

    /// The requests to the sender.
    pub(super) fn asked(&self) -> MutexGuard<'_, SenderRequests> {
        lock(&self.asked)
    }

    /// Stores the sender's counters and decisions. Reports on different streams may arrive out of order.
    fn take_peer(&self, status: &Status, announced: Option<u64>) {
        let shared = &self.shared;
        shared.decided.take(&status.tuned, &*shared.config.observer);
        if self.peer.take(status, announced) {
            let limit = status.limit_bytes_per_second;
            self.asked().obeys(limit, status.priority);
        }
    }

    /// The request to send to the sender now. If this stream would have to wait, another stream sends it.
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
