//! Owns the tests of the promises of the command line: names, exit codes, fields, access.
//! Does not interrupt anything.

use std::fs;
use std::net::TcpListener;

use super::judge::assert_identical;
use super::rig::{Rig, as_each_user};

fn small_tree(rig: &Rig, root: &str) {
    rig.write(&format!("{root}/a"), "alpha");
    rig.write(&format!("{root}/d/b"), vec![7; 300_000]);
    rig.write(&format!("{root}/d/e/empty"), "");
    rig.make_dirs(&format!("{root}/nothing"));
}

#[test]
fn push_and_pull_by_every_cipher_and_digest() {
    as_each_user(|rig| {
        rig.start(&["--encryption", "any"]);
        small_tree(rig, "run42");
        let mut number = 0;
        for cipher in ["aes-256-gcm", "aes-128-gcm", "chacha20-poly1305"] {
            for digest in ["crc64-nvme", "blake3"] {
                for encryption in ["tls", "none"] {
                    number += 1;
                    let name = format!("p{number}");
                    let flags = [
                        "--cipher",
                        cipher,
                        "--digest",
                        digest,
                        "--encryption",
                        encryption,
                        "--verify",
                    ];
                    let mut line = flags.to_vec();
                    let url = rig.url(&name);
                    line.extend(["run42", &url]);
                    rig.cp(&line).complete();
                    assert_identical(&rig.path("run42"), &rig.path("export").join(&name));
                    let mut line = flags.to_vec();
                    line.extend([url.as_str(), name.as_str()]);
                    rig.cp(&line).complete();
                    assert_identical(&rig.path("run42"), &rig.path(&name));
                }
            }
        }
    });
}

#[test]
fn memory_and_nothing_are_ends_too() {
    as_each_user(|rig| {
        rig.start(&[]);
        small_tree(rig, "run42");
        let null = format!("godwit://{}/null:", rig.address());
        let memory = format!("godwit://{}/mem:3MiB", rig.address());
        for line in [["mem:3MiB", null.as_str()], [memory.as_str(), "null:"]] {
            let outcome = rig.cp(&line);
            assert_eq!(outcome.complete().number("bytes"), 3 << 20, "{line:?}");
        }
        assert_eq!(
            rig.cp(&["run42", "null:"]).complete().number("bytes"),
            300_005
        );
        rig.cp(&["mem:3MiB", "./file"]).complete();
        assert_eq!(rig.read("file").len(), 3 << 20);
        rig.cp(&["mem:1MiB", &rig.url("file")]).complete();
        assert_eq!(rig.read("export/file").len(), 1 << 20);
        rig.cp(&["run42", "copy"]).complete();
        assert_identical(&rig.path("run42"), &rig.path("copy"));
    });
}

#[test]
fn flags_that_change_how_change_nothing_of_what() {
    as_each_user(|rig| {
        rig.start(&[]);
        small_tree(rig, "run42");
        for (number, flags) in [
            &["--limit", "20Gbit"][..],
            &["--streams", "1"],
            &["--streams", "7"],
            &["--no-sync"],
            &["--verify", "--force"],
            &["--threads", "1"],
        ]
        .iter()
        .enumerate()
        {
            let url = rig.url(&number.to_string());
            let mut line = flags.to_vec();
            line.extend(["run42", &url]);
            rig.cp(&line).complete();
            assert_identical(&rig.path("run42"), &rig.path(format!("export/{number}")));
        }
    });
}

#[test]
fn names_map_as_by_cp() {
    as_each_user(|rig| {
        rig.start(&[]);
        small_tree(rig, "run42");
        rig.write("other/x", "x");
        for (local, prefix) in [(true, "local"), (false, "export")] {
            rig.write("single", "one");
            rig.make_dirs(&format!("{prefix}/there"));
            let to = |path: &str| {
                if local {
                    format!("{prefix}/{path}")
                } else {
                    rig.url(path)
                }
            };
            let at = |path: &str| rig.path(prefix).join(path);
            rig.cp(&["run42", &to("there")]).complete();
            assert_identical(&rig.path("run42"), &at("there/run42"));
            rig.cp(&["run42/", &to("new")]).complete();
            assert_identical(&rig.path("run42"), &at("new"));
            rig.cp(&["run42", &to("slash/")]).complete();
            assert_identical(&rig.path("run42"), &at("slash/run42"));
            rig.make_dirs(&format!("{prefix}/several"));
            rig.cp(&["run42", "other", "single", &to("several")])
                .complete();
            assert_identical(&rig.path("run42"), &at("several/run42"));
            assert_identical(&rig.path("other"), &at("several/other"));
            assert_eq!(fs::read(at("several/single")).expect("there"), b"one");
            rig.cp(&["other/.", &to("there")]).complete();
            assert_eq!(fs::read(at("there/x")).expect("there"), b"x");
            rig.cp(&["single", &to("name")]).complete();
            rig.write("single", "two, longer");
            rig.cp(&["single", &to("name")]).complete();
            assert_eq!(fs::read(at("name")).expect("there"), b"two, longer");
            let outcome = rig.cp(&["run42", &to("name")]);
            assert!(matches!(outcome.code, Some(1 | 3)), "{outcome:?}");
            assert_eq!(fs::read(at("name")).expect("there"), b"two, longer");
            let outcome = rig.cp(&["single", &to("no/such/name")]);
            assert!(matches!(outcome.code, Some(1 | 3)), "{outcome:?}");
            assert!(!at("no").exists());
        }
        rig.cp(&[&rig.url("new"), "./"]).complete();
        assert_identical(&rig.path("run42"), &rig.path("new"));
        rig.make_dirs("into");
        rig.cp(&[&rig.url("new/."), "into"]).complete();
        assert_identical(&rig.path("run42"), &rig.path("into"));
    });
}

