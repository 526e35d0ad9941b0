//! Manifests by the real binary: equal for push, pull and local, whole or refused, signed on request.
//! Their verification against copies is in `verify`.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use super::data::{Seeded, first_seed, make_tree};
use super::rig::Rig;

/// The entries of a manifest, which must have its first and last lines.
fn lines(world: &Rig, name: &str) -> Vec<String> {
    let text = String::from_utf8(world.read(name)).expect("text");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("#godwit-manifest\t1\t"), "{text}");
    lines.remove(0);
    let digest = lines.pop().expect("a digest");
    assert!(digest.starts_with("#digest\tblake3\t"), "{digest}");
    let end = lines.pop().expect("totals");
    assert_eq!(
        end.split('\t').take(2).collect::<Vec<_>>(),
        ["#end", &lines.len().to_string()]
    );
    lines
}

fn sorted(world: &Rig, name: &str) -> Vec<String> {
    let mut lines = lines(world, name);
    lines.sort();
    lines
}

fn assert_no_draft(world: &Rig) {
    let left: Vec<_> = fs::read_dir(world.path(""))
        .expect("listed")
        .map(|entry| entry.expect("listed").file_name())
        .filter(|name| name.as_bytes().ends_with(b".part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn push_pull_and_local_write_the_same() {
    let mut world = Rig::new();
    let mut seeded = Seeded(first_seed(11));
    make_tree(&world.path("tree"), 16, &mut seeded);
    hostile_names(&world.path("tree"));
    world.start(&[]);
    let (there, all) = (world.url("tree"), world.url(""));
    let run = |manifest: &str, from: &str, to: &str| {
        let line = ["--digest", "blake3", "--manifest", manifest, from, to];
        let outcome = world.cp(&line);
        outcome.complete();
        outcome.number("skipped")
    };
    assert_eq!(run("push", "tree", &all), 0);
    let expected = sorted(&world, "push");
    assert!(expected.len() > 200, "{}", expected.len());
    assert_eq!(run("pull", &there, "back"), 0);
    assert_eq!(run("local", "tree", "here"), 0);
    assert_eq!(run("taken in", &there, "null:"), 0);
    // Everything is there already: all digests come from reading this side's copy.
    assert!(run("push again", "tree", &all) > 0);
    assert!(run("pull again", &there, ".") > 0);
    for name in ["pull", "local", "taken in", "push again", "pull again"] {
        assert_eq!(sorted(&world, name), expected, "{name}");
    }
    assert_no_draft(&world);
}

/// Names that are no text, or look like a part of the format.
pub(crate) fn hostile_names(root: &Path) {
    use std::ffi::OsStr;
    for name in [
        &b"new\nline"[..],
        b"tab\tname",
        b"back\\slash",
        b"\\n",
        b"not utf-8 \xff\xfe",
        b"#end\t1",
        b" ",
        b"...",
        b"caf\xc3\xa9",
        b"\x01\x7f\xc2\x85",
    ] {
        fs::write(root.join(OsStr::from_bytes(name)), name).expect("written");
    }
    std::os::unix::fs::symlink("to\nnowhere\t\\", root.join("odd link")).expect("made");
}

#[test]
fn sorted_manifests_are_equal_byte_for_byte_and_their_digest_is_shown() {
    let mut world = Rig::new();
    make_tree(&world.path("tree"), 8, &mut Seeded(first_seed(12)));
    hostile_names(&world.path("tree"));
    world.start(&[]);
    let line = |manifest: &str, to: &str| {
        let line = ["--manifest-sorted", "--manifest", manifest, "tree", to];
        let outcome = world.cp(&line);
        outcome.complete();
        outcome.summary()["manifest"].clone()
    };
    let reported = line("one", &world.url(""));
    assert_eq!(line("two", "copy")["digest"], reported["digest"]);
    assert_eq!(world.read("one"), world.read("two"));
    assert_eq!(reported["path"], "one");
    let names: Vec<String> = lines(&world, "one")
        .iter()
        .map(|line| line.split('\t').nth(5).expect("a name").to_owned())
        .collect();
    assert_eq!(reported["entries"], names.len());
    assert_eq!(names[0], ".");
    // Another program computes the same digest.
    let text = String::from_utf8(world.read("one")).expect("text");
    let (above, last) = text.trim_end().rsplit_once('\n').expect("lines");
    let digest = blake3::hash(format!("{above}\n").as_bytes()).to_hex();
    assert_eq!(reported["digest"], format!("blake3:{digest}"));
    assert_eq!(last, format!("#digest\tblake3\t{digest}"));
    // For people, the last line has the same facts.
    let outcome = world.client(&["cp", "--manifest", "three", "tree", "copy2"]);
    assert_eq!(outcome.code, Some(0));
    outcome
        .says("copied      tree to copy2")
        .says("manifest    three, ");
}

#[test]
fn digests_are_those_of_an_independent_program() {
    let world = Rig::new();
    make_tree(&world.path("tree"), 8, &mut Seeded(first_seed(13)));
    world
        .cp(&["--digest", "blake3", "--manifest", "m", "tree", "copy"])
        .complete();
    let mut files = 0;
    for line in lines(&world, "m") {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[0] != "f" {
            continue;
        }
        let content = fs::read(world.path("tree").join(fields[5])).expect("read");
        assert_eq!(fields[1], content.len().to_string(), "{line}");
        assert_eq!(
            fields[4],
            blake3::hash(&content).to_hex().as_str(),
            "{line}"
        );
        files += 1;
    }
    assert!(files > 50, "{files}");
}

#[test]
fn a_daemon_that_dies_meanwhile_leaves_no_trace_in_the_manifest() {
    let mut world = Rig::new();
    make_tree(&world.path("tree"), 16, &mut Seeded(first_seed(14)));
    world.start(&[]);
    let url = world.url("");
    let manifest = ["--manifest-sorted", "--manifest", "m"];
    let line = [&manifest[..], &["--limit", "20MB", "tree", &url]].concat();
    let mut client = world.begin_cp(&world.path(""), &line);
    client.wait_for_bytes(4 << 20);
    world.kill_daemon();
    world.start(&[]);
    client.wait().complete();
    let line = ["manifest", "--manifest-sorted", "tree", "rest"];
    assert_eq!(world.client(&line).code, Some(0));
    assert!(world.read("m") == world.read("rest"));
    assert_no_draft(&world);
}

#[test]
fn several_sources_stand_under_their_names() {
    let world = Rig::new();
    world.write("a/x", "1");
    world.write("b/x", "22");
    world.write("c", "333");
    world.make_dirs("to");
    world
        .cp(&["--manifest", "m", "a", "b", "c", "to"])
        .complete();
    let mut names: Vec<String> = lines(&world, "m")
        .iter()
        .map(|line| line.split('\t').nth(5).expect("a name").to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "a/x", "b", "b/x", "c"]);
}

#[test]
fn a_failed_file_has_no_line_and_the_totals_count_it() {
    let world = Rig::for_user(true);
    if !world.unprivileged() {
        return;
    }
    world.write("tree/good", "1");
    world.write("tree/bad", "2");
    world.own();
    let closed = Command::new("chmod")
        .arg("000")
        .arg(world.path("tree/bad"))
        .status();
    assert!(closed.expect("chmod runs").success());
    world
        .cp(&["--manifest", "m", "tree", "copy"])
        .expect(3, "partial");
    let text = String::from_utf8(world.read("m")).expect("text");
    assert!(
        text.contains("\tgood\n") && !text.contains("\tbad\n"),
        "{text}"
    );
    assert!(text.contains("#end\t2\t1\t1\n"), "{text}");
}

#[test]
fn a_manifest_that_cannot_be_written_stops_the_copy_before_it_begins() {
    let world = Rig::new();
    world.write("tree/x", "1");
    let outcome = world.client(&["cp", "--manifest", "no/where/m", "tree", "copy"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("no/where/m");
    assert!(!world.path("copy").exists());
    let outcome = world.client(&["cp", "--sign", "tree", "copy"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}

#[test]
fn choices_that_leave_entries_unseen_exclude_a_manifest() {
    let mut world = Rig::new();
    for tree in ["s", "export/s"] {
        for name in ["same", "newer", "missing"] {
            world.write(&format!("{tree}/{name}"), "one");
        }
    }
    for copy in ["local", "export/push", "pull"] {
        world.write(&format!("{copy}/newer"), "two");
    }
    world.start(&[]);
    let (push, pull) = (world.url("push"), world.url("s/."));
    for (from, to) in [("s/.", "local"), ("s/.", &push), (&pull, "pull")] {
        for flag in ["--existing", "--ignore-existing", "--update", "--size-only"] {
            let outcome = world.cp(&[flag, "--manifest", "m", from, to]);
            assert_eq!(outcome.code, Some(2), "{from} {flag}: {outcome:?}");
            outcome.says(flag).says("--manifest");
            assert!(!world.path("m").exists(), "{from} {flag}");
        }
        // Without them, the entries of the manifest are there.
        world
            .cp(&["--checksum", "--manifest", "m", from, to])
            .complete();
        let copy = ["verify", "--content-only", "m", to];
        assert_eq!(world.client(&copy).code, Some(0), "{from}");
        fs::remove_file(world.path("m")).expect("ours");
    }
}
