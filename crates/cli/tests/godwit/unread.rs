//! Tests standard input without a use for it, or that cannot be written: the command ends, whether the input does or not.
//! Input that arrives is tested in `stdio`, other machines in `ssh`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::full::{mounted, unshare};
use super::judge::names;
use super::process::{Outcome, Process};
use super::rig::Rig;

const MIB: usize = 1 << 20;

/// The bytes that come before an input ends, and whether it ever does.
pub(crate) const INPUTS: [(usize, bool); 4] = [(3, true), (0, true), (30 * MIB, false), (0, false)];

/// Runs a command with this input, to its end. An endless input stays open until then.
pub(crate) fn given(mut command: Command, (bytes, ends): (usize, bool)) -> Outcome {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut process = Process::start_with(&mut command, reader);
    // Otherwise we would be a reader, too.
    drop(command);
    let feeder = thread::spawn(move || {
        // The write fails if the reader has closed its end.
        let _ = writer.write_all(&vec![b'x'; bytes]);
        (!ends).then_some(writer)
    });
    let outcome = process.wait();
    drop(feeder.join());
    outcome
}

fn cp(rig: &Rig, line: &[&str], input: (usize, bool)) -> Outcome {
    let mut command = rig.client_command();
    command.args(["cp", "--json"]).args(line);
    given(command, input)
}

/// Obstacles for an input, at either end.
fn fill(at: &Path) {
    fs::write(at.join("file"), "there").expect("written");
    fs::create_dir_all(at.join("dd/stdin")).expect("made");
    let made = Command::new("mkfifo").arg(at.join("fifo")).status();
    assert!(made.expect("mkfifo runs").success(), "made");
}

/// Both destinations of an input, here and at a daemon: the prefix of names, and the directory.
fn filled() -> (Rig, [(String, PathBuf); 2]) {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.make_dirs("to");
    let places = [
        ("to/".to_owned(), rig.path("to")),
        (rig.url(""), rig.export.clone()),
    ];
    for (_, at) in &places {
        fill(at);
    }
    (rig, places)
}

/// Nothing was delivered, and no file of ours is left.
#[track_caller]
fn assert_untouched(at: &Path) {
    assert_eq!(names(at), ["dd", "fifo", "file"]);
    assert_eq!(fs::read(at.join("file")).expect("there"), b"there");
    assert_eq!(names(&at.join("dd")), ["stdin"]);
    assert!(names(&at.join("dd/stdin")).is_empty());
}

#[test]
fn an_input_that_is_skipped_is_not_read_to_its_end() {
    let (rig, places) = filled();
    for (prefix, at) in places {
        for (flag, name) in [("--existing", "new"), ("--ignore-existing", "file")] {
            for input in INPUTS {
                let end = cp(&rig, &[flag, "-", &format!("{prefix}{name}")], input);
                end.complete();
                assert_eq!(end.number("skipped"), 1, "{}", end.said());
                assert_eq!(end.number("files"), 0, "{}", end.said());
                assert_untouched(&at);
            }
        }
    }
}

