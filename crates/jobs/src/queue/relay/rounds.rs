//! Decides where a waiting destination gets its data if destinations pass the data on: one begins at the source, and each complete one gives to
//! one other at a time. So the number of copies doubles with each round.
//! Reads no state, and no clock.

use std::collections::BTreeSet;

/// The part of a destination in the distribution.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Stand {
    /// It is complete, and may give its data.
    Has,
    /// It gets its data from the source now.
    Receives,
    /// It gets its data from the destination with this job, by a relay.
    Takes(String),
    /// It can begin.
    Waits,
    /// It can begin once its site has a place for another job.
    Held,
    /// It can neither begin nor give: paused, failed, due later, without a connection, or known for wrong data.
    Away,
}

/// A destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct One {
    /// Its job.
    pub(super) job: String,
    pub(super) stand: Stand,
}

/// The next step of a waiting destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Next {
    /// It begins at the source.
    Source,
    /// It takes the data of this job's destination.
    From(String),
    /// It waits for this job, whose destination will have the data, or is to begin first.
    After(String),
}

/// The next step of the destination `taker`, which can begin. `all` are in the order in which they begin. The `useless` cannot give to this one.
pub(super) fn next(all: &[One], taker: &str, useless: &BTreeSet<String>) -> Next {
    let is_other = |one: &&One| one.job != taker && !useless.contains(&one.job);
    let find = |is: &dyn Fn(&One) -> bool| all.iter().filter(is_other).find(|one| is(one));
    let gives = |giver: &One| {
        let mut others = all.iter().filter(|one| one.job != taker);
        others.any(|one| matches!(&one.stand, Stand::Takes(from) if *from == giver.job))
    };
    if let Some(free) = find(&|one| one.stand == Stand::Has && !gives(one)) {
        return Next::From(free.job.clone());
    }
    let soon = find(&|one| one.stand == Stand::Has)
        .or_else(|| find(&|one| one.stand == Stand::Receives))
        .or_else(|| find(&|one| matches!(one.stand, Stand::Takes(_))));
    if let Some(soon) = soon {
        return Next::After(soon.job.clone());
    }
    let is_held = |one: &One| one.job == taker && one.stand == Stand::Held;
    // Only an earlier one goes first, so no two wait for each other. One without a place at its site lets all others go first.
    let before = match all.iter().any(is_held) {
        true => all.len(),
        false => all.iter().position(|one| one.job == taker).unwrap_or(0),
    };
    let mut first = all.iter().take(before).filter(is_other);
    match first.find(|one| one.stand == Stand::Waits) {
        Some(first) => Next::After(first.job.clone()),
        None => Next::Source,
    }
}

#[cfg(test)]
mod tests {
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
        });
        named.collect()
    }

    fn next_of(stands: &[Stand], taker: &str, useless: &[&str]) -> Next {
        let useless = useless.iter().map(|job| (*job).to_owned()).collect();
        next(&all(stands), taker, &useless)
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

    #[test]
    fn one_begins_at_the_source_and_others_wait_for_it() {
        use Stand::{Away, Has, Held, Receives, Waits};
        assert_eq!(next_of(&[Waits, Waits], "a", &[]), Next::Source);
        assert_eq!(next_of(&[Waits, Waits], "b", &[]), after("a"));
        assert_eq!(next_of(&[Receives, Waits, Waits], "c", &[]), after("a"));
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
        assert_eq!(next_of(&[Has, Receives, Waits], "c", &["a"]), after("b"));
        let taking = [Has, takes("a"), Waits];
        assert_eq!(next_of(&taking, "c", &["a"]), after("b"));
        assert_eq!(next_of(&[Has, Away, Waits], "c", &["a"]), Next::Source);
        assert_eq!(next_of(&[Has, Waits], "b", &["a"]), Next::Source);
    }

    #[test]
    fn the_number_of_copies_doubles() {
        let mut board = all(&[const { Stand::Waits }; 8]);
        let mut copies = Vec::new();
        for _ in 0..4 {
            step(&mut board, &BTreeMap::new(), &mut Dice(1));
            for one in &mut board {
                if one.stand != Stand::Waits {
                    one.stand = Stand::Has;
                }
            }
            copies.push(board.iter().filter(|one| one.stand == Stand::Has).count());
        }
        assert_eq!(copies, [1, 2, 4, 8]);
    }

    /// All that wait take their next step, in any order. Returns how many begin at the source.
    fn step(
        board: &mut [One],
        useless: &BTreeMap<String, BTreeSet<String>>,
        dice: &mut Dice,
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
            match next(board, &taker, useless.get(&taker).unwrap_or(&none)) {
                Next::Source => {
                    direct += 1;
                    board[at].stand = Stand::Receives;
                }
                Next::From(giver) => {
                    let serves = |one: &&One| one.stand == Stand::Takes(giver.clone());
                    assert_eq!(board.iter().filter(serves).count(), 0, "{board:?}");
                    assert!(
                        board
                            .iter()
                            .any(|one| one.job == giver && one.stand == Stand::Has)
                    );
                    board[at].stand = Stand::Takes(giver);
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
            let count = 2 + dice.below(9);
            let mut board = all(&vec![Stand::Waits; count]);
            let mut useless: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            let (mut served, mut direct, mut faults) = (BTreeMap::new(), 0, 0);
            let mut steps = 0;
            while board.iter().any(|one| one.stand != Stand::Has) {
                steps += 1;
                assert!(steps < 10_000, "seed {seed}: nothing moves: {board:?}");
                direct += step(&mut board, &useless, &mut dice);
                let moves = |one: &One| matches!(one.stand, Stand::Receives | Stand::Takes(_));
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
}
