//! Runs the demonstrations of sites and clusters, as `make demo-node` and its siblings do, with the binary of the tests.
//! Does not judge the speed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn two_sites_a_job_a_killed_node_and_its_report() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo-node.sh");
    let place = tempfile::tempdir().expect("a directory");
    let report = place.path().join("report.html");
    let output = Command::new(script)
        .arg(&report)
        .env("GODWIT", env!("CARGO_BIN_EXE_godwit"))
        .env("TMPDIR", place.path())
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    // The job was cut, and resumed.
    assert!(said.contains("identical: 2041 files"), "{said}{error}");
    let report = fs::read_to_string(report).expect("the report is written");
    assert!(report.contains("night-42") && report.contains("<svg"));
    let left: Vec<_> = fs::read_dir(place.path())
        .expect("listed")
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .collect();
    assert_eq!(left, ["report.html"]);
}

#[test]
fn two_clusters_a_job_and_a_killed_node() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo-cluster.sh");
    let place = tempfile::tempdir().expect("a directory");
    let output = Command::new(script)
        .env("GODWIT", env!("CARGO_BIN_EXE_godwit"))
        .env("TMPDIR", place.path())
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    assert!(said.contains("identical: 1520 files"), "{said}{error}");
    assert!(
        said.contains("attempts    2"),
        "it was taken over: {said}{error}"
    );
    let left = fs::read_dir(place.path()).expect("listed").count();
    assert_eq!(left, 0, "nothing is left");
}

#[test]
fn one_read_for_three_sites_a_repair_from_one_of_them_and_a_round_from_the_buffer() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo-distribute.sh");
    let place = tempfile::tempdir().expect("a directory");
    let output = Command::new(script)
        .env("GODWIT", env!("CARGO_BIN_EXE_godwit"))
        .env("TMPDIR", place.path())
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    for words in [
        "came from the destination at site",
        "identical at three sites: 81 files",
        "bytes came from the buffer",
        "identical at three sites again",
    ] {
        assert!(said.contains(words), "{words}: {said}{error}");
    }
    let left = fs::read_dir(place.path()).expect("listed").count();
    assert_eq!(left, 0, "nothing is left");
}
