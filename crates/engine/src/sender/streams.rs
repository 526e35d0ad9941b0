//! Serves the streams of a sender: attaches and detaches each, and holds their shared state.
//! Does not choose what is sent; the state does.

mod frames;
mod leave;
mod limit;
mod say;
mod step;
mod stream_loop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use godwit_net::{Stream, StreamError};

use self::stream_loop::StreamLoop;
use super::feedback::Feedback;
use super::readers::Readers;
use super::scan::Scan;
use super::shared::Shared;
use crate::counters::Snapshot;
use crate::last_words::last_words;
use crate::{StreamLoss, limits};

pub(super) struct Streams {
    shared: Arc<Shared>,
    scan: Arc<Scan>,
    readers: Arc<Readers>,
    feedback: Feedback,
    /// When one of the streams must send the next STATUS.
    status_due: Mutex<Instant>,
    /// Whether the client at the other end may change the limit.
    obeys_limits: AtomicBool,
}

impl Streams {
    pub(super) fn new(shared: &Arc<Shared>, scan: &Arc<Scan>, readers: &Arc<Readers>) -> Self {
        Self {
            shared: Arc::clone(shared),
            scan: Arc::clone(scan),
            readers: Arc::clone(readers),
            feedback: Feedback::new(Arc::clone(shared), Arc::clone(scan)),
            status_due: Mutex::new(Instant::now() + limits::STATUS_EVERY),
            obeys_limits: AtomicBool::new(false),
        }
    }

    /// Serves one stream on the calling thread until the transfer ends (`Ok`) or the stream breaks.
    ///
    /// # Errors
    /// The cause of the stream's loss. The transfer continues on the others.
    pub(super) fn run(&self, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let _panic = self.shared.if_panicking();
        stream.set_network_use(self.shared.live.congestion(), false)?;
        let id = self
            .shared
            .lock_state()
            .streams
            .attach(stream.waker(), stream.carries_blocks());
        self.shared.counters.streams_attached.add(1);
        self.shared.counters.table.attach(id, stream);
        let member = self.shared.counters.channels.attach(stream);
        // The watch of the channels was started above. If a loop with low priority started it, it would notice
        // dead channels late.
        let result = match StreamLoop::new(self, id, stream).run() {
            // The final message could not be sent, because the socket had no room.
            Err(StreamLoss::Stream(StreamError::Ended { .. })) => {
                stream.shutdown();
                Ok(())
            }
            Err(loss) if self.shared.end().is_none() => {
                match last_words(stream, &loss, &mut |frame| self.take_last(frame)) {
                    Some(end) => {
                        self.shared.finish(end);
                        Ok(())
                    }
                    None => Err(loss),
                }
            }
            other => other,
        };
        if let Some(names) = self.scan.names() {
            names.say_again();
        }
        self.shared
            .counters
            .table
            .detach(id, stream, &self.shared.counters);
        self.shared.lock_state().detach(id);
        self.feedback.report_unnamed();
        let result = self.shared.counters.channels.detach(member, result);
        if result.is_err() {
            self.shared.counters.streams_lost.add(1);
        }
        result
    }

    /// The receiver's counters in its latest report.
    pub(super) fn peer_counters(&self) -> Option<Snapshot> {
        self.feedback.counters()
    }

    /// Lets the receiver, which is the client, change the limit and the number of streams.
    pub(super) fn obey_limits(&self) {
        self.obeys_limits.store(true, Ordering::Relaxed);
    }

    fn obeys_limits(&self) -> bool {
        self.obeys_limits.load(Ordering::Relaxed)
    }

    /// Whether a stream must send a STATUS now: true for one of the streams each time.
    fn status_is_due(&self, now: Instant) -> bool {
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
