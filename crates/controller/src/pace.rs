//! Decides how much a node leases next: more while leases take little time, less near the end of the job, and nothing where the others are
//! sooner without it. So no slow node holds the last items while all others wait.
//! Reads no clock and no state.

use std::collections::VecDeque;
use std::time::Duration;

use godwit_run::walk::PART_BYTES;

/// Number of scans in the first lease, and in the largest lease. Each lease costs one transfer.
const SIZE_FIRST: u32 = 1;
const SIZE_MAX: u32 = 16;
/// Number of scans in the largest lease of a node that sends alone: no other node waits for its items.
const SIZE_ALONE_MAX: u32 = 64;
/// A lease is at most this many times the one before: beside other nodes, and alone.
const GROWS: u32 = 2;
const GROWS_ALONE: u32 = 4;
/// A lease is as much as the node moves in this time. No node may hold much while others wait, or may join.
const TAKES: Duration = Duration::from_secs(10);
/// Near the end a lease is no less than what the node moves in this time.
const TAKES_LEAST: Duration = Duration::from_secs(2);
/// A lease that took less time, and moved fewer files and bytes, says nothing about the node: it found only directories.
const TELLS_AFTER: Duration = Duration::from_secs(2);
const TELLS_FILES: u64 = 256;
const TELLS_BYTES: u64 = 16 << 20;
/// The rate of the other nodes is measured over this time, so that a blocked node is soon ignored.
const WINDOW: Duration = Duration::from_secs(15);
/// A node leaves an item to the other nodes if it needs this many times as long for it as they need for all remaining items, and this
/// much longer.
const TIMES: f64 = 1.1;
const SLACK_SECONDS: f64 = 1.0;
/// A node takes one in this many of its share of the rest at once.
const PARTS: f64 = 2.0;

/// Open items of a job: scans and parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    /// Items that can be leased.
    pub(crate) ready: u64,
    /// Items that other nodes hold.
    pub(crate) held: u64,
    /// Other nodes that may lease.
    pub(crate) others: u64,
    /// Parts among the items that can be leased, and the bytes of these parts.
    pub(crate) parts: u64,
    pub(crate) part_bytes: u64,
}

/// How much a node leases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Take {
    /// Scans at most.
    pub(crate) scans: u32,
    /// Bytes of parts at most, but for the first part.
    pub(crate) part_bytes: u64,
}

/// Outcome of a lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// Scans and parts that were leased, and how many of them were settled.
    pub(crate) items: u64,
    pub(crate) settled: u64,
    /// Files and bytes that were moved.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// How fast a node and the others settle items.
