//! Tests the number of threads, on simulated storage. Reads and writes nothing.

use super::*;
use crate::whole;
use crate::world::Dice;

const ANY: Bounds = Bounds { least: 0, most: 64 };

/// Simulates storage that each thread waits for, up to `parallel` threads at once. Returns the numbers over time.
fn run(bounds: Bounds, wait_share: f64, parallel: u32, seconds: u32) -> Vec<u32> {
    let mut tuner = ThreadTuner::new(Knob::Readers, bounds);
    let mut sample = StageSample {
        streams: 2,
        ..StageSample::default()
    };
    let mut targets = Vec::new();
    for tick in 0..seconds * 5 {
        tuner.step(Duration::from_millis(u64::from(tick) * 200), &sample);
        let threads = (sample.streams + tuner.target()).min(parallel);
        sample.bytes += u64::from(threads) * 10_000_000;
        let passed = Duration::from_millis(200) * sample.streams;
        sample.storage += passed.mul_f64(wait_share);
        sample.processor += passed.mul_f64(0.1);
        targets.push(tuner.target());
    }
    targets
}

fn changes(targets: &[u32]) -> usize {
    targets.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn storage_with_latency_gets_threads_until_they_help_no_more() {
    for parallel in [4, 10, 30, 64] {
        let targets = run(ANY, 0.9, parallel, 120);
        let last = *targets.last().unwrap();
        assert!(
            last + 2 >= parallel * 4 / 5,
            "{last} where {parallel} are of use"
        );
        assert!(changes(&targets[300..]) <= 6, "{targets:?}");
    }
}

#[test]
fn storage_that_is_not_waited_for_or_gives_no_more_gets_none() {
    assert_eq!(changes(&run(ANY, 0.3, 64, 60)), 0);
    let targets = run(ANY, 0.9, 2, 600);
    assert_eq!(*targets.last().unwrap(), 0);
    assert!(changes(&targets) <= 14, "{}", changes(&targets));
}

#[test]
fn it_begins_with_the_least_and_says_so_and_goes_up_to_the_most() {
    let bounds = Bounds { least: 3, most: 7 };
    let begin = ThreadTuner::new(Knob::Writers, bounds).begin();
    assert_eq!(
        begin.map(|decision| decision.to_string()),
        Some("writers 0 -> 3: at least 3 were requested".to_owned())
    );
    let targets = run(bounds, 0.9, 64, 120);
    assert_eq!((targets[0], targets.last()), (3, Some(&7)), "{targets:?}");
    // If more threads do not help, the number returns to the minimum.
    assert_eq!(run(bounds, 0.9, 2, 60).last(), Some(&3));
    assert_eq!(ThreadTuner::new(Knob::Readers, ANY).begin(), None);
}

#[test]
fn a_number_that_was_given_stays_whatever_is_waited_for() {
    for count in [0, 1, 5] {
        let fixed = Bounds::fixed(count);
        assert_eq!(ThreadTuner::new(Knob::Readers, fixed).begin(), None);
        let targets = run(fixed, 0.9, 64, 60);
        assert!(targets.iter().all(|target| *target == count), "{targets:?}");
    }
}

#[test]
fn each_decision_is_within_the_bounds_and_follows_from_the_last() {
    let mut decided = 0;
    for seed in 0..500 {
        let mut dice = Dice::new(seed);
        let least = dice.one_of(&[0, 0, 1, 2, 5, 16]);
        let bounds = Bounds {
            least,
            most: least + dice.one_of(&[1, 2, 7, 48]),
        };
        let mut tuner = ThreadTuner::new(Knob::Readers, bounds);
        let mut sample = StageSample::default();
        let mut target = tuner.begin().map_or(0, |decision| decision.to);
        assert_eq!(target, least);
        for tick in 0..600 {
            sample.streams = dice.one_of(&[0, 1, 2, 8]);
            sample.bytes += dice.one_of(&[0, 1_000_000, 20_000_000]);
            sample.storage += Duration::from_millis(dice.one_of(&[0, 200, 1600]));
            sample.processor += Duration::from_millis(dice.one_of(&[0, 20]));
            let now = Duration::from_millis(tick * 200);
            if let Some(decision) = tuner.step(now, &sample) {
                assert_eq!(decision.from, target, "seed {seed}: {decision}");
                assert_ne!(decision.to, target, "seed {seed}: {decision}");
                target = decision.to;
                decided += 1;
            }
            assert_eq!(tuner.target(), target, "seed {seed}");
            assert_eq!(bounds.hold(target), target, "seed {seed}: {bounds:?}");
        }
    }
    assert!(decided > 1000, "{decided}");
}

/// `storage` is a function of the second and the number of threads besides two streams. It returns bytes a second, and the share of
/// their time that the streams wait for storage. Returns the numbers over time, five a second.
fn simulate(
    bounds: Bounds,
    seconds: u32,
    mut storage: impl FnMut(f64, u32) -> (f64, f64),
) -> Vec<u32> {
    let mut tuner = ThreadTuner::new(Knob::Writers, bounds);
    let mut sample = StageSample {
        streams: 2,
        ..StageSample::default()
    };
    let tick = Duration::from_millis(200);
    let mut targets = Vec::new();
    for count in 0..seconds * 5 {
        let now = tick * count;
        tuner.step(now, &sample);
        let (rate, waiting) = storage(now.as_secs_f64(), tuner.target());
        sample.bytes += u64::from(whole(rate * tick.as_secs_f64()));
        sample.storage += (tick * sample.streams).mul_f64(waiting);
        targets.push(tuner.target());
    }
    targets
}

/// The share of the numbers for which `is` returns true.
fn part(targets: &[u32], is: impl Fn(u32) -> bool) -> f64 {
    let times = targets.iter().filter(|target| is(**target)).count();
    times as f64 / targets.len() as f64
}

#[test]
fn a_disk_in_bursts_gets_none_by_luck() {
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        // A batch at the speed of the network, then a sync in which hardly any data is accepted.
        let network = dice.over(20e6, 800e6);
        let burst = dice.between(0.5, 3.0);
        let trickle = dice.between(0.01, 0.2);
        let (mut batch, mut synced) = (network * burst, 0.0);
        let targets = simulate(ANY, 300, |now, _| {
            if now < synced {
                return (trickle * network, 0.9);
            }
            let rate = network * dice.between(0.95, 1.05);
            batch -= rate * 0.2;
            if batch <= 0.0 {
                batch = network * burst * dice.between(0.95, 1.05);
                synced = now + dice.between(2.0, 4.0);
            }
            (rate, dice.between(0.0, 0.5))
        });
        // The number is raised only in trials.
        assert!(targets.iter().all(|target| *target <= 2), "seed {seed}");
        let tried = part(&targets, |target| target > 0);
        assert!(tried < 0.1, "seed {seed}: {tried}");
    }
}

