//! Checks that the slowest stage is reported: real engines over TLS and TCP, where each stage in turn is the
//! slowest. Unit tests check the decision for given counters.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/mod.rs"]
mod support;
#[path = "support/throttle.rs"]
mod throttle;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use godwit_engine::tuner::Bounds;
use godwit_engine::{
    Bottleneck, Chosen, Counters, EndCounters, Finding, Live, Observer, Order, Receiver,
    ReceiverConfig, Sender, SenderConfig,
};
use godwit_proto::{DigestKind, TransferId};
use godwit_tree::synthetic::NullSink;

use support::Random;
use throttle::{Files, Mix, Pace, SlowSink, SlowSource, line};

/// Seven of each stage. `GODWIT_STAGES` is another number.
const CASES: usize = 42;
/// One in this number may be misnamed.
const WRONG: usize = 20;

const BLOCK_BYTES: u32 = 64 << 10;

/// Time for buffers to fill, and time that is measured: less than a second is not judged.
const SETTLE: Duration = Duration::from_millis(300);
const JUDGED: Duration = Duration::from_millis(1_050);

/// Bytes a second of the slowest stage, with a processor for itself.
const SLOWEST: u32 = 12_000_000;

/// Cases that run at the same time; only some of them may use processors.
const AT_ONCE: usize = 6;

struct Silent;

impl Observer for Silent {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

#[derive(Clone, Debug)]
struct Case {
    slow: Bottleneck,
    /// How much faster the other stages are.
    factor: f64,
    mix: Mix,
    digest: DigestKind,
    plain: bool,
    streams: usize,
    readers: u32,
    writers: u32,
    seed: u64,
}

impl Case {
    fn new(number: usize) -> Self {
        let stages = [
            Bottleneck::SourceStorage,
            Bottleneck::SourceCpu,
            Bottleneck::Network,
            Bottleneck::DestinationCpu,
            Bottleneck::DestinationStorage,
            Bottleneck::Limit,
        ];
        let seed = number as u64 + 1;
        let mut random = Random(seed);
        let mut pick = |count: u64| usize::try_from(random.below(count)).unwrap();
        Self {
            slow: stages[number % stages.len()],
            factor: 1.5 + pick(70) as f64 / 20.0,
            mix: [Mix::Large, Mix::Small, Mix::Both][pick(3)],
            digest: [DigestKind::CRC64_NVME, DigestKind::BLAKE3][pick(2)],
            plain: pick(2) == 0,
            streams: 1 + pick(4),
            readers: [0, 1, 2][pick(3)],
            writers: [0, 1, 2][pick(3)],
            seed,
        }
    }

    fn burns(&self) -> bool {
        matches!(
            self.slow,
            Bottleneck::SourceCpu | Bottleneck::DestinationCpu
        )
    }

    /// The pace of `stage`.
    fn pace(&self, stage: Bottleneck) -> Arc<Pace> {
        let rate = if stage == self.slow {
            f64::from(SLOWEST)
        } else {
            // A stage that burns processor time may use two processors, so the other stages are twice as fast.
            f64::from(SLOWEST) * self.factor * if self.burns() { 2.0 } else { 1.0 }
        };
        Arc::new(Pace::rate(rate))
    }

    fn storage(&self, storage: Bottleneck, cpu: Bottleneck) -> Arc<Pace> {
        if self.slow == cpu {
            Arc::new(Pace::Burn(1e9 / f64::from(SLOWEST)))
        } else {
            self.pace(storage)
        }
    }

    fn run(&self) -> Option<Finding> {
        let source = self.storage(Bottleneck::SourceStorage, Bottleneck::SourceCpu);
        let sink = self.storage(Bottleneck::DestinationStorage, Bottleneck::DestinationCpu);
        let network = self.pace(Bottleneck::Network);
        let limit = if self.slow == Bottleneck::Limit {
            SLOWEST.into()
        } else {
            0
        };
        let transfer = TransferId([1; 16]);
        let sender = Sender::start(
            SenderConfig {
                transfer,
                digest: self.digest,
                block_bytes: BLOCK_BYTES,
                pool_bytes: 8 << 20,
                order: Order::Source,
                observer: Arc::new(Silent),
                resources: Arc::new(|| None),
                root_names: vec![Vec::new()],
                comparison: None,
                itemise: false,
                fence: None,
            },
            Box::new(Files::new(self.mix, self.seed)),
            Arc::new(SlowSource(source)),
            Arc::new(Live::sending(limit, Bounds::fixed(self.readers))),
            Arc::default(),
        )
        .unwrap();
        let counters = Arc::new(Counters::default());
        let counted = Arc::clone(&counters);
        let receiver = Receiver::start(
            ReceiverConfig {
                transfer,
                digest: self.digest,
                block_bytes: BLOCK_BYTES,
                observer: Arc::new(Silent),
                resources: Arc::new(|| None),
                comparison: None,
                itemise: false,
            },
            Box::new(|acks| Ok(Arc::new(SlowSink(NullSink::new(acks, counted), sink)))),
            Arc::new(Live::receiving(Bounds::fixed(self.writers))),
            counters,
        )
        .unwrap();
        let lines: Vec<_> = (0..self.streams)
            .map(|_| line(&network, self.plain))
            .collect();
        thread::scope(|scope| {
            for (mut ours, mut theirs) in lines {
                let (sender, receiver) = (&sender, &receiver);
                // The threads end when the transfer is given up.
                scope.spawn(move || drop(sender.run_stream(&mut ours)));
                scope.spawn(move || drop(receiver.run_stream(&mut theirs)));
            }
            let end_counters = || EndCounters {
                source: Some(sender.counters().snapshot()),
                destination: Some(receiver.counters().snapshot()),
            };
            thread::sleep(SETTLE);
            let before = end_counters();
            thread::sleep(JUDGED);
            let finding = end_counters()
                .since(&before)
                .finding(&[], &Chosen::default());
            assert!(sender.end().is_none(), "{self:?}: {:?}", sender.end());
            sender.cancel("judged");
            receiver.cancel("judged");
            sender.join();
            receiver.join();
            finding
        })
    }
}

#[test]
fn the_slowest_stage_is_named() {
    let cases = std::env::var("GODWIT_STAGES").map_or(CASES, |text| text.parse().unwrap());
    let (burning, sleeping): (Vec<_>, Vec<_>) = (0..cases).map(Case::new).partition(Case::burns);
    let wrong = Mutex::new(Vec::new());
    let judge = |case: &Case| {
        let finding = case.run();
        if finding.as_ref().map(|finding| finding.stage) != Some(case.slow) {
            wrong.lock().unwrap().push(format!("{case:?}: {finding:?}"));
        }
    };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = sleeping.get(next.fetch_add(1, Ordering::Relaxed)) {
                    judge(case);
                }
            });
        }
    });
    let began = Instant::now();
    burning.iter().for_each(judge);
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.len() <= cases / WRONG,
        "{} of {cases} misnamed ({:?} for those that burn):\n{}",
        wrong.len(),
        began.elapsed(),
        wrong.join("\n")
    );
}
