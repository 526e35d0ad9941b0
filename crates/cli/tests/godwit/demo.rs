//! Runs the demonstrations of sites and clusters, as `make demo-node` and its siblings do, with the binary of the tests.
//! Does not judge the speed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A demonstration that succeeded.
struct Shown {
    place: tempfile::TempDir,
    said: String,
}

impl Shown {
    /// Runs a script, which keeps its files in a new directory. It writes to `report` there, if that is named.
    fn run(script: &str, report: Option<&str>) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
        let place = tempfile::tempdir().expect("a directory");
        let output = Command::new(scripts.join(script))
            .args(report.map(|name| place.path().join(name)))
            .env("GODWIT", env!("CARGO_BIN_EXE_godwit"))
            .env("TMPDIR", place.path())
            .stdin(Stdio::null())
            .output()
            .expect("bash is there");
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{said}");
        Self { place, said }
    }

    fn says(&self, words: &str) {
        assert!(self.said.contains(words), "{words}: {}", self.said);
    }

    /// Only these files are left.
    fn leaves(&self, names: &[&str]) {
        let left: Vec<_> = fs::read_dir(self.place.path())
            .expect("listed")
            .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
            .collect();
        assert_eq!(left, names);
    }
}

#[test]
fn two_sites_a_job_a_killed_node_and_its_report() {
    let shown = Shown::run("demo-node.sh", Some("report.html"));
    // The job was cut, and resumed.
    shown.says("identical: 2041 files");
    let report = fs::read_to_string(shown.place.path().join("report.html"));
    let report = report.expect("the report is written");
    assert!(report.contains("night-42") && report.contains("<svg"));
    shown.leaves(&["report.html"]);
}

#[test]
fn two_clusters_a_job_and_a_killed_node() {
    let shown = Shown::run("demo-cluster.sh", None);
    shown.says("identical: 1520 files");
    // Another node took the job over.
    shown.says("attempts    2");
    shown.leaves(&[]);
}

#[test]
fn one_read_for_three_sites_a_repair_from_one_of_them_and_a_round_from_the_buffer() {
    let shown = Shown::run("demo-distribute.sh", None);
    for words in [
        "came from the destination at site",
        "identical at three sites: 81 files",
        "bytes came from the buffer",
        "identical at three sites again",
    ] {
        shown.says(words);
    }
    shown.leaves(&[]);
}
