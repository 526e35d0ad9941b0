//! Tests decisions about pages one by one, and in seeded runs with ends, returns, faults and hung reads.
//! Reads no storage: a page is its key and the time at which its reading began.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_seeded::Seeded;

use super::{PageAnswer, PageBound, PageHold, READER_WAIT};
use crate::{AskId, Destination, ReadId};

const A: Destination = Destination(0);
const B: Destination = Destination(1);
const C: Destination = Destination(2);

const AGE: Duration = Duration::from_secs(60);
const PAGE: u64 = 10;

/// The key, and when the reading began.
type Held = PageHold<u64, (u64, Duration)>;

fn hold(bytes: u64, of: &[Destination]) -> Held {
    let mut hold = PageHold::new(PageBound { bytes, age: AGE });
    for who in of {
        hold.join(Duration::ZERO, *who);
    }
    hold
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn begin(hold: &mut Held, now: Duration, who: Destination, key: u64) -> ReadId {
    match hold.ask(now, who, &key) {
        PageAnswer::Read(Some(id)) => id,
        other => panic!("{key}: {other:?}"),
    }
}

fn read(hold: &mut Held, now: Duration, who: Destination, key: u64) {
    let id = begin(hold, now, who, key);
    hold.finish(id, Some(((key, now), PAGE)));
}

fn takes(hold: &mut Held, now: Duration, who: Destination, key: u64) -> bool {
    match hold.ask(now, who, &key) {
        PageAnswer::Take((taken, _)) => {
            assert_eq!(taken, key);
            true
        }
        _ => false,
    }
}

#[test]
fn three_scans_read_a_page_once_and_it_leaves_with_the_last() {
    let mut hold = hold(1_000, &[A, B, C]);
    read(&mut hold, at(1), A, 7);
    assert!(takes(&mut hold, at(2), B, 7));
    assert_eq!(hold.figures().kept_bytes, PAGE);
    assert!(takes(&mut hold, at(3), C, 7));
    let figures = hold.figures();
    assert_eq!(
        (figures.kept_bytes, figures.reads, figures.takes),
        (0, 1, 2)
    );
}

#[test]
fn a_scan_waits_for_the_reader_and_no_longer_than_the_bound() {
    let mut hold = hold(1_000, &[A, B, C]);
    let id = begin(&mut hold, at(0), A, 7);
    let PageAnswer::Wait(b, until) = hold.ask(at(1), B, &7) else {
        panic!("it is being read");
    };
    assert_eq!(until, READER_WAIT);
    // The storage hangs.
    assert_eq!(hold.again(until, b), PageAnswer::Read(None));
    assert_eq!(hold.ask(until, C, &7), PageAnswer::Read(None));
    hold.finish(id, Some(((7, at(0)), PAGE)));
    assert_eq!(hold.figures().kept_bytes, 0, "each has read it");
}

#[test]
fn a_failed_read_is_made_by_the_next_one() {
    let mut hold = hold(1_000, &[A, B, C]);
    let id = begin(&mut hold, at(0), A, 7);
    let PageAnswer::Wait(b, _) = hold.ask(at(1), B, &7) else {
        panic!("it is being read");
    };
    hold.finish(id, None);
    assert!(hold.woken().contains(&b));
    let PageAnswer::Read(Some(id)) = hold.again(at(2), b) else {
        panic!("no page is kept");
    };
    hold.finish(id, Some(((7, at(2)), PAGE)));
    assert!(takes(&mut hold, at(3), C, 7));
}

#[test]
fn the_oldest_page_leaves_when_the_bound_is_met() {
    let mut hold = hold(3 * PAGE, &[A, B]);
    for key in 0..5 {
        read(&mut hold, at(key), A, key);
        assert!(hold.figures().kept_bytes <= 3 * PAGE);
    }
    assert!(matches!(hold.ask(at(10), B, &0), PageAnswer::Read(None)));
    assert!((2..5).all(|key| takes(&mut hold, at(10), B, key)));
    assert_eq!(hold.figures().again, 1);
}

#[test]
fn an_old_page_is_read_again() {
    let mut hold = hold(1_000, &[A, B]);
    read(&mut hold, at(0), A, 7);
    assert!(!takes(&mut hold, AGE, B, 7));
    assert_eq!(hold.figures().kept_bytes, 0);
}

#[test]
fn a_destination_that_comes_back_reads_again_for_all() {
    let mut hold = hold(1_000, &[A, B, C]);
    read(&mut hold, at(0), A, 7);
    hold.leave(B);
    hold.join(at(10), B);
    read(&mut hold, at(11), B, 7);
    let PageAnswer::Take((_, began)) = hold.ask(at(12), C, &7) else {
        panic!("C has not had it");
    };
    assert_eq!(began, at(11));
    assert_eq!(hold.figures().kept_bytes, 0, "A has had it");
}

/// A read that began before the return of a destination may have missed a change.
#[test]
fn a_destination_that_comes_back_waits_for_no_earlier_read() {
    let mut hold = hold(1_000, &[A, B, C]);
    let id = begin(&mut hold, at(0), A, 7);
    hold.leave(B);
    hold.join(at(10), B);
    assert_eq!(hold.ask(at(11), B, &7), PageAnswer::Read(None));
    hold.finish(id, Some(((7, at(0)), PAGE)));
    assert!(takes(&mut hold, at(12), C, 7));
}

#[test]
fn a_destination_that_leaves_is_not_waited_for() {
    let mut hold = hold(1_000, &[A, B]);
    read(&mut hold, at(0), A, 7);
    let id = begin(&mut hold, at(1), A, 8);
    let PageAnswer::Wait(waiting, _) = hold.ask(at(2), B, &8) else {
        panic!("it is being read");
    };
    hold.leave(B);
    assert_eq!(hold.figures().kept_bytes, 0);
    assert!(hold.woken().contains(&waiting));
    assert_eq!(hold.again(at(3), waiting), PageAnswer::Read(None));
    hold.finish(id, Some(((8, at(1)), PAGE)));
    assert_eq!(hold.figures().kept_bytes, 0);
    assert_eq!(hold.ask(at(4), A, &9), PageAnswer::Read(None), "A is alone");
}

/// A scan of one destination.
#[derive(Default)]
struct Walker {
    joined: Duration,
    is_here: bool,
    /// The next key, in the order of the source.
    next: u64,
    waits: Option<(AskId, Duration)>,
    /// A read in progress: its number, its beginning, and its end.
    reads: Option<(Option<ReadId>, Duration, Duration)>,
}

struct Course {
    bound: PageBound,
    /// One in this many steps ends or begins a destination, and one in as many reads fails or hangs.
    trouble: Option<u64>,
}

/// Most ends of destinations in one run. Absent ones still come back.
const ENDS_MAX: u32 = 20;

impl Course {
    /// Runs scans of `keys` pages by these destinations to their ends.
    fn run(&self, seed: u64, destinations: usize, keys: u64) -> Held {
        let all: Vec<Destination> = (0..destinations).map(Destination).collect();
        let mut hold = PageHold::new(self.bound);
        let mut ends = 0;
        let mut seeded = Seeded(seed);
        let mut walkers: BTreeMap<Destination, Walker> = BTreeMap::new();
        for who in all {
            hold.join(Duration::ZERO, who);
            let walker = Walker {
                is_here: true,
                ..Walker::default()
            };
            walkers.insert(who, walker);
        }
        let mut now = Duration::ZERO;
        let mut steps = 0;
        while walkers
            .values()
            .any(|walker| !walker.is_here || walker.next < keys)
        {
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed}: a scan waits for ever");
            now += Duration::from_micros(seeded.below(300));
            let who = Destination(usize::try_from(seeded.below(destinations as u64)).unwrap());
            let walker = walkers.get_mut(&who).unwrap();
            if let Some(trouble) = self.trouble
                && seeded.one_in(trouble)
            {
                now += Duration::from_secs(seeded.below(20));
                let is_idle = walker.reads.is_none() && walker.waits.is_none();
                if is_idle && (ends < ENDS_MAX || !walker.is_here) {
                    ends += u32::from(walker.is_here);
                    toggle(&mut hold, walker, who, now);
                }
            }
            if walker.is_here {
                self.step(&mut hold, (walker, who), (now, keys), &mut seeded);
            }
            assert!(hold.figures().kept_bytes <= self.bound.bytes, "seed {seed}");
        }
        hold
    }

    fn step(
        &self,
        hold: &mut Held,
        (walker, who): (&mut Walker, Destination),
        (now, keys): (Duration, u64),
        seeded: &mut Seeded,
    ) {
        if let Some((id, began, ends)) = walker.reads {
            if now >= ends {
                walker.reads = None;
                let fails = self.trouble.is_some_and(|trouble| seeded.one_in(trouble));
                if let Some(id) = id {
                    let page = (walker.next, began);
                    hold.finish(id, (!fails).then_some((page, PAGE)));
                }
                walker.next += 1;
            }
            return;
        }
        let answer = match walker.waits.take() {
            Some((ask, until)) => {
                let woken = hold.woken();
                let is_woken = woken.contains(&ask);
                // The others are woken in their own steps.
                hold.woken.extend(woken);
                if !is_woken && now < until {
                    walker.waits = Some((ask, until));
                    return;
                }
                hold.again(now, ask)
            }
            None if walker.next < keys => hold.ask(now, who, &walker.next),
            None => return,
        };
        match answer {
            PageAnswer::Take((key, began)) => {
                assert_eq!(key, walker.next);
                assert!(began >= walker.joined && now - began < self.bound.age);
                walker.next += 1;
            }
            PageAnswer::Wait(ask, until) => walker.waits = Some((ask, until)),
            PageAnswer::Read(id) => {
                let hangs = self.trouble.is_some_and(|trouble| seeded.one_in(trouble));
                let took = if hangs { 2 * READER_WAIT } else { at(1) };
                walker.reads = Some((id, now, now + took));
            }
        }
    }
}

