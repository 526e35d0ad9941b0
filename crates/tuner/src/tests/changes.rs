//! Tests properties of the tuner if the path changes while the transfer runs, early or late. Does
//! not simulate links (`world` does).

use std::time::Duration;

use super::super::world::{Dice, Run, World, fixed, run};
use super::super::{Bounds, ChannelSample, Holdup, StreamTuner};
use super::{KINDS, MBIT, clean, rate_of, reported};

#[test]
fn it_follows_a_sudden_change() {
    let mut late = 0;
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mut link = clean(
            1000.0 * MBIT,
            dice.between(0.02, 0.1),
            dice.one_of(&KINDS[1..]),
        );
        link.buffer = 2e6;
        let narrow = dice.between(0.1, 0.5);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 30.0);
        world.link.capacity *= narrow;
        run(&mut world, &mut [&mut own], 60.0);
        let squeezed = rate_of(&own, 45, 59) / world.link.capacity;
        world.link.capacity = link.capacity;
        run(&mut world, &mut [&mut own], 100.0);
        let wide = rate_of(&own, 80, 99) / link.capacity;
        assert!(
            squeezed > 0.9,
            "seed {seed}: {squeezed:.2} {link:?}{}",
            reported(&own)
        );
        // The time of the next trial depends on the trials that failed while the path was narrow.
        late += u32::from(wide <= 0.9);
        assert!(
            wide > 0.8,
            "seed {seed}: {wide:.2} {link:?}{}",
            reported(&own)
        );
    }
    assert!(late <= 4, "{late}");
}

/// After ten minutes without a change, a failed trial is repeated once in five minutes.
#[test]
fn it_follows_a_change_that_comes_late_as_soon_as_one_that_comes_early() {
    let (mut shown, mut late) = (0, 0);
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mut link = clean(
            dice.over(200.0 * MBIT, 1000.0 * MBIT),
            dice.between(0.03, 0.1),
            dice.one_of(&KINDS[1..]),
        );
        // Some streams fill the path, but the rate does not show it.
        link.buffer = link.windows() * dice.between(1.02, 1.2) / dice.one_of(&[3.0, 4.0, 6.0, 8.0]);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        let when = 600.0 + dice.between(0.0, 300.0);
        run(&mut world, &mut [&mut own], when);
        let change = dice.one_of(&["buffers", "losses"]);
        match change {
            "buffers" => link.buffer *= dice.between(0.2, 0.5),
            _ => link.loss = dice.over(1e-4, 1e-3),
        }
        // The next trial finds a change that the rate does not show.
        let left = fixed(link, seed, own.tuner.target(), 40.0);
        if left > 0.5 * rate_of(&own, 500, 600) {
            continue;
        }
        shown += 1;
        world.link = link;
        run(&mut world, &mut [&mut own], when + 42.0);
        let best = [24, 64, 128]
            .into_iter()
            .map(|streams| fixed(link, seed, streams, 24.0))
            .fold(0.0, f64::max);
        let from = when.ceil() as usize + 20;
        let share = rate_of(&own, from, from + 19) / best;
        late += u32::from(share <= 0.9);
        assert!(
            share > 0.8,
            "seed {seed}: {change} at {when:.0} s, {share:.2} {link:?}{}",
            reported(&own)
        );
    }
    assert!(shown >= 100, "{shown} changes showed");
    assert!(late * 50 <= shown, "{late} of {shown}");
}

#[test]
fn fewer_streams_are_tried_at_the_bound_although_the_rate_was_higher_before() {
    for most in [3, 8, 128] {
        let mut tuner = StreamTuner::new(Bounds { least: 1, most }, most);
        let mut sample = ChannelSample {
            round_trip: Duration::from_millis(50),
            round_trip_min: Duration::from_millis(50),
            ..ChannelSample::default()
        };
        for tick in 0..6000 {
            sample.streams = tuner.target();
            // The rate is the same for any number of streams.
            sample.bytes += if tick < 100 { 2_000_000 } else { 1_500_000 };
            sample.busy += Duration::from_millis(100) * sample.streams;
            tuner.step(Duration::from_millis(tick * 100), &sample, Holdup::Network);
        }
        let target = tuner.target();
        assert!(target <= most * 3 / 4, "{target} of {most}");
    }
}
