//! Owns the tests of reports that go where the same run reads: into its list, its rules, its sources.
//! The contents of reports are tested in `reports` and `manifest`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::process::Signal;

use super::rig::{Rig, is_root};

/// Flags of a run whose list of failures is also its list of names.
const AGAIN: [&str; 6] = [
    "--from0",
    "--recursive",
    "--files-from",
    "list",
    "--failed",
    "list",
];

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

/// No report has left a draft in the directory.
fn assert_no_draft(directory: &Path) {
    let names = fs::read_dir(directory).expect("listed");
    let drafts: Vec<_> = names
        .map(|entry| entry.expect("listed").file_name().into_string())
        .filter(|name| name.as_ref().is_ok_and(|name| name.ends_with(".part")))
        .collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}

#[test]
fn one_list_is_read_by_a_run_and_says_at_its_end_what_failed() {
    let mut rig = Rig::for_user(is_root());
    for tree in ["tree", "export/tree"] {
        for name in ["good", "p", "q"] {
            rig.write(&format!("{tree}/{name}"), name);
        }
    }
    rig.start(&[]);
    let ways = [
        ("tree", "tree".to_owned(), "copy".to_owned(), "copy"),
        ("tree", "tree".to_owned(), rig.url("copy"), "export/copy"),
        ("export/tree", rig.url("tree"), "back".to_owned(), "back"),
    ];
    for (tree, from, to, at) in ways {
        let mode = |name: &str, mode| set_mode(&rig.path(tree).join(name), mode);
        mode("p", 0);
        mode("q", 0);
        rig.cp(&["--failed", "list", &from, &to])
            .expect(3, "partial");
        assert!(matches!(&rig.read("list")[..], b"p\0q\0" | b"q\0p\0"));
        let line = [&AGAIN[..], &[&from, &to]].concat();
        // A dry run copies nothing, so the whole list still remains to be done.
        rig.cp(&[&["--dry-run"], &line[..]].concat());
        assert_eq!(rig.read("list").len(), 4, "{at}");
        mode("q", 0o644);
        let outcome = rig.cp(&line);
        outcome.expect(3, "partial");
        assert_eq!(outcome.number("files"), 1, "{outcome:?}");
        assert_eq!(rig.read("list"), b"p\0", "{at}");
        mode("p", 0o644);
        let outcome = rig.cp(&line);
        outcome.complete();
        assert_eq!(outcome.number("files"), 1, "{outcome:?}");
        assert_eq!(rig.read("list"), b"", "{at}");
        for name in ["p", "q"] {
            assert_eq!(rig.read(&format!("{at}/{name}")), name.as_bytes(), "{at}");
        }
    }
    assert_no_draft(&rig.path(""));
}

#[test]
fn a_run_that_never_began_leaves_the_list_of_the_last_one() {
    let mut rig = Rig::new();
    rig.write("tree/a", "a");
    rig.write("list", "a\0b\0");
    rig.write("list.reasons", "a\tsource\tio\tno\n");
    rig.start(&[]);
    let gone = rig.url("copy");
    rig.kill_daemon();
    for line in [
        &["tree", gone.as_str()][..],
        &["nowhere", "copy"],
        &["--files-from=nowhere", "tree", "copy"],
    ] {
        let line = [&["--failed", "list", "--retry-for=0s"], line].concat();
        let outcome = rig.cp(&line);
        assert!(matches!(outcome.code, Some(1 | 2)), "{outcome:?}");
        assert_eq!(rig.read("list"), b"a\0b\0", "{line:?}");
        assert_eq!(rig.read("list.reasons"), b"a\tsource\tio\tno\n");
        assert_no_draft(&rig.path(""));
    }
}

#[test]
fn a_run_that_is_interrupted_names_what_failed_but_not_in_its_own_list() {
    let rig = Rig::new();
    rig.write("tree/large", vec![7; 32 << 20]);
    rig.write("tree/last", "x");
    let names = b"missing\0large\0last\0";
    rig.write("list", names);
    for failed in ["list", "left"] {
        let slow = ["--limit=8MB", "--from0", "--files-from=list", "--failed"];
        let line = [&slow[..], &[failed, "tree", "copy"]].concat();
        let mut client = rig.begin_cp(&rig.path(""), &line);
        client.wait_for_bytes(1 << 20);
        client.signal(Signal::INT);
        let outcome = client.wait();
        outcome.expect(5, "interrupted");
        assert_eq!(rig.read("list"), names, "{outcome:?}");
        if failed == "list" {
            outcome.says("--failed list: ");
        } else {
            assert_eq!(rig.read("left"), b"missing\0", "{outcome:?}");
        }
        assert_no_draft(&rig.path(""));
    }
}

