//! Totals of a job, compared with the count of rsync at its destination, however the attempts of the job ended.
//! See `job_kills` for the arrived files.

use std::process::Command;

use serde_json::Value;

use super::data::{Seeded, first_seed, write_file};
use super::rig::Rig;
use super::sites::{submit, two_sites, wait_for};

/// Bytes and files below a directory, as rsync counts them.
pub(super) fn counted(directory: &std::path::Path) -> (u64, u64) {
    let nowhere = tempfile::tempdir().expect("a directory");
    let from = format!("{}/", directory.display());
    let line = ["-a", "--stats", "--dry-run", "--no-h", &from];
    let ran = Command::new("rsync")
        .args(line)
        .arg(nowhere.path())
        .output();
    let text = String::from_utf8(ran.expect("rsync").stdout).expect("text");
    let number = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let rest = line.expect(name).trim_start_matches(name).trim();
        let digits: String = rest
            .chars()
            .take_while(|one| !" (".contains(*one))
            .collect();
        digits.replace(',', "").parse().expect("a number")
    };
    (
        number("Total file size:"),
        number("Number of regular files transferred:"),
    )
}

pub(super) fn json(rig: &Rig, line: &[&str]) -> Value {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(outcome.out.lines().next().expect("a line")).expect("a document")
}

/// The sum over all records of a job in the accounts of its node.
pub(super) fn accounted(rig: &Rig, id: &str) -> (u64, u64) {
    let outcome = rig.admin(&["accounting", "--json"]);
    let records = outcome.out.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record");
        record
    });
    let of_job = records.filter(|record| record["job"] == id);
    of_job.fold((0, 0), |(bytes, files), record| {
        let number = |name: &str| record[name].as_u64().expect("a number");
        (bytes + number("bytes"), files + number("files"))
    })
}

pub(super) fn figures(document: &Value) -> (u64, u64) {
    let number = |name: &str| document[name].as_u64().expect("a number");
    (number("bytes"), number("files"))
}

fn steer(rig: &Rig, line: &[&str]) {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn totals_of_a_job_are_those_of_all_its_attempts() {
    let mut seeded = Seeded(first_seed(34_001));
    let (mut here, there) = two_sites();
    let source = here.export.join("set");
    std::fs::create_dir_all(&source).expect("made");
    write_file(&source.join("large"), 64 << 20, &mut seeded);
    for number in 0..60 {
        write_file(&source.join(format!("f{number}")), 2 << 20, &mut seeded);
    }
    let line = ["--limit", "24MB", "--divide", "never"];
    let id = submit(&here, "here:/data/set", "siteB:/data/copy", &line);
    let moved = |job: &Value, least: u64| figures(&job["moved"]).0 > least;
    wait_for(&here, &id, |job| moved(job, 30 << 20));
    steer(&here, &["job", "pause", &id]);
    let paused = json(&here, &["job", "show", &id, "--json"]);
    let first = figures(&paused["moved"]);
    assert!(first.0 > 30 << 20, "{paused}");
    let shown = here.admin(&["job", "show", &id]).out;
    assert!(shown.contains("copied"), "{shown}");
    steer(&here, &["job", "resume", &id]);
    wait_for(&here, &id, |job| moved(job, first.0 + (30 << 20)));
    here.kill_daemon();
    here.serve(&[]);
    steer(&here, &["job", "limit", &id, "none"]);
    let job = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "complete", "{job}");
    let copied = counted(&there.export.join("copy"));
    assert_eq!(copied, (184 << 20, 61));
    let report = json(&here, &["job", "report", &id, "--json"]);
    let attempts = report["attempts"].as_array().expect("attempts");
    assert_eq!(figures(&job["moved"]), copied, "{job} {attempts:?}");
    assert_eq!(figures(&job["summary"]), copied, "{job}");
    assert_eq!(report["bytes_moved"], copied.0, "{report}");
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    for attempt in attempts {
        assert!(figures(attempt).0 > 1 << 20, "{attempts:?}");
    }
    let again: u64 = attempts
        .iter()
        .map(|one| one["bytes_again"].as_u64().expect("a number"))
        .sum();
    assert_eq!(job["moved"]["bytes_again"], again, "{job}");
    assert_eq!(accounted(&here, &id), copied, "{attempts:?}");
}
