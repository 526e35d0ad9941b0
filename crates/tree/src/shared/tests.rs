//! Tests that destinations get the same bytes by one read each, also when a reader fails, panics or ends.
//! Other decisions are tested in `hold`.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use godwit_engine::{DigestTerms, ReadError, Source, SourceFile};
use godwit_proto::{EntryId, EntryKind, Fault, FaultCode, Generation, Record};
use godwit_store::digest::DigestKind;

use super::SharedReads;

const BLOCK: usize = 64 << 10;
const BLOCKS: u64 = 200;

/// A file of known bytes that counts its reads.
#[derive(Default)]
struct Counting {
    reads: AtomicU64,
    opens: AtomicU64,
    generation: AtomicU64,
    /// The first read of this offset panics or fails, after others wait for it.
    panics_at: Option<u64>,
    fails_at: Option<u64>,
    /// The first read of this offset waits for the gate.
    stops_at: Option<u64>,
    gate: Mutex<()>,
    has_tripped: AtomicBool,
    pause: Duration,
}

struct Handle(Arc<Counting>);

impl Counting {
    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        thread::sleep(self.pause);
        let trips =
            |at: Option<u64>| at == Some(offset) && !self.has_tripped.swap(true, Ordering::Relaxed);
        assert!(!trips(self.panics_at), "a panic on purpose");
        if trips(self.stops_at) {
            drop(self.gate.lock());
        }
        if trips(self.fails_at) {
            return Err(ReadError::Failed(Fault {
                entry: EntryId(99),
                code: FaultCode::IO,
                message: "bad sector".to_owned(),
                ..Fault::default()
            }));
        }
        for (at, byte) in (offset..).zip(buffer) {
            *byte = byte_at(at);
        }
        Ok(())
    }
}

fn byte_at(offset: u64) -> u8 {
    offset.wrapping_mul(2_654_435_761).to_le_bytes()[2]
}

impl Source for Handle {
    fn open(&self, _: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        self.0.opens.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self(Arc::clone(&self.0))))
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = usize::try_from(record.bytes).expect("small");
        self.0.fill(record.id.0, &mut buffer[..bytes])?;
        Ok(bytes)
    }

    fn reads_apart(&self) -> bool {
        true
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        Ok(record.clone())
    }
}

impl SourceFile for Handle {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.0.fill(offset, buffer)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        Ok(Some(offset..BLOCKS * BLOCK as u64))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        Ok(self.0.generation.load(Ordering::Relaxed))
    }
}

fn record(id: u64) -> Record {
    Record {
        id: EntryId(id),
        kind: EntryKind::FILE,
        generation: Generation(0),
        bytes: BLOCKS * BLOCK as u64,
        path: b"large".to_vec(),
        ..Record::default()
    }
}

/// Some destinations read the file with two threads each; returns the failures of each.
fn read_all(counting: &Arc<Counting>, destinations: usize) -> Vec<Vec<ReadError>> {
    let reads = SharedReads::new(4 << 20, destinations);
    let failures = thread::scope(|scope| {
        let running: Vec<_> = (0..destinations)
            .map(|number| {
                let seat = reads.seat(number);
                scope.spawn(move || {
                    let source = seat.share(Arc::new(Handle(Arc::clone(counting))));
                    assert!(!source.reads_apart());
                    let file = source.open(&record(number as u64)).expect("opened");
                    let next = AtomicU64::new(0);
                    let read = || {
                        let mut failures = Vec::new();
                        let mut buffer = vec![0; BLOCK];
                        loop {
                            let block = next.fetch_add(1, Ordering::Relaxed);
                            if block >= BLOCKS {
                                return failures;
                            }
                            let offset = block * BLOCK as u64;
                            match file.read_at(offset, &mut buffer) {
                                Ok(()) => {
                                    let mut bytes = (offset..).zip(&buffer);
                                    assert!(bytes.all(|(at, byte)| *byte == byte_at(at)));
                                }
                                Err(error) => failures.push(error),
                            }
                        }
                    };
                    thread::scope(|scope| {
                        let threads = [scope.spawn(read), scope.spawn(read)];
                        // A thread that panicked has no failures.
                        let done = threads.map(|thread| thread.join().unwrap_or_default());
                        source.close();
                        done.into_iter().flatten().collect()
                    })
                })
            })
            .collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.map(|failures| failures.expect("no panic")).collect()
    });
    assert_eq!(reads.figures().kept_bytes, 0, "all have it, or have left");
    failures
}

