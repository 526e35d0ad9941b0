//! Tests that `godwit doctor` finds the obstacles and bounds of a transfer, and changes nothing.
//! Checks no rate: those are the machine's.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use godwit_net::Identity;
use godwit_proto::{ErrorCode, Examine, Frame};
use serde_json::Value;

use super::asking;
use super::full::unshare;
use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::process::{Outcome, Process};
use super::rig::{Rig, as_each_user};

/// The findings of a run with `--json`.
pub(crate) struct Found {
    pub(crate) code: Option<i32>,
    pub(crate) object: Value,
}

impl Found {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let object = serde_json::from_str(&outcome.out);
        Self {
            code: outcome.code,
            object: object.unwrap_or_else(|error| panic!("{error}: {outcome:?}")),
        }
    }

    /// The checks of this name.
    pub(crate) fn checks(&self, name: &str) -> Vec<&Value> {
        let all = self.object["checks"].as_array().expect("a list");
        all.iter().filter(|check| check["name"] == name).collect()
    }

    /// Expects that this stops a transfer, in these words and with this advice.
    pub(crate) fn stops(&self, name: &str, words: &str, advice: &str) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = self.checks(name).into_iter().any(|check| {
            check["level"] == "stop"
                && text(&check["message"]).contains(words)
                && text(&check["mend"]).contains(advice)
        });
        assert!(found, "{name}, {words}, {advice}: {}", self.object);
        assert_eq!(self.code, Some(1));
        assert_eq!(self.object["status"], "stop");
    }

    pub(crate) fn is_fine(&self) {
        assert_eq!(self.code, Some(0), "{}", self.object);
        assert_eq!(self.object["status"], "fine", "{}", self.object);
    }

    fn buffer_rate(&self) -> u64 {
        let limits = self.object["limits"].as_array().expect("a list");
        let limit = limits
            .iter()
            .find(|limit| limit["name"] == "buffers" && limit["way"] == "sending");
        limit.expect("a bound")["bytes_per_second"]
            .as_u64()
            .expect("a number")
    }
}

fn doctor(rig: &Rig, arguments: &[&str]) -> Found {
    let line = [&["doctor", "--json"], arguments].concat();
    Found::of(&rig.client(&line))
}

/// Everything below, by name, but the lock under which a daemon looks for journals.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.expect("read").path();
            found.push(path.display().to_string());
            open.push(path);
        }
    }
    found.retain(|name| !name.ends_with("/journals/lock"));
    found.sort();
    found
}

