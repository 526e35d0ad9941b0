//! Decides which nodes of the source rest because more of them oversubscribe the path.
//! Reads no clock and asks no node: reports and their times are arguments.
//!
//! All nodes send at first. If many bytes are resent, one in eight nodes, at least one, rests for a while. If the other nodes move as
//! much as before, the node keeps resting (MemzNet: more streams than the path carries cost rate). Now and then the resting nodes are
//! tried again. If
//! a node is lost, or nothing moves, all send.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_api::ask::NodeFault;

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// After a change nothing is measured for this long; rates are means over some seconds.
const SETTLES: Duration = Duration::from_secs(10);
/// How long is measured.
const WINDOW: Duration = Duration::from_secs(15);
/// A node that is to rest ends its lease first; no longer is waited for that.
const ENDS_WITHIN: Duration = Duration::from_mins(2);
/// A node that reports nothing for this long, and holds nothing, sends nothing.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Wait until an unsuccessful trial is repeated; twice as long after each further one.
const WAIT: Duration = Duration::from_mins(2);
const WAIT_MAX: Duration = Duration::from_mins(30);

/// Part of the data that was sent again: from this on the path may be oversubscribed.
const RESENT_HIGH: f64 = 0.05;
/// Loss of the best rate up to which nodes keep resting. The loss must also be less than half of the rate that these nodes would add.
const LESS_MAX: f64 = 0.05;
/// Part of the best rate that remains after each window.
const BEST_KEEPS: f64 = 0.98;
/// One node out of this many rests at a time.
const STEP: usize = 8;

/// The traffic of a node for the job now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Name of the node.
    pub node: String,
    /// Time since the node was asked.
    pub age: Duration,
    /// Identity of the destination's node that receives from this node; empty if unknown.
    pub to: String,
    /// Rate of the last seconds.
    pub bytes_per_second: f64,
    /// Bytes that passed over the paths of this node in this transfer.
    pub passed_bytes: u64,
    /// Bytes that this node sent again in this transfer.
    pub resent_bytes: u64,
    /// Streams attached.
    pub streams: u32,
    /// Nodes of the destination that could not write.
    pub faults: Vec<NodeFault>,
}

/// Measurements since a moment.
#[derive(Default)]
struct Window {
    from: Duration,
    samples: u32,
    /// The sum of the rates that each node reported, and the number of reports.
    rates: BTreeMap<String, (f64, u32)>,
    passed: u64,
    resent: u64,
}

impl Window {
    /// The rate of all nodes but the resting ones.
    fn rate(&self, resting: &[String]) -> f64 {
        let sending = self
            .rates
            .iter()
            .filter(|(node, _)| !resting.contains(node));
        sending.map(|(_, (sum, _))| sum).sum::<f64>() / f64::from(self.samples.max(1))
    }

    /// The share of sent data that was sent again.
    fn resent(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a share needs no more digits")]
        let share = self.resent as f64 / self.passed.max(1) as f64;
        share
    }
}

