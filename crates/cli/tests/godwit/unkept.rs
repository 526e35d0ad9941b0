//! Tests the messages on metadata that cannot be kept: one message with a count for each kind, or an error if the user asked for the metadata.
//! Metadata that can be kept is tested in `metadata`.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use godwit_testkit::needs_root;
use rustix::fs::XattrFlags;

use super::metadata::{GRANTS, assert_archived, tool};
use super::process::Outcome;
use super::rig::{Rig, as_each_user, is_root};

/// The counts of the summary, in its order: owner, group, set_id, xattrs, security_xattrs, acls.
#[track_caller]
fn assert_not_kept(outcome: &Outcome, expected: [u64; 6]) {
    let summary = outcome.summary();
    let kinds = [
        "owner",
        "group",
        "set_id",
        "xattrs",
        "security_xattrs",
        "acls",
    ];
    let counts = kinds.map(|kind| summary["not_kept"][kind].as_u64().expect("a number"));
    assert_eq!(counts, expected, "{}", outcome.said());
    let reported = outcome
        .events()
        .iter()
        .filter(|event| event["event"] == "note")
        .filter(|event| event["message"].to_string().contains("arrived without"))
        .count();
    let kinds = expected.into_iter().filter(|count| *count > 0).count();
    assert_eq!(
        reported,
        kinds,
        "each kind is told once: {}",
        outcome.said()
    );
}

fn labelled(rig: &Rig) {
    rig.write("run/d/small", "x");
    rig.write("run/large", vec![7; 600_000]);
    rig.write("run/plain", "y");
    for name in ["run/d/small", "run/large", "run/d"] {
        tool("setfattr", &["-n", "user.a", "-v", "1"], &rig.path(name));
    }
    tool("setfacl", &["-m", "u:1:rw,g::---"], &rig.path("run/large"));
    rig.own();
}