#[test]
fn a_healthy_node_is_found_healthy_and_nothing_changes() {
    as_each_user(|rig| {
        rig.start(&[]);
        rig.write("export/d/f", "f");
        let before = names(&rig.path(""));
        let found = doctor(rig, &["export", &rig.url("d")]);
        found.is_fine();
        let access = found.checks("access");
        assert_eq!(access.len(), 2, "{access:?}");
        assert!(
            access.iter().all(|check| check["level"] == "fine"),
            "{access:?}"
        );
        for (name, part) in [
            ("node", rig.identity.as_str()),
            ("version", "protocol 1"),
            ("storage", "writes"),
            ("storage there", "data/d"),
            ("clock", "s, within"),
            ("processor", " with crc64-nvme ("),
            ("processor there", "aes-256-gcm"),
            ("open files", "at a time"),
        ] {
            let [check] = found.checks(name)[..] else {
                panic!("{name}: {}", found.object)
            };
            assert!(check.to_string().contains(part), "{check}");
        }
        let path = &found.object["path"];
        assert!(path["round_trip_seconds"].as_f64() > Some(0.0), "{path}");
        for mtu in ["path_mtu_bytes", "path_mtu_bytes_back"] {
            assert!(
                path[mtu].as_u64() > path["segment_bytes"].as_u64(),
                "{path}"
            );
        }
        // Both sides have the same clock.
        let number = |name: &str| path[name].as_f64().expect("a number");
        let uncertain = number("clock_uncertainty_seconds");
        assert!(
            number("clock_ahead_seconds").abs() <= uncertain + 1e-6,
            "{path}"
        );
        for way in ["sending", "receiving"] {
            assert!(
                found.object[way]["bytes_per_second"].as_u64() > Some(0),
                "{way}"
            );
        }
        assert_eq!(names(&rig.path("")), before);
        // The same for people.
        let shown = rig.client(&["doctor", &rig.url("")]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(shown.out.contains("Sending at most about "), "{shown:?}");
        assert!(!shown.out.contains("STOP"), "{shown:?}");
    });
}

#[test]
fn this_machine_alone_needs_no_node_and_no_home() {
    as_each_user(|rig| {
        doctor(rig, &[]).is_fine();
        assert!(!rig.client_home().exists());
        assert_eq!(names(&rig.path("export")), Vec::<String>::new());
    });
}

#[test]
fn a_buffer_on_the_file_system_of_the_directory_is_named() {
    let mut rig = Rig::new();
    let place = rig.path("flash");
    let place = place.to_str().expect("text");
    rig.start(&["--buffer-path", place, "--buffer-bytes", "48MiB"]);
    let export = rig.export.to_str().expect("text").to_owned();
    let look = |directory: &str| Found::of(&rig.admin(&["doctor", "--json", directory]));
    let found = look(&export);
    found.is_fine();
    let [check] = found.checks("buffer")[..] else {
        panic!("{}", found.object)
    };
    assert_eq!(check["level"], "note", "{check}");
    let message = check["message"].as_str().expect("text");
    let apart = format!("{place} lies on the file system of {export}");
    assert!(message.starts_with(&apart), "{check}");
    // No test has its files in /proc.
    let found = look("/proc");
    let [check] = found.checks("buffer")[..] else {
        panic!("{}", found.object)
    };
    assert_eq!(check["level"], "fine", "{check}");
}

#[test]
fn an_unknown_client_gets_the_command_that_admits_it() {
    as_each_user(|rig| {
        rig.serve(&[]);
        let found = doctor(rig, &[&rig.url("")]);
        found.stops("identity", "none yet", "godwit access allow");
        let trust = format!("godwit trust {} {}", rig.address(), rig.identity);
        found.stops("node", "not known here", &trust);
        assert!(!rig.client_home().exists());

        let us = rig.client(&["id"]).out.trim().to_owned();
        rig.trust(rig.address(), &rig.identity);
        let found = doctor(rig, &[&rig.url("")]);
        found.stops(
            "access",
            "does not know you",
            &format!("godwit access allow {us} --export data --read"),
        );
        // One of the two rights is enough for a transfer in one direction.
        assert_eq!(
            rig.admin(&["access", "allow", &us, "--export", "data"])
                .code,
            Some(0)
        );
        let found = doctor(rig, &[&rig.url("")]);
        found.is_fine();
        // The place may not be written to, so it is not measured.
        assert!(found.checks("storage there").is_empty(), "{}", found.object);
        assert_eq!(found.checks("clock")[0]["level"], "fine");
        let write = found.checks("access")[1];
        assert_eq!(write["level"], "note", "{write}");
        let advice = format!("godwit access allow {us} --export data --write");
        assert!(
            write["mend"].as_str().expect("text").contains(&advice),
            "{write}"
        );
        let other = format!("godwit://{}/other", rig.address());
        doctor(rig, &[&other]).stops("access", "other", "");

        rig.trust(rig.address(), &us);
        doctor(rig, &[&rig.url("")]).stops("node", &rig.identity, &trust);
    });
}

#[test]
fn a_port_without_a_listener_differs_from_a_port_of_another_program() {
    let rig = Rig::new();
    rig.client(&["id"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let http = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        let mut some = [0; 16];
        let _ = stream.read(&mut some);
        // The other side may be gone.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let found = doctor(&rig, &[&format!("godwit://{address}/data")]);
    found.stops("node", "HTTP server", "7272");
    http.join().expect("no panic");
    let found = doctor(&rig, &[&format!("godwit://{address}")]);
    found.stops("node", "refused", "godwit serve");
}

#[test]
fn a_directory_that_takes_nothing_is_reported() {
    let mut rig = Rig::new();
    doctor(&rig, &["no/such"]).stops("storage", "no/such", "mkdir -p no");
    let found = doctor(&rig, &["no", "godwit://127.0.0.1:1/data"]);
    found.stops("storage", "no: ", "check the name");
    doctor(&rig, &["./new"]).is_fine();
    assert!(!rig.path("new").exists());
    // No user can make a file there.
    doctor(&rig, &["/proc"]).stops("storage", "/proc", "another directory");
    // The directory may be a source.
    let found = doctor(&rig, &["/proc", "godwit://127.0.0.1:1/data"]);
    assert_eq!(
        found.checks("storage")[0]["level"],
        "note",
        "{}",
        found.object
    );
    let Some(unshare) = unshare() else {
        return;
    };
    for (options, words) in [("size=1m", "are free"), ("ro", "read-only")] {
        let script = format!("mount -t tmpfs -o {options} none /mnt && exec \"$@\"");
        rig.wrap_client([unshare.as_slice(), &["sh", "-c", &script, "sh"]].concat());
        doctor(&rig, &["/mnt"]).stops("storage", words, "another directory");
    }
}

#[test]
fn a_buffer_too_small_for_the_line_is_named_with_what_mends_it() {
    with_network(
        "godwit::doctor::a_buffer_too_small_for_the_line_is_named_with_what_mends_it",
        || {
            let (left, right) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "200ms",
                ..WanOptions::default()
            };
            let _link = WanLink::between(&left, &right, &options);
            let set = |sizes: &str| left.set("net/ipv4/tcp_wmem", sizes);
            // 5 MB/s: less than any disk that is busy with other tests.
            set("4096 16384 16384");
            let mut rig = Rig::new();
            rig.wrap_client(left.wrapper());
            rig.wrap_daemon(right.wrapper());
            rig.listen(&format!("{RIGHT}:0"));
            rig.start(&[]);
            let found = doctor(&rig, &[&rig.url("")]);
            found.is_fine();
            let sending = &found.object["sending"];
            assert_eq!(sending["name"], "buffers", "{}", found.object);
            // At most 128 connections. Each sends half of its 16 KiB buffer five times a second.
            assert!(found.buffer_rate() <= 128 * 40_960, "{sending}");
            let mend = sending["mend"].as_str().expect("text");
            let sizes = mend
                .split_once("net.ipv4.tcp_wmem='")
                .and_then(|(_, rest)| rest.split_once('\''));
            let (sizes, _) = sizes.unwrap_or_else(|| panic!("no command: {mend}"));
            assert!(sizes.starts_with("4096 16384 "), "{mend}");
            set(sizes);
            assert!(doctor(&rig, &[&rig.url("")]).buffer_rate() >= 2 * found.buffer_rate());
        },
    );
}

#[test]
fn invalid_arguments_of_doctor_are_wrong_usage() {
    let rig = Rig::new();
    for line in [
        &["doctor", "a", "b"][..],
        &["doctor", "godwit://a/x", "godwit://b/x"],
        &["doctor", "h:a", "godwit://b/x"],
        &["doctor", "h:a", "i:b"],
        &["doctor", "godwit://h:x/data"],
        &["doctor", "mem:1GiB"],
        &["doctor", "--path"],
        &["doctor", "--path", "h:a"],
    ] {
        let outcome = rig.client(line);
        assert_eq!(outcome.code, Some(2), "{line:?}: {outcome:?}");
    }
    rig.client(&["doctor", "--path", "h:a"])
        .says("--path measures the path to a node, and h is reached by ssh");
}

/// Only the user of doctor wants to know the rights, so the operator is asked for nothing.
#[test]
fn the_questions_of_doctor_ask_the_operator_for_nothing() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("export/d/f", "f");
    let place = rig.url("d");
    doctor(&rig, &[".", &place]).is_fine();
    assert!(!rig.daemon().said().contains(".godwit-doctor-"));
    let us = rig.client(&["id"]).out.trim().to_owned();
    let admin = |line: &[&str]| {
        let outcome = rig.admin(line);
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    };
    admin(&["access", "deny", &us]);
    admin(&["access", "allow", &us, "--export", "data", "--read"]);
    let found = doctor(&rig, &["export", &place]);
    let words = found.object.to_string();
    assert!(words.contains("cannot be written"), "{words}");
    rig.daemon().wait_for("only a question of godwit doctor");
    let said = rig.daemon().said();
    for word in [".godwit-doctor-", "to allow it", "access allow"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
}

fn ask(rig: &Rig, home: &Path, question: &Examine) -> Frame {
    let mut request = Vec::new();
    question.encode(&mut request).expect("it may be asked");
    asking::ask(rig, home, &request).expect("an answer")
}

#[test]
fn a_node_answers_and_measures_only_for_those_that_it_lets_in() {
    let mut rig = Rig::new();
    rig.write("export/d/f", "f");
    rig.write("beside/f", "f");
    rig.start(&[]);
    let stranger = rig.path("stranger");
    let question = |place: &str| Examine {
        machine: true,
        place: place.as_bytes().to_vec(),
        dial: true,
        ..Examine::default()
    };
    let before = (names(&rig.export), names(&rig.path("beside")));
    let answer = ask(&rig, &stranger, &question("data/d"));
    assert!(
        matches!(&answer, Frame::Error(error) if ErrorCode(error.code) == ErrorCode::AUTH),
        "{answer:?}"
    );
    // A client that may only read learns about the machine, and doctor touches no storage for it.
    let id = Identity::load_or_create(&stranger)
        .expect("a key")
        .id()
        .to_string();
    let grant = rig.admin(&["access", "allow", &id, "--export", "data"]);
    assert_eq!(grant.code, Some(0), "{grant:?}");
    let problem = |home: &Path, place: &str| match ask(&rig, home, &question(place)) {
        Frame::Examined(answer) => {
            assert!(
                answer.machine.is_some() && answer.dialled.is_empty(),
                "{answer:?}"
            );
            answer.storage.expect("asked for").problem
        }
        other => panic!("{other:?}"),
    };
    assert!(problem(&stranger, "data/d").contains("may not write"));
    let ours = rig.client_home();
    assert_eq!(problem(&ours, "data/d"), "");
    for (place, words) in [
        ("data/../../beside", ""),
        ("data/d/../../../beside", ""),
        ("other/d", "other"),
        ("data/no/such", ""),
        ("null:", "nothing to measure"),
    ] {
        let said = problem(&ours, place);
        assert!(!said.is_empty() && said.contains(words), "{place}: {said}");
    }
    symlink(rig.path("beside"), rig.export.join("link")).expect("made");
    assert!(!problem(&ours, "data/link/x").is_empty());
    fs::remove_file(rig.export.join("link")).expect("removed");
    assert_eq!((names(&rig.export), names(&rig.path("beside"))), before);
}

/// Each library can be chosen for a measurement; without a choice the processor decides.
#[test]
fn the_library_that_encrypts_is_named() {
    let rig = Rig::new();
    for library in ["aws-lc", "ring"] {
        let found = doctor(&rig, &["--tls-library", library]);
        let [check] = found.checks("processor")[..] else {
            panic!("{}", found.object)
        };
        let words = format!("with aes-128-gcm ({library})");
        assert!(check.to_string().contains(&words), "{check}");
    }
    let chosen = doctor(&rig, &[]);
    let words = format!("({})", godwit_net::aead::library());
    assert!(chosen.checks("processor")[0].to_string().contains(&words));
}

/// Memory to memory, in the direction of the data. Nothing is written, and no reported bound exceeds real machines.
#[test]
fn the_path_to_a_node_is_measured_where_the_user_asks_for_it() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("export/d/f", "f");
    let place = rig.url("d");
    let limits = |found: &Found| found.object["limits"].as_array().expect("a list").clone();
    let is_path = |limit: &Value| limit["name"] == "path";
    let found = doctor(&rig, &["export", &place]);
    assert!(
        !limits(&found).iter().any(is_path),
        "without leave: {}",
        found.object
    );
    let before = names(&rig.export);
    let found = doctor(&rig, &["--path", "export", &place]);
    found.is_fine();
    let all = limits(&found);
    let path = all.iter().find(|limit| is_path(limit)).expect("measured");
    let rate = path["bytes_per_second"].as_u64().expect("a number");
    assert!((1_000_000..1_000_000_000_000).contains(&rate), "{path}");
    assert_eq!(path["way"], "sending");
    let rates = all
        .iter()
        .filter_map(|limit| limit["bytes_per_second"].as_u64());
    assert!(rates.max() < Some(1_000_000_000_000), "{all:?}");
    // Path and storage at both ends were measured, and the least of all is named.
    for name in ["path", "storage", "storage there"] {
        let is_measured = all.iter().any(|limit| limit["name"] == name);
        assert!(is_measured, "{name}: {all:?}");
    }
    let sending = all.iter().filter(|limit| limit["way"] == "sending");
    let least = sending.filter_map(|limit| limit["bytes_per_second"].as_u64());
    let named = &found.object["sending"];
    assert_eq!(named["bytes_per_second"].as_u64(), least.min(), "{all:?}");
    let what = named["what"].as_str().expect("a text");
    let message = found.object["message"].as_str().expect("a text");
    assert!(message.contains(&format!("limited by {what}")), "{message}");
    assert!(found.checks("storage there").len() + found.checks("storage").len() == 2);
    assert_eq!(names(&rig.export), before);
}

#[test]
fn one_reason_and_its_remedy_are_printed_once() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let stranger = rig.path("stranger");
    let run = |line: &[&str]| {
        let mut command = rig.client_command();
        Process::start(command.env("GODWIT_HOME", &stranger).args(line)).wait()
    };
    assert_eq!(run(&["id"]).code, Some(0));
    assert_eq!(run(&["trust", rig.address(), &rig.identity]).code, Some(0));
    let outcome = run(&["doctor", &rig.url("x")]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.said());
    // One command allows reading, one writing.
    let times = outcome.out.matches("godwit access allow").count();
    assert_eq!(times, 2, "{}", outcome.out);
    outcome.says("A transfer would be stopped (access): see STOP above");
}