/// Ends a destination, or lets it begin from the first page.
fn toggle(hold: &mut Held, walker: &mut Walker, who: Destination, now: Duration) {
    if walker.is_here {
        hold.leave(who);
        walker.is_here = false;
    } else {
        hold.join(now, who);
        *walker = Walker {
            joined: now,
            is_here: true,
            ..Walker::default()
        };
    }
}

#[test]
fn scans_of_one_source_read_each_page_once() {
    let course = Course {
        bound: PageBound {
            bytes: 1 << 20,
            age: AGE,
        },
        trouble: None,
    };
    for seed in 0..20 {
        let hold = course.run(seed, 3, 500);
        let figures = hold.figures();
        assert_eq!((figures.reads, figures.takes), (500, 1_000), "seed {seed}");
        assert_eq!(figures.kept_bytes, 0, "seed {seed}");
    }
}

#[test]
fn scans_end_in_spite_of_ends_faults_hung_reads_and_little_room() {
    for seed in 0..100 {
        let course = Course {
            bound: PageBound {
                bytes: PAGE * (1 + seed % 40),
                age: Duration::from_secs(30),
            },
            trouble: Some(200),
        };
        let hold = course.run(seed, 1 + usize::try_from(seed % 5).unwrap(), 60);
        assert!(hold.reads.is_empty() && hold.asks.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_scan_that_begins_late_takes_only_pages_read_since() {
    let mut hold = hold(1_000, &[A, B, C]);
    read(&mut hold, at(5), A, 7);
    let late = (B, at(6));
    let PageAnswer::Read(Some(id)) = hold.ask_since(at(7), late, &7) else {
        panic!("the page is too old");
    };
    // The new page is for all.
    let PageAnswer::Wait(c, _) = hold.ask_since(at(8), (C, at(7)), &7) else {
        panic!("it is being read");
    };
    hold.finish(id, Some(((7, at(7)), PAGE)));
    assert!(matches!(hold.again(at(9), c), PageAnswer::Take(_)));
    // A scan that begins during a read reads, too.
    let id = begin(&mut hold, at(10), A, 8);
    let later = hold.ask_since(at(12), (B, at(11)), &8);
    assert_eq!(later, PageAnswer::Read(None));
    hold.finish(id, None);
}
