//! Decides which bytes and files of a divided job are shown: those that the state has counted, and those under way. Counts nothing twice,
//! and never shows less than before.
//! Reads no clock and asks no node.

use std::time::Instant;

use godwit_api::rest::Amount;

/// Amounts shown of one job.
pub(crate) struct Steady {
    counted: Amount,
    /// Time when the state's count last changed: transfers that ran before may be part of the count.
    changed: Instant,
    shown: Amount,
}

impl Steady {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            counted: Amount::default(),
            changed: now,
            shown: Amount::default(),
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
        self.shown = self.shown.max(counted.plus(on_its_way(self.changed)));
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
        let amount = |bytes: u64| Amount {
            files: bytes / 10,
            bytes,
        };
        // The amount of a node's transfer, and when the node was asked.
        let flight = |asked: u64, bytes: u64| {
            move |since: Instant| match at(asked) > since {
                true => amount(bytes),
                false => amount(0),
            }
        };
        assert_eq!(steady.show(at(2), amount(0), flight(1, 60)), amount(60));
        assert_eq!(steady.show(at(12), amount(0), flight(11, 90)), amount(90));
        // The state has counted the try, and the node was not asked after that.
        assert_eq!(
            steady.show(at(13), amount(100), flight(11, 90)),
            amount(100)
        );
        // A restarted try has moved less than the one before.
        assert_eq!(
            steady.show(at(22), amount(100), flight(21, 50)),
            amount(150)
        );
        assert_eq!(
            steady.show(at(32), amount(100), flight(31, 10)),
            amount(150)
        );
        assert_eq!(
            steady.show(at(42), amount(200), flight(31, 10)),
            amount(200)
        );
    }
}
