//! Jobs in trouble, by the real binary: no room, missing sources, a peer that is away, a full or damaged disk under the state.
//! Kills no node; `kills` does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use godwit_sys::shutdown::Shutdown;
use rustix::process::Signal;
use serde_json::Value;

use super::full::unshare;
use super::power::Disk;
use super::process::{Outcome, wait_until};
use super::rest::Caller;
use super::rig::Rig;

const MIB: usize = 1 << 20;

/// Time for automatic work of a node on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs a command at the node.
fn at(rig: &Rig, line: &[&str]) -> Outcome {
    rig.admin(line)
}

#[track_caller]
fn submit(rig: &Rig, line: &[&str]) -> String {
    let outcome = at(rig, &[&["job", "submit"], line].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.out.trim().to_owned()
}

#[track_caller]
fn wait_for(rig: &Rig, id: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = at(rig, &["job", "show", id, "--json"]);
        match serde_json::from_str(&outcome.out) {
            Ok(job) if is_it(&job) => return job,
            _ => assert!(Instant::now() < until, "it does not come: {outcome:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ended(job: &Value) -> bool {
    !job["ended"].is_null()
}

fn has_reason(job: &Value, code: &str) -> bool {
    job["reason"]["code"] == code
}

/// A node with a small file system mounted at `directory`, and that directory as the test sees it; None if the user may not mount.
pub(super) fn with_mount(
    rig: &mut Rig,
    directory: &Path,
    size: &str,
    more: &[&str],
) -> Option<PathBuf> {
    let unshare = unshare()?;
    let script = format!(
        "mkdir -p {0} && mount -t tmpfs -o size={size} none {0} && exec \"$@\"",
        directory.display()
    );
    rig.wrap_daemon([unshare.as_slice(), &["sh", "-c", &script, "sh"]].concat());
    rig.serve(more);
    let root = PathBuf::from(format!("/proc/{}/root", rig.daemon().id()));
    Some(root.join(directory.strip_prefix("/").expect("absolute")))
}

#[test]
fn a_job_that_does_not_fit_waits_and_continues_once_there_is_room() {
    let mut rig = Rig::new();
    rig.write("source/large", vec![7; 24 * MIB]);
    rig.write("source/small", "small");
    let source = format!("source={}", rig.path("source").display());
    let export = rig.export.clone();
    let Some(there) = with_mount(&mut rig, &export, "32m", &["--export", &source]) else {
        return;
    };
    fs::write(there.join("ballast"), vec![0; 16 * MIB]).expect("written");
    let id = submit(&rig, &["here:/source/.", "here:/data/to"]);
    let waits = wait_for(&rig, &id, |job| has_reason(job, "no_space"));
    assert_eq!(waits["state"], "queued", "{waits}");
    assert!(!waits["next_attempt"].is_null(), "{waits}");
    let why = waits["reason"]["text"].as_str().unwrap_or_default();
    assert!(
        why.contains("here:/data/to") && why.contains("free there"),
        "{why}"
    );
    fs::remove_file(there.join("ballast")).expect("ours");
    let done = wait_for(&rig, &id, ended);
    assert_eq!(done["state"], "complete", "{done}");
    let large = fs::read(there.join("to/large")).expect("arrived");
    assert!(large == vec![7; 24 * MIB]);
}

#[test]
fn a_job_that_may_not_be_tried_again_names_what_found_no_room() {
    let mut rig = Rig::new();
    rig.write("source/large", vec![7; 24 * MIB]);
    rig.write("source/small", "small");
    let source = format!("source={}", rig.path("source").display());
    let export = rig.export.clone();
    if with_mount(&mut rig, &export, "16m", &["--export", &source]).is_none() {
        return;
    }
    let line = ["here:/source/.", "here:/data/to", "--retries", "0"];
    let id = submit(&rig, &line);
    let done = wait_for(&rig, &id, ended);
    let reported = (done["state"].as_str(), done["reason"]["code"].as_str());
    // Stopped before the storage was full, or by it.
    let whole = [
        (Some("partial"), Some("entries_failed")),
        (Some("failed"), Some("retries_exhausted")),
    ];
    assert!(whole.contains(&reported), "{done}");
    let report = at(&rig, &["job", "report", &id]).out;
    assert!(
        report.contains("space") || report.contains("room"),
        "{report}"
    );
}

#[test]
fn a_missing_source_is_a_failed_entry_at_once() {
    let mut rig = Rig::new();
    rig.write("export/a", "alpha");
    rig.serve(&[]);
    let line = ["here:/data/a", "here:/data/missing", "here:/data/to/"];
    let id = submit(&rig, &line);
    let done = wait_for(&rig, &id, ended);
    assert_eq!(done["state"], "partial", "{done}");
    assert_eq!(done["attempts"], 1, "{done}");
    assert_eq!(rig.read("export/to/a"), b"alpha");
    let report = at(&rig, &["job", "report", &id, "--json"]).out;
    let report: Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(report["failures"][0]["reason"]["code"], "not_found");
    assert_eq!(report["failures"][0]["count"], 1);
    // Nothing else was named, so nothing useful was done.
    let id = submit(&rig, &["here:/data/missing", "here:/data/to/"]);
    let done = wait_for(&rig, &id, ended);
    assert_eq!(done["state"], "failed", "{done}");
    assert_eq!(done["attempts"], 1, "{done}");
    assert!(has_reason(&done, "no_source"), "{done}");
}

#[test]
fn a_copy_is_verified_by_a_job() {
    let mut rig = Rig::new();
    rig.write("export/run42/a", "alpha");
    rig.write("export/run42/b", "bravo");
    rig.serve(&[]);
    let manifest = rig.client(&["manifest", "export/run42", "export/list"]);
    assert_eq!(manifest.code, Some(0), "{manifest:?}");
    let line = [
        "job",
        "submit",
        "--verify",
        "here:/data/list",
        "here:/data/run42",
        "--wait",
    ];
    assert_eq!(at(&rig, &line).code, Some(0));
    rig.write("export/run42/b", "BRAVO");
    let outcome = at(&rig, &line);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let id = outcome.out.lines().next().expect("an id");
    let report = at(&rig, &["job", "report", id]).out;
    assert!(
        report.contains("1 entry failed: ") && report.contains("    b"),
        "{report}"
    );
}

#[test]
fn a_job_whose_peer_is_away_says_so_until_its_deadline() {
    let (mut here, mut there) = (Rig::new(), Rig::new());
    here.write("export/a", "alpha");
    here.serve(&[]);
    there.serve(&[]);
    let grant = [
        "access",
        "allow",
        &here.identity,
        "--all-exports",
        "--read",
        "--write",
    ];
    assert_eq!(there.admin(&grant).code, Some(0));
    let add = [
        "site",
        "add",
        "siteB",
        there.address(),
        "--identity",
        &there.identity,
    ];
    assert_eq!(at(&here, &add).code, Some(0));
    there.end_daemon(Signal::TERM);
    let id = submit(&here, &["here:/data/a", "siteB:/data/a"]);
    let waits = wait_for(&here, &id, |job| !job["next_attempt"].is_null());
    assert_eq!(waits["state"], "queued", "{waits}");
    assert!(has_reason(&waits, "unreachable"), "{waits}");
    let list = at(&here, &["job", "list"]).out;
    assert!(
        list.contains("    waits since ") && list.contains("; next attempt "),
        "{list}"
    );
    let tried = (0..10).find_map(|_| {
        wait_for(&here, &id, |job| !job["next_attempt"].is_null());
        let tried = at(&here, &["job", "retry", &id, "--json"]);
        // An attempt may have begun meanwhile.
        (tried.code == Some(0)).then_some(tried.out)
    });
    let tried: Value = serde_json::from_str(&tried.expect("the job waits")).expect("a job");
    // The attempt may have begun before the answer.
    let begun = tried["state"] != "queued";
    assert!(begun || has_reason(&tried, "retried_by_user"), "{tried}");
    assert!(tried["next_attempt"].is_null(), "{tried}");
    let more = tried["attempts"].as_u64().map(|attempts| attempts + 1);
    wait_for(&here, &id, |job| job["attempts"].as_u64() >= more);
    // The deadline of the second job comes before its next attempt.
    let line = ["here:/data/a", "siteB:/data/b", "--deadline", "2s"];
    let late = submit(&here, &line);
    let failed = wait_for(&here, &late, ended);
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(has_reason(&failed, "deadline_passed"), "{failed}");
    there.serve(&[]);
    let done = wait_for(&here, &id, ended);
    assert_eq!(done["state"], "complete", "{done}");
    assert_eq!(there.read("export/a"), b"alpha");

    // The peer goes away meanwhile. The job keeps trying, and its row says so.
    here.write("export/large", vec![7; 4 * MIB]);
    let line = ["here:/data/large", "siteB:/data/large", "--limit", "1MiB"];
    let id = submit(&here, &line);
    wait_for(&here, &id, |job| {
        job["progress"]["bytes"].as_u64() > Some(0)
    });
    there.kill_daemon();
    let lost = wait_for(&here, &id, |job| has_reason(job, "connection_lost"));
    assert_eq!(lost["state"], "running", "{lost}");
    let list = at(&here, &["job", "list"]).out;
    assert!(list.contains("    No connection since "), "{list}");
    there.serve(&[]);
    let done = wait_for(&here, &id, ended);
    assert_eq!(done["state"], "complete", "{done}");
    assert_eq!(there.read("export/large"), vec![7; 4 * MIB]);
}

#[test]
fn a_full_disk_under_the_state_stops_changes_and_loses_nothing() {
    let mut rig = Rig::new();
    rig.write("export/large", vec![7; 4 * MIB]);
    let state = rig.daemon_home.join("state");
    let Some(state) = with_mount(&mut rig, &state, "128m", &[]) else {
        return;
    };
    let id = submit(
        &rig,
        &["here:/data/large", "here:/data/copy", "--limit", "1MiB"],
    );
    wait_for(&rig, &id, |job| job["progress"]["bytes"].as_u64() > Some(0));
    let monitor = Caller::admin(&rig);
    assert_eq!(monitor.is_ready(), Some(true));
    let ballast = state.join("ballast");
    fill(&ballast);
    assert_eq!(monitor.is_ready(), Some(false));
    let refused = at(
        &rig,
        &["job", "submit", "here:/data/large", "here:/data/other"],
    );
    assert_ne!(refused.code, Some(0), "{refused:?}");
    refused.says("make room");
    // A running job continues, though its end cannot be recorded yet.
    let until = Instant::now() + DEADLINE;
    while !rig.path("export/copy").exists() {
        assert!(Instant::now() < until, "it stands still");
        std::thread::sleep(Duration::from_millis(50));
    }
    let listed = at(&rig, &["job", "list", "--all"]);
    assert!(listed.out.contains(&id), "{listed:?}");
    assert_eq!(monitor.is_ready(), Some(false));
    fs::remove_file(&ballast).expect("ours");
    assert_eq!(monitor.is_ready(), Some(true));
    let done = wait_for(&rig, &id, ended);
    assert_eq!(done["state"], "complete", "{done}");
    assert_eq!(done["attempts"], 1, "{done}");
    assert_eq!(rig.read("export/copy"), vec![7; 4 * MIB]);
    let id = submit(&rig, &["here:/data/large", "here:/data/other"]);
    assert_eq!(wait_for(&rig, &id, ended)["state"], "complete");
}

/// The device goes away: each write fails from then on, and so does each read of what the memory does not hold.
#[test]
fn a_node_whose_disk_fails_is_not_ready_from_the_first_failure_on() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let Some(disk) = Disk::new(directory.path()) else {
        // Only a superuser can mount such a file system.
        return;
    };
    let home = directory.path().join("disk/home");
    let rigs = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::with(rigs, None, Some(&home));
    rig.write("export/a", "alpha");
    rig.serve(&[]);
    let monitor = Caller::admin(&rig);
    assert_eq!(monitor.is_ready(), Some(true));
    let line = ["job", "submit", "here:/data/a", "here:/data/b"];
    disk.cut_power(Shutdown::NoLogFlush);
    let refused = at(&rig, &line);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    // A restored backup would lose all changes since, though no file is damaged.
    assert!(!refused.said().contains("godwit restore"), "{refused:?}");
    // A node that cannot record anything ends; a node that reads nonsense asks for a restart. Until then the node answers that it takes no
    // changes.
    let reads_nonsense = refused
        .complaint
        .contains("Restart the node: it checks the file");
    let ended = wait_until(|| {
        let ready = Caller::admin(&rig).is_ready();
        assert_ne!(ready, Some(true), "{refused:?} {}", rig.daemon().said());
        (reads_nonsense || ready.is_none()).then_some(())
    });
    assert!(ended.is_some(), "{}", rig.daemon().said());
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        assert_ne!(Caller::admin(&rig).is_ready(), Some(true), "{refused:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let end = rig.stop_daemon(Signal::TERM);
    assert!(reads_nonsense || end.code != Some(0), "{end:?}");
}

/// Takes all the room that there is.
pub(super) fn fill(file: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(file).expect("made");
    for bytes in [vec![0; MIB], vec![0; 4_096]] {
        while file.write_all(&bytes).is_ok() {}
    }
}

#[test]
fn a_damaged_state_is_refused_with_its_file_and_the_remedy() {
    let mut rig = Rig::new();
    rig.write("export/a", "alpha");
    rig.serve(&[]);
    let id = submit(&rig, &["here:/data/a", "here:/data/b"]);
    wait_for(&rig, &id, ended);
    rig.end_daemon(Signal::TERM);
    let directory = rig.daemon_home.join("state");
    let aside = rig.path("aside");
    for name in ["state.db", "raft.db"] {
        copy(&directory, &aside);
        fs::write(directory.join(name), [0x5a; 8_192]).expect("damaged");
        // SQLite would repair the file from it.
        fs::remove_file(directory.join(format!("{name}-wal"))).expect("there");
        let export = format!("data={}", rig.export.display());
        let line = ["serve", "--listen", rig.address(), "--export", &export];
        let refused = at(&rig, &line);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        refused.says(name).says("godwit restore");
        copy(&aside, &directory);
    }
    rig.serve(&[]);
    assert_eq!(wait_for(&rig, &id, ended)["state"], "complete");
}

/// Makes `to` a copy of the directory `from`.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("read") {
        let entry = entry.expect("read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}
