//! Owns the tests of options of a transfer between two other machines: choices, counterparts, reports.
//! Failures of such transfers are tested in `third`.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use godwit_proto::agent::{AgentMessage as _, Started};

use super::super::data::{Seeded, make_tree};
use super::super::judge::{assert_identical as same, assert_identical_to_rsync};
use super::super::manifest::hostile_names;
use super::super::process::{Process, wait_until};
use super::super::sync::{items, of};
use super::far::{Far, random};
use super::third::{nobody_is_left, two};

/// The result of rsync for the first machine's `tree` with these flags, at `judge`; files it reads are this machine's.
fn judge(here: &Far, flags: &[&str]) -> PathBuf {
    let judge = here.path("judge");
    let status = Command::new("rsync")
        .arg("-aH")
        .args(flags)
        .args([here.home().join("tree/"), judge.join("")])
        .current_dir(here.path(""))
        .status();
    assert!(status.expect("rsync runs").success(), "{flags:?}");
    judge
}

#[test]
fn rules_and_limits_are_read_here_and_obeyed_there() {
    let (here, other) = two();
    make_tree(&here.home().join("tree"), 6, &mut Seeded(8));
    hostile_names(&here.home().join("tree"));
    for name in ["keep.tmp", "drop.tmp", "cache/one", "d/cache/two", "large"] {
        here.write(&format!("home/tree/{name}"), vec![b'x'; 4 + name.len()]);
    }
    here.write("home/tree/huge", vec![b'x'; 70_000]);
    // Only this machine has them.
    here.write("rules", "# comment\ncache/\n- *.tmp\n");
    let flags = [
        "--include=keep.tmp",
        "--exclude-from=rules",
        "--max-size=60000",
    ];
    let outcome = here.cp(&[&flags[..], &["far:tree", "other:copy"]].concat());
    outcome.complete();
    assert!(outcome.number("excluded") >= 4, "{}", outcome.said());
    let judge = judge(&here, &flags);
    assert!(judge.join("keep.tmp").exists() && !judge.join("drop.tmp").exists());
    same(&judge, &other.home().join("copy"));
    // A moment that is a file's, of this machine.
    here.write("stamp", "");
    fs::File::open(here.path("stamp"))
        .and_then(|file| file.set_modified(std::time::UNIX_EPOCH))
        .expect("set");
    let outcome = here.cp(&["--older=stamp", "far:tree", "other:old"]);
    outcome.complete();
    assert_eq!(outcome.number("bytes"), 0, "{}", outcome.said());
    nobody_is_left([&here, &other]);
}

#[test]
fn a_list_of_this_machine_is_followed_there_as_it_comes() {
    let (here, other) = two();
    let mut list = Vec::new();
    for number in 0..3_000 {
        here.write(&format!("home/tree/d{}/f{number}", number % 7), "x");
        if number % 3 == 0 {
            list.extend(format!("d{}/f{number}\0", number % 7).into_bytes());
        }
    }
    let fifo = here.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let mut process = here.start(&["--from0", "--files-from=fifo", "far:tree", "other:copy"]);
    let mut writer = fs::File::options().write(true).open(&fifo).expect("read");
    let (first, rest) = list.split_at(6);
    assert_eq!(first, b"d0/f0\0");
    writer.write_all(first).expect("taken");
    // The rest of the list waits for the file of its first name.
    let there = other.home().join("copy/d0/f0");
    wait_until(|| there.exists().then_some(())).expect("the first one comes alone");
    writer.write_all(rest).expect("taken");
    drop(writer);
    let outcome = process.wait();
    outcome.complete();
    assert_eq!(outcome.number("files"), 1_000, "{}", outcome.said());
    fs::write(here.path("list"), &list).expect("written");
    // The root itself is not in a list.
    let judge = judge(&here, &["--from0", "--files-from=list"]);
    assert_identical_to_rsync("-aHO", &judge, &other.home().join("copy"));
    nobody_is_left([&here, &other]);
}

#[test]
fn a_list_is_there_again_when_the_transfer_restarts() {
    let (here, other) = two();
    let mut list = String::new();
    for number in 0..6 {
        here.write(&format!("home/tree/f{number}"), random(4 << 20, number));
        list += &format!("f{number}\n");
    }
    here.write("list", list);
    let line = [
        "--limit=8MB",
        "--block-size=64KiB",
        "--files-from=list",
        "far:tree",
        "other:copy",
    ];
    let mut process = here.start(&line);
    process.wait_for_bytes(1 << 20);
    super::faults::kill(&here.agents(), rustix::process::Signal::KILL);
    process.wait().complete().says("\"resumed\":true");
    assert_identical_to_rsync(
        "-aHO",
        &here.home().join("tree"),
        &other.home().join("copy"),
    );
    nobody_is_left([&here, &other]);
}

