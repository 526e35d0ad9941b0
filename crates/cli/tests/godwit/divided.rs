//! Jobs divided into items of work, by the real binary: whole trees, large files, a huge directory, and nodes killed in the middle.
//! See the tests of the state for leases and settlements.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::data::{Seeded, first_seed, make_tree};
use super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::rig::Rig;
use super::sites::{submit, two_sites, wait_for};

const PART: u64 = 256 << 20;
const ALWAYS: [&str; 2] = ["--divide", "always"];

/// Two parts and the rest, mostly holes.
fn large(path: &Path, rest: u64) {
    let file = File::create(path).expect("made");
    file.set_len(2 * PART + rest).expect("long");
    let content: Vec<u8> = (0..4_u32 << 20).map(|at| (at % 251) as u8).collect();
    for at in [1 << 20, PART - 5, 2 * PART] {
        file.write_all_at(&content, at).expect("written");
    }
}

/// A tree with something of each kind, a huge directory and a large file.
fn fill(root: &Path, names: u32, seeded: &mut Seeded) {
    make_tree(root, 16, seeded);
    fs::create_dir_all(root.join("huge/below")).expect("made");
    for number in 0..names {
        fs::write(root.join(format!("huge/{number}")), number.to_le_bytes()).expect("written");
    }
    fs::write(root.join("huge/below/one"), "one").expect("written");
    fs::create_dir_all(root.join("deep/a/b/c")).expect("made");
    large(&root.join("deep/a/b/c/large"), 5 << 20);
}

fn ended(rig: &Rig, id: &str) -> Value {
    wait_for(rig, id, |job| !job["ended"].is_null())
}

fn log(rig: &Rig, id: &str) -> String {
    rig.admin(&["job", "log", id]).out
}

#[track_caller]
fn assert_complete(rig: &Rig, id: &str) {
    let job = ended(rig, id);
    assert_eq!(job["state"], "complete", "{job}\n{}", log(rig, id));
}

#[test]
fn a_divided_job_brings_all_that_a_transfer_brings() {
    let mut seeded = Seeded(first_seed(27_001));
    let (here, there) = two_sites();
    fill(&here.export.join("run42"), 12_000, &mut seeded);
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &ALWAYS);
    assert_complete(&here, &id);
    let [from, to] = [here.export.join("run42"), there.export.join("copy")];
    assert_identical_to_rsync("-aH", &from, &to);
    assert_no_temporaries(&there.export);
    let log = log(&here, &id);
    // The huge directory in shares, the large file in parts.
    assert!(log.contains("3 parts and 1 assembled files"), "{log}");
    assert!(
        log.contains("0 parts, 0 files and 0 scans were done at the end"),
        "{log}"
    );

    // A change, and something that only the destination has.
    fs::write(from.join("huge/7"), "other").expect("written");
    fs::write(to.join("huge/extra"), "extra").expect("written");
    let sync = ["--sync", "--setting", "delete"];
    let line = [&ALWAYS[..], &sync].concat();
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    assert_complete(&here, &id);
    assert_identical_to_rsync("-aH", &from, &to);
    // Into an existing directory, as with godwit cp.
    let id = submit(&here, "here:/data/run42/deep", "siteB:/data/copy", &ALWAYS);
    assert_complete(&here, &id);
    assert_identical_to_rsync("-aH", &from.join("deep"), &to.join("deep"));
}

#[test]
fn a_forced_job_sends_each_file_once_and_another_has_figures() {
    let (here, there) = two_sites();
    for name in ["a", "b/c", "b/d"] {
        here.write(&format!("export/set/{name}"), name);
    }
    let bring = |more: &[&str]| {
        let line = [&ALWAYS[..], more].concat();
        let id = submit(&here, "here:/data/set/.", "siteB:/data/copy", &line);
        assert_complete(&here, &id);
        (ended(&here, &id), log(&here, &id))
    };
    let (_, said) = bring(&[]);
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scripts/divided-figures.py"
    );
    let script = fs::read_to_string(script).expect("the script is there");
    let (_, line) = script.split_once("FIGURES = r\"").expect("it has a line");
    let (line, _) = line.split_once('"').expect("of one text");
    let mut rest = said.as_str();
    for words in line.split(r"(\d+)") {
        let found = rest.find(words);
        rest = &rest[found.unwrap_or_else(|| panic!("{words:?} of {line:?}: {said}"))..];
    }
    let (job, said) = bring(&["--setting", "force=true"]);
    assert!(said.contains("not divided among nodes"), "{said}");
    for of in ["moved", "summary"] {
        assert_eq!(
            (&job[of]["files"], &job[of]["bytes"]),
            (&3.into(), &7.into()),
            "{job}"
        );
    }
    assert_identical_to_rsync("-aH", &here.export.join("set"), &there.export.join("copy"));
}

