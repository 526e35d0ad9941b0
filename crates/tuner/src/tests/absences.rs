//! Tests properties of the tuner during an outage of the path or of some streams. Does not simulate links (`world` does).

use std::ops::Range;
use std::time::Duration;

use super::super::world::{Dice, Run, World, run};
use super::super::{Bounds, ChannelSample, Holdup, StreamTuner};
use super::{any, rate_of, reported};

/// The median number of streams in these seconds.
fn usual_number(run: &Run, seconds: Range<usize>) -> f64 {
    let mut numbers: Vec<u32> = run.seconds[seconds].iter().map(|second| second.1).collect();
    numbers.sort_unstable();
    f64::from(numbers[numbers.len() / 2])
}

#[test]
fn times_in_which_nothing_moves_win_nothing_for_more_streams() {
    let seeds = 200;
    let mut sum = 0.0;
    for seed in 0..seeds {
        let mut dice = Dice::new(seed ^ 0xa_0000);
        let mut link = any(&mut dice);
        if seed % 2 == 0 {
            // Some number of streams fills the path, and more have no use.
            link.loss = 0.0;
            link.buffer = link.windows() * dice.between(0.1, 1.0);
        }
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 90.0);
        for _ in 0..4 {
            world.go_away();
            let until = world.now + dice.over(0.3, 10.0);
            run(&mut world, &mut [&mut own], until);
            world.come_back();
            let until = world.now + dice.between(15.0, 25.0);
            run(&mut world, &mut [&mut own], until);
        }
        run(&mut world, &mut [&mut own], 240.0);
        let mut undisturbed = World::new(link, seed);
        let mut other = Run::new(&mut undisturbed);
        run(&mut undisturbed, &mut [&mut other], 240.0);
        let before = usual_number(&own, 70..89);
        // The last half minute of each run.
        let [(after, with), (_, without)] = [&own, &other].map(|run| {
            let all = run.seconds.len();
            (
                usual_number(run, all - 30..all),
                rate_of(run, all - 30, all),
            )
        });
        assert!(
            after <= 2.0 * before && with > 0.5 * without,
            "seed {seed}: {before}, then {after}, {with:.0} instead of {without:.0} {link:?}{}",
            reported(&own)
        );
        sum += (with / without).min(1.0);
    }
    assert!(sum / seeds as f64 > 0.98, "{}", sum / seeds as f64);
}

/// The final number and the decisions of a tuner on a path with an RTT of half a second. Streams start or end six seconds after
/// a decision. `away` returns the number of missing streams at a tick of a tenth of a second.
fn decided(holdup: Holdup, streams: u32, away: impl Fn(u64) -> u32) -> (u32, String) {
    let mut tuner = StreamTuner::new(Bounds::STREAMS, streams);
    let mut sample = ChannelSample {
        round_trip: Duration::from_millis(500),
        round_trip_min: Duration::from_millis(500),
        ..ChannelSample::default()
    };
    let mut coming = (0, streams);
    let mut there = streams;
    let mut reported = String::new();
    for tick in 0..500 {
        if tick == coming.0 {
            there = coming.1;
        }
        sample.streams = there - away(tick);
        let busy = Duration::from_millis(100) * sample.streams;
        sample.busy += busy;
        if holdup == Holdup::Network {
            sample.buffer_limited += busy.mul_f64(0.9);
            sample.bytes += 100_000 * u64::from(sample.streams);
        } else {
            sample.bytes += 400_000;
        }
        let now = Duration::from_millis(tick * 100);
        if let Some(decision) = tuner.step(now, &sample, holdup) {
            coming = (tick + 60, decision.to);
            reported += &format!("{now:?} {decision}\n");
        }
    }
    (tuner.target(), reported)
}

#[test]
fn a_stream_that_is_away_for_a_moment_ends_no_trial() {
    let disk = Holdup::Elsewhere("destination storage");
    for when in 0..400 {
        let away = |tick| u32::from(tick == when);
        for (holdup, streams) in [(Holdup::Network, 2), (disk, 8)] {
            let (target, reported) = decided(holdup, streams, away);
            assert!(
                !reported.contains("no more come about"),
                "{when}: {reported}"
            );
            assert_ne!(target, streams, "{when}: {reported}");
        }
    }
}

#[test]
fn streams_that_are_lost_while_fewer_are_tried_are_not_said_to_be_refused() {
    let disk = Holdup::Elsewhere("destination storage");
    for when in 1..400 {
        let (target, reported) = decided(disk, 8, |tick| u32::from(tick >= when));
        assert!(
            !reported.contains("no more come about"),
            "{when}: {reported}"
        );
        assert!(target < 8, "{when}: {reported}");
    }
}
