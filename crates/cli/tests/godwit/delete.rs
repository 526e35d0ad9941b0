//! Owns the tests of `godwit sync --delete`: entries that are deleted, entries that never are, and cases in which none is.
//! Does not compare in other ways (`sync`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_api::failure::FailureCode;
use rustix::process::Signal;

use super::data::{Seeded, first_seed, make_tree};
use super::process::Process;
use super::rig::{Rig, as_each_user, is_root};
use super::sync::{DIRECTIONS, Direction, items, of, same, settled, state};

#[test]
fn deleting_takes_what_is_deep_odd_or_closed_and_follows_no_link() {
    as_each_user(|world| {
        world.write("src/kept", "kept");
        world.write("outside/precious", "precious");
        let to = world.path("export/dst");
        fs::create_dir_all(to.join("closed/inner")).expect("made");
        fs::write(to.join("closed/inner/f"), "f").expect("made");
        symlink(world.path("outside"), to.join("to_directory")).expect("made");
        symlink(world.path("outside/precious"), to.join("to_file")).expect("made");
        symlink("nowhere", to.join("dangling")).expect("made");
        fs::write(to.join(OsStr::from_bytes(b"no\xfftext\n")), "odd").expect("made");
        // Deeper than a path may be for one system call.
        let mut deep = to.join("deep");
        for _ in 0..14 {
            deep = deep.join("n".repeat(255));
        }
        fs::create_dir_all(&deep).expect("made");
        fs::write(deep.join("f"), "f").expect("made");
        world.own();
        for closed in ["closed/inner", "closed"] {
            fs::set_permissions(to.join(closed), fs::Permissions::from_mode(0o500)).expect("ours");
        }
        world.start(&[]);
        let outcome = Direction::Push.sync(world, &["--delete"]);
        outcome.complete();
        assert_eq!(outcome.number("deleted"), 3 + 3 + 1 + 16, "{outcome:?}");
        same(&world.path("src"), &to);
        assert_eq!(world.read("outside/precious"), b"precious");
        assert_eq!(of(&items(&outcome), "delete").len(), 23);
    });
}

#[test]
fn nothing_outside_the_counterpart_is_deleted() {
    let mut world = Rig::for_user(false);
    world.write("src/f", "f");
    world.write("export/dst/old", "old");
    world.write("export/dst2/file", "other");
    world.write("export/file", "other");
    world.write("dst/old", "old");
    world.write("dst-2/file", "other");
    world.start(&[]);
    let before = [
        state(&world.path("export/dst2")),
        state(&world.path("dst-2")),
    ];
    for way in [Direction::Push, Direction::Local] {
        way.sync(&world, &["--delete"]).complete();
        let (source, destination) = way.places();
        same(&world.path(source), &world.path(destination));
    }
    assert_eq!(
        [
            state(&world.path("export/dst2")),
            state(&world.path("dst-2"))
        ],
        before
    );
    assert_eq!(world.read("export/file"), b"other");
}

#[test]
fn a_whole_export_can_be_the_counterpart_and_the_node_keeps_its_own_files() {
    let mut world = Rig::for_user(false);
    world.write("src/f", "f");
    world.write("export/old/file", "old");
    world.start(&[]);
    let url = world.url("");
    let line = ["sync", "--json", "--delete", "src", &url];
    let outcome = world.client(&line);
    outcome.complete();
    assert_eq!(outcome.number("deleted"), 2);
    assert_eq!(world.read("export/f"), b"f");
    assert!(!world.path("export/old").exists());

    // Files of this program lie below the destination. These files and their directories are kept.
    world.write("all/old", "old");
    world.write("all/homes/old", "old");
    let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
    command
        .args(["sync", "--json", "--delete", "src", "all"])
        .current_dir(world.path(""))
        .env("GODWIT_HOME", world.path("all/homes/own"));
    let outcome = Process::start(&mut command).wait();
    outcome.complete();
    assert_eq!(outcome.number("deleted"), 2, "{outcome:?}");
    assert!(world.path("all/homes/own").exists());
    assert!(!world.path("all/homes/old").exists());
}