#[test]
fn existing_files_are_skipped_unless_forced() {
    as_each_user(|rig| {
        rig.start(&[]);
        small_tree(rig, "run42");
        let url = rig.url("to");
        let line = ["run42/.", &url];
        assert_eq!(rig.cp(&line).complete().number("files"), 3);
        let again = rig.cp(&line);
        assert_eq!(again.complete().number("bytes"), 0);
        assert_eq!(again.number("skipped"), 3);
        let forced = rig.cp(&["--force", line[0], line[1]]);
        assert_eq!(forced.complete().number("bytes"), 300_005);
        assert_eq!(forced.number("skipped"), 0);
        rig.write("run42/a", "ALPHA and more");
        let changed = rig.cp(&line);
        assert_eq!(changed.complete().number("files"), 1);
        assert_identical(&rig.path("run42"), &rig.path("export/to"));
    });
}

#[test]
fn the_summary_has_its_fields_and_types() {
    as_each_user(|rig| {
        rig.start(&[]);
        small_tree(rig, "run42");
        let summary = rig.cp(&["run42", &rig.url("to")]).complete().summary();
        let fields = summary.as_object().expect("an object");
        let promised = "bottleneck bytes cpu_seconds event failed files max_rss_bytes resent_bytes seconds skipped status";
        for name in promised.split(' ') {
            assert!(fields.contains_key(name), "{name} is missing: {summary}");
        }
        assert_eq!(summary["bytes"], 300_005);
        assert_eq!(summary["files"], 3);
        for name in ["skipped", "failed", "resent_bytes"] {
            assert_eq!(summary[name], 0, "{name}");
        }
        assert!(summary["seconds"].is_f64());
        assert!(summary["cpu_seconds"]["source"].is_f64());
        assert!(summary["max_rss_bytes"]["source"].is_u64());
        for side in ["source", "destination"] {
            assert!(summary["cpu_seconds"].get(side).is_some());
            assert!(summary["max_rss_bytes"].get(side).is_some());
        }
        let bottleneck = &summary["bottleneck"];
        assert!(bottleneck.is_null() || bottleneck.is_string());
    });
}

#[test]
fn wrong_usage_has_its_exit_code() {
    as_each_user(|rig| {
        rig.write("a:b", "colon");
        assert_eq!(rig.cp(&["ftp://host/path", "x"]).code, Some(2));
        rig.cp(&["./a:b", "c"]).complete();
        assert_eq!(rig.read("c"), b"colon");
        rig.cp(&["missing", "x"])
            .expect(1, "failed")
            .says("missing");
        assert_eq!(rig.cp(&["--no-such-flag", "a:b", "x"]).code, Some(2));
        rig.cp(&["c", "missing", "./"])
            .expect(1, "failed")
            .says("missing")
            .says("into itself");
        rig.cp(&["c", "missing", "there/"])
            .expect(3, "partial")
            .says("missing");
        assert_eq!(rig.read("there/c"), b"colon");
    });
}

#[test]
fn unknown_and_wrong_identities_are_refused() {
    as_each_user(|rig| {
        rig.serve(&[]);
        rig.write("f", "f");
        let url = rig.url("f");
        let unknown = rig.cp(&["f", &url]);
        let advice = format!("godwit trust {} {}", rig.address(), rig.identity);
        assert_eq!(unknown.says(&advice).code, Some(4));
        let us = rig.client(&["id"]).out.trim().to_owned();
        let trust = |who: &str| rig.client(&["trust", rig.address(), who]);
        assert_eq!(trust(&us).code, Some(0));
        assert_eq!(rig.cp(&["f", &url]).code, Some(4), "not who it should be");
        assert_eq!(trust(&rig.identity).code, Some(0));
        assert_eq!(rig.cp(&["f", &url]).code, Some(4), "not granted");
        assert!(!rig.path("export/f").exists());
    });
}

