//! Properties of the tuner where the way, or some streams, are away for a while.
//! Knows no link itself (`world`).

use std::ops::Range;

use super::super::world::{Dice, Run, World, run};
use super::{any, rate_of, told};

/// The number of streams in the middle of those that there were in these seconds.
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
            // A number of streams fills it, and no more are of use.
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
        // The last half minute of each.
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
            told(&own)
        );
        sum += (with / without).min(1.0);
    }
    assert!(sum / seeds as f64 > 0.98, "{}", sum / seeds as f64);
}
