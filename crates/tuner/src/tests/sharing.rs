//! Tests properties of the tuner in competition with a copy of itself, or with other transfers. Does not simulate links
//! (`world` does).

use std::time::Duration;

use super::super::world::{Dice, Kind, Run, World, run};
use super::super::{Bounds, ChannelSample, Holdup, StreamTuner};
use super::{KINDS, MBIT, clean, rate_of, reported};

#[test]
fn two_copies_share_a_link_as_their_first_streams_would_and_fill_it() {
    for seed in 0..120 {
        let mut dice = Dice::new(seed);
        let kind = dice.one_of(&KINDS[1..]);
        let mut link = clean(
            dice.over(100.0 * MBIT, 1000.0 * MBIT),
            dice.over(0.005, 0.1),
            kind,
        );
        if dice.unit() < 0.3 {
            link.loss = dice.over(1e-6, 1e-4);
        }
        // The shares of two pairs of streams under TCP alone.
        let mut plain = World::new(link, seed);
        let owners = [plain.add_owner(), plain.add_owner()];
        plain.set_streams(owners[0], 2);
        plain.pass(20.0);
        plain.set_streams(owners[1], 2);
        plain.pass(50.0);
        let before = owners.map(|owner| plain.bytes(owner));
        plain.pass(120.0);
        let [first, second] = [0, 1].map(|index| plain.bytes(owners[index]) - before[index]);
        let by_itself = second / (first + second);

        let mut world = World::new(link, seed);
        let mut one = Run::new(&mut world);
        run(&mut world, &mut [&mut one], 20.0);
        let mut two = Run::new(&mut world);
        run(&mut world, &mut [&mut one, &mut two], 120.0);
        let first = rate_of(&one, 50, 120);
        let second = rate_of(&two, 30, 100);
        let sum = (first + second) / link.capacity;
        let share = second / (first + second);
        let both = format!("{link:?}{}\n{}", reported(&one), reported(&two));
        assert!(sum > 0.85, "seed {seed}: {sum:.2} {both}");
        // Streams of the rate model keep for long to the rate found at their start. If losses do not come from the queue,
        // the transfer that was alone may have found many streams useful. It removes them only step by step.
        let slack = match kind {
            _ if link.loss > 0.0 => 6.0,
            Kind::Rate => 2.5,
            Kind::Reno | Kind::Cubic => 1.6,
        };
        assert!(
            share > by_itself.min(0.5) / slack && 1.0 - share > by_itself.min(0.5) / slack,
            "seed {seed}: {share:.2}, by itself {by_itself:.2} {both}"
        );
    }
}

#[test]
fn of_two_equal_transfers_on_a_full_way_without_a_queue_none_gets_more() {
    for count in 16..=64 {
        let mut tuner = StreamTuner::new(Bounds::STREAMS, count);
        let mut sample = ChannelSample {
            round_trip: Duration::from_millis(50),
            round_trip_min: Duration::from_millis(50),
            ..ChannelSample::default()
        };
        let mut least = u32::MAX;
        for tick in 0..300 {
            let now = Duration::from_millis(tick * 100);
            sample.streams = tuner.target();
            let ours = f64::from(sample.streams);
            sample.bytes += (10_000_000.0 * ours / (ours + f64::from(count))) as u64;
            sample.busy += Duration::from_millis(100) * sample.streams;
            sample.buffer_limited += Duration::from_millis(90) * sample.streams;
            tuner.step(now, &sample, Holdup::Network);
            if tick >= 200 {
                least = least.min(tuner.target());
            }
        }
        // More streams are tried now and then.
        assert_eq!(least, count);
    }
}

#[test]
fn a_plain_connection_keeps_a_fair_part() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let kind = dice.one_of(&KINDS[1..]);
        let link = clean(
            dice.over(100.0 * MBIT, 1000.0 * MBIT),
            dice.over(0.005, 0.1),
            kind,
        );
        let mut world = World::new(link, seed);
        let plain = world.add_plain();
        world.pass(10.0);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 40.0);
        let before = world.bytes(plain);
        run(&mut world, &mut [&mut own], 70.0);
        let share = (world.bytes(plain) - before) / 30.0 / link.capacity;
        // In competition with the two initial streams of a transfer, the other transfer would have a third.
        assert!(
            share > 0.1,
            "seed {seed}: {share:.2} {link:?}{}",
            reported(&own)
        );
    }
}

