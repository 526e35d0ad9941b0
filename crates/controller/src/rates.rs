//! Pairs nodes of the source with nodes of the destination, by the rates that nodes were seen to reach.
//! Reads no clock and asks no node.
//!
//! A node reports how fast it sends, and where to. The rate of a source is its best one. The rate of a destination is the best sum of all
//! that was sent there at a time. Both are lower bounds. Once nodes are seen to be unequal, each fast source is therefore tried at a
//! second destination, too. Then the fastest sources choose first, each the destination with the least load for its rate.

use std::collections::{BTreeMap, BTreeSet};

use crate::watch::Traffic;

/// Part of a rate that remains after each second in which it is not reached.
const KEEPS: f64 = 0.98;
/// A source counts as measured at a destination after this many seconds.
const SEEN_AFTER: u32 = 2;
/// Ratio of two rates from which nodes count as unequal.
const UNEQUAL: f64 = 1.5;
/// A source with less than this part of the mean rate is not tried elsewhere: its leases are long, and little depends on it.
const TRIED_FROM: f64 = 0.75;
/// A source that alone reaches this part of its destination's rate may be able to send more, so other destinations are tried as well. If no source is
/// this many times as fast, that happens at once, because its destination was chosen by chance. Otherwise it happens after this many
/// seconds.
const ALIKE: f64 = 1.2;
const TRIED_LATER: u32 = 20;
const FILLS: f64 = 0.85;
/// Pairs change only if the new ones have this many times the rate.
const GAIN: f64 = 1.1;
/// A source with several destinations passes over those with less than this part of its best rate.
const LEAST: f64 = 0.5;
/// A destination that takes less than this, and less than this part of its best rate, stalls.
const STALLS_BYTES: f64 = 32_768.0;
const STALLS_PART: f64 = 0.01;
/// After this many seconds of a stall, while other destinations take data, the destination is skipped for this many seconds.
const STALLS_AFTER: u32 = 6;
const PASSED_OVER_FOR: u32 = 60;

/// The rate of one source at one destination.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    rate: f64,
    seconds: u32,
}

/// The rates that nodes were seen to reach.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// Rates by source and destination.
    pairs: BTreeMap<(String, String), Seen>,
    /// Best sum of the rates to each destination.
    into: BTreeMap<String, f64>,
    /// Some nodes were seen to be faster than others.
    are_unequal: bool,
    /// Seconds in which something was sent.
    seconds: u32,
    /// Number of reports taken.
    looks: u32,
    /// Destinations that stall, and for how many looks.
    stalls: BTreeMap<String, u32>,
    /// Destinations that are skipped, each until this number of looks.
    passed_over: BTreeMap<String, u32>,
    /// Destinations that are left out for another reason.
    left_out: BTreeSet<String>,
    /// Where each source sent last.
    sent: BTreeMap<String, String>,
}

impl Rates {
    /// Takes the reports of one second, and returns them. Destinations go by their identities.
    pub(crate) fn saw(&mut self, traffic: Vec<Traffic>) -> Vec<Traffic> {
        let sends =
            |one: &&Traffic| !one.to.is_empty() && one.streams > 0 && one.bytes_per_second > 0.0;
        let mut into: BTreeMap<&str, f64> = BTreeMap::new();
        let sent = traffic.iter().filter(|one| !one.to.is_empty());
        self.sent
            .extend(sent.map(|one| (one.node.clone(), one.to.clone())));
        for one in traffic.iter().filter(sends) {
            *into.entry(&one.to).or_default() += one.bytes_per_second;
            let pair = (one.node.clone(), one.to.clone());
            let seen = self.pairs.entry(pair).or_default();
            seen.rate = (seen.rate * KEEPS).max(one.bytes_per_second);
            seen.seconds = seen.seconds.saturating_add(1);
        }
        self.look_for_stalls(&traffic, &into);
        self.seconds = self.seconds.saturating_add(u32::from(!into.is_empty()));
        for (target, rate) in into {
            let best = self.into.entry(target.to_owned()).or_default();
            *best = (*best * KEEPS).max(rate);
        }
        self.are_unequal |= self.has_unequal_rates();
        traffic
    }

