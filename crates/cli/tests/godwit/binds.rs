//! Owns the tests of trees with mounts: one directory that several paths lead to.
//! Links to directories and ends of one path are tested in `itself`.

use std::time::Duration;

use super::full::unshare;
use super::rig::Rig;
use super::sites::{allow, know, wait_for};
use super::sync::{DIRECTIONS, state};

/// The start of a line that makes these mounts in a new namespace, between names of the rig's directory: `what on where`.
fn with_mounts(rig: &Rig, binds: &[(&str, &str)]) -> Option<Vec<String>> {
    let unshare = unshare()?;
    let mounts: Vec<String> = binds
        .iter()
        .map(|(what, point)| {
            let (what, point) = (rig.path(what), rig.path(point));
            format!("mount --bind '{}' '{}'", what.display(), point.display())
        })
        .collect();
    let script = format!("{} && exec \"$@\"", mounts.join(" && "));
    let line = unshare.into_iter().chain(["sh", "-c", &script, "sh"]);
    Some(line.map(str::to_owned).collect())
}

/// A tree with a source inside, and places to mount parts of it.
fn world() -> Rig {
    let rig = Rig::for_user(false);
    for name in ["top/f", "top/a/g", "top/a/deep/h", "other/sub/i", "other/j"] {
        rig.write(&format!("export/{name}"), name);
    }
    for name in ["bt", "ba", "top/m", "free"] {
        rig.make_dirs(&format!("export/{name}"));
    }
    rig
}

const BINDS: [(&str, &str); 3] = [
    ("export/top", "export/bt"),
    ("export/top/a", "export/ba"),
    ("export/other/sub", "export/top/m"),
];

const INSIDE: &str = "inside the destination";
const ITSELF: &str = "into itself";

/// Forbidden transfers: a command, a source, a destination, and the message.
const NEVER: [(&[&str], &str, &str, &str); 9] = [
    (&["sync", "--delete"], "top/a", "bt", INSIDE),
    (&["sync", "--delete"], "bt/a", "top", INSIDE),
    (&["sync", "--delete"], "ba", "top", INSIDE),
    // A part of the source is mounted in the destination.
    (&["sync", "--delete"], "other", "top", INSIDE),
    (&["sync", "--delete"], "top", "bt", ITSELF),
    (&["sync"], "top", "ba/new", ITSELF),
    (&["cp"], "top", "ba/x", ITSELF),
    // Through a mount in the source.
    (&["cp"], "top", "other/sub/x", ITSELF),
    (&["cp"], "top/f", "bt/f", ITSELF),
];

#[test]
fn a_directory_under_two_mounts_is_one_directory() {
    let mut rig = world();
    let Some(mounts) = with_mounts(&rig, &BINDS) else {
        return;
    };
    rig.wrap_client(mounts);
    let before = state(&rig.export);
    for (command, from, to, words) in NEVER {
        let (from, to) = (format!("export/{from}"), format!("export/{to}"));
        let line = [command, &["--json", &from, &to]].concat();
        rig.client(&line).expect(1, "failed").says(words);
        assert_eq!(state(&rig.export), before, "{line:?}");
    }
    // Source and destination may lie beside each other, by any mount or link.
    let beside = ["sync", "--json", "--delete", "export/ba", "export/bt/b"];
    rig.client(&beside).complete();
    assert_eq!(rig.read("export/top/b/deep/h"), b"top/a/deep/h");
    rig.client(&["sync", "--json", "--delete", "export/bt", "export/free"])
        .complete();
    assert_eq!(rig.read("export/free/f"), b"top/f");
    assert!(rig.path("export/top/a/g").exists());
}

