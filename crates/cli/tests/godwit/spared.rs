//! Owns the tests of entries that a transfer does not change: closed directories around a data set, devices and links that a user named.
//! The contents of a data set are tested in `metadata` and `entries`.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use godwit_api::failure::FailureCode;
use godwit_testkit::needs_root;

use super::rig::{Rig, is_root};
use super::sync::DIRECTIONS;

/// Permission bits.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o555)).expect("ours");
}

fn make(path: &Path, command: &str, more: &[&str]) {
    let made = Command::new(command).arg(path).args(more).status();
    assert!(made.expect("it runs").success(), "{}", path.display());
}

#[test]
fn a_closed_directory_around_the_data_set_stays_closed() {
    let mut world = Rig::for_user(is_root());
    world.write("f", "content");
    world.write("tree/d/x", "x");
    for name in ["here", "export/there"] {
        world.make_dirs(name);
        close(&world.path(name));
    }
    world.start(&[]);
    let url = world.url("there/");
    for (destination, name) in [("here/", "here"), (url.as_str(), "there")] {
        for source in ["f", "tree"] {
            let outcome = world.cp(&[source, destination]);
            let code = if source == "tree" { 1 } else { 3 };
            assert_eq!(outcome.code, Some(code), "{source}: {}", outcome.said());
            outcome.says("permission denied").says(name);
        }
    }
    for name in ["here", "export/there"] {
        assert_eq!(mode(&world.path(name)), 0o555, "{name}");
        let mut inside = fs::read_dir(world.path(name)).expect("open to read");
        assert!(inside.next().is_none(), "{name}");
    }
    // The export itself is not a part of the copy either.
    close(&world.export);
    for source in ["f", "tree", "tree/."] {
        let outcome = world.cp(&[source, &world.url("")]);
        let code = if source == "tree" { 1 } else { 3 };
        assert_eq!(outcome.code, Some(code), "{source}: {}", outcome.said());
        outcome.says("permission denied");
    }
    assert_eq!(mode(&world.export), 0o555);
    // A directory of the data set is opened for its entries, and closed again.
    close(&world.path("tree/d"));
    for _ in 0..2 {
        world.cp(&["--force", "tree", "copy"]).complete();
        assert_eq!(mode(&world.path("copy/d")), 0o555);
    }
}

#[test]
fn a_named_device_or_fifo_is_not_replaced() {
    let mut world = Rig::new();
    world.write("f", "content");
    world.write("tree/pipe", "content");
    symlink("f", world.path("link")).expect("made");
    make(&world.path("pipe"), "mkfifo", &[]);
    make(&world.path("export/pipe"), "mkfifo", &[]);
    let mut named = vec![("pipe".to_owned(), world.path("pipe"), "is a FIFO")];
    if is_root() {
        make(&world.path("device"), "mknod", &["c", "1", "3"]);
        named.push(("device".to_owned(), world.path("device"), "null:"));
    }
    world.start(&[]);
    let there = world.path("export/pipe");
    named.push((world.url("pipe"), there, "is a FIFO"));
    for (destination, path, words) in &named {
        for source in ["f", "link", "mem:1MiB"] {
            let outcome = world.cp(&["--force", source, destination]);
            assert_eq!(outcome.code, Some(3), "{}", outcome.said());
            outcome.says(words);
        }
        let kind = fs::symlink_metadata(path).expect("there").file_type();
        assert!(kind.is_fifo() || kind.is_char_device(), "{kind:?}");
    }
    // Inside a data set it is a copy like others.
    world.make_dirs("copy");
    make(&world.path("copy/pipe"), "mkfifo", &[]);
    world.cp(&["tree/.", "copy"]).complete();
    assert_eq!(world.read("copy/pipe"), b"content");
}