#[test]
fn a_list_that_cannot_be_read_or_followed_is_reported() {
    let (here, other) = two();
    here.write("home/tree/good", "good");
    here.write("list", "good\nmissing\n../file\n");
    let line = [
        "--files-from=list",
        "--failed=failed",
        "far:tree",
        "other:copy",
    ];
    let outcome = here.cp(&line);
    outcome.expect(3, "partial").says("`../file` in the list");
    assert_eq!(outcome.failed(), ["far:tree/../file", "far:tree/missing"]);
    let names = fs::read(here.path("failed")).expect("written");
    let mut names: Vec<_> = names.split(|byte| *byte == 0).collect();
    names.sort_unstable();
    assert_eq!(names, [&b""[..], b"../file", b"missing"]);
    assert!(other.home().join("copy/good").exists());
    // A directory can be opened, and not be read.
    let outcome = here.cp(&["--files-from=home", "far:tree", "other:none"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.said());
    nobody_is_left([&here, &other]);
}

#[test]
fn failed_entries_are_listed_here_for_the_next_run() {
    let (here, other) = two();
    here.write("home/tree/good", "good");
    let odd = ["home/tree/sub/a\nb", "home/tree/c d"];
    fs::create_dir(here.path("home/tree/sub")).expect("made");
    for name in odd {
        drop(UnixListener::bind(here.path(name)).expect("a socket"));
    }
    let log = ["--failed=list", "--log-file=log", "--stats"];
    let outcome = here.cp(&[&log[..], &["far:tree", "other:copy"]].concat());
    outcome.expect(3, "partial");
    assert_eq!(outcome.number("failed"), 2);
    let reasons = fs::read_to_string(here.path("list.reasons")).expect("written");
    let mut lines: Vec<&str> = reasons.lines().collect();
    lines.sort_unstable();
    assert!(
        lines[0].starts_with("c d\tsource\tnot_regular\t"),
        "{reasons}"
    );
    assert!(
        lines[1].starts_with("sub/a\\nb\tsource\tnot_regular\t"),
        "{reasons}"
    );
    let said = fs::read_to_string(here.path("log")).expect("written");
    for event in ["started", "failed", "stats", "summary"] {
        assert!(
            said.contains(&format!("\"event\":\"{event}\"")),
            "{event}: {said}"
        );
    }
    for (name, content) in odd.iter().zip(["one", "two"]) {
        fs::remove_file(here.path(name)).expect("removed");
        here.write(name, content);
    }
    // One file for both: the list is read, and replaced at the end.
    let line = [
        "--from0",
        "--files-from=list",
        "--failed=list",
        "far:tree",
        "other:copy",
    ];
    here.cp(&line).complete();
    assert_eq!(fs::read(here.path("list")).expect("written"), b"");
    assert_identical_to_rsync(
        "-aHO",
        &here.home().join("tree"),
        &other.home().join("copy"),
    );
    nobody_is_left([&here, &other]);
}

#[test]
fn figures_of_both_other_machines_are_shown_here() {
    let (here, _other) = two();
    here.write("home/file", random(3_000_000, 1));
    let outcome = here.cp(&["--stats", "far:file", "other:"]);
    outcome.complete();
    let events = outcome.events();
    let stats = events
        .iter()
        .find(|event| event["event"] == "stats")
        .expect("told");
    assert_eq!(stats["source"]["bytes_read"], 3_000_000, "{stats}");
    assert_eq!(stats["destination"]["bytes_durable"], 3_000_000, "{stats}");
    let reported: Vec<_> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert!(
        !reported.contains(&"ended") && !reported.contains(&"entry"),
        "{reported:?}"
    );
}

#[test]
fn a_manifest_of_a_transfer_between_others_is_written_here() {
    let (here, other) = two();
    make_tree(&here.home().join("tree"), 8, &mut Seeded(4));
    hostile_names(&here.home().join("tree"));
    let line = [
        "--digest=blake3",
        "--manifest=m",
        "--manifest-sorted",
        "--sign",
        "far:tree",
        "other:",
    ];
    here.cp(&line).complete();
    // The same as a manifest of the source itself.
    let made = here.run(&[
        "manifest",
        "--digest=blake3",
        "--manifest-sorted",
        "home/tree",
        "rest",
    ]);
    assert_eq!(made.code, Some(0), "{}", made.said());
    let read = |name: &str| fs::read(here.path(name)).expect("written");
    let whole = read("rest");
    assert!(read("m").starts_with(&whole), "they differ");
    let id = here.run(&["id"]).out.trim().to_owned();
    let verify = |name: &str| {
        let line = ["verify", "--json", "--signed-by", &id, name, "other:tree"];
        here.run(&line).code
    };
    assert_eq!(verify("m"), Some(0));
    // All files exist already: digests come from reading the source, there.
    let again = here.cp(&[
        "--digest=blake3",
        "--manifest=m2",
        "--manifest-sorted",
        "far:tree",
        "other:",
    ]);
    again.complete();
    assert_eq!(again.number("bytes"), 0);
    assert_eq!(read("m2"), whole);
    // A failed entry has no line, and is counted.
    drop(UnixListener::bind(here.path("home/tree/socket")).expect("a socket"));
    let outcome = here.cp(&["--manifest=m3", "far:tree", "other:"]);
    outcome.expect(3, "partial");
    let text = String::from_utf8_lossy(&read("m3")).into_owned();
    assert!(!text.contains("socket"), "{text}");
    let end = text
        .lines()
        .find(|line| line.starts_with("#end\t"))
        .expect("an end");
    assert!(end.ends_with("\t1"), "{end}");
    fs::write(other.home().join("tree").join("new"), "x").expect("written");
    assert_eq!(
        here.run(&["verify", "--extra", "m", "other:tree"]).code,
        Some(3)
    );
    nobody_is_left([&here, &other]);
}

#[test]
fn sync_between_two_other_machines_makes_a_counterpart() {
    let (here, other) = two();
    make_tree(&here.home().join("tree"), 6, &mut Seeded(21));
    let sync = |flags: &[&str]| {
        let line = [&["sync", "--json"], flags, &["far:tree", "other:copy"]].concat();
        here.run(&line)
    };
    sync(&[]).complete();
    same(&here.home().join("tree"), &other.home().join("copy"));
    // The tree is the counterpart of the named directory, and does not go into it.
    assert!(!other.home().join("copy/tree").exists());
    other.write("home/copy/stray/deep/f", "stray");
    here.write("home/tree/new", "new");
    let flags = ["--delete", "--verbose"];
    let dry = sync(&[&flags[..], &["--dry-run"]].concat());
    dry.complete();
    assert_eq!(dry.summary()["dry_run"], true);
    assert!(other.home().join("copy/stray/deep/f").exists());
    sync(&["--delete", "--max-delete=2"])
        .expect(3, "partial")
        .says("--max-delete allows 2");
    assert!(other.home().join("copy/stray/deep/f").exists());
    other.write("home/copy/new", "older");
    fs::remove_file(other.home().join("copy/new")).expect("removed");
    let outcome = sync(&flags);
    outcome.complete();
    let (reported, before) = (items(&outcome), items(&dry));
    assert_eq!(
        of(&reported, "delete"),
        ["stray", "stray/deep", "stray/deep/f"]
    );
    assert_eq!(of(&reported, "delete"), of(&before, "delete"));
    assert_eq!(of(&before, "send"), ["new"]);
    assert_eq!(outcome.number("deleted"), 3);
    same(&here.home().join("tree"), &other.home().join("copy"));
    let usage = here.run(&[
        "sync",
        "--delete",
        "--files-from=x",
        "far:tree",
        "other:copy",
    ]);
    assert_eq!(usage.code, Some(2), "{}", usage.said());
    nobody_is_left([&here, &other]);
}

#[test]
fn an_agent_that_would_not_heed_it_all_is_not_asked() {
    let (here, other) = two();
    here.write("home/tree/f", "f");
    let old = Started {
        version_min: 1,
        version_max: 1,
        software: "godwit 0.0.9".to_owned(),
        identity: here.run(&["id"]).out.trim().to_owned(),
        addresses: vec!["127.0.0.1".to_owned()],
        port: 1,
        ..Started::default()
    };
    here.write("bin/answer", old.to_bytes().expect("valid"));
    here.script(
        "old",
        &format!(
            "cat '{}'; cat > /dev/null",
            here.path("bin/answer").display()
        ),
    );
    for flags in [
        &["cp", "--exclude=x"][..],
        &["sync"],
        &["cp", "--manifest=m"],
    ] {
        let line = [
            flags,
            &["--json", "--remote-command=old", "far:tree", "other:copy"],
        ]
        .concat();
        let outcome = Process::start(&mut here.client(None, &line)).wait();
        outcome.expect(1, "failed").says("too old");
        assert!(!other.home().join("copy").exists());
    }
}
