//! Tests the storage through which files arrive, and the steps that place them, over a real directory and a buffer in directories.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use godwit_buffer::extent::SourceId;
use godwit_buffer::in_use::Places;
use godwit_buffer::make::{self, Request};
use godwit_buffer::service::{Buffer, Log, open_volumes};
use godwit_store::{
    Confine, Create, FinalMeta, FsStorage, RelPath, Replace, ScanItem, Storage, StoreErrorKind,
    SurveyItem, TempName, Timestamp, above_to_sync,
};
use godwit_testkit::{Faults, HostileStorage, Operation};
use godwit_tree::arriving::{Arrivals, Drains, Due, Failed, Queue, drain, place};
use tempfile::TempDir;

const NODE: &str = "gw1-test";
const SOURCE: SourceId = SourceId([5; 16]);
const SOON: Duration = Duration::from_millis(20);

struct World {
    directory: TempDir,
    buffer: Buffer,
    arrivals: Arrivals,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let flash = directory.path().join("flash");
        let request = Request {
            path: flash.clone(),
            bytes: Some(30 << 20),
            extent_bytes: 1 << 20,
            node: NODE.to_owned(),
            force: None,
            id: [1; 16],
            salt: 7,
            now: Duration::from_secs(1),
        };
        make::make(&request, &Places::default()).expect("made");
        fs::create_dir(directory.path().join("export")).expect("made");
        let log: Log = Arc::new(|_: &str| {});
        let (opened, failed) = open_volumes(&[flash], NODE);
        let buffer = Buffer::start(opened, failed, log).expect("threads");
        let arrivals = Arrivals::new(&buffer, "data", SOURCE.0, true);
        Self {
            directory,
            buffer,
            arrivals,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join("export").join(path)
    }

    /// The export itself.
    fn slow(&self) -> FsStorage {
        FsStorage::open(&self.at(""), Confine::Export, self.directory.path()).expect("opened")
    }

    fn storage(&self) -> Arc<dyn Storage> {
        self.arrivals.wrap(Arc::new(self.slow()))
    }

    /// Places all files that wait, and returns how many failed.
    fn drain(&self) -> usize {
        let queue = Queue::of(&self.buffer);
        let mut failed = 0;
        while let Some(due) = queue.next(SOON) {
            let placed = place(&self.slow(), &self.arrivals, &due);
            failed += usize::from(placed.is_err());
            due.end(placed);
        }
        failed
    }
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).expect("a path")
}

fn meta(seconds: i64) -> FinalMeta {
    FinalMeta {
        mode: 0o640,
        mtime: Timestamp {
            seconds,
            nanoseconds: 5,
        },
        ..FinalMeta::default()
    }
}

/// Writes a file as a sink does.
#[track_caller]
fn write(storage: &dyn Storage, name: &str, data: &[u8], meta: &FinalMeta, replace: Replace) {
    let path = path(name);
    let temp = TempName::new(9, &path);
    let bytes = data.len() as u64;
    let file = storage
        .create(&path, &temp, Create::Fresh, Some(bytes))
        .expect("created");
    for (number, block) in data.chunks(400_000).enumerate() {
        let offset = (number * 400_000) as u64;
        file.write_at(offset, block).expect("written");
    }
    file.finish(bytes, meta).expect("finished");
    storage
        .sync_batch(&[(&path, temp)], bytes)
        .expect("durable");
    storage.commit(&path, &temp, replace).expect("named");
    storage
        .sync_directories(&above_to_sync(&path))
        .expect("durable");
}

fn contents(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| u8::try_from(at / 251 % 251).expect("small") ^ seed)
        .collect()
}