pub(crate) struct Pace {
    size: u32,
    /// No other node could lease at the latest look.
    is_alone: bool,
    /// Leases in a row at whose begin no other node could lease.
    alone: u32,
    /// Seconds that an item takes this node; None before the first one.
    own_seconds: Option<f64>,
    /// Bytes that this node moves in a second; None before the first lease with some.
    own_rate: Option<f64>,
    own_settled: u64,
    /// Items of other nodes that were settled until a given time.
    seen: VecDeque<(Duration, u64)>,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            size: SIZE_FIRST,
            is_alone: false,
            alone: 0,
            own_seconds: None,
            own_rate: None,
            own_settled: 0,
            seen: VecDeque::new(),
        }
    }

    /// Takes the number of settled items of the job at this time.
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

    /// Takes the duration of a lease.
    pub(crate) fn took(&mut self, lease: Took, took: Duration) {
        self.own_settled += lease.settled;
        self.alone = match self.is_alone {
            true => self.alone.saturating_add(1),
            false => 0,
        };
        let tells = lease.files >= TELLS_FILES || lease.bytes >= TELLS_BYTES;
        if !tells && took < TELLS_AFTER {
            return;
        }
        let mean = |before: Option<f64>, last: f64| {
            Some(before.map_or(last, |before| f64::midpoint(before, last)))
        };
        let seconds = took.as_secs_f64().max(0.001);
        let own_seconds = seconds / float(lease.items.max(1));
        self.own_seconds = mean(self.own_seconds, own_seconds);
        if lease.bytes >= TELLS_BYTES {
            self.own_rate = mean(self.own_rate, float(lease.bytes) / seconds);
        }
        // The other nodes may join during the first lease of a job.
        let (grows, size_max) = match self.alone {
            0 | 1 => (GROWS, SIZE_MAX),
            _ => (GROWS_ALONE, SIZE_ALONE_MAX),
        };
        let most = self.within(TAKES).min(size_max);
        self.size = (self.size * grows).min(most).max(1);
    }

    /// Items that this node settles in this time.
    fn within(&self, time: Duration) -> u32 {
        let own_seconds = self.own_seconds.unwrap_or(time.as_secs_f64());
        whole(time.as_secs_f64() / own_seconds.max(0.001))
    }

    /// Bytes that this node moves in this time.
    fn bytes_within(&self, time: Duration) -> Option<u64> {
        Some(bytes(self.own_rate? * time.as_secs_f64()))
    }

    /// How much is leased now; None leaves all to others for the time being.
    pub(crate) fn next(&mut self, now: Duration, left: Left) -> Option<Take> {
        self.is_alone = left.others == 0;
        let most = self.bytes_within(TAKES).unwrap_or(u64::MAX);
        let scans = match self.is_alone {
            true => self.size,
            // Another node has joined.
            false => self.size.min(SIZE_MAX),
        };
        let all = Take {
            scans,
            part_bytes: (u64::from(scans) * PART_BYTES).min(most),
        };
        let Some(own_seconds) = self.own_seconds else {
            return Some(all);
        };
        let rate = self.rate_of_others(now, left.held);
        if rate <= 0.0 || left.others == 0 || left.ready == 0 {
            return Some(all);
        }
        // Each node does one of the last items, and half of the leased items are done.
        let without = (float(left.held) / 2.0 + float(left.ready.max(left.others))) / rate;
        // Parts come before scans.
        let part_seconds = self
            .own_rate
            .filter(|_| left.parts > 0)
            .map(|rate| float(left.part_bytes) / float(left.parts) / rate);
        if part_seconds.unwrap_or(own_seconds) > TIMES * without + SLACK_SECONDS {
            return None;
        }
        let own_rate = 1.0 / own_seconds.max(0.001);
        let part = own_rate / (own_rate + rate) / PARTS;
        let share = whole(float(left.ready) * part).max(self.within(TAKES_LEAST));
        let share_bytes = bytes(float(left.part_bytes) * part)
            .max(self.bytes_within(TAKES_LEAST).unwrap_or(0))
            .max(1);
        Some(Take {
            scans: all.scans.min(share.max(1)),
            part_bytes: all.part_bytes.min(share_bytes),
        })
    }

    /// Items that the others settle in a second. If the others have settled no items since the start of the window, half of their leases count.
    fn rate_of_others(&self, now: Duration, held: u64) -> f64 {
        let (Some((from, before)), Some((_, after))) = (self.seen.front(), self.seen.back()) else {
            return 0.0;
        };
        let seconds = now.saturating_sub(*from).as_secs_f64();
        let begun = if *before == 0 { float(held) / 2.0 } else { 0.0 };
        let settled = float(after.saturating_sub(*before));
        if settled <= 0.0 {
            return 0.0;
        }
        (settled + begun) / seconds.max(1.0)
    }
}

/// The whole part of a number of items.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats end at the bounds"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

/// The whole part of a number of bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats end at the bounds"
)]
fn bytes(number: f64) -> u64 {
    number as u64
}

