//! Owns the tests of odd entries, and of links that lead out of the destination.
//! Does not interrupt anything.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use super::judge::{no_temporaries, same};
use super::support::{World, as_each_user};

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("ours");
}

/// There, and back.
#[track_caller]
fn round(world: &World) {
    let url = world.url("to");
    world.cp(&["tree/", &url]).complete();
    same(&world.path("tree"), &world.path("export/to"));
    world.cp(&[url.as_str(), "back"]).complete();
    same(&world.path("tree"), &world.path("back"));
}

#[test]
fn odd_names_arrive() {
    as_each_user(|world| {
        world.start(&[]);
        world.make_dirs("tree");
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
            let path = world.path("tree").join(OsStr::from_bytes(name));
            fs::write(&path, name).expect("written");
            let directory = world.path("tree/sub").join(OsStr::from_bytes(name));
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join(OsStr::from_bytes(name)), "x").expect("written");
        }
        round(world);
    });
}

#[test]
fn paths_longer_than_the_system_takes_arrive() {
    as_each_user(|world| {
        world.start(&[]);
        world.make_dirs("tree");
        let name = "d".repeat(250);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = rustix::fs::open(world.path("tree"), flags, Mode::empty()).expect("opened");
        for _ in 0..20 {
            mkdirat(&at, &name, Mode::from_raw_mode(0o777)).expect("made");
            at = openat(&at, &name, flags, Mode::empty()).expect("opened");
        }
        let make = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&at, "deep", make, Mode::from_raw_mode(0o644)).expect("made");
        fs::File::from(file)
            .write_all(b"far down")
            .expect("written");
        if world.unprivileged() {
            let everything = ["-R", "a+rwX"];
            let changed = Command::new("chmod")
                .args(everything)
                .arg(world.path("tree"))
                .status();
            assert!(changed.expect("chmod runs").success());
        }
        world.cp(&["tree", &world.url("to")]).complete();
        world.cp(&[&world.url("to"), "back"]).complete();
        let mut at = rustix::fs::open(world.path("back"), flags, Mode::empty()).expect("opened");
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

#[test]
fn what_is_no_file_is_reported_and_the_rest_arrives() {
    as_each_user(|world| {
        world.start(&[]);
        world.write("tree/good", "good");
        let made = Command::new("mkfifo").arg(world.path("tree/fifo")).status();
        assert!(made.expect("mkfifo runs").success());
        // The path of a socket has a short limit, the name after a rename has none.
        let _socket = UnixListener::bind(world.path("s")).expect("bound");
        fs::rename(world.path("s"), world.path("tree/socket")).expect("renamed");
        let outcome = world.cp(&["tree", &world.url("to")]);
        outcome
            .expect(3, "partial")
            .says("tree/fifo")
            .says("tree/socket");
        assert_eq!(outcome.number("failed"), 2);
        assert_eq!(world.read("export/to/good"), b"good");
        assert!(!world.path("export/to/fifo").exists());
        let outcome = world.cp(&["tree/.", &world.url("to")]);
        outcome.expect(3, "partial");
        assert_eq!(outcome.number("skipped"), 1);
        no_temporaries(&world.path("export"));
    });
}

#[test]
fn a_path_that_is_no_text_is_reported_in_base64() {
    as_each_user(|world| {
        world.start(&[]);
        world.write("tree/good", "good");
        let fifo = world.path("tree").join(OsStr::from_bytes(b"\xff"));
        let made = Command::new("mkfifo").arg(fifo).status();
        assert!(made.expect("mkfifo runs").success());
        let outcome = world.cp(&["tree", &world.url("to")]);
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
fn what_cannot_be_read_is_reported_where_permissions_hold() {
    as_each_user(|world| {
        world.start(&[]);
        world.write("tree/good", "good");
        world.write("tree/closed", "secret");
        world.write("tree/locked/inside", "secret");
        mode(&world.path("tree/closed"), 0);
        mode(&world.path("tree/locked"), 0);
        let outcome = world.cp(&["tree", &world.url("to")]);
        if world.unprivileged() {
            outcome
                .expect(3, "partial")
                .says("tree/closed")
                .says("tree/locked");
            assert_eq!(outcome.number("failed"), 2);
        } else {
            outcome.complete();
            same(&world.path("tree"), &world.path("export/to"));
        }
        assert_eq!(world.read("export/to/good"), b"good");
    });
}

#[test]
fn read_only_directories_arrive() {
    as_each_user(|world| {
        world.start(&[]);
        world.write("tree/closed/deeper/file", "x");
        world.write("tree/closed/file", "y");
        world.make_dirs("tree/closed/empty");
        for name in ["closed/deeper", "closed/empty", "closed"] {
            mode(&world.path("tree").join(name), 0o555);
        }
        round(world);
    });
}

/// Each line of the file names its generation; a mixture has lines of two.
#[test]
fn a_file_that_changes_while_read_is_never_mixed() {
    as_each_user(|world| {
        world.start(&[]);
        let lines = 400_000;
        let content = |generation: u8| [generation, b'\n'].repeat(lines);
        world.write("tree/good", "good");
        world.write("tree/changing", content(b'a'));
        world.own();
        let stop = AtomicBool::new(false);
        let path = world.path("tree/changing");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for generation in (b'a'..=b'z').cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let open = OpenOptions::new().write(true).truncate(true).open(&path);
                    let mut file = open.expect("there");
                    file.write_all(&content(generation)).expect("written");
                }
            });
            let outcome = world.cp(&["tree", &world.url("to")]);
            stop.store(true, Ordering::Relaxed);
            assert!(matches!(outcome.code, Some(0 | 3)), "{outcome:?}");
            if outcome.code == Some(3) {
                outcome.says("tree/changing");
            } else {
                assert!(world.path("export/to/changing").exists());
            }
        });
        assert_eq!(world.read("export/to/good"), b"good");
        if let Ok(arrived) = fs::read(world.path("export/to/changing")) {
            let first = arrived.first().copied();
            let one = arrived.iter().step_by(2).all(|byte| Some(*byte) == first);
            assert!(one, "two generations in one file");
        }
        no_temporaries(&world.path("export"));
        world
            .cp(&["--force", "tree/.", &world.url("to")])
            .complete();
        same(&world.path("tree"), &world.path("export/to"));
    });
}

