//! Decides how much a node leases next: more while leases take little time, less near the end of the job, and nothing where the others are
//! sooner without it. So no slow node holds the last items while all others wait.
//! Reads no clock and no state.

use std::collections::VecDeque;
use std::time::Duration;

/// Scans of one lease, each of some thousand files, and as many parts of the least length: at the beginning, and at most. Nobody is to hold
/// much while others wait, and each lease costs a transfer of its own.
const SIZE_FIRST: u32 = 1;
const SIZE_MAX: u32 = 8;
/// A lease that takes less is followed by a larger one, and a lease that takes more by a smaller one.
const TAKES_LEAST: Duration = Duration::from_secs(8);
const TAKES_MOST: Duration = Duration::from_secs(20);
/// The rate of the others is that of so long: who stands still is soon counted on no more.
const WINDOW: Duration = Duration::from_secs(15);
/// A node leaves an item to the others where it would take so many times as long as all that is left takes them, and so much longer.
const TIMES: f64 = 1.5;
const SLACK_SECONDS: f64 = 1.0;
/// Of its part of what is left a node takes one in so many at once.
const PARTS: f64 = 2.0;

/// What is open of a job: scans and parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    /// Items that can be leased.
    pub(crate) ready: u64,
    /// Items that other nodes hold.
    pub(crate) held: u64,
    /// Other nodes that may lease.
    pub(crate) others: u64,
}

/// How fast a node and the others settle items.
pub(crate) struct Pace {
    size: u32,
    /// Seconds that an item takes this node; None before the first one.
    own_seconds: Option<f64>,
    own_settled: u64,
    /// Items of others that were settled by a time.
    seen: VecDeque<(Duration, u64)>,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            size: SIZE_FIRST,
            own_seconds: None,
            own_settled: 0,
            seen: VecDeque::new(),
        }
    }

    /// The job had so many items settled at this time.
    pub(crate) fn saw(&mut self, now: Duration, settled: u64) {
        let others = settled.saturating_sub(self.own_settled);
        let is_old = |at: &(Duration, u64)| at.0 + WINDOW < now;
        while self.seen.len() > 1 && self.seen.get(1).is_some_and(is_old) {
            self.seen.pop_front();
        }
        // One a second is enough.
        let is_new = |(at, _): &(Duration, u64)| *at + Duration::from_secs(1) <= now;
        if self.seen.back().is_none_or(is_new) {
            self.seen.push_back((now, others));
        }
    }

    /// A lease of so many items took so long, and so many of them were settled.
    pub(crate) fn took(&mut self, items: u64, settled: u64, took: Duration) {
        self.own_settled += settled;
        self.size = if took < TAKES_LEAST {
            (self.size * 2).min(SIZE_MAX)
        } else if took > TAKES_MOST {
            (self.size / 2).max(1)
        } else {
            self.size
        };
        let last = took.as_secs_f64() / float(items.max(1));
        self.own_seconds = Some(match self.own_seconds {
            Some(before) => f64::midpoint(before, last),
            None => last,
        });
    }

    /// How many items are leased now; None leaves them to others for the time being.
    pub(crate) fn next(&self, now: Duration, left: Left) -> Option<u32> {
        let Some(own_seconds) = self.own_seconds else {
            return Some(self.size);
        };
        let rate = self.rate_of_others(now);
        if rate <= 0.0 || left.others == 0 || left.ready == 0 {
            return Some(self.size);
        }
        // Each of them does one of the last items, and half of what they hold is done.
        let without = (float(left.held) / 2.0 + float(left.ready.max(left.others))) / rate;
        if own_seconds > TIMES * without + SLACK_SECONDS {
            return None;
        }
        let own_rate = 1.0 / own_seconds.max(0.001);
        let share = float(left.ready) * own_rate / (own_rate + rate) / PARTS;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few items"
        )]
        let most = share.min(float(SIZE_MAX.into())) as u32;
        Some(self.size.min(most.max(1)))
    }

    /// Items that the others settle in a second.
    fn rate_of_others(&self, now: Duration) -> f64 {
        let (Some((from, before)), Some((_, after))) = (self.seen.front(), self.seen.back()) else {
            return 0.0;
        };
        let seconds = now.saturating_sub(*from).as_secs_f64();
        float(after.saturating_sub(*before)) / seconds.max(1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of items are small")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds until some items are settled by nodes of which each takes so many seconds for an item.
    fn settle(mut ready: u64, seconds_of: &[f64]) -> f64 {
        struct Node {
            pace: Pace,
            busy: Option<(f64, u64)>,
            began: f64,
        }
        let node = || Node {
            pace: Pace::new(),
            busy: None,
            began: 0.0,
        };
        let mut nodes: Vec<Node> = seconds_of.iter().map(|_| node()).collect();
        let (mut now, mut settled) = (0.0, 0);
        loop {
            let at = Duration::from_secs_f64(now);
            for node in &mut nodes {
                if let Some((until, items)) = node.busy.filter(|(until, _)| *until <= now) {
                    let took = Duration::from_secs_f64(until - node.began);
                    settled += items;
                    node.pace.took(items, items, took);
                    node.busy = None;
                }
                node.pace.saw(at, settled);
            }
            let held: u64 = nodes
                .iter()
                .filter_map(|node| node.busy)
                .map(|one| one.1)
                .sum();
            if ready + held == 0 {
                return now;
            }
            for (node, seconds) in nodes.iter_mut().zip(seconds_of) {
                let left = Left {
                    ready,
                    held,
                    others: seconds_of.len() as u64 - 1,
                };
                if node.busy.is_some() || ready == 0 {
                    continue;
                }
                if let Some(items) = node.pace.next(at, left) {
                    let items = u64::from(items).min(ready);
                    ready -= items;
                    node.began = now;
                    node.busy = Some((now + seconds * float(items), items));
                }
            }
            now += 0.1;
            assert!(now < 10_000.0, "it never ends");
        }
    }

    #[test]
    fn a_slow_node_never_holds_the_last_items_for_long() {
        // 130, 470 and 820 Mbit/s, and items of 256 MiB.
        let seconds = [16.5, 4.6, 2.6];
        let rate: f64 = seconds.iter().map(|one| 1.0 / one).sum();
        for items in [8, 16, 40, 200] {
            let took = settle(items, &seconds);
            let best = float(items) / rate;
            assert!(took <= 1.15 * best + 5.0, "{items}: {took} s of {best} s");
        }
    }

    #[test]
    fn equal_nodes_and_lone_ones_leave_nothing_undone() {
        assert!(settle(20, &[2.0, 2.0, 2.0]) < 18.0);
        assert!(settle(3, &[5.0, 5.0, 5.0]) < 7.0);
        assert!(settle(7, &[0.01, 0.01, 30.0]) < 35.0);
        assert!(settle(10, &[3.0]) < 33.0);
    }

    #[test]
    fn a_slow_node_goes_on_once_the_others_stand_still() {
        let mut pace = Pace::new();
        let at = Duration::from_secs;
        pace.saw(at(0), 0);
        pace.took(1, 1, at(20));
        pace.saw(at(20), 21);
        let left = Left {
            ready: 1,
            held: 2,
            others: 2,
        };
        assert_eq!(pace.next(at(21), left), None);
        for second in 21..60 {
            pace.saw(at(second), 21);
        }
        assert_eq!(pace.next(at(60), left), Some(1));
    }
}
