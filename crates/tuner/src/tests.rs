//! Tests properties of the tuner over thousands of simulated links. Does not simulate links (`world` does).

#![expect(
    clippy::cast_possible_truncation,
    reason = "a model with small numbers"
)]

mod absences;
mod changes;
mod disks;
mod sharing;

use std::time::Duration;

use super::world::{Dice, Kind, Link, Run, SEGMENT, World, fixed, run};
use super::{Bounds, ChannelSample, Holdup, StreamTuner};

const MBIT: f64 = 125_000.0;
const KINDS: [Kind; 3] = [Kind::Reno, Kind::Cubic, Kind::Rate];

/// A clean link: no losses except those of its full queue, a queue for one RTT, and buffers for full windows.
fn clean(capacity: f64, round_trip: f64, kind: Kind) -> Link {
    Link {
        capacity,
        round_trip,
        queue: (capacity * round_trip).max(100_000.0),
        loss: 0.0,
        buffer: f64::INFINITY,
        kind,
        storage: f64::INFINITY,
        batch: 0.0,
        uneven: 0.0,
        processors: f64::INFINITY,
    }
}

/// A random link.
fn any(dice: &mut Dice) -> Link {
    let capacity = dice.over(20.0 * MBIT, 5000.0 * MBIT);
    let round_trip = dice.over(0.002, 0.25);
    let mut link = clean(capacity, round_trip, dice.one_of(&KINDS));
    // Reno is not used on paths that it would need hours to fill.
    if link.kind == Kind::Reno && link.windows() > 2000.0 * SEGMENT {
        link.kind = Kind::Cubic;
    }
    link.queue = (dice.between(0.5, 2.0) * link.windows()).max(100_000.0);
    if dice.unit() < 0.6 {
        link.loss = dice.over(1e-6, 1e-2);
    }
    if dice.unit() < 0.4 {
        link.buffer = dice.over(500_000.0, 16e6);
    }
    link
}

/// The rate in the seconds from `from` to `to`.
fn rate_of(run: &Run, from: usize, to: usize) -> f64 {
    let to = to.min(run.seconds.len());
    (run.seconds[to - 1].0 - run.seconds[from - 1].0) / (to - from) as f64
}

/// Number of changes in these seconds.
fn changes(run: &Run, from: f64, to: f64) -> usize {
    let within = |(when, _): &&(f64, String)| (from..to).contains(when);
    run.decisions.iter().filter(within).count()
}

fn reported(run: &Run) -> String {
    let line = |(when, what): &(f64, String)| format!("\n  {when:6.1} s {what}");
    run.decisions.iter().map(line).collect()
}

#[test]
fn it_comes_near_the_best_fixed_number_on_any_link_and_stays_there() {
    let seeds = 300;
    let (mut sum, mut far) = (0.0, 0);
    for seed in 0..seeds {
        let link = any(&mut Dice::new(seed));
        let best = [2, 8, 24, 64, 128]
            .into_iter()
            .map(|streams| fixed(link, seed, streams, 24.0))
            .fold(0.0, f64::max);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 30.0);
        let share = rate_of(&own, 15, 30) / best;
        sum += share.min(1.0);
        far += usize::from(share < 0.9);
        assert!(
            share > 0.6,
            "seed {seed}: {share:.2} {link:?}{}",
            reported(&own)
        );
        // Each failed trial doubles the time to the next one.
        let changed = changes(&own, 15.0, 30.0);
        assert!(changed <= 9, "seed {seed}: {link:?}{}", reported(&own));
    }
    assert!(sum / seeds as f64 > 0.98, "{}", sum / seeds as f64);
    assert!(
        far * 100 <= seeds as usize * 4,
        "{far} of {seeds} below 0.9"
    );
}

/// Two streams use three quarters of the path's capacity, so four cannot gain half of the ideal. A part of eight was not enough.
#[test]
fn it_does_not_go_back_to_two_streams_where_four_win_what_is_left() {
    for seed in 0..16 {
        let mut link = clean(3000.0 * MBIT, 0.12, Kind::Cubic);
        link.queue = 0.02 * link.windows();
        link.buffer = 16e6;
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 14.0);
        assert!(own.tuner.target() > 2, "seed {seed}: {}", reported(&own));
        let share = rate_of(&own, 2, 14) / link.capacity;
        assert!(share > 0.78, "seed {seed}: {share:.2}{}", reported(&own));
    }
}