    /// Leaves these destinations out, and no others. Equal sources that share a destination from now on would look slow beside the rates
    /// that they reached alone.
    pub(crate) fn leave_out(&mut self, targets: BTreeSet<String>) {
        if self.left_out != targets && !self.are_unequal {
            self.pairs.clear();
        }
        self.left_out = targets;
    }

    /// A destination whose file system or link passes next to nothing still answers questions: only the rate of arriving data shows the
    /// stall.
    fn look_for_stalls(&mut self, traffic: &[Traffic], into: &BTreeMap<&str, f64>) {
        self.looks = self.looks.saturating_add(1);
        let stalls = |target: &str| {
            let now = into.get(target).copied().unwrap_or_default();
            let best = self.into.get(target).copied().unwrap_or_default();
            now < STALLS_BYTES && now < best * STALLS_PART
        };
        let sends = traffic
            .iter()
            .filter(|one| !one.to.is_empty() && one.streams > 0);
        let used: BTreeSet<&str> = sends.map(|one| one.to.as_str()).collect();
        let (stalling, others): (Vec<&str>, Vec<&str>) =
            used.iter().partition(|target| stalls(target));
        let stalls = &mut self.stalls;
        stalls.retain(|target, _| stalling.contains(&target.as_str()));
        for target in stalling.into_iter().filter(|_| !others.is_empty()) {
            let lasts = stalls.entry(target.to_owned()).or_default();
            *lasts += 1;
            if *lasts >= STALLS_AFTER {
                let until = self.looks.saturating_add(PASSED_OVER_FOR);
                self.passed_over.insert(target.to_owned(), until);
            }
        }
        let looks = self.looks;
        self.passed_over.retain(|_, until| *until > looks);
    }

    /// Whether destinations receive different sums, or one of them receives different rates from its sources.
    fn has_unequal_rates(&self) -> bool {
        let is_seen = |target: &str| {
            let mut pairs = self.pairs.iter();
            pairs.any(|((_, to), seen)| to == target && seen.seconds >= SEEN_AFTER)
        };
        let sums = self.into.iter().filter(|(target, _)| is_seen(target));
        if differ(sums.map(|(_, rate)| *rate)) {
            return true;
        }
        self.into.keys().any(|target| {
            let pairs = self.pairs.iter();
            let here = pairs.filter(|((_, to), seen)| to == target && seen.seconds >= SEEN_AFTER);
            differ(here.map(|(_, seen)| seen.rate))
        })
    }

    fn pair(&self, source: &str, target: &str) -> Seen {
        let key = (source.to_owned(), target.to_owned());
        self.pairs.get(&key).copied().unwrap_or_default()
    }

    /// For each source the places of its destinations, in turn. `before` are the places that each source had. If no destination is left,
    /// none is left out.
    pub(crate) fn spread(
        &self,
        sources: &[&str],
        targets: &[&str],
        before: &[Option<usize>],
    ) -> Vec<Vec<usize>> {
        let is_open = |target: &str| {
            !self.passed_over.contains_key(target) && !self.left_out.contains(target)
        };
        let mut open: Vec<usize> = (0..targets.len())
            .filter(|at| is_open(targets[*at]))
            .collect();
        if open.is_empty() {
            open = (0..targets.len()).collect();
        }
        let sent = |source: &&str| {
            let to = self.sent.get(*source)?;
            targets.iter().position(|target| target == to)
        };
        let sent: Vec<Option<usize>> = sources.iter().map(sent).collect();
        let ring = ring(&sent, targets.len(), &open);
        let targets: Vec<&str> = open.iter().map(|at| targets[*at]).collect();
        let place = |had: &Option<usize>| open.iter().position(|at| Some(*at) == *had);
        let before: Vec<Option<usize>> = before.iter().map(place).collect();
        let spread = self.among(sources, &targets, &before, ring).into_iter();
        spread
            .map(|places| places.into_iter().map(|at| open[at]).collect())
            .collect()
    }

