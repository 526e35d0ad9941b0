//! The amounts of a divided job's attempts, if a user stops the job while its nodes hold items.
//! See `story` for a job that runs to its end.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::rig::Rig;
use super::super::sites::{submit, wait_for};
use super::{DEADLINE, Site, archive};

/// Bytes of each attempt of a job.
fn bytes_of_attempts(rig: &Rig, id: &str) -> Vec<u64> {
    let report = rig.admin(&["job", "report", id, "--json"]).out;
    let report: Value = serde_json::from_str(&report).expect("a report");
    let attempts = report["attempts"].as_array().expect("attempts");
    let bytes = attempts
        .iter()
        .map(|attempt| attempt["bytes"].as_u64().expect("bytes"));
    bytes.collect()
}

#[test]
fn a_paused_attempt_has_the_amounts_of_the_items_that_its_nodes_held() {
    let site = Site::of(2);
    let there = archive(&site);
    let set = site.nodes[0].export.join("set");
    fs::create_dir(&set).expect("made");
    // One item has them all: it is a directory of small files.
    const FILES: u64 = 200;
    const BYTES: u64 = 50_000;
    for n in 0..FILES {
        let content = vec![u8::try_from(n).expect("small"); usize::try_from(BYTES).expect("fits")];
        fs::write(set.join(format!("f{n}")), content).expect("written");
    }
    let line = ["--limit", "1MB", "--divide", "always"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let copy = there.export.join("copy");
    let arrived = || {
        let names = fs::read_dir(&copy).into_iter().flatten().flatten();
        names.filter(|name| name.file_name().as_encoded_bytes().starts_with(b"f"))
    };
    let until = Instant::now() + DEADLINE;
    while arrived().count() < 20 {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::sleep(Duration::from_millis(20));
    }
    let job = wait_for(&site.nodes[0], &id, |_| true);
    assert_eq!(job["moved"]["bytes"], 0, "no item is settled: {job}");
    let paused = site.nodes[0].admin(&["job", "pause", &id]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    while bytes_of_attempts(&site.nodes[0], &id) == [0] {
        assert!(Instant::now() < until, "the attempt moved nothing");
        std::thread::sleep(Duration::from_millis(100));
    }
    let first = bytes_of_attempts(&site.nodes[0], &id);
    assert!(first[0] >= BYTES, "{first:?}");
    // Its node has ended the transfer in order, and the job waits for nothing.
    let shown = site.nodes[0].admin(&["job", "show", &id]).out;
    assert!(shown.contains("no node controls the job now"), "{shown}");
    assert!(!shown.contains("may still write"), "{shown}");
    let resumed = site.nodes[0].admin(&["job", "resume", &id]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let faster = site.nodes[0].admin(&["job", "limit", &id, "none"]);
    assert_eq!(faster.code, Some(0), "{faster:?}");
    let ended = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let all = bytes_of_attempts(&site.nodes[0], &id);
    assert_eq!(all[0], first[0], "{all:?}");
    // A file that arrived after the last report of the cut transfer counts for no attempt.
    assert!(all.iter().sum::<u64>() <= FILES * BYTES, "{all:?}");
}