/// The two ends see the same files, but have different mounts.
#[test]
fn a_directory_is_one_for_a_node_that_has_other_mounts() {
    let mut rig = world();
    let Some(mounts) = with_mounts(&rig, &BINDS) else {
        return;
    };
    rig.start(&[]);
    rig.wrap_client(mounts);
    let before = state(&rig.export);
    for (command, from, to, words) in NEVER {
        let local = [from, to].map(|place| format!("export/{place}"));
        let far = [from, to].map(|place| rig.url(place));
        // The node's side is the one without mounts on its path.
        let is_plain = |place: &str| !place.starts_with('b') && place != "top";
        let mut lines = Vec::new();
        if is_plain(to) || to == "top" && from != "other" {
            lines.push([command, &["--json", &local[0], &far[1]]].concat());
        }
        if is_plain(from) {
            lines.push([command, &["--json", &far[0], &local[1]]].concat());
        }
        for line in lines {
            rig.client(&line).expect(1, "failed").says(words);
            assert_eq!(state(&rig.export), before, "{line:?}");
        }
        for home in [&rig.client_home(), &rig.daemon_home] {
            let journals = Rig::journals(home);
            assert!(journals.is_empty(), "{from} {to}: {journals:?}");
        }
    }
    let line = ["sync", "--json", "--delete", "export/ba", &rig.url("free")];
    rig.client(&line).complete();
    assert_eq!(rig.read("export/free/deep/h"), b"top/a/deep/h");
}

/// With deletion, each transfer would remove the copy of the other one.
#[test]
fn several_destinations_that_mounts_lead_to_one_directory_are_refused() {
    let mut rig = world();
    let Some(mounts) = with_mounts(&rig, &BINDS) else {
        return;
    };
    rig.wrap_client(mounts);
    let before = state(&rig.export);
    for (first, second, words) in [
        ("top/a", "ba", "are one place"),
        ("top", "ba/new", "is inside"),
        ("ba/new", "bt", "is inside"),
    ] {
        let [first, second] = [first, second].map(|place| format!("export/{place}"));
        let line = [
            "sync",
            "--delete",
            "--each",
            "export/other",
            &first,
            &second,
        ];
        let outcome = rig.client(&line);
        assert_eq!(outcome.code, Some(2), "{line:?}: {outcome:?}");
        outcome.says(words);
        assert_eq!(state(&rig.export), before, "{line:?}");
    }
}

/// A node whose two exports are one file system.
#[test]
fn a_directory_is_one_for_a_job_between_two_exports() {
    let mut rig = world();
    let Some(mounts) = with_mounts(&rig, &BINDS) else {
        return;
    };
    rig.wrap_daemon(mounts);
    let second = format!("second={}", rig.path("export/bt").display());
    rig.serve(&["--export", &second]);
    let before = state(&rig.export);
    for (from, to, words) in [
        ("here:/data/top/a", "here:/second", INSIDE),
        ("here:/second/a", "here:/data/top", INSIDE),
        ("here:/data/top", "here:/second/a/x", ITSELF),
    ] {
        let set = ["--sync", "--setting", "delete=true", "--wait"];
        let line = [&["job", "submit", from, to][..], &set].concat();
        let outcome = rig.admin(&line);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        outcome.says(words);
        assert_eq!(state(&rig.export), before, "{line:?}");
    }
}

