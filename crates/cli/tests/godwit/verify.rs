//! Copies checked by manifests, here and at a daemon, by the real binary.
//! Making manifests is tested in `manifest`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use serde_json::Value;

use super::data::{Seeded, first_seed, make_tree};
use super::manifest::hostile_names;
use super::process::Outcome;
use super::process::wait_until;
use super::rig::{Rig, is_root};

/// A tree, its copies here and at the daemon, and a manifest of it.
fn world(digest: &str) -> Rig {
    let mut world = Rig::new();
    make_tree(&world.path("tree"), 16, &mut Seeded(first_seed(21)));
    hostile_names(&world.path("tree"));
    world.start(&[]);
    let line = [
        "--digest",
        digest,
        "--manifest",
        "m",
        "tree",
        &world.url(""),
    ];
    world.cp(&line).complete();
    world.cp(&["tree", "copy"]).complete();
    world
}

/// Locations of the copies, as paths and as arguments of `verify`.
fn copies(world: &Rig) -> [(PathBuf, String); 2] {
    [
        (world.path("copy"), "copy".to_owned()),
        (world.path("export/tree"), world.url("tree")),
    ]
}

fn verify(world: &Rig, more: &[&str], copy: &str) -> Outcome {
    let line = [&["verify", "--json"], more, &["m", copy]].concat();
    world.client(&line)
}

/// The findings, as kind and path. Progress events are left out, since their count depends on time.
fn found(outcome: &Outcome) -> Vec<(String, String)> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or("?").to_owned();
    let mut found: Vec<_> = outcome
        .events()
        .iter()
        .filter(|event| event["event"] != "summary" && event["event"] != "progress")
        .map(|event| match event["event"].as_str() {
            Some("different") => (text(event, "kind"), text(event, "path")),
            _ => (text(event, "event"), text(event, "path")),
        })
        .collect();
    found.sort();
    found
}

fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt as _;
    let meta = fs::metadata(path).expect("there");
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    // As a failing disk would do it: no metadata changes.
    file.set_modified(meta.modified().expect("known"))
        .expect("set");
}

#[test]
fn an_equal_copy_is_the_same_here_and_there() {
    for digest in ["blake3", "crc64-nvme"] {
        let world = world(digest);
        for (_, copy) in copies(&world) {
            let outcome = verify(&world, &["--extra"], &copy);
            outcome.expect(0, "same");
            assert_eq!(found(&outcome), [], "{copy}");
            assert!(outcome.number("entries") > 200);
            assert!(outcome.number("bytes") > 16 << 20);
        }
    }
}

#[test]
fn each_difference_is_named_here_and_there() {
    let world = world("blake3");
    for (path, copy) in copies(&world) {
        let whole = verify(&world, &[], &copy).number("bytes");
        let bytes = fs::metadata(path.join("large-1")).expect("there").len();
        flip(&path.join("large-1"), bytes - 1);
        flip(&path.join("medium-0"), 0);
        fs::remove_file(path.join("d2/e2/small-2")).expect("removed");
        fs::set_permissions(path.join("large-2"), fs::Permissions::from_mode(0o600)).expect("set");
        fs::remove_file(path.join("link")).expect("removed");
        std::os::unix::fs::symlink("large-9", path.join("link")).expect("made");
        fs::write(path.join("d3/e3/small-3"), "another size").expect("written");
        fs::remove_file(path.join("new\nline")).expect("removed");
        fs::create_dir(path.join("new\nline")).expect("made");
        fs::write(path.join("not asked for"), "").expect("written");
        let outcome = verify(&world, &["--content-only", "--extra"], &copy);
        outcome
            .expect(3, "different")
            .expect_code(FailureCode::Different)
            .expect_code(FailureCode::Size)
            .expect_code(FailureCode::Metadata);
        let pair = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        let mut expected = vec![
            pair("content", "large-1"),
            pair("content", "d0/twin"),
            pair("content", "medium-0"),
            pair("missing", "d2/e2/small-2"),
            pair("metadata", "link"),
            pair("size", "d3/e3/small-3"),
            pair("type", "new\nline"),
            pair("extra", "not asked for"),
        ];
        let mut all = found(&outcome);
        // One file under two names: the first name has the line of the file.
        all.retain(|(_, name)| name != "large-1" && name != "d0/twin");
        expected.retain(|(_, name)| name != "large-1" && name != "d0/twin");
        expected.sort();
        assert_eq!(all, expected, "{copy}");
        outcome.says("its contents differ");
        // Files of another size or kind, and missing files, are not read, and do not count as read.
        let unread: u64 = ["d2/e2/small-2", "d3/e3/small-3", "new\nline"]
            .map(|name| {
                fs::metadata(world.path("tree").join(name))
                    .expect("there")
                    .len()
            })
            .iter()
            .sum();
        assert_eq!(outcome.number("bytes"), whole - unread, "{copy}");
        let with_metadata = found(&verify(&world, &[], &copy));
        assert!(
            with_metadata.contains(&pair("metadata", "large-2")),
            "{with_metadata:?}"
        );
    }
}

