//! How a receiver's stream leaves a transfer that goes on.
//! Does not choose the stream: the client does, whichever end it is.

use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError};
use godwit_proto::{FrameKind, Retire, Retired};

use super::stream::StreamState;
use super::{Receiver, State};
use crate::{StreamLoss, lock};

/// How long the sender may take to hang up after the last word.
const HANG_UP_DEADLINE: Duration = Duration::from_secs(10);

impl Receiver {
    /// Has the sender let stream `id` end once what it sent on it is settled.
    pub fn retire(&self, id: u64) {
        let mut state = lock(&self.state);
        let State {
            streams, retiring, ..
        } = &mut *state;
        if let Some(waker) = streams.get(&id)
            && !retiring.contains(&id)
        {
            retiring.push(id);
            waker.wake();
        }
    }

    /// Asks the sender to end this stream, once, if it is to leave.
    pub(super) fn ask_to_leave(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
    ) -> Result<(), StreamLoss> {
        if own.asked_to_leave || !lock(&self.state).retiring.contains(&own.id) {
            return Ok(());
        }
        own.asked_to_leave = true;
        own.outgoing.clear();
        Retire {}.encode(&mut own.outgoing);
        own.spoke = Instant::now();
        Ok(stream.send(&own.outgoing, &[])?)
    }

    /// The sender has no more for this stream: says what there is to say, and that it was all.
    pub(super) fn leave(
        &self,
        stream: &mut dyn Stream,
        own: &mut StreamState,
    ) -> Result<(), StreamLoss> {
        // From here on nobody leaves it anything to say.
        self.acks.leave(own.id);
        self.flush(stream, own)?;
        own.outgoing.clear();
        Retired {}.encode(&mut own.outgoing);
        stream.send(&own.outgoing, &[])?;
        let since = Instant::now();
        while since.elapsed() < HANG_UP_DEADLINE {
            match stream.try_recv() {
                Ok(Some((prelude, _))) if prelude.kind == FrameKind::BLOCK => {
                    let what = "a block on a stream that it had retired".to_owned();
                    return Err(self.refuse(stream, what));
                }
                // It sent that before it heard us, and needs no answer.
                Ok(Some(_)) => {}
                Ok(None) => {
                    stream.wait(HANG_UP_DEADLINE.saturating_sub(since.elapsed()))?;
                }
                Err(StreamError::Closed { .. }) => {
                    own.left = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            if self.end().is_some() {
                break;
            }
        }
        stream.shutdown();
        Ok(())
    }
}
