//! The end of a divided job by all nodes of both sites: directories, links and attributes, whichever node is killed meanwhile.
//! Leaves the way of the contents to `sites`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use godwit_state::FEATURE_LEVEL;
use godwit_testkit::needs_root;
use serde_json::Value;

use super::super::judge::{assert_identical_to_rsync, assert_no_temporaries};
use super::super::mounts::Mount;
use super::super::process::wait_until;
use super::super::sites::{submit, wait_for};
use super::sites::know;
use super::{Site, up};

/// Makes nested directories, many of them empty, with distinct times. They have more entries than one close finishes.
fn fill(set: &Path) {
    for n in 0..24_u32 {
        let around = set.join(format!("d{}/e{n}", n % 6));
        for m in 0..500 {
            let directory = around.join(format!("f{m}"));
            fs::create_dir_all(&directory).expect("made");
            if m % 2 == 0 {
                fs::write(directory.join("file"), n.to_le_bytes()).expect("written");
            }
            if m % 50 == 0 {
                symlink("file", directory.join("link")).expect("made");
                closed(&directory, n + m);
            }
        }
        closed(&around, n);
    }
    fs::create_dir_all(set.join("deep/a/b/c")).expect("made");
    fs::write(set.join("top"), "top").expect("written");
    closed(&set.join("deep/a"), 1);
    closed(set, 2);
}

/// Two sites of two nodes. The first one knows closes of regions.
fn two() -> (Site, Site) {
    let (site, there) = (Site::of(2), Site::of(2));
    know(&site, &there);
    site.wait("its own level", |view| view["level"] == FEATURE_LEVEL);
    (site, there)
}

/// An old directory that its owner alone may enter, and not write to.
fn closed(directory: &Path, n: u32) {
    let file = fs::File::open(directory).expect("there");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + u64::from(n));
    file.set_modified(time).expect("set");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o500)).expect("set");
}

/// Gives the next close work in each part of the tree: attributes alone have changed.
fn age(set: &Path, copy: &Path) {
    for n in 0..24_u32 {
        let path = format!("d{}/e{n}", n % 6);
        fs::set_permissions(copy.join(&path), fs::Permissions::from_mode(0o700)).expect("set");
        fs::remove_dir_all(copy.join(&path).join("f1")).expect("ours");
        closed(&set.join(&path), 100 + n);
    }
}

