//! Tests a buffer in use, on volumes in directories and on hostile bytes: it serves what it was given, and nothing else.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use godwit_buffer::backing::Backing;
use godwit_buffer::device::Access;
use godwit_buffer::extent::{FileKey, Generation, Keep, SlotIndex, SourceId, State};
use godwit_buffer::in_use::Places;
use godwit_buffer::layout::Layout;
use godwit_buffer::make::{self, Request};
use godwit_buffer::service::{Buffer, BufferedFile, Log, Mounted, Patience, open_volumes};
use tempfile::TempDir;

const NODE: &str = "gw1-test";
const EXTENT: usize = 1 << 20;
const SOURCE: SourceId = SourceId([3; 16]);

struct World {
    directory: TempDir,
    lines: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            lines: Arc::default(),
        }
    }

    fn log(&self) -> Log {
        let lines = Arc::clone(&self.lines);
        Arc::new(move |line: &str| lines.lock().expect("lines").push(line.to_owned()))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a volume of this many megabytes.
    fn format(&self, name: &str, megabytes: u64) -> PathBuf {
        let path = self.place(name);
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

    fn open(&self, places: &[PathBuf]) -> Buffer {
        let (opened, failed) = open_volumes(places, NODE);
        Buffer::start(opened, failed, self.log()).expect("threads")
    }
}

fn key(path: &str, bytes: usize, stamp: u64) -> FileKey {
    FileKey {
        source: SOURCE,
        path: path.into(),
        generation: Generation {
            bytes: bytes as u64,
            stamp,
        },
    }
}

fn contents(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| u8::try_from(at / 251 % 251).expect("small") ^ seed)
        .collect()
}

fn file(buffer: &Buffer, path: &str, bytes: usize, stamp: u64) -> BufferedFile {
    buffer
        .file(key(path, bytes, stamp), Keep::No)
        .expect("a file that fits")
}

/// Hands over a whole file in blocks of this size, in reverse order.
fn give(file: &BufferedFile, data: &[u8], block: usize) {
    for (number, block_data) in data.chunks(block).enumerate().rev() {
        let offset = (number * block) as u64;
        let filled = file.fill(offset, block_data);
        file.store(filled, Patience::Waits);
    }
}

fn settled(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "not yet: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn clean(buffer: &Buffer) -> u64 {
    buffer.figures().slots[State::Clean as usize]
}

fn reads(file: &BufferedFile, offset: usize, data: &[u8]) -> bool {
    let mut out = vec![0; data.len()];
    let is_hit = file.read(offset as u64, &mut out);
    assert!(!is_hit || out == data, "wrong bytes");
    is_hit
}

#[test]
fn a_file_is_served_as_it_was_given_and_so_it_is_after_a_restart() {
    let world = World::new();
    let places = [world.format("a", 40), world.format("b", 40)];
    let data = contents(3 * EXTENT + 1234, 1);
    {
        let buffer = world.open(&places);
        let file = file(&buffer, "run/a", data.len(), 5);
        assert!(!reads(&file, 0, &data[..4096]), "nothing is there yet");
        give(&file, &data, 300_000);
        settled("four extents", || clean(&buffer) == 4);
        assert!(reads(&file, 0, &data), "all of it");
        assert!(reads(&file, EXTENT - 10, &data[EXTENT - 10..EXTENT + 10]));
        drop(file);
        buffer.close();
        assert_eq!(buffer.figures().missed_bytes, 4096);
    }
    let buffer = world.open(&places);
    let again = file(&buffer, "run/a", data.len(), 5);
    assert!(reads(&again, 0, &data));
    assert!(buffer.file(key("empty", 0, 1), Keep::No).is_none());
    assert!(buffer.file(key("huge", 200 << 20, 1), Keep::No).is_none());
}

#[test]
fn each_extent_takes_a_whole_slot_however_short_it_is() {
    let world = World::new();
    let buffer = world.open(&[world.format("flash", 40)]);
    for (path, bytes, extents) in [
        ("tiny", 1, 1),
        ("even", 2 * EXTENT, 2),
        ("odd", EXTENT + 1, 2),
    ] {
        let filled = file(&buffer, path, bytes, 1).fill(0, &contents(bytes, 1));
        assert_eq!(filled.extents(), extents, "{path}");
    }
}

