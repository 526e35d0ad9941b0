//! Bounds how often a site changes the addresses of known nodes: each change is a command of the consensus with up to 256 nodes.
//! Proposes nothing, and reads no clock.

use std::time::Duration;

/// Changes in a row.
const IN_A_ROW: u32 = 16;

/// Interval of further changes after that.
const ONE_EACH: Duration = Duration::from_secs(30);

/// Changes that are still allowed.
#[derive(Debug, Default)]
pub(super) struct AddressPace {
    /// Time at which the full number is allowed again.
    full_at: Duration,
}

impl AddressPace {
    /// Takes one change. Returns false if no change is allowed now.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let after = self.full_at.max(now) + ONE_EACH;
        let is_left = after.saturating_sub(now) <= ONE_EACH * IN_A_ROW;
        if is_left {
            self.full_at = after;
        }
        is_left
    }
}
