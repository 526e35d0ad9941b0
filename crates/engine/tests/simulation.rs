//! Runs whole transfers between two ends in one process, over streams that die and storage that fails,
//! chosen by seeds. Each seed must end correctly, judged by the content of the storage.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/flaky.rs"]
mod flaky;
mod support;
#[path = "support/trees.rs"]
mod trees;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use godwit_engine::tuner::Bounds;
use godwit_engine::{
    Counters, End, Live, Observer, Order, Receiver, ReceiverConfig, Sender, SenderConfig, Sink,
};
use godwit_net::{StreamOptions, local_pair};
use godwit_proto::{Comparison, DigestKind, Judge, TransferId};
use godwit_store::{Replace, Storage, StoreErrorKind, digest};
use godwit_testkit::{Faults, HostileStorage, MemoryStorage, Operation, Rule, When};
use godwit_tree::{DestinationPlace, DestinationRequest, TreeRoot, TreeSink, TreeSource, TreeWork};

use flaky::Flaky;
use support::Random;
use trees::{
    check_complete, check_contents, check_final_names, content, make_older, make_source, meta,
    path, put_link,
};

const BLOCK_BYTES: u32 = 4096;
/// No seed needs a tenth of this, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn entry_failed(&self, failed: &godwit_engine::FailedEntry<'_>) {
        let path = String::from_utf8_lossy(failed.shown);
        self.0
            .lock()
            .unwrap()
            .push(format!("{path}: {}", failed.fault.message));
    }
}

struct Setup {
    seed: u64,
    digest: digest::DigestKind,
    source: Arc<dyn Storage>,
    target: Arc<dyn Storage>,
    journals: std::path::PathBuf,
    comparison: Option<Comparison>,
}

/// Every other run compares like sync, some of them by digest.
fn comparison_of(seed: u64) -> Option<Comparison> {
    seed.is_multiple_of(2).then(|| Comparison {
        judge: if seed.is_multiple_of(4) {
            Judge::CHECKSUM.0
        } else {
            Judge::SIZE_AND_TIME.0
        },
        delete: true,
        counterpart: true,
        ..Comparison::default()
    })
}

/// One run of the command. Returns the end, and the reports on single entries.
fn run(setup: &Setup, random: &mut Random, breaks: i64) -> (End, Vec<String>) {
    let request = DestinationRequest {
        digest: setup.digest,
        verify: setup.seed.is_multiple_of(5),
        comparison: setup.comparison,
        ..DestinationRequest::new(
            DestinationPlace {
                storage: Arc::clone(&setup.target),
                storage_path: b"/target".to_vec(),
                base: path("out"),
                is_directory: false,
                display: Vec::new(),
            },
            b"me".to_vec(),
            vec![b"/src".to_vec()],
            // The source goes into the directory itself, so that a second run has the same destination.
            vec![Vec::new()],
            setup.journals.clone(),
        )
    };
    let prepared = match request.prepare() {
        Ok(prepared) => prepared,
        Err(error) => return (End::Cancelled(error.to_string()), Vec::new()),
    };
    let transfer = TransferId([7; 16]);
    let kind = godwit_engine::wire_digest_kind(setup.digest);
    let seen = Arc::new(Seen::default());
    let receiver = start_receiver(transfer, kind, Arc::clone(&seen), prepared, setup.seed);
    let roots = vec![TreeRoot {
        storage: Arc::clone(&setup.source),
        start: path("src"),
    }];
    let config = SenderConfig {
        transfer,
        digest: kind,
        block_bytes: BLOCK_BYTES,
        pool_bytes: 16 * BLOCK_BYTES as usize,
        order: match setup.seed % 4 {
            0 | 1 => Order::Source,
            _ => Order::Random,
        },
        observer: Arc::new(Seen::default()),
        resources: Arc::new(|| None),
        root_names: vec![b"src".to_vec()],
        comparison: setup.comparison,
        itemise: false,
        fence: None,
    };
    let readers = u32::try_from(setup.seed % 2).unwrap();
    let sender = Sender::start(
        config,
        Box::new(TreeWork::new(roots.clone())),
        Arc::new(TreeSource::new(roots)),
        Arc::new(Live::sending(0, Bounds::fixed(readers))),
        Arc::default(),
    )
    .unwrap();
    let end = carry(setup.seed, random, breaks, &sender, &receiver);
    let said = seen.0.lock().unwrap().clone();
    (end, said)
}

