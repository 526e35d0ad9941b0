//! Grants at a real node: the open and the closed places, on the data port and by the commands.
//! The rights of users of the API are tested in `web`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::rest::{NewAccess, RightName, Timestamp};
use godwit_client::Client;
use godwit_testkit::needs_root;
use serde_json::Value;

use super::process::{Outcome, wait_until};
use super::rig::{NOBODY, Rig};

fn us(rig: &Rig) -> String {
    rig.client(&["id"]).out.trim().to_owned()
}

/// A time that many seconds from now.
fn seconds_from_now(seconds: i64) -> Timestamp {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    Timestamp(i64::try_from(now.as_millis()).expect("soon") + seconds * 1_000)
}

/// A rule of the state by the API, for reading and writing.
fn rule(subject: &str, path: &str, expires: Option<Timestamp>) -> NewAccess {
    NewAccess {
        subject: subject.to_owned(),
        site: None,
        export: "data".to_owned(),
        path: path.to_owned(),
        rights: vec![RightName::Read, RightName::Write],
        expires,
        comment: String::new(),
    }
}

#[track_caller]
fn output_of(rig: &Rig, line: &[&str]) -> Outcome {
    let outcome = rig.admin(line);
    assert_eq!(outcome.code, Some(0), "{line:?}: {outcome:?}");
    outcome
}

/// The outcome of a push and a pull at a path, with this line in the file of grants.
#[test]
fn a_grant_opens_its_path_for_its_right_and_its_time_and_nothing_else() {
    let mut rig = Rig::new();
    for path in ["run4/a", "run42/a", "run 4/a", "deep/run4/a"] {
        rig.write(&format!("export/{path}"), "alpha");
    }
    rig.write("f", "foxtrot");
    rig.start(&[]);
    let us = us(&rig);
    let past = seconds_from_now(-60);
    let future = seconds_from_now(3_600);
    let cases: [(String, &str, [bool; 2]); 15] = [
        ("data:/run4 read".to_owned(), "run4/a", [true, false]),
        ("data:/run4 write".to_owned(), "run4/a", [false, true]),
        ("data:/run4 read,write".to_owned(), "run4/a", [true, true]),
        ("data:/run4/a read,write".to_owned(), "run4/a", [true, true]),
        (
            "data:/run4/a/b read,write".to_owned(),
            "run4/a",
            [false, false],
        ),
        (
            "data:/run4 read,write".to_owned(),
            "run42/a",
            [false, false],
        ),
        (
            "data:/run42 read,write".to_owned(),
            "run4/a",
            [false, false],
        ),
        (
            "data:/run4 read,write".to_owned(),
            "deep/run4/a",
            [false, false],
        ),
        (
            "data:/run%204 read,write".to_owned(),
            "run%204/a",
            [true, true],
        ),
        (
            "data:/run read,write".to_owned(),
            "run%204/a",
            [false, false],
        ),
        (
            "data2:/run4 read,write".to_owned(),
            "run4/a",
            [false, false],
        ),
        (
            "data:/run4 list,delete".to_owned(),
            "run4/a",
            [false, false],
        ),
        (
            format!("data read,write until={}", past.rfc3339()),
            "run4/a",
            [false, false],
        ),
        (
            format!("* read,write until={}", past.rfc3339()),
            "run4/a",
            [false, false],
        ),
        (
            format!("data read,write until={}", future.rfc3339()),
            "run4/a",
            [true, true],
        ),
    ];
    for (grant, path, allowed) in cases {
        fs::write(rig.daemon_home.join("grants"), format!("{us} {grant}\n")).expect("written");
        let url = rig.url(path);
        let pull = rig.cp(&["--force", &url, "got"]);
        let push = rig.cp(&["--force", "f", &url]);
        for ((outcome, allowed), flag) in [pull, push]
            .into_iter()
            .zip(allowed)
            .zip(["--read", "--write"])
        {
            if allowed {
                outcome.complete();
                continue;
            }
            let hint = format!("godwit access allow {us} --export data:/{path} {flag}");
            outcome.expect(4, "failed").says(&hint);
        }
    }
    // The hint is a command that works, and opens the requested place.
    fs::write(rig.daemon_home.join("grants"), "").expect("written");
    let url = rig.url("run%204/a");
    rig.cp(&["--force", &url, "got"]).expect(4, "failed");
    output_of(
        &rig,
        &[
            "access",
            "allow",
            &us,
            "--export",
            "data:/run%204/a",
            "--read",
        ],
    );
    rig.cp(&["--force", &url, "got"]).complete();
    rig.cp(&["--force", &rig.url("run4/a"), "got"])
        .expect(4, "failed");
}

