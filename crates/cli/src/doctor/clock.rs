//! The difference of two clocks, from the times that each showed around one exchange.
//! Reads no clock.

use std::time::Duration;

use super::findings::Findings;

/// From this difference on, times of the two machines cannot be compared.
const NOTABLE: Duration = Duration::from_secs(1);

/// One exchange: a question, and its answer with the time of the other clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Our clock when the question left, since 1970.
    pub(super) sent: Duration,
    /// Time from the question to the answer.
    pub(super) took: Duration,
    /// The part of `took` that the other side used.
    pub(super) held: Duration,
    /// The other clock at the end of `held`, in nanoseconds since 1970.
    pub(super) theirs_ns: i128,
}

/// The measured difference to the other clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Nanoseconds by which the other clock is ahead of ours; negative if it is behind.
    pub(super) ahead_ns: i128,
    /// Possible error of the difference: half of the round trip, because the split between both directions is unknown.
    pub(super) uncertainty: Duration,
}

impl Difference {
    /// The difference by one exchange.
    pub(super) fn of(exchange: &Exchange) -> Self {
        let half = exchange.took.saturating_sub(exchange.held) / 2;
        let ours = exchange.sent + exchange.held.min(exchange.took) + half;
        Self {
            ahead_ns: exchange.theirs_ns - nanos(ours),
            uncertainty: half,
        }
    }

    /// The difference by the most exact exchange.
    pub(super) fn best(exchanges: &[Exchange]) -> Option<Self> {
        let all = exchanges.iter().map(Self::of);
        all.min_by_key(|difference| difference.uncertainty)
    }

    /// The difference in seconds.
    pub(super) fn ahead_seconds(&self) -> f64 {
        self.ahead_ns as f64 / 1e9
    }

    /// Whether the clocks differ by more than a second, even with the uncertainty.
    fn is_notable(&self) -> bool {
        self.ahead_ns.unsigned_abs() > (self.uncertainty + NOTABLE).as_nanos()
    }

    /// Adds the difference to the findings.
    pub(super) fn report(&self, whose: &str, findings: &mut Findings) {
        let (seconds, word) = match self.ahead_seconds() {
            ahead if ahead < 0.0 => (-ahead, "behind"),
            ahead => (ahead, "ahead of"),
        };
        let message = format!(
            "the clock of {whose} is {seconds:.6} s {word} ours, within {:.6} s",
            self.uncertainty.as_secs_f64()
        );
        if self.is_notable() {
            let mend = "as root, on the machine whose clock is wrong: timedatectl set-ntp true (--update, --newer and --older compare times of both machines)";
            findings.note("clock", message, Some(mend.to_owned()));
        } else {
            findings.fine("clock", message);
        }
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(took_ms: u64, held_ms: u64, there_ms: i128) -> Exchange {
        Exchange {
            sent: Duration::from_secs(1_000),
            took: Duration::from_millis(took_ms),
            held: Duration::from_millis(held_ms),
            theirs_ns: 1_000_000_000_000 + there_ms * 1_000_000,
        }
    }

    #[test]
    fn the_difference_is_right_within_its_uncertainty_however_the_way_is_divided() {
        // The other clock is 500 ms ahead; the question travels for `there`, the answer for `back`.
        for (there, held, back) in [(10, 0, 10), (20, 0, 0), (0, 0, 20), (5, 30, 15), (0, 3, 0)] {
            let shown = i128::from(there + held) + 500;
            let found = Difference::of(&exchange(there + held + back, held, shown));
            assert_eq!(found.uncertainty, Duration::from_millis(there + back) / 2);
            let wrong = (found.ahead_ns - 500_000_000).unsigned_abs();
            assert!(wrong <= found.uncertainty.as_nanos(), "{found:?}");
        }
    }

    #[test]
    fn the_shortest_exchange_says_most_and_a_hasty_peer_says_nothing_odd() {
        let all = [exchange(100, 0, 90), exchange(10, 2, 6), exchange(30, 0, 0)];
        let best = Difference::best(&all).expect("some");
        assert_eq!(best.uncertainty, Duration::from_millis(4));
        assert_eq!(best.ahead_ns, 0);
        assert_eq!(Difference::best(&[]), None);
        // The other side claims to have taken longer than the whole exchange.
        let odd = Difference::of(&exchange(10, 1_000, -3_600_000));
        assert_eq!(odd.uncertainty, Duration::ZERO);
        assert!(odd.is_notable() && odd.ahead_seconds() < -3_599.0);
    }

    #[test]
    fn a_second_beyond_what_is_uncertain_is_worth_a_note() {
        for (ahead_ms, uncertain_ms, level) in [
            (900, 0, "fine"),
            (1_100, 0, "note"),
            (-1_100, 0, "note"),
            (1_100, 200, "fine"),
            (-5_000, 200, "note"),
        ] {
            let difference = Difference {
                ahead_ns: ahead_ms * 1_000_000,
                uncertainty: Duration::from_millis(uncertain_ms),
            };
            let mut findings = Findings::default();
            difference.report("dtn2", &mut findings);
            assert_eq!(
                findings.all[0].level.name(),
                level,
                "{ahead_ms} {uncertain_ms}"
            );
        }
    }
}