#[test]
fn a_dry_run_does_not_read_the_input_and_knows_no_size() {
    let (rig, places) = filled();
    for (prefix, at) in places {
        for name in ["new", "file"] {
            let there = format!("{prefix}{name}");
            for input in INPUTS {
                let end = cp(&rig, &["--dry-run", "-", &there], input);
                let summary = end.complete().summary();
                assert!(summary["bytes"].is_null(), "{}", end.said());
                assert_eq!(end.number("files"), 1, "{}", end.said());
                end.says(r#""action":"send","kind":"file","path":"-","bytes":null"#);
                let mut command = rig.client_command();
                command.args(["cp", "--dry-run", "-", &there]);
                let reported = given(command, input);
                assert_eq!(reported.code, Some(0), "{}", reported.said());
                reported.says("to deliver  1 file of unknown size\n");
                assert_untouched(&at);
            }
        }
        // A skipped input does not count as a file of unknown size.
        let mut command = rig.client_command();
        command.args([
            "cp",
            "--dry-run",
            "--existing",
            "-",
            &format!("{prefix}new"),
        ]);
        given(command, (3, true)).says("to deliver  0 B in 0 files, 1 skipped\n");
    }
}

#[test]
fn an_input_whose_place_is_taken_fails_as_a_file_does() {
    let (rig, places) = filled();
    rig.write("stdin", "a file");
    let there = |name: &str| {
        let named = |(prefix, at): &(String, PathBuf)| (format!("{prefix}{name}"), at.clone());
        places.each_ref().map(named)
    };
    let mut cases = Vec::new();
    cases.extend(there("dd").map(|place| (place, "replace the directory with another entry")));
    cases.extend(there("fifo").map(|place| (place, "is a FIFO, which is not replaced")));
    cases.push((
        ("/dev/null".to_owned(), rig.path("to")),
        "is a device, which is not replaced",
    ));
    for ((destination, at), why) in cases {
        // The judge: a file in the same place.
        let file = rig.cp(&["stdin", &destination]);
        file.expect(3, "partial").says(why);
        for input in INPUTS {
            let end = cp(&rig, &["-", &destination], input);
            end.expect(3, "partial").says(why);
            assert_eq!(
                end.number("failed"),
                file.number("failed"),
                "{}",
                end.said()
            );
            assert_eq!(end.number("bytes"), 0, "{}", end.said());
            assert_untouched(&at);
        }
    }
}

/// More space than the file system has, once in one piece and once in many blocks.
const TOO_MUCH: [(usize, bool); 2] = [(5 * MIB, true), (5 * MIB, false)];

const FLAGS: [&[&str]; 3] = [
    &[],
    &["--block-size", "64KiB"],
    &["--retry-for", "2s", "--stall-deadline", "2s"],
];

#[test]
fn an_input_for_which_a_node_lacks_room_fails_and_leaves_nothing() {
    let Some((rig, export)) = mounted("size=1m") else {
        return an_input_whose_place_is_taken_fails_as_a_file_does();
    };
    for flags in FLAGS {
        for input in TOO_MUCH {
            let url = rig.url("f");
            let end = cp(&rig, &[flags, &["-", &url]].concat(), input);
            end.expect(3, "partial").says("o space");
            assert_eq!(end.number("failed"), 1, "{}", end.said());
            assert!(
                names(&export).is_empty(),
                "{:?}: {}",
                names(&export),
                end.said()
            );
        }
    }
    // The space is too small even for one block.
    let mut ballast = fs::File::create(export.join("ballast")).expect("made");
    while ballast.write_all(&[b'x'; 4096]).is_ok() {}
    for input in INPUTS.into_iter().filter(|(bytes, _)| *bytes > 0) {
        let end = cp(&rig, &["-", &rig.url("f")], input);
        end.expect(3, "partial").says("o space");
        assert_eq!(names(&export), ["ballast"], "{}", end.said());
    }
    drop(ballast);
    fs::remove_file(export.join("ballast")).expect("removed");
    cp(&rig, &["-", &rig.url("f")], (3, true)).complete();
    assert_eq!(fs::read(export.join("f")).expect("there"), b"xxx");
}

#[test]
fn an_input_for_which_there_is_no_room_here_fails_and_leaves_nothing() {
    let Some(unshare) = unshare() else {
        return an_input_whose_place_is_taken_fails_as_a_file_does();
    };
    let rig = Rig::new();
    rig.make_dirs("small");
    // The file system ends with the script, which prints its contents.
    let script = "mount -t tmpfs -o size=1m none small && { \"$@\"; code=$?; echo left: $(ls -A small) >&2; exit $code; }";
    for flags in FLAGS {
        for input in TOO_MUCH {
            let mut command = Command::new(unshare[0]);
            command
                .args(&unshare[1..])
                .args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_godwit")])
                .args(["cp", "--json"])
                .args(flags)
                .args(["-", "small/f"])
                .env("GODWIT_HOME", rig.client_home())
                .current_dir(rig.path(""));
            let end = given(command, input);
            end.expect(3, "partial").says("o space").says("left:\n");
        }
    }
}

#[test]
fn nothing_is_chosen_from_an_input() {
    let rig = Rig::new();
    rig.write("list", "name\n");
    for (flag, value) in [
        ("exclude", "*"),
        ("include", "x"),
        ("exclude-from", "list"),
        ("include-from", "list"),
        ("min-size", "1MiB"),
        ("max-size", "1"),
        ("newer", "1d"),
        ("older", "1d"),
        ("files-from", "list"),
    ] {
        let flag = format!("--{flag}");
        for input in INPUTS {
            let end = cp(&rig, &[&flag, value, "-", "new"], input);
            assert_eq!(end.code, Some(2), "{flag}: {}", end.said());
            end.says(&format!("{flag}: standard input is a single file"));
            assert!(!rig.path("new").exists(), "{flag}");
        }
    }
    // Settings in the environment are meant for transfers of files.
    let mut command = rig.client_command();
    command
        .args(["cp", "--json", "-", "new"])
        .env("GODWIT_EXCLUDE", "*");
    given(command, (3, true)).complete();
    assert_eq!(rig.read("new"), b"xxx");
}
