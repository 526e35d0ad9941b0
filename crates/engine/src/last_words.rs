//! Reads the peer's last frames after a send to it has failed, up to the end of the transfer. Interprets only how the peer ended it; the
//! caller takes the other frames, which may be sent again on another stream.
//!
//! A peer that hung up with a closed window could block a send for a minute or more. The send is given up after one
//! second without room; frames that the peer sent before are still read.

use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamError};
use godwit_proto::{Frame, FrameKind, decode};

use crate::{End, StreamLoss};

/// How long to wait for last frames after the sending direction broke: other programs relay them, each at its own
/// speed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Payload is dropped in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// The end that the peer announced on a stream whose send failed; `None` if it announced none. `take` gets each frame without contents, and
/// returns the end that follows from it.
pub(crate) fn last_words(
    stream: &mut dyn Stream,
    loss: &StreamLoss,
    take: &mut dyn FnMut(Frame) -> Option<End>,
) -> Option<End> {
    let StreamLoss::Stream(StreamError::Network { .. }) = loss else {
        return None;
    };
    let until = Instant::now() + PATIENCE;
    stream.set_stall_limit(PATIENCE);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let Some((prelude, head)) = stream.try_recv().ok()? else {
            stream.wait(left).ok()?;
            continue;
        };
        if matches!(prelude.kind, FrameKind::ERROR | FrameKind::CANCEL) {
            return match decode(&prelude, &head).ok()? {
                Frame::Error(error) => Some(End::by_failure(error)),
                Frame::Cancel(cancel) => Some(End::by_peer(&cancel.reason)),
                _ => None,
            };
        }
        let mut dropped = prelude.payload_bytes as usize;
        if dropped == 0
            && let Ok(frame) = decode(&prelude, &head)
            && let Some(end) = take(frame)
        {
            return Some(end);
        }
        let mut piece = vec![0; dropped.min(PIECE_BYTES)];
        while dropped > 0 {
            if Instant::now() >= until {
                return None;
            }
            let bytes = dropped.min(PIECE_BYTES);
            stream.recv_payload(&mut piece[..bytes]).ok()?;
            dropped -= bytes;
        }
    }
}