/// A trial that runs, or none.
enum Trial {
    None,
    /// Number of nodes that rest for this trial, the rate before, and when they began to rest.
    Less(usize, f64, Duration),
    /// These nodes send again; the rate before.
    More(Vec<String>, f64),
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

/// Last signs of a node.
#[derive(Clone)]
struct Known {
    /// Time of the node's last report, or of the node's arrival if that is later.
    reported: Duration,
    /// The node had streams at its last report, or holds items.
    moves: bool,
}

/// Follows the nodes of one job.
pub(crate) struct Watch {
    /// The nodes of the source.
    crew: BTreeMap<String, Known>,
    /// Counters that each node reported last.
    counters: BTreeMap<String, (u64, u64)>,
    resting: Vec<String>,
    sampled: Option<Duration>,
    window: Window,
    trial: Trial,
    less: Patience,
    more: Patience,
    /// The best rate since the nodes changed.
    best: f64,
    /// Nodes that report nothing and hold nothing.
    silent: Vec<String>,
    /// No node is watched now, and no node may rest for a trial.
    is_paused: bool,
    may_rest: bool,
    decided: Vec<String>,
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
            best: 0.0,
            silent: Vec::new(),
            is_paused: false,
            may_rest: true,
            decided: Vec::new(),
        }
    }

    /// Nodes that send nothing for now.
    pub(crate) fn resting(&self) -> impl Iterator<Item = &String> {
        self.resting.iter().chain(&self.silent)
    }

    /// Whether a node of the crew does not answer and holds no work.
    pub(crate) fn is_silent(&self, node: &str) -> bool {
        self.silent.iter().any(|silent| silent == node)
    }

    /// No node sends for now, so no node reports anything.
    pub(crate) const fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Whether nodes may rest for a trial.
    pub(crate) const fn may_rest(&mut self, may: bool) {
        self.may_rest = may;
    }

    /// Sentences about the decisions.
    pub(crate) fn decided(&mut self) -> Vec<String> {
        std::mem::take(&mut self.decided)
    }

    /// Takes the reports of nodes at a moment. `holds`: whether a node has items.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        crew: &[String],
        traffic: impl FnOnce() -> Vec<Traffic>,
        holds: impl Fn(&str) -> bool,
    ) {
        let is_same =
            crew.len() == self.crew.len() && crew.iter().all(|node| self.crew.contains_key(node));
        if !is_same {
            self.crew_is(crew, now);
            self.all_send(now, "the set of nodes has changed");
        }
        if std::mem::take(&mut self.is_paused) {
            self.crew
                .values_mut()
                .for_each(|known| known.reported = now);
            self.measure_from(now + SETTLES);
        }
        if self.sampled.is_some_and(|at| now < at + SAMPLE_EVERY) {
            return;
        }
        self.sampled = Some(now);
        let traffic = traffic();
        self.sample(now, &traffic);
        for node in &self.resting {
            if let Some(known) = self.crew.get_mut(node) {
                known.moves |= holds(node);
            }
        }
        self.look_for_silent(now, holds);
        if let Trial::Less(count, ..) = self.trial {
            let tried = &self.resting[self.resting.len() - count..];
            let ends = tried
                .iter()
                .any(|node| self.crew.get(node).is_some_and(|known| known.moves));
            if ends {
                self.measure_from(now + SETTLES);
            }
        }
        if let Trial::Less(_, _, since) = self.trial
            && now >= since + ENDS_WITHIN
            && now < self.window.from
        {
            self.trial_lost(now);
        }
        if now < self.window.from + WINDOW {
            return;
        }
        let window = std::mem::take(&mut self.window);
        self.measure_from(now);
        self.decide(now, &window);
    }

    fn crew_is(&mut self, crew: &[String], now: Duration) {
        let before = std::mem::take(&mut self.crew);
        let known = |node: &String| {
            let new = || Known {
                reported: now,
                moves: false,
            };
            (node.clone(), before.get(node).cloned().unwrap_or_else(new))
        };
        self.crew = crew.iter().map(known).collect();
        self.silent.retain(|node| self.crew.contains_key(node));
    }

    /// Other nodes may make another path.
    fn all_send(&mut self, now: Duration, why: &str) {
        if !self.resting.is_empty() {
            self.resting.clear();
            self.decided.push(format!("all nodes send again: {why}"));
        }
        self.trial = Trial::None;
        (self.less, self.more) = (Patience::new(now), Patience::new(now));
        self.best = 0.0;
        self.measure_from(now + SETTLES);
    }

    /// A node that reports nothing and holds nothing is lost, or will be soon.
    fn look_for_silent(&mut self, now: Duration, holds: impl Fn(&str) -> bool) {
        let is_silent = |(node, known): &(&String, &Known)| {
            now.saturating_sub(known.reported) >= SILENT_AFTER && !holds(node)
        };
        let silent = self.crew.iter().filter(is_silent);
        let silent: Vec<String> = silent.map(|(node, _)| node.clone()).collect();
        if silent != self.silent {
            for node in silent.iter().filter(|node| !self.silent.contains(node)) {
                self.decided.push(format!(
                    "the node {node} does not answer this node, and holds no work; it gets no work until it answers"
                ));
            }
            self.silent = silent;
            self.all_send(now, "a node was lost, or has returned");
        }
    }

    fn measure_from(&mut self, from: Duration) {
        self.window = Window {
            from,
            ..Window::default()
        };
    }

    fn sample(&mut self, now: Duration, traffic: &[Traffic]) {
        let is_measured = now >= self.window.from;
        self.window.samples += u32::from(is_measured);
        for one in traffic {
            if let Some(known) = self.crew.get_mut(&one.node) {
                (known.reported, known.moves) = (now, one.streams > 0);
            }
            let counters = (one.passed_bytes, one.resent_bytes);
            let before = self.counters.insert(one.node.clone(), counters);
            if is_measured {
                // Counters start from zero with each lease.
                let (passed, resent) = before
                    .filter(|(passed, _)| *passed <= one.passed_bytes)
                    .unwrap_or_default();
                self.window.passed += one.passed_bytes - passed;
                self.window.resent += one.resent_bytes.saturating_sub(resent);
                let (sum, count) = self.window.rates.entry(one.node.clone()).or_default();
                (*sum, *count) = (*sum + one.bytes_per_second, *count + 1);
            }
        }
    }

    fn decide(&mut self, now: Duration, window: &Window) {
        let rate = window.rate(&self.resting);
        if rate <= 0.0 {
            self.all_send(now, "nothing moved");
            return;
        }
        // An old best rate says little about the path now.
        self.best = (self.best * BEST_KEEPS).max(rate);
        match std::mem::replace(&mut self.trial, Trial::None) {
            Trial::None => self.begin_trial(now, window),
            Trial::Less(count, before, since) => {
                let part = rate / before.max(self.best);
                if part < 1.0 - least(count, self.sending().len() + count) {
                    self.trial = Trial::Less(count, before, since);
                    self.trial_lost(now);
                    return;
                }
                self.more.lost(now);
                let nodes = self.resting[self.resting.len() - count..].join(", ");
                self.decided.push(format!(
                    "more nodes do not raise the rate: {nodes} nodes pause, and the others reach {:.0} % of the best rate",
                    100.0 * part
                ));
            }
            Trial::More(nodes, before) => {
                if rate < before * (1.0 + least(nodes.len(), self.sending().len())) {
                    self.resting.extend(nodes);
                    self.more.lost(now);
                    self.measure_from(now + SETTLES);
                    return;
                }
                self.more = Patience::new(now);
                let nodes = nodes.join(", ");
                let text = format!("the path carries more than before: {nodes} nodes send again");
                self.decided.push(text);
            }
        }
    }

    /// The nodes that were to rest send again.
    fn trial_lost(&mut self, now: Duration) {
        if let Trial::Less(count, ..) = std::mem::replace(&mut self.trial, Trial::None) {
            self.resting
                .truncate(self.resting.len().saturating_sub(count));
        }
        self.less.lost(now);
        self.measure_from(now + SETTLES);
    }

    /// The nodes that do not rest.
    fn sending(&self) -> Vec<&String> {
        let rests = |node: &String| self.resting().any(|one| one == node);
        self.crew.keys().filter(|node| !rests(node)).collect()
    }

    fn begin_trial(&mut self, now: Duration, window: &Window) {
        let rate = window.rate(&self.resting);
        let measured = |node: &String| window.rates.get(node).copied().unwrap_or_default();
        let sending = self.sending().into_iter();
        let mut sends: Vec<(String, (f64, u32))> =
            sending.map(|node| (node.clone(), measured(node))).collect();
        let count = (sends.len() / STEP).max(1);
        // The rate of a node that reports rarely is unknown.
        let all_report = sends
            .iter()
            .all(|(_, (_, reports))| reports * 2 >= window.samples);
        let is_due = now >= self.less.at && self.may_rest;
        if is_due && all_report && sends.len() > 1 && window.resent() > RESENT_HIGH {
            sends.sort_by(|(_, (one, _)), (_, (other, _))| one.total_cmp(other));
            let slowest = sends.into_iter().take(count).map(|(node, _)| node);
            self.resting.extend(slowest);
            self.trial = Trial::Less(count, rate, now);
        } else if now >= self.more.at && !self.resting.is_empty() {
            let stay = self.resting.len().saturating_sub(count);
            self.trial = Trial::More(self.resting.split_off(stay), rate);
        } else {
            return;
        }
        self.measure_from(now + SETTLES);
    }
}

/// Least difference of rates that counts for these nodes: half of their share of all nodes, at most [`LESS_MAX`].
fn least(count: usize, of: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a few nodes")]
    let share = count as f64 / of.max(1) as f64;
    (share / 2.0).min(LESS_MAX)
}

#[cfg(test)]
mod tests;
