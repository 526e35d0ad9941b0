//! Simulates destinations that read one source through a hold, event by event: storage, links, orders, faults and ends.
//! Moves no data: a block is its key.

mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use godwit_seeded::Seeded;

use crate::{Answer, AskId, Bound, Destination, Lane, Outcome, ReadHold, ReadId, TakeId};

const BLOCK: u64 = 512 << 10;

/// One destination.
#[derive(Clone, Debug)]
struct Link {
    /// Bytes a second.
    rate: f64,
    /// Its streams, each of which reads and sends one block at a time.
    threads: usize,
    /// Its first question comes at this time.
    begins: Duration,
    /// Blocks of each `wobble` that follow each other are asked for in any order.
    wobble: usize,
    /// Number of blocks at the beginning that the destination already has.
    has: u64,
    /// After this many blocks it takes no more, for ever.
    stops: Option<u64>,
    /// After this many blocks it leaves.
    leaves: Option<u64>,
}

impl Link {
    fn of(rate: f64) -> Self {
        Self {
            rate,
            threads: 4,
            begins: Duration::ZERO,
            wobble: 4,
            has: 0,
            stops: None,
            leaves: None,
        }
    }
}

/// A source, its hold, and its destinations.
#[derive(Clone, Debug)]
struct World {
    links: Vec<Link>,
    blocks: u64,
    /// Rate of the storage in bytes a second, one block after the other; below it the latency of each block.
    storage: f64,
    latency: Duration,
    bound: Bound,
    /// One in this many reads fails.
    fails: Option<u64>,
    /// The rate of each block differs by up to this part.
    noise: f64,
}

/// The outcome of a run.
#[derive(Debug, Default)]
struct Course {
    /// When each destination had everything.
    ended: Vec<Option<Duration>>,
    /// Bytes read from the storage.
    read: u64,
    most_held: u64,
    failed: u64,
    was_behind: Vec<bool>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// A thread asks for its next block.
    Next(usize, usize),
    /// A question is asked again. A question may have several such events: the one with the highest number counts.
    Again(AskId, u64),
    /// The storage has answered.
    Read(ReadId),
    /// A copy is made.
    Copied(TakeId, usize, usize),
}

struct Run<'a> {
    world: &'a World,
    hold: ReadHold<u64, u64, u64>,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    number: u64,
    /// Blocks that each destination still asks for, in its order.
    to_ask: Vec<Vec<u64>>,
    got: Vec<BTreeSet<u64>>,
    link_free: Vec<Duration>,
    storage_free: Duration,
    /// The block that each waiting question is for.
    waiting: BTreeMap<AskId, Waiting>,
    reading: BTreeMap<ReadId, (usize, usize, u64, bool)>,
    copying: BTreeMap<TakeId, u64>,
    has_left: Vec<bool>,
    seeded: Seeded,
    course: Course,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    link: usize,
    thread: usize,
    key: u64,
    number: u64,
}

fn seconds(of: f64) -> Duration {
    Duration::from_secs_f64(of)
}

impl World {
    fn of(rates: &[f64], blocks: u64) -> Self {
        Self {
            links: rates.iter().map(|rate| Link::of(*rate)).collect(),
            blocks,
            storage: 1e9,
            latency: Duration::from_micros(200),
            bound: Bound {
                bytes: 32 << 20,
                blocks: 4_096,
                beside: 0,
            },
            fails: None,
            noise: 0.0,
        }
    }

    fn bytes(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// The time that the destination needs alone.
    fn alone(&self, link: usize, seed: u64) -> Duration {
        let world = Self {
            links: vec![self.links[link].clone()],
            ..self.clone()
        };
        world.run(seed).ended[0].expect("it ends alone")
    }

    fn run(&self, seed: u64) -> Course {
        let mut run = Run::new(self, seed);
        while run.step() {}
        run.course.read = run.hold.figures().read_bytes;
        run.course
    }
}

impl<'a> Run<'a> {
    fn new(world: &'a World, seed: u64) -> Self {
        let mut seeded = Seeded(seed);
        let count = world.links.len();
        let mut run = Self {
            world,
            hold: ReadHold::new(world.bound),
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            number: 0,
            to_ask: Vec::new(),
            got: vec![BTreeSet::new(); count],
            link_free: vec![Duration::ZERO; count],
            storage_free: Duration::ZERO,
            waiting: BTreeMap::new(),
            reading: BTreeMap::new(),
            copying: BTreeMap::new(),
            has_left: vec![false; count],
            course: Course {
                ended: vec![None; count],
                was_behind: vec![false; count],
                ..Course::default()
            },
            seeded: Seeded(seeded.draw()),
        };
        for (number, link) in world.links.iter().enumerate() {
            let mut order: Vec<u64> = (link.has..world.blocks).collect();
            for window in order.chunks_mut(link.wobble.max(1)) {
                for last in (1..window.len()).rev() {
                    let other = seeded.below(last as u64 + 1);
                    window.swap(last, usize::try_from(other).expect("small"));
                }
            }
            order.reverse();
            run.to_ask.push(order);
            run.hold.join(Duration::ZERO, Destination(number));
            for thread in 0..link.threads {
                run.at(link.begins, Event::Next(number, thread));
            }
        }
        run
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.number += 1;
        // Events of one time come in any order.
        let order = self.seeded.draw() << 20 | self.number;
        self.events
            .push(Reverse((time.max(self.now), order, event)));
    }