#[test]
fn grants_are_obeyed_at_once() {
    as_each_user(|rig| {
        rig.make_dirs("second");
        let second = format!("second={}", rig.path("second").display());
        rig.start(&["--export", &second]);
        rig.write("f", "f");
        rig.write("export/r", "r");
        rig.write("second/r", "r");
        let us = rig.client(&["id"]).out.trim().to_owned();
        let daemon = |line: &[&str]| {
            let mut whole = vec!["access", line[0], us.as_str()];
            whole.extend(&line[1..]);
            assert_eq!(rig.admin(&whole).code, Some(0), "{line:?}");
        };
        let there =
            |export: &str, name: &str| format!("godwit://{}/{export}/{name}", rig.address());
        let write = |export: &str| rig.cp(&["--force", "f", &there(export, "f")]).code;
        let read = |export: &str| rig.cp(&["--force", &there(export, "r"), "got"]).code;
        let check = |expected: [i32; 4]| {
            let found = [read("data"), write("data"), read("second"), write("second")];
            assert_eq!(found, expected.map(Some));
        };
        check([0, 0, 0, 0]);
        daemon(&["deny"]);
        check([4, 4, 4, 4]);
        daemon(&["allow", "--export", "data"]);
        daemon(&["allow", "--export", "data"]);
        check([0, 4, 4, 4]);
        daemon(&["allow", "--export", "data", "--write"]);
        check([0, 0, 4, 4]);
        daemon(&["allow", "--export", "second", "--write"]);
        check([0, 0, 4, 0]);
        daemon(&["deny", "--export", "data"]);
        check([4, 4, 4, 0]);
        daemon(&["allow", "--all-exports"]);
        check([0, 4, 0, 0]);
    });
}

#[test]
fn a_transfer_that_runs_ends_when_its_grant_is_taken_back() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for source in ["run42", "export/run42"] {
        rig.write(&format!("{source}/large"), vec![7; 16 << 20]);
    }
    let us = rig.client(&["id"]).out.trim().to_owned();
    for ends in rig.push_and_pull() {
        fs::create_dir_all(ends.destination.parent().expect("below")).expect("made");
        // The transfer would take longer than a test waits.
        let slow = ends.line(&["--limit", "64KiB"]);
        let mut run = rig.begin_cp(&rig.path(""), &slow);
        run.wait_for("\"started\"");
        assert_eq!(rig.admin(&["access", "deny", &us]).code, Some(0));
        let outcome = run.wait();
        outcome
            .expect(4, "failed")
            .says("was revoked")
            .says("godwit access allow");
        // The arrived data is not lost.
        assert_eq!(Rig::journals(&ends.receiver_home).len(), 1);
        rig.cp(&ends.line(&[])).expect(4, "failed");
        let line = [
            "access",
            "allow",
            us.as_str(),
            "--all-exports",
            "--read",
            "--write",
        ];
        assert_eq!(rig.admin(&line).code, Some(0));
        let outcome = rig.cp(&ends.line(&[]));
        outcome.complete().says("\"resumed\":true");
        assert_identical(&ends.source, &ends.destination);
    }
}

#[test]
fn contents_go_in_clear_only_where_allowed() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("f", "f");
        let outcome = rig.cp(&["--encryption", "none", "f", &rig.url("f")]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        outcome.says("--encryption any");
        assert!(!rig.path("export/f").exists());
    });
}

#[test]
fn a_port_in_use_and_a_port_without_listener_are_named() {
    as_each_user(|rig| {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = taken.local_addr().expect("bound").to_string();
        let export = format!("data={}", rig.path("export").display());
        let line = ["serve", "--listen", &address, "--export", &export];
        let outcome = rig.admin(&line);
        assert_eq!(outcome.says(&address).code, Some(1));
        rig.write("f", "f");
        let us = rig.client(&["id"]).out.trim().to_owned();
        drop(taken);
        rig.client(&["trust", &address, &us]);
        let url = format!("godwit://{address}/data/f");
        // Only a connection that there was is tried again.
        let outcome = rig.cp(&["--retry-for", "1h", "f", &url]);
        outcome
            .expect(1, "failed")
            .says(&address)
            .says("running there");
    });
}

/// A lower bound: it can only fail if more was sent than the limit allows.
#[test]
fn a_limit_is_obeyed() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("run42/large", vec![7; 2 << 20]);
        for number in 0..200 {
            rig.write(&format!("run42/d/{number}"), vec![7; 10_000]);
        }
        rig.write("export/large", vec![7; 4 << 20]);
        let bytes_of_run42 = (2 << 20) + 2_000_000;
        let null = format!("godwit://{}/null:", rig.address());
        for (limit, line, bytes) in [
            ("4MB", ["run42", &rig.url("to")], bytes_of_run42),
            ("32Mbit", [&rig.url("large"), "back"], 4 << 20),
            ("4MB", ["run42", "copy"], bytes_of_run42),
            ("4MB", ["mem:4MiB", &null], 4 << 20),
        ] {
            let mut flags = vec!["--limit", limit, "--streams", "3", "--block-size", "64KiB"];
            flags.extend(line);
            let outcome = rig.cp(&flags);
            assert_eq!(outcome.complete().number("bytes"), bytes);
            let seconds = outcome.summary()["seconds"].as_f64().expect("a number");
            // A twentieth of a second may be sent at once, and the last block is sent when the earlier blocks are paid for.
            let least = (bytes - (64 << 10)) as f64 / 4e6 - 0.05;
            assert!(seconds >= least, "{line:?}: {seconds} s, {least} at least");
        }
    });
}
