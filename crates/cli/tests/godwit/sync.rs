//! Owns the tests of `godwit sync`: the judgement of equality, and the output of a dry run.
//! Does not delete more than it must (`delete`), and interrupts nothing.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::judge::{assert_identical, assert_no_temporaries};
use super::process::Outcome;
use super::rig::Rig;

/// The three directions of data.
pub(crate) const DIRECTIONS: [Direction; 3] = [Direction::Push, Direction::Pull, Direction::Local];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    Push,
    Pull,
    Local,
}

impl Direction {
    /// Where the source and the destination are, below the world.
    pub(crate) fn places(self) -> (&'static str, &'static str) {
        match self {
            Self::Push => ("src", "export/dst"),
            Self::Pull => ("export/src", "dst"),
            Self::Local => ("src", "dst"),
        }
    }

    pub(crate) fn ends(self, world: &Rig) -> [String; 2] {
        match self {
            Self::Push => ["src".to_owned(), world.url("dst")],
            Self::Pull => [world.url("src"), "dst".to_owned()],
            Self::Local => ["src".to_owned(), "dst".to_owned()],
        }
    }

    /// A run of `sync --json` with these flags.
    pub(crate) fn sync(self, world: &Rig, flags: &[&str]) -> Outcome {
        let ends = self.ends(world);
        let mut line = vec!["sync", "--json"];
        line.extend(flags);
        line.extend(ends.iter().map(String::as_str));
        world.client(&line)
    }
}

/// Two trees are the same in the eyes of rsync, and nothing temporary is in the second.
#[track_caller]
pub(crate) fn same(source: &Path, destination: &Path) {
    assert_identical(source, destination);
    assert_no_temporaries(destination);
}

/// The outcome of each entry, sorted; names that are no text stay as in the event.
pub(crate) fn items(outcome: &Outcome) -> Vec<(String, String)> {
    let mut items: Vec<_> = outcome
        .events()
        .iter()
        .filter(|event| event["event"] == "item")
        .map(|event| {
            let text = |field: &str| event[field].as_str().map(str::to_owned);
            let path = text("path").or_else(|| text("path_b64")).expect("a path");
            (text("action").expect("an action"), path)
        })
        .collect();
    items.sort();
    items
}

pub(crate) fn of<'a>(items: &'a [(String, String)], action: &str) -> Vec<&'a str> {
    let items = items.iter().filter(|(found, _)| found == action);
    items.map(|(_, path)| path.as_str()).collect()
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let file = File::open(path).expect("opened");
    file.set_times(FileTimes::new().set_modified(time))
        .expect("set");
}

/// Every entry below a directory, with the properties that a sync would change.
pub(crate) fn state(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            found.push(format!("{} is not there", path.display()));
            continue;
        };
        found.push(format!(
            "{path:?} {:o} {} {} {}.{} {}.{}",
            meta.mode(),
            meta.ino(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec()
        ));
        if meta.is_dir() {
            let entries = fs::read_dir(&path).expect("listed");
            waiting.extend(entries.map(|entry| entry.expect("listed").path()));
        }
    }
    found.sort();
    found
}

/// A source with an entry of each kind, and an equal destination.
pub(crate) fn settled(way: Direction) -> Rig {
    let mut world = Rig::for_user(false);
    let (source, _) = way.places();
    world.write(&format!("{source}/a/one"), "one");
    world.write(&format!("{source}/a/b/two"), "two, and more");
    world.write(&format!("{source}/c/three"), "three");
    symlink("a/one", world.path(format!("{source}/link"))).expect("made");
    world.make_dirs(&format!("{source}/empty"));
    world.start(&[]);
    way.sync(&world, &[]).complete();
    let (source, destination) = way.places();
    same(&world.path(source), &world.path(destination));
    world
}

#[test]
fn the_destination_is_the_counterpart_whether_it_exists_or_not() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (source, destination) = way.places();
        let outcome = way.sync(&world, &[]);
        outcome.complete();
        assert_eq!(outcome.number("files"), 0, "{outcome:?}");
        assert_eq!(outcome.number("skipped"), 4, "{outcome:?}");
        same(&world.path(source), &world.path(destination));
        let [from, to] = way.ends(&world);
        // A slash at the end changes nothing.
        let line = ["sync", "--json", &format!("{from}/"), &format!("{to}/")];
        world.client(&line).complete();
        same(&world.path(source), &world.path(destination));
    }
}