fn start_receiver(
    transfer: TransferId,
    digest: DigestKind,
    observer: Arc<Seen>,
    prepared: godwit_tree::PreparedDestination,
    seed: u64,
) -> Arc<Receiver> {
    let counters = Arc::new(Counters::default());
    let for_sink = Arc::clone(&counters);
    let config = ReceiverConfig {
        transfer,
        digest,
        block_bytes: BLOCK_BYTES,
        observer,
        resources: Arc::new(|| None),
        comparison: prepared.config.comparison,
        itemise: false,
    };
    let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
        Ok(TreeSink::start(
            prepared.config,
            prepared.journal,
            prepared.recovered,
            acks,
            for_sink,
        )?)
    });
    let writers = u32::try_from(seed / 2 % 2).unwrap();
    let live = Arc::new(Live::receiving(Bounds::fixed(writers)));
    Receiver::start(config, make, live, counters).unwrap()
}

/// Keeps two streams running until the transfer ends.
fn carry(
    seed: u64,
    random: &mut Random,
    breaks: i64,
    sender: &Arc<Sender>,
    receiver: &Arc<Receiver>,
) -> End {
    let breaks = Arc::new(AtomicI64::new(breaks));
    let mut keepers = Vec::new();
    for index in 0..2 {
        // In every third run, one of the two streams carries few blocks.
        let early = index == 0 && seed % 3 == 1;
        let mut random = Random(random.below(u64::MAX));
        let (sender, receiver, breaks) = (
            Arc::clone(sender),
            Arc::clone(receiver),
            Arc::clone(&breaks),
        );
        keepers.push(std::thread::spawn(move || {
            // A sender that lost the final frame asks a finished receiver again.
            while sender.end().is_none() && matches!(receiver.end(), None | Some(End::Finished(_)))
            {
                let (mut near, mut far) = local_pair(&StreamOptions::default()).unwrap();
                if early {
                    let bytes = random.below(4 * u64::from(BLOCK_BYTES));
                    near.carry_blocks_up_to(bytes);
                    far.carry_blocks_up_to(bytes);
                }
                let mut flaky = |inner| Flaky {
                    inner,
                    left: 1 + random.below(40),
                    breaks: Arc::clone(&breaks),
                    last_words: None,
                };
                let (mut near, mut far) = (flaky(near), flaky(far));
                let sending = Arc::clone(&sender);
                let other = std::thread::spawn(move || drop(sending.run_stream(&mut near)));
                drop(receiver.run_stream(&mut far));
                drop(far);
                other.join().unwrap();
            }
        }));
    }
    let start = std::time::Instant::now();
    let end = loop {
        // In every fourth run, streams leave continually at the request of either end.
        let restless = seed % 4 == 3;
        let pause = if restless { 1 } else { 20 };
        if let Some(end) = sender.wait(Duration::from_millis(pause)) {
            break end;
        }
        if restless {
            for stream in sender.streams() {
                if random.below(3) == 0 {
                    sender.retire(stream.id);
                }
            }
            for stream in receiver.streams() {
                if random.below(3) == 0 {
                    receiver.retire(stream.id);
                }
            }
        }
        if let Some(end @ End::Failed { .. }) = receiver.end() {
            break end;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "seed {seed} hangs: sender {:?}, receiver {:?}",
            sender.counters().snapshot(),
            receiver.counters().snapshot()
        );
    };
    sender.cancel("over");
    sender.join();
    if !matches!(end, End::Finished(_)) {
        receiver.cancel("over");
    }
    for keeper in keepers {
        keeper.join().unwrap();
    }
    receiver.join();
    end
}

fn rules(random: &mut Random) -> Faults {
    let mut faults = Faults::new(random.below(u64::MAX));
    faults.writer_cache = true;
    let mut rule = |operation, chance, error| {
        faults.rules.push(Rule {
            operation,
            when: When::Chance(chance),
            error,
        });
    };
    match random.below(6) {
        0 => rule(Operation::SyncBatch, 300_000, StoreErrorKind::Io),
        1 => rule(Operation::Write, 30_000, StoreErrorKind::Io),
        2 => rule(Operation::Commit, 100_000, StoreErrorKind::Io),
        3 => faults.space_bytes = Some(random.below(200_000)),
        4 => faults.crash_after = Some(random.below(300)),
        _ => rule(Operation::SyncDirectories, 300_000, StoreErrorKind::Io),
    }
    faults
}

fn digest_of(seed: u64) -> digest::DigestKind {
    if seed.is_multiple_of(3) {
        digest::DigestKind::Blake3
    } else {
        digest::DigestKind::Crc64Nvme
    }
}

