//! Tests files that arrive: after any restart, failed write or lost volume, each file has drained unchanged or still waits.

mod arrivals {
    mod order;
}

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use godwit_buffer::backing::Backing;
use godwit_buffer::device::Access;
use godwit_buffer::extent::{FileKey, Generation, Keep, SlotIndex, SourceId, State};
use godwit_buffer::in_use::Places;
use godwit_buffer::layout::Layout;
use godwit_buffer::make::{self, Request};
use godwit_buffer::service::{Arrivals, Buffer, Drain, Log, Mounted, Settled, open_volumes};
use tempfile::TempDir;

const NODE: &str = "gw1-test";
const EXTENT: usize = 1 << 20;
const SOURCE: SourceId = SourceId([3; 16]);
const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

struct World(TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn format(&self, name: &str, megabytes: u64) -> PathBuf {
        let path = self.0.path().join(name);
        let request = Request {
            path: path.clone(),
            bytes: Some(megabytes << 20),
            extent_bytes: 1 << 20,
            node: NODE.to_owned(),
            force: None,
            id: [1; 16],
            salt: 7,
            now: Duration::from_secs(1),
        };
        make::make(&request, &Places::default()).expect("made");
        path
    }

    fn open(places: &[PathBuf]) -> Buffer {
        let (opened, failed) = open_volumes(places, NODE);
        let log: Log = Arc::new(|_: &str| {});
        Buffer::start(opened, failed, log).expect("threads")
    }
}

fn contents(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| u8::try_from(at / 251 % 251).expect("small") ^ seed)
        .collect()
}

/// Brings a whole file, in blocks in reverse order, and waits until it is durable.
#[track_caller]
fn arrives(arrivals: &Arrivals, path: &str, data: &[u8], what: &[u8]) {
    let arriving = arrivals.begin(SOURCE, path.as_bytes(), data.len() as u64);
    let arriving = arriving.expect("room");
    for (number, block) in data.chunks(300_000).enumerate().rev() {
        assert!(!arriving.is_complete());
        let offset = (number * 300_000) as u64;
        arriving.write(offset, block).expect("taken");
    }
    assert!(arriving.is_complete() && arriving.make_durable());
    let mark = arriving.land(what).expect("room for the words");
    assert!(arrivals.confirm(mark));
}

#[track_caller]
fn next(arrivals: &Arrivals) -> Drain {
    arrivals.next(LONG).expect("a file waits")
}

fn read(drain: &Drain) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(drain.bytes()).expect("small")];
    assert!(drain.read(0, &mut data), "as it was written");
    data
}

fn slots(buffer: &Buffer, state: State) -> u64 {
    buffer.figures().slots[state as usize]
}

fn settled(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "not yet: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_that_arrived_drains_after_a_restart_and_is_then_served_from_flash() {
    let world = World::new();
    let places = [world.format("a", 40), world.format("b", 40)];
    let data = contents(5 * EXTENT + 1234, 1);
    {
        let buffer = World::open(&places);
        let arrivals = buffer.arrivals();
        arrives(&arrivals, "run/a", &data, b"words");
        // A part of a file that did not arrive whole.
        let part = arrivals.begin(SOURCE, b"run/part", 2 * EXTENT as u64);
        let part = part.expect("room");
        part.write(0, &contents(EXTENT, 2)).expect("taken");
        settled("seven extents", || slots(&buffer, State::Dirty) == 7);
        buffer.close();
        // The log does not learn that the part is given up.
        drop(part);
    }
    let buffer = World::open(&places);
    let arrivals = buffer.arrivals();
    assert_eq!(slots(&buffer, State::Dirty), 6, "the part is gone");
    assert!(
        arrivals.begin(SOURCE, b"huge", 90 << 20).is_none(),
        "it is larger than the buffer"
    );
    let drain = next(&arrivals);
    assert_eq!((drain.path(), drain.what()), (&b"run/a"[..], &b"words"[..]));
    assert_eq!(drain.source(), SOURCE);
    assert!(read(&drain) == data);
    assert_eq!(slots(&buffer, State::Draining), 6);
    drop(drain);
    let drain = next(&arrivals);
    drain.placed(99);
    assert_eq!(arrivals.settle(SOURCE, b"run", SOON), Settled::All);
    let key = || FileKey {
        source: SOURCE,
        path: b"run/a".to_vec(),
        generation: Generation {
            bytes: data.len() as u64,
            stamp: 99,
        },
    };
    settled("all clean", || slots(&buffer, State::Clean) == 6);
    let mut out = vec![0; data.len()];
    let file = buffer.file(key(), Keep::No).expect("it fits");
    assert!(file.read(0, &mut out) && out == data);
    drop(file);
    buffer.close();
    drop((arrivals, buffer));
    let buffer = World::open(&places);
    assert_eq!(buffer.arrivals().sums().files, 0);
    out.fill(0);
    let file = buffer.file(key(), Keep::No).expect("it fits");
    assert!(
        file.read(0, &mut out) && out == data,
        "after a restart, too"
    );
}

#[test]
fn a_volume_that_is_named_again_has_its_parts_of_the_files_that_wait() {
    let world = World::new();
    let places = [world.format("a", 40), world.format("b", 40)];
    let all: Vec<Vec<u8>> = (1..=4).map(|seed| contents(5 * EXTENT, seed)).collect();
    let names = ["0", "1", "2", "3"];
    {
        let buffer = World::open(&places);
        for (name, data) in names.iter().zip(&all) {
            arrives(&buffer.arrivals(), name, data, name.as_bytes());
        }
        buffer.close();
    }
    for place in &places {
        let buffer = World::open(std::slice::from_ref(place));
        assert!(buffer.arrivals().sums().files < 5);
        buffer.close();
    }
    let buffer = World::open(&places);
    let arrivals = buffer.arrivals();
    assert_eq!(arrivals.sums().files, 4);
    for _ in names {
        let drain = next(&arrivals);
        let name = std::str::from_utf8(drain.path()).expect("a name");
        let data = &all[name.parse::<usize>().expect("a number")];
        assert!(read(&drain) == *data, "{name}");
        drain.placed(5);
    }
}