/// With deletion, the transfer to one destination would remove the copy at the other one.
#[test]
fn destinations_of_a_job_that_two_exports_lead_to_one_directory_are_refused() {
    let mut rig = world();
    rig.write("export/src/f", "f");
    let Some(mounts) = with_mounts(&rig, &BINDS) else {
        return;
    };
    rig.wrap_daemon(mounts);
    let exports = [("second", "bt"), ("nested", "top/a")]
        .map(|(name, place)| format!("{name}={}", rig.path("export").join(place).display()));
    rig.serve(&["--export", &exports[0], "--export", &exports[1]]);
    let submit = |one: &str, other: &str| {
        let to = ["--to", one, "--to", other];
        let set = ["--sync", "--setting", "delete=true", "--wait"];
        let line = [&["job", "submit", "here:/data/src"][..], &to, &set].concat();
        // A node takes such jobs a moment after its start.
        loop {
            let outcome = rig.admin(&line);
            if !outcome.complaint.contains("cluster is at level") {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let before = state(&rig.export);
    for (one, other, words) in [
        ("here:/data/top/a", "here:/second/a", "are one place"),
        ("here:/second/new", "here:/data/top/new", "are one place"),
        ("here:/data/top", "here:/second/a", "inside the other"),
        ("here:/data/ba/new", "here:/second", "inside the other"),
        // An export inside another one.
        ("here:/nested/new", "here:/data/top/a/new", "are one place"),
        ("here:/nested", "here:/data/top", "inside the other"),
        ("here:/second/a", "here:/nested/deep", "inside the other"),
        // A part of one destination is mounted in the other.
        ("here:/data/top", "here:/data/other", "inside the other"),
    ] {
        let outcome = submit(one, other);
        assert_ne!(outcome.code, Some(0), "{one} {other}: {outcome:?}");
        outcome.says(words);
        assert_eq!(state(&rig.export), before, "{one} {other}");
    }
    let outcome = submit("here:/data/free/x", "here:/second/b");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for copy in ["free/x", "top/b"] {
        assert_eq!(rig.read(&format!("export/{copy}/f")), b"f");
    }
}

/// The submission saw two directories.
#[test]
fn destinations_of_a_job_that_a_later_mount_makes_one_directory_are_refused() {
    let mut rig = world();
    rig.write("export/src/f", vec![7; 2_000_000]);
    let Some(mounts) = with_mounts(&rig, &BINDS[..1]) else {
        return;
    };
    let second = format!("second={}", rig.path("export/bt").display());
    rig.serve(&["--export", &second]);
    let to = ["--to", "here:/data/top/new", "--to", "here:/second/new"];
    let set = ["--sync", "--limit", "10KB/s"];
    let outcome = rig.admin(&[&["job", "submit", "here:/data/src"][..], &to, &set].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let id = outcome.out.trim().to_owned();
    let change = |rig: &Rig, verb: &str| {
        let outcome = rig.admin(&["job", verb, &id]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    wait_for(&rig, &id, |job| job["state"] == "running");
    change(&rig, "pause");
    rig.kill_daemon();
    rig.wrap_daemon(mounts);
    rig.serve(&["--export", &second]);
    change(&rig, "resume");
    let ended = wait_for(&rig, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
    for child in ended["jobs"].as_array().expect("jobs") {
        assert_eq!(child["state"], "failed", "{child}");
        let why = child["reason"]["text"].as_str().unwrap_or_default();
        assert!(why.contains("are one place"), "{child}");
    }
    assert!(!rig.path("export/top/new/f").exists());
}

/// A node that has a source, and may write to another one as to a site.
fn asker_of(there: &Rig) -> Rig {
    let mut here = Rig::new();
    here.serve(&[]);
    allow(there, &here.identity, &["--read", "--write"]);
    know(&here, "siteB", there);
    here
}

/// Only the site knows the directories of its exports.
#[test]
fn destinations_at_another_site_that_two_exports_lead_to_one_directory_are_refused() {
    let mut there = world();
    let Some(mounts) = with_mounts(&there, &BINDS) else {
        return;
    };
    there.wrap_daemon(mounts);
    let exports = [("second", "bt"), ("nested", "top/a")]
        .map(|(name, place)| format!("{name}={}", there.path("export").join(place).display()));
    there.serve(&["--export", &exports[0], "--export", &exports[1]]);
    let here = asker_of(&there);
    here.write("export/src/f", "f");
    // Another name of the site.
    know(&here, "alias", &there);
    let submit = |one: &str, other: &str| {
        let to = ["--to", one, "--to", other];
        let set = ["--sync", "--setting", "delete=true", "--wait"];
        here.admin(&[&["job", "submit", "here:/data/src"][..], &to, &set].concat())
    };
    let before = state(&there.export);
    for (one, other, words) in [
        ("siteB:/data/top/a", "siteB:/second/a", "are one place"),
        ("siteB:/second/new", "alias:/data/top/new", "are one place"),
        ("siteB:/data/top", "siteB:/second/a", "inside the other"),
        ("siteB:/data/ba/new", "siteB:/second", "inside the other"),
        // An export inside another one.
        (
            "siteB:/nested/new",
            "alias:/data/top/a/new",
            "are one place",
        ),
        ("siteB:/nested", "siteB:/data/top", "inside the other"),
        // A part of one destination is mounted in the other.
        ("siteB:/data/top", "siteB:/data/other", "inside the other"),
    ] {
        let outcome = submit(one, other);
        assert_ne!(outcome.code, Some(0), "{one} {other}: {outcome:?}");
        outcome.says(words);
        assert_eq!(state(&there.export), before, "{one} {other}");
    }
    let list = here.admin(&["job", "list", "--all", "--json"]).out;
    assert_eq!(list, "");
    let outcome = submit("siteB:/data/free/x", "siteB:/second/b");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for copy in ["free/x", "top/b"] {
        assert_eq!(there.read(&format!("export/{copy}/f")), b"f");
    }
}

/// The submission saw two directories of the other site.
#[test]
fn destinations_that_a_later_mount_at_another_site_makes_one_directory_are_refused() {
    let mut there = world();
    let Some(mounts) = with_mounts(&there, &BINDS[..1]) else {
        return;
    };
    let second = format!("second={}", there.path("export/bt").display());
    there.serve(&["--export", &second]);
    let here = asker_of(&there);
    here.write("export/src/f", vec![7; 2_000_000]);
    let to = ["--to", "siteB:/data/top/new", "--to", "siteB:/second/new"];
    let set = ["--sync", "--limit", "10KB/s"];
    let outcome = here.admin(&[&["job", "submit", "here:/data/src"][..], &to, &set].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let id = outcome.out.trim().to_owned();
    let change = |verb: &str| {
        let outcome = here.admin(&["job", verb, &id]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    wait_for(&here, &id, |job| job["state"] == "running");
    change("pause");
    there.kill_daemon();
    there.wrap_daemon(mounts);
    there.serve(&["--export", &second]);
    change("resume");
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "failed", "{ended}");
    for child in ended["jobs"].as_array().expect("jobs") {
        assert_eq!(child["state"], "failed", "{child}");
        let why = child["reason"]["text"].as_str().unwrap_or_default();
        assert!(why.contains("are one place"), "{child}");
    }
    assert!(!there.path("export/top/new/f").exists());
}

/// The mounted directory is on the same device as the directory of its mount point.
#[test]
fn an_export_that_has_to_be_a_mount_may_be_a_bind_mount() {
    let mut rig = Rig::for_user(false);
    rig.write("file", "content");
    for name in ["disk", "place", "empty"] {
        rig.make_dirs(name);
    }
    let Some(mounts) = with_mounts(&rig, &[("disk", "place")]) else {
        return;
    };
    rig.wrap_daemon(mounts);
    let exports =
        ["place", "empty"].map(|name| format!("{name}={},require-mount", rig.path(name).display()));
    rig.start(&["--export", &exports[0], "--export", &exports[1]]);
    let to = |export: &str| format!("godwit://{}/{export}/file", rig.address());
    rig.cp(&["file", &to("place")]).complete();
    assert_eq!(rig.read("disk/file"), b"content");
    let refused = rig.cp(&["file", &to("empty")]);
    refused.expect(1, "failed").says("must be a mount");
}

/// A mount point cannot be removed, so its contents must stay, too.
#[test]
fn nothing_is_emptied_that_is_mounted_where_a_file_is_to_be() {
    let mut rig = Rig::for_user(false);
    rig.write("source/file", "file");
    rig.write("mounted/precious", "precious");
    rig.write("tree/x", "x");
    for name in ["plain", "copy/x/deep"] {
        rig.make_dirs(name);
    }
    rig.write("copy/extra", "extra");
    let binds = [("mounted", "plain"), ("mounted", "copy/x/deep")];
    let Some(mounts) = with_mounts(&rig, &binds) else {
        return;
    };
    rig.wrap_client(mounts);
    for (from, to) in [("source/file", "plain"), ("tree", "copy")] {
        for dry in [&["--dry-run"][..], &[]] {
            let line = [&["sync", "--json", "--delete", from, to], dry].concat();
            let outcome = rig.client(&line);
            outcome
                .expect(3, "partial")
                .says("a file system is mounted at");
            assert_eq!(outcome.number("deleted"), 0, "{outcome:?}");
            assert_eq!(rig.read("mounted/precious"), b"precious");
            assert_eq!(rig.read("copy/extra"), b"extra");
        }
        // The pass that deletes first leaves the mount to the second pass, which refuses.
        for flags in [&["--delete-before"][..], &["--delete-before", "-x"]] {
            let line = [&["sync", "--json"], flags, &[from, to]].concat();
            let outcome = rig.client(&line);
            outcome
                .expect(3, "partial")
                .says("nothing more was deleted");
            assert_eq!(rig.read("mounted/precious"), b"precious", "{flags:?}");
        }
    }
}

#[test]
fn a_file_system_that_only_the_destination_has_is_named_before_it_is_emptied() {
    let mut rig = Rig::for_user(false);
    rig.write("tree/x", "x");
    rig.write("mounted/old", "old");
    rig.make_dirs("copy/extra/point");
    let Some(mounts) = with_mounts(&rig, &[("mounted", "copy/extra/point")]) else {
        return;
    };
    rig.wrap_client(mounts);
    let note = "a file system is mounted at copy/extra/point";
    let line = ["sync", "--json", "--delete", "--dry-run", "tree", "copy"];
    rig.client(&line).complete().says(note);
    assert_eq!(rig.read("mounted/old"), b"old");
    let line = ["sync", "--json", "--delete", "tree", "copy"];
    rig.client(&line).expect(3, "partial").says(note);
    assert!(!rig.path("mounted/old").exists());
    let spared = ["--exclude", "/extra"];
    rig.client(&[&line[..], &spared].concat()).complete();
}

/// As with rsync, a mounted file system belongs to neither tree.
#[test]
fn one_file_system_ends_at_mounts_at_both_ends() {
    for way in DIRECTIONS {
        let mut rig = Rig::for_user(false);
        let (source, destination) = way.places();
        rig.write("mounted/in", "in");
        rig.write("other/kept", "kept");
        for name in ["x", "d/y"] {
            rig.write(&format!("{source}/{name}"), name);
        }
        rig.make_dirs(&format!("{source}/d/point"));
        rig.write(&format!("{destination}/d/point/stays"), "stays");
        rig.write(&format!("{destination}/extra/goes"), "goes");
        rig.make_dirs(&format!("{destination}/extra/point"));
        let inner = format!("{source}/d/point");
        let outer = format!("{destination}/extra/point");
        let binds = [("mounted", inner.as_str()), ("other", outer.as_str())];
        let Some(mounts) = with_mounts(&rig, &binds) else {
            return;
        };
        rig.wrap_client(&mounts);
        rig.wrap_daemon(&mounts);
        rig.start(&[]);
        let dry = way.sync(&rig, &["--delete", "-x", "--dry-run"]);
        let outcome = way.sync(&rig, &["--delete", "-x"]);
        outcome.complete();
        assert_eq!(outcome.number("deleted"), 1, "{way:?} {outcome:?}");
        assert_eq!(dry.number("deleted"), 1, "{way:?} {dry:?}");
        let there = |name: &str| rig.path(destination).join(name).exists();
        assert!(
            there("d/y") && there("d/point/stays") && !there("d/point/in"),
            "{way:?}"
        );
        assert!(there("extra/point") && !there("extra/goes"), "{way:?}");
        assert_eq!(rig.read("other/kept"), b"kept");
        // Without the flag, the mounted file system arrives.
        way.sync(&rig, &[]).complete();
        assert!(there("d/point/in"), "{way:?}");
    }
}

/// Tests a copy of a whole system to a disk that is mounted inside the copied tree.
#[test]
fn with_one_file_system_a_tree_goes_to_what_is_mounted_in_it() {
    let mut rig = Rig::for_user(false);
    rig.write("tree/x", "x");
    rig.write("disk/old", "old");
    rig.make_dirs("tree/point");
    let Some(mounts) = with_mounts(&rig, &[("disk", "tree/point")]) else {
        return;
    };
    rig.wrap_client(mounts);
    let line = ["sync", "--json", "--delete", "tree", "tree/point"];
    rig.client(&line).expect(1, "failed").says(ITSELF);
    assert_eq!(rig.read("disk/old"), b"old");
    rig.client(&[&line[..], &["--one-file-system"]].concat())
        .complete();
    assert_eq!(rig.read("disk/x"), b"x");
    assert!(!rig.path("disk/old").exists());
}
