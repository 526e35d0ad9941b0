//! Simulates divided jobs second by second, with the claims, rates, patience and leases of the program. It measures how long a job takes,
//! and how much the other nodes move while one node has a fault.
//! Moves no data: each link carries up to its rate, in equal shares.

mod leases;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_api::ask::{Mark, Peer, Refusal, code};

use crate::aside::Aside;
use crate::claims::{ANSWER_WITHIN, Ask, Claims};
use crate::lease_transfer::{AtFault, Faults, Patience, SLOW_TRIES_MAX};
use crate::pace::{Pace, Took};
use crate::rates::Rates;
use crate::worker::{OTHERS_FIRST, Reads, Verdict};

/// Between two looks.
const TICK: f64 = 0.1;
/// Cost of each lease beside its bytes.
const LEASE_SECONDS: f64 = 0.4;
/// A node that is silent for so long is lost to its cluster.
const LOST_AFTER: f64 = 5.0;
/// After this time a node with a hung mount has said so: the site no longer names it, and as a source it has given its lease back.
const HANG_TOLD: f64 = 6.0;
/// Between two questions for the nodes of the destination.
const NODES_EVERY: f64 = 3.0;
/// After this time a try to a full node has failed, and the watch has seen it.
const FAILS: f64 = 0.3;
/// A try that is younger than this may move to another destination.
const MOVES_WITHIN: f64 = 5.0;

/// A permanent fault of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    Kill,
    /// The node answers nothing, and its connections stand.
    Stop,
    /// Packets to the node are lost.
    Cut,
    /// The mount of the node hangs; the node answers questions that touch no file.
    Hang,
    /// The node lets one byte a second through.
    Slow,
    /// Its writes fail, as on a full disk.
    Full,
    /// Its reads fail.
    Unread,
}

/// Which node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Source(usize),
    Target(usize),
}

/// The contents of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Bytes and files of an item.
    pub(crate) bytes: f64,
    pub(crate) files: u64,
    /// Parts begin again at another node of the destination; files that have arrived stay.
    pub(crate) are_parts: bool,
}

/// The lease of a source.
struct Lease {
    items: u64,
    began: f64,
    left: f64,
    target: Option<usize>,
    try_began: f64,
    try_bytes: f64,
    patience: Patience,
    tries: BTreeMap<usize, u32>,
    faults: Faults,
    times_left: u32,
    slow: u32,
    /// Items that all sources had settled when the lease began.
    settled: u64,
    may_move: bool,
}

#[derive(Default)]
struct Source {
    pace: Pace,
    lease: Option<Lease>,
    at_fault: AtFault,
    reads: Reads,
    /// The node leases nothing until this time.
    rests_until: f64,
    has_declined: bool,
}

pub(crate) struct World {
    pub(crate) sources: Vec<f64>,
    pub(crate) targets: Vec<f64>,
    pub(crate) kind: Kind,
    pub(crate) fault: Option<(f64, Side, Fault)>,
}

/// Outcome of a job.
pub(crate) struct Course {
    pub(crate) seconds: f64,
    /// The longest time in which the job moved less than 0.6 of the rate of the other nodes, while there was work to lease.
    pub(crate) low: f64,
    /// Bytes that were still to be settled when the fault came.
    pub(crate) left_at_fault: f64,
}