#[test]
fn storage_that_fails_and_streams_that_die_lose_and_mix_nothing() {
    for seed in 0..150 {
        let random = &mut Random(seed);
        let journals = tempfile::tempdir().unwrap();
        let (source, mut known) = make_source(random);
        let inner = MemoryStorage::new();
        make_older(random, &inner, &mut known);
        let stray = path("out/d1/stray/file");
        inner.put(&stray, &meta(1), b"not in the source").unwrap();
        let hostile = HostileStorage::new(Arc::new(inner.clone()), rules(random));
        let mut setup = Setup {
            seed,
            digest: digest_of(seed),
            source: Arc::new(source),
            target: Arc::new(hostile.clone()),
            journals: journals.path().to_owned(),
            comparison: comparison_of(seed),
        };
        let breaks = i64::try_from(random.below(6)).unwrap();
        let (end, _said) = run(&setup, random, breaks);
        // Power failure: only data that the storage reported as durable remains.
        hostile.crash();
        check_final_names(seed, &inner, &known.versions);
        if matches!(&end, End::Finished(finished) if finished.failed == 0) {
            check_contents(seed, &inner, &known);
        }
        let mut faults = Faults::new(seed);
        faults.writer_cache = true;
        let healthy = HostileStorage::new(Arc::new(inner.clone()), faults);
        setup.target = Arc::new(healthy.clone());
        let (end, said) = run(&setup, random, breaks);
        assert!(
            matches!(&end, End::Finished(finished) if finished.failed == 0),
            "seed {seed}: a healthy run ended with {end:?}: {said:?}"
        );
        // Acknowledged data is durable, even though the system has written nothing back at its own pace.
        healthy.crash();
        let deleted = comparison_of(seed).is_some();
        assert_eq!(inner.content(&stray).is_none(), deleted, "seed {seed}");
        inner.remove(&path("out/d1/stray"));
        check_complete(seed, &inner, &known);
    }
}

/// Files in memory get their names before the sync of their batch fails, and are sent again with the batch.
#[test]
fn a_finished_file_that_is_sent_again_replaces_itself() {
    let mut finished = 0;
    for seed in 2000..2060 {
        let random = &mut Random(seed);
        let journals = tempfile::tempdir().unwrap();
        let (source, mut known) = make_source(random);
        let inner = MemoryStorage::new();
        make_older(random, &inner, &mut known);
        let mut faults = Faults::new(seed);
        faults.in_memory = Some(|path| path.as_bytes().len().is_multiple_of(2));
        faults.rules.push(Rule {
            operation: Operation::SyncBatch,
            when: When::Chance(300_000),
            error: StoreErrorKind::Io,
        });
        let setup = Setup {
            seed,
            digest: digest_of(seed),
            source: Arc::new(source),
            target: Arc::new(HostileStorage::new(Arc::new(inner.clone()), faults)),
            journals: journals.path().to_owned(),
            comparison: None,
        };
        let breaks = i64::try_from(random.below(6)).unwrap();
        let (end, said) = run(&setup, random, breaks);
        check_final_names(seed, &inner, &known.versions);
        if let End::Finished(report) = &end {
            assert_eq!(report.failed, 0, "seed {seed}: {said:?}");
            check_complete(seed, &inner, &known);
            finished += 1;
        }
    }
    // The other runs ended because of three consecutive failures.
    assert!(finished > 30, "{finished}");
}

#[test]
fn files_that_change_while_they_are_read_arrive_in_one_state() {
    for seed in 1000..1100 {
        let random = &mut Random(seed);
        let journals = tempfile::tempdir().unwrap();
        let (source, mut known) = make_source(random);
        let inner = MemoryStorage::new();
        make_older(random, &inner, &mut known);
        let at = random.below(30);
        let reads = AtomicU64::new(0);
        let (name, bytes) = (known.name(random), random.below(30_000));
        let names = known.names_of(&name);
        let known = Arc::new(Mutex::new(known));
        let new = content(random, bytes);
        let mut faults = Faults::new(seed);
        let (changed, shared) = (source.clone(), Arc::clone(&known));
        faults.hook = Some(Arc::new(move |operation, _| {
            if operation == Operation::Read && reads.fetch_add(1, Ordering::SeqCst) == at {
                let versions = &mut shared.lock().unwrap().versions;
                for name in &names {
                    versions.get_mut(name).unwrap().push(new.clone());
                }
                let first = path(&format!("src/{}", names[0]));
                changed.put(&first, &meta(2000), &new).unwrap();
                for other in &names[1..] {
                    put_link(
                        &changed,
                        &format!("src/{other}"),
                        &format!("src/{}", names[0]),
                        Replace::Atomically,
                    );
                }
            }
        }));
        let changing = HostileStorage::new(Arc::new(source), faults);
        let setup = Setup {
            seed,
            digest: digest_of(seed),
            source: Arc::new(changing.clone()),
            target: Arc::new(inner.clone()),
            journals: journals.path().to_owned(),
            comparison: comparison_of(seed),
        };
        let breaks = i64::try_from(random.below(6)).unwrap();
        run(&setup, random, breaks);
        check_final_names(seed, &inner, &known.lock().unwrap().versions);
        changing.change(|faults| faults.hook = None);
        let (end, said) = run(&setup, random, 0);
        assert!(
            matches!(&end, End::Finished(finished) if finished.failed == 0),
            "seed {seed}: a quiet run ended with {end:?}: {said:?}"
        );
        check_complete(seed, &inner, &known.lock().unwrap());
    }
}