#[test]
fn a_full_buffer_passes_files_by_until_it_has_drained() {
    let world = World::new();
    let buffer = World::open(&[world.format("a", 20)]);
    let arrivals = buffer.arrivals();
    let data = contents(3 * EXTENT, 1);
    let mut number = 0;
    while let Some(arriving) = arrivals.begin(SOURCE, format!("{number}").as_bytes(), 3 << 20) {
        arriving.write(0, &data).expect("taken");
        assert!(arriving.make_durable());
        assert!(arrivals.confirm(arriving.land(b"words").expect("room")));
        number += 1;
    }
    assert!(number > 1, "some fit");
    assert_eq!(arrivals.sums().files, number);
    let drain = next(&arrivals);
    assert_eq!(drain.path(), b"0", "the oldest first");
    drain.placed(5);
    assert!(arrivals.begin(SOURCE, b"more", 3 << 20).is_some());
    assert!(arrivals.begin(SOURCE, b"empty", 0).is_none());
}

#[test]
fn a_later_file_of_the_same_name_holds_the_earlier_one_back() {
    let world = World::new();
    let places = [world.format("a", 20)];
    let buffer = World::open(&places);
    let arrivals = buffer.arrivals();
    arrives(&arrivals, "a", &contents(10, 1), b"one");
    let (first, _) = arrivals.latest(SOURCE, b"a").expect("it waits");
    let held = arrivals.hold(&first, SOON).expect("in time");
    let held = held.expect("still there");
    assert!(arrivals.next(SOON).is_none(), "it is held");
    arrives(&arrivals, "a", &contents(10, 2), b"two");
    let (latest, what) = arrivals.latest(SOURCE, b"a").expect("it waits");
    assert!(latest != first && &*what == b"two");
    // The process ends before the earlier one is gone.
    buffer.close();
    drop((held, arrivals, buffer));
    let buffer = World::open(&places);
    let arrivals = buffer.arrivals();
    assert_eq!(arrivals.sums().files, 1);
    let drain = next(&arrivals);
    assert!(drain.what() == b"two" && read(&drain) == contents(10, 2));
    drain.placed(3);
    assert!(arrivals.latest(SOURCE, b"a").is_none());
}

/// Bytes whose writes and syncs fail while that is asked for.
struct Failing {
    inner: Box<dyn Backing>,
    is_bad: Arc<AtomicBool>,
}

impl Failing {
    fn judge(&self) -> io::Result<()> {
        match self.is_bad.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::Other.into()),
            false => Ok(()),
        }
    }
}

impl std::fmt::Debug for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failing").finish_non_exhaustive()
    }
}

impl Backing for Failing {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(at, buffer)
    }

    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.judge()?;
        self.inner.write_at(at, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.judge()?;
        self.inner.sync()
    }

    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.inner.discard(at, bytes)
    }

    fn has_room(&self, layout: &Layout) -> io::Result<bool> {
        self.inner.has_room(layout)
    }

    fn read_slot(&self, layout: &Layout, slot: SlotIndex, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_slot(layout, slot, buffer)
    }

    fn write_slot(&self, layout: &Layout, slot: SlotIndex, data: &[u8]) -> io::Result<()> {
        self.judge()?;
        self.inner.write_slot(layout, slot, data)
    }

    fn sync_slots(&self, layout: &Layout, slots: &[SlotIndex]) -> io::Result<()> {
        self.judge()?;
        self.inner.sync_slots(layout, slots)
    }
}

#[test]
fn a_file_whose_flash_fails_is_returned_whole_to_its_writer() {
    let world = World::new();
    let path = world.format("a", 40);
    let is_bad = Arc::new(AtomicBool::new(false));
    let backing: Arc<dyn Backing> = Arc::new(Failing {
        inner: make::open(&path, Access::Own).expect("opened"),
        is_bad: Arc::clone(&is_bad),
    });
    let mounted = Mounted::over(path, backing, NODE).expect("a volume");
    let log: Log = Arc::new(|_: &str| {});
    let buffer = Buffer::start(vec![mounted], Vec::new(), log).expect("threads");
    let arrivals = buffer.arrivals();
    let data = contents(3 * EXTENT + 10, 4);
    let arriving = arrivals.begin(SOURCE, b"a", data.len() as u64);
    let arriving = arriving.expect("room");
    arriving.write(0, &data[..EXTENT + 500]).expect("taken");
    settled("an extent", || slots(&buffer, State::Dirty) == 1);
    is_bad.store(true, Ordering::SeqCst);
    let rest = &data[EXTENT + 500..2 * EXTENT];
    assert!(arriving.write(EXTENT as u64 + 500, rest).is_err());
    let mut copy = vec![0; data.len()];
    let copied = arriving.copy(|offset, some| {
        let at = usize::try_from(offset).expect("small");
        copy[at..at + some.len()].copy_from_slice(some);
        Ok::<_, io::Error>(())
    });
    assert!(copied.expect("no error"), "flash returns what it took");
    assert!(copy[..2 * EXTENT] == data[..2 * EXTENT]);
    drop(arriving);
    assert_eq!(arrivals.sums().files, 0);
}
