//! Tests of the shares of a limit: idle, slow and silent nodes, and properties of all shares.
//! Sends nothing.

use super::*;
use godwit_seeded::Seeded;

const SECOND: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// Simulated nodes of one job, with the state between them and the controller.
struct Nodes {
    shares: Shares,
    names: Vec<String>,
    now: Duration,
    limit: u64,
    pairs: Vec<Pair>,
    /// The shares that each node follows, and the later ones that it does not follow yet, with the time when it will.
    follows: Vec<u64>,
    later: Vec<Vec<(Duration, u64)>>,
    /// After this time a node follows the state.
    lag: Vec<Duration>,
    is_here: Vec<bool>,
    holds: Vec<bool>,
    is_silent: Vec<bool>,
    /// Rates that nodes can reach.
    most: Vec<u64>,
}

impl Nodes {
    fn new(count: usize, limit: u64) -> Self {
        Self {
            shares: Shares::default(),
            names: (0..count).map(|at| format!("s{at}")).collect(),
            now: Duration::ZERO,
            limit,
            pairs: Vec::new(),
            follows: vec![0; count],
            later: vec![Vec::new(); count],
            lag: vec![Duration::from_millis(500); count],
            is_here: vec![true; count],
            holds: vec![false; count],
            is_silent: vec![false; count],
            most: vec![u64::MAX; count],
        }
    }

    fn rate(&self, at: usize) -> u64 {
        match (self.holds[at], self.follows[at]) {
            (false, _) => 0,
            (true, 0) => self.most[at],
            (true, share) => share.min(self.most[at]),
        }
    }

    fn traffic(&self) -> Vec<Traffic> {
        let reported = (0..self.names.len()).filter(|at| !self.is_silent[*at]);
        reported
            .map(|at| Traffic {
                node: self.names[at].clone(),
                #[expect(clippy::cast_precision_loss, reason = "a small number")]
                bytes_per_second: self.rate(at) as f64,
                ..Traffic::default()
            })
            .collect()
    }