#[test]
fn a_divided_job_compares_with_the_entries_of_the_destination() {
    let (here, there) = two_sites();
    let (from, to) = (here.export.join("set"), there.export.join("copy"));
    fs::create_dir_all(from.join("d")).expect("made");
    large(&from.join("d/large"), 1);
    for name in ["old", "newer", "absent"] {
        here.write(&format!("export/set/d/{name}"), "source");
    }
    let there_is = |name: &str, seconds: u64| {
        there.write(&format!("export/copy/d/{name}"), "destination's");
        let file = File::options().write(true).open(to.join("d").join(name));
        let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        file.and_then(|file| file.set_modified(time)).expect("set");
    };
    let bring = |setting: &str| {
        let line = [&ALWAYS[..], &["--setting", setting]].concat();
        let id = submit(&here, "here:/data/set/.", "siteB:/data/copy", &line);
        assert_complete(&here, &id);
        let log = log(&here, &id);
        assert!(log.contains("divided: "), "{log}");
        let content = |name: &str| fs::read(to.join("d").join(name)).ok().map(|it| it.len());
        ["large", "old", "newer", "absent"].map(content)
    };
    let (own, theirs) = (Some("source".len()), Some("destination's".len()));
    let whole = Some(fs::read(from.join("d/large")).expect("there").len());
    let future = 4_000_000_000;
    there_is("old", 1);
    assert_eq!(bring("existing"), [None, own, None, None]);
    for (name, seconds) in [("old", 1), ("newer", future), ("large", future)] {
        there_is(name, seconds);
    }
    assert_eq!(bring("update"), [theirs, own, theirs, own]);
    for name in ["absent", "large"] {
        fs::remove_file(to.join("d").join(name)).expect("ours");
    }
    there_is("old", 1);
    assert_eq!(bring("ignore-existing"), [whole, theirs, theirs, own]);
    assert_no_temporaries(&there.export);
}

#[test]
fn a_divided_job_replaces_no_entry_that_differs_if_it_was_asked_so() {
    let (here, there) = two_sites();
    fs::create_dir_all(here.export.join("set/d")).expect("made");
    large(&here.export.join("set/d/large"), 1);
    for name in ["other", "new"] {
        here.write(&format!("export/set/d/{name}"), "source");
    }
    for name in ["large", "other"] {
        there.write(&format!("export/copy/d/{name}"), "destination's");
    }
    let asked = ["--setting", "no-replace", "--retries", "0"];
    let line = [&ALWAYS[..], &asked].concat();
    let id = submit(&here, "here:/data/set/.", "siteB:/data/copy", &line);
    let job = ended(&here, &id);
    let log = log(&here, &id);
    assert_eq!(job["state"], "partial", "{job}\n{log}");
    assert_eq!(job["summary"]["failed"], 2, "{job}\n{log}");
    assert!(log.contains("divided: "), "{log}");
    for name in ["large", "other"] {
        let content = there.read(&format!("export/copy/d/{name}"));
        assert_eq!(content, b"destination's", "{name}");
    }
    assert_eq!(there.read("export/copy/d/new"), b"source");
    assert_no_temporaries(&there.export);
}

#[test]
fn a_divided_job_compares_as_it_was_asked_to() {
    let (here, there) = two_sites();
    let (from, to) = (here.export.join("set"), there.export.join("copy"));
    here.write("export/set/d/same", "same");
    here.write("export/set/d/other", "other");
    here.write("export/set/d/large", vec![7; 70 << 20]);
    let bring = |settings: &[&str]| {
        let flags = settings.iter().flat_map(|name| ["--setting", name]);
        let line: Vec<&str> = ALWAYS.into_iter().chain(flags).collect();
        let id = submit(&here, "here:/data/set/.", "siteB:/data/copy", &line);
        assert_complete(&here, &id);
        let log = log(&here, &id);
        assert!(log.contains("divided: "), "{log}");
        if settings == ["checksum"] {
            // The large file is an item, which any node may lease while another one has the rest.
            assert!(log.contains("divided: 2 scans"), "{log}");
        }
        let job = ended(&here, &id);
        ["files", "bytes"].map(|of| job["moved"][of].as_u64().unwrap_or(u64::MAX))
    };
    assert_eq!(bring(&[]), [3, 9 + (70 << 20)]);
    // Parts of a file that is there are not sent again.
    assert_eq!(bring(&[]), [0, 0]);
    // Size and time say that it is the same, and the contents say that it is not.
    for (name, content) in [("d/other", &b"OTHER"[..]), ("d/large", &[8; 70 << 20][..])] {
        let time = fs::metadata(from.join(name)).and_then(|meta| meta.modified());
        fs::write(to.join(name), content).expect("written");
        let file = File::options().write(true).open(to.join(name));
        file.and_then(|file| file.set_modified(time?)).expect("set");
    }
    assert_eq!(bring(&[]), [0, 0]);
    assert_eq!(bring(&["size-only"]), [0, 0]);
    assert_eq!(bring(&["checksum"]), [2, 5 + (70 << 20)]);
    assert_identical_to_rsync("-aH", &from, &to);
    assert_eq!(bring(&["checksum"]), [0, 0]);
    assert_no_temporaries(&there.export);
}

