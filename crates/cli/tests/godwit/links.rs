//! Tests the targets of further names of a file, and the cases without one: never a name of an older file.
//! Does not test which names belong together (`lists`, `spared`) or that links arrive at all (`trees`).

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::full::unshare;
use super::judge::{assert_identical, assert_no_temporaries};
use super::process::Outcome;
use super::rig::{Rig, is_root};
use super::sync::{DIRECTIONS, Direction, items};

const NEW: &str = "new content";
const OLD: &str = "old";

/// The message for a name whose file was not delivered.
const WHY: &str = "was not delivered, so no link can be made";

/// A tree with a file of three names, and a direction.
struct World {
    rig: Rig,
    way: Direction,
}

impl World {
    fn new(way: Direction) -> Self {
        Self::within(Rig::new(), way)
    }

    fn within(mut rig: Rig, way: Direction) -> Self {
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

    /// Checks that exactly these names failed, and that all but the first failed because the first was missing.
    #[track_caller]
    fn assert_failed(&self, outcome: &Outcome, names: &[&str], why_first: &str) {
        outcome.expect(3, "partial");
        let mut failed: Vec<_> = outcome
            .events()
            .into_iter()
            .filter(|event| event["event"] == "failed")
            .map(|event| {
                let text = |field: &str| event[field].as_str().expect("text").to_owned();
                let path = text("path");
                let (_, name) = path.rsplit_once('/').expect("a path");
                (name.to_owned(), text("message"))
            })
            .collect();
        failed.sort();
        let found: Vec<_> = failed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names, "{:?}: {}", self.way, outcome.said());
        assert!(failed[0].1.contains(why_first), "{}", outcome.said());
        for (_, message) in &failed[1..] {
            assert!(message.contains(WHY), "{}", outcome.said());
        }
        assert_eq!(outcome.number("failed"), names.len() as u64);
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

/// The contents of each of the names, if the file exists.
fn contents(directory: &Path) -> Vec<Option<String>> {
    let read = |name| fs::read_to_string(directory.join(name)).ok();
    ["a", "b", "c"].map(read).into()
}

#[test]
fn names_of_a_file_that_stays_as_it_is_get_its_new_content_by_themselves() {
    let day = 86_400;
    let cases: &[(&str, &[&str], u64)] = &[
        ("--ignore-existing", &["a"], 1_500_000_000),
        ("--ignore-existing", &["a", "c"], 1_600_000_000 + day),
        ("--update", &["a"], 1_600_000_000 + day),
        ("--update", &["a", "b"], 1_600_000_000 + day),
        ("--existing", &["b"], 1_500_000_000),
        ("--existing", &["b", "c"], 1_500_000_000),
        ("--existing", &["a"], 1_500_000_000),
    ];
    for way in DIRECTIONS {
        for (number, (flag, there, seconds)) in cases.iter().enumerate() {
            let world = World::new(way);
            let judge = world.rig.path(format!("judge-{number}"));
            for name in *there {
                world.put(name, *seconds);
                put(&judge, name, *seconds);
            }
            let status = Command::new("rsync")
                .args(["-aH", flag])
                .args([world.from(""), judge.join("")])
                .status();
            assert!(status.expect("rsync runs").success());
            let dry = world.cp(&[flag, "--verbose", "--dry-run"]);
            let outcome = world.cp(&[flag, "--verbose"]);
            outcome.complete();
            assert_eq!(
                contents(&world.to("")),
                contents(&judge),
                "{way:?} {flag} {there:?}: {}",
                outcome.said()
            );
            assert_eq!(items(&dry), items(&outcome), "{way:?} {flag} {there:?}");
            assert_eq!(dry.number("files"), outcome.number("files"));
            assert_no_temporaries(&world.to(""));
            // Nothing is left to do, and existing names are recognised correctly.
            let outcome = world.cp(&[flag]);
            outcome.complete();
            assert_eq!(outcome.number("files"), 0, "{way:?} {flag} {there:?}");
            assert_eq!(contents(&world.to("")), contents(&judge));
            world.cp(&[]).complete();
            assert_identical(&world.from(""), &world.to(""));
        }
    }
}

#[test]
fn a_file_that_is_the_same_is_linked_to_whatever_stays() {
    for way in DIRECTIONS {
        for flag in ["--ignore-existing", "--update"] {
            let world = World::new(way);
            world.cp(&[]).complete();
            fs::remove_file(world.to("b")).expect("ours");
            world.cp(&[flag]).complete();
            assert_identical(&world.from(""), &world.to(""));
        }
    }
}

#[test]
fn names_of_a_file_that_cannot_be_read_are_reported_with_it() {
    for way in DIRECTIONS {
        // Both names are of the old file, and the third is free.
        let world = World::within(Rig::for_user(is_root()), way);
        world.put("a", 1_500_000_000);
        fs::hard_link(world.to("a"), world.to("b")).expect("linked");
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(world.from("a"), closed).expect("ours");
        let [list, manifest] = ["list", "manifest"].map(|name| {
            let path = world.rig.path(name);
            path.to_str().expect("text").to_owned()
        });
        let flags = ["--failed", &list, "--manifest", &manifest];
        let outcome = world.cp(&flags);
        world.assert_failed(&outcome, &["a", "b", "c"], "ermission denied");
        let old = Some(OLD.to_owned());
        assert_eq!(contents(&world.to("")), [old.clone(), old, None]);
        let reported = fs::read_to_string(&manifest).expect("written");
        for name in ["a", "b", "c"] {
            let line = reported.lines().find(|line| {
                let mut fields = line.split('\t');
                fields.any(|field| field == name || field.ends_with(&format!("/{name}")))
            });
            assert_eq!(line, None, "{way:?}: {reported}");
        }
        let mut listed: Vec<_> = fs::read_to_string(&list)
            .expect("written")
            .split_terminator('\0')
            .map(str::to_owned)
            .collect();
        listed.sort();
        assert_eq!(listed, ["a", "b", "c"]);
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(world.from("a"), open).expect("ours");
        world.cp(&["--from0", "--files-from", &list]).complete();
        let new = Some(NEW.to_owned());
        assert_eq!(contents(&world.to("")), [new.clone(), new.clone(), new]);
        assert_eq!(world.inode("a"), world.inode("b"), "{way:?}");
        world.cp(&[]).complete();
        assert_identical(&world.from(""), &world.to(""));
    }
}

#[test]
fn names_of_a_file_that_has_no_place_are_reported_with_it() {
    for way in DIRECTIONS {
        let world = World::new(way);
        fs::create_dir_all(world.to("a/deep")).expect("made");
        world.put("c", 1_500_000_000);
        let outcome = world.cp(&[]);
        world.assert_failed(&outcome, &["a", "b", "c"], "directory");
        assert_eq!(world.read("c"), OLD);
        assert!(!world.to("b").exists());
        fs::remove_dir_all(world.to("a")).expect("ours");
        world.cp(&[]).complete();
        assert_identical(&world.from(""), &world.to(""));
    }
}

#[test]
fn names_of_a_file_for_which_there_is_no_room_are_one_message() {
    let Some(unshare) = unshare() else {
        return names_of_a_file_that_has_no_place_are_reported_with_it();
    };
    let mut rig = Rig::new();
    let script = format!(
        "mount -t tmpfs -o size=4m none {} && exec \"$@\"",
        rig.export.display()
    );
    rig.wrap_daemon([unshare.as_slice(), &["sh", "-c", &script, "sh"]].concat());
    rig.write("src/a", vec![7; 3 << 20]);
    fs::hard_link(rig.path("src/a"), rig.path("src/b")).expect("linked");
    rig.start(&[]);
    let export = PathBuf::from(format!("/proc/{}/root", rig.daemon().id()))
        .join(rig.export.strip_prefix("/").expect("absolute"));
    let world = World {
        rig,
        way: Direction::Push,
    };
    put(&export.join("dst"), "a", 1_500_000_000);
    fs::write(export.join("ballast"), vec![1; 2 << 20]).expect("room");
    for _ in 0..2 {
        let outcome = world.cp(&[]);
        // The one message about the space covers the other name, too.
        outcome.expect(3, "partial").says("dst/a: no space left");
        let is_failed = |event: &serde_json::Value| event["event"] == "failed";
        assert!(
            !outcome.events().iter().any(is_failed),
            "{}",
            outcome.said()
        );
        let [a, b, _] = &contents(&export.join("dst"))[..] else {
            unreachable!("three names");
        };
        assert_eq!((a.as_deref(), b), (Some(OLD), &None));
    }
    fs::remove_file(export.join("ballast")).expect("ours");
    world.cp(&[]).complete();
    let [a, b] = ["a", "b"].map(|name| fs::metadata(export.join("dst").join(name)));
    let [a, b] = [a, b].map(|meta| meta.expect("there"));
    assert_eq!((a.ino(), a.len()), (b.ino(), 3 << 20));
}

#[test]
fn an_entry_that_takes_the_name_of_a_link_during_the_transfer_stays() {
    for way in DIRECTIONS {
        let world = World::new(way);
        for name in ["a", "z"] {
            // The file of several names is announced last. Once it arrives, all names are known.
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
        // The file existed before.
        assert_eq!(world.inode("c"), world.inode("a"));
        // Now it is known.
        world.cp(&[]).complete();
        assert_identical(&world.from(""), &world.to(""));
    }
}

#[test]
fn names_that_are_there_are_skipped_by_cp_as_by_sync() {
    for way in DIRECTIONS {
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

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("there").ino()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o7777
}

/// One file cannot have two modes: each run would set the one, then the other, and open a closed file.
#[test]
fn files_that_are_one_at_the_destination_alone_become_two() {
    for way in DIRECTIONS {
        let world = World::new(way);
        let names = ["closed", "open"];
        for (name, bits) in names.into_iter().zip([0o600, 0o644]) {
            put(&world.from(""), name, 1_600_000_000);
            fs::set_permissions(world.from(name), fs::Permissions::from_mode(bits)).expect("set");
            symlink("nowhere", world.from(&format!("link-{name}"))).expect("made");
        }
        world.run("sync", &[]).complete();
        for [first, second] in [names, ["link-closed", "link-open"]] {
            fs::remove_file(world.to(second)).expect("removed");
            fs::hard_link(world.to(first), world.to(second)).expect("linked");
        }
        // A file shared with an older copy stays shared.
        fs::hard_link(world.to("closed"), world.rig.path("older")).expect("linked");
        world.run("sync", &["--dry-run"]).complete();
        assert_eq!(inode(&world.to("closed")), inode(&world.to("open")));
        world.run("sync", &[]).complete();
        assert_eq!(mode(&world.to("closed")), 0o600, "{way:?}");
        assert_eq!(mode(&world.to("open")), 0o644, "{way:?}");
        for [first, second] in [names, ["link-closed", "link-open"]] {
            assert_ne!(inode(&world.to(first)), inode(&world.to(second)));
        }
        let kept = names.map(|name| inode(&world.to(name)) == inode(&world.rig.path("older")));
        assert_eq!(kept.iter().filter(|kept| **kept).count(), 1, "{way:?}");
        let again = world.run("sync", &["--verbose"]);
        let done = items(again.complete());
        assert!(done.iter().all(|(action, _)| action == "skip"), "{done:?}");
    }
}

/// As rsync does with -H.
#[test]
fn links_and_special_files_with_several_names_stay_one() {
    if !is_root() {
        return;
    }
    for way in DIRECTIONS {
        let world = World::new(way);
        symlink("nowhere", world.from("link")).expect("made");
        let made = Command::new("sh")
            .arg("-c")
            .arg("mknod fifo p && mknod null c 1 3")
            .current_dir(world.from(""))
            .status();
        assert!(made.is_ok_and(|made| made.success()));
        let _socket = std::os::unix::net::UnixListener::bind(world.from("socket")).expect("bound");
        // A node makes device nodes only where its export grants them.
        let kinds = match way {
            Direction::Push => &["link", "fifo", "socket"][..],
            _ => &["link", "fifo", "socket", "null"],
        };
        if way == Direction::Push {
            fs::remove_file(world.from("null")).expect("removed");
        }
        for name in kinds {
            for further in ["2", "3"] {
                fs::hard_link(world.from(name), world.from(&format!("{name}{further}")))
                    .expect("linked");
            }
        }
        let look = |when: &str| {
            for name in kinds.iter().copied() {
                for further in ["2", "3"] {
                    let further = world.to(&format!("{name}{further}"));
                    assert_eq!(
                        inode(&world.to(name)),
                        inode(&further),
                        "{when} {way:?}: {name}"
                    );
                }
            }
        };
        world.run("sync", &["--specials"]).complete();
        look("made");
        let done = items(world.run("sync", &["--specials", "--verbose"]).complete());
        assert!(done.iter().all(|(action, _)| action == "skip"), "{done:?}");
        for name in kinds {
            let name = world.to(&format!("{name}2"));
            fs::rename(&name, world.rig.path("away")).expect("moved");
            let copied = Command::new("cp")
                .arg("-a")
                .arg(world.rig.path("away"))
                .arg(&name)
                .status();
            assert!(copied.is_ok_and(|copied| copied.success()));
            fs::remove_file(world.rig.path("away")).expect("removed");
        }
        world.run("sync", &["--specials"]).complete();
        look("joined");
    }
}
