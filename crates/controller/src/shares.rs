//! Owns the shares of a job's limit: divides it among the nodes of the source, by the work that they do.
//! Reads no clock and asks no node: reports and their times are arguments.
//!
//! Nodes that work have equal shares. A node without items has a small part of one, and so has a node that sends far less. The
//! others have the rest. A share shrinks at once. Another one grows only after the node of the first follows the smaller one: the shares
//! that nodes may follow never exceed the limit together. A node that does not answer may follow its old share as long as it holds items.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_state::Pair;

use crate::watch::Traffic;

/// A node that holds no items for this long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// A node is slow only after this long.
const SLOW_AFTER: Duration = Duration::from_secs(10);
/// A node that has answered for this long follows a share that the state has had for this long. It needs about a second.
const FOLLOWS_AFTER: Duration = Duration::from_secs(3);
/// Without a report for longer than this a node has not answered meanwhile.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// An idle node has one in this many parts of an equal share.
const IDLE_PARTS: u64 = 32;
/// A slow node has one in these many parts of an equal share, the last one that is at least twice its rate.
const SLOW_PARTS: [u64; 2] = [4, 16];
/// If not all shares can grow as far as they should, they grow only if this part of the limit is free.
const FREE_PARTS: u64 = 32;

/// The load of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    Works,
    /// The node has one in this many parts of an equal share.
    Slow(u64),
    Idle,
}

/// The share that a node has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct GrantedShare {
    share: u64,
    /// The largest share that the node may follow, which is not less; none if that is not known.
    most: Option<u64>,
}

/// The highest rate of a node lately.
#[derive(Debug, Default)]
struct Peak {
    from: Option<Duration>,
    now: f64,
    /// The highest one of the time before.
    before: Option<f64>,
}

impl Peak {
    fn saw(&mut self, at: Duration, rate: f64) {
        let from = *self.from.get_or_insert(at);
        if at >= from + SLOW_AFTER {
            self.before = Some(std::mem::take(&mut self.now));
            self.from = Some(at);
        }
        self.now = self.now.max(rate);
    }

    /// None if it is not known for long enough.
    fn rate(&self) -> Option<f64> {
        self.before.map(|before| before.max(self.now))
    }
}

/// A time in which a node answered without a gap.
#[derive(Clone, Copy, Debug)]
struct Answers {
    from: Duration,
    last: Duration,
}

impl Answers {
    /// The answers, after one more report that was asked for at this time.
    fn answered(before: Option<Self>, at: Duration) -> Self {
        match before {
            Some(Self { from, last }) if at <= last + ANSWERS_WITHIN => Self {
                from,
                last: last.max(at),
            },
            _ => Self { from: at, last: at },
        }
    }
}

/// A node of the source.
#[derive(Debug)]
struct Known {
    given: GrantedShare,
    /// When the state last had a larger share.
    since: Duration,
    answers: Option<Answers>,
    holds: bool,
    /// Time at which the node last held items.
    worked: Duration,
    /// Whether the node has left the job, but still holds items.
    has_left: bool,
    peak: Peak,
}

impl Known {
    fn new(now: Duration, in_force: Option<u64>) -> Self {
        Self {
            given: GrantedShare {
                share: in_force.unwrap_or(0),
                // An earlier controller may have given more, a moment ago.
                most: match in_force {
                    Some(_) => None,
                    None => Some(0),
                },
            },
            since: now,
            answers: None,
            holds: in_force.is_some(),
            worked: now,
            has_left: false,
            peak: Peak::default(),
        }
    }

    fn is_idle(&self, now: Duration) -> bool {
        !self.holds && now.saturating_sub(self.worked) >= IDLE_AFTER
    }

    fn load(&self, now: Duration, equal: u64) -> Load {
        if self.is_idle(now) {
            return Load::Idle;
        }
        let Some(rate) = self.peak.rate() else {
            return Load::Works;
        };
        let is_below = |share: u64| {
            #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
            let share = share as f64;
            2.0 * rate < share
        };
        // A node that reaches its share may have more to send.
        if !is_below(self.given.share) {
            return Load::Works;
        }
        let mut parts = SLOW_PARTS.into_iter().rev();
        let parts = parts.find(|parts| is_below(equal / parts));
        parts.map_or(Load::Works, Load::Slow)
    }

    /// Notes whether the node follows its share by now. `in_force` is the share that the state has.
    fn follow(&mut self, now: Duration, in_force: Option<u64>) {
        let GrantedShare { share, most } = self.given;
        if most == Some(share) {
            return;
        }
        let has_more = match in_force {
            Some(limit) => limit == 0 || limit > share,
            // A worker without a pair ends its lease at the rate that it had.
            None => self.holds,
        };
        if has_more {
            self.since = now;
        }
        let follows_at = self.since + FOLLOWS_AFTER;
        let has_answered = self
            .answers
            .is_some_and(|answers| answers.last >= follows_at.max(answers.from + FOLLOWS_AFTER));
        if now >= follows_at && (has_answered || !self.holds) {
            self.given.most = Some(share);
        }
    }

    fn give(&mut self, now: Duration, share: u64) {
        if share < self.given.share {
            self.since = now;
        }
        if share == 0 {
            // A node without a share waits, and is not idle.
            self.worked = now;
        }
        self.given.share = share;
        self.given.most = self.given.most.map(|most| most.max(share));
    }
}

/// The shares of the nodes of one job.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    nodes: BTreeMap<String, Known>,
    limit: u64,
}

