//! Serves the streams of a receiver: attaches and detaches each, and holds what all of them share.
//! Does not place what arrives; `writers` and the sink do.

mod finish;
mod frames;
mod leave;
mod names;
mod stream_loop;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use godwit_net::Stream;
use godwit_proto::Status;

use self::stream_loop::StreamLoop;
use super::answer::Answerer;
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
    limit: Mutex<AskedLimit>,
}

/// A limit that the sender is asked for.
#[derive(Default)]
struct AskedLimit {
    wanted: Option<u64>,
    said: Option<Instant>,
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
            limit: Mutex::default(),
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
        // After the thread was started that watches the channels: one that inherits a low priority sees late what is dead.
        self.shared.begin_sharing();
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

    /// Has the streams ask the sender for another limit, until it says that it obeys.
    pub(super) fn ask_limit(&self, bytes_per_second: u64) {
        *lock(&self.limit) = AskedLimit {
            wanted: Some(bytes_per_second),
            said: None,
        };
        self.shared.wake_streams();
    }

    /// The limit that was asked for last, if one was.
    pub(super) fn asked_limit(&self) -> Option<u64> {
        lock(&self.limit).wanted
    }

    /// What the sender has counted and decided. One stream may bring later news than another that comes after it.
    fn take_peer(&self, status: &Status, announced: Option<u64>) {
        let shared = &self.shared;
        shared.decided.hear(&status.tuned, &*shared.config.observer);
        self.peer.take(status, announced);
    }

    /// A limit that the sender is to be asked for, now or once more.
    fn limit_to_say(&self) -> Option<u64> {
        let mut limit = self.limit.try_lock().ok()?;
        let wanted = limit.wanted?;
        let obeyed = self.peer.counters().map(|peer| peer.limit_bytes_per_second);
        let now = Instant::now();
        let said = limit
            .said
            .is_some_and(|said| now.duration_since(said) < limits::STATUS_EVERY);
        if said || (limit.said.is_some() && obeyed == Some(wanted)) {
            return None;
        }
        limit.said = Some(now);
        Some(wanted)
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
