//! Owns the tests of the meaning of patterns, with rsync as the judge.
//! Other reasons to skip entries are tested in `choices`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::data::{Seeded, first_seed};
use super::judge::assert_identical;
use super::rig::Rig;

/// Arguments for both programs, between `--no-sync` or `-a` and the names.
fn arguments(rules: &[(&str, &str)]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for (flag, pattern) in rules {
        arguments.push(format!("--{flag}={pattern}").into());
    }
    arguments
}

/// Copies `tree` by both programs with the same rules; both copies must be the same.
#[track_caller]
fn as_rsync(rig: &Rig, rules: &[OsString], case: &str) {
    let (theirs, ours) = (format!("rsync-{case}"), format!("godwit-{case}"));
    let status = Command::new("rsync")
        .arg("-aH")
        .args(rules)
        .args([rig.path("tree/"), rig.path(&theirs)])
        .status();
    assert!(status.expect("rsync runs").success(), "{rules:?}");
    let mut line: Vec<OsString> = vec!["--no-sync".into()];
    line.extend(rules.iter().cloned());
    line.extend(["tree".into(), ours.clone().into()]);
    rig.cp(&line).complete();
    let (theirs, ours) = (rig.path(theirs), rig.path(ours));
    assert_identical(&theirs, &ours);
    assert_identical(&ours, &theirs);
    fs::remove_dir_all(theirs).expect("removed");
    fs::remove_dir_all(ours).expect("removed");
}

fn make_tree(rig: &Rig) {
    for name in [
        "a",
        "b.tmp",
        ".hidden",
        "*",
        "[x]",
        "back\\slash",
        "foo/a",
        "foo/b.tmp",
        "foo/bar",
        "foo/deep/bar",
        "foo/deep/er/bar/file",
        "foo/deep/er/x1",
        "foo/deep/er/x2",
        "bar/foo/a",
        "bar/foo/bar/a",
        "bar/core",
        "core/file",
        "x/foobar",
        "x/foo-/bar",
        "cache/keep/this",
        "cache/drop",
        "new\nline/a",
    ] {
        rig.write(&format!("tree/{name}"), name);
    }
    let odd = rig.path("tree").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&odd).expect("made");
    fs::write(odd.join(OsStr::from_bytes(b"\xff.tmp")), "odd").expect("written");
    symlink("foo", rig.path("tree/link")).expect("made");
    fs::hard_link(rig.path("tree/a"), rig.path("tree/x/twin")).expect("linked");
    rig.make_dirs("tree/empty");
}

#[test]
fn rules_mean_what_they_mean_to_rsync() {
    let rig = Rig::new();
    make_tree(&rig);
    let cases: &[&[(&str, &str)]] = &[
        &[("exclude", "*.tmp")],
        &[("exclude", "a")],
        &[("exclude", "/a")],
        &[("exclude", "foo")],
        &[("exclude", "/foo")],
        &[("exclude", "foo/")],
        &[("exclude", "core/")],
        &[("exclude", "/bar/foo")],
        &[("exclude", "foo/bar")],
        &[("exclude", "foo/bar/")],
        &[("exclude", "/foo/bar")],
        &[("exclude", "foo/*/bar")],
        &[("exclude", "foo/**/bar")],
        &[("exclude", "foo/**")],
        &[("exclude", "foo/***")],
        &[("exclude", "/foo/***")],
        &[("exclude", "**/bar")],
        &[("exclude", "/**/bar")],
        &[("exclude", "**bar")],
        &[("exclude", "fo**r")],
        &[("exclude", "/fo**r")],
        &[("exclude", "***")],
        &[("exclude", "*")],
        &[("exclude", "/*")],
        &[("exclude", "*/")],
        &[("exclude", "/*/*")],
        &[("exclude", "?")],
        &[("exclude", "x[12]")],
        &[("exclude", "x[!1]")],
        &[("exclude", "x[^1]")],
        &[("exclude", "x[[:digit:]]")],
        &[("exclude", "[[:upper:].]*")],
        &[("exclude", "[a-c]*")],
        &[("exclude", "\\*")],
        &[("exclude", "\\[x*")],
        &[("exclude", "back\\slash")],
        &[("exclude", "back\\\\s*")],
        &[("exclude", "new*")],
        &[("exclude", "caf?")],
        &[("exclude", "link")],
        &[("exclude", "link/")],
        &[("exclude", "empty/")],
        &[("exclude", ".*")],
        &[("exclude", "twin")],
        &[("include", "*/"), ("include", "*.tmp"), ("exclude", "*")],
        &[("include", "*.tmp"), ("exclude", "*")],
        &[("exclude", "*.tmp"), ("include", "b.tmp")],
        &[("include", "b.tmp"), ("exclude", "*.tmp")],
        &[("include", "/foo/***"), ("exclude", "*")],
        &[
            ("include", "/foo/"),
            ("include", "/foo/deep/***"),
            ("exclude", "*"),
        ],
        &[("include", "keep/**"), ("exclude", "cache/")],
        &[
            ("include", "/cache/"),
            ("include", "/cache/keep/***"),
            ("exclude", "/cache/*"),
        ],
        &[("exclude", "+ a"), ("exclude", "*.tmp")],
        &[("include", "- *.tmp"), ("exclude", "+ *")],
    ];
    for (number, rules) in cases.iter().enumerate() {
        as_rsync(&rig, &arguments(rules), &number.to_string());
    }
    let bytes = OsString::from_vec(b"--exclude=\xff*".to_vec());
    as_rsync(&rig, &[bytes], "bytes");
    let bytes = OsString::from_vec(b"--exclude=/caf\xe9/".to_vec());
    as_rsync(&rig, &[bytes], "bytes-plain");
}

