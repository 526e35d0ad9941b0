//! Decides which nodes of the source rest because more of them oversubscribe the path, and among how many a limit is divided.
//! Reads no clock and asks nobody: what nodes tell, and when, are arguments.
//!
//! All nodes send at first. Where much has to be sent again, one of them rests for a while: if the others bring as much without it, it
//! goes on resting (MemzNet: more streams than the path carries cost rate). Now and then a node that rests is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// After a change nothing is measured for so long; rates are those of some seconds.
const SETTLES: Duration = Duration::from_secs(10);
/// How long is measured.
const WINDOW: Duration = Duration::from_secs(15);
/// A node that is to rest ends its lease first; no longer is waited for that.
const ENDS_WITHIN: Duration = Duration::from_mins(2);
/// Who tells nothing for so long has no share of the limit.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Until a trial that won nothing is made again; twice as long after each further one.
const WAIT: Duration = Duration::from_mins(2);
const WAIT_MAX: Duration = Duration::from_mins(30);

/// So much of what was sent was sent again: the path may be oversubscribed.
const RESENT_HIGH: f64 = 0.05;
/// Without a node at least so much of the rate before: the node rests.
const AS_MUCH: f64 = 0.95;
/// With one more node at least so much of it: the node goes on.
const MORE: f64 = 1.05;

/// What a node does for the job now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Name of the node.
    pub node: String,
    /// Rate of the last seconds.
    pub bytes_per_second: f64,
    /// Bytes that passed over its paths in this transfer.
    pub passed_bytes: u64,
    /// Bytes that it sent again in this transfer.
    pub resent_bytes: u64,
    /// Streams attached.
    pub streams: u32,
}

/// What was measured since a moment.
#[derive(Default)]
struct Window {
    from: Duration,
    samples: u32,
    rates: BTreeMap<String, f64>,
    passed: u64,
    resent: u64,
}

impl Window {
    fn rate(&self) -> f64 {
        self.rates.values().sum::<f64>() / f64::from(self.samples.max(1))
    }

    /// The share of what was sent that was sent again.
    fn resent(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a share needs no more digits")]
        let share = self.resent as f64 / self.passed.max(1) as f64;
        share
    }
}

/// A trial that runs, or none.
enum Trial {
    None,
    /// A node rests since a moment.
    Less(String, f64, Duration),
    /// A node sends again.
    More(String, f64),
}

/// When a trial may be made again.
struct Patience {
    at: Duration,
    wait: Duration,
}

impl Patience {
    const fn new(at: Duration) -> Self {
        Self { at, wait: WAIT }
    }

    fn lost(&mut self, now: Duration) {
        self.at = now + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }
}

