//! Owns the tests of odd entries, and of links that lead out of the destination.
//! Does not interrupt anything.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_api::failure::FailureCode;
use rustix::fs::{Mode, OFlags, mkdirat, openat};

use super::judge::{assert_identical, assert_tidy};
use super::rig::{Rig, as_each_user, is_root};

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("ours");
}

/// Copies the tree to the node and back, and compares both copies.
#[track_caller]
fn copy_there_and_back(rig: &Rig) {
    let url = rig.url("to");
    rig.cp(&["tree/", &url]).complete();
    assert_identical(&rig.path("tree"), &rig.path("export/to"));
    rig.cp(&[url.as_str(), "back"]).complete();
    assert_identical(&rig.path("tree"), &rig.path("back"));
}

#[test]
fn odd_names_arrive() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.make_dirs("tree");
        let long = [b'n'; 255];
        let names: [&[u8]; 7] = [
            &long,
            b"new\nline",
            b"\xff\xfe not UTF-8",
            b"-rf",
            b" ",
            b"\\back\t\x01",
            b"...",
        ];
        for name in names {
            let path = rig.path("tree").join(OsStr::from_bytes(name));
            fs::write(&path, name).expect("written");
            let directory = rig.path("tree/sub").join(OsStr::from_bytes(name));
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join(OsStr::from_bytes(name)), "x").expect("written");
        }
        copy_there_and_back(rig);
    });
}

#[test]
fn paths_longer_than_the_system_takes_arrive() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.make_dirs("tree");
        let name = "d".repeat(250);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = rustix::fs::open(rig.path("tree"), flags, Mode::empty()).expect("opened");
        for _ in 0..20 {
            mkdirat(&at, &name, Mode::from_raw_mode(0o777)).expect("made");
            at = openat(&at, &name, flags, Mode::empty()).expect("opened");
        }
        let make = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&at, "deep", make, Mode::from_raw_mode(0o644)).expect("made");
        fs::File::from(file)
            .write_all(b"far down")
            .expect("written");
        if rig.unprivileged() {
            let everything = ["-R", "a+rwX"];
            let changed = Command::new("chmod")
                .args(everything)
                .arg(rig.path("tree"))
                .status();
            assert!(changed.expect("chmod runs").success());
        }
        rig.cp(&["tree", &rig.url("to")]).complete();
        rig.cp(&[&rig.url("to"), "back"]).complete();
        let mut at = rustix::fs::open(rig.path("back"), flags, Mode::empty()).expect("opened");
        for _ in 0..20 {
            at = openat(&at, &name, flags, Mode::empty()).expect("arrived");
        }
        let file = openat(&at, "deep", OFlags::RDONLY, Mode::empty()).expect("arrived");
        assert_eq!(
            std::io::read_to_string(fs::File::from(file)).expect("read"),
            "far down"
        );
    });
}

/// A link to a device is a link; its target is never opened either.
#[test]
fn special_files_are_reported_and_the_rest_arrives() {
    as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            let at = |name: &str| ends.source.join(name);
            fs::create_dir_all(at("d")).expect("made");
            fs::write(at("good"), "good").expect("written");
            fs::write(at("d/good"), "good too").expect("written");
            symlink("/dev/zero", at("link")).expect("made");
            make("mkfifo", &[], &at("fifo"), &[]);
            make("mkfifo", &[], &at("d/fifo"), &[]);
            // The path of a socket has a short limit, the name after a rename has none.
            let _socket = UnixListener::bind(rig.path("s")).expect("bound");
            fs::rename(rig.path("s"), at("socket")).expect("renamed");
            let mut left_out = vec!["d/fifo", "fifo", "socket"];
            if is_root() {
                // A device that gives bytes without end, and one without a driver.
                make("mknod", &["-m", "666"], &at("character"), &["c", "1", "5"]);
                make("mknod", &["-m", "666"], &at("block"), &["b", "240", "77"]);
                left_out.extend(["block", "character"]);
                left_out.sort_unstable();
            }
            let outcome = rig.cp(&ends.line(&[]));
            let expected: Vec<_> = left_out.iter().map(|name| ends.reported(name)).collect();
            assert_eq!(outcome.expect(3, "partial").failed(), expected);
            assert_eq!(outcome.number("failed"), expected.len() as u64);
            // Two files and a link.
            assert_eq!(outcome.number("files"), 3);
            for path in &left_out {
                fs::symlink_metadata(ends.destination.join(path)).expect_err("left out");
            }
            let again = rig.cp(&ends.line(&[]));
            assert_eq!(again.expect(3, "partial").number("skipped"), 3);
            for path in left_out {
                fs::remove_file(at(path)).expect("ours");
            }
            rig.cp(&ends.line(&[])).complete();
            assert_identical(&ends.source, &ends.destination);
            assert_tidy(&ends.destination, &ends.receiver_home);
        }
    });
}