impl Shares {
    /// Takes the reports of nodes at a moment. `holds`: whether a node has items.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        traffic: &[Traffic],
        holds: impl Fn(&str) -> bool,
    ) {
        for (node, known) in &mut self.nodes {
            known.holds = holds(node);
            if known.holds {
                known.worked = now;
            }
            if let Some(report) = traffic.iter().find(|report| report.node == *node) {
                let at = now.saturating_sub(report.age);
                known.answers = Some(Answers::answered(known.answers, at));
                known.peak.saw(now, report.bytes_per_second);
            }
            if known.is_idle(now) {
                known.peak = Peak::default();
            }
        }
        self.nodes.retain(|_, known| !known.has_left || known.holds);
    }

    /// No node can begin items now, so none is idle.
    pub(crate) fn pause(&mut self, now: Duration) {
        self.nodes.values_mut().for_each(|known| known.worked = now);
    }

    /// Divides the limit among the nodes; 0 is none. `pairs` are those that the state has.
    pub(crate) fn divide<'a>(
        &mut self,
        now: Duration,
        limit: u64,
        nodes: impl Iterator<Item = &'a String>,
        pairs: &[Pair],
    ) {
        self.limit = limit;
        let in_force = |node: &str| {
            let pair = pairs.iter().find(|pair| pair.node == node);
            pair.map(|pair| pair.limit)
        };
        let mut before = std::mem::take(&mut self.nodes);
        for node in nodes {
            let known = before.remove(node);
            let mut known = known.unwrap_or_else(|| Known::new(now, in_force(node)));
            known.has_left = false;
            self.nodes.insert(node.clone(), known);
        }
        for (node, mut known) in before {
            // The next look shows whether it holds items.
            known.holds |= !std::mem::replace(&mut known.has_left, true);
            self.nodes.insert(node, known);
        }
        for (node, known) in &mut self.nodes {
            if limit == 0 {
                known.since = now;
                known.given = GrantedShare {
                    share: 0,
                    most: None,
                };
            }
            known.follow(now, in_force(node));
        }
        if limit == 0 {
            return;
        }
        let left = self.nodes.values().filter(|known| known.has_left);
        let kept = left.fold(0_u64, |sum, known| {
            sum.saturating_add(known.given.most.unwrap_or(u64::MAX))
        });
        let here = self.nodes.values_mut().filter(|known| !known.has_left);
        let mut here: Vec<&mut Known> = here.collect();
        let equal = limit / (here.len() as u64).max(1);
        let loads: Vec<Load> = here.iter().map(|known| known.load(now, equal)).collect();
        let given: Vec<GrantedShare> = here.iter().map(|known| known.given).collect();
        let shares = step(limit, kept, &given, &wanted(limit, &loads));
        for (known, share) in here.iter_mut().zip(shares) {
            known.give(now, share);
        }
    }

    /// The share of a node, where 0 is no limit. None if nothing is free for it yet: it waits.
    pub(crate) fn of(&self, node: &str) -> Option<u64> {
        if self.limit == 0 {
            return Some(0);
        }
        let share = self.nodes.get(node).map(|known| known.given.share);
        share.filter(|share| *share > 0)
    }
}

/// The shares as they should be. Their sum is not above the limit.
fn wanted(limit: u64, loads: &[Load]) -> Vec<u64> {
    let count = loads.len() as u64;
    if limit < count {
        // Without a share a node waits.
        return (0..count).map(|at| u64::from(at < limit)).collect();
    }
    let equal = limit / count.max(1);
    let all_are_idle = loads.iter().all(|load| *load == Load::Idle);
    let none_works = !loads.contains(&Load::Works);
    let part = |load: &Load| match load {
        Load::Idle if !all_are_idle => Some((equal / IDLE_PARTS).max(1)),
        Load::Slow(parts) if !none_works => Some((equal / parts).max(1)),
        _ => None,
    };
    let parts: Vec<Option<u64>> = loads.iter().map(part).collect();
    let rest = limit.saturating_sub(parts.iter().flatten().sum());
    let full = parts.iter().filter(|part| part.is_none()).count() as u64;
    let each = rest / full.max(1);
    parts.iter().map(|part| part.unwrap_or(each)).collect()
}

/// The shares of the next moment, closer to the wanted shares. `kept` is followed by nodes that have left.
fn step(limit: u64, kept: u64, given: &[GrantedShare], wanted: &[u64]) -> Vec<u64> {
    let each = given.iter().zip(wanted);
    let shares: Vec<u64> = each
        .map(|(given, wanted)| match (given.most, given.share) {
            (Some(most), _) => most.min(*wanted),
            // The node had no limit.
            (None, 0) => *wanted,
            (None, share) => share.min(*wanted),
        })
        .collect();
    let most = |given: &GrantedShare| given.most.unwrap_or(u64::MAX);
    let kept = given
        .iter()
        .fold(kept, |sum, given| sum.saturating_add(most(given)));
    let free = limit.saturating_sub(kept);
    let each = shares.iter().zip(wanted);
    let lacking = each.fold(0_u64, |sum, (share, wanted)| sum + (wanted - share));
    if lacking <= free {
        return wanted.to_vec();
    }
    if free < (limit / FREE_PARTS).max(1) {
        return shares;
    }
    let each = shares.iter().zip(wanted);
    each.map(|(share, wanted)| {
        let more = u128::from(wanted - share) * u128::from(free) / u128::from(lacking);
        share.saturating_add(u64::try_from(more).unwrap_or(0))
    })
    .collect()
}

#[cfg(test)]
mod tests;
