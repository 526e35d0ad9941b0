//! Lets a sender's stream leave while the transfer continues, in order and without sending any item twice. Does not
//! choose the stream; the client does, at either end.
//!
//! A stream that retires gets no more items. If a block waits there for the rate limit, its reservation is returned,
//! and another stream sends it. When all items of the stream are WRITTEN, both ends send RETIRED.

use std::time::Instant;

use godwit_proto::{FrameKind, Retired};

use super::stream_loop::StreamLoop;
use crate::{StreamLoss, limits};

impl StreamLoop<'_> {
    /// Ends the stream after everything sent on it is settled; the other end sends the last message.
    pub(super) fn leave(&mut self) -> Result<(), StreamLoss> {
        let mut head = Vec::new();
        Retired {}.encode(&mut head);
        self.stream.send(&head, &[])?;
        let since = Instant::now();
        loop {
            while let Some((prelude, head)) = self.stream.try_recv()? {
                if prelude.kind == FrameKind::RETIRED {
                    self.stream.shutdown();
                    return Ok(());
                }
                self.handle(&prelude, &head)?;
            }
            if let Some(end) = self.shared.end() {
                self.say_goodbye(&end);
                return Ok(());
            }
            if since.elapsed() > limits::SILENCE_MAX {
                return Err(StreamLoss::Silent {
                    peer: self.stream.peer(),
                    seconds: since.elapsed().as_secs(),
                });
            }
            self.stream.wait(limits::STATUS_EVERY)?;
        }
    }
}