#[test]
fn three_destinations_open_and_read_once() {
    let counting = Arc::new(Counting::default());
    let failures = read_all(&counting, 3);
    assert!(failures.iter().all(Vec::is_empty), "{failures:?}");
    assert_eq!(counting.reads.load(Ordering::Relaxed), BLOCKS);
    assert!(counting.opens.load(Ordering::Relaxed) <= 3);
}

#[test]
fn a_panic_of_one_reader_leaves_no_thread_waiting() {
    let counting = Arc::new(Counting {
        panics_at: Some(7 * BLOCK as u64),
        pause: Duration::from_millis(1),
        ..Counting::default()
    });
    let failures = read_all(&counting, 3);
    assert!(failures.iter().all(Vec::is_empty), "{failures:?}");
    assert_eq!(counting.reads.load(Ordering::Relaxed), BLOCKS + 1);
}

#[test]
fn a_failure_is_reported_under_the_number_of_each_destination() {
    let counting = Arc::new(Counting {
        fails_at: Some(7 * BLOCK as u64),
        pause: Duration::from_millis(1),
        ..Counting::default()
    });
    let failures = read_all(&counting, 3);
    let all: Vec<_> = (0..).zip(&failures).collect();
    assert!(all.iter().any(|(_, failures)| !failures.is_empty()));
    for (number, failures) in all {
        for failure in failures {
            match failure {
                ReadError::Failed(fault) => assert_eq!(fault.entry, EntryId(number)),
                ReadError::Changed => panic!("{failures:?}"),
            }
        }
    }
}

#[test]
fn bytes_of_a_newer_state_are_not_kept() {
    let counting = Arc::new(Counting::default());
    let reads = SharedReads::new(4 << 20, 2);
    let seats = [reads.seat(0), reads.seat(1)];
    let sources = seats
        .each_ref()
        .map(|seat| seat.share(Arc::new(Handle(Arc::clone(&counting)))));
    let files = sources
        .each_ref()
        .map(|source| source.open(&record(1)).expect("opened"));
    counting.generation.store(1, Ordering::Relaxed);
    let mut buffer = vec![0; BLOCK];
    for file in files {
        let read = file.read_at(0, &mut buffer);
        assert!(matches!(read, Err(ReadError::Changed)), "{read:?}");
    }
    assert_eq!(counting.reads.load(Ordering::Relaxed), 2);
}

/// A small file with a long name takes its name's memory while it is kept.
#[test]
fn long_names_of_kept_files_count() {
    let reads = SharedReads::new(4 << 20, 2);
    let seats = [reads.seat(0), reads.seat(1)];
    let source = seats[0].share(Arc::new(Handle(Arc::default())));
    let small = |number: u64| Record {
        bytes: 1,
        path: format!("{number}/{}", "long/".repeat(12_000)).into_bytes(),
        ..record(number)
    };
    source.read_whole(&small(1), &mut [0; 2]).expect("read");
    let kept = reads.figures().kept_bytes;
    assert!(kept > 59_000, "{kept}");
}

/// A digest of the second buffer would differ.
#[test]
fn a_shared_block_is_hashed_by_the_first_transfer() {
    let reads = SharedReads::new(4 << 20, 2);
    let seats = [reads.seat(0), reads.seat(1)];
    let sources = seats
        .each_ref()
        .map(|seat| seat.share(Arc::new(Handle(Arc::default()))));
    let terms = |entry_bytes| DigestTerms {
        kind: DigestKind::Blake3,
        offset: 0,
        entry_bytes,
    };
    let files = sources
        .each_ref()
        .map(|source| source.open(&record(1)).expect("opened"));
    let mut buffer = vec![0; BLOCK];
    let [first, second] = files.map(|file| {
        let once = file.read_shared(0, &mut buffer).expect("read");
        once.expect("the block is kept")
    });
    let large = terms(BLOCKS * BLOCK as u64);
    let digest = first.of(large, &buffer);
    assert_eq!(digest, large.digest(&buffer));
    assert_eq!(second.of(large, b"other"), digest);
    let small = Record {
        bytes: 1_000,
        path: b"small".to_vec(),
        ..record(2)
    };
    let [first, second] = sources.each_ref().map(|source| {
        let read = source.read_whole_shared(&small, &mut buffer).expect("read");
        assert_eq!(read.0, 1_000);
        read.1.expect("the file is kept")
    });
    let digest = first.of(terms(1_000), &buffer[..1_000]);
    assert_eq!(second.of(terms(1_000), b"other"), digest);
}

