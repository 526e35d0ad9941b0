//! Owns the tests of entries skipped by rules and limits beyond the meaning of patterns, and of refused choices.
//! The meaning of patterns is tested in `filters`, lists of names in `lists`.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use godwit_engine::session::{HELLO_DEADLINE, receive_frame};
use godwit_net::{AcceptOptions, Cipher, Identity, ServerTls, Stream as _, StreamOptions, accept};
use godwit_proto::hello::capability;
use godwit_proto::limits::PRELUDE_BYTES;
use godwit_proto::{Comparison, Direction, Frame, Hello, Open};

use super::asking;
use super::rig::{Rig, as_each_user, is_root};

#[test]
fn an_exclamation_mark_turns_a_rule() {
    let rig = Rig::new();
    for name in ["a.c", "b.c", "c.h", "!x"] {
        rig.write(&format!("tree/{name}"), name);
    }
    let line = [
        "--exclude",
        "!a.c",
        "--exclude=*.c",
        "--exclude=\\!x",
        "tree",
        "to",
    ];
    let outcome = rig.cp(&line);
    outcome.complete();
    assert_eq!(outcome.number("excluded"), 2);
    let mut names: Vec<_> = fs::read_dir(rig.path("to"))
        .expect("there")
        .map(|entry| entry.expect("read").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a.c", "c.h"]);
}

#[test]
fn limits_leave_files_out_and_are_counted() {
    as_each_user(|rig| {
        rig.start(&[]);
        let day = |number: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(number * 86_400);
        for (name, bytes, date) in [
            ("empty", 0, 10_000),
            ("small", 9, 10_010),
            ("d/ten", 10, 10_020),
            ("d/twenty", 20, 10_030),
            ("d/large", 21, 10_040),
        ] {
            rig.write(&format!("tree/{name}"), vec![b'x'; bytes]);
            let file = File::options()
                .write(true)
                .open(rig.path(format!("tree/{name}")));
            let times = FileTimes::new().set_modified(day(date));
            file.expect("ours").set_times(times).expect("set");
        }
        symlink("small", rig.path("tree/link")).expect("made");
        rig.write("mark", "");
        let mark = File::options()
            .write(true)
            .open(rig.path("mark"))
            .expect("ours");
        mark.set_times(FileTimes::new().set_modified(day(10_020)))
            .expect("set");
        let whole = rig.url("whole");
        rig.cp(&["tree", &whole]).complete();
        let cases: &[(&[&str], &[&str])] = &[
            (
                &["--min-size=10"],
                &["d/large", "d/ten", "d/twenty", "link"],
            ),
            (&["--max-size=10B"], &["d/ten", "empty", "link", "small"]),
            (
                &["--min-size=10", "--max-size=20"],
                &["d/ten", "d/twenty", "link"],
            ),
            (&["--max-size=0"], &["empty", "link"]),
            // The link is of today.
            (&["--newer=mark"], &["d/large", "d/twenty", "link"]),
            (&["--newer=1997-06-08"], &["d/large", "d/twenty", "link"]),
            (
                &["--newer", "1997-06-07T23:59:59Z"],
                &["d/large", "d/ten", "d/twenty", "link"],
            ),
            (
                &["--newer", "@864864000"],
                &["d/large", "d/ten", "d/twenty", "link"],
            ),
            (&["--older=mark"], &["empty", "small"]),
            (&["--newer=1997-05-20", "--older=mark"], &["small"]),
            (&["--newer=1d"], &["link"]),
            (&["--older=1d", "--exclude=d"], &["empty", "small"]),
        ];
        for (number, (limits, expected)) in cases.iter().enumerate() {
            let url = rig.url(&format!("to-{number}"));
            let mut line = limits.to_vec();
            line.extend(["--no-sync", "tree", &url]);
            let push = rig.cp(&line);
            push.complete();
            assert_eq!(
                names_below(&rig.path(format!("export/to-{number}"))),
                *expected
            );
            let back = format!("back-{number}");
            let mut line = limits.to_vec();
            line.extend(["--no-sync", &whole, &back]);
            let pull = rig.cp(&line);
            pull.complete();
            assert_eq!(names_below(&rig.path(&back)), *expected, "{limits:?}");
            let out = if limits.contains(&"--exclude=d") {
                2
            } else {
                6 - expected.len()
            };
            assert_eq!(push.number("excluded"), out as u64, "{limits:?}");
            assert_eq!(pull.number("excluded"), push.number("excluded"));
        }
    });
}

fn names_below(root: &Path) -> Vec<String> {
    let found = super::judge::files_below(root);
    let mut names: Vec<_> = found
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn an_excluded_directory_is_not_entered() {
    // A user with all rights would notice nothing.
    let mut rig = Rig::for_user(is_root());
    rig.start(&[]);
    rig.write("tree/open/file", "x");
    rig.write("tree/shut/file", "x");
    rig.write("export/from/shut/file", "x");
    rig.write("export/from/file", "x");
    rig.own();
    for shut in ["tree/shut", "export/from/shut"] {
        fs::set_permissions(rig.path(shut), fs::Permissions::from_mode(0o0)).expect("ours");
    }
    let url = rig.url("to");
    rig.cp(&["tree", &url]).expect(3, "partial").says("shut");
    let outcome = rig.cp(&["--exclude=shut/", "tree", &rig.url("other")]);
    outcome.complete();
    assert_eq!(outcome.number("excluded"), 1);
    let outcome = rig.cp(&["--exclude=/s*t", &rig.url("from"), "back"]);
    outcome.complete();
    assert_eq!(outcome.number("excluded"), 1);
    assert!(rig.path("back/file").exists() && !rig.path("back/shut").exists());
}

#[test]
fn sources_that_are_files_are_judged_by_their_names() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for name in ["a.dat", "b.tmp", "c.dat"] {
        rig.write(name, name);
        rig.write(&format!("export/{name}"), name);
    }
    rig.make_dirs("d.tmp");
    rig.write("d.tmp/x", "x");
    let to = rig.url("to/");
    let outcome = rig.cp(&["--exclude=*.tmp", "a.dat", "b.tmp", "c.dat", "d.tmp", &to]);
    outcome.complete();
    assert_eq!(outcome.number("excluded"), 1);
    assert_eq!(
        names_below(&rig.path("export/to")),
        ["a.dat", "c.dat", "d.tmp/x"]
    );
    let names = [rig.url("a.dat"), rig.url("b.tmp")];
    rig.cp(&["--exclude=/b*", &names[0], &names[1], "back/"])
        .complete();
    assert_eq!(names_below(&rig.path("back")), ["a.dat"]);
}

#[test]
fn flags_come_before_settings_from_elsewhere() {
    let rig = Rig::new();
    for name in ["a", "b", "c"] {
        rig.write(&format!("tree/{name}"), name);
    }
    rig.write("client/config.toml", "[cp]\nexclude = ['a', 'b']\n");
    let run = |line: &[&str], to: &str| {
        let output = rig
            .client_command()
            .args(["cp", "--no-sync", "tree", to])
            .args(line)
            .env("GODWIT_INCLUDE", "c;d")
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{output:?}");
        names_below(&rig.path(to))
    };
    assert_eq!(run(&[], "one"), ["c"]);
    assert_eq!(run(&["--exclude=c"], "two"), ["a", "b"]);
    assert_eq!(run(&["--include=a", "--exclude=*"], "three"), ["a"]);
}

#[test]
fn invalid_rules_are_refused_before_any_entry_is_copied() {
    let rig = Rig::new();
    rig.write("tree/a", "a");
    rig.write("rules", "ok\nbad[\n");
    let cases: &[(&[&str], &str)] = &[
        (
            &["--exclude=x["],
            "--exclude: `x[`: the bracket is not closed",
        ),
        (&["--include="], "--include: ``: it names nothing"),
        (&["--exclude=!"], "a lone !"),
        (&["--exclude=[[:foo:]]"], "no class of this name"),
        (&["--exclude-from=rules"], "rules: line 2: `bad[`"),
        (&["--exclude-from=missing"], "missing"),
        (&["--min-size=many"], "--min-size: `many`"),
        (&["--newer=yesterday"], "yesterday"),
    ];
    for (line, words) in cases {
        let mut line = line.to_vec();
        line.extend(["tree", "to"]);
        let outcome = rig.client(&[&["cp"], &line[..]].concat());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        outcome.says(words);
        assert!(!rig.path("to").exists());
    }
}

/// A node without knowledge of selections would ignore one, so the client must not ask such a node.
#[test]
fn a_node_that_is_too_old_for_rules_is_not_asked() {
    let rig = Rig::new();
    rig.write("tree/a", "a");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let identity = Identity::load_or_create(&rig.path("old")).expect("a key");
    let trust = ["trust", &address, &identity.id().to_string()];
    assert_eq!(rig.client(&trust).code, Some(0));
    let old = std::thread::spawn(move || {
        let tls = ServerTls::new(&identity, &[Cipher::Aes256Gcm]).expect("set up");
        let mut asked = Vec::new();
        for _ in 0..2 {
            let (socket, _) = listener.accept().expect("it comes");
            let options = AcceptOptions {
                deadline: HELLO_DEADLINE,
                stream: StreamOptions::default(),
            };
            let mut stream = accept(socket, &tls, &options).expect("a client").stream;
            let hello = receive_frame(&mut stream, HELLO_DEADLINE).expect("a hello");
            assert!(matches!(hello, Frame::Hello(_)));
            let known = capability::PLAIN_PAYLOAD | capability::BLAKE3;
            let mut head = Vec::new();
            Hello::ours("godwit 0.0.9", known).encode(&mut head);
            stream.send(&head, &[]).expect("sent");
            asked.push(receive_frame(&mut stream, HELLO_DEADLINE).is_ok());
        }
        asked
    });
    let to = format!("godwit://{address}/data/to");
    let outcome = rig.cp(&["--exclude=x", "tree", &to]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.says("too old").says("--exclude");
    // Without rules the node gets its request, and hangs up.
    assert_eq!(rig.cp(&["--retry-for=0", "tree", &to]).code, Some(1));
    assert_eq!(old.join().expect("no panic"), [false, true]);
}

/// A client that does not check its request: the node does.
#[test]
fn a_node_deletes_nothing_for_who_names_entries_by_a_list() {
    let mut rig = Rig::new();
    rig.write("export/dst/stray", "stray");
    rig.start(&[]);
    let ask = |listed: u8| {
        let open = Open {
            direction: Direction::PUSH.0,
            sources: vec![b"src".to_vec()],
            names: vec![b"src".to_vec()],
            destination: b"data/dst".to_vec(),
            digest: 1,
            comparison: Some(Comparison {
                delete: true,
                counterpart: true,
                ..Comparison::default()
            }),
            ..Open::default()
        };
        let mut head = Vec::new();
        open.encode(&mut head).expect("it may be asked");
        // The field `selection` with `listed` in it.
        head.extend([0x92, 1, 2, 0x30, listed]);
        let length = u32::try_from(head.len() - PRELUDE_BYTES).expect("short");
        head[4..8].copy_from_slice(&length.to_le_bytes());
        asking::ask(&rig, &rig.client_home(), &head)
    };
    let answer = ask(0);
    assert!(matches!(answer, Ok(Frame::Opened(_))), "{answer:?}");
    let answer = ask(1);
    assert!(!matches!(answer, Ok(Frame::Opened(_))), "{answer:?}");
    rig.daemon().wait_for("a list does not name");
    assert_eq!(rig.read("export/dst/stray"), b"stray");
}

#[test]
fn a_list_and_deletion_contradict_each_other() {
    let mut world = Rig::for_user(false);
    world.write("src/f", "f");
    world.write("dst/stray", "stray");
    world.write("list", "f\n");
    world.start(&[]);
    let outcome = super::sync::Direction::Local.sync(&world, &["--delete", "--files-from=list"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert_eq!(world.read("dst/stray"), b"stray");
}
