//! Tests of the steps of waiting destinations: by hand, and with any failures from a seed.
//! Reads no state.

use std::collections::BTreeMap;

use super::*;

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % most
    }

    fn often(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn all(stands: &[Stand]) -> Vec<One> {
    let named = ('a'..).zip(stands).map(|(name, stand)| One {
        job: name.to_string(),
        stand: stand.clone(),
        fed: None,
    });
    named.collect()
}

fn next_of(stands: &[Stand], taker: &str, useless: &[&str]) -> Next {
    let useless = useless.iter().map(|job| (*job).to_owned()).collect();
    next(&all(stands), taker, &useless, &BTreeSet::new())
}

fn takes(job: &str) -> Stand {
    Stand::Takes(job.to_owned())
}

fn from(job: &str) -> Next {
    Next::From(job.to_owned())
}

fn after(job: &str) -> Next {
    Next::After(job.to_owned())
}

fn whole(job: &str) -> Next {
    Next::Whole(job.to_owned())
}

#[test]
fn one_begins_at_the_source_and_others_wait_for_it() {
    use Stand::{Away, Has, Held, Receives, Waits};
    assert_eq!(next_of(&[Waits, Waits], "a", &[]), Next::Source);
    assert_eq!(next_of(&[Waits, Waits], "b", &[]), after("a"));
    assert_eq!(next_of(&[Receives, Waits, Waits], "c", &[]), whole("a"));
    // Paused, failed or unreachable: it holds no other one up.
    assert_eq!(next_of(&[Away, Waits, Waits], "b", &[]), Next::Source);
    assert_eq!(next_of(&[Held, Waits], "b", &[]), Next::Source);
    assert_eq!(next_of(&[Held, Waits], "a", &[]), after("b"));
    assert_eq!(next_of(&[Held, Away], "a", &[]), Next::Source);
    // Each complete one gives to one at a time.
    assert_eq!(next_of(&[Has, Waits, Waits], "c", &[]), from("a"));
    assert_eq!(next_of(&[Has, takes("a"), Waits], "c", &[]), after("a"));
    assert_eq!(next_of(&[Has, Has, takes("a"), Waits], "d", &[]), from("b"));
}

#[test]
fn a_giver_that_failed_is_replaced() {
    use Stand::{Away, Has, Receives, Waits};
    assert_eq!(next_of(&[Has, Has, Waits], "c", &["a"]), from("b"));
    assert_eq!(next_of(&[Has, Receives, Waits], "c", &["a"]), whole("b"));
    let taking = [Has, takes("a"), Waits];
    assert_eq!(next_of(&taking, "c", &["a"]), whole("b"));
    assert_eq!(next_of(&[Has, Away, Waits], "c", &["a"]), Next::Source);
    assert_eq!(next_of(&[Has, Waits], "b", &["a"]), Next::Source);
}

/// Destinations with these givers of whole files.
fn fed(stands: &[(Stand, Option<&str>)]) -> Vec<One> {
    let plain: Vec<Stand> = stands.iter().map(|(stand, _)| stand.clone()).collect();
    let mut all = all(&plain);
    for (one, (_, fed)) in all.iter_mut().zip(stands) {
        one.fed = fed.map(str::to_owned);
    }
    all
}

#[test]
fn destinations_with_files_pass_them_on_in_a_tree() {
    use Stand::{Away, Has, Receives, Waits};
    let round = |job: &str| Stand::Round(job.to_owned());
    let of = |board: &[One], taker: &str, shunned: &[&str]| {
        let shunned = shunned.iter().map(|job| (*job).to_owned()).collect();
        next(board, taker, &BTreeSet::new(), &shunned)
    };
    // The first round has brought nothing to pass on yet.
    let first = fed(&[(Receives, None), (round("a"), None), (Waits, None)]);
    assert_eq!(of(&first, "c", &[]), whole("a"));
    let later = [
        (Receives, None),
        (Waits, Some("a")),
        (round("a"), Some("a")),
        (Waits, None),
        (Waits, None),
    ];
    let mut later = fed(&later);
    assert_eq!(of(&later, "d", &[]), whole("b"));
    later[3].fed = Some("b".to_owned());
    assert_eq!(of(&later, "e", &[]), whole("c"));
    // None changes its giver without need.
    assert_eq!(of(&later, "b", &[]), whole("a"));
    assert_eq!(of(&later, "d", &[]), whole("b"));
    assert_eq!(of(&later, "d", &["b"]), whole("c"));
    // The first copy has failed: nothing new comes, and the files stay where they are.
    later[0].stand = Away;
    assert_eq!(of(&later, "b", &[]), after("c"));
    later[2].stand = Waits;
    assert_eq!(of(&later, "b", &[]), Next::Source);
    assert_eq!(of(&later, "c", &[]), after("b"));
    // A complete one brings the rest to all that have files, at the same time.
    later[0].stand = Has;
    later[1].stand = takes("a");
    assert_eq!(of(&later, "c", &[]), from("a"));
    assert_eq!(of(&later, "e", &[]), after("a"));
    later[2].stand = Has;
    assert_eq!(of(&later, "d", &[]), from("c"));
}

#[test]
fn the_number_of_copies_doubles() {
    let mut board = all(&[const { Stand::Waits }; 8]);
    let mut copies = Vec::new();
    for _ in 0..4 {
        step(&mut board, &BTreeMap::new(), (&mut Dice(1), 0));
        for one in &mut board {
            if one.stand != Stand::Waits {
                one.stand = Stand::Has;
            }
        }
        copies.push(board.iter().filter(|one| one.stand == Stand::Has).count());
    }
    assert_eq!(copies, [1, 2, 4, 8]);
}

/// All that wait take their next step, in any order, and `early` percent of the rounds begin. Returns how many begin at the source.
fn step(
    board: &mut [One],
    useless: &BTreeMap<String, BTreeSet<String>>,
    (dice, early): (&mut Dice, usize),
) -> usize {
    let mut order: Vec<usize> = (0..board.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at + 1));
    }
    let (none, mut direct) = (BTreeSet::new(), 0);
    for at in order {
        if board[at].stand != Stand::Waits {
            continue;
        }
        let taker = board[at].job.clone();
        match next(board, &taker, useless.get(&taker).unwrap_or(&none), &none) {
            Next::Source => {
                direct += 1;
                board[at].stand = Stand::Receives;
            }
            Next::From(giver) => {
                let serves = |one: &&One| one.stand == Stand::Takes(giver.clone());
                let is_alone = board.iter().filter(serves).count() == 0;
                assert!(is_alone || board[at].fed.is_some(), "{board:?}");
                assert!(
                    board
                        .iter()
                        .any(|one| one.job == giver && one.stand == Stand::Has)
                );
                board[at].stand = Stand::Takes(giver);
            }
            Next::Whole(passer) => {
                assert!(hops(board, &passer, &taker).is_some(), "{board:?}");
                if dice.often(early) {
                    board[at].stand = Stand::Round(passer);
                }
            }
            Next::After(first) => assert_ne!(first, taker),
        }
    }
    direct
}