#[test]
fn a_path_with_links_or_dots_does_not_lead_out_of_its_grant() {
    let mut rig = Rig::new();
    rig.write("export/open/a", "alpha");
    rig.write("export/closed/secret", "secret");
    std::os::unix::fs::symlink("../closed", rig.path("export/open/way")).expect("planted");
    rig.start(&[]);
    let us = us(&rig);
    let grant = format!("{us} data:/open read,write\n");
    fs::write(rig.daemon_home.join("grants"), grant).expect("written");
    rig.write("f", "foxtrot");
    for path in [
        "open/way/secret",
        "open/%2E%2E/closed/secret",
        "closed/secret",
        "open//../closed/secret",
    ] {
        let url = rig.url(path);
        assert_ne!(rig.cp(&[&url, "got"]).code, Some(0), "{path}");
        assert_ne!(rig.cp(&["--force", "f", &url]).code, Some(0), "{path}");
        assert!(!rig.path("got").exists(), "{path}");
        assert_eq!(rig.read("export/closed/secret"), b"secret");
    }
    // A path without a rule stays closed even if one command asks for both paths.
    let (open, closed) = (rig.url("open/a"), rig.url("closed/secret"));
    rig.cp(&[&open, &closed, "to/"]).expect(4, "failed");
    assert!(!rig.path("to/secret").exists());
}

#[test]
fn rules_of_the_state_count_beside_the_file_and_end_what_runs() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for source in ["run42", "export/run42"] {
        rig.write(&format!("{source}/large"), vec![7; 16 << 20]);
    }
    let us = us(&rig);
    output_of(&rig, &["access", "deny", &us]);
    let client = Client::local(rig.daemon_home.clone()).expect("a client");
    for ends in rig.push_and_pull() {
        let path = "run42 and what is made beside it";
        let slow = ends.line(&["--limit", "64KiB"]);
        rig.cp(&slow).expect(4, "failed");
        for by_expiry in [false, true] {
            println!("{path}: {slow:?}, by expiry: {by_expiry}");
            fs::create_dir_all(ends.destination.parent().expect("below")).expect("made");
            client
                .access()
                .put("one", &rule(&us, "", None))
                .expect("allowed");
            let mut run = rig.begin_cp(&rig.path(""), &slow);
            run.wait_for("\"started\"");
            if by_expiry {
                let soon = rule(&us, "", Some(seconds_from_now(2)));
                client.access().put("one", &soon).expect("shortened");
            } else {
                client.access().remove("one").expect("removed");
            }
            let outcome = run.wait();
            outcome
                .expect(4, "failed")
                .says("was revoked or has expired")
                .says("godwit access allow");
        }
    }
}

#[test]
fn a_push_ends_with_the_right_to_see_its_destination() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("run42/large", vec![7; 16 << 20]);
    let us = us(&rig);
    output_of(&rig, &["access", "deny", &us]);
    let client = Client::local(rig.daemon_home.clone()).expect("a client");
    let allow = |rights: &[RightName]| {
        let rule = NewAccess {
            rights: rights.to_vec(),
            ..rule(&us, "", None)
        };
        client.access().put("one", &rule).expect("allowed");
    };
    let url = rig.url("copy");
    for right in [RightName::List, RightName::Read] {
        allow(&[RightName::Write, right]);
        let slow = ["--limit", "64KiB", "run42", &url];
        let mut run = rig.begin_cp(&rig.path(""), &slow);
        run.wait_for("\"started\"");
        allow(&[RightName::Write]);
        let outcome = run.wait();
        outcome
            .expect(4, "failed")
            .says("was revoked or has expired");
    }
}

