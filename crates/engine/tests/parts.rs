//! Transfers parts of one file through several receivers over one storage, each with its own cache. Seeds choose
//! crashes, failed syncs, broken streams, lost claims, repetitions, and the order. In the end the file equals the
//! source's, and no other content ever has its name.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/flaky.rs"]
mod flaky;
#[path = "support/nodes.rs"]
mod nodes;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use godwit_engine::tuner::Bounds;
use godwit_engine::{
    Counters, End, FailedEntry, Fence, Live, Observer, Order, Receiver, ReceiverConfig, Sender,
    SenderConfig, Sink, Work, lock,
};
use godwit_net::{StreamOptions, local_pair};
use godwit_proto::{HeldRange, Part, Portion, TransferId};
use godwit_store::digest::{self, FileDigest, digest_slice};
use godwit_store::{FinalMeta, RelPath, Storage, TempName, Timestamp};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage, Operation};
use godwit_tree::{
    DestinationPlace, DestinationRequest, ListWork, Membership, NoNames, Region, Selecting,
    TreeRoot, TreeSink, TreeSource, TreeWork, WorkItem,
};

use flaky::Flaky;
use nodes::{Items, Node, faults};
use support::Random;

const BLOCK_BYTES: u32 = 4096;
const PART_BYTES: u64 = 4 * BLOCK_BYTES as u64;
/// Jobs of the usual run; `GODWIT_SEEDS` sets another number.
const SEEDS: u64 = 500;
/// No seed needs a tenth of this, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const CLAIM: [u8; 16] = [3; 16];
const NAME: &str = "big";

struct Silent;

impl Observer for Silent {
    fn entry_failed(&self, _failed: &FailedEntry<'_>) {}
}

struct World {
    seed: u64,
    kind: digest::DigestKind,
    source: MemoryStorage,
    content: Vec<u8>,
    inner: MemoryStorage,
}

fn path(name: &str) -> RelPath {
    RelPath::parse(name.as_bytes()).unwrap()
}

impl World {
    fn new(seed: u64, random: &mut Random) -> Self {
        let bytes = PART_BYTES * (1 + random.below(4)) + random.below(PART_BYTES);
        let content: Vec<u8> = (0..bytes)
            .map(|_| u8::try_from(random.below(256)).unwrap())
            .collect();
        let source = MemoryStorage::new();
        let meta = FinalMeta {
            mode: 0o640,
            mtime: Timestamp {
                seconds: 1000,
                nanoseconds: 5,
            },
            ..FinalMeta::default()
        };
        let name = path(&format!("src/{NAME}"));
        source.put(&name, &meta, &content).unwrap();
        let inner = MemoryStorage::new();
        inner.make_directory(&path("out"), 0o755).unwrap();
        Self {
            seed,
            kind: match seed % 2 {
                0 => digest::DigestKind::Crc64Nvme,
                _ => digest::DigestKind::Blake3,
            },
            source,
            content,
            inner,
        }
    }

    fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    fn parts(&self) -> Vec<Part> {
        let part = |offset| Part {
            offset,
            bytes: PART_BYTES.min(self.bytes() - offset),
        };
        let step = usize::try_from(PART_BYTES).unwrap();
        (0..self.bytes()).step_by(step).map(part).collect()
    }

    fn item(&self, portion: &Portion) -> WorkItem {
        let name = path(&format!("src/{NAME}"));
        let generation = self.source.stat(&name).unwrap().unwrap().generation();
        WorkItem::new(NAME.into(), generation, portion).unwrap()
    }

    fn roots(&self) -> Vec<TreeRoot> {
        vec![TreeRoot {
            storage: Arc::new(self.source.clone()),
            start: path("src"),
        }]
    }

