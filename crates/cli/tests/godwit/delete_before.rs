//! Deletion before any data is sent, and its limits.
//! See `full` for full destinations.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::data::{Seeded, write_file};
use super::judge::{assert_identical_to_rsync, assert_tidy};
use super::process::wait_until;
use super::rig::Rig;

const MIB: u64 = 1 << 20;

/// A source, and a counterpart with more, less and other entries.
fn world() -> Rig {
    let rig = Rig::new();
    for (path, content) in [
        ("run42/same", "same"),
        ("run42/new/deep", "new"),
        ("run42/changed", "changed now"),
        ("run42/was-directory", "a file"),
        ("run42/was-file/x", "in a directory"),
        ("export/copy/same", "same"),
        ("export/copy/changed", "changed"),
        ("export/copy/old/deep", "old"),
        ("export/copy/was-directory/y", "y"),
        ("export/copy/was-file", "z"),
        ("export/copy/extra", "extra"),
    ] {
        rig.write(path, content);
    }
    rig
}

/// The result of rsync for the same input.
fn judged(rig: &Rig) -> std::path::PathBuf {
    let judge = rig.path("judge");
    let copied = Command::new("cp")
        .arg("-a")
        .args([&rig.path("export/copy"), &judge])
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    let from = format!("{}/", rig.path("run42").display());
    let line = ["-a", "--delete-before", "--force", &from];
    let synced = Command::new("rsync").args(line).arg(&judge).status();
    assert!(synced.is_ok_and(|status| status.success()));
    judge
}

fn has_extra(copy: &Path) -> bool {
    copy.join("extra").exists()
}

#[test]
fn extra_entries_are_deleted_first_and_the_rest_equals_the_result_of_rsync() {
    let mut rig = world();
    let judge = judged(&rig);
    rig.start(&[]);
    let url = rig.url("copy");
    let outcome = rig.client(&["sync", "--json", "-a", "--delete-before", "run42", &url]);
    outcome.complete();
    assert_eq!(outcome.summary()["deleted"], 6, "{outcome:?}");
    assert_identical_to_rsync("-a", &judge, &rig.path("export/copy"));
    assert_tidy(&rig.export, &rig.daemon_home);
    let again = rig.client(&["sync", "--json", "-a", "--delete-before", "run42", &url]);
    again.complete();
    assert_eq!(again.summary()["deleted"], 0, "{again:?}");
}

#[test]
fn where_the_deletion_is_refused_nothing_is_sent() {
    let rig = world();
    let copy = rig.path("export/copy");
    let line = [
        "sync",
        "--json",
        "--delete-before",
        "--max-delete",
        "1",
        "run42",
        "export/copy",
    ];
    rig.client(&line).expect(3, "partial").says("--max-delete");
    assert!(has_extra(&copy) && !copy.join("new").exists());
    let line = [
        "sync",
        "--json",
        "--delete-before",
        "--manifest",
        "m",
        "run42",
        "export/copy",
    ];
    let refused = rig.client(&line);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused.says("cannot write a manifest");
    let line = [
        "sync",
        "--json",
        "-n",
        "--delete-before",
        "run42",
        "export/copy",
    ];
    rig.client(&line).complete();
    assert!(has_extra(&copy) && !copy.join("new").exists());
}

/// A cut transfer resumes with its data.
#[test]
fn resumable_data_outlives_the_deletion() {
    let rig = world();
    write_file(&rig.path("run42/large"), 24 * MIB, &mut Seeded(3));
    let line = ["sync", "--json", "run42", "export/copy", "--limit", "12MB"];
    let mut killed = rig.begin(&line);
    wait_until(|| (killed.written()? > 9 * MIB).then_some(())).expect("it writes");
    killed.signal(Signal::KILL);
    killed.wait();
    let vouched = Rig::recovered(&rig.client_home()).map_or(0, |known| known.vouched_bytes);
    assert!(vouched > 0, "a batch is durable by then");
    let outcome = rig.client(&[&line[..4], &["--delete-before"]].concat());
    outcome.complete().says("\"resumed\":true");
    let rest = 24 * MIB + 100 - vouched;
    assert!(outcome.number("bytes") <= rest, "{vouched}: {outcome:?}");
    assert!(!has_extra(&rig.path("export/copy")));
}
