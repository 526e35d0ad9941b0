//! Tests single decisions of a hold.
//! Whole transfers are simulated.

use std::time::Duration;

use crate::{Answer, Bound, Destination, Lane, Outcome, PATIENCE_FIRST, ReadHold, ReadId};

const A: Destination = Destination(0);
const B: Destination = Destination(1);
const C: Destination = Destination(2);

type Small = ReadHold<&'static str, &'static str, &'static str>;

fn hold(bytes: u64, of: &[Destination]) -> Small {
    let mut hold = ReadHold::new(Bound {
        bytes,
        blocks: 100,
        beside: 0,
    });
    for who in of {
        hold.join(Duration::ZERO, *who);
    }
    hold
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn read(hold: &mut Small, now: Duration, who: Destination, key: &'static str) -> ReadId {
    match hold.ask(now, Lane(who, 0), &key, 1) {
        Answer::Read(id, _) => id,
        other => panic!("{key}: {other:?}"),
    }
}

fn take(hold: &mut Small, now: Duration, who: Destination, key: &'static str) {
    match hold.ask(now, Lane(who, 0), &key, 1) {
        Answer::Take(id, content) => {
            assert_eq!(content, key);
            hold.handle_copied(now, id);
        }
        other => panic!("{key}: {other:?}"),
    }
}

fn fill(hold: &mut Small, now: Duration, who: Destination, key: &'static str) {
    let id = read(hold, now, who, key);
    hold.finish(now, id, Outcome::Content(Some(key)));
}

#[test]
fn the_first_reads_and_the_others_take() {
    let mut hold = hold(10, &[A, B, C]);
    let id = read(&mut hold, at(0), A, "x");
    let Answer::Wait(ask, None) = hold.ask(at(0), Lane(B, 0), &"x", 1) else {
        panic!("it is being read");
    };
    hold.finish(at(1), id, Outcome::Content(Some("x")));
    assert!(hold.woken().contains(&ask));
    let Answer::Take(copy, "x") = hold.again(at(1), ask) else {
        panic!("it is there");
    };
    hold.handle_copied(at(1), copy);
    assert_eq!(hold.figures().kept_bytes, 1);
    take(&mut hold, at(2), C, "x");
    assert_eq!(hold.figures().kept_bytes, 0, "all have it");
    assert_eq!(hold.figures().read_bytes, 1);
}

#[test]
fn a_failed_read_is_the_answer_for_all_that_wait_and_a_later_one_reads_again() {
    let mut hold = hold(10, &[A, B, C]);
    let id = read(&mut hold, at(0), A, "x");
    let Answer::Wait(ask, None) = hold.ask(at(0), Lane(B, 0), &"x", 1) else {
        panic!("it is being read");
    };
    hold.finish(at(1), id, Outcome::Failed("bad"));
    assert_eq!(hold.again(at(1), ask), Answer::Failed("bad"));
    fill(&mut hold, at(2), C, "x");
}

#[test]
fn a_reader_that_gives_up_leaves_its_place_to_one_that_waits() {
    let mut hold = hold(10, &[A, B]);
    let id = read(&mut hold, at(0), A, "x");
    let Answer::Wait(ask, None) = hold.ask(at(0), Lane(B, 0), &"x", 1) else {
        panic!("it is being read");
    };
    hold.finish(at(1), id, Outcome::Abandoned);
    assert!(hold.woken().contains(&ask));
    assert!(matches!(hold.again(at(1), ask), Answer::Read(_, true)));
}

#[test]
fn the_leader_waits_as_long_as_there_is_patience_and_no_longer() {
    let mut hold = hold(2, &[A, B]);
    fill(&mut hold, at(0), B, "w");
    take(&mut hold, at(0), A, "w");
    fill(&mut hold, at(0), A, "x");
    fill(&mut hold, at(0), A, "y");
    let Answer::Wait(ask, Some(until)) = hold.ask(at(0), Lane(A, 0), &"z", 1) else {
        panic!("B wants x");
    };
    assert_eq!(until, PATIENCE_FIRST);
    assert!(!hold.is_behind(B));
    let mut now = until;
    let mut asked = hold.again(now, ask);
    while let Answer::Wait(ask, Some(until)) = asked {
        assert!(until - now < PATIENCE_FIRST / 10);
        now = until;
        asked = hold.again(now, ask);
    }
    let Answer::Read(id, true) = asked else {
        panic!("{asked:?}");
    };
    assert!(hold.is_behind(B), "x has left");
    hold.finish(now, id, Outcome::Content(Some("z")));
    // It reads x alone, and is current with y.
    fill(&mut hold, now, B, "x");
    assert!(hold.is_behind(B));
    take(&mut hold, now, B, "z");
    assert!(!hold.is_behind(B));
}

/// Spends all patience with B, which has taken `w` and wants `x`; `y` is in the hold.
fn leave_behind(hold: &mut Small) -> Duration {
    fill(hold, at(0), B, "w");
    take(hold, at(0), A, "w");
    fill(hold, at(0), A, "x");
    let (mut now, mut asked) = (at(0), hold.ask(at(0), Lane(A, 0), &"y", 1));
    while let Answer::Wait(ask, Some(until)) = asked {
        now = until;
        asked = hold.again(now, ask);
    }
    let Answer::Read(id, true) = asked else {
        panic!("{asked:?}");
    };
    hold.finish(now, id, Outcome::Content(Some("y")));
    assert!(hold.is_behind(B));
    now
}

#[test]
fn one_behind_reads_only_while_no_other_reads() {
    let mut hold = hold(1, &[A, B]);
    let now = leave_behind(&mut hold);
    let id = read(&mut hold, now, A, "z");
    let Answer::Read(first, _) = hold.ask(now, Lane(B, 0), &"x", 1) else {
        panic!("at least a little each second");
    };
    let Answer::Wait(ask, Some(_)) = hold.ask(now, Lane(B, 0), &"x", 1) else {
        panic!("A reads");
    };
    let later = now + at(1);
    hold.finish(later, first, Outcome::Content(None));
    hold.finish(later, id, Outcome::Content(Some("z")));
    assert!(hold.woken().contains(&ask));
    assert!(matches!(hold.again(later, ask), Answer::Read(..)));
}

#[test]
fn a_second_read_does_not_block() {
    let mut hold = hold(1, &[A, B]);
    fill(&mut hold, at(0), A, "x");
    take(&mut hold, at(0), B, "x");
    // As after a lost stream.
    fill(&mut hold, at(1), A, "x");
    assert_eq!(hold.figures().again_bytes, 1);
    let id = read(&mut hold, at(1), B, "y");
    hold.finish(at(1), id, Outcome::Content(Some("y")));
    take(&mut hold, at(1), A, "y");
}

#[test]
fn an_end_frees_what_only_it_wanted() {
    let mut hold = hold(1, &[A, B]);
    fill(&mut hold, at(0), A, "x");
    let Answer::Wait(ask, Some(_)) = hold.ask(at(0), Lane(A, 0), &"y", 1) else {
        panic!("B wants x");
    };
    hold.leave(at(1), B);
    assert!(hold.woken().contains(&ask));
    assert!(matches!(hold.again(at(1), ask), Answer::Read(_, false)));
    assert_eq!(hold.ask(at(1), Lane(B, 0), &"x", 1), Answer::Gone);
}

#[test]
fn a_block_that_is_copied_does_not_leave() {
    let mut hold = hold(1, &[A, B]);
    fill(&mut hold, at(0), A, "x");
    let Answer::Take(copy, "x") = hold.ask(at(0), Lane(B, 0), &"x", 1) else {
        panic!("it is there");
    };
    assert_eq!(hold.figures().kept_bytes, 1);
    let Answer::Wait(ask, None) = hold.ask(at(0), Lane(A, 0), &"y", 1) else {
        panic!("there is no room");
    };
    hold.handle_copied(at(1), copy);
    assert!(hold.woken().contains(&ask));
    assert!(matches!(hold.again(at(1), ask), Answer::Read(_, true)));
}
