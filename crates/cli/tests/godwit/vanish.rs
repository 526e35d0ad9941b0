//! Tests the remains of a transfer whose only source is gone or closed, and temporary files without an owner.
//! Does not test entries inside a directory (`changes`).

use std::fs::{self, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

use godwit_store::{RelPath, TempName};

use super::process::wait_until;
use super::rig::{Rig, as_each_user};

const BYTES: usize = 24 << 20;

/// Temporary files in a directory.
fn temporaries(directory: &Path) -> Vec<String> {
    fs::read_dir(directory)
        .expect("listed")
        .map(|entry| entry.expect("listed").file_name())
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(".godwit-"))
        .collect()
}

#[test]
fn an_only_source_that_vanishes_leaves_nothing_behind() {
    let mut rig = Rig::new();
    rig.start(&[]);
    fs::create_dir(rig.path("into")).expect("made");
    for (source, destination, place, home) in [
        (
            "pushed",
            rig.url(""),
            rig.export.clone(),
            rig.daemon_home.clone(),
        ),
        (
            "copied",
            "into/".to_owned(),
            rig.path("into"),
            rig.client_home(),
        ),
    ] {
        rig.write(source, vec![7; BYTES]);
        let line = [
            "--limit",
            "8MB",
            "--block-size",
            "64KiB",
            source,
            &destination,
        ];
        let mut client = rig.begin_cp(&rig.path(""), &line);
        client.wait_for_bytes(BYTES as u64 / 12);
        assert_eq!(temporaries(&place).len(), 1, "{source}");
        fs::remove_file(rig.path(source)).expect("ours");
        let outcome = client.wait();
        assert_eq!(outcome.code, Some(1), "{}", outcome.said());
        outcome.expect(1, "failed");
        assert_eq!(temporaries(&place), [""; 0], "{source}");
        assert!(!place.join(source).exists());
        let journals = wait_until(|| {
            let journals = Rig::journals(&home);
            journals.is_empty().then_some(journals)
        });
        assert!(journals.is_some(), "{source}: {:?}", Rig::journals(&home));
    }
}

#[test]
fn where_no_source_can_be_read_nothing_useful_was_done() {
    as_each_user(|rig| {
        if !rig.unprivileged() {
            return;
        }
        use std::os::unix::fs::PermissionsExt as _;
        rig.start(&[]);
        for directory in ["", "export/"] {
            rig.write(&format!("{directory}closed"), "x");
            rig.write(&format!("{directory}good"), "x");
            rig.own();
            let closed = fs::Permissions::from_mode(0o0);
            fs::set_permissions(rig.path(format!("{directory}closed")), closed).expect("ours");
        }
        rig.make_dirs("into");
        rig.own();
        let closed = fs::Permissions::from_mode(0o0);
        for path in ["closed", "export/closed"] {
            fs::set_permissions(rig.path(path), closed.clone()).expect("ours");
        }
        for (from, to) in [
            ("", "into/".to_owned()),
            ("", rig.url("pushed/")),
            (&*rig.url(""), "into/".to_owned()),
        ] {
            let (closed, good) = (format!("{from}closed"), format!("{from}good"));
            let outcome = rig.cp(&[&closed, &to]);
            assert_eq!(outcome.code, Some(1), "{closed}: {}", outcome.said());
            let outcome = rig.cp(&[&closed, &good, &to]);
            outcome.expect(3, "partial");
        }
    });
}

#[test]
fn a_later_transfer_removes_unclaimed_files_and_keeps_resumable_ones() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("large", vec![7; BYTES]);
    rig.write("small", "small");
    // A transfer that can be resumed.
    let line = [
        "--limit",
        "8MB",
        "--block-size",
        "64KiB",
        "large",
        &rig.url(""),
    ];
    let mut client = rig.begin_cp(&rig.path(""), &line);
    client.wait_for_bytes(BYTES as u64 / 4);
    client.signal(rustix::process::Signal::INT);
    client.wait().expect(5, "interrupted");
    let resumable = wait_until(|| temporaries(&rig.export).pop()).expect("kept");
    let old = SystemTime::now() - Duration::from_secs(40 * 24 * 3600);
    let age = |name: &str| {
        let file = fs::File::options()
            .write(true)
            .open(rig.export.join(name))
            .expect("there");
        file.set_times(FileTimes::new().set_modified(old))
            .expect("set");
    };
    age(&resumable);
    // Two files of transfers unknown here, and one that only looks like such a file.
    let mut unclaimed = Vec::new();
    for tag in [1, 2] {
        let temp = TempName::new(tag, &RelPath::parse(b"x").expect("a path"));
        unclaimed.push(String::from_utf8_lossy(temp.as_bytes()).into_owned());
    }
    for name in unclaimed.iter().map(String::as_str).chain([".godwit-mine"]) {
        fs::write(rig.export.join(name), "left").expect("written");
    }
    age(&unclaimed[0]);
    age(".godwit-mine");
    rig.cp(&["small", &rig.url("")]).complete();
    let left = temporaries(&rig.export);
    assert!(!left.contains(&unclaimed[0]), "{left:?}");
    assert!(
        left.contains(&unclaimed[1]),
        "it may be of another machine: {left:?}"
    );
    assert!(left.contains(&resumable), "{left:?}");
    assert!(left.contains(&".godwit-mine".to_owned()), "{left:?}");
    let resumed = rig.cp(&["large", &rig.url("")]);
    let moved = resumed.complete().number("bytes");
    assert!(moved < BYTES as u64, "{moved}: it began anew");
}