#[test]
fn a_source_that_is_no_file_itself_is_reported() {
    as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            make("mkfifo", &[], &ends.source, &[]);
            let outcome = rig.cp(&ends.line(&[]));
            assert!(matches!(outcome.code, Some(1 | 3)), "{outcome:?}");
            outcome.says("run42");
            fs::symlink_metadata(&ends.destination).expect_err("left out");
        }
    });
}

/// A writer that opens the FIFO would wait for a reader.
#[test]
fn a_fifo_in_the_way_is_replaced_and_not_written_to() {
    as_each_user(|rig| {
        rig.start(&[]);
        for ends in rig.push_and_pull() {
            fs::create_dir(&ends.source).expect("made");
            fs::create_dir_all(&ends.destination).expect("made");
            fs::write(ends.source.join("a"), "from the source").expect("written");
            make("mkfifo", &[], &ends.destination.join("a"), &[]);
            rig.cp(&ends.line(&[])).complete();
            assert_identical(&ends.source, &ends.destination);
        }
    });
}

#[track_caller]
fn make(program: &str, flags: &[&str], path: &Path, more: &[&str]) {
    let mut command = Command::new(program);
    let made = command.args(flags).arg(path).args(more).status();
    assert!(made.is_ok_and(|made| made.success()), "{command:?}");
}

#[test]
fn a_path_that_is_no_text_is_reported_in_base64() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("tree/good", "good");
        let fifo = rig.path("tree").join(OsStr::from_bytes(b"\xff"));
        make("mkfifo", &[], &fifo, &[]);
        let outcome = rig.cp(&["tree", &rig.url("to")]);
        let events = outcome.expect(3, "partial").events();
        let failed = events
            .iter()
            .find(|event| event["event"] == "failed")
            .expect("told");
        assert_eq!(failed["path_b64"], "dHJlZS//", "{failed}");
        assert!(failed.get("path").is_none(), "{failed}");
    });
}

#[test]
fn unreadable_files_are_reported_if_permissions_apply() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("tree/good", "good");
        rig.write("tree/closed", "secret");
        rig.write("tree/locked/inside", "secret");
        mode(&rig.path("tree/closed"), 0);
        mode(&rig.path("tree/locked"), 0);
        let outcome = rig.cp(&["tree", &rig.url("to")]);
        if rig.unprivileged() {
            outcome
                .expect(3, "partial")
                .expect_code(FailureCode::Permission)
                .says("tree/closed")
                .says("tree/locked");
            assert_eq!(outcome.number("failed"), 2);
        } else {
            outcome.complete();
            assert_identical(&rig.path("tree"), &rig.path("export/to"));
        }
        assert_eq!(rig.read("export/to/good"), b"good");
    });
}

#[test]
fn read_only_directories_arrive() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("tree/closed/deeper/file", "x");
        rig.write("tree/closed/file", "y");
        rig.make_dirs("tree/closed/empty");
        for name in ["closed/deeper", "closed/empty", "closed"] {
            mode(&rig.path("tree").join(name), 0o555);
        }
        copy_there_and_back(rig);
    });
}