#[test]
fn a_damaged_manifest_judges_nothing_and_its_line_is_named() {
    let world = world("blake3");
    let whole = world.read("m");
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let count = lines.len();
    let check = |bytes: Vec<u8>, words: &str| {
        world.write("m", bytes);
        for (_, copy) in copies(&world) {
            let outcome = verify(&world, &[], &copy);
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            outcome.says(words);
            assert!(!outcome.out.contains("summary"), "{outcome:?}");
        }
    };
    check(lines[..count - 1].concat(), &format!("m: line {count}: "));
    check(
        lines[..count / 2].concat(),
        &format!("m: line {}: ", count / 2 + 1),
    );
    let without_one = [&lines[..2], &lines[3..]].concat().concat();
    check(without_one, &format!("m: line {}: ", count - 2));
    let mut edited = lines[3].to_vec();
    edited[0] = b'x';
    let edited = [&lines[..3], &[&edited[..]], &lines[4..]].concat().concat();
    check(edited, "m: line 4: ");
}

#[test]
fn signatures_count_for_their_signer_only() {
    let mut world = Rig::new();
    world.write("tree/x", "1");
    world.start(&[]);
    let signer = world.client(&["id"]).out.trim().to_owned();
    let other = world.identity.clone();
    world.cp(&["--manifest", "m", "tree", "copy"]).complete();
    let outcome = verify(&world, &["--signed-by", &signer], "copy");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("not signed");
    let line = ["manifest", "--sign", "--manifest-sorted", "tree", "m"];
    assert_eq!(world.client(&line).code, Some(0));
    verify(&world, &["--signed-by", &signer], "copy").expect(0, "same");
    let outcome = verify(&world, &["--signed-by", &other], "copy");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("the manifest is signed by");
    // The signature of another manifest, under the name of the same signer.
    let text = String::from_utf8(world.read("m")).expect("text");
    let signature = text.lines().last().expect("a line").to_owned();
    world.write("tree/y", "2");
    let line = ["manifest", "tree", "m"];
    assert_eq!(world.client(&line).code, Some(0));
    let unsigned = String::from_utf8(world.read("m")).expect("text");
    world.write("m", format!("{unsigned}{signature}\n"));
    let outcome = verify(&world, &[], "tree");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("the signature is not valid");
}

#[test]
fn a_tree_at_rest_has_the_manifest_of_its_transfer() {
    let world = world("blake3");
    let line = [
        "manifest",
        "--digest",
        "blake3",
        "--manifest-sorted",
        "tree",
        "rest",
    ];
    assert_eq!(world.client(&line).code, Some(0));
    let line = [
        "--digest",
        "blake3",
        "--manifest-sorted",
        "--manifest",
        "moved",
        "tree",
        "copy3",
    ];
    world.cp(&line).complete();
    assert_eq!(world.read("rest"), world.read("moved"));
}