#[test]
fn a_waiting_file_is_seen_and_gets_its_place_with_its_attributes() {
    let world = World::new();
    let storage = world.storage();
    storage.make_directory(&path("run"), 0o755).expect("made");
    let data = contents(2_500_000, 1);
    write(&*storage, "run/a", &data, &meta(1_000), Replace::Never);
    let content = b"small";
    let (name, temp) = (path("run/b"), TempName::new(9, &path("run/b")));
    let written = storage.write_named(&name, &temp, &meta(2_000), content, Replace::Never, false);
    assert!(written.expect("written").1, "named at once");
    assert!(!world.at("run/a").exists() && !world.at("run/b").exists());
    // The file looks as if it were in its export.
    let there = storage.stat(&path("run/a")).expect("looked");
    let there = there.expect("there");
    assert_eq!((there.bytes, there.mode), (2_500_000, 0o640));
    assert!(storage.agrees(&path("run/a"), &there, &meta(1_000)));
    let mut names = Vec::new();
    let mut note = |name: &[u8]| names.push(String::from_utf8_lossy(name).into_owned());
    storage.names_in(&path("run"), &mut note).expect("listed");
    names.sort();
    assert_eq!(names, ["a", "b"]);
    let mut found = Vec::new();
    let mut note = |item| {
        if let SurveyItem::Entry { path, .. } = item {
            found.push(path.to_string());
        }
        true
    };
    storage.survey(&path("run"), &mut note).expect("surveyed");
    assert_eq!(found, ["run/a", "run/b"]);
    // A directory whose mode forbids its owner to write, with its time.
    let closed = FinalMeta {
        mode: 0o555,
        ..meta(500)
    };
    storage
        .set_directory_meta(&path("run"), &closed)
        .expect("set");
    assert_eq!(world.drain(), 0);
    assert!(fs::read(world.at("run/a")).expect("there") == data);
    assert_eq!(fs::read(world.at("run/b")).expect("there"), content);
    let is = |name: &str| {
        let there = fs::metadata(world.at(name)).expect("there");
        (there.permissions().mode() & 0o777, there.mtime())
    };
    assert_eq!(is("run/a"), (0o640, 1_000));
    assert_eq!(is("run/b"), (0o640, 2_000));
    assert_eq!(is("run"), (0o555, 500));
    let names = fs::read_dir(world.at("run")).expect("listed").count();
    assert_eq!(names, 2, "nothing else is left");
    fs::set_permissions(world.at("run"), fs::Permissions::from_mode(0o755)).expect("ours");
}

#[test]
fn a_drain_that_ends_between_place_and_record_is_repeated_without_harm() {
    let world = World::new();
    let data = contents(3_000, 1);
    let storage = world.storage();
    write(&*storage, "a", &data, &meta(1_000), Replace::Never);
    let queue = Queue::of(&world.buffer);
    let due = queue.next(SOON).expect("it waits");
    place(&world.slow(), &world.arrivals, &due).expect("placed");
    let first = fs::metadata(world.at("a")).expect("there").ino();
    drop(due);
    assert_eq!(world.drain(), 0);
    assert_eq!(fs::metadata(world.at("a")).expect("there").ino(), first);
}

#[test]
fn the_later_writer_of_a_name_wins() {
    let world = World::new();
    let storage = world.storage();
    for (seed, name) in [(1, "own"), (2, "own"), (3, "other")] {
        let data = contents(3_000 + usize::from(seed), seed);
        let meta = meta(i64::from(seed));
        write(&*storage, name, &data, &meta, Replace::Atomically);
    }
    fs::write(world.at("other"), "mine").expect("written");
    assert_eq!(world.drain(), 1, "one name was taken");
    assert!(fs::read(world.at("own")).expect("there") == contents(3_002, 2));
    assert_eq!(fs::read(world.at("other")).expect("there"), b"mine");
    // Removed before its turn.
    storage
        .remove_entry(&path("other"), false)
        .expect("removed");
    assert_eq!(world.drain(), 0);
    assert!(!world.at("other").exists());
    assert_eq!(world.buffer.arrivals().sums().files, 0);
}

#[test]
fn a_file_of_another_writer_with_the_same_size_and_time_is_not_taken_for_the_waiting_one() {
    let world = World::new();
    let storage = world.storage();
    write(
        &*storage,
        "a",
        &contents(3_000, 1),
        &meta(1_000),
        Replace::Never,
    );
    let other = contents(3_000, 2);
    write(&world.slow(), "a", &other, &meta(1_000), Replace::Never);
    assert_eq!(world.drain(), 1, "the name was taken");
    assert!(fs::read(world.at("a")).expect("there") == other);
    assert_eq!(world.buffer.arrivals().sums().files, 1, "it is not lost");
}