/// Waits until the close of a job is divided: more than that of the root is open.
#[track_caller]
fn wait_for_regions(node: &super::Rig, id: &str) {
    let begun = wait_until(|| {
        let shown = node.admin(&["job", "show", id, "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap_or_default();
        let open = shown["work"]["open"].as_array().into_iter().flatten();
        let open = open.filter(|open| open["kind"] == "close");
        let number = open
            .flat_map(|open| ["ready", "held", "waiting"].map(|name| open[name].as_u64()))
            .flatten()
            .sum::<u64>();
        (number > 1).then_some(())
    });
    let log = node.admin(&["job", "log", id]).out;
    assert!(begun.is_some(), "the close is divided: {log}");
}

#[track_caller]
fn closes_in(log: &str) -> u32 {
    let (_, said) = log.split_once("at the end, in ").expect(log);
    let (number, _) = said.split_once(" closes").expect(log);
    number.parse().expect(log)
}

#[track_caller]
fn assert_complete(site: &Site, there: &Site, id: &str) -> String {
    let ended = wait_for(&site.nodes[0], id, |job| !job["ended"].is_null());
    let log = site.nodes[0].admin(&["job", "log", id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    let copy = there.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &site.nodes[0].export.join("set"), &copy);
    assert_no_temporaries(&there.nodes[0].export);
    log
}

#[test]
fn all_nodes_finish_a_tree_though_one_is_killed_meanwhile() {
    let (site, mut there) = two();
    let set = site.nodes[0].export.join("set");
    fill(&set);
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &[]);
    let log = assert_complete(&site, &there, &id);
    assert!(closes_in(&log) > 4, "{log}");

    age(&set, &there.nodes[0].export.join("copy"));
    let id = submit(
        &site.nodes[0],
        "here:/data/set",
        "siteB:/data/copy/",
        &["--sync"],
    );
    wait_for_regions(&site.nodes[0], &id);
    there.nodes[1].kill_daemon();
    there.wait_at(&[0], "a node is lost", |view| up(view).len() == 1);
    there.nodes[1].serve(&[]);
    assert_complete(&site, &there, &id);
}

/// The log of an undivided job has the same note.
#[test]
fn the_log_names_a_file_system_that_a_close_empties() {
    let (site, there) = two();
    let set = site.nodes[0].export.join("set");
    fs::create_dir_all(&set).expect("made");
    fs::write(set.join("file"), "content").expect("written");
    let point = there.nodes[0].export.join("copy/extra/point");
    let disk = there.nodes[0].path("disk");
    for directory in [&point, &disk] {
        fs::create_dir_all(directory).expect("made");
    }
    fs::write(disk.join("old"), "old").expect("written");
    let Some(_mount) = Mount::of(&disk, &point) else {
        return;
    };
    let line = ["--sync", "--setting", "delete", "--divide", "always"];
    let id = submit(
        &site.nodes[0],
        "here:/data/set/.",
        "siteB:/data/copy",
        &line,
    );
    wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    let log = site.nodes[0].admin(&["job", "log", &id]).out;
    assert!(log.contains("divided: "), "{log}");
    assert!(log.contains("a file system is mounted at"), "{log}");
    assert!(!disk.join("old").exists(), "{log}");
}

#[test]
fn entries_that_only_the_destination_has_are_deleted_by_regions() {
    let (site, there) = two();
    let set = site.nodes[0].export.join("set");
    fill(&set);
    let copy = there.nodes[0].export.join("copy");
    // Extra entries at each depth, and directories where files are to be.
    for path in [
        "extra/deep",
        "d1/extra",
        "d2/e2/f7/extra/deep",
        "d3/e3/extra",
    ] {
        fs::create_dir_all(copy.join(path)).expect("made");
        fs::write(copy.join(path).join("file"), "extra").expect("written");
    }
    fs::create_dir_all(copy.join("d4/e4/f0/file/in the way")).expect("made");
    let line = ["--sync", "--setting", "delete"];
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &line);
    let log = assert_complete(&site, &there, &id);
    assert!(closes_in(&log) > 1, "{log}");
    let job = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    // Four files, six directories, and the two entries that others replaced.
    assert_eq!(job["summary"]["deleted"], 4 + 6 + 2, "{job}");

    // A bound holds for the whole job.
    for path in ["d0/x", "d1/y", "z"] {
        fs::write(copy.join(path), "extra").expect("written");
    }
    let few = [&line[..], &["--setting", "max-delete=2"]].concat();
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &few);
    let job = wait_for(&site.nodes[0], &id, |job| !job["ended"].is_null());
    assert_eq!(job["state"], "partial", "{job}");
    for path in ["d0/x", "d1/y", "z"] {
        assert!(copy.join(path).exists(), "{path}");
    }
    let enough = [&line[..], &["--setting", "max-delete=3"]].concat();
    let id = submit(
        &site.nodes[0],
        "here:/data/set",
        "siteB:/data/copy",
        &enough,
    );
    assert_complete(&site, &there, &id);
}

