//! Owns the tests of transfers over several network paths: found, chosen, cut, and back again.
//! Paths are pairs of virtual interfaces between two namespaces (`paths`).

mod choice;
mod cut;
mod jobs;
pub(crate) mod paths;

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::judge::assert_identical;
use super::netns::with_network;
use super::process::{Outcome, Process, wait_until};
use paths::{Paths, World};

/// The channels in the last event about them.
fn channels(outcome: &Outcome) -> Vec<Value> {
    let last = outcome
        .events()
        .into_iter()
        .rfind(|event| event["event"] == "channels");
    last.map_or_else(Vec::new, |event| {
        event["channels"].as_array().expect("an array").clone()
    })
}

/// The bytes of each channel, for messages.
fn shares(channels: &[Value]) -> String {
    let share = |channel: &Value| {
        let [name, bytes] = ["name", "bytes"].map(|field| &channel[field]);
        format!("{name}: {bytes} bytes")
    };
    channels.iter().map(share).collect::<Vec<_>>().join("; ")
}

/// Asserts that each word is in the name of one channel that carried a fair amount, and that there are no other channels.
#[track_caller]
fn expect_channels(outcome: &Outcome, words: &[&str]) {
    let found = channels(outcome);
    let had = shares(&found);
    assert_eq!(found.len(), words.len(), "{had}\n{}", outcome.said());
    for word in words {
        let channel = found
            .iter()
            .find(|channel| channel["name"].as_str().expect("text").contains(word));
        let channel = channel.unwrap_or_else(|| panic!("no {word}: {had}\n{}", outcome.said()));
        let bytes = channel["bytes"].as_u64().expect("a number");
        assert!(bytes > 1_000_000, "{word}: {had}\n{}", outcome.said());
    }
}

#[test]
fn four_paths_are_found_and_all_carry_a_push_and_a_pull() {
    with_network(
        "godwit::channels::four_paths_are_found_and_all_carry_a_push_and_a_pull",
        || {
            let paths = Paths::new(4);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(48_000_000));
            let push = rig.cp(&["--limit", "40MB", "tree", &world.url("10.11.0.2", "to")]);
            push.complete();
            assert_identical(&rig.path("tree"), &rig.export.join("to"));
            let words = [
                "to 10.11.0.2",
                "to 10.11.1.2",
                "to 10.11.2.2",
                "to 10.11.3.2",
            ];
            expect_channels(&push, &words);
            // The result does not depend on the dialled path.
            let pull = rig.cp(&["--limit", "40MB", &world.url("10.11.2.2", "to"), "back"]);
            pull.complete();
            assert_identical(&rig.path("tree"), &rig.path("back"));
            expect_channels(&pull, &words);
        },
    );
}

#[test]
fn a_fixed_number_of_streams_leaves_some_for_every_path() {
    with_network(
        "godwit::channels::a_fixed_number_of_streams_leaves_some_for_every_path",
        || {
            let paths = Paths::new(4);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(96_000_000));
            // Many, and fewer than there are paths.
            for streams in ["128", "2"] {
                let url = world.url("10.11.0.2", streams);
                let push = rig.cp(&["--streams", streams, "--limit", "20MB", "tree", &url]);
                push.complete();
                assert_identical(&rig.path("tree"), &rig.export.join(streams));
                expect_channels(
                    &push,
                    &[
                        "to 10.11.0.2",
                        "to 10.11.1.2",
                        "to 10.11.2.2",
                        "to 10.11.3.2",
                    ],
                );
                let summary = push.summary();
                assert_eq!(summary["resent_bytes"], 0, "{summary}");
            }
        },
    );
}

#[test]
fn a_user_without_rights_has_as_many_paths() {
    with_network(
        "godwit::channels::a_user_without_rights_has_as_many_paths",
        || {
            let paths = Paths::new(2);
            let world = World::of(
                super::rig::Rig::for_user(super::rig::is_root()),
                &paths,
                "0.0.0.0:0",
                &[],
            );
            let rig = &world.rig;
            rig.write("tree/file", paths::content(32_000_000));
            let push = rig.cp(&["--limit", "20MB", "tree", &world.url("10.11.0.2", "to")]);
            push.complete();
            assert_identical(&rig.path("tree"), &rig.export.join("to"));
            expect_channels(&push, &["c0 (10.11.0.1)", "c1 (10.11.1.1)"]);
        },
    );
}