#[test]
fn several_sources_and_what_is_no_file_are_refused() {
    let world = Rig::for_user(false);
    world.write("a/f", "a");
    world.make_dirs("b");
    for (line, words) in [
        (&["sync", "a", "b", "c"][..], "one source"),
        (&["sync", "mem:1", "c"], "files with files"),
        (&["sync", "a", "null:"], "files with files"),
        (&["sync", "a"], "godwit sync SOURCE DESTINATION"),
        (
            &["sync", "--checksum", "--size-only", "a", "c"],
            "contradict",
        ),
        (&["sync", "--max-delete", "many", "a", "c"], "max-delete"),
        (&["cp", "--delete", "a", "c"], "--delete"),
    ] {
        let outcome = world.client(line);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        outcome.says(words);
    }
    assert!(!world.path("c").exists());
}

#[test]
fn a_file_is_the_counterpart_of_a_file_and_never_goes_into_a_directory() {
    let world = Rig::for_user(false);
    world.write("f", "new");
    world.write("g", "old, longer");
    world.write("d/kept", "kept");
    world.client(&["sync", "--json", "f", "g"]).complete();
    assert_eq!(world.read("g"), b"new");
    for flags in [&["f", "d"][..], &["f", "d/"], &["--delete", "f", "d/"]] {
        let line = [&["sync", "--json"][..], flags].concat();
        world.client(&line).expect(3, "partial");
        assert_eq!(world.read("d/kept"), b"kept");
    }
    world
        .client(&["sync", "--json", "f", "h/"])
        .expect(3, "partial");
    assert!(!world.path("h").exists());
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_the_real_run_then_does() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        world.write(&format!("{source}/a/new"), "new");
        world.write(&format!("{source}/d/e/deep"), "deep");
        world.write(&format!("{source}/c/three"), "three, changed");
        fs::set_permissions(from.join("a/one"), fs::Permissions::from_mode(0o600)).expect("ours");
        fs::remove_file(from.join("a/b/two")).expect("ours");
        fs::remove_file(from.join("link")).expect("ours");
        symlink("a/b", from.join("link")).expect("made");
        world.write(&format!("{destination}/stray/x/y"), "stray");
        fs::remove_dir(to.join("empty")).expect("ours");
        fs::write(to.join("empty"), "a file where a directory is").expect("ours");
        let before = state(&to);
        let flags = ["--delete", "--verbose", "--dry-run"];
        let dry = way.sync(&world, &flags);
        dry.complete();
        assert_eq!(dry.summary()["dry_run"], true, "{dry:?}");
        assert_eq!(state(&to), before, "{way:?}");
        let real = way.sync(&world, &flags[..2]);
        real.complete();
        assert_eq!(items(&dry), items(&real), "{way:?}");
        for field in ["files", "bytes", "skipped", "adjusted", "deleted"] {
            assert_eq!(dry.number(field), real.number(field), "{field}: {real:?}");
        }
        let said = items(&real);
        assert_eq!(of(&said, "send"), ["a/new", "c/three", "d/e/deep"]);
        assert_eq!(of(&said, "make"), ["d", "d/e", "empty", "link"]);
        assert!(of(&said, "adjust").contains(&"a/one"), "{said:?}");
        assert_eq!(
            of(&said, "delete"),
            ["a/b/two", "empty", "stray", "stray/x", "stray/x/y"]
        );
        same(&from, &to);
    }
}

#[test]
fn a_dry_run_of_a_first_copy_makes_nothing_anywhere() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        world.write(&format!("{source}/d/f"), "content");
        world.start(&[]);
        let export = state(&world.path("export"));
        let outcome = way.sync(&world, &["--dry-run"]);
        outcome.complete();
        assert_eq!(of(&items(&outcome), "send"), ["d/f"]);
        assert!(!world.path(destination).exists(), "{way:?}");
        assert_eq!(state(&world.path("export")), export);
        for home in ["client", "daemon"] {
            let journals = fs::read_dir(world.path(home).join("journals"));
            let left: Vec<_> = journals.into_iter().flatten().flatten().collect();
            let journal = left
                .iter()
                .find(|entry| entry.path().extension() == Some(OsStr::new("journal")));
            assert!(journal.is_none(), "{journal:?}");
        }
    }
}