/// No failure lets a destination get the data twice or never, and no two wait for each other.
#[test]
fn each_destination_is_served_once_whatever_fails() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let failing = [0, 10, 40][dice.below(3)];
        let early = [0, 50, 100][dice.below(3)];
        let count = 2 + dice.below(9);
        let mut board = all(&vec![Stand::Waits; count]);
        let mut useless: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let (mut served, mut direct, mut faults) = (BTreeMap::new(), 0, 0);
        let mut steps = 0;
        while board.iter().any(|one| one.stand != Stand::Has) {
            steps += 1;
            assert!(steps < 10_000, "seed {seed}: nothing moves: {board:?}");
            direct += step(&mut board, &useless, (&mut dice, early));
            let moves = |one: &One| {
                matches!(
                    one.stand,
                    Stand::Receives | Stand::Takes(_) | Stand::Round(_)
                )
            };
            for one in &board {
                assert!(!is_in_circle(&board, &one.job), "seed {seed}: {board:?}");
            }
            let is_back = |one: &One| one.stand == Stand::Away;
            assert!(
                board.iter().any(|one| moves(one) || is_back(one)),
                "seed {seed}: {board:?}"
            );
            for one in &mut board {
                let fails = dice.often(failing);
                match one.stand.clone() {
                    _ if dice.often(30) => {}
                    Stand::Away => one.stand = Stand::Waits,
                    Stand::Receives if fails => {
                        faults += 1;
                        one.stand = Stand::Away;
                        useless.remove(&one.job);
                    }
                    Stand::Takes(giver) if fails => {
                        faults += 1;
                        one.stand = Stand::Waits;
                        useless.entry(one.job.clone()).or_default().insert(giver);
                    }
                    // The files of a round that failed stay, and it is not counted: the source gives nothing for it.
                    Stand::Round(giver) => {
                        one.stand = Stand::Waits;
                        if !fails {
                            one.fed = Some(giver);
                        }
                    }
                    Stand::Receives | Stand::Takes(_) => {
                        *served.entry(one.job.clone()).or_insert(0) += 1;
                        one.stand = Stand::Has;
                    }
                    Stand::Has | Stand::Waits | Stand::Held => {}
                }
            }
        }
        assert!(
            served.len() == count && served.values().all(|times| *times == 1),
            "seed {seed}: {served:?}"
        );
        assert!(
            direct <= 1 + faults,
            "seed {seed}: {direct} began at the source, {faults} failed"
        );
    }
}

/// Whether a running transfer to a destination gets its data from that destination in the end.
fn is_in_circle(board: &[One], job: &str) -> bool {
    let mut at = job;
    for _ in 0..board.len() {
        let one = board.iter().find(|one| one.job == at).expect("there");
        let (Stand::Takes(giver) | Stand::Round(giver)) = &one.stand else {
            return false;
        };
        at = giver;
        if at == job {
            return true;
        }
    }
    false
}
