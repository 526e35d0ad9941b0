//! Tests properties of the tuner if a disk is the limit. Does not simulate disks (`world` does).

use std::time::Duration;

use super::super::world::{Dice, Kind, Run, World, run};
use super::super::{Bounds, ChannelSample, Holdup, StreamTuner};
use super::{MBIT, clean, rate_of, reported};

#[test]
fn streams_come_down_to_what_a_slow_disk_takes() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, 0.1, Kind::Cubic);
        link.buffer = 1e6;
        link.storage = dice.between(100.0, 300.0) * MBIT;
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 60.0);
        let needed = (link.storage * link.round_trip / link.buffer).ceil() as u32;
        let target = own.tuner.target();
        assert!(
            target <= (needed + 1).max(2) * 3 / 2,
            "seed {seed}: {target}, {needed} needed{}",
            reported(&own)
        );
        let share = rate_of(&own, 40, 60) / link.storage;
        assert!(share > 0.93, "seed {seed}: {share:.2}{}", reported(&own));
    }
}

#[test]
fn a_disk_that_syncs_now_and_then_gets_no_more_streams_for_its_bursts() {
    let mut tuner = StreamTuner::new(Bounds::STREAMS, 2);
    let mut sample = ChannelSample {
        round_trip: Duration::from_millis(52),
        round_trip_min: Duration::from_millis(50),
        ..ChannelSample::default()
    };
    let mut most = 0;
    for tick in 0..900 {
        let now = Duration::from_millis(tick * 100);
        // Three seconds of syncs, then one in which the cache accepts all data, with full windows.
        let bursts = tick > 100 && tick % 40 >= 30;
        sample.streams = tuner.target();
        sample.bytes += if bursts { 8_000_000 } else { 2_000_000 };
        sample.busy += Duration::from_millis(100) * sample.streams;
        if bursts {
            sample.window_limited += Duration::from_millis(80) * sample.streams;
        }
        let holdup = if bursts {
            Holdup::Network
        } else {
            Holdup::Elsewhere("destination storage")
        };
        tuner.step(now, &sample, holdup);
        most = most.max(tuner.target());
    }
    assert!(most <= 2, "{most} streams");
}

#[test]
fn streams_come_down_to_what_a_disk_takes_that_syncs_batches() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, dice.between(0.04, 0.12), Kind::Cubic);
        link.buffer = 2.1e6;
        link.storage = dice.between(100.0, 300.0) * MBIT;
        link.batch = dice.between(64e6, 135e6);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 60.0);
        // With some reserve: if the streams are hardly faster than the disk, the network is repeatedly the
        // limit.
        let needed = (1.7 * link.storage * link.round_trip / link.buffer).ceil() as u32;
        // More streams may be tried for a moment.
        let mut late: Vec<u32> = own.seconds[40..]
            .iter()
            .map(|&(_, streams)| streams)
            .collect();
        late.sort_unstable();
        let usual = late[late.len() / 2];
        assert!(
            usual <= needed.max(2),
            "seed {seed}: {usual} streams, {needed} needed {link:?}{}",
            reported(&own)
        );
        // The measured time may begin after a burst and end before one.
        let moved = rate_of(&own, 20, 60) + link.batch / 40.0;
        let share = moved / link.storage;
        assert!(share > 0.95, "seed {seed}: {share:.2}{}", reported(&own));
    }
}

#[test]
fn a_disk_of_300_mbits_is_left_two_streams_in_half_a_minute() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let mut link = clean(1000.0 * MBIT, 0.05, Kind::Cubic);
        link.buffer = 2.1e6;
        link.storage = 300.0 * MBIT;
        link.batch = dice.between(60e6, 140e6);
        // The sync of a batch may take half as long again as the previous one.
        link.uneven = dice.between(0.0, 0.3);
        let mut world = World::new(link, seed);
        let mut own = Run::new(&mut world);
        run(&mut world, &mut [&mut own], 35.0);
        let most = own.seconds[26..].iter().map(|&(_, streams)| streams).max();
        assert_eq!(most, Some(2), "seed {seed}: {link:?}{}", reported(&own));
    }
}
