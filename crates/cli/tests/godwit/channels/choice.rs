//! Owns the tests of `--channel`: only named paths are used, and an unusable one is an error that names it.
//! Makes no paths; `paths` does.

use super::super::judge::assert_identical;
use super::super::netns::{Netns, with_network};
use super::super::process::{Outcome, Process};
use super::super::ssh::far::{Far, Where};
use super::paths::{Paths, World, content};
use super::{channels, expect_channels};

#[test]
fn contents_in_clear_use_all_paths_and_with_a_named_one_that_one() {
    with_network(
        "godwit::channels::choice::contents_in_clear_use_all_paths_and_with_a_named_one_that_one",
        || {
            let paths = Paths::new(3);
            let world = World::new(&paths, "0.0.0.0:0", &["--encryption", "any"]);
            let rig = &world.rig;
            rig.write("tree/file", content(48_000_000));
            let clear = ["--encryption", "none", "--limit", "40MB"];
            let push = rig.cp(&[&clear[..], &["tree", &world.url("10.11.0.2", "to")]].concat());
            push.complete();
            assert_identical(&rig.path("tree"), &rig.export.join("to"));
            let all = ["to 10.11.0.2", "to 10.11.1.2", "to 10.11.2.2"];
            expect_channels(&push, &all);
            let pull = rig.cp(&[&clear[..], &[&world.url("10.11.0.2", "to"), "back"]].concat());
            pull.complete();
            assert_identical(&rig.path("tree"), &rig.path("back"));
            expect_channels(&pull, &all);
            let named = ["--channel", "c1=10.11.1.2", "tree"];
            let to = world.url("10.11.0.2", "one");
            let one = rig.cp(&[&clear[..], &named, &[&to]].concat());
            one.complete();
            let reported = channels(&one);
            let name = |channel: &serde_json::Value| channel["name"].to_string();
            assert!(
                reported
                    .iter()
                    .all(|channel| name(channel).contains("to 10.11.1.2")),
                "{reported:?}"
            );
        },
    );
}

#[test]
fn only_the_channels_that_are_named_are_used() {
    with_network(
        "godwit::channels::choice::only_the_channels_that_are_named_are_used",
        || {
            let paths = Paths::new(3);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", content(24_000_000));
            let named = world.url("10.11.0.2", "");
            let by_other = world.url("10.11.2.2", "");
            let copy = |name: &str, flags: &[&str], url: &str| -> Outcome {
                let url = format!("{url}{name}");
                let line = [flags, &["--limit", "20MB", "tree", &url]].concat();
                let outcome = rig.cp(&line);
                outcome.complete();
                assert_identical(&rig.path("tree"), &rig.export.join(name));
                outcome
            };
            let devices = copy("devices", &["--channel", "c0", "--channel", "c2"], &named);
            expect_channels(
                &devices,
                &["c0 (10.11.0.1) to 10.11.0.2", "c2 (10.11.2.1) to 10.11.2.2"],
            );
            let addresses = ["--channel", "10.11.1.1", "--channel", "10.11.2.1"];
            let addresses = copy("addresses", &addresses, &by_other);
            expect_channels(&addresses, &["to 10.11.1.2", "to 10.11.2.2"]);
            let ends = [
                "--channel",
                "c1=10.11.1.2",
                "--channel",
                "10.11.2.1=10.11.2.2",
            ];
            let ends = copy("ends", &ends, &named);
            expect_channels(
                &ends,
                &["c1 (10.11.1.1) to 10.11.1.2", "c2 (10.11.2.1) to 10.11.2.2"],
            );
            let one = copy("one", &["--channel", "c1=10.11.1.2"], &named);
            assert!(channels(&one).is_empty(), "{}", one.said());
            // A check of a copy uses the named channel as well.
            rig.client(&["manifest", "tree", "list"]);
            let url = format!("{named}one");
            let check = rig.client(&["verify", "--channel", "c1=10.11.1.2", "list", &url]);
            assert_eq!(check.code, Some(0), "{}", check.said());
        },
    );
}

