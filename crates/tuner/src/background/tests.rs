//! Simulates a link: a queue of fixed depth, a background transfer, and other senders. Sends nothing
//! over a real network.

use super::*;
use godwit_seeded::Seeded;

const SEEDS: u32 = 1000;

const STEP: Duration = Duration::from_millis(100);

struct Random(Seeded);

impl Random {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.below(1_000_000) as f64 / 1e6
    }
}

/// The other sender on the link.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Other {
    Nobody,
    /// Fills the queue, backs off when the queue overflows, and grows back.
    Loss,
    /// Sends at the rate at which its data was delivered, and slightly more now and then.
    Model,
}

struct Link {
    capacity: f64,
    round_trip: Duration,
    queue_max: f64,
    queue: f64,
    now: Instant,
    smoothed: Duration,
    least: Duration,
    background: Background,
    pace: f64,
    other: f64,
    model: f64,
    step: u64,
    /// Whether the background transfer sends nothing.
    silent: bool,
}

impl Link {
    fn new(random: &mut Random) -> Self {
        let capacity = random.between(10e6, 600e6);
        let round_trip = Duration::from_secs_f64(random.between(0.005, 0.2));
        Self {
            capacity,
            round_trip,
            queue_max: capacity * round_trip.as_secs_f64().max(0.02) * random.between(0.5, 2.0),
            queue: 0.0,
            now: Instant::now(),
            smoothed: round_trip,
            least: round_trip,
            background: Background::default(),
            pace: 0.0,
            other: capacity * 0.5,
            model: capacity * 0.5,
            step: 0,
            silent: false,
        }
    }

    /// One step. Returns the bytes a second that the background transfer and the other sender delivered.
    fn step(&mut self, kind: Other, random: &mut Random) -> (f64, f64) {
        self.step += 1;
        let seconds = STEP.as_secs_f64();
        let other = match kind {
            Other::Nobody => 0.0,
            Other::Loss => self.other,
            Other::Model => {
                self.model
                    * if self.step.is_multiple_of(8) {
                        1.25
                    } else {
                        1.0
                    }
            }
        };
        if self.silent {
            self.pace = 0.0;
        }
        let offered = self.pace + other;
        let through = (self.queue / seconds + offered).min(self.capacity);
        self.queue = (self.queue + (offered - through) * seconds).max(0.0);
        let overflow = (self.queue - self.queue_max).max(0.0);
        self.queue -= overflow;
        let lost = overflow > 0.0;
        let mine = if offered > 0.0 {
            self.pace / offered
        } else {
            0.0
        };
        let (got, others) = (through * mine, through * (1.0 - mine));
        self.other = if lost {
            self.other * 0.7
        } else {
            (self.other + self.capacity * 0.01).min(self.capacity * 1.2)
        };
        // The highest recent rate, with a lower bound: the sender drains its own queue.
        self.model = (others.max(self.model * 0.995)).clamp(self.capacity * 0.05, self.capacity);
        let noise = Duration::from_micros(random.0.below(400));
        let measured =
            self.round_trip + Duration::from_secs_f64(self.queue / self.capacity) + noise;
        self.smoothed = (self.smoothed * 3 + measured) / 4;
        self.least = self.least.min(measured);
        self.now += STEP;
        self.pace = self.background.step(
            self.now,
            &PathSample {
                round_trip: self.smoothed,
                round_trip_min: self.least,
                acknowledged_bytes: whole(got * seconds),
                sent_bytes: whole(self.pace * seconds),
                resent_bytes: if lost { whole(overflow * mine) } else { 0 },
                segment_bytes: 1448,
                streams: 2,
            },
        ) as f64;
        (got, others)
    }

    /// The share that the other sender reaches alone.
    fn alone(&mut self, kind: Other, steps: u32) -> f64 {
        self.other = self.capacity * 0.3;
        self.model = self.capacity * 0.3;
        self.silent = true;
        self.run(kind, steps, &mut Random(Seeded(1))).1
    }

