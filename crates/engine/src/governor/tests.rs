//! Checks the rules of the division with random transfers, and pools with a governor. Moves no
//! data.

use proptest::prelude::*;

use super::core::{Class, Core, Resources, SeatId, Want};
use super::*;

const BUDGET: u64 = 1_000;

fn memory(memory: u64) -> Resources {
    Resources {
        memory,
        threads: memory,
        files: memory,
    }
}

fn want(least: u64, most: u64) -> Want {
    Want {
        least: memory(least),
        most: memory(most),
    }
}

fn needs(memory_least: u64, memory_most: u64) -> Needs {
    Needs {
        memory_least,
        memory_most,
        memory_a_stream: 0,
        streams: 8,
        helpers: 3,
    }
}

fn seat(core: &mut Core, class: Class, wanted: Want) -> Option<SeatId> {
    let ticket = core.enqueue(class, None, vec![wanted]);
    let seats = core.poll_admission(ticket);
    if seats.is_none() {
        core.give_up(ticket);
    }
    Some(seats?[0])
}

#[test]
fn one_alone_has_all_that_it_can_use_and_shrinks_when_others_come() {
    let mut core = Core::new(memory(BUDGET));
    let first = seat(&mut core, Class::Own, want(10, 600)).expect("room");
    assert_eq!(core.share(first), memory(600));
    let second = seat(&mut core, Class::Accepted, want(10, 600)).expect("room");
    assert_eq!(core.share(first), memory(375));
    assert_eq!(core.share(second), memory(375));
    let third = seat(&mut core, Class::Own, want(10, 50)).expect("room");
    assert_eq!(core.share(third), memory(50), "it can use no more");
    assert_eq!(core.share(first), memory(350));
    core.leave(second);
    assert_eq!(core.share(first), memory(600));
}

#[test]
fn memory_above_the_share_is_kept_and_does_not_grow() {
    let mut core = Core::new(memory(BUDGET));
    let first = seat(&mut core, Class::Own, want(10, 600)).expect("room");
    assert!(core.grow(first, 600, false));
    let second = seat(&mut core, Class::Own, want(10, 600)).expect("the spare part is for it");
    assert!(!core.grow(first, 1, false), "it is above its share");
    assert!(core.grow(second, 375, false));
    assert!(!core.grow(second, 1, false));
    core.shrink(first, 600);
    assert!(core.grow(first, 375, false));
    assert_eq!(core.held(), (750, 975));
}

#[test]
fn those_that_wait_come_in_their_order_and_each_class_by_itself() {
    let mut core = Core::new(memory(BUDGET));
    let big = seat(&mut core, Class::Own, want(400, 400)).expect("room");
    let first = core.enqueue(Class::Own, None, vec![want(100, 100), want(100, 100)]);
    let second = core.enqueue(Class::Own, None, vec![want(1, 1)]);
    let other = core.enqueue(Class::Accepted, None, vec![want(1, 1)]);
    assert_eq!(core.poll_admission(first), None);
    assert_eq!(core.poll_admission(second), None, "it came later");
    assert_eq!((core.ahead(second), core.ahead(other)), (1, 0));
    assert!(core.poll_admission(other).is_some());
    core.leave(big);
    assert_eq!(core.poll_admission(second), None, "it still came later");
    assert_eq!(core.poll_admission(first).map(|seats| seats.len()), Some(2));
    assert!(core.poll_admission(second).is_some());
}

#[test]
fn a_transfer_that_is_too_large_for_the_process_runs_alone() {
    let mut core = Core::new(memory(BUDGET));
    let large = seat(&mut core, Class::Own, want(5_000, 9_000)).expect("nobody else is there");
    assert_eq!(seat(&mut core, Class::Own, want(1, 1)), None);
    core.leave(large);
    assert!(seat(&mut core, Class::Own, want(1, 1)).is_some());
}