#[test]
fn a_directory_renamed_during_the_close_is_not_lost_at_the_destination() {
    let (site, there) = two();
    let node = &site.nodes[0];
    let (set, copy) = (node.export.join("set"), there.nodes[0].export.join("copy"));
    fill(&set);
    let id = submit(node, "here:/data/set", "siteB:/data/copy", &[]);
    assert_complete(&site, &there, &id);
    age(&set, &copy);
    let line = ["--sync", "--setting", "delete"];
    let id = submit(node, "here:/data/set", "siteB:/data/copy", &line);
    wait_for_regions(node, &id);
    fs::set_permissions(&set, fs::Permissions::from_mode(0o700)).expect("set");
    for n in 0..6 {
        fs::rename(set.join(format!("d{n}")), set.join(format!("new{n}"))).expect("renamed");
    }
    closed(&set, 2);
    let job = wait_for(node, &id, |job| !job["ended"].is_null());
    let is_complete = job["state"] == "complete";
    assert!(is_complete || job["state"] == "partial", "{job}");
    for n in 0..6 {
        let (old, new) = (copy.join(format!("d{n}")), copy.join(format!("new{n}")));
        if is_complete || !old.exists() {
            let source = set.join(format!("new{n}"));
            assert_identical_to_rsync("-aH", &source, &new);
        }
    }
    let id = submit(node, "here:/data/set", "siteB:/data/copy", &line);
    assert_complete(&site, &there, &id);
}

#[test]
fn regions_leave_out_what_the_rules_leave_out() {
    let (site, there) = two();
    let node = &site.nodes[0];
    let (set, copy) = (node.export.join("set"), there.nodes[0].export.join("copy"));
    fill(&set);
    // Left out at each depth, and kept at the destination.
    for path in ["d1/e1/f7/in", "d2/f8/in", "f8/deep/in"] {
        let path = copy.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, "kept").expect("written");
    }
    fs::create_dir_all(copy.join("d3/extra")).expect("made");
    let rules = [
        "--include=/d0/**/f9/",
        "--exclude=f7/",
        "--exclude=f8/",
        "--exclude=f9/",
    ];
    let line = [&["--sync", "--setting", "delete"], &rules[..]].concat();
    let id = submit(node, "here:/data/set", "siteB:/data/copy", &line);
    let ended = wait_for(node, &id, |job| !job["ended"].is_null());
    let log = node.admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    assert!(closes_in(&log) > 1, "{log}");
    assert!(!copy.join("d3/extra").exists());
    for path in ["d1/e1/f7/in", "d2/f8/in", "f8/deep/in", "d0/e0/f9"] {
        assert!(copy.join(path).exists(), "{path}");
    }
    for path in ["d1/e1/f8", "d1/e1/f9", "d2/e2/f7"] {
        assert!(
            set.join(path).exists() && !copy.join(path).exists(),
            "{path}"
        );
    }
    assert_no_temporaries(&there.nodes[0].export);
    // Without the rules it becomes the whole set.
    let id = submit(node, "here:/data/set", "siteB:/data/copy", &line[..3]);
    assert_complete(&site, &there, &id);
}

#[test]
fn names_of_one_file_stay_together_in_a_large_tree() {
    let (site, there) = two();
    let set = site.nodes[0].export.join("set");
    fill(&set);
    for n in 0..6 {
        let around = set.join(format!("d{n}/e{n}"));
        fs::set_permissions(&around, fs::Permissions::from_mode(0o700)).expect("set");
        fs::hard_link(set.join("top"), around.join("name")).expect("linked");
    }
    let id = submit(&site.nodes[0], "here:/data/set", "siteB:/data/copy", &[]);
    let log = assert_complete(&site, &there, &id);
    assert_eq!(closes_in(&log), 1, "{log}");
}