#[test]
fn people_read_one_line_for_each_entry_of_a_dry_run() {
    let world = Rig::for_user(false);
    world.write("src/d/f", "content");
    world.write("dst/old", "old");
    world.own();
    let line = ["sync", "--delete", "--dry-run", "src", "dst"];
    let outcome = world.client(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for words in [
        "make    d/\n",
        "send    d/f\n",
        "delete  old\n",
        "nothing was changed",
    ] {
        assert!(outcome.out.contains(words), "{words:?}: {outcome:?}");
    }
    // The summary comes first, and the entries by name.
    let places = [
        "would copy",
        "make    d/\n",
        "send    d/f\n",
        "delete  old\n",
    ];
    let places = places.map(|words| outcome.out.find(words));
    assert!(places.is_sorted(), "{outcome:?}");
    let outcome = world.client(&["sync", "--delete", "src", "dst"]);
    assert!(!outcome.out.contains("delete "), "{outcome:?}");
    outcome.says("1 deleted");
}

#[test]
fn checksums_find_what_size_and_time_hide_and_send_nothing_that_is_the_same() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        // Large enough for several slices, with a hole in one. The copy differs in one byte in the middle.
        for name in ["large", "sparse"] {
            let mut content = vec![7_u8; 3 << 20];
            let write = |path: &Path, content: &[u8]| {
                fs::write(path, content).expect("written");
                if name == "sparse" {
                    let file = File::options().write(true).open(path).expect("ours");
                    file.set_len(9 << 20).expect("set");
                }
                set_time(path, 1_500_000_000);
            };
            write(&from.join(name), &content);
            content[2_000_000] = 8;
            write(&to.join(name), &content);
        }
        fs::write(from.join("a/one"), "ONE").expect("ours");
        for file in [from.join("a/one"), to.join("a/one")] {
            set_time(&file, 1_600_000_000);
        }
        set_time(&to.join("c/three"), 1_000_000_000);
        let missed = way.sync(&world, &["--dry-run"]);
        assert_eq!(of(&items(&missed), "send"), ["c/three"], "{way:?}");
        let flags = ["--checksum", "--verbose"];
        let dry = way.sync(&world, &[&flags[..], &["--dry-run"]].concat());
        let outcome = way.sync(&world, &flags);
        outcome.complete();
        let said = items(&outcome);
        assert_eq!(items(&dry), said);
        assert_eq!(of(&said, "send"), ["a/one", "large", "sparse"], "{way:?}");
        assert_eq!(outcome.number("adjusted"), dry.number("adjusted"));
        assert!(of(&said, "adjust").contains(&"c/three"), "{said:?}");
        same(&from, &to);
        let again = way.sync(&world, &flags);
        assert_eq!(again.number("files"), 0, "{again:?}");
    }
}

#[test]
fn each_way_of_comparing_leaves_alone_what_it_says() {
    let world = settled(Direction::Push);
    let [from, to] = ["src", "export/dst"].map(|place| world.path(place));
    let content = |name: &str| fs::read_to_string(to.join(name)).expect("there");
    // Newer at the destination, older at the destination, same size, only here, only there.
    let scene = || {
        for (name, source, destination) in [
            ("a/one", 1_600_000_000, 1_700_000_000),
            ("c/three", 1_600_000_000, 1_500_000_000),
        ] {
            fs::write(from.join(name), format!("source of {name}")).expect("ours");
            fs::write(to.join(name), format!("target of {name}")).expect("ours");
            set_time(&from.join(name), source);
            set_time(&to.join(name), destination);
        }
        world.write("src/new/file", "new");
        let _ = fs::remove_dir_all(to.join("new"));
        fs::write(to.join("stray"), "stray").expect("ours");
    };
    let sync = |flags: &[&str]| {
        scene();
        let dry = Direction::Push.sync(&world, &[&["--dry-run", "--verbose"], flags].concat());
        let real = Direction::Push.sync(&world, &[&["--verbose"], flags].concat());
        assert_eq!(items(&dry), items(&real), "{flags:?}");
        real.complete();
        assert_eq!(content("stray"), "stray", "{flags:?}");
    };
    sync(&["--update"]);
    assert_eq!(content("a/one"), "target of a/one");
    assert_eq!(content("c/three"), "source of c/three");
    assert_eq!(content("new/file"), "new");

    sync(&["--existing"]);
    assert_eq!(content("a/one"), "source of a/one");
    assert!(!to.join("new").exists());

    sync(&["--ignore-existing"]);
    assert_eq!(content("a/one"), "target of a/one");
    assert_eq!(content("c/three"), "target of c/three");
    assert_eq!(content("new/file"), "new");

    sync(&["--existing", "--ignore-existing"]);
    assert_eq!(content("c/three"), "target of c/three");
    assert!(!to.join("new").exists());

    sync(&["--size-only"]);
    assert_eq!(content("a/one"), "target of a/one");
    assert_eq!(content("new/file"), "new");
    let mtime = fs::metadata(to.join("a/one")).expect("there").mtime();
    assert_eq!(mtime, 1_600_000_000);

    sync(&[]);
    assert_eq!(content("a/one"), "source of a/one");
    assert_eq!(content("c/three"), "source of c/three");
}