#[test]
fn it_makes_up_for_small_buffers_at_once_and_says_why() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let mut link = clean(
            1000.0 * MBIT,
            dice.between(0.1, 0.25),
            dice.one_of(&KINDS[1..]),
        );
        link.buffer = dice.between(1.5e6, 4e6);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 20.0);
        let after = (40.0 * link.round_trip).ceil() as usize;
        let share = rate_of(&own, after, 20) / link.capacity;
        assert!(
            share > 0.9,
            "seed {seed}: {share:.2} {link:?}{}",
            reported(&own)
        );
    }
    // The start cannot know the windows, so the reason of the first step names them.
    let mut link = clean(1000.0 * MBIT, 0.2, Kind::Cubic);
    link.buffer = 2e6;
    let mut world = World::new(link, 1);
    let owner = world.add_owner();
    let mut own = Run::beginning(&mut world, owner, 2);
    run(&mut world, &mut [&mut own], 20.0);
    let first = &own.decisions[0].1;
    assert!(first.contains("held up by its send buffer"), "{first}");
    assert!(
        rate_of(&own, 15, 20) > 0.9 * link.capacity,
        "{}",
        reported(&own)
    );
}

#[test]
fn a_way_that_small_buffers_fill_is_not_flooded() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, 0.2, dice.one_of(&KINDS[1..]));
        link.buffer = dice.between(1.9e6, 2.3e6);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 40.0);
        let enough = (link.windows() / link.buffer).ceil();
        // One trial is allowed.
        let most = own.seconds.iter().skip(15).map(|second| second.1).max();
        let most = most.unwrap_or_default();
        assert!(
            f64::from(most) <= 2.0 * enough,
            "seed {seed}: {most}, {enough} fill it{}",
            reported(&own)
        );
    }
}

#[test]
fn buffers_that_nearly_fill_a_way_are_not_taken_for_enough() {
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, 0.05, Kind::Rate);
        // Two streams leave at most a twentieth of the link free, and three have a queue.
        link.buffer = dice.between(0.955, 0.98) * link.windows() / 2.0;
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 60.0);
        let share = rate_of(&own, 20, 60) / link.capacity;
        assert!(share > 0.985, "seed {seed}: {share:.3}{}", reported(&own));
    }
}

#[test]
fn a_long_fast_way_is_full_after_some_round_trips_however_small_the_buffers() {
    let seeds = 300;
    let (mut soon, mut far) = (0.0, 0);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let mut link = clean(
            dice.over(1000.0 * MBIT, 10_000.0 * MBIT),
            dice.between(0.1, 0.25),
            dice.one_of(&KINDS[1..]),
        );
        link.buffer = dice.between(1.5e6, 4e6);
        let possible = link.capacity.min(64.0 * link.buffer / link.round_trip);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        let mut share = |round_trips: f64| {
            run(&mut world, &mut [&mut own], round_trips * link.round_trip);
            let (bytes, from) = (world.bytes(own.owner), world.now);
            run(&mut world, &mut [&mut own], from + 10.0 * link.round_trip);
            (world.bytes(own.owner) - bytes) / (world.now - from) / possible
        };
        soon += share(40.0).min(1.0);
        let late = share(70.0);
        far += usize::from(late < 0.9);
        assert!(
            late > 0.7,
            "seed {seed}: {late:.2} {link:?}{}",
            reported(&own)
        );
    }
    let soon = soon / seeds as f64;
    assert!(soon > 0.9, "{soon:.2} after 40 round trips");
    assert!(far * 100 <= seeds as usize * 3, "{far} of {seeds} far");
}

#[test]
fn streams_refused_during_an_outage_are_tried_again() {
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, dice.between(0.05, 0.2), Kind::Cubic);
        link.buffer = 1e6;
        let mut world = World::new(link, seed);
        world.admitted = 2;
        let owner = world.add_owner();
        let mut own = Run::beginning(&mut world, owner, 2);
        run(&mut world, &mut [&mut own], 30.0);
        // Each failed trial doubles the time to the next one.
        assert!(own.decisions.len() <= 4, "seed {seed}{}", reported(&own));
        world.admitted = u32::MAX;
        run(&mut world, &mut [&mut own], 120.0);
        let share = rate_of(&own, 90, 119) / link.capacity;
        assert!(
            share > 0.9,
            "seed {seed}: {share:.2} {link:?}{}",
            reported(&own)
        );
    }
}

