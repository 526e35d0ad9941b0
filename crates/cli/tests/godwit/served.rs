//! The transfer buffer of a running node: files that were sent once are served from flash, in their present generation and to those who may
//! read them. The kernel counts the reads of the source.

use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::process::Signal;
use serde_json::Value;

use super::process::wait_until;
use super::rest::Caller;
use super::rig::Rig;

const FILE: usize = 5 * 1024 * 1024 + 77;
const SMALL: usize = 3000;
/// Size of an extent in a small buffer.
const EXTENT: u64 = 1 << 20;

/// Counts reads of the files in a directory.
struct Watch(OwnedFd);

impl Watch {
    fn on(directory: &Path) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        inotify::add_watch(&watch, directory, WatchFlags::ACCESS).expect("watched");
        Self(watch)
    }

    fn reads(&self) -> usize {
        let mut memory = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.0, &mut memory);
        let mut reads = 0;
        while let Ok(event) = events.next() {
            reads += usize::from(!event.events().contains(ReadFlags::ISDIR));
        }
        reads
    }
}

fn contents(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| u8::try_from(at / 13 % 251).expect("small") ^ seed)
        .collect()
}

/// Makes a file look as if its contents had not changed for an hour.
fn age(path: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let file = File::options().write(true).open(path).expect("opened");
    file.set_modified(hour_ago).expect("a time");
}

/// Waits until the node buffers files that have just changed: it takes none that could change again and keep its generation.
fn settle() {
    thread::sleep(Duration::from_millis(200));
}

struct World {
    rig: Rig,
    flags: Vec<String>,
}

impl World {
    /// A node with a buffer, and a data set of two files.
    fn new() -> Self {
        let mut rig = Rig::new();
        let place = rig.path("flash");
        let flags = vec![
            "--buffer-path".to_owned(),
            place.to_str().expect("text").to_owned(),
            "--buffer-bytes".to_owned(),
            "48MiB".to_owned(),
        ];
        rig.write("export/run42/large", contents(FILE, 1));
        rig.write("export/run42/small", contents(SMALL, 2));
        for name in ["large", "small"] {
            age(&rig.export.join("run42").join(name));
        }
        settle();
        let words: Vec<&str> = flags.iter().map(String::as_str).collect();
        rig.start(&words);
        Self { rig, flags }
    }

    fn source(&self) -> PathBuf {
        self.rig.export.join("run42")
    }

    #[track_caller]
    fn done(&self, line: &[&str]) -> String {
        let outcome = self.rig.admin(line);
        assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
        outcome.out
    }

    /// Copies the data set within the export by a job.
    #[track_caller]
    fn copies_by_job(&self, to: &str) {
        let to = format!("here:/data/{to}");
        self.done(&["job", "submit", "here:/data/run42", &to, "--wait"]);
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.done(&["buffer", "status", "--json"])).expect("JSON")
    }

    fn figure(&self, name: &str) -> u64 {
        self.status()[name].as_u64().expect("a number")
    }

    /// Waits until the whole data set is durable in the buffer.
    #[track_caller]
    fn wait_until_held(&self) {
        let held = || {
            let list = self.done(&["buffer", "list", "here:/data/run42", "--json"]);
            let files = list.lines().map(|line| {
                let file: Value = serde_json::from_str(line).expect("JSON");
                file["bytes_held"].as_u64().expect("a number")
            });
            files.sum::<u64>() == (FILE + SMALL) as u64
        };
        assert!(
            wait_until(|| held().then_some(())).is_some(),
            "{}",
            self.status()
        );
    }

    #[track_caller]
    fn is_at(&self, path: &str) {
        assert!(
            self.rig.read(&format!("{path}/large")) == contents(FILE, 1),
            "{path}"
        );
        assert!(
            self.rig.read(&format!("{path}/small")) == contents(SMALL, 2),
            "{path}"
        );
    }

    fn restart(&mut self) {
        self.rig.stop_daemon(Signal::TERM);
        let words: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.rig.serve(&words);
        self.rig
            .trust(self.rig.address(), &self.rig.identity.clone());
    }
}

