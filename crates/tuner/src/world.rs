//! A small model of a link and of TCP on it, for tests: deterministic, from a seed. Has no packets: each
//! stream has a window that is sent once an RTT, and the link has a queue.
#![expect(
    clippy::cast_possible_truncation,
    reason = "a model with small numbers"
)]

mod away;
mod dice;
mod disk;

use std::time::Duration;

pub(super) use dice::Dice;
use disk::Disk;

use super::{Bounds, ChannelSample, Holdup, Path, StreamTuner, start};

pub(super) const SEGMENT: f64 = 1448.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Reno,
    Cubic,
    /// Like BBR: sends at the delivered rate, and ignores losses.
    Rate,
}

/// The path, and the machines at its ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Bytes a second.
    pub(super) capacity: f64,
    pub(super) round_trip: f64,
    /// Most bytes in the queue.
    pub(super) queue: f64,
    /// Share of segments lost at random.
    pub(super) loss: f64,
    /// Most bytes in flight of a stream, limited by its buffers.
    pub(super) buffer: f64,
    pub(super) kind: Kind,
    /// Bytes a second that the destination's storage accepts; infinite if storage is no limit.
    pub(super) storage: f64,
    /// Bytes that the storage accepts at once and then syncs; 0 if it accepts bytes evenly.
    pub(super) batch: f64,
    /// The speed of syncing differs from batch to batch by this share.
    pub(super) uneven: f64,
    /// Bytes a second that the processors handle with two streams. Each additional stream costs a
    /// hundredth.
    pub(super) processors: f64,
}

impl Link {
    pub(super) fn windows(&self) -> f64 {
        self.capacity * self.round_trip
    }
}

#[derive(Debug, Clone)]
struct Flow {
    owner: usize,
    kind: Kind,
    /// Time from which the stream carries data: a connection needs three RTTs.
    from: f64,
    /// Bytes in flight.
    window: f64,
    threshold: f64,
    /// CUBIC: the window before the last loss, and the time since which the window grows.
    peak: f64,
    since: f64,
    /// Kind `Rate`: the highest recent delivery rate, and the time until which it is valid.
    best: f64,
    best_until: f64,
    /// Kind `Rate`: consecutive rounds in which doubling had no effect. Such rounds end the start.
    full_rounds: u32,
    next_round: f64,
    lost: bool,
    /// Bytes delivered in this round, and the time at which it began.
    round_bytes: f64,
    round_since: f64,
}

/// A sender with a number of streams.
#[derive(Debug, Clone, Default)]
struct Owner {
    wanted: u32,
    bytes: f64,
    segments: f64,
    retransmitted: f64,
    busy: f64,
    held_up: f64,
    windows_full: f64,
    /// Whether the sender is no transfer, so that only the link limits it.
    is_plain: bool,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) link: Link,
    dice: Dice,
    flows: Vec<Flow>,
    owners: Vec<Owner>,
    pub(super) now: f64,
    queued: f64,
    disk: Disk,
    /// Most streams of a transfer that are accepted. More connections fail.
    pub(super) admitted: u32,
    /// Start of an outage.
    away_since: Option<f64>,
}

impl World {
    pub(super) fn new(link: Link, seed: u64) -> Self {
        Self {
            link,
            dice: Dice::new(seed),
            flows: Vec::new(),
            owners: Vec::new(),
            now: 0.0,
            queued: 0.0,
            disk: Disk::default(),
            admitted: u32::MAX,
            away_since: None,
        }
    }

    /// Adds a transfer. The number of its streams must still be set.
    pub(super) fn add_owner(&mut self) -> usize {
        self.owners.push(Owner::default());
        self.owners.len() - 1
    }

    /// Adds a single connection of other traffic.
    pub(super) fn add_plain(&mut self) -> usize {
        let owner = self.add_owner();
        self.owners[owner].is_plain = true;
        self.set_streams(owner, 1);
        owner
    }