#[test]
fn kinds_that_changed_are_replaced_only_where_deleting_is_allowed() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        world.write(&format!("{source}/file"), "file");
        world.write(&format!("{source}/large"), vec![5_u8; 2 << 20]);
        world.write(&format!("{source}/directory/d/in"), "in");
        world.write(&format!("{source}/linked/in"), "in");
        symlink("file", from.join("link")).expect("made");
        world.write(&format!("{destination}/file/in/side"), "side");
        world.write(&format!("{destination}/large/in/side"), "side");
        world.write(&format!("{destination}/link/in"), "side");
        fs::write(to.join("directory"), "file").expect("made");
        world.write("outside/precious", "precious");
        symlink(world.path("outside"), to.join("linked")).expect("made");
        world.start(&[]);
        let outcome = way.sync(&world, &[]);
        outcome.expect(3, "partial");
        assert!(to.join("file/in/side").exists() && to.join("directory").is_file());
        let flags = ["--delete", "--verbose"];
        let dry = way.sync(&world, &[&flags[..], &["--dry-run"]].concat());
        let outcome = way.sync(&world, &flags);
        outcome.complete();
        assert_eq!(items(&dry), items(&outcome), "{way:?}");
        same(&from, &to);
        assert_eq!(world.read("outside/precious"), b"precious");
        assert!(!world.path("outside/in").exists());
    }
}

#[test]
fn more_than_max_delete_deletes_nothing() {
    for way in DIRECTIONS {
        let world = settled(way);
        let (_, destination) = way.places();
        world.write(&format!("{destination}/x/1"), "1");
        world.write(&format!("{destination}/x/2"), "2");
        let to = world.path(destination);
        for flags in [&["--dry-run"][..], &[]] {
            let flags = [&["--delete", "--max-delete", "2"], flags].concat();
            let outcome = way.sync(&world, &flags);
            outcome
                .expect(3, "partial")
                .expect_code(FailureCode::Limit)
                .says("would be 3 entries");
            assert!(to.join("x/2").exists(), "{way:?}");
            assert_eq!(of(&items(&outcome), "delete").len(), 0);
        }
        let outcome = way.sync(&world, &["--delete", "--max-delete", "3"]);
        outcome.complete();
        assert_eq!(outcome.number("deleted"), 3);
        assert!(!to.join("x").exists());
    }
}

#[test]
fn a_source_that_could_not_be_read_in_full_deletes_nothing() {
    let mut world = Rig::for_user(is_root());
    world.write("src/open/f", "f");
    world.write("src/closed/f", "f");
    world.write("src/secret", "s");
    world.write("export/dst/closed/f", "f");
    world.write("export/dst/stray", "stray");
    world.start(&[]);
    let closed = world.path("src/closed");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    // A directory that cannot be listed, then a file that cannot be read.
    set(&closed, 0o300);
    let check = |world: &Rig| {
        let outcome = Direction::Push.sync(world, &["--delete"]);
        outcome
            .expect(3, "partial")
            .says("nothing more was deleted");
        assert_eq!(outcome.number("deleted"), 0);
        assert_eq!(world.read("export/dst/stray"), b"stray");
        assert_eq!(world.read("export/dst/closed/f"), b"f");
    };
    check(&world);
    set(&closed, 0o700);
    world.write("src/secret", "changed");
    world.own();
    set(&world.path("src/secret"), 0);
    check(&world);
    set(&world.path("src/secret"), 0o600);
    let outcome = Direction::Push.sync(&world, &["--delete"]);
    outcome.complete();
    assert_eq!(outcome.number("deleted"), 1);
    same(&world.path("src"), &world.path("export/dst"));
}

