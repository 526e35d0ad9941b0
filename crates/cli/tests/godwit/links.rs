//! Tests what further names of a file are made to, and when they are not made: never a name of an older file.
//! Does not test which names belong together (`lists`, `spared`) or that links arrive at all (`trees`).

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::judge::assert_identical;
use super::process::Outcome;
use super::rig::Rig;
use super::sync::{WAYS, Way};

const NEW: &str = "new content";
const OLD: &str = "old";

/// A tree with a file of three names, going one of the ways.
struct World {
    rig: Rig,
    way: Way,
}

impl World {
    fn new(way: Way) -> Self {
        let mut rig = Rig::new();
        let (source, _) = way.places();
        rig.write(&format!("{source}/a"), NEW);
        let from = rig.path(source);
        for name in ["b", "c"] {
            fs::hard_link(from.join("a"), from.join(name)).expect("linked");
        }
        set_time(&from.join("a"), 1_600_000_000);
        rig.start(&[]);
        Self { rig, way }
    }

    fn from(&self, name: &str) -> PathBuf {
        self.rig.path(self.way.places().0).join(name)
    }

    fn to(&self, name: &str) -> PathBuf {
        self.rig.path(self.way.places().1).join(name)
    }

    /// Something else at the destination, of another size and time.
    fn put(&self, name: &str, seconds: u64) {
        put(&self.to(""), name, seconds);
    }

    fn run(&self, command: &str, flags: &[&str]) -> Outcome {
        let [mut source, destination] = self.way.ends(&self.rig);
        source.push_str("/.");
        let mut line = vec![command, "--json"];
        line.extend(flags);
        line.extend([source.as_str(), destination.as_str()]);
        self.rig.client(&line)
    }

    fn cp(&self, flags: &[&str]) -> Outcome {
        self.run("cp", flags)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.to(name)).expect("there")
    }

    fn inode(&self, name: &str) -> u64 {
        fs::metadata(self.to(name)).expect("there").ino()
    }
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let file = File::options().write(true).open(path).expect("opened");
    file.set_times(FileTimes::new().set_modified(time))
        .expect("set");
}

fn put(directory: &Path, name: &str, seconds: u64) {
    fs::create_dir_all(directory).expect("made");
    fs::write(directory.join(name), OLD).expect("ours");
    set_time(&directory.join(name), seconds);
}

#[test]
fn what_takes_the_name_of_a_link_while_the_transfer_runs_stays() {
    for way in WAYS {
        let world = World::new(way);
        for name in ["a", "z"] {
            // The file of several names is announced last: once it arrives all of them are known.
            fs::write(world.from(name), vec![b'x'; 3 << 20]).expect("ours");
        }
        world.put("c", 1_500_000_000);
        let [source, destination] = way.ends(&world.rig);
        let line = [
            "cp",
            "--json",
            "--limit=3MB",
            &format!("{source}/."),
            &destination,
        ];
        let mut client = world.rig.begin(&line);
        client.wait_for_bytes(4 << 20);
        fs::write(world.to("b"), "mine").expect("ours");
        let outcome = client.wait();
        outcome.expect(3, "partial");
        let failed = outcome.failed();
        assert!(
            failed.len() == 1 && failed[0].ends_with("/b"),
            "{way:?}: {}",
            outcome.said()
        );
        outcome.says("it was not overwritten");
        assert_eq!(world.read("b"), "mine");
        // That one was there before.
        assert_eq!(world.inode("c"), world.inode("a"));
        // Now it is known.
        world.cp(&[]).complete();
        assert_identical(&world.from(""), &world.to(""));
    }
}

#[test]
fn names_that_are_there_are_skipped_by_cp_as_by_sync() {
    for way in WAYS {
        let world = World::new(way);
        let outcome = world.cp(&[]);
        outcome.complete();
        let counted = |outcome: &Outcome| ["files", "skipped"].map(|field| outcome.number(field));
        assert_eq!(counted(&outcome), [3, 0], "{way:?}");
        for command in ["cp", "sync"] {
            let outcome = world.run(command, &[]);
            outcome.complete();
            assert_eq!(counted(&outcome), [0, 3], "{way:?} {command}");
        }
        fs::remove_file(world.to("c")).expect("ours");
        let outcome = world.cp(&[]);
        outcome.complete();
        assert_eq!(counted(&outcome), [1, 2], "{way:?}");
        let outcome = world.cp(&["--force"]);
        outcome.complete();
        assert_eq!(counted(&outcome), [3, 0], "{way:?}");
        // A name of another file that looks the same.
        fs::remove_file(world.to("b")).expect("ours");
        fs::copy(world.to("a"), world.to("b")).expect("copied");
        set_time(&world.to("b"), 1_600_000_000);
        let outcome = world.cp(&[]);
        outcome.complete();
        assert_eq!(counted(&outcome), [1, 2], "{way:?}");
        assert_identical(&world.from(""), &world.to(""));
    }
}