    pub(super) fn set_streams(&mut self, owner: usize, count: u32) {
        self.owners[owner].wanted = count;
        while self.count(owner) > count {
            let last = self.flows.iter().rposition(|flow| flow.owner == owner);
            self.flows.remove(last.unwrap());
        }
        let kind = self.link.kind;
        while self.count(owner) < count.min(self.admitted) {
            self.flows.push(Flow {
                owner,
                kind,
                from: self.now + 3.0 * self.link.round_trip,
                window: 10.0 * SEGMENT,
                threshold: f64::INFINITY,
                peak: 0.0,
                since: 0.0,
                best: 0.0,
                best_until: 0.0,
                full_rounds: 0,
                next_round: 0.0,
                lost: false,
                round_bytes: 0.0,
                round_since: self.now,
            });
        }
    }

    fn count(&self, owner: usize) -> u32 {
        self.flows.iter().filter(|flow| flow.owner == owner).count() as u32
    }

    pub(super) fn bytes(&self, owner: usize) -> f64 {
        self.owners[owner].bytes
    }

    /// The measurements that the transfer's kernel and counters would report.
    pub(super) fn sample(&self, owner: usize) -> (ChannelSample, Holdup) {
        let own = &self.owners[owner];
        let running = self
            .flows
            .iter()
            .filter(|flow| flow.owner == owner && flow.from <= self.now)
            .count();
        let round_trip = self.link.round_trip + self.queued / self.link.capacity;
        let sample = ChannelSample {
            streams: running as u32,
            bytes: own.bytes as u64,
            segments: own.segments as u64,
            retransmitted: own.retransmitted as u64,
            segment_bytes: SEGMENT as u32,
            busy: Duration::from_secs_f64(own.busy),
            window_limited: Duration::from_secs_f64(own.windows_full),
            buffer_limited: Duration::from_secs_f64(own.held_up),
            round_trip: Duration::from_secs_f64(round_trip),
            round_trip_min: Duration::from_secs_f64(self.link.round_trip),
        };
        (sample, self.holdup(running))
    }

    fn holdup(&self, streams: usize) -> Holdup {
        let demand: f64 = self.flows.iter().map(|flow| self.rate_wanted(flow)).sum();
        let demand = demand.min(self.link.capacity);
        let slow_disk = if self.link.batch > 0.0 {
            self.disk.held_up()
        } else {
            self.link.storage <= demand
        };
        if slow_disk {
            Holdup::Elsewhere("destination storage")
        } else if self.processors(streams) <= demand {
            Holdup::Elsewhere("the processor")
        } else {
            Holdup::Network
        }
    }

    /// Bytes a second that the storage accepts now.
    fn storage(&self) -> f64 {
        match self.link.batch {
            batch if batch <= 0.0 => self.link.storage,
            batch if self.disk.is_full(batch) => 0.0,
            _ => f64::INFINITY,
        }
    }

    fn processors(&self, streams: usize) -> f64 {
        self.link.processors * (1.0 - 0.01 * (streams as f64 - 2.0)).clamp(0.1, 1.0)
    }

    fn rate_wanted(&self, flow: &Flow) -> f64 {
        if flow.from > self.now {
            return 0.0;
        }
        let round_trip = self.link.round_trip + self.queued / self.link.capacity;
        flow.window.min(self.link.buffer) / round_trip
    }

    /// Advances the time.
    pub(super) fn pass(&mut self, until: f64) {
        while self.now < until {
            let tick = (self.link.round_trip / 2.0).clamp(0.005, 0.05);
            if self.away_since.is_some() {
                self.stand_still(tick);
            } else {
                self.tick(tick);
            }
            self.now += tick;
        }
    }