#[test]
fn losses_on_a_long_way_are_made_up_for_in_seconds() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, 0.05, Kind::Cubic);
        link.loss = dice.one_of(&[1e-4, 1e-3, 1e-2]);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 30.0);
        let best = [16, 64, 128]
            .into_iter()
            .map(|streams| fixed(link, seed, streams, 30.0))
            .fold(0.0, f64::max);
        let late = rate_of(&own, 15, 30) / best;
        assert!(
            late > 0.9,
            "seed {seed}: {late:.2} {link:?}{}",
            reported(&own)
        );
        if link.loss >= 1e-3 {
            let target = own.seconds[9].1;
            assert!(target >= 32, "seed {seed}: {target}{}", reported(&own));
        }
    }
}

#[test]
fn streams_held_down_by_losses_are_not_measured_by_how_others_started() {
    let mut tuner = StreamTuner::new(Bounds::STREAMS, 36);
    let mut sample = ChannelSample {
        segment_bytes: SEGMENT as u32,
        round_trip: Duration::from_millis(51),
        round_trip_min: Duration::from_millis(50),
        ..ChannelSample::default()
    };
    let mut tried = Vec::new();
    for tenth in 1..100 {
        sample.streams = tuner.target();
        // Up to 36 streams are faster at the beginning than losses allow later.
        let rate: f64 = match sample.streams {
            ..=36 => 62e6,
            37..=71 => 60e6,
            _ => 73e6,
        };
        sample.bytes += (rate / 10.0) as u64;
        sample.segments = sample.bytes / SEGMENT as u64;
        sample.retransmitted = sample.segments / 1000;
        sample.busy += Duration::from_millis(100) * sample.streams;
        let now = Duration::from_millis(100) * tenth;
        if let Some(decision) = tuner.step(now, &sample, Holdup::Network) {
            tried.push(decision.to_string());
        }
    }
    assert_eq!(tuner.target(), 72, "{tried:#?}");
}

#[test]
fn steady_state_is_steady_and_near_the_best() {
    let seeds = 120;
    let (mut sum, mut far) = (0.0, 0);
    for seed in 0..seeds {
        let link = any(&mut Dice::new(seed ^ 0x5_0000));
        let best = [2, 8, 24, 64, 128]
            .into_iter()
            .map(|streams| fixed(link, seed, streams, 60.0))
            .fold(0.0, f64::max);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 240.0);
        let share = rate_of(&own, 180, 240) / best;
        let late = changes(&own, 180.0, 240.0);
        let streams = || own.seconds[180..].iter().map(|second| second.1);
        let (least, most) = (streams().min(), streams().max());
        let which = || {
            let reported = reported(&own);
            format!(
                "seed {seed}: {share:.2}, {late} changes, {least:?} to {most:?} {link:?}{reported}"
            )
        };
        sum += share.min(1.0);
        far += usize::from(share < 0.9);
        // On a path with losses a trial may fail by bad luck, and the next trial is a minute away.
        assert!(share > 0.45, "{}", which());
        assert!(late <= 8, "{}", which());
        assert!(most <= least.map(|least| 8 * least), "{}", which());
    }
    assert!(sum / seeds as f64 > 0.97, "{}", sum / seeds as f64);
    assert!(
        far * 100 <= seeds as usize * 7,
        "{far} of {seeds} below 0.9"
    );
}

#[test]
fn a_stage_that_is_not_the_network_gets_no_streams() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let mut link = clean(
            10_000.0 * MBIT,
            dice.over(0.0001, 0.05),
            dice.one_of(&KINDS[1..]),
        );
        let most = dice.between(1000.0, 5000.0) * MBIT;
        if seed % 2 == 0 {
            link.processors = most;
        } else {
            link.storage = most;
        }
        let mut world = World::new(link, seed);
        let owner = world.add_owner();
        let mut own = Run::beginning(&mut world, owner, 2);
        run(&mut world, &mut [&mut own], 60.0);
        assert!(
            own.tuner.target() <= 4,
            "seed {seed}: {link:?}{}",
            reported(&own)
        );
        let share = rate_of(&own, 30, 60) / most;
        assert!(
            share > 0.9,
            "seed {seed}: {share:.2} {link:?}{}",
            reported(&own)
        );
    }
}