    /// Runs some items through a node; `None` runs the closer. Returns the finished items, and how the transfer ended.
    fn run(
        &self,
        node: &Node,
        items: Option<Vec<WorkItem>>,
        random: &mut Random,
        breaks: i64,
    ) -> (
        BTreeMap<usize, Option<godwit_proto::Digest>>,
        End,
        Vec<String>,
    ) {
        let request = DestinationRequest {
            digest: self.kind,
            verify: self.seed.is_multiple_of(3),
            member: Some(Membership {
                node: Vec::new(),
                claim: CLAIM,
                epoch: node.epoch,
                closer: items.is_none(),
                lane: 0,
                fence: Arc::clone(&node.claim) as Arc<dyn Fence>,
                since: None,
                part_bytes_min: PART_BYTES,
                region: Region::default(),
            }),
            ..DestinationRequest::new(
                DestinationPlace {
                    storage: Arc::new(node.storage.clone()),
                    storage_path: b"/target".to_vec(),
                    base: path("out"),
                    is_directory: true,
                    display: Vec::new(),
                },
                b"me".to_vec(),
                vec![b"/src".to_vec()],
                vec![Vec::new()],
                node.journals.path().to_owned(),
            )
        };
        let prepared = match request.prepare() {
            Ok(prepared) => prepared,
            Err(error) => {
                let end = End::Cancelled(error.to_string());
                return (BTreeMap::new(), end, Vec::new());
            }
        };
        let transfer = TransferId([7; 16]);
        let counters = Arc::new(Counters::default());
        let counted = Arc::clone(&counters);
        let config = ReceiverConfig {
            transfer,
            digest: godwit_engine::wire_digest_kind(self.kind),
            block_bytes: BLOCK_BYTES,
            observer: Arc::new(Silent),
            resources: Arc::new(|| None),
            comparison: None,
            itemise: false,
        };
        let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
            Ok(TreeSink::start(
                prepared.config,
                prepared.journal,
                prepared.recovered,
                acks,
                counted,
            )?)
        });
        let live = Arc::new(Live::receiving(Bounds::fixed(0)));
        let receiver = Receiver::start(config, make, live, counters).unwrap();
        let reported = Arc::new(Items::default());
        let work: Box<dyn Work> = match items {
            Some(items) => {
                let root = self.roots().remove(0);
                let spill = node.journals.path();
                let list = ListWork::new(root, Box::new(NoNames), Selecting::all(), spill);
                Box::new(list.with_items(items))
            }
            None => Box::new(TreeWork::new(self.roots())),
        };
        let config = SenderConfig {
            transfer,
            digest: godwit_engine::wire_digest_kind(self.kind),
            block_bytes: BLOCK_BYTES,
            pool_bytes: 16 * BLOCK_BYTES as usize,
            order: Order::Source,
            observer: Arc::clone(&reported) as Arc<dyn Observer>,
            resources: Arc::new(|| None),
            root_names: vec![b"src".to_vec()],
            comparison: None,
            itemise: false,
            fence: None,
        };
        let sender = Sender::start(
            config,
            work,
            Arc::new(TreeSource::new(self.roots())),
            Arc::new(Live::sending(0, Bounds::fixed(0))),
            Arc::default(),
        )
        .unwrap();
        let end = self.carry(random, breaks, &sender, &receiver);
        let done = lock(&reported.done).clone();
        let said = lock(&reported.said).clone();
        (done, end, said)
    }

    /// Keeps a stream running until the transfer ends.
    fn carry(
        &self,
        random: &mut Random,
        breaks: i64,
        sender: &Arc<Sender>,
        receiver: &Arc<Receiver>,
    ) -> End {
        let breaks = Arc::new(AtomicI64::new(breaks));
        let (sending, receiving) = (Arc::clone(sender), Arc::clone(receiver));
        let mut steps = Random(random.below(u64::MAX));
        let keeper = std::thread::spawn(move || {
            while sending.end().is_none()
                && matches!(receiving.end(), None | Some(End::Finished(_)))
            {
                let (near, far) = local_pair(&StreamOptions::default()).unwrap();
                let mut flaky = |inner| Flaky {
                    inner,
                    left: 1 + steps.below(30),
                    breaks: Arc::clone(&breaks),
                    last_words: None,
                };
                let (mut near, mut far) = (flaky(near), flaky(far));
                let own = Arc::clone(&sending);
                let other = std::thread::spawn(move || drop(own.run_stream(&mut near)));
                drop(receiving.run_stream(&mut far));
                drop(far);
                other.join().unwrap();
            }
        });
        let start = Instant::now();
        let end = loop {
            if let Some(end) = sender.wait(Duration::from_millis(5)) {
                break end;
            }
            if let Some(end @ End::Failed { .. }) = receiver.end() {
                break end;
            }
            assert!(start.elapsed() < DEADLINE, "seed {} hangs", self.seed);
        };
        sender.cancel("over");
        sender.join();
        if !matches!(end, End::Finished(_)) {
            receiver.cancel("over");
        }
        keeper.join().unwrap();
        receiver.join();
        end
    }

    /// Checks that only the source's content ever has the name.
    fn check_name(&self) -> bool {
        let there = self.inner.content(&path(&format!("out/{NAME}")));
        if let Some(there) = &there {
            assert!(*there == self.content, "seed {}: mixed", self.seed);
        }
        there.is_some()
    }

    /// Checks that a part's reported digest is the digest of its bytes, for either reporting node.
    fn check_digest(&self, part: Part, digest: godwit_proto::Digest) {
        let [start, end] = [part.offset, part.end()].map(|at| usize::try_from(at).unwrap());
        let expected = digest_slice(
            self.kind,
            part.offset,
            self.bytes(),
            &self.content[start..end],
        );
        assert_eq!(digest.0, expected.0, "seed {}: {part:?}", self.seed);
    }

    fn assemble(&self, settled: &BTreeMap<u64, godwit_proto::Digest>) -> WorkItem {
        let mut file = FileDigest::new(self.kind);
        for part in self.parts() {
            let digest = digest::Digest(settled[&part.offset].0);
            file.add(part.offset, part.bytes, digest);
        }
        let ranges = file.ranges().into_iter();
        let ranges = ranges.map(|(offset, bytes, digest)| HeldRange {
            offset,
            bytes,
            digest: godwit_proto::Digest(digest.0),
        });
        self.item(&Portion::Assemble(ranges.collect()))
    }
}

