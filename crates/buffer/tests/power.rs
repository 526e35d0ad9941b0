//! Cuts power under a buffer at seeded moments, and lets its disks fail: no acknowledged extent is lost, and none is served wrong.
//! The tests of the binary cut power under real devices.

mod power {
    mod arrivals;
    pub(crate) mod disk;
    pub(crate) mod world;
}

use std::collections::BTreeMap;

use power::disk::Faults;
use power::world::World;

#[test]
fn five_hundred_power_cuts_lose_nothing_that_was_acknowledged() {
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut owed = 0;
    for seed in 0..10 {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..50 {
            let operations = 1 + world.seeded.below(400);
            world.power.cut_after(operations);
            while !world.power.is_off() {
                world.step();
            }
            owed += world.owed.len();
            world.disks.iter().for_each(|disk| disk.cut());
            world.power.come_back();
            world.open();
            world.check();
        }
        for (what, times) in &world.tally {
            *tally.entry(what).or_default() += times;
        }
    }
    eprintln!("{owed} owed at the cuts, {tally:?}");
    assert!(owed > 2_000, "{owed}");
    for what in ["commit", "drained", "served", "full"] {
        assert!(
            tally.get(what).is_some_and(|times| *times > 1_000),
            "{what}: {tally:?}"
        );
    }
}

#[test]
fn disks_that_fail_lose_nothing_that_was_acknowledged_and_serve_nothing_wrong() {
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 100..110 {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        for disk in &world.disks {
            let faults = Faults {
                read: 500,
                write: 300,
                no_space: 300,
                sync: 500,
                flip: 0,
            };
            disk.set_faults(faults, 0);
        }
        for _ in 0..20_000 {
            world.step();
        }
        world
            .disks
            .iter()
            .for_each(|disk| disk.set_faults(Faults::default(), 0));
        world.disks.iter().for_each(|disk| disk.cut());
        world.open();
        world.check();
        assert_eq!(world.lost, [], "nothing was damaged");
        for (what, times) in &world.tally {
            *tally.entry(what).or_default() += times;
        }
    }
    eprintln!("{tally:?}");
    for what in [
        "commit failed",
        "write failed",
        "reopen",
        "drained",
        "served",
    ] {
        assert!(
            tally.get(what).is_some_and(|times| *times >= 20),
            "{what}: {tally:?}"
        );
    }
}

#[test]
fn flipped_bits_are_found_named_and_never_served() {
    let (mut lost, mut damaged) = (0, 0);
    for seed in 200..210 {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        for step in 0..20_000 {
            world.step();
            if step % 50 == 0 {
                let at = usize::try_from(world.seeded.below(2)).expect("small");
                // Bits flip in contents; other tests damage the log.
                let data = power::world::DISK_BYTES as u64 / 10 * 8;
                world.disks[at].rot(data, power::world::DISK_BYTES as u64 - data);
            }
        }
        lost += world.lost.len();
        damaged += world.tally.get("damaged").copied().unwrap_or(0);
    }
    assert!(lost > 20 && damaged > 100, "{lost} lost, {damaged} damaged");
}
