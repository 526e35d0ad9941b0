//! Manifests that jobs write, by the real binary: their contents, their places, and the events about them.
//! See `manifest` for the form of a manifest.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::Rig;
use super::sites::third::Three;
use super::sites::{DEADLINE, fill, submit, two_sites, wait_for};

#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> String {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome.out
}

#[track_caller]
fn complete(rig: &Rig, id: &str) -> Value {
    let job = wait_for(rig, id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    job
}

#[test]
fn the_manifest_of_a_job_is_that_of_its_source_also_after_a_kill() {
    let (mut here, there) = two_sites();
    fill(&here, 20, 200_000);
    let line = [
        "--manifest",
        "--setting",
        "manifest-sorted",
        "--setting",
        "digest=blake3",
        "--limit",
        "1MB/s",
    ];
    let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
    wait_for(&here, &id, |job| {
        job["progress"]["files"].as_u64() > Some(2)
    });
    let early = here.admin(&["job", "manifest", &id]);
    assert_eq!(early.code, Some(1), "{early:?}");
    early.says("has no manifest yet");
    here.kill_daemon();
    here.serve(&[]);
    output_of(&here, &["job", "limit", &id, "none"]);
    let job = complete(&here, &id);
    let manifest = output_of(&here, &["job", "manifest", &id]);
    let command = [
        "manifest",
        "--manifest-sorted",
        "--digest",
        "blake3",
        "export/run42",
        "expected",
    ];
    output_of(&here, &command);
    assert_eq!(manifest.as_bytes(), here.read("expected"));
    let kept = &job["summary"]["manifest"];
    assert_eq!(kept["bytes"], manifest.len(), "{kept}");
    assert_eq!(kept["path"], "manifest", "{kept}");
    let digest = kept["digest"].as_str().expect("a digest");
    assert!(
        manifest.contains(digest.trim_start_matches("blake3:")),
        "{digest}"
    );
    let html = output_of(&here, &["job", "report", &id, "--html", "-"]);
    assert!(html.contains(digest), "{digest}");
    let home = here.daemon_home.display().to_string();
    for text in [html, output_of(&here, &["job", "report", &id, "--json"])] {
        assert!(!text.contains(&home), "the report names the node's home");
    }

    // A copy is checked by this manifest.
    fs::write(here.export.join("list"), &manifest).expect("written");
    output_of(
        &here,
        &[
            "job",
            "submit",
            "--verify",
            "here:/data/list",
            "siteB:/data/copy",
            "--wait",
        ],
    );
    fs::write(there.export.join("copy/d0/f0"), "other").expect("written");
    let line = [
        "job",
        "submit",
        "--verify",
        "here:/data/list",
        "siteB:/data/copy",
        "--wait",
    ];
    assert_eq!(here.admin(&line).code, Some(3));
}

#[test]
fn a_signed_manifest_has_the_signature_of_the_node() {
    let mut rig = Rig::new();
    rig.write("export/run42/a", "alpha");
    rig.serve(&[]);
    let line = ["--manifest", "--setting", "sign"];
    let id = submit(&rig, "here:/data/run42", "here:/data/copy", &line);
    complete(&rig, &id);
    rig.write("list", output_of(&rig, &["job", "manifest", &id]));
    let by_node = [
        "verify",
        "--signed-by",
        &rig.identity,
        "list",
        "export/copy",
    ];
    assert_eq!(rig.client(&by_node).code, Some(0));
}

#[test]
fn invalid_manifest_settings_are_refused_at_once() {
    let mut rig = Rig::new();
    rig.write("export/run42/a", "alpha");
    rig.serve(&[]);
    let ends = ["job", "submit", "here:/data/run42", "here:/data/copy"];
    for (more, words) in [
        (&["--setting", "sign"][..], "sign needs a manifest"),
        (
            &["--setting", "manifest-sorted"],
            "manifest-sorted needs a manifest",
        ),
        (
            &["--setting", "manifest=/tmp/m"],
            "godwit job submit --manifest",
        ),
        (&["--manifest", "--verify"], "cannot be used with"),
        (
            &["--manifest", "--setting", "dry-run"],
            "a dry run delivers nothing",
        ),
        (
            &["--manifest", "--setting", "existing"],
            "--existing keeps entries",
        ),
    ] {
        let outcome = rig.admin(&[&ends[..], more].concat());
        assert_eq!(outcome.code, Some(2), "{more:?}: {outcome:?}");
        assert!(outcome.complaint.contains(words), "{more:?}: {outcome:?}");
    }
    let id = submit(&rig, "here:/data/run42", "here:/data/copy", &[]);
    complete(&rig, &id);
    let none = rig.admin(&["job", "manifest", &id]);
    assert_eq!(none.code, Some(1), "{none:?}");
    none.says("writes no manifest");
}

#[test]
fn the_site_that_runs_a_job_for_another_node_keeps_its_manifest() {
    let three = Three::new();
    fill(&three.source, 3, 1_000);
    let id = three.submit(&["--manifest"]);
    let job = complete(&three.asked, &id);
    let digest = job["summary"]["manifest"]["digest"]
        .as_str()
        .expect("a digest");
    let asked = three.asked.admin(&["job", "manifest", &id]);
    assert_eq!(asked.code, Some(1), "{asked:?}");
    asked.says("the site that ran the job keeps the manifest");
    let list = output_of(&three.source, &["job", "list", "--all", "--json"]);
    let there: Value = serde_json::from_str(&list).expect("one job");
    let manifest = output_of(
        &three.source,
        &["job", "manifest", there["id"].as_str().expect("an id")],
    );
    assert!(
        manifest.contains(digest.trim_start_matches("blake3:")),
        "{manifest}"
    );
}

/// Another site chooses how much is in a manifest and how many there are; the disk is this site's.
#[test]
fn manifests_of_jobs_for_another_site_make_way_and_one_without_end_ends_its_job() {
    let three = Three::new();
    fill(&three.source, 3, 1_000);
    complete(&three.asked, &three.submit(&["--manifest"]));
    let ids = || -> Vec<String> {
        let list = output_of(&three.source, &["job", "list", "--all", "--json"]);
        let jobs = list
            .lines()
            .map(|line| serde_json::from_str(line).expect("a job"));
        let id = |job: Value| job["id"].as_str().expect("an id").to_owned();
        jobs.map(id).collect()
    };
    let grow = |directory: &Path| {
        let mut options = fs::OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .open(directory.join("manifest"));
        file.expect("a manifest")
            .set_len(5 << 30)
            .expect("a length");
    };
    let [first] = &ids()[..] else {
        panic!("not one job");
    };
    let kept = named(&three.source.daemon_home, first).expect("records");
    grow(&kept);
    fill(&three.source, 30, 1_000_000);
    three.submit(&["--manifest", "--limit", "100kB/s"]);
    let until = Instant::now() + DEADLINE;
    while kept.exists() {
        assert!(Instant::now() < until, "the records stay");
        thread::sleep(Duration::from_millis(50));
    }
    let second = ids().into_iter().find(|id| id != first).expect("a job");
    wait_for(&three.source, &second, |job| job["state"] == "running");
    grow(&named(&three.source.daemon_home, &second).expect("records"));
    let ended = wait_for(&three.source, &second, |job| job["state"] == "failed");
    assert_eq!(ended["reason"]["code"], "peer_busy", "{ended}");
    let text = ended["reason"]["text"].as_str().expect("a text");
    assert!(text.contains("without a manifest"), "{text}");
}

/// The directory of that name, wherever it is.
fn named(below: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(below).expect("a directory").flatten();
    let mut directories = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    directories.find_map(|path| match path.ends_with(name) {
        true => Some(path),
        false => named(&path, name),
    })
}

/// Passes connections on to a node, of each no more than some bytes of the client's until it is opened.
struct Gate {
    address: String,
    open: Arc<AtomicBool>,
}

/// The opening of a verification and some hundred entries.
const BEFORE_GATE: usize = 96 << 10;

impl Gate {
    fn before(node: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let open = Arc::new(AtomicBool::new(false));
        let (node, own) = (node.to_owned(), Arc::clone(&open));
        // Both threads of a connection end with it, and the listener with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&node).expect("the node listens");
                let pair = || {
                    let clone = |stream: &TcpStream| stream.try_clone().expect("descriptors");
                    (clone(&client), clone(&server))
                };
                let ((from, to), (back, there)) = (pair(), pair());
                let open = Arc::clone(&own);
                thread::spawn(move || pass(from, to, Some(&open)));
                thread::spawn(move || pass(there, back, None));
            }
        });
        Self { address, open }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, gate: Option<&AtomicBool>) {
    let mut buffer = vec![0; 4 << 10];
    let mut passed = 0;
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        while passed > BEFORE_GATE && gate.is_some_and(|open| !open.load(Ordering::SeqCst)) {
            thread::sleep(Duration::from_millis(10));
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
        passed += bytes;
    }
    // Closes the connection, so that the other side also sees its end.
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_job_that_checks_a_copy_reports_its_progress() {
    const FILES: u64 = 5_000;
    let (here, there) = two_sites();
    for n in 0..FILES {
        here.write(&format!("export/run42/file-{n:05}"), "seven b");
    }
    let id = submit(
        &here,
        "here:/data/run42",
        "siteB:/data/copy",
        &["--manifest"],
    );
    complete(&here, &id);
    fs::write(
        here.export.join("list"),
        output_of(&here, &["job", "manifest", &id]),
    )
    .expect("written");
    let gate = Gate::before(there.address());
    output_of(
        &here,
        &[
            "site",
            "add",
            "siteB",
            &gate.address,
            "--identity",
            &there.identity,
        ],
    );
    let id = submit(&here, "here:/data/list", "siteB:/data/copy", &["--verify"]);
    let running = wait_for(&here, &id, |job| {
        job["progress"]["files"].as_u64() > Some(0)
    });
    let progress = &running["progress"];
    assert_eq!(running["state"], "verifying", "{running}");
    assert_eq!(progress["files_total"], FILES, "{running}");
    assert_eq!(progress["bytes_total"], 7 * FILES, "{running}");
    let files = progress["files"].as_u64().expect("a number");
    assert!(files < FILES, "{running}");
    assert_eq!(progress["bytes"], 7 * files, "{running}");
    gate.open.store(true, Ordering::SeqCst);
    let ended = complete(&here, &id);
    assert_eq!(ended["summary"]["files"], FILES, "{ended}");
    let report = output_of(&here, &["job", "report", &id, "--json"]);
    let report: Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(report["attempts"][0]["files"], FILES, "{report}");
    assert!(output_of(&here, &["job", "show", &id]).contains("checked     35.0 kB in 5000 files"));
}
