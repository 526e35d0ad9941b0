//! Owns the tests of the number of threads, on simulated storage.
//! Reads and writes nothing.

use super::*;
use crate::tuner::world::Dice;

const ANY: Bounds = Bounds { least: 0, most: 64 };

/// Storage that each thread waits for, up to `parallel` of them at once. Returns the numbers over time.
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
        Some("writers 0 -> 3: at least 3 were asked for".to_owned())
    );
    let targets = run(bounds, 0.9, 64, 120);
    assert_eq!((targets[0], targets.last()), (3, Some(&7)), "{targets:?}");
    // Where more do not help it comes back to the least.
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