#[expect(clippy::cast_precision_loss, reason = "counts of items are small")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of each item: scans of small files, or parts.
    #[derive(Clone, Copy)]
    enum Items {
        Scans(u64),
        Parts(u64),
    }

    /// Cost of each lease beside its bytes.
    const LEASE_SECONDS: f64 = 0.4;

    /// Seconds until some items are settled by nodes with these rates in bytes a second. And the longest lease in seconds.
    fn settle(mut ready: u64, items: Items, rates: &[f64]) -> (f64, f64) {
        struct Node {
            pace: Pace,
            busy: Option<(f64, u64)>,
            began: f64,
        }
        let (each, are_parts) = match items {
            Items::Scans(each) => (each, false),
            Items::Parts(each) => (each, true),
        };
        let node = || Node {
            pace: Pace::new(),
            busy: None,
            began: 0.0,
        };
        let mut nodes: Vec<Node> = rates.iter().map(|_| node()).collect();
        let (mut now, mut settled, mut longest) = (0.0, 0, 0.0_f64);
        loop {
            let at = Duration::from_secs_f64(now);
            for node in &mut nodes {
                if let Some((until, items)) = node.busy.filter(|(until, _)| *until <= now) {
                    let took = until - node.began;
                    longest = longest.max(took);
                    settled += items;
                    let lease = Took {
                        items,
                        settled: items,
                        files: items,
                        bytes: items * each,
                    };
                    node.pace.took(lease, Duration::from_secs_f64(took));
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
                return (now, longest);
            }
            for (node, rate) in nodes.iter_mut().zip(rates) {
                let parts = if are_parts { ready } else { 0 };
                let left = Left {
                    ready,
                    held,
                    others: rates.len() as u64 - 1,
                    parts,
                    part_bytes: parts * each,
                };
                if node.busy.is_some() || ready == 0 {
                    continue;
                }
                if let Some(take) = node.pace.next(at, left) {
                    let items = match are_parts {
                        true => (take.part_bytes / each).max(1),
                        false => take.scans.into(),
                    };
                    // The state gives out items like this.
                    let items = items.min(ready.div_ceil(rates.len() as u64));
                    ready -= items;
                    node.began = now;
                    let seconds = float(items * each) / rate + LEASE_SECONDS;
                    node.busy = Some((now + seconds, items));
                }
            }
            now += 0.1;
            assert!(now < 10_000.0, "it never ends");
        }
    }

    /// 130, 470 and 820 Mbit/s.
    const UNEQUAL: [f64; 3] = [16.25e6, 58.75e6, 102.5e6];

    #[test]
    fn a_slow_node_never_holds_the_last_items_for_long() {
        let rate: f64 = UNEQUAL.iter().sum();
        let mib = 1_u64 << 20;
        for items in [Items::Scans(64 * mib), Items::Parts(256 * mib)] {
            let (Items::Scans(each) | Items::Parts(each)) = items;
            // The first part of the slowest node alone takes 17 s.
            let least = if each == 64 * mib { 2 } else { 4 };
            for gib in [least, 6, 10, 50] {
                let bytes = gib * 1_024 * mib;
                let (took, _) = settle(bytes / each, items, &UNEQUAL);
                let best = float(bytes) / rate;
                let most = 1.15 * best + 3.0;
                assert!(took <= most, "{gib} GiB of {each}: {took} s of {best} s");
            }
        }
    }

    #[test]
    fn slow_nodes_of_any_rate_hold_nothing_up() {
        let mut seeded = godwit_seeded::Seeded(7);
        let mut below = |most: u64| seeded.below(most);
        for _ in 0..200 {
            let count = 2 + below(5);
            let rates: Vec<f64> = (0..count).map(|_| float(10 + below(110)) * 1e6).collect();
            let gib = 4 + below(30);
            let each = 64_u64 << 20;
            let (took, longest) = settle(gib * 16, Items::Scans(each), &rates);
            let best = float(gib * 16 * each) / rates.iter().sum::<f64>();
            assert!(
                took <= 1.15 * best + 5.0,
                "{rates:?}, {gib} GiB: {took} s of {best} s"
            );
            // No lease takes long, even if the first ones were slow.
            assert!(longest <= 21.0, "{rates:?}: {longest}");
        }
    }

    #[test]
    fn equal_nodes_and_lone_ones_leave_nothing_undone() {
        let scans = Items::Scans(64 << 20);
        assert!(settle(20, scans, &[32e6; 3]).0 < 18.0);
        assert!(settle(3, scans, &[13e6; 3]).0 < 7.0);
        assert!(settle(7, scans, &[6e9, 6e9, 2.2e6]).0 < 35.0);
        assert!(settle(10, scans, &[22e6]).0 < 37.0);
    }

    #[test]
    fn leases_that_find_directories_alone_say_nothing() {
        let mut pace = Pace::new();
        let found = Took {
            items: 1,
            settled: 1,
            ..Took::default()
        };
        for _ in 0..8 {
            pace.took(found, Duration::from_millis(20));
        }
        let take = pace.next(Duration::from_secs(1), Left::default());
        assert_eq!(take.map(|take| take.scans), Some(SIZE_FIRST));
    }

    #[test]
    fn a_lease_is_bounded_by_the_rate_of_its_node() {
        let mut pace = Pace::new();
        let lease = Took {
            items: 1,
            settled: 1,
            files: 1,
            bytes: 64 << 20,
        };
        // 16 MiB/s: 10 s of it.
        for _ in 0..8 {
            pace.took(lease, Duration::from_secs(4));
        }
        let take = pace.next(Duration::from_secs(40), Left::default());
        let expected = Take {
            scans: 2,
            part_bytes: 160 << 20,
        };
        assert_eq!(take, Some(expected));
    }

    #[test]
    fn a_lone_node_leases_more_until_another_one_joins() {
        let mut pace = Pace::new();
        let at = Duration::from_secs;
        let alone = |pace: &mut Pace| pace.next(at(1), Left::default()).map(|take| take.scans);
        let mut sizes = Vec::new();
        for _ in 0..5 {
            // Looks that found nothing to lease are no leases.
            alone(&mut pace);
            let scans = alone(&mut pace).expect("a lease");
            sizes.push(scans);
            let items = u64::from(scans);
            let lease = Took {
                items,
                settled: items,
                files: 4_096 * items,
                bytes: 0,
            };
            pace.took(lease, Duration::from_millis(100 * items));
        }
        assert_eq!(sizes, [1, 2, 8, 32, 64]);
        let left = Left {
            ready: 1_000,
            others: 1,
            ..Left::default()
        };
        let beside = pace.next(at(2), left).map(|take| take.scans);
        assert_eq!(beside, Some(SIZE_MAX));
        // 10 s of it, and no more.
        let lease = Took {
            items: 16,
            settled: 16,
            files: 65_536,
            bytes: 0,
        };
        for _ in 0..8 {
            alone(&mut pace);
            pace.took(lease, at(16));
        }
        assert_eq!(alone(&mut pace), Some(10));
    }

    #[test]
    fn a_lone_node_begins_few_leases() {
        let (each, rate) = (64_u64 << 20, 335e6);
        let best = float(560 * each) / rate;
        let (took, longest) = settle(560, Items::Scans(each), &[rate]);
        assert!(took < best + 25.0 * LEASE_SECONDS, "{took} s of {best} s");
        assert!(longest <= 11.0, "{longest}");
    }

    #[test]
    fn a_slow_node_continues_once_the_others_stand_still() {
        let mut pace = Pace::new();
        let at = Duration::from_secs;
        pace.saw(at(0), 0);
        let lease = Took {
            items: 1,
            settled: 1,
            files: 1,
            bytes: 256 << 20,
        };
        pace.took(lease, at(20));
        pace.saw(at(20), 21);
        let left = Left {
            ready: 1,
            held: 2,
            others: 2,
            ..Left::default()
        };
        assert_eq!(pace.next(at(21), left), None);
        for second in 21..60 {
            pace.saw(at(second), 21);
        }
        assert!(pace.next(at(60), left).is_some());
    }
}