#[test]
fn another_generation_is_not_served_and_the_old_one_goes() {
    let world = World::new();
    let buffer = world.open(&[world.format("a", 40)]);
    let data = contents(EXTENT, 2);
    give(&file(&buffer, "f", EXTENT, 1), &data, EXTENT);
    settled("one extent", || clean(&buffer) == 1);
    let newer = file(&buffer, "f", EXTENT, 2);
    assert!(!reads(&newer, 0, &data[..100]));
    settled("the old extent is gone", || clean(&buffer) == 0);
    let fresh = contents(EXTENT, 3);
    give(&newer, &fresh, EXTENT / 2);
    settled("the new extent", || clean(&buffer) == 1);
    assert!(reads(&newer, 0, &fresh));
    let other = buffer.file(
        FileKey {
            source: SourceId([4; 16]),
            ..key("f", EXTENT, 2)
        },
        Keep::No,
    );
    assert!(
        !reads(&other.expect("a file"), 0, &fresh),
        "of another export"
    );
}

#[test]
fn a_rotten_extent_is_not_served_and_is_taken_again() {
    let world = World::new();
    let place = world.format("a", 40);
    let buffer = world.open(std::slice::from_ref(&place));
    let data = contents(EXTENT, 4);
    give(&file(&buffer, "f", EXTENT, 1), &data, EXTENT);
    settled("one extent", || clean(&buffer) == 1);
    for name in fs::read_dir(place.join("extents/0000")).expect("slots") {
        let path = name.expect("a slot").path();
        let mut bytes = fs::read(&path).expect("readable");
        bytes[70_000] ^= 1;
        fs::write(path, bytes).expect("written");
    }
    let again = file(&buffer, "f", EXTENT, 1);
    assert!(!reads(&again, 0, &data[..4096]));
    assert_eq!(buffer.figures().damaged_bytes, EXTENT as u64);
    settled("the extent is gone", || clean(&buffer) == 0);
    give(&again, &data, 65_536);
    settled("it is back", || clean(&buffer) == 1);
    assert!(reads(&again, 0, &data));
}

#[test]
fn a_rotten_extent_with_many_readers_is_one_error_of_its_volume() {
    let world = World::new();
    let place = world.format("a", 40);
    let buffer = world.open(std::slice::from_ref(&place));
    let data = contents(EXTENT, 4);
    let one = file(&buffer, "f", EXTENT, 1);
    for round in 1..=2 {
        give(&one, &data, EXTENT);
        settled("one extent", || clean(&buffer) == 1);
        for name in fs::read_dir(place.join("extents/0000")).expect("slots") {
            let path = name.expect("a slot").path();
            fs::write(path, vec![0; EXTENT]).expect("written");
        }
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert!(!reads(&one, 0, &data)));
            }
        });
        assert_eq!(buffer.figures().damaged_bytes, round * EXTENT as u64);
        settled("the extent is gone", || clean(&buffer) == 0);
    }
    give(&one, &data, EXTENT);
    settled("the volume is still used", || clean(&buffer) == 1);
}

#[test]
fn more_than_fits_evicts_the_oldest_and_pinned_files_stay() {
    let world = World::new();
    let buffer = world.open(&[world.format("a", 24)]);
    let slots = buffer.figures().slots.iter().sum::<u64>();
    let data = contents(EXTENT, 5);
    give(&file(&buffer, "kept/f", EXTENT, 1), &data, EXTENT);
    settled("one extent", || clean(&buffer) == 1);
    assert_eq!(buffer.keep(SOURCE, b"kept", Keep::Pinned), (1, 0));
    for number in 0..3 * slots {
        let name = format!("f{number}");
        let filled = buffer.figures().filled_bytes;
        give(&file(&buffer, &name, EXTENT, 1), &data, EXTENT);
        settled("it is written, or passes", || {
            let now = buffer.figures();
            now.filled_bytes + now.passed_bytes > filled
        });
    }
    assert!(reads(&file(&buffer, "kept/f", EXTENT, 1), 0, &data));
    assert!(!reads(&file(&buffer, "f0", EXTENT, 1), 0, &data));
    let (kept, _) = buffer.files(SOURCE, b"kept", None, 9);
    assert_eq!((kept.len(), kept[0].keep), (1, Keep::Pinned));
    let (none, _) = buffer.files(SOURCE, b"kep", None, 9);
    assert!(none.is_empty(), "no name");
    assert!(buffer.drop_files(SOURCE, b"") > 1);
    settled("all are gone", || clean(&buffer) == 0);
}