#[test]
fn a_second_transfer_of_the_same_files_reads_the_source_zero_times() {
    let mut world = World::new();
    let watch = Watch::on(&world.source());
    world.copies_by_job("first");
    assert!(watch.reads() > 0, "the first transfer reads the source");
    world.wait_until_held();
    world.copies_by_job("second");
    world.is_at("export/second");
    let pulled = world
        .rig
        .cp(&[world.rig.url("run42"), "pulled/".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    world.is_at("pulled/run42");
    assert_eq!(watch.reads(), 0, "all comes from the buffer");
    assert_eq!(world.figure("hit_bytes"), 2 * (FILE + SMALL) as u64);

    world.restart();
    let pulled = world.rig.cp(&[world.rig.url("run42"), "again/".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    world.is_at("again/run42");
    assert_eq!(watch.reads(), 0, "a restart keeps the buffer");
    let figures = Caller::admin(&world.rig).metrics();
    for figure in [
        "godwit_buffer_moved_bytes_total{way=\"hit\"}",
        "godwit_buffer_volumes{state=\"out\"} 0",
        "godwit_buffer_volumes{state=\"closed\"} 0",
        "godwit_buffer_moved_bytes_total{way=\"drained\"} 0",
        "godwit_buffer_oldest_seconds{state=\"dirty\"} 0",
        "godwit_buffer_kept_bytes 0",
        "godwit_buffer_pinned_files 0",
    ] {
        assert!(figures.contains(figure), "{figure} in {figures}");
    }
}

#[test]
fn a_data_set_of_many_small_files_fills_the_buffer_once() {
    let world = World::new();
    for number in 0..200 {
        let name = format!("many/{number:03}");
        world
            .rig
            .write(&format!("export/{name}"), contents(SMALL, 3));
        age(&world.rig.export.join(name));
    }
    settle();
    world.done(&[
        "job",
        "submit",
        "here:/data/many",
        "here:/data/copy",
        "--wait",
    ]);
    // Each file takes an extent, and the rest of the files passes by.
    let extents = world.figure("bytes_total") / world.figure("extent_bytes");
    let filled = world.figure("filled_bytes") / SMALL as u64;
    assert!(filled > 0, "{}", world.status());
    assert!(filled <= extents, "{}", world.status());
}

#[test]
fn a_changed_file_is_not_served_stale() {
    let world = World::new();
    world.copies_by_job("first");
    world.wait_until_held();
    // The same length and the same modification time.
    let large = world.source().join("large");
    fs::write(&large, contents(FILE, 9)).expect("written");
    age(&large);
    world.copies_by_job("second");
    assert!(world.rig.read("export/second/large") == contents(FILE, 9));
    let pulled = world
        .rig
        .cp(&[world.rig.url("run42"), "pulled/".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    assert!(world.rig.read("pulled/run42/large") == contents(FILE, 9));
}

#[test]
fn damaged_flash_is_passed_by() {
    let world = World::new();
    world.copies_by_job("first");
    world.wait_until_held();
    let slots = fs::read_dir(world.rig.path("flash/extents/0000")).expect("slots");
    let mut slots = slots.map(|slot| slot.expect("a slot").path());
    let whole = slots.find(|slot| fs::metadata(slot).is_ok_and(|meta| meta.len() == EXTENT));
    let zeros = vec![0; usize::try_from(EXTENT).expect("small")];
    fs::write(whole.expect("a whole extent"), zeros).expect("written");
    world.copies_by_job("second");
    world.is_at("export/second");
    assert_eq!(world.figure("damaged_bytes"), EXTENT, "{}", world.status());
    // It is read from its source again, and goes to flash again.
    world.wait_until_held();
    fs::remove_dir_all(world.rig.path("flash")).expect("gone");
    world.copies_by_job("third");
    world.is_at("export/third");
}

#[test]
fn a_volume_that_does_not_open_is_named_and_the_node_runs_without_it() {
    let mut rig = Rig::new();
    rig.write("export/run42/large", contents(FILE, 1));
    rig.write("flash/stranger", "data of others");
    let place = rig.path("flash").to_str().expect("text").to_owned();
    rig.start(&["--buffer-path", &place, "--buffer-bytes", "48MiB"]);
    let pulled = rig.cp(&[rig.url("run42"), "pulled/".to_owned()]);
    assert_eq!(pulled.code, Some(0), "{pulled:?}");
    let shown = rig.admin(&["buffer", "status"]);
    assert!(
        shown
            .out
            .contains("closed (the directory is not empty: it has stranger"),
        "{shown:?}"
    );
    let ready = Caller::admin(&rig).readiness();
    let note = "the transfer buffer is not whole; see: godwit buffer status";
    assert_eq!(ready["notes"], serde_json::json!([note]), "{ready}");
}

#[test]
fn a_volume_that_other_users_could_change_or_replace_is_not_used() {
    let mut rig = Rig::new();
    fs::create_dir_all(rig.path("shared/flash")).expect("made");
    fs::create_dir_all(rig.path("open")).expect("made");
    let everyone = fs::Permissions::from_mode(0o777);
    for name in ["shared", "open"] {
        fs::set_permissions(rig.path(name), everyone.clone()).expect("ours");
    }
    let place = |name: &str| rig.path(name).to_str().expect("text").to_owned();
    let (replaced, changed) = (place("shared/flash"), place("open"));
    let missing = place("shared/missing");
    rig.start(&[
        "--buffer-path",
        &replaced,
        "--buffer-path",
        &changed,
        "--buffer-path",
        &missing,
        "--buffer-bytes",
        "96MiB",
    ]);
    let shown = rig.admin(&["buffer", "status"]).out;
    assert!(shown.contains("size     0 B"), "{shown}");
    for (path, words) in [
        (&replaced, "could put another one in place of"),
        (&changed, "other users may write there (mode 777)"),
        (&missing, "could put another one in place of"),
    ] {
        let line = shown.lines().find(|line| line.contains(&**path));
        assert!(line.is_some_and(|line| line.contains(words)), "{shown}");
        // Nothing was made there: others could have led the node elsewhere.
        assert!(!Path::new(path).join("log").exists(), "{path}");
    }
    assert!(!Path::new(&missing).exists());
}

#[test]
fn a_buffer_inside_an_export_is_refused() {
    let rig = Rig::new();
    for (path, flag) in [
        ("export/flash", "--buffer-path"),
        ("export", "--buffer-path"),
        ("export/device", "--buffer-device"),
    ] {
        let place = rig.path(path).to_str().expect("text").to_owned();
        let outcome = rig.launch(&[flag, &place]).wait();
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        let words = "the directory of the export data and this place lie in each other";
        assert!(outcome.complaint.contains(words), "{outcome:?}");
    }
}

#[test]
fn a_buffer_on_the_file_system_of_an_export_is_noted() {
    let world = World::new();
    let words = "flash: it lies on the file system of the export data";
    world.rig.daemon().wait_for(words);
}

#[test]
fn files_are_brought_pinned_listed_and_dropped_by_commands() {
    let world = World::new();
    let id = world.done(&["buffer", "warm", "here:/data/run42", "--for", "2h"]);
    world.done(&["job", "watch", id.trim()]);
    world.wait_until_held();
    let watch = Watch::on(&world.source());
    world.copies_by_job("copy");
    assert_eq!(watch.reads(), 0);
    let row = |place: &str| {
        let list = world.done(&["buffer", "list", place, "--json"]);
        serde_json::from_str::<Value>(list.lines().next().unwrap_or("null")).expect("JSON")
    };
    let large = row("here:/data/run42/large");
    assert_eq!(large["bytes_held"], FILE);
    assert!(large["until"].is_string(), "{large}");
    world.done(&["buffer", "pin", "here:/data/run42"]);
    assert_eq!(row("here:/data/run42")["pinned"], true);
    assert_eq!(world.figure("files_pinned"), 2);
    assert_eq!(world.figure("bytes_kept"), world.figure("bytes_clean"));
    assert!(world.status()["oldest"].is_string(), "{}", world.status());
    assert!(world.status()["oldest_dirty"].is_null());
    let shown = world.done(&["buffer", "status"]);
    assert!(shown.contains("oldest    since "), "{shown}");
    let top = world.done(&["top", "--once"]);
    assert!(top.contains("buffer: ") && top.contains(" kept"), "{top}");
    world.done(&["buffer", "unpin", "here:/data/run42/large"]);
    assert_eq!(row("here:/data/run42/large").get("pinned"), None);
    assert_eq!(row("here:/data/run42/small")["pinned"], true);
    assert_eq!(world.figure("files_pinned"), 1);
    world.done(&["buffer", "drop", "here:/data"]);
    let empty = || world.figure("bytes_clean") == 0;
    assert!(
        wait_until(|| empty().then_some(())).is_some(),
        "{}",
        world.status()
    );
    assert_eq!(row("here:/data"), Value::Null);
}

#[test]
fn others_get_nothing_from_the_buffer_that_they_may_not_read() {
    let world = World::new();
    world.copies_by_job("first");
    world.wait_until_held();
    let us = world.rig.client(&["id"]).out;
    world.done(&["access", "deny", us.trim()]);
    let pulled = world
        .rig
        .cp(&[world.rig.url("run42"), "pulled/".to_owned()]);
    assert_ne!(pulled.code, Some(0), "{pulled:?}");
    assert!(!world.rig.path("pulled/run42").exists());
    // A file that the node itself may no longer open is not served either.
    if world.rig.unprivileged() {
        let large = world.source().join("large");
        let mut mode = fs::metadata(&large).expect("there").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0);
        fs::set_permissions(&large, mode).expect("closed");
        let line = [
            "job",
            "submit",
            "here:/data/run42",
            "here:/data/shut",
            "--wait",
        ];
        assert_ne!(world.rig.admin(&line).code, Some(0));
        assert!(!world.rig.export.join("shut/large").exists());
    }
}