#[test]
fn entries_that_fail_are_reported_once_and_all_others_arrive() {
    let (here, there) = two_sites();
    for name in ["a", "b/c", "b/d"] {
        here.write(&format!("export/run42/{name}"), name);
    }
    there.write("export/copy/b/c/in the way", "a directory");
    let sync = [&ALWAYS[..], &["--sync"]].concat();
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &sync);
    let job = ended(&here, &id);
    assert_eq!(job["state"], "partial", "{job}");
    let report = here.admin(&["job", "report", &id, "--json"]);
    let report: Value = serde_json::from_str(&report.out).expect("a report");
    let failures = report["failures"].as_array().expect("failures");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0]["count"], 1, "{failures:?}");
    assert_eq!(there.read("export/copy/b/d"), b"b/d");
    assert_eq!(job["summary"]["failed"], 1, "{job}");
}

#[test]
fn a_lone_pair_is_not_divided_by_itself() {
    let (here, there) = two_sites();
    here.write("export/run42/a", "one");
    let push = submit(&here, "here:/data/run42", "siteB:/data/copy", &[]);
    assert_complete(&here, &push);
    let pull = submit(&here, "siteB:/data/copy", "here:/data/back", &[]);
    assert_complete(&here, &pull);
    assert_eq!(here.read("export/back/a"), b"one");
    for id in [push, pull] {
        let log = log(&here, &id);
        assert!(!log.contains("divided"), "{log}");
    }
    let jobs_there = there.admin(&["job", "list", "--all", "--json"]).out;
    assert_eq!(jobs_there, "", "no job runs there");
}

