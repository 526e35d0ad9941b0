//! Owns what trials have shown: when each kind may begin again, and what is known of the path.
//! Decides nothing.

use std::time::Duration;

use super::super::backoff::Backoff;
use super::parameters::{DOWN_WAIT, EXPLORE_FIRST, EXPLORE_WAIT, MORE_WAIT, UP_WAIT, YIELD_WAIT};

/// When each kind of trial may begin.
#[derive(Debug)]
pub(super) struct Waits {
    /// More streams on evidence.
    pub(super) up: Backoff,
    /// More streams without evidence.
    pub(super) explore: Backoff,
    /// Fewer streams.
    pub(super) down: Backoff,
    /// Fewer streams where storage takes bursts.
    pub(super) spare: Backoff,
    /// Fewer streams in a queue.
    pub(super) yielding: Backoff,
    /// More streams than the other end or the network admitted.
    pub(super) more: Backoff,
}

/// What trials have shown of the path.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// Most streams that the other end or the network admitted.
    pub(super) refused: Option<u32>,
    /// Number of streams at which the path was last seen full. Raises for windows stop here, then go on in small steps.
    pub(super) filled_by: Option<u32>,
    /// Highest rate of a window since the path was last seen full.
    pub(super) peak: f64,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self {
            up: Backoff::new(UP_WAIT, Duration::ZERO),
            explore: Backoff::new(EXPLORE_WAIT, EXPLORE_FIRST),
            down: Backoff::new(DOWN_WAIT, Duration::ZERO),
            spare: Backoff::new(DOWN_WAIT, Duration::ZERO),
            yielding: Backoff::new(YIELD_WAIT, Duration::ZERO),
            more: Backoff::new(MORE_WAIT, Duration::ZERO),
        }
    }

    /// The path is another one: each trial may begin at once.
    pub(super) fn forget(&mut self, now: Duration) {
        for wait in [
            &mut self.up,
            &mut self.explore,
            &mut self.down,
            &mut self.spare,
            &mut self.yielding,
            &mut self.more,
        ] {
            wait.forget(now);
        }
    }
}
