//! Lets a receiver's stream leave while the transfer continues. Does not choose the stream; the client
//! does, at either end.

use std::time::{Duration, Instant};

use godwit_net::StreamError;
use godwit_proto::{FrameKind, Retire, Retired};

use super::stream_loop::StreamLoop;
use crate::StreamLoss;

/// Time within which the sender must close the connection after the final frame.
const HANG_UP_DEADLINE: Duration = Duration::from_secs(10);

impl StreamLoop<'_> {
    /// Asks the sender, once, to end this stream if it must leave.
    pub(super) fn ask_to_leave(&mut self) -> Result<(), StreamLoss> {
        if self.asked_to_leave || !self.shared.lock_state().retiring.contains(&self.id) {
            return Ok(());
        }
        self.asked_to_leave = true;
        self.outgoing.clear();
        Retire {}.encode(&mut self.outgoing);
        self.spoke = Instant::now();
        Ok(self.stream.send(&self.outgoing, &[])?)
    }

    /// Called when the sender has no more items for this stream: sends everything pending, then RETIRED.
    pub(super) fn leave(&mut self) -> Result<(), StreamLoss> {
        // From here on no thread queues messages for this stream.
        self.shared.acks.leave(self.id);
        self.flush()?;
        self.outgoing.clear();
        Retired {}.encode(&mut self.outgoing);
        self.stream.send(&self.outgoing, &[])?;
        let since = Instant::now();
        while since.elapsed() < HANG_UP_DEADLINE {
            match self.stream.try_recv() {
                Ok(Some((prelude, _))) if prelude.kind == FrameKind::BLOCK => {
                    let what = "a block on a stream that it had retired".to_owned();
                    return Err(self.refuse(what));
                }
                // The sender sent this before it received our message; no answer is needed.
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.stream
                        .wait(HANG_UP_DEADLINE.saturating_sub(since.elapsed()))?;
                }
                Err(StreamError::Closed { .. }) => {
                    self.left = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            if self.shared.end().is_some() {
                break;
            }
        }
        self.stream.shutdown();
        Ok(())
    }
}
