//! Tests of pulls of several sources, some of which fail: the others arrive, and each failed source is reported by name.
//! Failures below a source are tested in `entries`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::judge::{assert_identical, assert_tidy};
use super::rig::{Rig, as_each_user, is_root};
use super::ssh::far::{Far, Where};

#[test]
fn a_missing_source_does_not_stop_the_others() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("export/src/a", "alpha");
        rig.write("export/src/d/x", "x");
        let (a, missing, d) = (rig.url("src/a"), rig.url("src/missing"), rig.url("src/d"));
        let line = ["--failed", "list", &missing, &a, &d, "to/"];
        let outcome = rig.cp(&line);
        assert_eq!(outcome.expect(3, "partial").failed(), ["to/missing"]);
        outcome.says("does not exist");
        assert_eq!((outcome.number("failed"), outcome.number("files")), (1, 2));
        assert_eq!(rig.read("to/a"), b"alpha");
        assert_eq!(rig.read("to/d/x"), b"x");
        assert!(!rig.path("to/missing").exists());
        assert_eq!(rig.read("list"), b"missing\0");
        let reasons = String::from_utf8(rig.read("list.reasons")).expect("text");
        assert!(reasons.contains("\tsource\tnot_found\t"), "{reasons}");
        assert_eq!(Rig::journals(&rig.client_home()).len(), 1, "unfinished");

        // The same command copies entries made since.
        rig.write("export/src/missing/y", "y");
        let again = rig.cp(&line);
        let counted = (again.complete().number("files"), again.number("skipped"));
        assert_eq!(counted, (1, 2));
        // The directories around them have times of their own.
        for name in ["d", "missing"] {
            let there = rig.path("to").join(name);
            assert_identical(&rig.path("export/src").join(name), &there);
        }
        assert_eq!(rig.read("to/a"), b"alpha");
        assert_tidy(&rig.path("to"), &rig.client_home());
    });
}

#[test]
fn an_unfinished_run_continues_when_a_missing_source_is_there() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("export/large", vec![7; 8 << 20]);
    rig.make_dirs("to");
    let (large, later) = (rig.url("large"), rig.url("later"));
    let line = ["--block-size", "64KiB", &later, &large, "to"];
    let limited = [&["--limit", "4MB"], &line[..]].concat();
    let mut client = rig.begin_cp(&rig.path(""), &limited);
    client.wait_for_bytes(4 << 20);
    client.signal(rustix::process::Signal::INT);
    assert_eq!(client.wait().code, Some(5));
    rig.write("export/later", "later");
    let outcome = rig.cp(&line);
    let bytes = outcome.complete().number("bytes");
    assert!(bytes < 8 << 20, "{bytes}: it began anew");
    assert_eq!(rig.read("to/large"), rig.read("export/large"));
    assert_eq!(rig.read("to/later"), b"later");
    assert_tidy(&rig.path("to"), &rig.client_home());
}

#[test]
fn partial_data_of_a_source_that_is_missing_for_a_run_is_kept() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("export/set/large", vec![7; 8 << 20]);
    rig.write("export/tree/deep/large", vec![8; 8 << 20]);
    rig.write("export/small", "small");
    rig.make_dirs("to");
    // The file itself is not moved, because a move would change the file.
    for (name, around) in [("set/large", "set"), ("tree", "tree")] {
        let (source, small) = (rig.url(name), rig.url("small"));
        let line = ["--block-size", "64KiB", &source, &small, "to"];
        let limited = [&["--limit", "4MB"], &line[..]].concat();
        let mut client = rig.begin_cp(&rig.path(""), &limited);
        client.wait_for_bytes(4 << 20);
        client.signal(rustix::process::Signal::INT);
        assert_eq!(client.wait().code, Some(5));
        fs::rename(rig.path("export").join(around), rig.path("away")).expect("moved");
        rig.cp(&line).expect(3, "partial");
        fs::rename(rig.path("away"), rig.path("export").join(around)).expect("moved");
        let bytes = rig.cp(&line).complete().number("bytes");
        assert!(bytes < 8 << 20, "{name}: {bytes}: it began anew");
    }
    assert_eq!(rig.read("to/large"), rig.read("export/set/large"));
    assert_eq!(rig.read("to/tree/deep/large"), vec![8; 8 << 20]);
    assert_tidy(&rig.path("to"), &rig.client_home());
}