/// A controller that loses nodes and answers, and reassigns work.
fn job(seed: u64) {
    let random = &mut Random(seed);
    let world = World::new(seed, random);
    let parts = world.parts();
    let mut nodes: Vec<Node> = (0..2 + random.below(2))
        .map(|_| Node::new(&world.inner, faults(random)))
        .collect();
    let mut settled: BTreeMap<u64, godwit_proto::Digest> = BTreeMap::new();
    let mut assembled = false;
    for _ in 0..6 {
        if assembled && random.below(2) == 0 {
            break;
        }
        if settled.len() == parts.len() && random.below(4) > 0 {
            let at = usize::try_from(random.below(nodes.len() as u64)).unwrap();
            let item = world.assemble(&settled);
            let breaks = i64::try_from(random.below(3)).unwrap();
            let (done, _, _) = world.run(&nodes[at], Some(vec![item]), random, breaks);
            assembled |= done.contains_key(&0);
            assert!(!assembled || world.check_name(), "seed {seed}: no file");
        } else {
            // Two nodes at a time, perhaps with the same parts.
            let orders: Vec<(Vec<Part>, u64, i64)> = nodes
                .iter()
                .map(|_| {
                    let mut mine = parts.clone();
                    mine.retain(|part| !settled.contains_key(&part.offset) || random.below(4) == 0);
                    let turn = random.below(1 + mine.len() as u64);
                    mine.rotate_left(usize::try_from(turn).unwrap());
                    mine.truncate(1 + usize::try_from(random.below(3)).unwrap());
                    let breaks = i64::try_from(random.below(3)).unwrap();
                    (mine, random.below(u64::MAX), breaks)
                })
                .collect();
            let results: Vec<_> = std::thread::scope(|scope| {
                let world = &world;
                let running: Vec<_> = nodes
                    .iter()
                    .zip(&orders)
                    .map(|(node, (mine, own, breaks))| {
                        scope.spawn(move || {
                            let item = |part: &Part| world.item(&Portion::Part(*part));
                            let items = mine.iter().map(item).collect();
                            let (done, _, _) =
                                world.run(node, Some(items), &mut Random(*own), *breaks);
                            done
                        })
                    })
                    .collect();
                running
                    .into_iter()
                    .map(|running| running.join().unwrap())
                    .collect()
            });
            for ((mine, _, _), done) in orders.iter().zip(results) {
                for (number, digest) in done {
                    let Some(digest) = digest else {
                        assert!(world.check_name(), "seed {seed}: no file, and no part");
                        continue;
                    };
                    world.check_digest(mine[number], digest);
                    // A node's answer may get lost.
                    if random.below(5) > 0 {
                        settled.insert(mine[number].offset, digest);
                    }
                }
            }
        }
        world.check_name();
        for node in &mut nodes {
            let lost = !node.claim.holds() || node.storage.crashed();
            if lost || random.below(3) == 0 {
                let faults = faults(random);
                node.restart(&world.inner, faults, random);
            }
        }
    }
    finish(&world, &mut nodes, settled, assembled);
}

