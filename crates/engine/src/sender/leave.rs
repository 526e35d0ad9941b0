//! How a sender's stream leaves a transfer that goes on, in order and with nothing to be sent twice.
//! Does not choose the stream: the client does, whichever end it is.

use std::time::Instant;

use godwit_net::Stream;
use godwit_proto::{FrameKind, Retired};

use super::Sender;
use crate::{StreamLoss, limits};

impl Sender {
    /// Lets stream `id` end once what was sent on it is settled.
    pub fn retire(&self, id: u64) {
        self.shared.lock_state().retire(id);
    }

    /// All that was sent on the stream is settled: parts with the other end, which has the last word.
    pub(super) fn leave(&self, id: u64, stream: &mut dyn Stream) -> Result<(), StreamLoss> {
        let mut head = Vec::new();
        Retired {}.encode(&mut head);
        stream.send(&head, &[])?;
        let since = Instant::now();
        loop {
            while let Some((prelude, head)) = stream.try_recv()? {
                if prelude.kind == FrameKind::RETIRED {
                    stream.shutdown();
                    return Ok(());
                }
                self.handle(id, stream, &prelude, &head)?;
            }
            if let Some(end) = self.shared.end() {
                self.say_goodbye(stream, &end);
                return Ok(());
            }
            if since.elapsed() > limits::SILENCE_MAX {
                return Err(StreamLoss::Silent {
                    peer: stream.peer(),
                    seconds: since.elapsed().as_secs(),
                });
            }
            stream.wait(limits::STATUS_EVERY)?;
        }
    }
}