#[test]
fn an_unlistable_directory_of_the_destination_stays_and_is_named() {
    let mut world = Rig::for_user(is_root());
    world.write("src/f", "f");
    world.write("export/dst/closed/deep/f", "f");
    world.write("export/dst/stray", "stray");
    world.start(&[]);
    let closed = world.path("export/dst/closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o300)).expect("ours");
    let outcome = Direction::Push.sync(&world, &["--delete"]);
    outcome.expect(3, "partial").says("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("ours");
    assert_eq!(world.read("export/dst/closed/deep/f"), b"f");
    assert!(!world.path("export/dst/stray").exists());
}

/// The entries below, in a fixed order; follows no link.
fn entries(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("listed") {
            let entry = entry.expect("listed");
            if entry.file_type().expect("known").is_dir() {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Changes a tree in some places: removes, adds, replaces by another kind, changes contents and modes. `mark` ends each new file, so new
/// files of both trees have different sizes. Otherwise, files of one size, written within one tick of the clock, would count as the
/// same without `--checksum`, here as in rsync.
fn change(root: &Path, seeded: &mut Seeded, mark: &[u8]) {
    for path in entries(root) {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            // The entry went with its directory.
            continue;
        };
        let remove = || {
            let removed = if meta.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.expect("ours");
        };
        let bytes = seeded.draw().to_le_bytes();
        let content = [&bytes[..], mark].concat();
        match seeded.below(16) {
            0 => remove(),
            1 => {
                remove();
                fs::write(&path, &content).expect("written");
            }
            2 => {
                remove();
                fs::create_dir_all(path.join("in/side")).expect("made");
                fs::write(path.join("in/file"), &content).expect("written");
            }
            3 => {
                remove();
                symlink("somewhere/else", &path).expect("made");
            }
            4 if meta.is_file() => fs::write(&path, &content).expect("written"),
            5 if !meta.is_symlink() => {
                let mode = 0o700 | u32::from(bytes[0]);
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            }
            6 => {
                let name = [b'n', 0x80 | bytes[0], b'\n', bytes[1] | 0x80];
                let parent = path.parent().expect("below the root");
                fs::write(parent.join(OsStr::from_bytes(&name)), &content).expect("written");
            }
            _ => {}
        }
    }
}

#[test]
fn trees_changed_at_random_on_both_sides_become_the_same_again() {
    let first = first_seed(1);
    for seed in first..first + 6 {
        eprintln!("seed {seed}");
        let seeded = &mut Seeded(seed);
        let way = DIRECTIONS[usize::try_from(seed % 3).expect("small")];
        let (source, destination) = way.places();
        let mut world = Rig::for_user(false);
        let [from, to] = [source, destination].map(|place| world.path(place));
        make_tree(&from, 6, seeded);
        world.start(&[]);
        way.sync(&world, &[]).complete();
        same(&from, &to);
        for round in 0..3 {
            change(&from, seeded, b"");
            change(&to, seeded, b"+");
            let flags: &[&str] = if round == 1 {
                &["--delete", "--checksum", "--verbose"]
            } else {
                &["--delete", "--verbose"]
            };
            let before = state(&to);
            let dry = way.sync(&world, &[flags, &["--dry-run"]].concat());
            assert_eq!(state(&to), before);
            let real = way.sync(&world, flags);
            real.complete();
            assert_eq!(items(&dry), items(&real), "{way:?}");
            same(&from, &to);
        }
    }
}

#[test]
fn a_sync_that_was_killed_deletes_once_its_next_run_is_complete() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        let [from, to] = [source, destination].map(|place| world.path(place));
        let total = make_tree(&from, 80, &mut Seeded(7));
        make_tree(&to.join("stray"), 1, &mut Seeded(8));
        world.start(&[]);
        let ends = way.ends(&world);
        let limit = format!("{}", total / 2);
        let line = [
            "sync", "--json", "--delete", "--limit", &limit, &ends[0], &ends[1],
        ];
        let mut running = world.begin(&line);
        running.wait_for_bytes(total / 8);
        running.signal(Signal::KILL);
        running.wait();
        assert!(to.join("stray").exists(), "{way:?}: deleted too early");
        let outcome = way.sync(&world, &["--delete"]);
        outcome.complete().says("\"resumed\":true");
        same(&from, &to);
    }
}

/// The paths that are below a directory, sorted.
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("listed") {
            let path = entry.expect("listed").path();
            found.push(path.strip_prefix(root).expect("below").to_owned());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn excluded_entries_stay_with_their_parent_directories() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        let fill = |at: &str, names: &[&str]| {
            for name in names {
                world.write(&format!("{at}/{name}"), name);
            }
        };
        fill(source, &["kept", "new.tmp", "dir/x.tmp", "dir/y"]);
        let there = [
            "old.tmp",
            "gone",
            "dir/old.tmp",
            "only/deep/a.tmp",
            "only/deep/b",
            "only/c/d",
            "cache/deep/file",
        ];
        fill(destination, &there);
        fill("judge", &there);
        world.start(&[]);
        let rules = ["--delete", "--exclude=*.tmp", "--exclude=cache/"];
        let from = world.path(source).join("");
        let rsync = Command::new("rsync")
            .arg("-a")
            .args(rules)
            .args([from, world.path("judge")])
            .output()
            .expect("rsync runs");
        assert!(rsync.status.success(), "{rsync:?}");
        let expected = paths(&world.path("judge"));
        let dry = way.sync(&world, &[&rules[..], &["--dry-run"]].concat());
        let outcome = way.sync(&world, &rules);
        outcome.complete();
        assert_eq!(paths(&world.path(destination)), expected, "{way:?}");
        assert!(expected.contains(&"only/deep/a.tmp".into()));
        let deleted = ["gone", "only/c", "only/c/d", "only/deep/b"];
        assert_eq!(of(&items(&outcome), "delete"), deleted, "{way:?}");
        assert_eq!(of(&items(&dry), "delete"), deleted);
        assert_eq!(outcome.number("deleted"), 4);
    }
}

#[test]
fn counterparts_of_what_limits_pass_over_stay_as_they_are() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        let write = |at: &str, name: &str, text: &str| world.write(&format!("{at}/{name}"), text);
        for name in ["big", "dir/big", "unknown"] {
            write(source, name, &"x".repeat(300));
        }
        write(source, "small", "small");
        for name in ["big", "dir/big", "gone"] {
            write(destination, name, "as it was");
        }
        world.start(&[]);
        let flags = ["--delete", "--max-size=100", "--verbose", "--manifest=m"];
        let outcome = way.sync(&world, &flags);
        outcome.complete();
        let to = world.path(destination);
        for name in ["big", "dir/big"] {
            assert_eq!(fs::read(to.join(name)).expect("there"), b"as it was");
        }
        let expected = ["big", "dir", "dir/big", "small"].map(PathBuf::from);
        assert_eq!(paths(&to), expected, "{way:?}");
        let items = items(&outcome);
        assert_eq!(of(&items, "delete"), ["gone"], "{way:?}");
        let reported: Vec<&str> = items.iter().map(|(_, path)| path.as_str()).collect();
        assert!(
            !reported.iter().any(|path| path.ends_with("big")),
            "{reported:?}"
        );
        let manifest = String::from_utf8(world.read("m")).expect("text");
        assert!(manifest.contains("small") && !manifest.contains("big"));
        assert_eq!(outcome.number("excluded"), 3);
        assert_eq!(outcome.number("files"), 1);
    }
}