#[test]
fn a_whole_share_is_all_and_the_least_is_one_stream() {
    for (streams, helpers) in [(1, 0), (1, 5), (8, 0), (16, 3), (128, 128)] {
        let needs = Needs::of_sender(1 << 26, 0, streams, helpers);
        let Want { least, most } = needs.want();
        assert_eq!(
            (needs.streams_of(most), needs.helpers_of(most)),
            (streams, helpers)
        );
        assert_eq!((needs.streams_of(least), needs.helpers_of(least)), (1, 0));
        let receiver = Needs::of_receiver(0, streams, helpers);
        assert_eq!(receiver.streams_of(receiver.want().most), streams);
        let memory = 4 * u64::from(limits::BLOCK_BYTES);
        let share = Resources {
            memory,
            ..receiver.want().most
        };
        assert_eq!(
            receiver.streams_of(share),
            streams.min(4),
            "each takes a block"
        );
        for threads in least.threads..most.threads {
            let share = Resources { threads, ..most };
            let used = needs.streams_of(share) + needs.helpers_of(share);
            assert!(u64::from(used) <= 1 + threads - least.threads);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Come(bool, u64, u64),
    Look,
    GiveUp(usize),
    Grow(usize, u64),
    Shrink(usize, u64),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (any::<bool>(), 1..120_u64, 1..900_u64).prop_map(|(own, least, more)| Step::Come(own, least, more)),
        3 => Just(Step::Look),
        1 => any::<usize>().prop_map(Step::GiveUp),
        6 => (any::<usize>(), 1..300_u64).prop_map(|(at, bytes)| Step::Grow(at, bytes)),
        3 => (any::<usize>(), 1..300_u64).prop_map(|(at, bytes)| Step::Shrink(at, bytes)),
        2 => any::<usize>().prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 1..120)
}

/// The test's record of an admitted end.
struct Known {
    id: SeatId,
    want: Want,
    held: u64,
}

fn at<T>(list: &[T], index: usize) -> Option<usize> {
    index.checked_rem(list.len())
}

proptest! {
    #[test]
    fn shares_stay_within_the_total_and_reach_the_minimum(steps in steps()) {
        let mut core = Core::new(memory(BUDGET));
        let mut seats: Vec<Known> = Vec::new();
        let mut queue: Vec<(Ticket, Class, Want)> = Vec::new();
        for step in steps {
            match step {
                Step::Come(own, least, more) => {
                    let class = if own { Class::Own } else { Class::Accepted };
                    let wanted = want(least, least + more);
                    queue.push((core.enqueue(class, None, vec![wanted]), class, wanted));
                }
                Step::Look => {
                    let mut passed_over = Vec::new();
                    queue.retain(|(ticket, class, want)| {
                        let Some(found) = core.poll_admission(*ticket) else {
                            passed_over.push(*class);
                            return true;
                        };
                        assert!(!passed_over.contains(class), "an earlier one still waits");
                        seats.push(Known { id: found[0], want: *want, held: 0 });
                        false
                    });
                    // A process without transfers admits at once.
                    prop_assert!(!seats.is_empty() || queue.is_empty());
                }
                Step::GiveUp(index) => {
                    if let Some(index) = at(&queue, index) {
                        core.give_up(queue.remove(index).0);
                    }
                }
                Step::Grow(index, bytes) => {
                    if let Some(seat) = at(&seats, index).map(|index| &mut seats[index]) {
                        let least = seat.want.least.memory;
                        let share = core.share(seat.id).memory;
                        let granted = core.grow(seat.id, bytes, false);
                        prop_assert!(granted || seat.held + bytes > least, "the least is everybody's");
                        prop_assert!(!granted || seat.held + bytes <= share);
                        seat.held += if granted { bytes } else { 0 };
                    }
                }
                Step::Shrink(index, bytes) => {
                    if let Some(seat) = at(&seats, index).map(|index| &mut seats[index]) {
                        let bytes = bytes.min(seat.held);
                        core.shrink(seat.id, bytes);
                        seat.held -= bytes;
                    }
                }
                Step::Leave(index) => {
                    if let Some(index) = at(&seats, index) {
                        core.leave(seats.remove(index).id);
                    }
                }
            }
            let held: u64 = seats.iter().map(|seat| seat.held).sum();
            let reserved: u64 = seats.iter().map(|seat| seat.held.max(seat.want.least.memory)).sum();
            prop_assert_eq!(core.held().0, held);
            prop_assert!(core.held().1 <= BUDGET);
            prop_assert!(reserved <= BUDGET, "{reserved} are promised");
            prop_assert_eq!(core.counts(), (seats.len(), queue.len()));
            let least: u64 = seats.iter().map(|seat| seat.want.least.memory).sum();
            let mut shares = 0;
            for seat in &seats {
                let share = core.share(seat.id);
                prop_assert_eq!(share.min(seat.want.most).max(seat.want.least), share);
                shares += share.memory;
            }
            prop_assert!(shares <= least.max(BUDGET * 3 / 4), "{shares} are shared");
        }
        for seat in seats {
            core.leave(seat.id);
        }
        prop_assert_eq!(core.held().0, 0);
        for (ticket, ..) in queue {
            let seats = core.poll_admission(ticket);
            prop_assert!(seats.is_some(), "it waits for nobody");
            core.leave(seats.expect("it was let in")[0]);
        }
    }
}

fn owner(number: u8) -> IdentityId {
    let letter = char::from(b'a' + number % 26);
    let text = format!("gw1-{}a", letter.to_string().repeat(51));
    text.parse().expect("an identity")
}

/// The classes have half of 1,000, an owner a quarter, and owners with transfers leave 125 to others.
#[test]
fn one_owner_has_a_share_and_what_waits_lets_others_pass() {
    let mut core = Core::new(memory(BUDGET));
    let accepted = Class::Accepted;
    let mut hog = Vec::new();
    let waits = loop {
        let ticket = core.enqueue(accepted, Some(owner(0)), vec![want(50, 50)]);
        match core.poll_admission(ticket) {
            Some(seats) => hog.extend(seats),
            None => break ticket,
        }
    };
    assert_eq!(hog.len(), 5, "a quarter");
    let behind = core.enqueue(accepted, Some(owner(0)), vec![want(1, 1)]);
    assert_eq!(core.poll_admission(behind), None, "it came later");
    for (number, seats) in [(1, 2), (2, 1), (3, 1), (4, 1), (5, 0)] {
        let mut got = 0;
        loop {
            let ticket = core.enqueue(accepted, Some(owner(number)), vec![want(50, 50)]);
            if core.poll_admission(ticket).is_none() {
                core.give_up(ticket);
                break;
            }
            got += 1;
        }
        assert_eq!(got, seats, "owner {number}");
    }
    assert_eq!((core.ahead(waits), core.ahead(behind)), (0, 1));
    core.leave(hog[0]);
    assert_eq!(core.poll_admission(waits), None, "newcomers have used it");
    assert_eq!(core.lightest(&[owner(0), owner(5)]), Some(owner(5)));
}

#[test]
fn a_transfer_larger_than_the_share_of_its_owner_is_refused_at_once() {
    let governor = Governor::new(memory(BUDGET));
    let mut waits = |_: usize| -> bool { panic!("it waits") };
    let mut admit =
        |owners: &[IdentityId], least| governor.admit_for(owners, &[needs(least, 900)], &mut waits);
    let refused = admit(&[owner(0)], 251).expect_err("more than a quarter");
    let expected = Unadmitted::TooLarge {
        needed: 251,
        share: 250,
    };
    assert_eq!(refused, expected);
    let own = admit(&[owner(0)], 250).expect("a quarter");
    // It counts for the owner that has nothing yet.
    let other = admit(&[owner(0), owner(1)], 200).expect("room");
    drop((own, other));
    drop(admit(&[], 900).expect("without an owner it may run alone"));
}

proptest! {
    #[test]
    fn an_owner_never_takes_the_place_of_others(
        steps in prop::collection::vec((0..6_u8, 1..60_u64, any::<bool>()), 1..150),
    ) {
        let mut core = Core::new(memory(BUDGET));
        let mut seats: Vec<(u8, u64, SeatId)> = Vec::new();
        let mut queue: Vec<(u8, u64, Ticket)> = Vec::new();
        for (number, least, leaves) in steps {
            if leaves && !seats.is_empty() {
                core.leave(seats.swap_remove(usize::from(number) % seats.len()).2);
            } else {
                let wanted = vec![want(least, least)];
                queue.push((number, least, core.enqueue(Class::Accepted, Some(owner(number)), wanted)));
            }
            let mut passed_over = Vec::new();
            queue.retain(|(number, least, ticket)| {
                let had = |all: &[(u8, u64, SeatId)]| all.iter().any(|(of, ..)| of == number);
                let (has_none, all) = (!had(&seats), seats.iter().map(|(_, least, _)| least).sum::<u64>());
                let Some(ids) = core.poll_admission(*ticket) else {
                    passed_over.push(*number);
                    // A newcomer waits only behind its own requests, or for other newcomers.
                    let behind = passed_over.iter().filter(|of| *of == number).count() > 1;
                    assert!(behind || !has_none || all + least > BUDGET / 2);
                    return true;
                };
                assert!(!passed_over.contains(number), "an earlier one of its owner waits");
                seats.push((*number, *least, ids[0]));
                false
            });
            for number in 0..6 {
                let own: Vec<u64> = seats.iter().filter(|(of, ..)| *of == number).map(|(_, least, _)| *least).collect();
                prop_assert!(own.len() < 2 || own.iter().sum::<u64>() <= BUDGET / 4);
            }
        }
    }
}

#[test]
fn a_transfer_waits_until_another_ends_or_it_is_cancelled() {
    let governor = Governor::new(memory(BUDGET));
    let wanted = [needs(400, 900)];
    let first = governor
        .admit(Class::Own, &wanted, &mut |_| false)
        .expect("room");
    let mut asked = 0;
    let refused = governor.admit(Class::Own, &wanted, &mut |ahead| {
        asked += 1;
        assert_eq!(ahead, 0);
        asked < 3
    });
    assert!(refused.is_none());
    assert_eq!(governor.figures().waiting, 0);
    let waiting = governor.clone();
    let thread = std::thread::spawn(move || waiting.admit(Class::Own, &wanted, &mut |_| true));
    while governor.figures().waiting == 0 {
        std::thread::yield_now();
    }
    drop(first);
    let second = thread.join().expect("no panic").expect("room");
    assert_eq!(second[0].share().memory, 750);
}

#[test]
fn pools_stay_within_their_shares_and_give_everything_back() {
    let governor = Governor::new(memory(64 * 4096));
    let admit = || {
        let wanted = [needs(4 * 4096, 64 * 4096)];
        let leases = governor.admit(Class::Own, &wanted, &mut |_| false);
        leases.expect("room").remove(0)
    };
    let first = admit().pool(4096, 64);
    let mut blocks: Vec<_> = std::iter::from_fn(|| first.try_take()).collect();
    assert_eq!(blocks.len(), 48, "a quarter is for those who come");
    let second = admit().pool(4096, 64);
    let others: Vec<_> = std::iter::from_fn(|| second.try_take()).collect();
    assert_eq!(others.len(), 16, "what is left");
    blocks.truncate(20);
    assert_eq!(first.counters().blocks_idle, 28);
    first.set_blocks_max(24);
    assert_eq!(governor.figures().held, 40 * 4096);
    drop((blocks, others));
    first.close();
    drop((first, second));
    let figures = governor.figures();
    assert_eq!((figures.held, figures.running), (0, 0));
    assert_eq!(figures.held_most, 64 * 4096);
}