#[test]
fn links_in_the_destination_lead_nowhere() {
    as_each_user(|world| {
        world.start(&[]);
        world.write("tree/d/file", "from the source");
        world.write("tree/link", "from the source");
        for (pull, root) in [(false, "export/to"), (true, "back")] {
            for target in ["outside", "../outside"] {
                world.write("outside/link", "precious");
                world.make_dirs(root);
                let target = if target.starts_with("..") {
                    Path::new("../../outside").to_owned()
                } else {
                    world.path(target)
                };
                symlink(&target, world.path(root).join("d")).expect("planted");
                symlink(target.join("link"), world.path(root).join("link")).expect("planted");
                let outcome = if pull {
                    world.write("export/src/d/file", "from the source");
                    world.write("export/src/link", "from the source");
                    world.cp(&[&world.url("src/."), "back"])
                } else {
                    world.cp(&["tree/.", &world.url("to")])
                };
                assert!(matches!(outcome.code, Some(0 | 3)), "{outcome:?}");
                assert_eq!(world.read("outside/link"), b"precious");
                assert!(!world.path("outside/file").exists(), "{outcome:?}");
                fs::remove_dir_all(world.path(root)).expect("ours");
            }
        }
    });
}

#[test]
fn links_swapped_in_during_a_transfer_lead_nowhere() {
    as_each_user(|world| {
        world.start(&[]);
        for number in 0..600 {
            world.write(&format!("tree/d/{number}"), vec![b'x'; 2_000]);
        }
        world.make_dirs("outside");
        world.own();
        for (pull, root) in [(false, "export/to"), (true, "back")] {
            world.make_dirs(root);
            world.own();
            let (there, aside) = (world.path(root).join("d"), world.path(root).join("aside"));
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // Each of these fails when the transfer is in another state: then the next turn comes.
                        if fs::rename(&there, &aside).is_ok() {
                            let _ = symlink(world.path("outside"), &there);
                            std::thread::yield_now();
                            let _ = fs::remove_file(&there);
                            let _ = fs::rename(&aside, &there);
                        }
                    }
                });
                let outcome = if pull {
                    world.cp(&[&world.url("src/."), "back"])
                } else {
                    world.cp(&["tree/.", &world.url("to")])
                };
                stop.store(true, Ordering::Relaxed);
                assert!(outcome.code.is_some(), "{outcome:?}");
            });
            let outside = fs::read_dir(world.path("outside")).expect("listed");
            assert_eq!(outside.count(), 0, "written outside");
            let source = world.path("export/src");
            fs::create_dir_all(&source).expect("made");
            if !source.join("d").exists() {
                fs::rename(world.path("tree/d"), source.join("d")).expect("moved");
            }
        }
    });
}

#[test]
fn dots_do_not_leave_the_export() {
    as_each_user(|world| {
        world.start(&[]);
        world.write("f", "f");
        world.write("secret", "secret");
        for path in ["../stolen", "a/../../stolen", "/../stolen"] {
            let outcome = world.cp(&["f", &world.url(path)]);
            assert_ne!(outcome.code, Some(0), "{path}: {outcome:?}");
        }
        assert!(!world.path("stolen").exists());
        symlink(world.path("secret"), world.path("export/link")).expect("planted");
        symlink(world.path(""), world.path("export/way")).expect("planted");
        for path in ["../secret", "way/secret"] {
            let outcome = world.cp(&[&world.url(path), "got"]);
            assert_ne!(outcome.code, Some(0), "{path}: {outcome:?}");
        }
        // A link is copied as a link, not as what it leads to.
        world.cp(&[&world.url("link"), "got"]);
        let got = fs::symlink_metadata(world.path("got"));
        assert!(got.is_err() || got.is_ok_and(|meta| meta.is_symlink()));
    });
}