#[test]
fn a_directory_that_has_the_name_of_what_is_passed_over_stays_with_all_in_it() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        world.write(&format!("{source}/d/big"), "x".repeat(300));
        world.write(&format!("{source}/bigger"), "x".repeat(300));
        for at in [destination, "judge"] {
            for name in [
                "d/big/deep/er/f",
                "d/bigger/f",
                "big/f",
                "bigger/f",
                "gone/f",
            ] {
                world.write(&format!("{at}/{name}"), "as it was");
            }
        }
        world.start(&[]);
        let rules = ["--delete", "--max-size=100"];
        let rsync = Command::new("rsync")
            .arg("-a")
            .args(rules)
            .args([world.path(source).join(""), world.path("judge")])
            .status();
        assert!(rsync.expect("rsync runs").success());
        let expected = paths(&world.path("judge"));
        assert!(expected.contains(&"d/big/deep/er/f".into()), "{expected:?}");
        let dry = way.sync(&world, &[&rules[..], &["--dry-run"]].concat());
        let outcome = way.sync(&world, &rules);
        outcome.complete();
        assert_eq!(paths(&world.path(destination)), expected, "{way:?}");
        let deleted = ["big", "big/f", "d/bigger", "d/bigger/f", "gone", "gone/f"];
        assert_eq!(of(&items(&outcome), "delete"), deleted, "{way:?}");
        assert_eq!(of(&items(&dry), "delete"), deleted, "{way:?}");
        // The skipped path may be the source itself.
        let mut ends = way.ends(&world);
        ends[0].push_str("/bigger");
        let line = [
            "sync",
            "--json",
            "--delete",
            "--max-size=100",
            &ends[0],
            &ends[1],
        ];
        let outcome = world.client(&line);
        assert_eq!(outcome.number("deleted"), 0, "{way:?}: {outcome:?}");
        assert_eq!(paths(&world.path(destination)), expected, "{way:?}");
    }
}