#[test]
fn reports_go_into_devices_and_where_links_lead() {
    let world = Rig::new();
    world.write("d/f", "content");
    symlink("real", world.path("link")).expect("made");
    world.write("real", "old");
    symlink("later", world.path("dangling")).expect("made");
    for name in ["link", "dangling"] {
        let outcome = world.client(&["manifest", "d", name]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
        world
            .cp(&["--force", "--manifest", name, "d/", "to"])
            .complete();
        let kind = fs::symlink_metadata(world.path(name)).expect("there");
        assert!(kind.is_symlink(), "{name}");
    }
    for name in ["real", "later"] {
        let text = String::from_utf8(world.read(name)).expect("text");
        assert!(text.contains("\tf"), "{text}");
    }
    if !needs_root() {
        return;
    }
    let device = world.path("device");
    make(&device, "mknod", &["c", "1", "3"]);
    assert_eq!(world.client(&["manifest", "d", "device"]).code, Some(0));
    let line = ["--force", "--manifest=device", "--failed=device"];
    let line = [&line[..], &["--log-file=device", "d/", "to"]].concat();
    world.cp(&line).complete();
    let there = fs::symlink_metadata(&device).expect("there");
    assert!(there.file_type().is_char_device());
    assert!(!world.path("device.reasons").exists());
    assert_eq!(
        fs::read_dir(world.path("client/spill")).map_or(0, Iterator::count),
        0
    );
}

#[test]
fn bytes_from_memory_are_never_there_already() {
    let world = Rig::new();
    for _ in 0..2 {
        let outcome = world.cp(&["mem:3MiB", "file"]);
        outcome.complete();
        assert_eq!(outcome.number("skipped"), 0);
    }
}

#[test]
fn with_delete_the_whole_makes_way_for_another_kind() {
    let mut world = Rig::new();
    world.write("file", "content");
    world.write("tree/d/x", "x");
    world.start(&[]);
    for place in ["", &world.url("")] {
        let there = |name: &str| match place {
            "" => world.path(name),
            _ => world.export.join(name),
        };
        let to = |name: &str| format!("{place}{name}");
        let sync = |line: &[&str]| world.client(&[&["sync", "--json"], line].concat());
        fs::create_dir_all(there("one/sub")).expect("made");
        fs::write(there("one/sub/old"), "old").expect("written");
        fs::write(there("two"), "old").expect("written");

        for line in [["file", &to("one")], ["tree", &to("two")]] {
            assert_eq!(sync(&line).code, Some(3), "without --delete");
            let line = [&["--delete", "--max-delete=0"], &line[..]].concat();
            assert_eq!(sync(&line).code, Some(3), "no more than allowed");
        }
        assert!(there("one/sub/old").is_file() && there("two").is_file());
        for (line, count) in [(["file", &to("one")], 3), (["tree", &to("two")], 1)] {
            for flags in [&["--delete", "-n"][..], &["--delete"]] {
                let outcome = sync(&[flags, &line].concat());
                outcome.complete();
                assert_eq!(outcome.number("deleted"), count, "{outcome:?}");
            }
        }
        assert_eq!(fs::read(there("one")).expect("a file"), b"content");
        assert_eq!(fs::read(there("two/d/x")).expect("a file"), b"x");
    }
    // A slash demands a directory.
    world.make_dirs("three");
    let outcome = world.client(&["sync", "--delete", "file", "three/"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.said());
    assert!(world.path("three").is_dir());
}

#[test]
fn nothing_is_deleted_where_what_is_excluded_keeps_a_directory_in_the_way() {
    let mut world = Rig::new();
    world.write("src/foo", "now a file");
    fs::hard_link(world.path("src/foo"), world.path("src/goo")).expect("linked");
    world.start(&[]);
    for (to, there, way) in [
        ("dst", "dst", "foo"),
        (&*world.url("dst"), "export/dst", "foo"),
        ("linked", "linked", "goo"),
    ] {
        world.write(&format!("{there}/{way}/p.bak"), "protected");
        world.write(&format!("{there}/{way}/q"), "q");
        world.write(&format!("{there}/extra"), "extra");
        for dry in [&["--dry-run"][..], &[]] {
            let line = [dry, &["--delete", "--exclude", "*.bak", "src", to]].concat();
            let outcome = world.client(&[&["sync", "--json"], &line[..]].concat());
            outcome
                .expect(3, "partial")
                .says("nothing more was deleted");
            outcome.says("may not delete").says("oo/p.bak");
            assert_eq!(outcome.number("deleted"), 0);
            assert_eq!(world.read(&format!("{there}/{way}/p.bak")), b"protected");
            assert_eq!(world.read(&format!("{there}/{way}/q")), b"q");
            assert_eq!(world.read(&format!("{there}/extra")), b"extra");
        }
        let outcome = world.client(&["sync", "--json", "--delete", "src", to]);
        outcome.complete();
        assert_eq!(outcome.number("deleted"), 4, "{outcome:?}");
        assert_eq!(world.read(&format!("{there}/{way}")), b"now a file");
    }
}

/// The file must be reported, because it may be data of that name, or another transfer may be writing it.
#[test]
fn names_like_temporary_ones_are_reported() {
    let mut world = Rig::new();
    world.write("tree/f", "content");
    world.start(&[]);
    world.cp(&["tree/", "whole"]).complete();
    let name = format!(".godwit-{}", "0a".repeat(16));
    world.write(&format!("tree/d/{name}"), "data");
    world.write(&format!("tree/{name}/x"), "data");
    for destination in ["to", &world.url("to")] {
        let outcome = world.cp(&["tree/", destination]);
        outcome
            .expect(3, "partial")
            .expect_code(FailureCode::Name)
            .says("temporary names");
        let failed = outcome.failed();
        assert_eq!(failed.len(), 2, "{failed:?}");
        assert!(
            failed.iter().all(|path| path.ends_with(&name)),
            "{failed:?}"
        );
        let flags = ["--exclude", ".godwit-*", "tree/", destination];
        world.cp(&flags).complete();
    }
    let outcome = world.client(&["manifest", "tree", "list"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.said());
    outcome.says(&name);
    // Without a look at the source, nothing is deleted.
    world.make_dirs("whole/extra");
    let outcome = world.client(&["sync", "--delete", "tree", "whole"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.said());
    assert!(world.path("whole/extra").is_dir());
}

#[test]
fn hard_links_between_sources_are_counted() {
    let mut world = Rig::new();
    world.write("h/a", "content");
    for name in ["b", "c", "d"] {
        fs::hard_link(world.path("h/a"), world.path("h").join(name)).expect("linked");
    }
    world.start(&[]);
    let inode = |path: &Path| fs::metadata(path).expect("there").ino();
    for destination in ["to/", &world.url("to/")] {
        let outcome = world.cp(&["h/a", "h/b", "h/c", destination]);
        outcome
            .complete()
            .says("2 entries arrived without the hard link");
        assert_eq!(outcome.summary()["not_kept"]["hard_link"], 2);
        let outcome = world.cp(&["--force", "h", "h/a", destination]);
        outcome
            .complete()
            .says("1 entry arrived without the hard link");
        let outcome = world.cp(&["h", destination]);
        assert_eq!(outcome.summary()["not_kept"]["hard_link"], 0);
    }
    for to in [world.path("to/h"), world.export.join("to/h")] {
        assert_eq!(inode(&to.join("a")), inode(&to.join("d")));
    }
}

/// An entry of another kind exists, too: `--ignore-existing` keeps it with all its contents, as rsync does.
#[test]
fn an_existing_entry_of_another_kind_stays_with_its_contents() {
    let alone = &["--ignore-existing"][..];
    for flags in [alone, &["--existing", "--ignore-existing"]] {
        for way in DIRECTIONS {
            let mut world = Rig::for_user(false);
            let (source, destination) = way.places();
            world.write(&format!("{source}/file"), "file");
            symlink("nowhere", world.path(source).join("link")).expect("made");
            world.write(&format!("{source}/directory/in/it"), "it");
            for name in ["file", "link"] {
                world.write(&format!("{destination}/{name}/deep/kept"), "kept");
            }
            world.write(&format!("{destination}/directory"), "kept");
            world.write(&format!("{destination}/extra"), "goes");
            world.start(&[]);
            let outcome = way.sync(&world, &[&["--delete"], flags].concat());
            for name in ["file/deep/kept", "link/deep/kept", "directory"] {
                let content = world.read(&format!("{destination}/{name}"));
                assert_eq!(content, b"kept", "{flags:?} {outcome:?}");
            }
            if flags == alone {
                // The entries below `directory` have no place, and are named as failed.
                outcome.expect(3, "partial");
            } else {
                outcome.complete();
                assert!(!world.path(destination).join("extra").exists());
            }
        }
    }
}

#[test]
fn cp_compares_in_the_same_ways() {
    let mut world = Rig::for_user(false);
    world.write("src/f", "source");
    world.write("export/dst/f", "target");
    world.start(&[]);
    let url = world.url("dst");
    for flag in ["--ignore-existing", "--size-only", "--dry-run"] {
        world.cp(&[flag, "src/f", &url]).complete();
        assert_eq!(world.read("export/dst/f"), b"target", "{flag}");
    }
    world.cp(&["--checksum", "src/f", &url]).complete();
    assert_eq!(world.read("export/dst/f"), b"source");
}

#[test]
fn an_entry_that_differs_is_not_replaced_and_fails_the_other() {
    for way in DIRECTIONS {
        let mut world = Rig::for_user(false);
        let (source, destination) = way.places();
        world.write(&format!("{source}/new"), "new");
        for name in ["other", "same", "deep/other", "kind"] {
            world.write(&format!("{source}/{name}"), "source");
        }
        symlink("source", world.path(source).join("link")).expect("made");
        world.start(&[]);
        world.make_dirs(destination);
        way.sync(&world, &[]).complete();
        for name in ["other", "deep/other"] {
            world.write(&format!("{destination}/{name}"), "destination");
        }
        for name in ["link", "kind"] {
            let path = world.path(destination).join(name);
            fs::remove_file(&path).expect("ours");
            symlink("destination", &path).expect("made");
        }
        fs::remove_file(world.path(destination).join("new")).expect("ours");
        let outcome = way.sync(&world, &["--no-replace"]);
        outcome.expect(3, "partial");
        for name in ["other", "deep/other", "link", "kind"] {
            outcome.says(name);
        }
        assert_eq!(outcome.number("failed"), 4, "{way:?} {outcome:?}");
        for name in ["other", "deep/other"] {
            let content = world.read(&format!("{destination}/{name}"));
            assert_eq!(content, b"destination", "{way:?} {name}");
        }
        for name in ["link", "kind"] {
            let target = fs::read_link(world.path(destination).join(name));
            let target = target.expect("a link");
            assert_eq!(target, Path::new("destination"), "{way:?} {name}");
        }
        assert_eq!(world.read(&format!("{destination}/new")), b"new");
        for flag in ["--delete", "--force"] {
            let outcome = way.sync(&world, &["--no-replace", flag]);
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            outcome.says("contradict");
        }
        way.sync(&world, &[]).complete();
        assert_eq!(world.read(&format!("{destination}/other")), b"source");
    }
}