#[test]
fn flash_serves_no_file_that_another_program_changed_as_it_got_its_name() {
    for is_changed in [false, true] {
        let world = World::new();
        let data = contents(3_000, 1);
        write(&*world.storage(), "a", &data, &meta(1_000), Replace::Never);
        let at = world.at("a");
        // Before the last look, and in place.
        let hook = move |operation: Operation, path: &RelPath| {
            let is_last = operation == Operation::Stat && path.as_bytes() == b"a" && at.exists();
            if is_last && is_changed {
                fs::write(&at, contents(3_000, 2)).expect("ours");
            }
        };
        let faults = Faults {
            hook: Some(Arc::new(hook)),
            ..Faults::new(1)
        };
        let storage = HostileStorage::new(Arc::new(world.slow()), faults);
        let due = Queue::of(&world.buffer).next(SOON).expect("it waits");
        let placed = place(&storage, &world.arrivals, &due);
        assert_eq!(placed == Ok(0), is_changed, "{placed:?}");
        due.end(placed);
    }
}

/// Lets the only waiting file fail until it is put aside.
fn put_aside(world: &World, name: &str) {
    let (queue, all) = (Queue::of(&world.buffer), world.buffer.arrivals());
    while all.sums().aside == 0 {
        // A file that was held is tried again at once.
        let (file, _) = all.latest(SOURCE, name.as_bytes()).expect("it waits");
        drop(all.hold(&file, SOON).expect("in time"));
        let due = queue.next(SOON).expect("it is ready");
        due.end(Err(Failed {
            reason: "refused".to_owned(),
            may_pass: false,
        }));
    }
}

#[test]
fn a_scan_names_a_file_that_was_put_aside_and_a_removed_directory_takes_it_along() {
    let world = World::new();
    let storage = world.storage();
    storage.make_directory(&path("run"), 0o755).expect("made");
    let data = contents(3_000, 1);
    write(&*storage, "run/a", &data, &meta(1_000), Replace::Never);
    put_aside(&world, "run/a");
    let mut found = Vec::new();
    let mut scan = storage.scan(&path("run")).expect("scanned");
    while scan.next_batch(&mut found) {}
    let is_fault =
        |item: &ScanItem| matches!(item, ScanItem::Fault(error) if error.path == path("run/a"));
    assert_eq!(found.iter().filter(|item| is_fault(item)).count(), 1);
    storage.remove_entry(&path("run"), true).expect("removed");
    assert_eq!(world.buffer.arrivals().sums().files, 0);
    assert!(!world.at("run").exists());
}

#[test]
fn a_later_file_wins_over_one_that_was_put_aside_and_over_no_other_one() {
    let world = World::new();
    let storage = world.storage();
    let aside = contents(3_000, 1);
    write(&*storage, "a", &aside, &meta(1_000), Replace::Never);
    put_aside(&world, "a");
    // A transfer sees no such file, so it replaces none.
    assert!(storage.stat(&path("a")).expect("looked").is_none());
    let later = contents(3_001, 2);
    write(&*storage, "a", &later, &meta(2_000), Replace::Never);
    assert_eq!(world.buffer.arrivals().sums().files, 1);
    // A file of slow storage, as one without room, replaces no file that waits.
    let (at, temp) = (path("a"), TempName::new(8, &path("a")));
    world
        .slow()
        .write_whole(&at, &temp, &meta(3_000), b"other")
        .expect("written");
    let taken = storage.commit(&at, &temp, Replace::Never);
    assert_eq!(taken.expect_err("taken").kind, StoreErrorKind::Exists);
    assert_eq!(world.drain(), 0);
    assert!(fs::read(world.at("a")).expect("there") == later);
}

#[test]
fn an_export_that_other_nodes_serve_gets_its_files_at_once() {
    let world = World::new();
    assert!(world.arrivals.share(true) && !world.arrivals.share(true));
    let storage = world.storage();
    write(
        &*storage,
        "a",
        &contents(3_000, 1),
        &meta(1_000),
        Replace::Never,
    );
    assert!(world.at("a").exists());
    assert!(world.arrivals.share(false));
}

#[test]
fn no_file_goes_by_flash_into_a_directory_whose_mode_forbids_it() {
    let world = World::new();
    let storage = world.storage();
    storage.make_directory(&path("run"), 0o755).expect("made");
    let set = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(world.at("run"), permissions).expect("ours");
    };
    set(0o555);
    let (name, temp) = (path("run/a"), TempName::new(9, &path("run/a")));
    // Root may write there in any case, but not by flash.
    let _ = storage.write_named(&name, &temp, &meta(1), b"one", Replace::Atomically, false);
    assert_eq!(world.buffer.arrivals().sums().files, 0);
    set(0o755);
    let written = storage.write_named(&name, &temp, &meta(1), b"two", Replace::Atomically, false);
    written.expect("written");
    assert_eq!(world.buffer.arrivals().sums().files, 1);
}