#[test]
fn a_closed_source_does_not_stop_the_others() {
    as_each_user(|rig| {
        rig.start(&[]);
        if !rig.unprivileged() {
            return;
        }
        rig.write("export/a", "alpha");
        rig.write("export/file", "secret");
        rig.write("export/directory/x", "secret");
        rig.write("export/locked/inside", "secret");
        rig.write("export/sealed/deep/inside", "secret");
        rig.own();
        for name in ["file", "directory", "locked", "sealed"] {
            let closed = fs::Permissions::from_mode(0o000);
            fs::set_permissions(rig.path("export").join(name), closed).expect("ours");
        }
        let names = ["file", "a", "directory", "locked/inside", "sealed/deep"];
        let urls = names.map(|name| rig.url(name));
        let mut line: Vec<&str> = urls.iter().map(String::as_str).collect();
        line.extend(["--failed", "list", "to/"]);
        let outcome = rig.cp(&line);
        let failed = ["to/deep", "to/directory", "to/file", "to/inside"];
        assert_eq!(outcome.expect(3, "partial").failed(), failed);
        assert_eq!(outcome.says("permission denied").number("failed"), 4);
        assert_eq!(rig.read("to/a"), b"alpha");
        let reasons = String::from_utf8(rig.read("list.reasons")).expect("text");
        assert_eq!(
            reasons.matches("\tsource\tpermission\t").count(),
            4,
            "{reasons}"
        );
    });
}

#[test]
fn nothing_but_missing_sources_is_refused() {
    as_each_user(|rig| {
        rig.start(&[]);
        for names in [&["no"][..], &["no", "nor/this"]] {
            let urls: Vec<String> = names.iter().map(|name| rig.url(name)).collect();
            let mut line: Vec<&str> = urls.iter().map(String::as_str).collect();
            line.push("./");
            let outcome = rig.cp(&line);
            outcome.expect(1, "failed").says("data/no does not exist");
            assert!(outcome.failed().is_empty(), "{outcome:?}");
        }
    });
}

/// The same holds for each kind and number of sources, and for both ends as the reader.
#[test]
fn nothing_but_closed_sources_is_a_failure() {
    as_each_user(|rig| {
        rig.start(&[]);
        if !rig.unprivileged() {
            return;
        }
        for place in ["", "export/"] {
            for name in ["file", "other", "directory/x", "second/x", "good"] {
                rig.write(&format!("{place}{name}"), "secret");
            }
        }
        rig.own();
        for place in ["", "export/"] {
            for name in ["file", "other", "directory", "second"] {
                let closed = fs::Permissions::from_mode(0o000);
                fs::set_permissions(rig.path(format!("{place}{name}")), closed).expect("ours");
            }
        }
        for (from, to) in [
            (String::new(), "to/".to_owned()),
            (String::new(), rig.url("to/")),
            (rig.url(""), "to/".to_owned()),
        ] {
            for names in [
                &["file"][..],
                &["directory"],
                &["file", "other"],
                &["directory", "second"],
                &["file", "directory"],
                &["missing", "file"],
            ] {
                let sources: Vec<String> =
                    names.iter().map(|name| format!("{from}{name}")).collect();
                let mut line: Vec<&str> = sources.iter().map(String::as_str).collect();
                line.push(&to);
                let outcome = rig.cp(&line);
                outcome.expect(1, "failed").says("permission denied");
                assert_eq!(outcome.number("failed"), names.len() as u64, "{line:?}");
                let good = format!("{from}good");
                line.insert(0, &good);
                rig.cp(&line).expect(3, "partial");
            }
        }
    });
}