    /// Does the same among destinations, and leaves none of them out.
    fn among(
        &self,
        sources: &[&str],
        targets: &[&str],
        before: &[Option<usize>],
        ring: Vec<usize>,
    ) -> Vec<Vec<usize>> {
        let (nodes, places) = (sources.len(), targets.len());
        if nodes == 0 || places == 0 {
            return vec![Vec::new(); nodes];
        }
        if nodes < places {
            let own = |at: usize| (at..places).step_by(nodes).collect();
            let each = sources.iter().enumerate();
            return each
                .map(|(at, source)| self.fast(source, own(at), targets))
                .collect();
        }
        let wanted = match self.are_unequal {
            true => self.wanted(sources, targets, before, &ring),
            false => ring,
        };
        wanted.into_iter().map(|place| vec![place]).collect()
    }

    /// The destinations of a source with several, without the slow ones.
    fn fast(&self, source: &str, own: Vec<usize>, targets: &[&str]) -> Vec<usize> {
        let seen = |place: &usize| self.pair(source, targets[*place]);
        let best = own.iter().map(|place| seen(place).rate).fold(0.0, f64::max);
        let is_slow =
            |place: &usize| seen(place).seconds >= SEEN_AFTER && seen(place).rate < best * LEAST;
        own.into_iter().filter(|place| !is_slow(place)).collect()
    }

    /// One destination for each source, where there are at least as many sources.
    fn wanted(
        &self,
        sources: &[&str],
        targets: &[&str],
        before: &[Option<usize>],
        ring: &[usize],
    ) -> Vec<usize> {
        let places = targets.len();
        let rates = self.rates_of(sources, targets);
        let takes = filled(targets.iter().map(|target| self.into.get(*target).copied()));
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by(|one, other| rates[*other].total_cmp(&rates[*one]).then(one.cmp(other)));
        if let Some(mut tried) = self.tried(sources, targets, ring, &rates, &order) {
            leave_none_out(&mut tried, places, &order);
            return tried;
        }
        // A source without known rates begins like all others.
        let is_known = |at: usize| {
            let mut seen = targets.iter().map(|target| self.pair(sources[at], target));
            seen.any(|seen| seen.seconds > 0)
        };
        let unknown = |at: usize| (!is_known(at)).then(|| ring[at]);
        let mut wanted: Vec<Option<usize>> = (0..sources.len()).map(unknown).collect();
        let mut loads = vec![0.0; places];
        for (at, place) in wanted.iter().enumerate() {
            if let Some(place) = place {
                loads[*place] += rates[at];
            }
        }
        for at in order.iter().copied() {
            if wanted[at].is_some() {
                continue;
            }
            let load = |place: usize| (loads[place] + rates[at]) / takes[place];
            let least = (0..places).min_by(|one, other| load(*one).total_cmp(&load(*other)));
            if let Some(place) = least {
                loads[place] += rates[at];
                wanted[at] = Some(place);
            }
        }
        let mut wanted: Vec<usize> = wanted.into_iter().flatten().collect();
        leave_none_out(&mut wanted, places, &order);
        let before: Option<Vec<usize>> = before.iter().copied().collect();
        match before {
            // Pairs that are nearly as good stay.
            Some(before)
                if (0..places).all(|place| before.contains(&place))
                    && sum(&wanted, &rates, &takes) <= GAIN * sum(&before, &rates, &takes) =>
            {
                before
            }
            _ => wanted,
        }
    }