#[test]
fn files_with_holes_and_large_ones_go_to_their_place_at_once() {
    let world = World::new();
    let storage = world.storage();
    let (name, temp) = (path("holes"), TempName::new(9, &path("holes")));
    let made = storage.create(&name, &temp, Create::Fresh, Some(3_000_000));
    let file = made.expect("created");
    assert!(!file.lasts(), "flash forgets a part of a file");
    file.write_at(2_000_000, b"end").expect("written");
    file.finish(3_000_000, &meta(1)).expect("finished");
    storage.sync_batch(&[(&name, temp)], 3).expect("durable");
    storage.commit(&name, &temp, Replace::Never).expect("named");
    let data = fs::read(world.at("holes")).expect("in place");
    assert!(data.len() == 3_000_000 && data[2_000_000..].starts_with(b"end"));
    let large = contents(40 << 20, 1);
    write(&*storage, "large", &large, &meta(2), Replace::Never);
    assert!(fs::read(world.at("large")).expect("in place") == large);
    let (name, temp) = (path("large"), TempName::new(9, &path("large")));
    storage
        .write_whole(&name, &temp, &meta(3), b"new")
        .expect("written");
    let taken = storage.commit(&name, &temp, Replace::Never);
    assert_eq!(taken.expect_err("taken").kind, StoreErrorKind::Exists);
    storage.discard(&name, &temp).expect("gone");
    assert_eq!(world.buffer.arrivals().sums().files, 0);
}

#[test]
fn a_reader_waits_for_the_drain_of_its_file() {
    let world = World::new();
    let storage = world.storage();
    let data = contents(5_000, 1);
    write(&*storage, "a", &data, &meta(1), Replace::Never);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                world.drain();
            }
        });
        let file = storage.open(&path("a")).expect("opened");
        let mut out = vec![0; data.len()];
        assert_eq!(file.read_at(0, &mut out).expect("read"), data.len());
        is_over.store(true, Ordering::SeqCst);
        assert!(out == data);
    });
    assert!(world.at("a").exists());
}

/// Exports at one storage. The first ones take no data until the gate opens.
struct Exports {
    all: Vec<Arrivals>,
    hung: usize,
    storage: FsStorage,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Drains for Exports {
    fn place(&self, due: &Due) -> Result<u64, Failed> {
        let number = self.all.iter().position(|arrivals| due.is_for(arrivals));
        let number = number.expect("one of them");
        if number < self.hung {
            let (is_open, opens) = &*self.gate;
            let is_open = is_open.lock().expect("no panic");
            let waited = opens.wait_while(is_open, |is_open| !*is_open);
            drop(waited.expect("no panic"));
        }
        place(&self.storage, &self.all[number], due)
    }
}

#[test]
fn three_exports_that_hang_hold_up_no_other_one() {
    let world = World::new();
    let named = |number: u8| Arrivals::new(&world.buffer, "data", [number; 16], true);
    let all: Vec<Arrivals> = (1..=4).map(named).collect();
    for (number, arrivals) in all.iter().enumerate() {
        let storage = arrivals.wrap(Arc::new(world.slow()));
        for file in 0..4 {
            let name = format!("{number}-{file}");
            write(&*storage, &name, b"some", &meta(1), Replace::Never);
        }
    }
    let gate: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let exports = Exports {
        all,
        hung: 3,
        storage: world.slow(),
        gate: Arc::clone(&gate),
    };
    drain(Queue::of(&world.buffer), exports).expect("a thread");
    let waits_for = |files| {
        let until = Instant::now() + Duration::from_secs(60);
        while world.buffer.arrivals().sums().files != files {
            assert!(Instant::now() < until, "not {files} files");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    waits_for(12);
    assert!((0..4).all(|file| world.at(&format!("3-{file}")).exists()));
    *gate.0.lock().expect("no panic") = true;
    gate.1.notify_all();
    waits_for(0);
    world.buffer.close();
}