    /// Whether anything happened.
    fn step(&mut self) -> bool {
        let Some(Reverse((time, _, event))) = self.events.pop() else {
            let live = |link: usize| {
                !self.has_left[link] && self.course.ended[link].is_none() && !self.is_stopped(link)
            };
            let stuck = (0..self.world.links.len()).any(live);
            assert!(!stuck, "a deadlock: {:?} {:?}", self.waiting, self.world);
            return false;
        };
        self.now = time;
        match event {
            Event::Next(link, thread) => self.next(link, thread),
            Event::Again(ask, number) => {
                let waiting = self.waiting.get(&ask);
                if let Some(waiting) = waiting.filter(|waiting| waiting.number == number) {
                    let Waiting {
                        link, thread, key, ..
                    } = *waiting;
                    self.waiting.remove(&ask);
                    let answer = self.hold.again(self.now, ask);
                    self.obey(link, thread, key, answer);
                }
            }
            Event::Read(read) => self.read(read),
            Event::Copied(take, link, thread) => {
                self.hold.handle_copied(self.now, take);
                let key = self.copying[&take];
                self.sent(link, thread, key);
            }
        }
        self.course.most_held = self.course.most_held.max(self.hold.figures().kept_bytes);
        for link in 0..self.world.links.len() {
            self.course.was_behind[link] |= self.hold.is_behind(Destination(link));
        }
        for ask in self.hold.woken() {
            if let Some(waiting) = self.waiting.get_mut(&ask) {
                self.number += 1;
                let number = self.number;
                waiting.number = number;
                let soon = self.now + Duration::from_micros(self.seeded.below(50));
                self.at(soon, Event::Again(ask, number));
            }
        }
        true
    }

    fn is_stopped(&self, link: usize) -> bool {
        let stops = self.world.links[link].stops;
        stops.is_some_and(|stops| self.got[link].len() as u64 >= stops)
    }

    fn next(&mut self, link: usize, thread: usize) {
        if self.has_left[link] || self.is_stopped(link) {
            return;
        }
        let leaves = self.world.links[link].leaves;
        if leaves.is_some_and(|leaves| self.got[link].len() as u64 >= leaves) {
            self.has_left[link] = true;
            self.hold.leave(self.now, Destination(link));
            return;
        }
        let Some(key) = self.to_ask[link].pop() else {
            return;
        };
        let answer = self.hold.ask(
            self.now,
            Lane(Destination(link), thread as u64),
            &key,
            BLOCK,
        );
        self.obey(link, thread, key, answer);
    }

    fn obey(&mut self, link: usize, thread: usize, key: u64, answer: Answer<u64, u64>) {
        match answer {
            Answer::Take(take, content) => {
                assert_eq!(content, key, "the block of another key");
                self.copying.insert(take, key);
                let copied = self.now + Duration::from_micros(100);
                self.at(copied, Event::Copied(take, link, thread));
            }
            Answer::Read(read, is_kept) => {
                let begin = self.storage_free.max(self.now);
                self.storage_free = begin + seconds(BLOCK as f64 / self.world.storage);
                self.reading.insert(read, (link, thread, key, is_kept));
                let done = self.storage_free + self.world.latency;
                self.at(done, Event::Read(read));
            }
            Answer::Wait(ask, until) => {
                self.number += 1;
                let number = self.number;
                let waiting = Waiting {
                    link,
                    thread,
                    key,
                    number,
                };
                self.waiting.insert(ask, waiting);
                if let Some(until) = until {
                    self.at(until, Event::Again(ask, number));
                }
            }
            Answer::Failed(of) => {
                assert_eq!(of, key, "the failure of another key");
                self.course.failed += 1;
                self.sent(link, thread, key);
            }
            Answer::Gone => assert!(self.has_left[link], "it is here"),
        }
    }

    fn read(&mut self, read: ReadId) {
        let (link, thread, key, is_kept) = self.reading.remove(&read).expect("it is read");
        let fails = self.world.fails;
        if fails.is_some_and(|fails| self.seeded.one_in(fails)) {
            let failure = match self.seeded.one_in(2) {
                true => Outcome::Failed(key),
                false => Outcome::Abandoned,
            };
            self.hold.finish(self.now, read, failure);
            self.course.failed += 1;
        } else {
            let content = is_kept.then_some(key);
            self.hold.finish(self.now, read, Outcome::Content(content));
        }
        self.sent(link, thread, key);
    }

    /// The thread sends its block, and asks for the next one.
    fn sent(&mut self, link: usize, thread: usize, key: u64) {
        if self.has_left[link] {
            return;
        }
        assert!(self.got[link].insert(key), "a block twice");
        let of = &self.world.links[link];
        let noise = self.seeded.below(1_000) as f64 / 1_000.0 - 0.5;
        let rate = of.rate * self.world.noise.mul_add(noise, 1.0);
        let begin = self.link_free[link].max(self.now);
        self.link_free[link] = begin + seconds(BLOCK as f64 / rate);
        let free = self.link_free[link];
        self.at(free, Event::Next(link, thread));
        if self.got[link].len() as u64 == self.world.blocks - of.has {
            self.course.ended[link] = Some(free);
            self.has_left[link] = true;
            // Its last block is in flight, and it requests no more.
            self.hold.leave(self.now, Destination(link));
        }
    }
}