    /// The ring, but with sources to be tried at the next destination: one from each destination, the fastest one first. That holds while a
    /// destination was seen with one source alone, and later where a source fills its destination. None if no source is to be tried.
    fn tried(
        &self,
        sources: &[&str],
        targets: &[&str],
        ring: &[usize],
        rates: &[f64],
        order: &[usize],
    ) -> Option<Vec<usize>> {
        let places = targets.len();
        let is_seen =
            |at: usize, place: usize| self.pair(sources[at], targets[place]).seconds >= SEEN_AFTER;
        let seen_by = |place: usize| (0..sources.len()).filter(|at| is_seen(*at, place)).count();
        let is_seen_through = (0..places).all(|place| seen_by(place) > 1);
        if places < 2 {
            return None;
        }
        let best = rates.iter().copied().fold(0.0, f64::max);
        let fills = |at: usize, place: usize| {
            let takes = self.into.get(targets[place]).copied().unwrap_or_default();
            let is_late = self.seconds >= TRIED_LATER || rates[at] * ALIKE >= best;
            rates[at] >= takes * FILLS && is_late
        };
        #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let mut tried = ring.to_vec();
        for place in 0..places {
            let next = (place + 1) % places;
            let may_try = |at: &usize| {
                let is_fast = rates[*at] >= mean * TRIED_FROM;
                let may_have_more = !is_seen_through || fills(*at, place);
                let is_new = is_seen(*at, place) && !is_seen(*at, next);
                ring[*at] == place && is_fast && may_have_more && is_new
            };
            if let Some(at) = order.iter().copied().find(may_try) {
                tried[at] = next;
            }
        }
        (tried != ring).then_some(tried)
    }

    fn rates_of(&self, sources: &[&str], targets: &[&str]) -> Vec<f64> {
        let best = |source: &&str| {
            let rates = targets.iter().map(|target| self.pair(source, target).rate);
            Some(rates.fold(0.0, f64::max)).filter(|rate| *rate > 0.0)
        };
        filled(sources.iter().map(best))
    }
}

/// Rates; an unknown rate gets the mean of the known ones.
fn filled(rates: impl Iterator<Item = Option<f64>>) -> Vec<f64> {
    let rates: Vec<Option<f64>> = rates.collect();
    let known: Vec<f64> = rates.iter().copied().flatten().collect();
    #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let mean = if mean > 0.0 { mean } else { 1.0 };
    rates.into_iter().map(|rate| rate.unwrap_or(mean)).collect()
}

/// Assigns an open place of the destination to each source: its index in `open`. While another place is left out, a source keeps its place.
/// A source that could have several places keeps the place to which it sends.
fn ring(sent: &[Option<usize>], places: usize, open: &[usize]) -> Vec<usize> {
    let sources = sent.len();
    let of = |at: usize| {
        let own = (at % places.max(1)..places).step_by(sources);
        let own = own.filter_map(|place| open.iter().position(|one| *one == place));
        let sends = sent[at].and_then(|to| open.iter().position(|one| *one == to));
        own.clone()
            .find(|place| Some(*place) == sends)
            .or_else(|| own.min())
    };
    let mut ring: Vec<Option<usize>> = (0..sources).map(of).collect();
    for at in 0..sources {
        if ring[at].is_none() {
            let sharing = |place: &usize| ring.iter().filter(|one| **one == Some(*place)).count();
            ring[at] = (0..open.len()).min_by_key(sharing);
        }
    }
    ring.into_iter().flatten().collect()
}

/// Gives each idle destination a source: the slowest source that shares its destination with others.
fn leave_none_out(wanted: &mut [usize], places: usize, fastest_first: &[usize]) {
    for empty in 0..places {
        if wanted.contains(&empty) {
            continue;
        }
        let is_alone = |at: &usize| wanted.iter().filter(|to| **to == wanted[*at]).count() == 1;
        let spare = fastest_first.iter().rev().copied().find(|at| !is_alone(at));
        if let Some(at) = spare {
            wanted[at] = empty;
        }
    }
}

/// The sum of all rates if no destination takes more than its observed rate.
fn sum(pairs: &[usize], rates: &[f64], takes: &[f64]) -> f64 {
    let mut loads = vec![0.0; takes.len()];
    for (place, rate) in pairs.iter().zip(rates) {
        loads[*place] += rate;
    }
    loads
        .iter()
        .zip(takes)
        .map(|(load, most)| load.min(*most))
        .sum()
}

/// Whether the largest is much more than the smallest.
fn differ(rates: impl Iterator<Item = f64>) -> bool {
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| {
        (least.min(rate), most.max(rate))
    });
    least.is_finite() && most > least * UNEQUAL
}

#[cfg(test)]
mod tests;