#[test]
fn a_pin_outlives_a_restart_even_if_it_came_before_the_first_extent() {
    let world = World::new();
    let place = world.format("a", 40);
    let until = Keep::Until(Duration::from_secs(1 << 40));
    {
        let buffer = world.open(std::slice::from_ref(&place));
        let kept = buffer.file(key("f", EXTENT, 1), until).expect("a file");
        give(&kept, &contents(EXTENT, 6), EXTENT);
        settled("one extent", || clean(&buffer) == 1);
        drop(kept);
        buffer.close();
    }
    let buffer = world.open(&[place]);
    let (files, _) = buffer.files(SOURCE, b"", None, 9);
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].keep, until);
}

#[test]
fn volumes_that_cannot_be_opened_are_named_and_the_rest_serves() {
    let world = World::new();
    let good = world.format("good", 40);
    let missing = world.place("missing");
    let foreign = world.place("foreign");
    fs::write(&foreign, vec![7; 1 << 20]).expect("written");
    let owned = make::open(&world.format("owned", 40), Access::Own).expect("opened");
    let places = [missing, foreign, world.place("owned"), good.clone()];
    let (opened, failed) = open_volumes(&places, NODE);
    drop(owned);
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert_eq!(failed[2].why, "another process uses it");
    let buffer = Buffer::start(opened, failed, world.log()).expect("threads");
    assert_eq!(buffer.places(), [good]);
    let data = contents(EXTENT, 7);
    let one = file(&buffer, "f", EXTENT, 1);
    give(&one, &data, EXTENT);
    settled("one extent", || clean(&buffer) == 1);
    let none = world.open(&[world.place("missing")]);
    assert!(none.file(key("f", EXTENT, 1), Keep::No).is_none());
    none.close();
}

/// A volume in a directory whose operations fail while the flag says so.
struct Failing {
    backing: Box<dyn Backing>,
    fails: Arc<AtomicBool>,
}

impl Failing {
    fn check(&self) -> io::Result<()> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

impl Backing for Failing {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.check()?;
        self.backing.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.backing.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        self.backing.sync()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.backing.discard(offset, bytes)
    }

    fn read_slot(&self, layout: &Layout, slot: SlotIndex, buffer: &mut [u8]) -> io::Result<()> {
        self.check()?;
        self.backing.read_slot(layout, slot, buffer)
    }

    fn write_slot(&self, layout: &Layout, slot: SlotIndex, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.backing.write_slot(layout, slot, data)
    }

    fn sync_slots(&self, layout: &Layout, slots: &[SlotIndex]) -> io::Result<()> {
        self.check()?;
        self.backing.sync_slots(layout, slots)
    }

    fn discard_slot(&self, layout: &Layout, slot: SlotIndex) -> io::Result<()> {
        self.backing.discard_slot(layout, slot)
    }
}

fn failing(path: &Path, fails: &Arc<AtomicBool>) -> Mounted {
    let backing = Failing {
        backing: make::open(path, Access::Own).expect("opened"),
        fails: Arc::clone(fails),
    };
    Mounted::over(path.to_owned(), Arc::new(backing), NODE).expect("a volume")
}

#[test]
fn a_volume_that_fails_is_passed_by_and_comes_back() {
    let world = World::new();
    let fails = Arc::new(AtomicBool::new(false));
    let mounted = failing(&world.format("a", 40), &fails);
    let buffer = Buffer::start(vec![mounted], Vec::new(), world.log()).expect("threads");
    let data = contents(EXTENT, 8);
    let one = file(&buffer, "f", EXTENT, 1);
    give(&one, &data, EXTENT);
    settled("one extent", || clean(&buffer) == 1);
    fails.store(true, Ordering::SeqCst);
    let other = file(&buffer, "g", EXTENT, 1);
    give(&other, &data, EXTENT);
    settled("it passes", || {
        buffer.figures().passed_bytes == EXTENT as u64
    });
    assert!(!reads(&other, 0, &data));
    drop((one, other));
    // The memory of the open files is gone, so this read needs flash.
    assert!(!reads(&file(&buffer, "f", EXTENT, 1), 0, &data));
    fails.store(false, Ordering::SeqCst);
    let third = file(&buffer, "h", EXTENT, 1);
    settled("it is used again", || {
        give(&third, &data, EXTENT);
        reads(&third, 0, &data)
    });
    buffer.close();
}