/// Hard links of the source become hard links. Names that are hard links only at the destination become separate entries, as with rsync
/// -aHD.
#[test]
fn names_of_links_and_special_files_are_in_a_divided_job_as_at_the_source() {
    if !needs_root() {
        // Device nodes are made by a superuser alone.
        return;
    }
    let into = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let into = into.expect("a directory");
    let export = format!("special={},devices", into.path().display());
    let (site, there) = (Site::of(2), Site::with(2, &["--export", &export]));
    know(&site, &there);
    let (node, copy) = (&site.nodes[0], into.path().join("copy"));
    let set = node.export.join("set");
    for n in 0..4_u32 {
        let around = set.join(format!("d{n}"));
        fs::create_dir_all(&around).expect("made");
        for m in 0..20 {
            fs::write(around.join(format!("f{m}")), n.to_le_bytes()).expect("written");
        }
        for (name, bits) in [("closed", 0o600), ("open", 0o644)] {
            let path = around.join(name);
            fs::write(&path, "same").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("set");
        }
    }
    let first = set.join("d0");
    symlink("nowhere", first.join("link")).expect("made");
    let made = Command::new("sh")
        .args(["-c", "mknod fifo p && mknod null c 1 3"])
        .current_dir(&first)
        .status();
    assert!(made.is_ok_and(|made| made.success()));
    let names = ["f0", "link", "fifo", "null"];
    for name in names {
        for further in ["d1", "d2"] {
            fs::hard_link(
                first.join(name),
                set.join(further).join(format!("{name}-too")),
            )
            .expect("linked");
        }
    }
    let line = ["--sync", "--divide", "always", "--setting", "specials"];
    let arrive = || {
        let id = submit(node, "here:/data/set", "siteB:/special/copy", &line);
        let ended = wait_for(node, &id, |job| !job["ended"].is_null());
        let log = node.admin(&["job", "log", &id]).out;
        assert_eq!(ended["state"], "complete", "{ended}\n{log}");
        assert!(log.contains("divided: "), "{log}");
        assert_identical_to_rsync("-aHD", &set, &copy);
        assert_no_temporaries(into.path());
    };
    let inode = |path: &str| fs::symlink_metadata(copy.join(path)).expect("there").ino();
    arrive();
    for name in names {
        for further in ["d1", "d2"] {
            let further = format!("{further}/{name}-too");
            assert_eq!(inode(&format!("d0/{name}")), inode(&further), "{name}");
        }
    }
    for n in 0..4 {
        let around = copy.join(format!("d{n}"));
        fs::remove_file(around.join("open")).expect("removed");
        fs::hard_link(around.join("closed"), around.join("open")).expect("linked");
    }
    arrive();
    for n in 0..4 {
        let [closed, open] = ["closed", "open"].map(|name| format!("d{n}/{name}"));
        assert_ne!(inode(&closed), inode(&open), "{open}");
        let mode = |path: &str| fs::metadata(copy.join(path)).expect("there").mode() & 0o777;
        assert_eq!((mode(&closed), mode(&open)), (0o600, 0o644), "d{n}");
    }
}

#[test]
fn the_manifest_of_a_divided_job_is_that_of_its_source() {
    let (site, there) = two();
    let node = &site.nodes[0];
    for n in 0..40_u32 {
        let directory = node.export.join(format!("set/d{}", n % 7));
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(format!("f{n}")), n.to_le_bytes().repeat(500)).expect("written");
    }
    let set = node.export.join("set");
    fs::hard_link(set.join("d1/f1"), set.join("d2/name")).expect("linked");
    symlink("f1", set.join("d1/link")).expect("made");
    let large = fs::File::create(set.join("large")).expect("made");
    large.set_len(100 << 20).expect("long");
    let settings = ["--setting", "manifest-sorted", "--setting", "digest=blake3"];
    let line = [&["--manifest"], &settings[..]].concat();
    let id = submit(node, "here:/data/set", "siteB:/data/copy", &line);
    let log = assert_complete(&site, &there, &id);
    assert!(log.contains("divided:"), "{log}");
    let file = node.path("expected.manifest");
    let [source, into] = [&set, &file].map(|path| path.to_str().expect("text"));
    let made = ["manifest", "--manifest-sorted", "--digest", "blake3"];
    let made = node.admin(&[&made[..], &[source, into]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let expected = fs::read_to_string(&file).expect("written");
    for node in &site.nodes {
        let manifest = node.admin(&["job", "manifest", &id]);
        assert_eq!(manifest.out, expected, "{}", manifest.complaint);
    }
}