    fn tick(&mut self, tick: f64) {
        let round_trip = self.link.round_trip + self.queued / self.link.capacity;
        let wanted: Vec<f64> = self
            .flows
            .iter()
            .map(|flow| self.rate_wanted(flow))
            .collect();
        // The machines at the ends slow down all streams of a transfer equally, but no plain connection.
        let mut factors = vec![1.0; self.owners.len()];
        for (owner, factor) in factors.iter_mut().enumerate() {
            if self.owners[owner].is_plain {
                continue;
            }
            let of_owner = |(index, flow): (usize, &Flow)| {
                if flow.owner == owner {
                    wanted[index]
                } else {
                    0.0
                }
            };
            let all: f64 = self.flows.iter().enumerate().map(of_owner).sum();
            let most = self
                .storage()
                .min(self.processors(self.count(owner) as usize));
            if all > most {
                *factor = most / all;
            }
        }
        let sent: Vec<f64> = self
            .flows
            .iter()
            .zip(&wanted)
            .map(|(flow, wanted)| wanted * factors[flow.owner])
            .collect();
        let all: f64 = sent.iter().sum();
        let queued_before = self.queued;
        self.queued = (self.queued + (all - self.link.capacity) * tick).max(0.0);
        let overflow = (self.queued - self.link.queue).max(0.0);
        self.queued -= overflow;
        let out = if all > 0.0 {
            ((all * tick + queued_before - self.queued - overflow).max(0.0) / (all * tick)).min(2.0)
        } else {
            0.0
        };
        let dropped = if all > 0.0 {
            overflow / (all * tick)
        } else {
            0.0
        };
        let mut taken = 0.0;
        for (index, rate) in sent.iter().enumerate() {
            let bytes = rate * tick * out;
            let segments = bytes / SEGMENT;
            let owner = self.flows[index].owner;
            let factor = factors[owner];
            let lost = segments * self.link.loss + rate * tick * dropped / SEGMENT;
            let hit = lost > 0.0 && self.dice.unit() < 1.0 - (-lost).exp();
            let own = &mut self.owners[owner];
            own.bytes += bytes;
            own.segments += segments;
            own.retransmitted += lost;
            let flow = &mut self.flows[index];
            if flow.from > self.now {
                continue;
            }
            own.busy += tick;
            let held_up = flow.window >= self.link.buffer && factor >= 1.0;
            own.held_up += if held_up { tick } else { 0.0 };
            // A receiver that does not read closes its window.
            own.windows_full += if factor <= 0.0 { tick } else { 0.0 };
            taken += bytes;
            flow.lost |= hit;
            flow.round_bytes += bytes;
            if self.now >= flow.next_round {
                flow.round(self.now, round_trip, &self.link, factor < 1.0);
            }
        }
        let Link {
            batch,
            storage,
            uneven,
            ..
        } = self.link;
        let chance = if uneven > 0.0 { self.dice.unit() } else { 0.5 };
        let next = storage * (1.0 + uneven * (2.0 * chance - 1.0));
        self.disk.pass(tick, taken, batch, next);
    }
}

