//! Owns the test of docs/coming-from.md: each command of another program and ours beside it do the same to the same data.
//! Knows no command: the page holds them. `judge` explains the words behind "The same:".

mod guide;
mod judge;
mod page;
mod readme;
mod world;

use judge::Sameness;
use page::Pair;
use world::{Machines, Place, World};

use super::process::Outcome;

#[test]
fn commands_of_rsync_users_do_the_same() {
    run("rsync", 15);
}

#[test]
fn commands_of_scp_users_do_the_same() {
    run("scp", 6);
}

#[test]
fn commands_of_rclone_users_do_the_same() {
    run("rclone", 8);
}

/// Runs all pairs of a program; asserts that there are at least `at_least`.
fn run(program: &str, at_least: usize) {
    let pairs = page::pairs(program);
    assert!(pairs.len() >= at_least, "{program}: {} pairs", pairs.len());
    let machines = Machines::start();
    for pair in &pairs {
        check(pair, &machines);
    }
}

fn check(pair: &Pair, machines: &Machines) {
    let same = Sameness::from_words(&pair.same)
        .unwrap_or_else(|word| panic!("{}: what is {word:?}?", pair.title));
    let world = World::make(machines, same.keeps_specials());
    let [theirs, ours] = [(Place::Theirs, &pair.theirs), (Place::Ours, &pair.ours)]
        .map(|(place, command)| world.run(place, command));
    let said = || {
        format!(
            "{}\n{}\n{}{}",
            pair.title,
            pair.ours,
            output_of(&pair.theirs, &theirs),
            output_of(&pair.ours, &ours)
        )
    };
    assert_eq!(
        theirs.code == Some(0),
        ours.code == Some(0),
        "only one succeeds: {}",
        said()
    );
    same.check(&world, &theirs, &ours)
        .unwrap_or_else(|what| panic!("{what}\n{}", said()));
}

fn output_of(command: &str, outcome: &Outcome) -> String {
    format!("--- {command}: {:?}\n{}\n", outcome.code, outcome.said())
}