#[test]
fn links_in_the_destination_lead_nowhere() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("tree/d/file", "from the source");
        rig.write("tree/link", "from the source");
        for (pull, root) in [(false, "export/to"), (true, "back")] {
            for target in ["outside", "../outside"] {
                rig.write("outside/link", "precious");
                rig.make_dirs(root);
                let target = if target.starts_with("..") {
                    Path::new("../../outside").to_owned()
                } else {
                    rig.path(target)
                };
                symlink(&target, rig.path(root).join("d")).expect("planted");
                symlink(target.join("link"), rig.path(root).join("link")).expect("planted");
                let outcome = if pull {
                    rig.write("export/src/d/file", "from the source");
                    rig.write("export/src/link", "from the source");
                    rig.cp(&[&rig.url("src/."), "back"])
                } else {
                    rig.cp(&["tree/.", &rig.url("to")])
                };
                assert!(matches!(outcome.code, Some(0 | 3)), "{outcome:?}");
                outcome.expect_code(FailureCode::Escape);
                assert_eq!(rig.read("outside/link"), b"precious");
                assert!(!rig.path("outside/file").exists(), "{outcome:?}");
                fs::remove_dir_all(rig.path(root)).expect("ours");
            }
        }
    });
}

#[test]
fn links_swapped_in_during_a_transfer_lead_nowhere() {
    as_each_user(|rig| {
        rig.start(&[]);
        for number in 0..600 {
            rig.write(&format!("tree/d/{number}"), vec![b'x'; 2_000]);
        }
        rig.make_dirs("outside");
        rig.own();
        for (pull, root) in [(false, "export/to"), (true, "back")] {
            rig.make_dirs(root);
            rig.own();
            let (there, aside) = (rig.path(root).join("d"), rig.path(root).join("aside"));
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // Each of these fails when the transfer is in another state: then the next turn comes.
                        if fs::rename(&there, &aside).is_ok() {
                            let _ = symlink(rig.path("outside"), &there);
                            std::thread::yield_now();
                            let _ = fs::remove_file(&there);
                            let _ = fs::rename(&aside, &there);
                        }
                    }
                });
                let outcome = if pull {
                    rig.cp(&[&rig.url("src/."), "back"])
                } else {
                    rig.cp(&["tree/.", &rig.url("to")])
                };
                stop.store(true, Ordering::Relaxed);
                assert!(outcome.code.is_some(), "{outcome:?}");
            });
            let outside = fs::read_dir(rig.path("outside")).expect("listed");
            assert_eq!(outside.count(), 0, "written outside");
            let source = rig.path("export/src");
            fs::create_dir_all(&source).expect("made");
            if !source.join("d").exists() {
                fs::rename(rig.path("tree/d"), source.join("d")).expect("moved");
            }
        }
    });
}

#[test]
fn dots_do_not_leave_the_export() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("f", "f");
        rig.write("secret", "secret");
        for path in ["../stolen", "a/../../stolen", "/../stolen"] {
            let outcome = rig.cp(&["f", &rig.url(path)]);
            assert_ne!(outcome.code, Some(0), "{path}: {outcome:?}");
        }
        assert!(!rig.path("stolen").exists());
        symlink(rig.path("secret"), rig.path("export/link")).expect("planted");
        symlink(rig.path(""), rig.path("export/way")).expect("planted");
        for path in ["../secret", "way/secret"] {
            let outcome = rig.cp(&[&rig.url(path), "got"]);
            assert_ne!(outcome.code, Some(0), "{path}: {outcome:?}");
        }
        // A link is copied as a link, not as its target.
        rig.cp(&[&rig.url("link"), "got"]);
        let got = fs::symlink_metadata(rig.path("got"));
        assert!(got.is_err() || got.is_ok_and(|meta| meta.is_symlink()));
    });
}