#[test]
fn metadata_is_set_without_contents() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        fs::set_permissions(from.join("a/one"), fs::Permissions::from_mode(0o640)).expect("ours");
        fs::set_permissions(from.join("c"), fs::Permissions::from_mode(0o711)).expect("ours");
        let inode = fs::metadata(to.join("a/one")).expect("there").ino();
        let outcome = way.sync(&world, &[]);
        outcome.complete();
        assert_eq!(outcome.number("files"), 0, "{outcome:?}");
        assert_eq!(outcome.number("adjusted"), 2, "{outcome:?}");
        assert_eq!(
            fs::metadata(to.join("a/one")).expect("there").ino(),
            inode,
            "{way:?}: the file is the same one"
        );
        same(&from, &to);
    }
}

#[test]
fn newer_files_stay_even_at_the_place_of_a_hard_link() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        fs::hard_link(from.join("a/one"), from.join("a/two")).expect("linked");
        set_time(&from.join("a/one"), 1_600_000_000);
        // For each of the two names that the scan may find first.
        for name in ["a/one", "a/two"] {
            fs::write(to.join(name), "newer").expect("ours");
            set_time(&to.join(name), 1_700_000_000);
        }
        let flags = ["--update", "--verbose"];
        let dry = way.sync(&world, &[&flags[..], &["--dry-run"]].concat());
        let outcome = way.sync(&world, &flags);
        outcome.complete();
        assert_eq!(items(&dry), items(&outcome), "{way:?}");
        for name in ["a/one", "a/two"] {
            let content = fs::read(to.join(name)).expect("there");
            assert_eq!(content, b"newer", "{way:?}: {name}");
        }
        way.sync(&world, &[]).complete();
        same(&from, &to);
    }
}

#[test]
fn times_in_whole_seconds_count_as_the_same_and_are_mended() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        let set = |path: &Path, nanoseconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, nanoseconds);
            let file = File::open(path).expect("opened");
            file.set_times(FileTimes::new().set_modified(time))
                .expect("set");
        };
        for (name, there) in [("a/one", 0), ("c/three", 1)] {
            set(&from.join(name), 250_000_000);
            set(&to.join(name), there);
        }
        let outcome = way.sync(&world, &["--verbose"]);
        outcome.complete();
        let said = items(&outcome);
        assert_eq!(of(&said, "send"), ["c/three"], "{way:?}");
        assert!(of(&said, "adjust").contains(&"a/one"), "{said:?}");
        let meta = fs::metadata(to.join("a/one")).expect("there");
        assert_eq!(meta.mtime_nsec(), 250_000_000, "{way:?}");
    }
}

/// An entry that a directory replaces counts as deleted. A real run deletes it at once.
#[test]
fn a_dry_run_counts_deletions_as_the_real_run_does() {
    for way in DIRECTIONS {
        for max in ["1", "2", "3", "4"] {
            let mut world = Rig::for_user(false);
            let (source, destination) = way.places();
            for name in ["a", "b"] {
                world.write(&format!("{source}/{name}/in"), name);
            }
            for name in ["a", "b", "c", "d"] {
                world.write(&format!("{destination}/{name}"), name);
            }
            world.start(&[]);
            let flags = ["--delete", "--max-delete", max];
            let dry = way.sync(&world, &[&flags[..], &["--dry-run"]].concat());
            let real = way.sync(&world, &flags);
            assert_eq!(dry.code, real.code, "{way:?} {max}");
            let counts = [&dry, &real].map(|outcome| outcome.number("deleted"));
            assert_eq!(counts[0], counts[1], "{way:?} {max}: {dry:?}");
            assert_eq!(
                of(&items(&dry), "delete"),
                of(&items(&real), "delete"),
                "{way:?} {max}"
            );
        }
    }
}
