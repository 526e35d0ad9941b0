//! Properties of the tuner beside a copy of itself, or others.
//! Knows no link itself (`world`).

use std::time::Duration;

use super::super::world::{Dice, Kind, Run, World, run};
use super::super::{Bounds, ChannelSample, Holdup, StreamTuner};
use super::{KINDS, MBIT, clean, rate_of, told};

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
        // How TCP itself shares between two and two.
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
        let both = format!("{link:?}{}\n{}", told(&one), told(&two));
        assert!(sum > 0.85, "seed {seed}: {sum:.2} {both}");
        // Those of the model that keep to a rate hold to what they see at their start, for long; and where losses are not
        // of the queue, the one that was alone may have found many streams of use, and lets them go in steps only.
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
        // More are tried now and then.
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
        // Beside the two streams that a transfer begins with it would have a third.
        assert!(
            share > 0.1,
            "seed {seed}: {share:.2} {link:?}{}",
            told(&own)
        );
    }
}