#[test]
fn idle_processors_get_streams_until_they_are_no_more() {
    for useful in [3, 6, 16, 40] {
        let mut tuner = StreamTuner::new(Bounds::STREAMS, 2);
        let mut sample = ChannelSample {
            round_trip: Duration::from_micros(200),
            round_trip_min: Duration::from_micros(50),
            ..ChannelSample::default()
        };
        for tick in 0..600 {
            let now = Duration::from_millis(tick * 100);
            sample.streams = tuner.target();
            sample.bytes += u64::from(sample.streams.min(useful)) * 10_000_000;
            let holdup = if sample.streams < useful {
                Holdup::Threads
            } else {
                Holdup::Elsewhere("source CPU")
            };
            tuner.step(now, &sample, holdup);
        }
        let target = tuner.target();
        assert!(
            (useful * 9 / 10..=useful * 11 / 10 + 1).contains(&target),
            "{target} where {useful} are of use"
        );
    }
}

/// The delay that busy hosts add to an RTT of microseconds is not a standing queue.
#[test]
fn on_a_short_way_what_idle_processors_have_won_is_kept() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        // Up to this number each stream has a processor. More streams add less.
        let useful = dice.between(2.0, 12.0);
        let more = dice.between(0.0, 0.5);
        let rate = |streams: u32| {
            let streams = f64::from(streams);
            streams.min(useful) + more * (streams - useful).max(0.0)
        };
        let mut tuner = StreamTuner::new(Bounds { least: 1, most: 32 }, 2);
        let mut sample = ChannelSample {
            round_trip: Duration::from_micros(300),
            round_trip_min: Duration::from_micros(50),
            ..ChannelSample::default()
        };
        let mut reported = String::new();
        let mut changed = 0;
        let (mut moved, mut won) = (0.0, 0.0_f64);
        for tick in 0..3000 {
            let now = Duration::from_millis(tick * 100);
            sample.streams = tuner.target();
            sample.bytes += (1e7 * rate(sample.streams)) as u64;
            let holdup = if f64::from(sample.streams) < useful {
                Holdup::Threads
            } else {
                Holdup::Elsewhere("source CPU")
            };
            if tick >= 600 {
                moved += rate(sample.streams) / 2400.0;
            } else if tick >= 200 {
                won += rate(sample.streams) / 400.0;
            }
            if let Some(decision) = tuner.step(now, &sample, holdup) {
                changed += u32::from(tick >= 600);
                reported += &format!("{now:?} {decision}\n");
            }
        }
        // Trials of more and of fewer streams become rarer and rarer.
        let share = moved / won;
        assert!(
            changed <= 12 && share > 0.97,
            "seed {seed}: {changed} changes, {share:.2} of what was won\n{reported}"
        );
    }
}

#[test]
fn channels_share_what_is_allowed_evenly_and_each_has_one() {
    for (least, most) in [(64, 64), (1, 64), (5, 17), (2, 2)] {
        let bounds = Bounds { least, most };
        for channels in 1..=16 {
            let parts: Vec<Bounds> = (0..channels)
                .map(|channel| bounds.part(channel, channels))
                .collect();
            for (whole, count) in [
                (most, (|part| part.most) as fn(&Bounds) -> u32),
                (least, |part| part.least),
            ] {
                let counts = || parts.iter().map(count);
                assert_eq!(counts().sum::<u32>(), whole.max(channels));
                assert!(counts().max() <= counts().min().map(|least| least + 1));
            }
        }
    }
}

#[test]
fn a_tuner_above_its_part_gives_up_the_excess() {
    let mut tuner = StreamTuner::new(Bounds::STREAMS, 40);
    let sample = ChannelSample {
        streams: 40,
        ..ChannelSample::default()
    };
    assert_eq!(tuner.step(Duration::ZERO, &sample, Holdup::Network), None);
    tuner.set_bounds(Bounds::STREAMS.part(3, 4));
    let decision = tuner.step(Duration::ZERO, &sample, Holdup::Network);
    assert_eq!(
        decision.map(|decision| (decision.from, decision.to)),
        Some((40, 32))
    );
    assert_eq!(tuner.target(), 32);
}
