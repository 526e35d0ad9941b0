//! Waits until the limit of the transfer lets a stream send, and receives meanwhile. Does not know what the limit
//! is; `live` does.

use std::time::{Duration, Instant};

use super::stream_loop::StreamLoop;
use crate::StreamLoss;

/// A wait for the limit is counted at this interval, because it may be longer than the window in which the
/// bottleneck is determined.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// Result of a wait for the limit.
pub(super) struct Waited {
    /// Whether the other end sent anything meanwhile.
    pub(super) any: bool,
    pub(super) turn: Turn,
}

/// How a wait for the limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The data may be sent, and its bytes are reserved.
    Come,
    /// The transfer ended: nothing may be sent.
    Ended,
    /// The stream must leave. Another stream sends the data and counts it against the limit.
    Left,
}

impl StreamLoop<'_> {
    /// Waits until the rate limit admits `bytes`, the transfer ends or the stream must leave; acknowledgements are
    /// processed meanwhile.
    pub(super) fn obey_limit(&mut self, bytes: u64) -> Result<Waited, StreamLoss> {
        let mut any = false;
        let rate = self.shared.live.rate();
        let mut changes = rate.changes();
        let mut now = Instant::now();
        let mut until = now + rate.reserve(bytes, now);
        loop {
            if rate.changes() != changes {
                changes = rate.changes();
                until = now + rate.reserve(bytes, now);
            }
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                let turn = Turn::Come;
                return Ok(Waited { any, turn });
            }
            if self.shared.end().is_some() {
                let turn = Turn::Ended;
                return Ok(Waited { any, turn });
            }
            // With many streams, this stream's turn may be seconds away, and new streams have no room until it has
            // left.
            if self.shared.lock_state().streams.is_retiring(self.id) {
                rate.give_back(bytes, changes);
                let turn = Turn::Left;
                return Ok(Waited { any, turn });
            }
            self.stream.wait(left.min(COUNT_EVERY))?;
            any |= self.listen()?;
            self.shared.counters.limited_ns.add_since(now);
            now = Instant::now();
        }
    }
}