#[test]
fn a_rate_that_grows_by_itself_gets_none() {
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let growth = dice.over(1.005, 1.6);
        let targets = simulate(ANY, 120, |now, _| {
            let rate = (5e6 * growth.powf(now)).min(500e6);
            (rate * dice.between(0.98, 1.02), 0.9)
        });
        let tried = part(&targets, |target| target > 0);
        assert!(
            targets.iter().all(|target| *target <= 2) && tried < 0.15,
            "seed {seed}, growing {growth} times a second: {tried}"
        );
    }
}

#[test]
fn a_disk_that_becomes_fast_gets_fewer() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let bounds = Bounds {
            least: dice.one_of(&[0, 0, 1, 3]),
            most: 64,
        };
        let parallel = dice.one_of(&[8, 20, 50]);
        let targets = simulate(bounds, 240, |now, target| {
            if now < 60.0 {
                let threads = (2 + target).min(parallel);
                return (f64::from(threads) * 10e6, 0.9);
            }
            (600e6 * dice.between(0.95, 1.05), dice.between(0.0, 0.1))
        });
        assert!(
            targets[299] >= parallel / 2,
            "seed {seed}: {}",
            targets[299]
        );
        // A trial that bad luck spoilt is repeated.
        let left = part(&targets[120 * 5..], |target| target > bounds.least);
        assert!(left < 0.5, "seed {seed}: {left}");
        assert_eq!(targets.last(), Some(&bounds.least), "seed {seed}");
    }
}