/// Once failures stop, the job completes.
fn finish(
    world: &World,
    nodes: &mut [Node],
    mut settled: BTreeMap<u64, godwit_proto::Digest>,
    assembled: bool,
) {
    let (seed, random) = (world.seed, &mut Random(world.seed));
    for node in &mut *nodes {
        node.storage.crash();
        let mut none = Faults::new(0);
        (none.writer_cache, none.names_at_once) = (true, true);
        node.storage = HostileStorage::new(Arc::new(world.inner.clone()), none);
        node.claim = Arc::default();
        node.epoch += 1;
    }
    let rest: Vec<Part> = world
        .parts()
        .into_iter()
        .filter(|part| !settled.contains_key(&part.offset))
        .collect();
    if !rest.is_empty() && !assembled {
        let items = rest.iter().map(|part| world.item(&Portion::Part(*part)));
        let (done, end, said) = world.run(&nodes[0], Some(items.collect()), random, 0);
        assert!(matches!(end, End::Finished(_)), "seed {seed}: {end:?}");
        for (part, (_, digest)) in rest.iter().zip(&done) {
            settled.insert(part.offset, digest.unwrap());
        }
        assert_eq!(done.len(), rest.len(), "seed {seed}: {said:?}");
    }
    if !assembled {
        let item = world.assemble(&settled);
        let (done, end, said) = world.run(&nodes[1], Some(vec![item]), random, 0);
        assert!(done.contains_key(&0), "seed {seed}: {end:?} {said:?}");
    }
    assert!(world.check_name(), "seed {seed}: no file");
    let there = world.inner.stat(&path(&format!("out/{NAME}"))).unwrap();
    let there = there.unwrap();
    assert_eq!(
        (there.mtime.seconds, there.mode),
        (1000, 0o640),
        "seed {seed}"
    );
    let (_, end, said) = world.run(&nodes[0], None, random, 0);
    assert!(
        matches!(end, End::Finished(_)),
        "seed {seed}: {end:?} {said:?}"
    );
    let paths = world.inner.paths();
    let left = |path: &&RelPath| path.file_name().is_some_and(TempName::is_temp);
    assert_eq!(paths.iter().find(left), None, "seed {seed}");
    assert!(world.check_name(), "seed {seed}: the closer lost it");
}

#[test]
fn several_receivers_make_one_file_and_mix_nothing() {
    let seeds = std::env::var("GODWIT_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    job(seed);
                }
            });
        }
    });
}

#[test]
fn a_file_made_while_the_claim_ends_is_removed() {
    for (name, makes) in [(NAME, Operation::Create), ("small", Operation::Write)] {
        let random = &mut Random(2);
        let world = World::new(2, random);
        if name != NAME {
            world.source.remove(&path(&format!("src/{NAME}")));
            let small = path(&format!("src/{name}"));
            let meta = FinalMeta::default();
            world.source.put(&small, &meta, b"small").unwrap();
        }
        let mut node = Node::new(&world.inner, Faults::new(0));
        let (claim, wanted) = (Arc::clone(&node.claim), path(&format!("out/{name}")));
        let mut faults = Faults::new(0);
        faults.hook = Some(Arc::new(move |operation, at| {
            if operation == makes && *at == wanted {
                claim.end();
            }
        }));
        node.storage = HostileStorage::new(Arc::new(world.inner.clone()), faults);
        world.run(&node, None, random, 0);
        assert!(!node.claim.holds(), "{name}");
        let paths = world.inner.paths();
        let below = paths.iter().find(|at| at.parent() == Some(path("out")));
        assert_eq!(below, None, "{name}");
    }
}