#[test]
fn the_commands_say_what_they_change_where_and_for_whom() {
    let mut rig = Rig::new();
    let us = us(&rig);
    let allow = |rig: &Rig, more: &[&str]| rig.admin(&[&["access", "allow", &us], more].concat());
    // Without a node the exports are unknown.
    let outcome = allow(&rig, &["--export", "data"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(!outcome.said().contains("deletion"), "{outcome:?}");
    outcome
        .says("cannot find out whether data is exported")
        .says("no node runs with this home");
    // The settings of the node may name the export.
    fs::write(
        rig.daemon_home.join("config.toml"),
        format!("[serve]\nexport = ['archive={}']\n", rig.export.display()),
    )
    .expect("written");
    let outcome = allow(&rig, &["--export", "dat:/a"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    outcome.says("has no such export; it has: archive");
    fs::remove_file(rig.daemon_home.join("config.toml")).expect("removed");

    rig.serve(&[]);
    let outcome = allow(&rig, &["--export", "dat"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    outcome.says("has no such export; it has: data");
    for wrong in [
        &["--read"][..],
        &["--export", "*"],
        &["--export", "data:a"],
        &["--export", "data", "--expires", "yesterday"],
    ] {
        assert_eq!(allow(&rig, wrong).code, Some(2), "{wrong:?}");
    }
    let home = rig.daemon_home.join("grants").display().to_string();
    let line = [
        "--export",
        "data:/run4",
        "--write",
        "--expires",
        "90d",
        "--comment",
        "Ada # 4",
    ];
    let outcome = allow(&rig, &line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
        .says(&format!("{us} may now write export data:/run4 until "))
        .says("; writing includes deletion\n")
        .says(&home)
        .says("applies it at once");

    let client = Client::local(rig.daemon_home.clone()).expect("a client");
    client
        .access()
        .put("two", &rule("user:otto", "a", None))
        .expect("allowed");
    client
        .access()
        .put("three", &rule(&us, "run4/b", None))
        .expect("allowed");
    let list = output_of(&rig, &["access", "list"]).out;
    for words in [
        "WHO",
        "data:/run4",
        "Ada # 4",
        "state, rule two",
        "user:otto",
        "data:/a",
        "read,write",
        "\nwriting includes deletion\n",
        "file",
    ] {
        assert!(list.contains(words), "{words}: {list}");
    }
    let json = output_of(&rig, &["access", "list", "--json"]).out;
    let views: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document"))
        .collect();
    assert_eq!(views.len(), 4, "{json}");
    assert!(
        views
            .iter()
            .any(|view| view["origin"] == "state" && view["id"] == "two")
    );

    // Both kinds of grants end. A grant that reaches further is reported, and makes the command fail.
    let outcome = rig.admin(&["access", "deny", &us, "--export", "data:/run4"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome
        .says("may no longer write export data:/run4")
        .says("may no longer read and write export data:/run4/b")
        .says("may still read export data, by a wider grant");
    let outcome = output_of(&rig, &["access", "deny", &us]);
    outcome.says("may no longer read export data");
    let left = output_of(&rig, &["access", "list", "--json"]).out;
    assert!(
        left.lines().count() == 1 && left.contains("user:otto"),
        "{left}"
    );
    output_of(&rig, &["access", "deny", &us]).says("did not have this access");
}

#[test]
fn the_old_commands_name_the_new_ones() {
    let rig = Rig::new();
    for (old, new) in [
        ("authorize", "godwit access allow"),
        ("revoke", "godwit access deny"),
    ] {
        let outcome = rig.admin(&[old, "gw1-x"]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        outcome.says(new);
    }
}

/// A service must be able to read the files that root writes into its home.
#[test]
fn files_that_root_writes_belong_to_the_owner_of_the_home() {
    if !needs_root() {
        return;
    }
    let rig = Rig::new();
    fs::create_dir(&rig.daemon_home).expect("made");
    std::os::unix::fs::chown(&rig.daemon_home, Some(NOBODY), Some(NOBODY)).expect("root");
    let us = us(&rig);
    output_of(&rig, &["access", "allow", &us, "--all-exports"]);
    for name in ["grants", ".lock"] {
        let file = fs::metadata(rig.daemon_home.join(name)).expect(name);
        assert_eq!((file.uid(), file.mode() & 0o777), (NOBODY, 0o600), "{name}");
    }
}

/// A rule that is made while the node runs counts within the time that a command takes.
#[test]
fn a_rule_of_the_state_counts_at_once() {
    let mut rig = Rig::new();
    rig.write("export/a", "alpha");
    rig.start(&[]);
    let us = us(&rig);
    output_of(&rig, &["access", "deny", &us]);
    let client = Client::local(rig.daemon_home.clone()).expect("a client");
    let url = rig.url("a");
    for _ in 0..3 {
        rig.cp(&["--force", &url, "got"]).expect(4, "failed");
        client
            .access()
            .put("one", &rule(&us, "a", None))
            .expect("allowed");
        rig.cp(&["--force", &url, "got"]).complete();
        client.access().remove("one").expect("removed");
    }
    client
        .access()
        .put("one", &rule(&us, "a", Some(seconds_from_now(1))))
        .expect("allowed");
    let closed = wait_until(|| (rig.cp(&["--force", &url, "got"]).code == Some(4)).then_some(()));
    assert!(closed.is_some(), "an expired rule still lets in");
}

/// A dry run names the entries of its destination.
#[test]
fn a_client_that_may_only_write_sees_no_names_in_a_dry_run() {
    let mut rig = Rig::new();
    rig.write("export/drop/secret-name", "theirs");
    rig.make_dirs("empty");
    rig.start(&[]);
    let us = us(&rig);
    let url = rig.url("drop/");
    let dry = |rights: &str| {
        let line = format!("{us} data:/drop {rights}\n");
        fs::write(rig.daemon_home.join("grants"), line).expect("written");
        rig.client(&[
            "sync",
            "--delete",
            "--dry-run",
            "--json",
            &format!("{}/", rig.path("empty").display()),
            &url,
        ])
    };
    let outcome = dry("write");
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(
        !format!("{outcome:?}").contains("secret-name"),
        "{outcome:?}"
    );
    assert!(
        format!("{outcome:?}").contains("you may not list"),
        "{outcome:?}"
    );
    for rights in ["write,list", "read,write"] {
        let outcome = dry(rights);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.out.contains("secret-name"), "{outcome:?}");
    }
}

/// A deletion includes entries that the client never named, and so does the message on a refused one.
#[test]
fn a_client_that_may_only_write_sees_no_names_of_deleted_or_kept_entries() {
    let mut rig = Rig::new();
    rig.write("export/drop/secret-name", "theirs");
    rig.write("export/drop/secret-directory/secret-inside", "theirs");
    rig.make_dirs("empty");
    rig.write("new/secret-directory", "a file of that name");
    rig.start(&[]);
    let us = us(&rig);
    let url = rig.url("drop/");
    let sync = |rights: &str, from: &str, flags: &[&str]| {
        let line = format!("{us} data:/drop {rights}\n");
        fs::write(rig.daemon_home.join("grants"), line).expect("written");
        let from = format!("{}/", rig.path(from).display());
        let line = [&["sync", "--delete", "--json"], flags, &[&from, &url]].concat();
        rig.client(&line)
    };
    let kept = &["--exclude", "secret-inside"][..];
    for (from, flags) in [("empty", &["--max-delete", "0"][..]), ("new", kept)] {
        let outcome = sync("write", from, flags);
        let output_of = format!("{outcome:?}");
        assert_eq!(outcome.code, Some(3), "{output_of}");
        assert!(output_of.contains("was deleted"), "{output_of}");
        assert!(!output_of.contains("secret-name"), "{output_of}");
        // The client's command line has the pattern.
        assert!(
            !output_of.contains("drop/secret-directory/secret-inside"),
            "{output_of}"
        );
        assert!(
            !output_of.contains("and secret-directory/secret-inside"),
            "{output_of}"
        );
        assert!(!output_of.contains("would be 3 entries"), "{output_of}");
    }
    let outcome = sync("write,list", "empty", &["--max-delete", "0"]);
    assert!(format!("{outcome:?}").contains("3 entries"), "{outcome:?}");
    for (flags, code) in [(&[][..], 2), (&["--max-delete", "3"], 0)] {
        let outcome = sync("write", "empty", flags);
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("secret"), "{outcome:?}");
    }
    let left = fs::read_dir(rig.path("export/drop")).expect("a directory");
    assert_eq!(left.count(), 0);
}