#[test]
fn a_channel_that_cannot_be_used_is_an_error_that_names_it() {
    with_network(
        "godwit::channels::choice::a_channel_that_cannot_be_used_is_an_error_that_names_it",
        || {
            let paths = Paths::new(2);
            let world = World::new(&paths, "10.11.0.2:0", &["--announce", "eth9"]);
            let rig = &world.rig;
            let reported = rig.daemon().said();
            assert!(
                reported.contains("--announce eth9: this machine has no such interface"),
                "{reported}"
            );
            rig.write("tree/file", "content");
            let url = world.url("10.11.0.2", "to");
            let refused = |channels: &[&str], words: &[&str]| {
                let mut line: Vec<&str> = channels
                    .iter()
                    .flat_map(|channel| ["--channel", channel])
                    .collect();
                line.extend(["tree", &url]);
                let outcome = rig.cp(&line);
                assert!(
                    outcome.code.is_some_and(|code| code != 0),
                    "{}",
                    outcome.said()
                );
                for word in words {
                    outcome.says(word);
                }
                assert!(!rig.export.join("to").exists(), "{}", outcome.said());
            };
            refused(
                &["eth9"],
                &[
                    "--channel eth9: this machine has no interface eth9",
                    "c0, c1",
                ],
            );
            refused(&["c0", "10.99.0.1"], &["--channel 10.99.0.1: "]);
            refused(&["c0", "c0"], &["--channel c0: this path is named twice"]);
            refused(
                &["c0=there"],
                &["--channel c0=there: ", "not an IP address"],
            );
            // The daemon does not listen on the other path.
            refused(
                &["c0", "c1=10.11.1.2"],
                &["--channel c1=10.11.1.2: ", "refused"],
            );
            refused(
                &["c0=fd00:11:0::2"],
                &["--channel c0=fd00:11:0::2: ", "refused"],
            );
            paths.ip(&paths.near, &["link", "set", "c1", "down"]);
            refused(
                &["c1"],
                &["--channel c1: this machine has no interface c1 that is up"],
            );
            rig.cp(&["--channel", "c0", "tree", &url]).complete();
        },
    );
}

#[test]
fn beside_ssh_all_paths_are_used_or_those_that_are_named() {
    with_network(
        "godwit::channels::choice::beside_ssh_all_paths_are_used_or_those_that_are_named",
        || {
            let paths = Paths::new(3);
            let far = Far::at(Where {
                inside: Some((&paths.far, "10.11.0.2")),
                ..Where::default()
            });
            far.write("tree/file", content(32_000_000));
            let copy = |near: &Netns, flags: &[&str], from: &str, to: &str| {
                let line = [flags, &["--json", "--limit", "20MB", from, to]].concat();
                let outcome = Process::start(&mut far.command(Some(near), &line)).wait();
                outcome.complete();
                outcome
            };
            let push = copy(&paths.near, &[], "tree", "far:to");
            assert_identical(&far.path("tree"), &far.home().join("to"));
            expect_channels(&push, &["to 10.11.0.2", "to 10.11.1.2", "to 10.11.2.2"]);
            let pull = copy(
                &paths.near,
                &["--channel", "c1", "--channel", "c2"],
                "far:to/",
                "back",
            );
            assert_identical(&far.path("tree"), &far.path("back"));
            expect_channels(&pull, &["to 10.11.1.2", "to 10.11.2.2"]);
            let line = ["--json", "--channel", "c9", "tree", "far:no"];
            let refused = Process::start(&mut far.command(Some(&paths.near), &line)).wait();
            refused.expect(1, "failed").says("--channel c9: ");
            // Without separate data paths, no path can be chosen.
            for line in [&["--via-ssh", "tree", "far:no"][..], &["far:to", "far:no"]] {
                let line = [&["--channel", "c1"], line].concat();
                let refused = Process::start(&mut far.command(Some(&paths.near), &line)).wait();
                assert_eq!(refused.code, Some(2), "{}", refused.said());
                refused.says("--channel");
            }
        },
    );
}