#[test]
fn an_indivisible_job_runs_as_one_transfer() {
    let (here, there) = two_sites();
    here.write("export/run42/a", "one");
    for (source, destination, copy) in [
        ("here:/data/run42/a", "siteB:/data/file", "export/file"),
        ("here:/data/run42", "here:/data/beside", "export/beside/a"),
    ] {
        let id = submit(&here, source, destination, &ALWAYS);
        assert_complete(&here, &id);
        let rig = if destination.starts_with("here") {
            &here
        } else {
            &there
        };
        assert_eq!(rig.read(copy), b"one");
        let log = log(&here, &id);
        assert!(
            log.contains("the job is not divided among nodes: "),
            "{log}"
        );
    }
    there.write("export/copy/extra", "extra");
    let before = ["--sync", "--setting", "delete-before=true"];
    let line = [&ALWAYS[..], &before].concat();
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    assert_complete(&here, &id);
    assert!(log(&here, &id).contains("--delete-before needs a single transfer"));
    assert!(!there.path("export/copy/extra").exists());
    assert_eq!(there.read("export/copy/a"), b"one");
    let refused = here.admin(&[
        "job",
        "submit",
        "here:/data/a",
        "siteB:/data/b",
        "--divide",
        "x",
    ]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[track_caller]
fn assert_same_file(one: &Path, other: &Path) {
    let compared = std::process::Command::new("cmp")
        .args([one, other])
        .status();
    assert!(compared.expect("cmp runs").success(), "{}", other.display());
    let changed = |path: &Path| {
        fs::metadata(path)
            .expect("there")
            .modified()
            .expect("a time")
    };
    assert_eq!(changed(one), changed(other));
}

#[test]
fn one_large_file_is_brought_in_parts_and_nothing_beside_it_changes() {
    let (here, there) = two_sites();
    fs::create_dir_all(here.export.join("run42")).expect("made");
    fs::write(here.export.join("run42/other"), "other").expect("written");
    let file = here.export.join("run42/large");
    File::create(&file)
        .and_then(|file| file.set_len(5 * PART + 7))
        .expect("long");
    let to = there.export.join("to");
    fs::create_dir_all(&to).expect("made");
    fs::set_permissions(&to, fs::Permissions::from_mode(0o701)).expect("closed");
    let id = submit(&here, "here:/data/run42/large", "siteB:/data/to", &ALWAYS);
    assert_complete(&here, &id);
    let log = log(&here, &id);
    assert!(log.contains("6 parts and 1 assembled files"), "{log}");
    assert_eq!(fs::read_dir(&to).expect("there").count(), 1);
    let mode = fs::metadata(&to).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o701);
    assert_same_file(&file, &to.join("large"));
    // Two files of some hundred MB, beside a small one, are divided as well.
    for name in ["one", "two"] {
        let file = File::create(here.export.join("run42").join(name));
        file.and_then(|file| file.set_len(400 << 20)).expect("long");
    }
    let line = [
        ["job", "submit"],
        ["here:/data/run42/one", "here:/data/run42/two"],
        ["here:/data/run42/other", "siteB:/data/to/"],
        ALWAYS,
    ];
    let outcome = here.admin(&line.concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let id = outcome.out.trim();
    assert_complete(&here, id);
    let log = self::log(&here, id);
    assert!(log.contains("4 parts and 2 assembled files"), "{log}");
    for name in ["one", "two", "other"] {
        assert_same_file(&here.export.join("run42").join(name), &to.join(name));
    }
    assert_no_temporaries(&there.export);
    // A copy of another name is no part of this.
    let id = submit(
        &here,
        "here:/data/run42/large",
        "siteB:/data/to/other",
        &ALWAYS,
    );
    assert_complete(&here, &id);
    assert_same_file(&file, &to.join("other"));
}

#[test]
fn a_divided_job_continues_if_any_node_is_killed() {
    let mut seeded = Seeded(first_seed(27_002));
    let (mut here, mut there) = two_sites();
    fill(&here.export.join("run42"), 11_000, &mut seeded);
    let line = [&ALWAYS[..], &["--limit", "12MB"]].concat();
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300 + seeded.below(1_200)));
        here.kill_daemon();
        here.serve(&[]);
        std::thread::sleep(Duration::from_millis(300 + seeded.below(1_200)));
        there.kill_daemon();
        there.serve(&[]);
    }
    assert_complete(&here, &id);
    let [from, to] = [here.export.join("run42"), there.export.join("copy")];
    assert_identical_to_rsync("-aH", &from, &to);
    assert_no_temporaries(&there.export);
    // Others may write there again.
    fs::write(from.join("later"), "later").expect("written");
    let never = ["--sync", "--divide", "never"];
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &never);
    assert_complete(&here, &id);
    assert_identical_to_rsync("-aH", &from, &to);
}

#[test]
fn a_divided_job_obeys_pause_limit_and_cancel() {
    let mut seeded = Seeded(first_seed(27_003));
    let (here, there) = two_sites();
    make_tree(&here.export.join("run42"), 24, &mut seeded);
    let line = [&ALWAYS[..], &["--limit", "1MB"]].concat();
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    let begun = || there.export.join("copy").exists();
    wait_for(&here, &id, |_| begun());
    let steer = |line: &[&str]| {
        let outcome = here.admin(line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    steer(&["job", "pause", &id]);
    steer(&["job", "limit", &id, "2MB"]);
    steer(&["job", "resume", &id]);
    wait_for(&here, &id, |job| {
        job["state"] == "running" || job["state"] == "scanning"
    });
    steer(&["job", "limit", &id, "none"]);
    assert_complete(&here, &id);
    let [from, to] = [here.export.join("run42"), there.export.join("copy")];
    assert_identical_to_rsync("-aH", &from, &to);

    let id = submit(&here, "here:/data/run42", "siteB:/data/other", &line);
    wait_for(&here, &id, |_| there.export.join("other").exists());
    steer(&["job", "cancel", &id]);
    let job = ended(&here, &id);
    assert_eq!(job["state"], "cancelled", "{job}");
    // The claim is gone with the job, at once or with its lease.
    let id = submit(
        &here,
        "here:/data/run42",
        "siteB:/data/other/",
        &["--divide", "never"],
    );
    assert_complete(&here, &id);
    assert_identical_to_rsync("-aH", &from, &there.export.join("other/run42"));
}
