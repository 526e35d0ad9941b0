//! Owns how long a blocked send or receive of a stream may wait. Does not wait.

use std::io;
use std::time::{Duration, Instant};

use crate::limits::END_GRACE;
use crate::socket::Socket;
use crate::stream::StreamError;

/// The limits of waiting for the peer.
pub(super) struct Patience {
    pub(super) stall_limit: Duration,
    /// When a send first had to wait after the stream's owner had ended the stream.
    ended_since: Option<Instant>,
}

impl Patience {
    pub(super) const fn new(stall_limit: Duration) -> Self {
        Self {
            stall_limit,
            ended_since: None,
        }
    }

    /// Time left without progress.
    pub(super) fn left(
        &self,
        socket: &Socket,
        action: &'static str,
        passed: Duration,
    ) -> Result<Duration, StreamError> {
        let left = self.stall_limit.saturating_sub(passed);
        if left.is_zero() {
            return Err(StreamError::Stalled {
                peer: socket.peer().to_owned(),
                doing: action,
                after: passed,
            });
        }
        // At least 1 ms, because a poll of zero would return at once, again and again.
        Ok(left.max(Duration::from_millis(1)))
    }

    /// Time left for a blocked send after the owner ended the stream: pending data may be sent, so that a final frame
    /// can follow.
    pub(super) fn left_after_end(
        &mut self,
        socket: &Socket,
        now: Instant,
    ) -> Result<Duration, StreamError> {
        let since = *self.ended_since.get_or_insert(now);
        let left = END_GRACE.saturating_sub(now.duration_since(since));
        if left.is_zero() {
            return Err(StreamError::Ended {
                peer: socket.peer().to_owned(),
            });
        }
        Ok(left.max(Duration::from_millis(1)))
    }

    /// Time left for a blocked send after the peer hung up. Such a peer may be gone. If its window was closed before,
    /// the window stays closed, and the kernel notices only after a minute or more.
    pub(super) fn left_after_hang_up(
        socket: &Socket,
        waited: Duration,
    ) -> Result<Duration, StreamError> {
        let left = END_GRACE.saturating_sub(waited);
        if left.is_zero() {
            let source = io::Error::new(io::ErrorKind::BrokenPipe, "the peer has hung up");
            return Err(socket.network_fault("send", source));
        }
        Ok(left.max(Duration::from_millis(1)))
    }
}