#[test]
fn files_of_rules_are_read_as_rsync_does() {
    let rig = Rig::new();
    make_tree(&rig);
    rig.write(
        "ex",
        "# no rule\n\n; neither\n*.tmp\r\n+ /x/\n/x/foobar\nc*\n",
    );
    rig.write("in", "/cache/\n/cache/k*\n- /bar\n");
    let from = |flag: &str, name: &str| {
        let path = rig.path(name);
        OsString::from(format!("--{flag}={}", path.display()))
    };
    as_rsync(&rig, &[from("exclude-from", "ex")], "ex");
    let both = [from("include-from", "in"), from("exclude-from", "ex")];
    as_rsync(&rig, &both, "both");
    let turned = [from("exclude-from", "ex"), from("include-from", "in")];
    as_rsync(&rig, &turned, "turned");
    rig.write("ex0", "new\nline\0#a\0*.tmp\0");
    as_rsync(
        &rig,
        &["--from0".into(), from("exclude-from", "ex0")],
        "zero",
    );
}

/// Tests random rules on random trees: local copies, copies to a node and from a node.
#[test]
fn random_rules_mean_what_they_mean_to_rsync() {
    let first = first_seed(1);
    let mut rig = Rig::new();
    rig.start(&[]);
    for seed in first..first + 12 {
        eprintln!("GODWIT_TEST_SEED={seed}");
        let mut seeded = Seeded(seed);
        let tree = rig.path(format!("tree-{seed}"));
        fs::create_dir(&tree).expect("made");
        fill(&tree, 0, &mut seeded);
        for round in 0..4 {
            let rules: Vec<OsString> = (0..1 + seeded.below(5))
                .map(|_| rule(&mut seeded))
                .collect();
            eprintln!("{rules:?}");
            let theirs = rig.path(format!("rsync-{seed}-{round}"));
            let status = Command::new("rsync")
                .arg("-aH")
                .args(&rules)
                .args([tree.join(""), theirs.clone()])
                .status();
            assert!(status.expect("rsync runs").success());
            let name = format!("to-{seed}-{round}");
            let url = rig.url(&name);
            let here = format!("tree-{seed}");
            let back = format!("back-{seed}-{round}");
            let copy = |source: &str, destination: &str, rules: &[OsString]| {
                let mut line: Vec<OsString> = vec!["--no-sync".into(), source.into()];
                line.extend([destination.into()]);
                line.extend(rules.iter().cloned());
                rig.cp(&line).complete();
            };
            let ours = match seeded.below(3) {
                0 => {
                    copy(&here, &back, &rules);
                    rig.path(back)
                }
                1 => {
                    copy(&here, &url, &rules);
                    rig.path("export").join(name)
                }
                _ => {
                    copy(&here, &url, &[]);
                    copy(&url, &back, &rules);
                    rig.path(back)
                }
            };
            assert_identical(&theirs, &ours);
            assert_identical(&ours, &theirs);
        }
    }
}

fn fill(directory: &Path, depth: u64, seeded: &mut Seeded) {
    for _ in 0..2 + seeded.below(5) {
        let path = directory.join(OsString::from_vec(name(seeded)));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        if depth < 4 && seeded.below(2) == 0 {
            fs::create_dir(&path).expect("made");
            fill(&path, depth + 1, seeded);
        } else {
            fs::write(path, "x").expect("written");
        }
    }
}

/// A short name, so that rules match often; never one of the two directories that always exist.
fn name(seeded: &mut Seeded) -> Vec<u8> {
    let mut name = vec![b"ab\xe9"[usize::try_from(seeded.below(3)).expect("an index")]];
    for _ in 0..seeded.below(3) {
        name.push(b"ab.\n\xe9"[usize::try_from(seeded.below(5)).expect("an index")]);
    }
    name
}

fn rule(seeded: &mut Seeded) -> OsString {
    let mut rule = b"--exclude=".to_vec();
    if seeded.below(3) == 0 {
        rule = b"--include=".to_vec();
    }
    if seeded.below(3) == 0 {
        rule.push(b'/');
    }
    let pieces: [&[u8]; 9] = [
        b"*",
        b"**",
        b"***",
        b"?",
        b"/",
        b"[ab]",
        b"[!a.]",
        b"[\xe0-\xff]",
        b"/",
    ];
    for number in 0..1 + seeded.below(4) {
        if seeded.below(2) == 0 {
            rule.extend(name(seeded));
        } else {
            let at = usize::try_from(seeded.below(9)).expect("an index");
            // Two slashes one after the other mean nothing.
            let piece = match pieces[at] {
                b"/" if number == 0 || rule.ends_with(b"/") => b"*",
                piece => piece,
            };
            rule.extend(piece);
        }
    }
    if seeded.below(4) == 0 && !rule.ends_with(b"/") {
        rule.push(b'/');
    }
    OsString::from_vec(rule)
}