#[test]
fn one_file_is_a_data_set_too() {
    let mut world = Rig::new();
    world.write("x", "1");
    world.start(&[]);
    world
        .cp(&["--manifest", "m", "x", &world.url("y")])
        .complete();
    verify(&world, &[], &world.url("y")).expect(0, "same");
    verify(&world, &[], "x").expect(0, "same");
    let outcome = verify(&world, &[], &world.url("z"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("data/z does not exist");
    assert_eq!(verify(&world, &[], "nowhere").code, Some(1));
    assert_eq!(verify(&world, &[], "null:").code, Some(2));
}

#[test]
fn a_client_without_the_read_right_may_not_verify() {
    let mut world = Rig::new();
    world.write("tree/x", "1");
    world.start(&[]);
    world
        .cp(&["--manifest", "m", "tree", &world.url("")])
        .complete();
    let us = world.client(&["id"]).out;
    assert_eq!(world.admin(&["access", "deny", us.trim()]).code, Some(0));
    let outcome = verify(&world, &[], &world.url("tree"));
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    let line = ["access", "allow", us.trim(), "--all-exports", "--write"];
    assert_eq!(world.admin(&line).code, Some(0));
    let outcome = verify(&world, &[], &world.url("tree"));
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    outcome.says("you may not read from");
}

#[test]
fn the_node_records_a_verification_that_found_a_difference() {
    let mut world = Rig::new();
    world.write("tree/x", "1");
    world.write("tree/y", "2");
    world.start(&[]);
    world
        .cp(&["--manifest", "m", "tree", &world.url("")])
        .complete();
    verify(&world, &[], &world.url("tree")).expect(0, "same");
    fs::remove_file(world.path("export/tree/x")).expect("there");
    verify(&world, &["--content-only"], &world.url("tree")).expect(3, "different");
    let until = Instant::now() + Duration::from_secs(60);
    let records = loop {
        let records = world.admin(&["accounting", "--json"]).out;
        let records = records.lines().map(|line| {
            let record: Value = serde_json::from_str(line).expect("a record");
            (record["code"].clone(), record["failed"].clone())
        });
        let records: Vec<(Value, Value)> = records.collect();
        // The client may end before the node has written its record.
        if records.len() >= 3 || Instant::now() > until {
            break records;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let complete = (Value::from("complete"), Value::from(0));
    let different = (Value::from("different"), Value::from(1));
    assert_eq!(records, [complete.clone(), complete, different]);
}

#[test]
fn a_verification_continues_where_it_was_when_the_daemon_comes_back() {
    // More directories than a daemon receives before the client has read its answers.
    const DIRECTORIES: u32 = 40;
    const FILES: u32 = 1000;
    let mut world = Rig::new();
    for directory in 0..DIRECTORIES {
        // One in ten files of the copy exists.
        for (place, step) in [("tree", 1), ("export/tree", 10)] {
            world.make_dirs(&format!("{place}/{directory}"));
            for file in (0..FILES).step_by(step) {
                fs::write(world.path(format!("{place}/{directory}/{file}")), "").expect("made");
            }
        }
    }
    world.start(&[]);
    assert_eq!(world.client(&["manifest", "tree", "m"]).code, Some(0));
    // The findings do not fit into a pipe. Until the test reads on, the client is not at its end, and takes no more answers.
    let mut client = world
        .client_command()
        .args(["verify", "--json", "--content-only", "m"])
        .arg(world.url("tree"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said = BufReader::new(client.stdout.take().expect("piped"));
    let mut text = String::new();
    said.read_line(&mut text).expect("text");
    world.kill_daemon();
    world.start(&[]);
    said.read_to_string(&mut text).expect("text");
    let outcome = Outcome {
        code: client.wait().expect("ours").code(),
        out: text,
        complaint: String::new(),
    };
    outcome.expect(3, "different");
    let found = found(&outcome);
    let mut names: Vec<&String> = found.iter().map(|(_, name)| name).collect();
    names.sort();
    names.dedup();
    let is_there = |name: &str| {
        let file = name.rsplit('/').next().and_then(|file| file.parse().ok());
        file.is_none_or(|file: u32| file.is_multiple_of(10))
    };
    let wrong: Vec<_> = found.iter().filter(|(_, name)| is_there(name)).collect();
    assert!(wrong.is_empty(), "{wrong:?} is there");
    let missing = (DIRECTORIES * (FILES - FILES / 10)) as usize;
    assert_eq!((found.len(), names.len()), (missing, missing));
    assert!(found.iter().all(|(kind, _)| kind == "missing"));
    let entries = u64::from(1 + DIRECTORIES * (1 + FILES));
    assert_eq!(outcome.number("entries"), entries);
}

#[test]
fn unreadable_files_are_named_and_do_not_count_as_equal() {
    let mut world = Rig::for_user(is_root());
    let names = ["open", "closed", "shut/below", "closed large"];
    for copy in ["copy", "export/copy"] {
        for name in names {
            let bytes = if name == "closed large" {
                3 << 20
            } else {
                1000
            };
            world.write(&format!("{copy}/{name}"), vec![7; bytes]);
        }
    }
    assert_eq!(world.client(&["manifest", "copy", "m"]).code, Some(0));
    world.start(&[]);
    for (path, copy) in [
        (world.path("copy"), "copy".to_owned()),
        (world.path("export/copy"), world.url("copy")),
    ] {
        verify(&world, &["--content-only"], &copy).expect(0, "same");
        for name in ["closed", "shut", "closed large"] {
            let closed = fs::Permissions::from_mode(0o000);
            fs::set_permissions(path.join(name), closed).expect("ours");
        }
        let outcome = verify(&world, &["--content-only"], &copy);
        outcome.expect(3, "different").says("permission denied");
        let unread = ["closed", "closed large", "shut/below"];
        let unread = unread.map(|name| ("unread".to_owned(), name.to_owned()));
        assert_eq!(found(&outcome), unread, "{copy}");
        assert_eq!(outcome.number("bytes"), 1000, "{copy}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_named() {
    let world = Rig::new();
    world.write("copy/large", vec![7; 128 << 20]);
    world.write("copy/small", "small");
    assert_eq!(world.client(&["manifest", "copy", "m"]).code, Some(0));
    let large = world.path("copy/large").canonicalize().expect("there");
    // The file may be read to its end before the daemon is held, so the test tries more than once.
    let changed = (0..20).any(|_| {
        let line = ["verify", "--json", "--content-only", "--threads=1"];
        let mut reader = world.begin(&[&line[..], &["m", "copy"]].concat());
        let descriptors = PathBuf::from(format!("/proc/{}/fd", reader.id()));
        let has_it_open = || {
            let mut all = fs::read_dir(&descriptors).ok()?.flatten();
            let found = all.any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == large));
            found.then_some(())
        };
        let ended = std::cell::Cell::new(false);
        let _ = wait_until(|| {
            ended.set(reader.has_ended());
            has_it_open().or_else(|| ended.get().then_some(()))
        });
        if !ended.get() {
            reader.signal(rustix::process::Signal::STOP);
            // The same length and content: only the state of the file shows the change.
            flip(&large, 0);
            flip(&large, 0);
            reader.signal(rustix::process::Signal::CONT);
        }
        let outcome = reader.wait();
        match outcome.code {
            Some(0) => false,
            _ => {
                outcome
                    .expect(3, "different")
                    .expect_code(FailureCode::Changed)
                    .says("changed while it was");
                let expected = [("changed".to_owned(), "large".to_owned())];
                assert_eq!(found(&outcome), expected);
                true
            }
        }
    });
    assert!(changed, "it was always read before it could change");
}
