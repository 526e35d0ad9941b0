//! Jobs among sites whose clocks are days apart: access for a job, deadlines and attempts hold as with equal clocks.
//! See the unit tests of trust for the arithmetic of durations.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::super::judge::assert_identical_to_rsync;
use super::super::process::wait_until;
use super::super::rig::Rig;
use super::third::{Three, only_job, rules};
use super::{fill, submit, wait_for};

/// The library that shifts the clock of a program; its timers run as before.
fn library() -> PathBuf {
    let directories = fs::read_dir("/usr/lib").expect("a directory");
    let mut files = directories.filter_map(|entry| {
        let file = entry.ok()?.path().join("faketime/libfaketimeMT.so.1");
        file.exists().then_some(file)
    });
    files.next().expect("scripts/setup.sh installs faketime")
}

/// A node whose clock is shifted.
fn shifted(days: i32) -> Rig {
    let mut rig = Rig::new();
    let preload = format!("LD_PRELOAD={}", library().display());
    let shift = format!("FAKETIME={days:+}d");
    if days != 0 {
        rig.wrap_daemon(["env", &preload, &shift, "FAKETIME_DONT_FAKE_MONOTONIC=1"]);
    }
    rig.serve(&[]);
    rig
}

/// The asking node, the source and the destination with these shifts.
fn three(days: [i32; 3]) -> Three {
    let [asked, source, destination] = days.map(shifted);
    let three = Three {
        asked,
        source,
        destination,
    };
    three.introduce();
    three
}

#[test]
fn one_site_sends_to_another_for_a_third_with_clocks_days_apart() {
    for days in [[0, 3, -3], [3, 0, -3], [-3, 3, 0]] {
        let three = three(days);
        fill(&three.source, 6, 300_000);
        for (divide, copy) in [("never", "copy"), ("always", "copy2")] {
            let to = format!("siteD:/data/{copy}");
            let line = ["--limit", "1MB/s", "--divide", divide];
            let id = submit(&three.asked, "siteS:/data/run42", &to, &line);
            let ended = wait_for(&three.asked, &id, |job| !job["ended"].is_null());
            assert_eq!(ended["state"], "complete", "{days:?} {divide}: {ended}");
            assert_eq!(ended["attempts"], 1, "{days:?} {divide}: {ended}");
            if divide == "never" && days[0] != days[1] {
                let there = only_job(&three.source);
                let day = |job: &Value| job["created"].as_str().map(|at| at[..10].to_owned());
                assert_ne!(day(&there), day(&ended), "the clocks are shifted");
            }
            let at = three.destination.export.join(copy);
            assert_identical_to_rsync("-aHO", &three.source.export.join("run42"), &at);
        }
        let is_closed = wait_until(|| (rules(&three.destination) == 0).then_some(()));
        assert!(is_closed.is_some(), "no access is left: {days:?}");
    }
}