/// A source without access, or outside the export, fails the whole request and not only itself.
#[test]
fn a_source_without_access_or_outside_the_export_fails_the_request() {
    as_each_user(|rig| {
        rig.write("second/b", "bravo");
        rig.write("outside/secret", "secret");
        rig.write("export/a", "alpha");
        symlink(rig.path("outside"), rig.path("export/way")).expect("planted");
        let second = format!("second={}", rig.path("second").display());
        rig.serve(&["--export", &second]);
        let us = rig.client(&["id"]).out.trim().to_owned();
        let granted = rig.admin(&["access", "allow", &us, "--export", "data", "--read"]);
        assert_eq!(granted.code, Some(0), "{granted:?}");
        rig.trust(rig.address(), &rig.identity);
        let (a, missing) = (rig.url("a"), rig.url("missing"));
        let at = |path: &str| format!("godwit://{}/{path}", rig.address());
        for (path, code) in [
            ("second/b", 4),
            ("second/nothing", 4),
            ("third/b", 1),
            ("data/way/secret", 1),
        ] {
            for line in [
                [&a, &at(path)],
                [&at(path), &a],
                [&missing, &at(path)],
                [&at(path), &missing],
            ] {
                let line = [&line.map(String::as_str)[..], &["to/"]].concat();
                let outcome = rig.cp(&line);
                outcome.expect(code, "failed");
                assert!(outcome.failed().is_empty(), "{line:?} {outcome:?}");
                let arrived = fs::read_dir(rig.path("to")).map_or(0, Iterator::count);
                assert_eq!(arrived, 0, "{line:?}");
            }
        }
    });
}

#[test]
fn through_ssh_it_is_the_same() {
    let far = Far::at(Where {
        nobody: is_root(),
        ..Where::default()
    });
    far.write("home/a", "alpha");
    far.write("home/d/x", "x");
    far.write("home/file", "secret");
    far.write("home/locked/inside", "secret");
    far.write("home/closed/x", "secret");
    if is_root() {
        far.hand_over("home", super::rig::NOBODY);
    }
    for name in ["file", "locked", "closed"] {
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(far.home().join(name), closed).expect("ours");
    }
    let line = [
        "--failed",
        "list",
        "far:missing",
        "far:a",
        "far:file",
        "far:locked/inside",
        "far:a/below",
        "far:closed",
        "far:d",
        "to/",
    ];
    let outcome = far.cp(&line);
    let failed = ["below", "closed", "file", "inside", "missing"].map(|name| format!("to/{name}"));
    assert_eq!(outcome.expect(3, "partial").failed(), failed);
    outcome
        .says("No such file or directory")
        .says("permission denied");
    assert_eq!(fs::read(far.path("to/a")).expect("there"), b"alpha");
    assert_eq!(fs::read(far.path("to/d/x")).expect("there"), b"x");
    let reasons = fs::read_to_string(far.path("list.reasons")).expect("text");
    for line in [
        "missing\tsource\tnot_found\t",
        "inside\tsource\tpermission\t",
        "file\tsource\tpermission\t",
        "closed\tsource\tpermission\t",
        "below\tsource\t",
    ] {
        assert!(reasons.contains(line), "{line}: {reasons}");
    }

    for line in [
        &["far:file", "none/"][..],
        &["far:closed", "none/"],
        &["far:file", "far:closed", "far:missing", "none/"],
    ] {
        let outcome = far.cp(line);
        outcome.expect(1, "failed").says("permission denied");
        assert_eq!(outcome.number("failed"), line.len() as u64 - 1);
    }
    far.cp(&["far:missing", "far:locked/inside", "none/"])
        .expect(1, "failed")
        .says("missing")
        .says("No such file or directory");

    let opened = fs::Permissions::from_mode(0o700);
    for name in ["file", "locked", "closed"] {
        fs::set_permissions(far.home().join(name), opened.clone()).expect("ours");
    }
    far.write("home/missing", "made since");
    let last = far.cp(&line);
    assert_eq!(last.expect(3, "partial").failed(), ["to/below"]);
    assert_eq!(
        fs::read(far.path("to/missing")).expect("there"),
        b"made since"
    );
    assert_eq!(fs::read(far.path("to/inside")).expect("there"), b"secret");
}