/// Streams wait for storage only in the first minute, in which the number rises to 16 threads. From then on `rate` maps the number
/// of threads to bytes a second. Returns the numbers and these rates from then on, five a second.
fn simulate_calm(seed: u64, mut rate: impl FnMut(u32) -> f64) -> (Vec<u32>, Vec<f64>) {
    let mut dice = Dice::new(seed);
    let mut rates = Vec::new();
    let bounds = Bounds { least: 0, most: 16 };
    let targets = simulate(bounds, 600, |now, target| {
        if now < 60.0 {
            return (f64::from(2 + target) * 10e6, 0.9);
        }
        rates.push(rate(target));
        let noise = dice.between(0.99, 1.01);
        (rates[rates.len() - 1] * noise, dice.between(0.0, 0.1))
    });
    assert_eq!(targets[300], 16, "seed {seed}");
    (targets, rates)
}

#[test]
fn small_losses_of_several_steps_down_do_not_add_up() {
    for seed in 0..100 {
        for each in [0.96_f64, 0.965, 0.97] {
            // Halvings from 16; the last step is from 2 to none.
            let halvings = |target: u32| 4.0 - f64::from(target.max(1)).log2();
            let (_, rates) = simulate_calm(seed, |target| 600e6 * each.powf(halvings(target)));
            let low = rates.iter().filter(|rate| **rate < 0.9 * 600e6).count();
            let part = low as f64 / rates.len() as f64;
            assert!(part < 0.1, "seed {seed}, {each}: {part}");
        }
    }
}

#[test]
fn where_there_is_less_to_move_after_a_step_down_the_next_are_judged_by_that() {
    for seed in 0..100 {
        let mut ticks = 0;
        let (targets, _) = simulate_calm(seed, |target| {
            ticks += u32::from(target <= 8);
            if ticks < 30 { 600e6 } else { 300e6 }
        });
        assert_eq!(targets.last(), Some(&0), "seed {seed}");
    }
}

#[test]
fn a_rate_that_falls_a_little_does_not_keep_threads_for_long() {
    for seed in 0..100 {
        let mut ticks = 0;
        let (targets, _) = simulate_calm(seed, |target| {
            ticks += u32::from(target <= 8);
            if ticks < 30 { 600e6 } else { 557e6 }
        });
        assert_eq!(targets.last(), Some(&0), "seed {seed}");
    }
}

#[test]
fn threads_that_keep_storage_from_being_waited_for_stay() {
    for needed in [6, 10, 18] {
        let targets = simulate(ANY, 600, |_, target| {
            let threads = (2 + target).min(needed);
            let waiting = if threads < needed { 0.9 } else { 0.05 };
            (f64::from(threads) * 10e6, waiting)
        });
        let enough = part(&targets[60 * 5..], |target| target + 2 >= needed);
        assert!(enough > 0.95, "{needed}: {enough}");
        assert!(changes(&targets[60 * 5..]) <= 12, "{needed}");
    }
}

#[test]
fn storage_that_gains_from_threads_has_them_soon() {
    let targets = run(ANY, 0.9, 64, 30);
    let many = targets.iter().position(|target| *target >= 16);
    assert!(many.is_some_and(|tick| tick <= 15 * 5), "{many:?}");
}