    /// Mean shares of the link over `steps` steps.
    fn run(&mut self, kind: Other, steps: u32, random: &mut Random) -> (f64, f64) {
        let (mut mine, mut others) = (0.0, 0.0);
        for _ in 0..steps {
            let (got, other) = self.step(kind, random);
            mine += got;
            others += other;
        }
        let all = self.capacity * f64::from(steps);
        (mine / all, others / all)
    }
}

#[test]
fn it_fills_an_empty_link_and_yields_to_new_traffic() {
    let mut kept = 0.0;
    for seed in 0..SEEDS {
        let mut random = Random(Seeded(seed.into()));
        let mut link = Link::new(&mut random);
        link.run(Other::Nobody, 600, &mut random);
        let (alone, _) = link.run(Other::Nobody, 300, &mut random);
        assert!(alone > 0.7, "seed {seed}: only {alone:.2} of an empty link");
        for kind in [Other::Loss, Other::Model] {
            // The other sender starts. Its loss in the first seconds counts too.
            link.other = link.capacity * 0.3;
            link.model = link.capacity * 0.3;
            let (mine, others) = link.run(kind, 300, &mut random);
            let alone = Link::new(&mut Random(Seeded(seed.into()))).alone(kind, 300);
            assert!(
                others >= 0.85 * alone && mine < 0.2,
                "seed {seed}, {kind:?}: {others:.2} of {alone:.2} for the other, {mine:.2} in the background"
            );
            kept += others / alone;
            link.run(Other::Nobody, 300, &mut random);
            let (again, _) = link.run(Other::Nobody, 300, &mut random);
            assert!(
                again > 0.6,
                "seed {seed}, {kind:?}: only {again:.2} afterwards"
            );
        }
    }
    let kept = kept / f64::from(2 * SEEDS);
    assert!(
        kept >= 0.92,
        "others keep {kept:.3} of what they have alone"
    );
}

#[test]
fn an_idle_fast_path_is_full_within_seconds() {
    for seed in 0..SEEDS {
        let mut random = Random(Seeded(seed.into()));
        let mut link = Link {
            capacity: 1.25e9,
            round_trip: Duration::from_millis(20),
            ..Link::new(&mut random)
        };
        link.queue_max = link.capacity * 0.02;
        (link.smoothed, link.least) = (link.round_trip, link.round_trip);
        let (mine, _) = link.run(Other::Nobody, 100, &mut random);
        assert!(mine > 0.6, "seed {seed}: only {mine:.2} in ten seconds");
    }
}

#[test]
fn an_idle_path_is_full_after_two_seconds() {
    // The steps of the engine, on a path between two machines of one rack.
    let mut background = Background::default();
    let (mut now, mut rate) = (Instant::now(), Background::first());
    let capacity = 4_000_000_000;
    for _ in 0..10 {
        let step = Duration::from_millis(200);
        now += step;
        let arrived = rate.min(capacity) / 5;
        rate = background.step(
            now,
            &PathSample {
                round_trip: Duration::from_micros(200),
                round_trip_min: Duration::from_micros(150),
                acknowledged_bytes: arrived,
                sent_bytes: arrived,
                resent_bytes: 0,
                segment_bytes: 1448,
                streams: 4,
            },
        );
    }
    assert!(rate >= capacity, "{rate} bytes a second");
}

#[test]
fn loss_slows_it_without_any_delay() {
    let mut background = Background::default();
    let now = Instant::now();
    let sample = PathSample {
        round_trip: Duration::from_millis(50),
        round_trip_min: Duration::from_millis(50),
        acknowledged_bytes: 400_000,
        sent_bytes: 400_000,
        resent_bytes: 0,
        segment_bytes: 1448,
        streams: 2,
    };
    let before = background.step(now, &sample);
    let after = background.step(
        now + STEP,
        &PathSample {
            resent_bytes: 40_000,
            ..sample
        },
    );
    assert!(after <= before / 2 + 1, "{before} to {after}");
}

#[test]
fn a_path_that_is_not_measured_keeps_its_pace() {
    let mut background = Background::default();
    let now = Instant::now();
    let first = background.step(now, &PathSample::default());
    assert_eq!(background.step(now + STEP, &PathSample::default()), first);
}