#[test]
fn a_queue_too_short_to_be_seen_is_not_run_over_for_more() {
    let (mut left, mut many) = (0.0, 0);
    let seeds = 100_u32;
    for seed in 0..seeds {
        let mut dice = Dice::new(seed.into());
        let capacity = dice.over(100.0 * MBIT, 1000.0 * MBIT);
        let mut link = clean(capacity, dice.over(0.01, 0.1), Kind::Cubic);
        link.queue = dice.between(0.05, 0.2) * link.windows();
        let mut world = World::new(link, seed.into());
        let plain = world.add_plain();
        world.pass(10.0);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 80.0);
        let before = world.bytes(plain);
        run(&mut world, &mut [&mut own], 140.0);
        left += (world.bytes(plain) - before) / 60.0 / capacity / f64::from(seeds);
        many += u32::from(own.tuner.target() > 16);
    }
    assert!(left > 0.1, "{left}");
    assert!(many < 30, "{many}");
}

/// Capacity of the link in a tick of a tenth of a second, in bytes.
const LINE: f64 = 12_500_000.0;

/// A transfer whose streams share a full link. Its storage and processors are no limit.
struct Sharer {
    tuner: StreamTuner,
    sample: ChannelSample,
    begun: u64,
    /// Now and then the transfer gets more than the share of its streams, and less at other times.
    luck: f64,
    /// Share of the time in which its streams wait for their buffers.
    held_up: f64,
    reported: Vec<String>,
}

impl Sharer {
    fn new(streams: u32, begun: u64) -> Self {
        let sample = ChannelSample {
            round_trip_min: Duration::from_millis(50),
            ..ChannelSample::default()
        };
        Self {
            tuner: StreamTuner::new(Bounds::STREAMS, streams),
            sample,
            begun,
            luck: 0.0,
            held_up: 0.0,
            reported: Vec::new(),
        }
    }

    fn change_luck(&mut self, dice: &mut Dice) {
        let chance = dice.unit() + dice.unit() + dice.unit() - 1.5;
        self.luck = 0.8 * self.luck + 0.12 * chance;
    }

    fn weight(&self) -> f64 {
        f64::from(self.tuner.target()) * self.luck.exp()
    }

    /// Records a tick with this share of the link, at this RTT.
    fn look(&mut self, tick: u64, share: f64, round_trip: Duration) {
        self.sample.streams = self.tuner.target();
        self.sample.round_trip = round_trip;
        self.sample.bytes += (LINE * share) as u64;
        let busy = Duration::from_millis(100) * self.sample.streams;
        self.sample.busy += busy;
        self.sample.buffer_limited += busy.mul_f64(self.held_up);
        let now = Duration::from_millis((tick - self.begun) * 100);
        if let Some(decision) = self.tuner.step(now, &self.sample, Holdup::Network) {
            self.reported.push(format!("{now:?} {decision}"));
        }
    }
}

#[test]
fn the_one_that_joins_in_a_queue_comes_down_to_half_though_moments_differ() {
    let seeds = 300;
    let (mut off, mut far) = (0.0, 0);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let mut two = [Sharer::new(3, 0), Sharer::new(5, 110)];
        let mut late = [0.0; 2];
        for tick in 0..340 {
            for one in &mut two {
                one.change_luck(&mut dice);
            }
            let joined = tick >= 110;
            let weights = [two[0].weight(), two[1].weight()];
            let all = if joined {
                weights[0] + weights[1]
            } else {
                weights[0]
            };
            let round_trip = Duration::from_millis(if joined { 85 } else { 62 });
            two[0].look(tick, weights[0] / all, round_trip);
            if joined {
                two[1].look(tick, weights[1] / all, round_trip);
            }
            if tick >= 225 {
                late[0] += weights[0] / all;
                late[1] += weights[1] / all;
            }
        }
        let miss = (late[0] / (late[0] + late[1]) - 0.5).abs() * 2.0;
        off += miss;
        far += u64::from(miss > 0.15);
        let reported = two.map(|one| one.reported.join("\n  "));
        assert!(
            miss < 0.5,
            "seed {seed}: {miss:.2}\n  {}\n\n  {}",
            reported[0],
            reported[1]
        );
    }
    let mean = off / seeds as f64;
    assert!(
        mean < 0.06 && far * 100 <= seeds * 12,
        "{mean:.3} off half, {far} of {seeds} far"
    );
}

#[test]
fn streams_yielded_to_others_do_not_return_when_the_queue_is_briefly_empty() {
    let mut own = Sharer::new(5, 0);
    for tick in 0..600 {
        let ours = own.weight();
        let is_gone = tick % 100 >= 85;
        let round_trip = Duration::from_millis(if is_gone { 52 } else { 85 });
        own.look(tick, ours / (ours + 3.0), round_trip);
    }
    let reported = own.reported.join("\n");
    assert!(own.tuner.target() <= 4, "{reported}");
    assert!(!reported.contains("went through before"), "{reported}");
}