    /// Simulates a tenth of a second. The rates that the nodes follow must not exceed the limit in sum.
    fn look(&mut self) {
        self.now += LOOK;
        if self.now.subsec_millis() == 0 {
            let reported = self.traffic();
            let (names, holds) = (&self.names, &self.holds);
            let holds = |node: &str| {
                let mut all = names.iter().zip(holds);
                all.any(|(name, holds)| name == node && *holds)
            };
            self.shares.look(self.now, &reported, holds);
        }
        let here = self.names.iter().zip(&self.is_here);
        let here = here.filter(|(_, is_here)| **is_here).map(|(name, _)| name);
        self.shares.divide(self.now, self.limit, here, &self.pairs);
        let here = self.names.iter().zip(&self.is_here);
        let here = here.filter(|(_, is_here)| **is_here);
        self.pairs = here
            .map(|(node, _)| Pair {
                node: node.clone(),
                to: Vec::new(),
                limit: self.shares.of(node).unwrap_or(1),
            })
            .collect();
        for at in 0..self.names.len() {
            let pair = self.pairs.iter().find(|pair| pair.node == self.names[at]);
            if let Some(pair) = pair {
                let last = self.later[at]
                    .last()
                    .map_or(self.follows[at], |last| last.1);
                if last != pair.limit {
                    self.later[at].push((self.now + self.lag[at], pair.limit));
                }
            }
            while let Some((from, share)) = self.later[at].first().copied()
                && from <= self.now
                && !self.is_silent[at]
            {
                self.follows[at] = share;
                self.later[at].remove(0);
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        let until = self.now + SECOND * u32::try_from(seconds).expect("small");
        while self.now < until {
            self.look();
            if self.limit > 0 {
                assert!(self.sum() <= self.limit, "{self:?}");
            }
        }
    }

    /// A node takes items, with the share that the state has.
    fn take(&mut self, at: usize) {
        let pair = self.pairs.iter().find(|pair| pair.node == self.names[at]);
        let pair = pair.filter(|pair| self.shares.of(&pair.node).is_some());
        if let Some(pair) = pair.filter(|_| !self.is_silent[at]) {
            self.follows[at] = pair.limit;
            self.later[at].clear();
            self.holds[at] = true;
        }
    }

    /// The node answers again, and follows the state a little later.
    fn answer(&mut self, at: usize) {
        self.is_silent[at] = false;
        let from = self.now + self.lag[at];
        for later in &mut self.later[at] {
            later.0 = later.0.max(from);
        }
    }

    fn sum(&self) -> u64 {
        let holding = (0..self.names.len()).filter(|at| self.holds[*at]);
        holding.map(|at| self.follows[at]).sum()
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            now,
            limit,
            follows,
            later,
            holds,
            shares,
            ..
        } = self;
        write!(
            to,
            "{now:?} {limit} {follows:?} {later:?} {holds:?} {shares:?}"
        )
    }
}

#[test]
fn shares_of_all_loads_add_up_to_the_limit_at_most() {
    let mut seeded = Seeded(11);
    for _ in 0..10_000 {
        let loads: Vec<Load> = (0..seeded.below(20))
            .map(|_| match seeded.below(4) {
                0 => Load::Idle,
                1 => Load::Slow(4),
                2 => Load::Slow(16),
                _ => Load::Works,
            })
            .collect();
        let most = 1_u64 << (1 + seeded.below(50));
        let limit = 1 + seeded.below(most);
        let shares = wanted(limit, &loads);
        assert_eq!(shares.len(), loads.len());
        assert!(shares.iter().sum::<u64>() <= limit, "{limit} {loads:?}");
        let count = loads.len() as u64;
        if limit < count || count == 0 {
            continue;
        }
        assert!(shares.iter().all(|share| *share > 0), "{limit} {loads:?}");
        for (load, share) in loads.iter().zip(&shares) {
            let is_full = *share >= limit / count;
            assert!(is_full || *load != Load::Works, "{limit} {loads:?}");
        }
        assert!(shares.iter().sum::<u64>() + count > limit || limit < 32 * count);
    }
}

#[test]
fn the_only_node_with_items_has_nearly_the_whole_limit() {
    for count in [2, 3, 4, 16] {
        let mut nodes = Nodes::new(count, 8_000_000);
        nodes.look();
        (0..count).for_each(|at| nodes.take(at));
        nodes.run(20);
        let equal = 8_000_000 / count as u64;
        assert!(
            nodes.follows.iter().all(|share| *share == equal),
            "{nodes:?}"
        );
        nodes.holds = (0..count).map(|at| at == 1).collect();
        nodes.run(10);
        assert!(nodes.follows[1] >= 7_700_000, "{nodes:?}");
        // The others have items again.
        (0..count).for_each(|at| nodes.take(at));
        nodes.run(10);
        assert!(
            nodes.follows.iter().all(|share| *share == equal),
            "{nodes:?}"
        );
    }
}

#[test]
fn a_slow_node_leaves_the_others_what_it_does_not_use() {
    let mut nodes = Nodes::new(2, 8_000_000);
    nodes.look();
    (0..2).for_each(|at| nodes.take(at));
    nodes.most[0] = 300_000;
    nodes.run(40);
    assert_eq!(nodes.follows, [1_000_000, 7_000_000]);
    nodes.run(40);
    assert_eq!(nodes.follows, [1_000_000, 7_000_000]);
    // It becomes faster.
    nodes.most[0] = u64::MAX;
    nodes.run(20);
    assert_eq!(nodes.follows, [4_000_000, 4_000_000]);
    // Without a faster node a slow one has all.
    nodes.most[0] = 300_000;
    nodes.holds[1] = false;
    nodes.run(40);
    assert!(nodes.follows[0] >= 7_700_000, "{nodes:?}");
}

#[test]
fn a_silent_node_keeps_its_share_until_it_has_lost_its_items() {
    let mut nodes = Nodes::new(3, 9_000_000);
    nodes.look();
    (0..3).for_each(|at| nodes.take(at));
    nodes.run(5);
    nodes.is_silent[0] = true;
    nodes.holds[1] = false;
    nodes.run(60);
    assert_eq!(nodes.follows[0], 3_000_000);
    assert!(nodes.follows[2] <= 6_000_000, "{nodes:?}");
    nodes.holds[0] = false;
    nodes.run(10);
    assert!(nodes.follows[2] >= 8_700_000, "{nodes:?}");
}

#[test]
fn a_node_that_comes_waits_until_the_others_have_less() {
    let mut nodes = Nodes::new(2, 8_000_000);
    nodes.is_here[1] = false;
    nodes.look();
    nodes.take(0);
    nodes.run(10);
    assert_eq!(nodes.follows[0], 8_000_000);
    nodes.is_here[1] = true;
    nodes.look();
    assert_eq!(nodes.shares.of("s1"), None);
    nodes.run(5);
    assert_eq!(nodes.shares.of("s1"), Some(4_000_000));
}

#[test]
fn another_controller_raises_nothing_before_all_follow_what_they_have() {
    let mut nodes = Nodes::new(2, 8_000_000);
    nodes.look();
    (0..2).for_each(|at| nodes.take(at));
    nodes.holds[0] = false;
    nodes.run(20);
    let idle = nodes.follows[0];
    assert!(idle < 200_000, "{nodes:?}");
    nodes.take(0);
    nodes.shares = Shares::default();
    nodes.look();
    assert_eq!(nodes.shares.of("s0"), Some(idle));
    nodes.run(10);
    assert_eq!(nodes.follows, [4_000_000, 4_000_000]);
}

#[test]
fn the_limit_may_change_and_go() {
    let mut nodes = Nodes::new(2, 8_000_000);
    nodes.look();
    (0..2).for_each(|at| nodes.take(at));
    nodes.run(5);
    nodes.limit = 0;
    nodes.run(5);
    assert_eq!(nodes.follows, [0, 0]);
    nodes.limit = 6_000_000;
    nodes.look();
    assert_eq!(nodes.shares.of("s0"), Some(3_000_000));
    nodes.run(5);
    nodes.limit = 8_000_000;
    nodes.look();
    assert_eq!(nodes.shares.of("s0"), Some(4_000_000));
}

#[test]
fn nodes_follow_no_more_than_the_limit_whatever_happens() {
    for seed in 0..60 {
        let mut seeded = Seeded(seed);
        let count = 1 + usize::try_from(seeded.below(6)).expect("small");
        let limit = 1 + seeded.below(100_000_000);
        let mut nodes = Nodes::new(count, limit);
        for lag in &mut nodes.lag {
            *lag = Duration::from_millis(100 * seeded.below(9));
        }
        for _ in 0..200 {
            for at in 0..count {
                match seeded.below(20) {
                    0 => nodes.is_silent[at] = true,
                    1 | 2 => nodes.answer(at),
                    3 | 4 => nodes.holds[at] = false,
                    5..8 => nodes.take(at),
                    8 => nodes.is_here[at] = false,
                    9 | 10 => nodes.is_here[at] = true,
                    11 => nodes.most[at] = 1 + seeded.below(limit),
                    12 => nodes.most[at] = u64::MAX,
                    _ => {}
                }
            }
            nodes.run(1 + seeded.below(4));
        }
        // In the end one node has items, and all answer.
        for at in 0..count {
            nodes.is_here[at] = true;
            nodes.holds[at] = false;
            nodes.most[at] = u64::MAX;
            nodes.answer(at);
        }
        nodes.run(10);
        nodes.take(0);
        nodes.run(10);
        if limit > 1_000 {
            assert!(nodes.follows[0] >= limit / 100 * 95, "{nodes:?}");
        }
    }
}