/// A file system in memory without attributes, visible only to the rig.
fn without_attributes(rig: &mut Rig) {
    rig.make_dirs("bare");
    let bare = rig.path("bare");
    let script = format!(
        "mount -t ramfs -o mode=777 ramfs '{0}' && chmod 777 '{0}' && exec \"$@\"",
        bare.display()
    );
    rig.wrap_client([
        "unshare",
        "--mount",
        "--propagation=slave",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
}

#[test]
fn metadata_that_a_file_system_lacks_is_reported_once_for_each_kind() {
    if !needs_root() {
        // Only a superuser can mount such a file system.
        return;
    }
    as_each_user(|rig| {
        rig.start(&[]);
        labelled(rig);
        without_attributes(rig);
        let outcome = rig.cp(&["-a", "run", "bare/to"]);
        assert_not_kept(outcome.complete(), [0, 0, 0, 3, 0, 1]);
        let strict = rig.cp(&["-a", "--strict", "run", "bare/strict"]);
        let failed = ["bare/strict/d", "bare/strict/d/small", "bare/strict/large"];
        assert_eq!(strict.expect(3, "partial").failed().len(), failed.len());
        for name in ["small", "large", "d"] {
            strict.says(name);
        }
        strict.says("cannot keep the extended attributes of");
        assert_not_kept(&strict, [0; 6]);
        // Attributes that were not asked for are not missed.
        let outcome = rig.cp(&["run", "bare/plain"]);
        assert_not_kept(outcome.complete(), [0; 6]);
    });
}

#[test]
fn metadata_that_an_export_does_not_grant_is_not_applied() {
    if !needs_root() {
        // Without rights none of this metadata could be made.
        return;
    }
    let mut rig = Rig::for_user(false);
    rig.make_dirs("all");
    let export = format!("all={},{GRANTS}", rig.path("all").display());
    rig.start(&["--export", &export]);
    rig.write("run/file", "x");
    rig.write("run/other", "y");
    let file = rig.path("run/file");
    tool("setfattr", &["-n", "trusted.t", "-v", "1"], &file);
    tool("setfattr", &["-n", "user.u", "-v", "1"], &file);
    tool("chown", &["12345:54321"], &file);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).expect("ours");
    tool("mkfifo", &[], &rig.path("run/fifo"));
    let made = std::process::Command::new("mknod")
        .arg(rig.path("run/device"))
        .args(["c", "1", "5"])
        .status();
    assert!(made.expect("mknod runs").success(), "we are root");

    let outcome = rig.cp(&["-a", "run/", &rig.url("to")]);
    assert_eq!(outcome.expect(3, "partial").failed(), ["run/device"]);
    assert_not_kept(&outcome, [1, 1, 1, 0, 1, 0]);
    let meta = fs::metadata(rig.export.join("to/file")).expect("there");
    assert_eq!(
        (meta.uid(), meta.gid(), meta.mode() & 0o7777),
        (0, 0, 0o755)
    );
    assert!(has(&rig.export.join("to/file"), "user.u"));
    assert!(!has(&rig.export.join("to/file"), "trusted.t"));
    let fifo = fs::symlink_metadata(rig.export.join("to/fifo")).expect("there");
    assert!(fifo.file_type().is_fifo());
    fs::symlink_metadata(rig.export.join("to/device")).expect_err("not made");

    let strict = rig.cp(&["-a", "--strict", "run/", &rig.url("strict")]);
    assert_eq!(
        strict.expect(3, "partial").failed(),
        ["run/device", "run/file"]
    );
    fs::symlink_metadata(rig.export.join("strict/file")).expect_err("not as it should be");
    fs::metadata(rig.export.join("strict/other")).expect("nothing of it is missing");
    // The next run does not take it for there either.
    rig.cp(&["-a", "--strict", "run/", &rig.url("strict")])
        .expect(3, "partial");

    // Metadata that an export does not give away is not reported. Granted metadata is complete.
    let all = |name: &str| format!("godwit://{}/all/{name}", rig.address());
    rig.cp(&["-a", "--strict", "run/", &all("to")]).complete();
    assert_archived(&rig.path("run"), &rig.path("all/to"));
    fs::create_dir(rig.export.join("secret")).expect("made");
    fs::write(rig.export.join("secret/file"), "x").expect("written");
    tool(
        "setfattr",
        &["-n", "trusted.t", "-v", "1"],
        &rig.export.join("secret/file"),
    );
    rig.cp(&["-a", &rig.url("secret"), "fetched"]).complete();
    assert!(!has(&rig.path("fetched/file"), "trusted.t"));
}

#[test]
fn without_rights_what_may_be_kept_is() {
    as_each_user(|rig| {
        rig.start(&[]);
        labelled(rig);
        if is_root() {
            tool("chown", &["12345:54321"], &rig.path("run/plain"));
        }
        let outcome = rig.cp(&["-a", "run/", "to"]);
        let foreign = u64::from(is_root() && rig.unprivileged());
        assert_not_kept(outcome.complete(), [foreign, foreign, 0, 0, 0, 0]);
        assert!(has(&rig.path("to/d/small"), "user.a"));
        if foreign == 0 {
            assert_archived(&rig.path("run"), &rig.path("to"));
        }
    });
}

/// The kernel asks for write permission even of an owner who sets attributes.
#[test]
fn attributes_of_a_file_without_write_permission_follow_those_of_the_source() {
    as_each_user(|rig| {
        rig.start(&[]);
        labelled(rig);
        let close = |mode: u32| {
            for name in ["run/d/small", "run/large", "run/plain"] {
                let mode = fs::Permissions::from_mode(mode);
                fs::set_permissions(rig.path(name), mode).expect("ours");
            }
        };
        let places = [
            ("to".to_owned(), rig.path("to")),
            (rig.url("to"), rig.export.join("to")),
        ];
        for mode in [0o444, 0o400, 0o555] {
            close(mode);
            for (to, at) in &places {
                let sync = ["sync", "--json", "-a", "run/", to];
                assert_not_kept(rig.client(&sync).complete(), [0; 6]);
                assert_archived(&rig.path("run"), at);
            }
            // One attribute changes, one is removed, and one is added.
            close(0o644);
            let value = format!("{mode}");
            let small = rig.path("run/d/small");
            tool("setfattr", &["-n", "user.a", "-v", &value], &small);
            tool("setfattr", &["-x", "user.a"], &rig.path("run/large"));
            let plain = rig.path("run/plain");
            tool("setfattr", &["-n", "user.b", "-v", &value], &plain);
            close(mode);
            for (to, at) in &places {
                let sync = ["sync", "--json", "-a", "--strict", "run/", to];
                let outcome = rig.client(&sync);
                assert_not_kept(outcome.complete(), [0; 6]);
                assert_eq!(outcome.number("bytes"), 0, "{}", outcome.said());
                assert_archived(&rig.path("run"), at);
                let again = rig.client(&sync);
                assert_eq!(again.complete().number("adjusted"), 0, "{}", again.said());
            }
            close(0o644);
            let large = rig.path("run/large");
            tool("setfattr", &["-n", "user.a", "-v", "1"], &large);
        }
    });
}

/// A source that may not be read is no file system without attributes: those at the destination stay.
#[test]
fn attributes_that_may_not_be_read_fail_their_file() {
    as_each_user(|rig| {
        rig.start(&[]);
        labelled(rig);
        rig.cp(&["-a", "run/", "to"]).complete();
        let small = rig.path("run/d/small");
        fs::set_permissions(&small, fs::Permissions::from_mode(0o200)).expect("ours");
        let outcome = rig.client(&["sync", "--json", "-a", "run/", "to"]);
        if rig.unprivileged() {
            assert_eq!(outcome.expect(3, "partial").failed(), ["run/d/small"]);
            outcome.says("ermission denied");
            assert_not_kept(&outcome, [0; 6]);
        } else {
            outcome.complete();
        }
        assert!(has(&rig.path("to/d/small"), "user.a"));
    });
}

/// Larger than most file systems hold. The attributes arrive if there is room, and are reported otherwise.
#[test]
fn attributes_of_any_size_arrive_or_are_reported() {
    let large = |root: &Path, values: usize| {
        fs::create_dir_all(root.join("d")).expect("made");
        for name in ["d", "d/small", "large"] {
            let path = root.join(name);
            let bytes = if name == "large" { 700_000 } else { 10 };
            if name != "d" {
                fs::write(&path, vec![1_u8; bytes]).expect("written");
            }
            for number in 0..values {
                let value = vec![b'0' + u8::try_from(number).expect("few"); 65_536];
                let name = format!("user.large{number}");
                rustix::fs::setxattr(&path, name, &value, XattrFlags::empty()).expect("held");
            }
        }
    };
    // In memory, where attributes may have any size.
    let mut rig = Rig::new();
    rig.start(&[]);
    large(&rig.path("run"), 2);
    rig.cp(&["-a", "--strict", "run/", &rig.url("to")])
        .complete();
    assert_archived(&rig.path("run"), &rig.export.join("to"));
    rig.cp(&["-a", "--strict", &rig.url("to"), "back"])
        .complete();
    assert_archived(&rig.path("run"), &rig.path("back"));
    // More than a record has room for.
    large(&rig.path("more"), 5);
    let outcome = rig.cp(&["-a", "more/", &rig.url("more")]);
    assert_not_kept(outcome.complete(), [0, 0, 0, 3, 0, 0]);
    assert_eq!(
        fs::read(rig.export.join("more/large"))
            .expect("there")
            .len(),
        700_000
    );
    let strict = rig.cp(&["-a", "--strict", "more/", &rig.url("strict")]);
    assert_eq!(
        strict.expect(3, "partial").failed(),
        ["more/d", "more/d/small", "more/large"]
    );
}

fn has(path: &Path, name: &str) -> bool {
    rustix::fs::lgetxattr(path, name, &mut [0_u8; 100][..]).is_ok()
}