fn after(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Name and identity of a destination.
fn name(at: usize) -> String {
    format!("d{at}")
}

fn peer(at: usize) -> Peer {
    Peer {
        name: name(at),
        addresses: vec![format!("d{at}:1")],
        identity: name(at),
    }
}

impl Source {
    /// The node could read nothing of its lease.
    fn returned(&mut self, now: f64, item: u64, others: usize) {
        match self
            .reads
            .judge(std::iter::once(item), (true, false), others)
        {
            Verdict::Keep => panic!("others read it"),
            Verdict::Back => self.rests_until = now + OTHERS_FIRST.as_secs_f64(),
            Verdict::Decline => self.has_declined = true,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of items are small")]
fn float(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "amounts are small"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

impl World {
    fn fault_of(&self, side: Side, now: f64) -> Option<(f64, Fault)> {
        let (at, whom, fault) = self.fault?;
        (whom == side && now >= at).then_some((now - at, fault))
    }

    /// Rate of all nodes without a fault.
    pub(crate) fn usable(&self, now: f64) -> f64 {
        let sum = |rates: &[f64], side: fn(usize) -> Side| -> f64 {
            let whole = |at: &usize| self.fault_of(side(*at), now).is_none();
            (0..rates.len()).filter(whole).map(|at| rates[at]).sum()
        };
        sum(&self.sources, Side::Source).min(sum(&self.targets, Side::Target))
    }

    fn stands(&self, side: Side, now: f64) -> bool {
        self.fault_of(side, now).is_some()
    }

    fn reads_nothing(&self, at: usize, now: f64) -> bool {
        let fault = self.fault_of(Side::Source(at), now);
        fault.is_some_and(|(_, fault)| fault == Fault::Unread)
    }

    fn is_lost(&self, side: Side, now: f64) -> bool {
        let fault = self.fault_of(side, now);
        fault.is_some_and(|(lasts, fault)| {
            let is_silent = matches!(fault, Fault::Kill | Fault::Stop | Fault::Cut);
            is_silent && lasts > LOST_AFTER
        })
    }

    /// The answer of a destination to a question, and after how long.
    fn answer(&self, at: usize, ask: Ask, now: f64) -> (f64, Result<(), Refusal>) {
        let given_up = (
            ANSWER_WITHIN.as_secs_f64(),
            Err(Refusal::later(code::GIVEN_UP, "no answer")),
        );
        match self.fault_of(Side::Target(at), now).map(|(_, fault)| fault) {
            Some(Fault::Kill) => (0.05, Err(Refusal::later(code::UNREACHABLE, "gone"))),
            Some(Fault::Stop | Fault::Cut) => given_up,
            Some(Fault::Hang) if ask.mark != Mark::Untouched => given_up,
            _ => (0.05, Ok(())),
        }
    }

    /// The nodes that the site names.
    fn named(&self, now: f64) -> Vec<Peer> {
        let all = (0..self.targets.len()).map(|at| (at, Side::Target(at)));
        all.filter(|(_, side)| !self.has_reported(*side, now) && !self.is_lost(*side, now))
            .map(|(at, _)| peer(at))
            .collect()
    }

    /// Whether a node has noticed that its mount hangs.
    fn has_reported(&self, side: Side, now: f64) -> bool {
        let fault = self.fault_of(side, now);
        fault.is_some_and(|(lasts, fault)| fault == Fault::Hang && lasts > HANG_TOLD)
    }

    /// Rate of each source now: sources share a link equally, and unused shares go to the others.
    fn flows(&self, sources: &[Source], now: f64) -> Vec<f64> {
        let mut flows = vec![0.0; sources.len()];
        for (target, capacity) in self.targets.iter().enumerate() {
            if self.stands(Side::Target(target), now) {
                continue;
            }
            let sends = |at: &usize| {
                let lease = sources[*at].lease.as_ref();
                let is_here = lease.is_some_and(|one| one.target == Some(target) && one.left > 0.0);
                is_here && !self.stands(Side::Source(*at), now)
            };
            let mut here: Vec<usize> = (0..sources.len()).filter(sends).collect();
            here.sort_by(|one, other| self.sources[*one].total_cmp(&self.sources[*other]));
            let mut left = *capacity;
            for (done, at) in here.iter().enumerate() {
                let share = left / float((here.len() - done) as u64);
                flows[*at] = self.sources[*at].min(share);
                left -= flows[*at];
            }
        }
        flows
    }

    /// Runs a job of this number of items to its end.
    pub(crate) fn run(&self, items: u64) -> Course {
        let mut sources: Vec<Source> = self.sources.iter().map(|_| Source::default()).collect();
        let mut aside = Aside::default();
        let mut claims = Claims::new(Duration::ZERO, Vec::new(), false);
        claims.serving(Duration::ZERO, self.named(0.0));
        let (mut rates, mut answers) = (Rates::default(), Vec::new());
        let mut pairs: Vec<Vec<usize>> = vec![Vec::new(); sources.len()];
        let mut before: Vec<Option<usize>> = vec![None; sources.len()];
        let (mut ready, mut settled, mut turn) = (items, 0_u64, 0_usize);
        let mut course = Course {
            seconds: 0.0,
            low: 0.0,
            left_at_fault: 0.0,
        };
        let (mut low_since, mut second, mut sent) = (None, 0.0, 0.0);
        let mut lost_known = false;
        for tick in 0_u64.. {
            let now = float(tick) * TICK;
            assert!(
                now < 5_000.0,
                "it never ends: {} {:?} {ready} {settled}",
                self.kind.name,
                self.fault
            );
            for (peer, ask) in claims.due(after(now)) {
                let at = peer.name[1..].parse().expect("a number");
                let (wait, answer) = self.answer(at, ask, now);
                answers.push((now + wait, peer.identity, ask, answer));
            }
            answers.retain(|(at, identity, ask, answer)| {
                let is_due = *at <= now;
                if is_due {
                    claims.answered(after(now), identity, *ask, answer.clone());
                }
                !is_due
            });
            if tick % whole(NODES_EVERY / TICK) == 0 {
                claims.serving(after(now), self.named(now));
            }
            // A lost source returns its lease, and is no longer a member.
            for (at, source) in sources.iter_mut().enumerate() {
                if self.is_lost(Side::Source(at), now) && !lost_known {
                    lost_known = true;
                    ready += source.lease.take().map_or(0, |lease| lease.items);
                    claims.members_changed(after(now));
                } else if self.has_reported(Side::Source(at), now) {
                    ready += source.lease.take().map_or(0, |lease| lease.items);
                }
            }
            let works =
                |at: &usize| !self.is_lost(Side::Source(*at), now) && !sources[*at].has_declined;
            let crew: Vec<usize> = (0..sources.len()).filter(works).collect();
            let targets: Vec<usize> = claims
                .ready()
                .map(|peer| peer.name[1..].parse().expect("a number"))
                .collect();
            self.pair(&rates, (&crew, &targets), &mut pairs, &mut before);
            let named: Vec<usize> = pairs.iter().flatten().copied().collect();
            let flows = self.flows(&sources, now);
            sent += flows.iter().sum::<f64>() * TICK;
            for at in crew.iter().copied() {
                let own = &mut sources[at];
                if let Some(lease) = &mut own.lease {
                    lease.left -= flows[at] * TICK;
                    lease.try_bytes += flows[at] * TICK;
                    if lease.left <= 0.0 && now >= lease.began + LEASE_SECONDS {
                        let took = Took {
                            items: lease.items,
                            settled: lease.items,
                            files: lease.items * self.kind.files,
                            bytes: whole(float(lease.items) * self.kind.bytes),
                        };
                        own.pace.took(took, after(now - lease.began));
                        settled += lease.items;
                        own.at_fault.extend(lease.faults.found(Some(0)));
                        own.reads
                            .judge(std::iter::once(tick), (false, true), crew.len());
                        own.lease = None;
                    } else if self.reads_nothing(at, now) {
                        if now >= lease.began + LEASE_SECONDS {
                            ready += lease.items;
                            own.lease = None;
                            own.returned(now, tick, crew.len() - 1);
                        }
                    } else {
                        self.steer(lease, now, &pairs[at], &named);
                        own.at_fault.extend(lease.faults.found(None));
                    }
                }
                own.pace.saw(after(now), settled);
            }
            if settled == items {
                course.seconds = now;
                return course;
            }
            for own in &mut sources {
                let gives_back =
                    |lease: &mut Lease| lease.slow >= SLOW_TRIES_MAX && settled > lease.settled;
                if let Some(lease) = own.lease.take_if(gives_back) {
                    let took = Took {
                        items: lease.items,
                        ..Took::default()
                    };
                    own.pace.took(took, after(now - lease.began));
                    ready += lease.items;
                }
            }
            let places = (&mut ready, &mut turn);
            self.lease(&mut sources, &crew, &pairs, (now, settled), places);
            if self
                .fault
                .is_some_and(|(at, ..)| (now - at).abs() < TICK / 2.0)
            {
                course.left_at_fault = float(items - settled) * self.kind.bytes;
            }
            if tick % 10 == 9 {
                let traffic = rates.saw(self.traffic(&sources, &flows, now));
                aside.take(after(now), &traffic, |node| Some(node.to_owned()));
                rates.leave_out(aside.now(after(now)));
                // The first seconds have no pairs yet.
                let is_low = sent < 0.6 * self.usable(second) && ready > 0 && now > 3.0;
                low_since = is_low.then(|| low_since.unwrap_or(second));
                let lasts = low_since.map_or(0.0, |since: f64| now + TICK - since);
                course.low = course.low.max(lasts);
                (second, sent) = (now + TICK, 0.0);
            }
        }
        course
    }

    fn pair(
        &self,
        rates: &Rates,
        (crew, targets): (&[usize], &[usize]),
        pairs: &mut [Vec<usize>],
        before: &mut [Option<usize>],
    ) {
        let names = |prefix: &str, of: &[usize]| -> Vec<String> {
            of.iter().map(|at| format!("{prefix}{at}")).collect()
        };
        let (sources, places) = (names("s", crew), names("d", targets));
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let had: Vec<Option<usize>> = crew
            .iter()
            .map(|at| targets.iter().position(|one| before[*at] == Some(*one)))
            .collect();
        let spread = rates.spread(&sources, &places, &had);
        pairs.iter_mut().for_each(Vec::clear);
        for (at, to) in crew.iter().zip(spread) {
            pairs[*at] = to.iter().map(|place| targets[*place]).collect();
            before[*at] = match pairs[*at].as_slice() {
                [one] => Some(*one),
                _ => None,
            };
        }
    }
}