impl Flow {
    /// Ends a round, one RTT.
    fn round(&mut self, now: f64, round_trip: f64, link: &Link, idle: bool) {
        let passed = (now - self.round_since).max(1e-3);
        let delivered = self.round_bytes / passed;
        self.round_bytes = 0.0;
        self.round_since = now;
        self.next_round = now + round_trip;
        let lost = std::mem::take(&mut self.lost);
        match self.kind {
            Kind::Rate => {
                let grew = delivered > 1.25 * self.best;
                if delivered >= self.best || now > self.best_until {
                    self.best = delivered;
                    self.best_until = now + 10.0 * round_trip;
                }
                let most = 2.0 * self.best * link.round_trip;
                if self.full_rounds < 3 {
                    self.full_rounds = if grew { 0 } else { self.full_rounds + 1 };
                    self.window = (self.window * 2.0).min(most.max(20.0 * SEGMENT));
                } else {
                    self.window = (1.1 * self.best * link.round_trip).max(4.0 * SEGMENT);
                }
            }
            Kind::Reno | Kind::Cubic if lost => {
                self.peak = self.window;
                self.since = now;
                let factor = if self.kind == Kind::Reno { 0.5 } else { 0.7 };
                self.window = (self.window * factor).max(2.0 * SEGMENT);
                self.threshold = self.window;
            }
            // An unused window does not grow.
            Kind::Reno | Kind::Cubic if idle || self.window > 1.1 * link.buffer => {}
            Kind::Reno | Kind::Cubic if self.window < self.threshold => {
                self.window *= 2.0;
                // Slow start ends on a growing RTT, as in HyStart.
                let queued = round_trip - link.round_trip;
                if queued > (link.round_trip / 8.0).clamp(0.004, 0.016) {
                    self.threshold = self.window;
                    self.peak = self.window;
                    self.since = now;
                }
            }
            Kind::Reno => self.window += SEGMENT,
            Kind::Cubic => {
                let age = now - self.since;
                let peak = self.peak / SEGMENT;
                let turn = (peak * 0.3 / 0.4).cbrt();
                let curve = 0.4 * (age - turn).powi(3) + peak;
                let friendly = 0.7 * peak + 0.53 * age / round_trip;
                let next = curve.max(friendly) * SEGMENT;
                self.window = next.clamp(self.window, self.window * 1.5);
            }
        }
    }
}

/// A transfer in a world: a tuner and its history.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) owner: usize,
    pub(super) tuner: StreamTuner,
    /// The time and the reason of each decision.
    pub(super) decisions: Vec<(f64, String)>,
    /// Bytes delivered and streams wanted, each second.
    pub(super) seconds: Vec<(f64, u32)>,
    begun: f64,
}

impl Run {
    pub(super) fn new(world: &mut World) -> Self {
        let owner = world.add_owner();
        let path = Path {
            round_trip: Duration::from_secs_f64(world.link.round_trip),
            buffer_bytes: if world.link.buffer.is_finite() {
                (world.link.buffer * 2.0) as u64
            } else {
                0
            },
            limit: 0,
        };
        Self::beginning(world, owner, start(&path, Bounds::STREAMS).streams)
    }

    pub(super) fn beginning(world: &mut World, owner: usize, streams: u32) -> Self {
        world.set_streams(owner, streams);
        Self {
            owner,
            tuner: StreamTuner::new(Bounds::STREAMS, streams),
            decisions: Vec::new(),
            seconds: Vec::new(),
            begun: world.now,
        }
    }

    fn look(&mut self, world: &mut World) {
        let (sample, holdup) = world.sample(self.owner);
        let since = Duration::from_secs_f64(world.now - self.begun);
        if let Some(decision) = self.tuner.step(since, &sample, holdup) {
            self.decisions.push((world.now, decision.to_string()));
            world.set_streams(self.owner, decision.to);
        }
    }
}

/// Runs all transfers in the world until `until`.
pub(super) fn run(world: &mut World, runs: &mut [&mut Run], until: f64) {
    let mut second = world.now + 1.0;
    while world.now < until {
        world.pass(world.now + 0.1);
        for run in runs.iter_mut() {
            // A transfer whose connection was refused tries again.
            let wanted = world.owners[run.owner].wanted;
            world.set_streams(run.owner, wanted);
            run.look(world);
        }
        if world.now >= second {
            second += 1.0;
            for run in runs.iter_mut() {
                let target = run.tuner.target();
                run.seconds.push((world.bytes(run.owner), target));
            }
        }
    }
}

/// The rate of a fixed number of streams over the last half of `seconds`.
pub(super) fn fixed(link: Link, seed: u64, streams: u32, seconds: f64) -> f64 {
    let mut world = World::new(link, seed);
    let owner = world.add_owner();
    world.set_streams(owner, streams);
    world.pass(seconds / 2.0);
    let half = world.bytes(owner);
    world.pass(seconds);
    (world.bytes(owner) - half) / (seconds / 2.0)
}