#[test]
fn both_kinds_of_addresses_make_one_channel_and_either_kind_alone_does() {
    with_network(
        "godwit::channels::both_kinds_of_addresses_make_one_channel_and_either_kind_alone_does",
        || {
            let paths = Paths::new(3);
            // One path has both kinds, one has only IPv4, one only IPv6.
            paths.drop_v6(1);
            paths.drop_v4(2);
            let world = World::new(&paths, "[::]:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(48_000_000));
            let push = rig.cp(&[
                "--limit",
                "30MB",
                "tree",
                &world.url("[fd00:11:0::2]", "to"),
            ]);
            push.complete();
            assert_identical(&rig.path("tree"), &rig.export.join("to"));
            expect_channels(&push, &["to fd00:11::2", "to 10.11.1.2", "to fd00:11:2::2"]);
        },
    );
}

#[test]
fn one_path_is_one_channel_without_a_message() {
    with_network(
        "godwit::channels::one_path_is_one_channel_without_a_message",
        || {
            let paths = Paths::new(2);
            let world = World::new(&paths, "0.0.0.0:0", &["--announce", "none"]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(8_000_000));
            let push = rig.cp(&["--limit", "8MB", "tree", &world.url("10.11.0.2", "to")]);
            push.complete();
            assert!(channels(&push).is_empty(), "{}", push.said());
            assert_identical(&rig.path("tree"), &rig.export.join("to"));
        },
    );
}

/// The channels that the decisions on streams name, in their order; null is none.
fn decided(outcome: &Outcome) -> Vec<Value> {
    let mut events = outcome.complete().events();
    events.retain(|event| event["event"] == "tuning" && event["what"] == "streams");
    events
        .iter()
        .map(|event| event["channel"].clone())
        .collect()
}

#[test]
fn decisions_on_streams_name_their_channel_where_there_are_several() {
    with_network(
        "godwit::channels::decisions_on_streams_name_their_channel_where_there_are_several",
        || {
            let paths = Paths::new(2);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(32_000_000));
            // The last number counts for the needed streams, and 1 is the least. An RTT of a microsecond, possible on this path, then asks
            // for more streams. The kernel gives sockets the second number from the beginning, so all of them are fast.
            paths.near.set("net/ipv4/tcp_wmem", "4096 16777216 1");
            let there = |name: &str| world.url("10.11.0.2", name);
            let push = |more: &[&str]| {
                let url = there(&more.concat());
                rig.cp(&[more, &["--limit", "10MB", "tree", &url]].concat())
            };
            let both = push(&[]);
            let named = decided(&both);
            assert!(named.contains(&1.into()), "{}", both.said());
            let one = push(&["--channel", "c1"]);
            let named = decided(&one);
            assert!(!named.is_empty(), "{}", one.said());
            assert!(named.iter().all(Value::is_null), "{}", one.said());
            let line = ["cp", "-v", "--limit", "10MB", "tree", &there("said")];
            rig.client(&line).says("godwit: channel 1: streams 1 -> ");
        },
    );
}

#[test]
fn interfaces_that_lead_nowhere_delay_nothing() {
    with_network(
        "godwit::channels::interfaces_that_lead_nowhere_delay_nothing",
        || {
            let paths = Paths::new(1);
            // Bridges like those of docker: both sides have the same addresses, and one bridge has no peer behind it.
            for (namespace, second) in [(&paths.near, "10.77.0.1/24"), (&paths.far, "10.78.0.1/24")]
            {
                for (name, address) in [("docker0", "172.17.0.1/16"), ("other0", second)] {
                    paths.ip(namespace, &["link", "add", name, "type", "bridge"]);
                    paths.ip(
                        namespace,
                        &[
                            "link", "add", "end0", "type", "veth", "peer", "name", "end1",
                        ],
                    );
                    paths.ip(
                        namespace,
                        &["link", "set", "end0", "name", &format!("v{name}")],
                    );
                    paths.ip(
                        namespace,
                        &["link", "set", "end1", "name", &format!("w{name}")],
                    );
                    for end in ["v", "w"] {
                        paths.ip(
                            namespace,
                            &["link", "set", &format!("{end}{name}"), "master", name, "up"],
                        );
                    }
                    paths.ip(namespace, &["addr", "add", address, "dev", name]);
                    paths.ip(namespace, &["link", "set", name, "up"]);
                }
            }
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(16_000_000));
            let push = rig.cp(&["--limit", "8MB", "tree", &world.url("10.11.0.2", "to")]);
            push.complete();
            assert!(channels(&push).is_empty(), "{}", push.said());
            assert!(!push.said().contains("note"), "{}", push.said());
            assert_identical(&rig.path("tree"), &rig.export.join("to"));
        },
    );
}

/// The nice values of the threads of a process with this name (0 is usual, higher yields more); `None` is its first thread.
fn nice(process: &Process, name: Option<&str>) -> Vec<i32> {
    let id = process.id().to_string();
    let tasks = fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
    let nice = |task: fs::DirEntry| {
        // The thread may have ended.
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (begin, rest) = stat.rsplit_once(") ")?;
        let (number, own) = begin.split_once(" (")?;
        let is_it = name.map_or(number == id, |name| own == name);
        let nice = rest.split_whitespace().nth(16)?;
        is_it.then(|| nice.parse().expect("a number"))
    };
    tasks.flatten().filter_map(nice).collect()
}

#[test]
fn the_thread_that_watches_paths_keeps_its_priority_in_the_background() {
    with_network(
        "godwit::channels::the_thread_that_watches_paths_keeps_its_priority_in_the_background",
        || {
            let paths = Paths::new(2);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", paths::content(4_000_000));
            let there = world.url("10.11.0.2", "to");
            let line = ["--priority", "background", "--limit", "1KB", "tree", &there];
            let mut process = rig.begin_cp(&rig.path(""), &line);
            for end in [&process, rig.daemon()] {
                let watches = wait_until(|| {
                    let watches = nice(end, Some("gw-channels"));
                    (!watches.is_empty()).then_some(watches)
                });
                assert_eq!(watches, Some(nice(end, None)), "{}", process.said());
            }
            process.signal(Signal::INT);
            process.wait();
        },
    );
}
