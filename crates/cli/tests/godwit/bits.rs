//! Tests which mode bits are applied: those that let a program run as another only where the export grants them.
//! Admission is tested in `contract`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::judge::assert_identical;
use super::rig::{Rig, as_each_user};

const FILES: [(&str, u32); 5] = [
    ("as-owner", 0o4755),
    ("as-group", 0o2755),
    ("as-both", 0o6711),
    ("as-nobody", 0o6600),
    ("ordinary", 0o640),
];
const DIRECTORIES: [(&str, u32); 4] = [
    ("shared", 0o2775),
    ("scratch", 0o1777),
    ("both", 0o3770),
    ("ordinary-directory", 0o750),
];
const SET_ID: u32 = 0o6000;

fn make_tree(rig: &Rig, root: &Path) {
    fs::create_dir_all(root).expect("made");
    for (name, _) in FILES {
        fs::write(root.join(name), name).expect("written");
    }
    for (name, _) in DIRECTORIES {
        fs::create_dir(root.join(name)).expect("made");
        fs::write(root.join(name).join("inside"), name).expect("written");
    }
    // A change of owner takes bits away, so they come after it.
    rig.own();
    for (name, mode) in FILES.iter().chain(&DIRECTORIES) {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(*mode)).expect("ours");
    }
}

#[track_caller]
fn assert_modes(root: &Path, mask: u32) {
    for (name, mode) in FILES.iter().chain(&DIRECTORIES) {
        let found = fs::metadata(root.join(name)).expect("there").permissions();
        let found = found.mode() & 0o7777;
        assert_eq!(
            found,
            mode & mask,
            "{name}: {found:o}, {mode:o} at the source"
        );
    }
}

#[test]
fn set_id_bits_are_applied_only_where_granted() {
    as_each_user(|rig| {
        rig.make_dirs("granted");
        let granted = format!("granted={},set-id", rig.path("granted").display());
        rig.start(&["--export", &granted]);
        let source = rig.path("run42");
        make_tree(rig, &source);
        assert_modes(&source, 0o7777);
        let there = |export: &str| format!("godwit://{}/{export}/to", rig.address());

        rig.cp(&["run42", &there("data")]).complete();
        assert_modes(&rig.path("export/to"), !SET_ID);
        rig.cp(&["run42", &there("granted")]).complete();
        assert_modes(&rig.path("granted/to"), 0o7777);
        assert_identical(&source, &rig.path("granted/to"));

        // Neither export grants the bits that the other grants, whatever its files had before.
        for (export, mask) in [("data", !SET_ID), ("granted", 0o7777)] {
            let line = ["--force", "run42/.", &there(export)];
            rig.cp(&line).complete();
            let root = if export == "data" {
                "export/to"
            } else {
                "granted/to"
            };
            assert_modes(&rig.path(root), mask);
        }
    });
}

/// Otherwise, a file that runs as its owner there would run as the copying user here.
#[test]
fn set_id_bits_come_to_this_machine_only_with_their_owners() {
    as_each_user(|rig| {
        rig.start(&[]);
        let source = rig.path("run42");
        make_tree(rig, &source);
        rig.cp(&["run42", "copy"]).complete();
        assert_modes(&rig.path("copy"), !SET_ID);
        rig.cp(&["-a", "run42", "whole"]).complete();
        assert_modes(&rig.path("whole"), 0o7777);
        assert_identical(&source, &rig.path("whole"));
        make_tree(rig, &rig.path("export/run42"));
        rig.cp(&[&rig.url("run42"), "pulled"]).complete();
        assert_modes(&rig.path("pulled"), !SET_ID);
    });
}

/// Each run that changes something in the directory sets its mode and times again.
#[test]
fn a_directory_that_has_lost_its_bit_is_reported_once() {
    let rig = Rig::for_user(false);
    rig.write("src/shared/a", "a");
    let shared = rig.path("src/shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2775)).expect("ours");
    let run = || {
        let outcome = rig.client(&["sync", "--json", "src", "dst"]);
        outcome.complete().summary()["not_kept"]["set_id"].clone()
    };
    assert_eq!(run(), 1);
    rig.write("src/shared/b", "b");
    assert_eq!(run(), 0);
    assert_eq!(rig.read("dst/shared/b"), b"b");
    // A bit that goes in this run is lost in this run.
    let copy = rig.path("dst/shared");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o2775)).expect("ours");
    rig.write("src/shared/c", "c");
    let said = run();
    let mode = fs::metadata(&copy).expect("there").permissions().mode();
    assert_eq!(said == 1, mode & SET_ID == 0, "{said} {mode:o}");
}