/// BBR sends almost nothing for a moment every ten seconds, to measure the RTT without a queue.
#[test]
fn where_a_queue_stood_more_are_not_kept_because_it_paused_before() {
    // Until the first pause the tuner measures the usual rate.
    for phase in 0..36 {
        let mut own = Sharer::new(3, 0);
        own.held_up = 0.4;
        for tick in 0..600 {
            let pauses = (tick + phase) % 100 >= 96;
            let round_trip = match (pauses, own.tuner.target()) {
                (true, _) => 52,
                (false, 3) if tick % 30 < 10 => 70,
                (false, _) => 61,
            };
            // Two streams do not fill the link.
            let share = if pauses {
                0.25
            } else {
                (f64::from(own.tuner.target()) / 2.5).min(1.0)
            };
            own.look(tick, share, Duration::from_millis(round_trip));
        }
        let reported = own.reported.join("\n");
        assert!(own.tuner.target() <= 4, "{phase}: {reported}");
        let kept = own
            .reported
            .iter()
            .filter(|line| line.contains("streams 4 -> 5"));
        assert_eq!(kept.count(), 0, "{phase}: {reported}");
    }
}

#[test]
fn the_rate_of_a_lone_transfer_is_not_wanted_back_when_the_queue_is_briefly_empty() {
    // The queue is visible before it is gone.
    for phase in 0..70 {
        let mut own = Sharer::new(3, 0);
        for tick in 0..600 {
            let joined = tick >= 110;
            let is_gone = (tick + phase) % 100 >= 90;
            let round_trip = match (joined, is_gone) {
                (false, _) => 61,
                (true, false) => 85,
                (true, true) => 55,
            };
            let ours = own.weight();
            let share = if joined { ours / (ours + 3.0) } else { 1.0 };
            own.look(tick, share, Duration::from_millis(round_trip));
        }
        let reported = own.reported.join("\n");
        assert!(
            !reported.contains("1.00 Gbit/s went through before"),
            "{phase}: {reported}"
        );
    }
}

#[test]
fn a_transfer_with_less_than_half_of_a_queue_keeps_some_streams_against_others_that_do_not_yield() {
    let seeds = 200;
    for others in [16, 32, 64] {
        let mut sum = 0;
        for seed in 0..seeds {
            let mut dice = Dice::new(seed);
            let mut own = Sharer::new(8, 0);
            let mut theirs = Sharer::new(others, 0);
            for tick in 0..1200 {
                own.change_luck(&mut dice);
                theirs.change_luck(&mut dice);
                let share = own.weight() / (own.weight() + theirs.weight());
                own.look(tick, share, Duration::from_millis(85));
            }
            sum += own.tuner.target();
        }
        let mean = f64::from(sum) / seeds as f64;
        // The mean would be 2 if the transfer always gave up its extra streams. By bad luck it ends too many streams.
        assert!(mean >= 2.6, "{mean} of 8 beside {others}");
    }
}

#[test]
fn a_long_lone_transfer_yields_to_a_new_one_within_a_minute() {
    let seeds = 100;
    let (mut off, mut far) = (0.0, 0);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let alone = 6000;
        let mut two = [Sharer::new(8, 0), Sharer::new(2 + seed as u32 % 2, alone)];
        let mut late = [0.0; 2];
        for tick in 0..alone + 1200 {
            for one in &mut two {
                one.change_luck(&mut dice);
            }
            let weights = [two[0].weight(), two[1].weight()];
            if tick < alone {
                // All streams are needed to fill the link, and the queue is the transfer's own.
                let share = (f64::from(two[0].tuner.target()) / 7.5).min(1.0);
                two[0].look(tick, share, Duration::from_millis(65));
                continue;
            }
            let all = weights[0] + weights[1];
            two[0].look(tick, weights[0] / all, Duration::from_millis(85));
            two[1].look(tick, weights[1] / all, Duration::from_millis(85));
            if tick >= alone + 600 {
                late[0] += weights[0] / all;
                late[1] += weights[1] / all;
            }
        }
        let miss = (late[0] / (late[0] + late[1]) - 0.5).abs() * 2.0;
        off += miss;
        far += u64::from(miss > 0.25);
    }
    let mean = off / seeds as f64;
    assert!(
        mean < 0.05 && far * 100 <= seeds * 5,
        "{mean:.3} off half, {far} of {seeds} far"
    );
}
