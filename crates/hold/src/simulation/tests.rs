//! Tests the promises of a hold over whole transfers.
//! Simulates nothing itself.

use super::*;

const MB: f64 = 1e6;

fn small(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// The time of each destination, as a multiple of its time alone.
fn against_alone(world: &World, course: &Course, seed: u64) -> Vec<f64> {
    let times = course.ended.iter().enumerate();
    let ratios = times.filter_map(|(link, ended)| {
        let ended = ended.as_ref()?.as_secs_f64();
        Some(ended / world.alone(link, seed).as_secs_f64())
    });
    ratios.collect()
}

#[test]
fn equal_destinations_read_each_block_once() {
    for seed in 0..12 {
        for count in [2, 3, 4, 8] {
            let mut world = World::of(&vec![100.0 * MB; count], 4_000);
            world.noise = 0.3;
            for (link, rate) in world.links.iter_mut().zip([1.0, 1.02, 0.99, 1.01]) {
                link.rate *= rate;
                link.wobble = 8;
            }
            let course = world.run(seed);
            let part = course.read as f64 / world.bytes() as f64;
            assert!(part < 1.001, "seed {seed}: {part} times, {count}");
            for ratio in against_alone(&world, &course, seed) {
                assert!(ratio < 1.05, "seed {seed}: {ratio} of alone");
            }
        }
    }
}

#[test]
fn a_slow_storage_is_read_once_at_its_own_rate() {
    for seed in 0..12 {
        let mut world = World::of(&[400.0 * MB, 300.0 * MB, 500.0 * MB], 2_000);
        world.storage = 50.0 * MB;
        world.latency = Duration::from_millis(10);
        let course = world.run(seed);
        assert_eq!(course.read, world.bytes(), "seed {seed}");
        for ratio in against_alone(&world, &course, seed) {
            assert!(ratio < 1.02, "seed {seed}: {ratio} of alone");
        }
    }
}

#[test]
fn a_destination_at_a_tenth_costs_the_others_little_and_ends_too() {
    for seed in 0..12 {
        for storage in [120.0, 400.0, 4_000.0] {
            let mut world = World::of(&[100.0 * MB, 100.0 * MB, 10.0 * MB], 4_000);
            world.storage = storage * MB;
            let course = world.run(seed);
            let ratios = against_alone(&world, &course, seed);
            assert!(
                ratios[0] < 1.05 && ratios[1] < 1.05,
                "seed {seed}: {ratios:?}"
            );
            assert!(course.was_behind[2], "seed {seed}");
            // It may have to wait for the others, and then reads alone.
            assert!(ratios[2] < 1.2, "seed {seed}: {ratios:?}");
            let part = course.read as f64 / world.bytes() as f64;
            assert!(part < 2.01, "seed {seed}: {part} times");
        }
    }
}

#[test]
fn a_destination_that_stops_for_ever_delays_no_other() {
    for seed in 0..12 {
        let mut world = World::of(&[100.0 * MB, 100.0 * MB, 100.0 * MB], 4_000);
        world.links[2].stops = Some(500 + seed * 80);
        let course = world.run(seed);
        for ratio in against_alone(&world, &course, seed).iter().take(2) {
            assert!(*ratio < 1.11, "seed {seed}: {ratio}");
        }
        assert_eq!(course.read, world.bytes(), "seed {seed}");
    }
}

#[test]
fn a_late_beginning_is_waited_for_and_a_missing_one_not_for_long() {
    for seed in 0..8 {
        let mut world = World::of(&[100.0 * MB; 3], 4_000);
        world.links[1].begins = seconds(3.0);
        let course = world.run(seed);
        assert_eq!(course.read, world.bytes(), "seed {seed}");
        world.links[1].stops = Some(0);
        let course = world.run(seed);
        let alone = world.alone(0, seed);
        let most = alone.mul_f64(1.05) + crate::PATIENCE_FOR_BEGIN;
        assert!(course.ended[0] < Some(most), "seed {seed}: {course:?}");
    }
}

#[test]
fn a_destination_that_has_the_first_half_costs_one_half_more_at_most() {
    for seed in 0..12 {
        for storage in [150.0, 1_000.0] {
            let mut world = World::of(&[100.0 * MB; 3], 4_000);
            world.storage = storage * MB;
            world.links[small(seed % 3)].has = 2_000;
            let course = world.run(seed);
            let part = course.read as f64 / world.bytes() as f64;
            assert!(part < 1.52, "seed {seed}: {part} times");
            assert!(course.ended.iter().all(Option::is_some));
        }
    }
}

#[test]
fn the_others_do_not_wait_for_a_link_that_leaves() {
    for seed in 0..12 {
        let mut world = World::of(&[100.0 * MB, 90.0 * MB, 100.0 * MB], 2_000);
        world.links[1].leaves = Some(seed * 40);
        let course = world.run(seed);
        for link in [0, 2] {
            let ratio = course.ended[link].expect("it ends").as_secs_f64()
                / world.alone(link, seed).as_secs_f64();
            assert!(ratio < 1.15, "seed {seed}: {ratio}");
        }
    }
}

/// Any number of destinations with any rates, orders, stops, ends and failures: none hangs, and the bound holds.
#[test]
fn no_order_of_events_ends_in_a_deadlock() {
    let seeds = std::env::var("GODWIT_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(1_500);
    for seed in 0..seeds {
        let mut seeded = Seeded(seed ^ 0xeac4);
        let count = 1 + small(seeded.below(6));
        let rates: Vec<f64> = (0..count)
            .map(|_| MB * [1.0, 10.0, 95.0, 100.0, 105.0, 2_000.0][small(seeded.below(6))])
            .collect();
        let blocks = 1 + seeded.below(300);
        let mut world = World::of(&rates, blocks);
        world.storage = MB * [5.0, 100.0, 5_000.0][small(seeded.below(3))];
        world.bound.bytes = BLOCK * (1 + seeded.below(20));
        world.bound.blocks = 1 + small(seeded.below(20));
        world.fails = seeded.one_in(2).then(|| 2 + seeded.below(40));
        world.noise = 0.5;
        for link in &mut world.links {
            link.threads = 1 + small(seeded.below(9));
            link.wobble = 1 + small(seeded.below(40));
            link.begins = Duration::from_millis(seeded.below(3) * seeded.below(4_000));
            link.has = if seeded.one_in(3) {
                seeded.below(blocks)
            } else {
                0
            };
            link.stops = seeded.one_in(5).then(|| seeded.below(blocks));
            link.leaves = seeded.one_in(5).then(|| seeded.below(blocks));
        }
        let course = world.run(seed);
        assert!(course.most_held <= world.bound.bytes, "seed {seed}");
    }
}

/// `cargo test --workspace --locked --lib -- --nocapture each_figures` prints the rows of `docs/performance/results/each.tsv`.
#[test]
fn each_figures() {
    let slow = |rate: f64| [100.0 * MB, 100.0 * MB, 100.0 * MB, rate * MB];
    let mut late = World::of(&slow(100.0), 8_000);
    late.links[3].begins = seconds(3.0);
    let mut half = World::of(&slow(100.0), 8_000);
    half.links[3].has = 4_000;
    let mut stops = World::of(&slow(100.0), 8_000);
    stops.links[3].stops = Some(4_000);
    let mut storage = World::of(&slow(100.0), 8_000);
    storage.storage = 50.0 * MB;
    let worlds = [
        (
            "four equal, rates differ by 30 % from block to block",
            World {
                noise: 0.3,
                ..World::of(&slow(100.0), 8_000)
            },
        ),
        ("one 2 % slower", World::of(&slow(98.0), 8_000)),
        ("one at half", World::of(&slow(50.0), 8_000)),
        ("one at a tenth", World::of(&slow(10.0), 8_000)),
        (
            "one at a tenth, storage of 120 MB/s",
            World {
                storage: 120.0 * MB,
                ..World::of(&slow(10.0), 8_000)
            },
        ),
        ("storage of 50 MB/s", storage),
        ("one begins 3 s later", late),
        ("one has the first half", half),
        ("one stops for ever at half", stops),
    ];
    for (name, world) in worlds {
        let course = world.run(1);
        let times = course.read as f64 / world.bytes() as f64;
        let mut row = format!("{name}\t{times:.3}");
        for (link, ended) in course.ended.iter().enumerate() {
            let of_alone = |ended: &Duration| {
                let alone = world.alone(link, 1).as_secs_f64();
                format!("\t{:.3}", ended.as_secs_f64() / alone)
            };
            row.push_str(&ended.as_ref().map_or_else(|| "\t-".to_owned(), of_alone));
        }
        println!("{row}");
    }
}
