//! Decides which bytes and files of a divided job are shown: those that the state has counted, and those under way. Counts nothing twice,
//! and never shows less than before.
//! Reads no clock and asks no node.

use std::time::Instant;

/// Bytes and files.
pub(crate) type Amount = (u64, u64);

/// Amounts shown of one job.
pub(crate) struct Steady {
    counted: Amount,
    /// Time when the state's count last changed: transfers that ran before may be part of the count.
    changed: Instant,
    shown: Amount,
}

impl Steady {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            counted: (0, 0),
            changed: now,
            shown: (0, 0),
        }
    }

    /// The amounts to show now. `on_its_way` returns the amounts in transfer, from reports requested after a given time.
    pub(crate) fn show(
        &mut self,
        now: Instant,
        counted: Amount,
        on_its_way: impl FnOnce(Instant) -> Amount,
    ) -> Amount {
        if counted != self.counted {
            (self.counted, self.changed) = (counted, now);
        }
        let (bytes, files) = on_its_way(self.changed);
        self.shown = (
            self.shown.0.max(counted.0.saturating_add(bytes)),
            self.shown.1.max(counted.1.saturating_add(files)),
        );
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn figures_never_fall_and_count_nothing_twice() {
        let start = Instant::now();
        let at = |tenths: u64| start + Duration::from_millis(100 * tenths);
        let mut steady = Steady::new(start);
        // The amount of a node's transfer, and when the node was asked.
        let flight = |asked: u64, bytes: u64| {
            move |since: Instant| match at(asked) > since {
                true => (bytes, bytes / 10),
                false => (0, 0),
            }
        };
        assert_eq!(steady.show(at(2), (0, 0), flight(1, 60)), (60, 6));
        assert_eq!(steady.show(at(12), (0, 0), flight(11, 90)), (90, 9));
        // The state has counted it, and the node was not asked since.
        assert_eq!(steady.show(at(13), (100, 10), flight(11, 90)), (100, 10));
        // A restarted try has moved less than the one before.
        assert_eq!(steady.show(at(22), (100, 10), flight(21, 50)), (150, 15));
        assert_eq!(steady.show(at(32), (100, 10), flight(31, 10)), (150, 15));
        assert_eq!(steady.show(at(42), (200, 20), flight(31, 10)), (200, 20));
    }
}