#[test]
fn small_files_are_read_once_too() {
    let counting = Arc::new(Counting::default());
    let reads = SharedReads::new(4 << 20, 2);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for number in 0..2 {
            let seat = reads.seat(number);
            let (counting, barrier) = (Arc::clone(&counting), &barrier);
            scope.spawn(move || {
                let source = seat.share(Arc::new(Handle(counting)));
                barrier.wait();
                let mut buffer = vec![0; 1_001];
                for file in 0..500 {
                    let record = Record {
                        bytes: 1_000,
                        path: format!("file {file}").into_bytes(),
                        ..record(file)
                    };
                    let read = source.read_whole(&record, &mut buffer).expect("read");
                    assert_eq!(read, 1_000);
                    let mut bytes = (file..).zip(&buffer[..1_000]);
                    assert!(bytes.all(|(at, byte)| *byte == byte_at(at)));
                }
            });
        }
    });
    assert_eq!(counting.reads.load(Ordering::Relaxed), 500);
}

/// The leases of a divided job are transfers one after another.
#[test]
fn a_destination_with_many_transfers_finds_the_blocks_of_another_one() {
    let counting = Arc::new(Counting::default());
    let reads = SharedReads::new(64 << 20, 2);
    let mut buffer = vec![0; BLOCK];
    for number in 0..2 {
        for transfer in 0..4 {
            let seat = reads.lasting_seat(number);
            let source = seat.share(Arc::new(Handle(Arc::clone(&counting))));
            let file = source.open(&record(1)).expect("opened");
            for block in (0..BLOCKS).filter(|block| block % 4 == transfer) {
                let offset = block * BLOCK as u64;
                file.read_at(offset, &mut buffer).expect("read");
                assert_eq!(buffer[0], byte_at(offset));
            }
            source.close();
        }
    }
    assert_eq!(counting.reads.load(Ordering::Relaxed), BLOCKS);
    let figures = reads.figures();
    assert_eq!((figures.again_bytes, figures.kept_bytes), (0, 0));
    // A block that the other one has not taken leaves with it.
    let other = Record {
        path: b"other".to_vec(),
        ..record(2)
    };
    let source = reads.lasting_seat(0).share(Arc::new(Handle(counting)));
    let file = source.open(&other).expect("opened");
    file.read_at(0, &mut buffer).expect("read");
    assert!(reads.figures().kept_bytes > 0);
    reads.leave(1);
    assert_eq!(reads.figures().kept_bytes, 0);
}

#[test]
fn files_of_two_roots_are_two_files_though_their_records_are_alike() {
    let counting = Arc::new(Counting::default());
    let reads = SharedReads::new(4 << 20, 2);
    let mut buffer = vec![0; BLOCK];
    for (number, root) in [(0, 0), (1, 1), (1, 0)] {
        let mut seat = reads.lasting_seat(number);
        seat.at_root(root);
        let source = seat.share(Arc::new(Handle(Arc::clone(&counting))));
        let file = source.open(&record(1)).expect("opened");
        file.read_at(0, &mut buffer).expect("read");
    }
    assert_eq!(counting.reads.load(Ordering::Relaxed), 2);
}

#[test]
fn a_closed_transfer_of_a_lasting_seat_waits_for_no_other_reader() {
    let counting = Arc::new(Counting {
        stops_at: Some(0),
        ..Counting::default()
    });
    let reads = SharedReads::new(4 << 20, 2);
    let sources = [0, 1].map(|number| {
        let seat = reads.lasting_seat(number);
        seat.share(Arc::new(Handle(Arc::clone(&counting))))
    });
    let read = |number: usize| {
        let file = sources[number].open(&record(1)).expect("opened");
        file.read_at(0, &mut vec![0; BLOCK]).expect("read");
    };
    let gate = counting.gate.lock().expect("whole");
    thread::scope(|scope| {
        let first = scope.spawn(|| read(0));
        while !counting.has_tripped.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let second = scope.spawn(|| read(1));
        sources[1].close();
        second.join().expect("it reads");
        drop(gate);
        first.join().expect("it reads too");
    });
    assert_eq!(counting.reads.load(Ordering::Relaxed), 2);
}

#[test]
fn a_block_that_a_receiver_refused_comes_from_the_storage() {
    let counting = Arc::new(Counting::default());
    let reads = SharedReads::new(4 << 20, 2);
    let seats = [reads.seat(0), reads.seat(1)];
    let [first, second] = seats.each_ref().map(|seat| {
        let source = seat.share(Arc::new(Handle(Arc::clone(&counting))));
        source.open(&record(1)).expect("opened")
    });
    let mut buffer = vec![0; BLOCK];
    let count = || counting.reads.load(Ordering::Relaxed);
    first.read_at(0, &mut buffer).expect("read");
    second.read_again(0, &mut buffer).expect("read");
    assert_eq!(count(), 2);
    second.read_at(0, &mut buffer).expect("taken");
    assert_eq!(count(), 2);
}