#[test]
fn a_report_in_the_place_of_an_input_is_refused() {
    let rig = Rig::new();
    rig.write("tree/a", "a");
    rig.write("input", "b\n");
    symlink("input", rig.path("link")).expect("made");
    fs::hard_link(rig.path("input"), rig.path("twin")).expect("made");
    for input in [
        "--files-from",
        "--exclude-from",
        "--include-from",
        "--newer",
        "--older",
    ] {
        for report in ["--failed", "--manifest", "--log-file"] {
            if (input, report) == ("--files-from", "--failed") {
                continue;
            }
            for name in ["input", "link", "twin"] {
                let line = [input, "input", report, name, "tree", "copy"];
                let outcome = rig.cp(&line);
                assert_eq!(outcome.code, Some(2), "{line:?}: {outcome:?}");
                outcome.says(&format!("{report} {name}: ")).says(input);
                assert_eq!(rig.read("input"), b"b\n", "{line:?}");
                assert!(!rig.path("copy").exists(), "{line:?}");
            }
        }
    }
    // A list that the next run reads as lines must consist of lines.
    let line = ["--files-from=link", "--failed=twin", "tree", "copy"];
    let outcome = rig.cp(&line);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    outcome.says("--from0");
    assert_eq!(rig.read("input"), b"b\n");
    // The list of reasons is a report, too.
    rig.write("r.reasons", "b\n");
    let line = ["--exclude-from=r.reasons", "--failed=r", "tree", "copy"];
    assert_eq!(rig.cp(&line).code, Some(2));
    assert_eq!(rig.read("r.reasons"), b"b\n");
    for [one, other] in [
        ["--failed=new", "--manifest=new"],
        ["--failed=new", "--log-file=./new"],
        ["--manifest=input", "--log-file=twin"],
    ] {
        let outcome = rig.cp(&[one, other, "tree", "copy"]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(!rig.path("new").exists() && !rig.path("copy").exists());
        assert_eq!(rig.read("input"), b"b\n");
    }
}

#[test]
fn a_file_of_the_source_is_not_replaced_by_a_report() {
    let mut rig = Rig::new();
    // The file ends as a list of names does.
    rig.write("tree/data", "data\0");
    rig.write("file", "data\0");
    symlink("tree/data", rig.path("link")).expect("made");
    rig.start(&[]);
    let push = rig.url("copy");
    for report in ["--failed", "--manifest", "--log-file"] {
        for (name, from) in [("tree/data", "tree"), ("link", "tree/."), ("file", "file")] {
            for to in ["copy", &push] {
                let line = [report, name, from, to];
                let outcome = rig.cp(&line);
                assert_eq!(outcome.code, Some(2), "{line:?}: {outcome:?}");
                outcome.says(&format!("{report} {name}: "));
            }
        }
    }
    let outcome = rig.client(&["manifest", "tree", "tree/data"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    for name in ["tree/data", "file"] {
        assert_eq!(rig.read(name), b"data\0", "{name}");
    }
    assert!(!rig.path("copy").exists() && !rig.path("export/copy").exists());
    assert_no_draft(&rig.path("tree"));
}

#[test]
fn a_list_goes_to_standard_output_whatever_that_is() {
    let rig = Rig::new();
    rig.write("tree/a", "a");
    drop(std::os::unix::net::UnixListener::bind(rig.path("tree/s")).expect("a socket"));
    let out = fs::File::create(rig.path("out")).expect("made");
    let status = rig
        .client_command()
        .args(["cp", "--failed=/dev/stdout", "tree", "copy"])
        .stdout(out)
        .status();
    assert_eq!(status.expect("run").code(), Some(3));
    let text = rig.read("out");
    assert!(
        text.windows(2).any(|pair| pair == b"s\0"),
        "{}",
        String::from_utf8_lossy(&text)
    );
    assert_no_draft(&rig.path(""));
}

/// The names in a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let found = fs::read_dir(directory).expect("listed");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<String> = found.map(|entry| name(entry.expect("listed"))).collect();
    names.sort();
    names
}

#[test]
fn reports_in_the_data_set_are_not_copied_and_not_in_the_manifest() {
    let mut rig = Rig::new();
    rig.write("tree/a", "a");
    rig.write("tree/sub/b", "b");
    rig.start(&[]);
    let tree = rig.path("tree");
    let reports = ["--manifest=m", "--failed=sub/f", "--log-file=sub/log"];
    let ways = [
        ("../copy".to_owned(), rig.path("copy")),
        (rig.url("copy"), rig.path("export/copy")),
    ];
    for (to, at) in &ways {
        for listed in [false, true] {
            rig.write("list", "a\nsub/\nm\n");
            let list: &[&str] = if listed {
                &["--files-from=../list"]
            } else {
                &[]
            };
            let flags = ["--digest=blake3", "--force"];
            let line = [&reports[..], &flags, list, &[".", to]].concat();
            let outcome = rig.begin_cp(&tree, &line).wait();
            outcome.complete();
            for name in ["--failed sub/f", "--log-file sub/log"] {
                outcome.says(&format!(
                    "{name}: this report lies in the source and is not copied"
                ));
            }
            assert_eq!(names(at), ["a", "sub"], "{line:?}");
            assert_eq!(names(&at.join("sub")), ["b"], "{line:?}");
            assert_eq!(names(&tree), ["a", "m", "sub"], "{line:?}");
            let text = String::from_utf8(rig.read("tree/m")).expect("text");
            let mut lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(|line| line.split('\t').nth(5))
                .collect();
            lines.sort_unstable();
            let root: &[&str] = if listed { &[] } else { &["."] };
            assert_eq!(lines, [root, &["a", "sub", "sub/b"]].concat(), "{text}");
            if !listed {
                outcome.says("--manifest m: this report lies in the source and is not copied");
                let line = ["verify".as_ref(), "tree/m".as_ref(), at.as_os_str()];
                let outcome = rig.client(&line);
                assert_eq!(outcome.code, Some(0), "{outcome:?}");
            }
        }
    }
    // Manifests of earlier runs are ordinary files. The time of the directory with the manifest is not compared.
    let line = ["--manifest=m", ".", &ways[0].0];
    rig.begin_cp(&tree, &line).wait().complete();
    assert_eq!(names(&rig.path("copy/sub")), ["b", "f", "f.reasons", "log"]);
    for copy in ["tree", "copy"] {
        let outcome = rig.client(&["verify", "tree/m", copy]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

#[test]
fn a_manifest_at_rest_leaves_itself_out() {
    let rig = Rig::new();
    rig.write("tree/a", "a");
    rig.write("tree/sub/b", "b");
    for name in ["tree/m", "tree/m", "tree/sub/m"] {
        let outcome = rig.client(&["manifest", "tree", name]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.says(&format!(
            "{name}: this report lies in the source and is not copied"
        ));
        let outcome = rig.client(&["verify", "--extra", name, "tree"]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        fs::hard_link(rig.path(name), rig.path("kept")).expect("made");
        fs::remove_file(rig.path("kept")).expect("ours");
        if name == "tree/sub/m" {
            break;
        }
        rig.client(&["verify", "--extra", name, "tree"])
            .says("same");
    }
    // The first manifest is an ordinary entry for the second.
    let text = String::from_utf8(rig.read("tree/sub/m")).expect("text");
    assert!(text.contains("\tm\n") && !text.contains("sub/m"), "{text}");
    fs::hard_link(rig.path("tree/m"), rig.path("tree/other")).expect("made");
    let outcome = rig.client(&["manifest", "tree", "tree/m"]);
    outcome.says("tree/m: this report lies in the source and is not copied, with the other names of the file");
}

#[test]
fn deletion_spares_what_reports_are_called() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let push = rig.url("copy");
    for (to, at) in [("copy", "copy"), (push.as_str(), "export/copy")] {
        rig.write("tree/a", "a");
        rig.write(&format!("{at}/m"), "older");
        rig.write(&format!("{at}/extra"), "x");
        let manifest = rig.client(&["manifest", "tree", "tree/m"]);
        assert_eq!(manifest.code, Some(0), "{manifest:?}");
        let line = ["sync", "--delete", "--manifest=tree/m", "tree", to];
        let outcome = rig.client(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(names(&rig.path(at)), ["a", "m"]);
        assert_eq!(rig.read(&format!("{at}/m")), b"older");
    }
    // In the destination, the reports would be deleted with the rest.
    fs::remove_file(rig.path("tree/m")).expect("ours");
    for report in ["--manifest", "--failed", "--log-file"] {
        let name = format!("{report}=copy/r.txt");
        let line = ["sync", "--delete", &name, "tree", "copy"];
        let outcome = rig.client(&line);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        outcome.says("copy/r.txt: this report lies in the destination copy");
        let _ = fs::remove_file(rig.path("copy/r.txt"));
        assert_eq!(names(&rig.path("copy")), ["a", "m"], "{report}");
    }
    let spared = ["--exclude=*.txt", "--log-file=copy/r.txt"];
    let line = [&["sync", "--delete"], &spared[..], &["tree", "copy"]].concat();
    assert_eq!(rig.client(&line).code, Some(0));
    assert_eq!(names(&rig.path("copy")), ["a", "r.txt"]);
}

#[test]
fn a_report_keeps_the_closed_mode_of_the_earlier_one() {
    let rig = Rig::new();
    rig.write("tree/f", "content");
    for to in ["one", "two"] {
        let line = ["--failed", "list", "--manifest", "manifest", "tree", to];
        rig.cp(&line).complete();
        for name in ["list", "list.reasons", "manifest"] {
            let path = rig.path(name);
            if to == "one" {
                set_mode(&path, 0o600);
            }
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
}