/// Follows the nodes of one job.
pub(crate) struct Watch {
    /// The nodes of the source, since when, and when each told something last.
    crew: BTreeMap<String, (Duration, Option<Duration>)>,
    /// Counters that each told last.
    counters: BTreeMap<String, (u64, u64)>,
    resting: Vec<String>,
    sampled: Option<Duration>,
    window: Window,
    trial: Trial,
    less: Patience,
    more: Patience,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            crew: BTreeMap::new(),
            counters: BTreeMap::new(),
            resting: Vec::new(),
            sampled: None,
            window: Window::default(),
            trial: Trial::None,
            less: Patience::new(Duration::ZERO),
            more: Patience::new(Duration::ZERO),
        }
    }

    /// Nodes that send nothing for now.
    pub(crate) fn resting(&self) -> &[String] {
        &self.resting
    }

    /// Among how many nodes a limit is divided: those that send, but for who tells nothing any more.
    pub(crate) fn sharing(&self, now: Duration) -> usize {
        let sends = self.crew.iter().filter(|(node, (since, told))| {
            let last = told.unwrap_or(*since);
            !self.resting.contains(node) && now.saturating_sub(last) < SILENT_AFTER
        });
        sends.count().max(1)
    }

    /// Takes what nodes tell at a moment. Gives a sentence where a decision was made.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        crew: &[String],
        told: impl FnOnce() -> Vec<Traffic>,
    ) -> Option<String> {
        let is_same =
            crew.len() == self.crew.len() && crew.iter().all(|node| self.crew.contains_key(node));
        if !is_same {
            self.crew_is(now, crew);
        }
        if self.sampled.is_some_and(|at| now < at + SAMPLE_EVERY) {
            return None;
        }
        self.sampled = Some(now);
        let told = told();
        self.sample(now, &told);
        if let Trial::Less(node, _, since) = &self.trial {
            let ends = told.iter().any(|one| one.node == *node && one.streams > 0);
            if ends && now < *since + ENDS_WITHIN {
                self.measure_from(now + SETTLES);
            }
        }
        if now < self.window.from + WINDOW {
            return None;
        }
        let window = std::mem::take(&mut self.window);
        self.measure_from(now);
        self.decide(now, &window)
    }

    /// Other nodes may make another path: all of them send.
    fn crew_is(&mut self, now: Duration, crew: &[String]) {
        let before = std::mem::take(&mut self.crew);
        self.crew = crew
            .iter()
            .map(|node| {
                let known = before.get(node).copied();
                (node.clone(), known.unwrap_or((now, None)))
            })
            .collect();
        self.resting.clear();
        self.trial = Trial::None;
        (self.less, self.more) = (Patience::new(now), Patience::new(now));
        self.measure_from(now + SETTLES);
    }

    fn measure_from(&mut self, from: Duration) {
        self.window = Window {
            from,
            ..Window::default()
        };
    }

    fn sample(&mut self, now: Duration, told: &[Traffic]) {
        let is_measured = now >= self.window.from;
        self.window.samples += u32::from(is_measured);
        for one in told {
            if let Some((_, last)) = self.crew.get_mut(&one.node) {
                *last = Some(now);
            }
            let counters = (one.passed_bytes, one.resent_bytes);
            let before = self.counters.insert(one.node.clone(), counters);
            if is_measured {
                // Counters begin anew with each lease.
                let (passed, resent) = before
                    .filter(|(passed, _)| *passed <= one.passed_bytes)
                    .unwrap_or_default();
                self.window.passed += one.passed_bytes - passed;
                self.window.resent += one.resent_bytes.saturating_sub(resent);
                *self.window.rates.entry(one.node.clone()).or_default() += one.bytes_per_second;
            }
        }
    }

    fn decide(&mut self, now: Duration, window: &Window) -> Option<String> {
        let rate = window.rate();
        if rate <= 0.0 {
            return None;
        }
        match std::mem::replace(&mut self.trial, Trial::None) {
            Trial::None => self.begin_trial(now, window),
            Trial::Less(node, before, _) if rate >= before * AS_MUCH => {
                self.more.lost(now);
                let part = 100.0 * rate / before;
                Some(format!(
                    "the node {node} rests: more nodes than the path carries; the others bring {part:.0} % of the rate without it"
                ))
            }
            Trial::Less(node, ..) => {
                self.resting.retain(|resting| *resting != node);
                self.less.lost(now);
                self.measure_from(now + SETTLES);
                None
            }
            Trial::More(node, before) if rate >= before * MORE => {
                self.more = Patience::new(now);
                Some(format!(
                    "the node {node} sends again: the path carries more than before"
                ))
            }
            Trial::More(node, _) => {
                self.resting.push(node);
                self.more.lost(now);
                self.measure_from(now + SETTLES);
                None
            }
        }
    }

    fn begin_trial(&mut self, now: Duration, window: &Window) -> Option<String> {
        let rate = window.rate();
        let sending = self.crew.len() - self.resting.len();
        if sending > 1 && window.resent() > RESENT_HIGH && now >= self.less.at {
            let of = |node: &String| window.rates.get(node).copied().unwrap_or(0.0);
            let sends = self.crew.keys().filter(|node| !self.resting.contains(node));
            let slowest = sends.min_by(|one, other| of(one).total_cmp(&of(other)))?;
            let slowest = slowest.clone();
            self.resting.push(slowest.clone());
            self.trial = Trial::Less(slowest, rate, now);
        } else if now >= self.more.at
            && let Some(node) = self.resting.pop()
        {
            self.trial = Trial::More(node, rate);
        } else {
            return None;
        }
        self.measure_from(now + SETTLES);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that carries `capacity` bytes a second; what is sent beyond that is lost, and costs rate.
    struct Path {
        capacity: f64,
        each: f64,
        passed: BTreeMap<String, (f64, f64)>,
    }

    impl Path {
        fn new(capacity: f64) -> Self {
            Self {
                capacity,
                each: 100e6,
                passed: BTreeMap::new(),
            }
        }

        fn rate(&self, nodes: usize) -> f64 {
            #[allow(clippy::cast_precision_loss, reason = "a few nodes")]
            let wanted = nodes as f64 * self.each;
            let over = (wanted / self.capacity - 1.0).max(0.0);
            wanted.min(self.capacity) * (1.0 - 0.1 * over)
        }

        /// One second in which these nodes send.
        fn second(&mut self, sending: &[String]) -> Vec<Traffic> {
            #[allow(clippy::cast_precision_loss, reason = "a few nodes")]
            let count = sending.len() as f64;
            let share = self.rate(sending.len()) / count;
            let lost = (self.each - share).max(0.0);
            let traffic = sending.iter().map(|node| {
                let sum = self.passed.entry(node.clone()).or_default();
                (sum.0, sum.1) = (sum.0 + share + lost, sum.1 + lost);
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "below 2^53"
                )]
                let bytes = |sum: f64| sum as u64;
                Traffic {
                    node: node.clone(),
                    bytes_per_second: share,
                    passed_bytes: bytes(sum.0),
                    resent_bytes: bytes(sum.1),
                    streams: 4,
                }
            });
            traffic.collect()
        }
    }

    fn crew(count: usize) -> Vec<String> {
        (0..count).map(|node| format!("n{node}")).collect()
    }

    fn sending(watch: &Watch, crew: &[String]) -> Vec<String> {
        let sends = crew.iter().filter(|node| !watch.resting().contains(node));
        sends.cloned().collect()
    }

    /// The number of nodes that send after so many seconds, and the bytes that they brought.
    fn run(
        watch: &mut Watch,
        path: &mut Path,
        crew: &[String],
        seconds: std::ops::Range<u64>,
    ) -> f64 {
        let mut brought = 0.0;
        for second in seconds {
            let sends = sending(watch, crew);
            let told = path.second(&sends);
            brought += told.iter().map(|one| one.bytes_per_second).sum::<f64>();
            watch.look(Duration::from_secs(second), crew, || told);
        }
        brought
    }

    #[test]
    fn nodes_rest_where_more_of_them_oversubscribe_the_path() {
        for (count, capacity, best) in [(8, 250e6, 3), (4, 100e6, 1), (3, 150e6, 2)] {
            let (mut watch, mut path) = (Watch::new(), Path::new(capacity));
            let crew = crew(count);
            let all = path.rate(count);
            let brought = run(&mut watch, &mut path, &crew, 0..1_200);
            let sends = sending(&watch, &crew).len();
            assert!((best..=best + 1).contains(&sends), "{count}: {sends} send");
            assert!(brought > all * 1_200.0, "{count}: it cost rate");
        }
    }

    #[test]
    fn where_the_path_carries_all_nodes_none_ever_rests() {
        let (mut watch, mut path) = (Watch::new(), Path::new(1e9));
        let crew = crew(8);
        for part in 0..20 {
            run(&mut watch, &mut path, &crew, part * 60..part * 60 + 60);
            assert!(watch.resting().is_empty());
        }
    }

    #[test]
    fn losses_that_are_not_of_the_nodes_making_cost_little() {
        let (mut watch, crew) = (Watch::new(), crew(4));
        let mut brought = 0.0;
        let mut passed: BTreeMap<String, u64> = BTreeMap::new();
        for second in 0..3_600_u64 {
            let sends = sending(&watch, &crew);
            brought += 1e8 * f64::from(u32::try_from(sends.len()).unwrap());
            let told = sends.iter().map(|node| {
                let sum = passed.entry(node.clone()).or_default();
                *sum += 110_000_000;
                Traffic {
                    node: node.clone(),
                    bytes_per_second: 1e8,
                    passed_bytes: *sum,
                    resent_bytes: *sum / 11,
                    streams: 4,
                }
            });
            let told: Vec<Traffic> = told.collect();
            watch.look(Duration::from_secs(second), &crew, || told);
        }
        assert!(brought > 0.98 * 4e8 * 3_600.0, "{brought}");
    }

    #[test]
    fn when_a_node_is_lost_all_others_send() {
        let (mut watch, mut path) = (Watch::new(), Path::new(200e6));
        let four = crew(4);
        run(&mut watch, &mut path, &four, 0..600);
        assert!(!watch.resting().is_empty());
        run(&mut watch, &mut path, &four[..3], 600..602);
        assert!(watch.resting().is_empty());
    }

    #[test]
    fn where_the_path_widens_nodes_that_rest_send_again() {
        let (mut watch, mut path) = (Watch::new(), Path::new(100e6));
        let crew = crew(4);
        run(&mut watch, &mut path, &crew, 0..600);
        assert_eq!(watch.resting().len(), 3);
        path.capacity = 1e9;
        run(&mut watch, &mut path, &crew, 600..4_000);
        assert!(watch.resting().is_empty(), "{:?}", watch.resting());
    }

    #[test]
    fn who_tells_nothing_has_no_share_of_the_limit() {
        let (mut watch, crew) = (Watch::new(), crew(3));
        let told = |nodes: &[String]| {
            let of = |node: &String| Traffic {
                node: node.clone(),
                ..Traffic::default()
            };
            nodes.iter().map(of).collect::<Vec<_>>()
        };
        for second in 0..5 {
            watch.look(Duration::from_secs(second), &crew, || told(&crew));
        }
        assert_eq!(watch.sharing(Duration::from_secs(5)), 3);
        for second in 5..20 {
            watch.look(Duration::from_secs(second), &crew, || told(&crew[..2]));
        }
        assert_eq!(watch.sharing(Duration::from_secs(20)), 2);
        watch.look(Duration::from_secs(21), &crew, || told(&crew));
        assert_eq!(watch.sharing(Duration::from_secs(21)), 3);
    }
}
