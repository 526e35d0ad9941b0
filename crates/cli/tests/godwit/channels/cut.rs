//! Owns the tests of a path that dies in the middle of a transfer and comes back.
//! Makes no paths; `paths` does.

use rustix::process::Signal;
use serde_json::Value;

use super::super::judge::assert_identical;
use super::super::netns::with_network;
use super::super::outage::{wait_for_event, wait_for_loss, wait_for_return};
use super::super::process::{Process, wait_until};
use super::super::rig::Rig;
use super::paths::{Paths, World, content};

/// The bytes carried by the channel, from the last event.
fn carried(process: &Process, number: u64) -> Option<u64> {
    let said = process.said();
    let reported = |line: &&str| line.starts_with("{\"event\":\"channels\"");
    let event: Value = serde_json::from_str(said.lines().rfind(reported)?).expect("JSON");
    let channels = event["channels"].as_array().expect("an array");
    let channel = channels
        .iter()
        .find(|channel| channel["number"] == number)?;
    channel["bytes"].as_u64()
}

fn wait_for_more(process: &Process, number: u64, than: u64) -> u64 {
    let more = wait_until(|| carried(process, number).filter(|bytes| *bytes > than));
    more.unwrap_or_else(|| panic!("nothing more on {number}: {}", process.said()))
}

/// Checks how long the daemon heard nothing before the first cut of a stream, by the kernel's clock. The judgement takes 2 s at most
/// (`engine::channels::verdict`, whose tests hold it to that). Its thread may wait for a processor; the next slower judgement takes 7 s.
fn assert_noticed_soon(rig: &Rig) {
    let words = "channel silent for ";
    let line = rig.daemon().wait_for(words);
    let (_, rest) = line.split_once(words).expect("found by it");
    let seconds = rest.split_once(" s;").map(|(seconds, _)| seconds.parse());
    let seconds: f64 = seconds.expect("seconds").expect("a number");
    assert!(seconds < 6.0, "{line}");
}

/// A push and a pull over two paths. `cut` makes the second one die, and `mend` restores it.
fn dies_and_comes_back(cut: impl Fn(&Paths), mend: impl Fn(&Paths)) {
    let paths = Paths::new(2);
    let world = World::new(&paths, "0.0.0.0:0", &[]);
    let rig = &world.rig;
    rig.write("tree/file", content(240_000_000));
    let there = world.url("10.11.0.2", "to");
    for (from, to, copy) in [
        ("tree", there.as_str(), rig.export.join("to")),
        (there.as_str(), "back", rig.path("back")),
    ] {
        let line = ["--limit", "8MB", from, to];
        let mut process = rig.begin_cp(&rig.path(""), &line);
        wait_for_more(&process, 1, 2_000_000);
        cut(&paths);
        let of_one = |name: &'static str| {
            move |event: &Value| event["event"] == name && event["channel"] == 1
        };
        let (at, lost) = wait_for_event(&process, 0, of_one("connection_lost"));
        let why = lost["why"].as_str().expect("text");
        assert!(why.contains("the path is silent"), "{lost}");
        assert!(lost["name"].is_string(), "{lost}");
        // The first line of this kind in the log belongs to the push.
        if from == "tree" {
            assert_noticed_soon(rig);
        }
        let other = carried(&process, 0).expect("it is told");
        wait_for_more(&process, 0, other + 4_000_000);
        let before = carried(&process, 1).expect("it is told");
        mend(&paths);
        wait_for_event(&process, at, of_one("connection_regained"));
        wait_for_more(&process, 1, before + 1_000_000);
        process.signal(Signal::INT);
        process.wait();
        // The rest has no limit, so that the test is short.
        rig.cp(&[from, to]).complete();
        assert_identical(&rig.path("tree"), &copy);
    }
}

#[test]
fn a_path_that_is_silently_cut_is_replaced_and_taken_back() {
    with_network(
        "godwit::channels::cut::a_path_that_is_silently_cut_is_replaced_and_taken_back",
        || dies_and_comes_back(|paths| paths.cut(1), |paths| paths.mend(1)),
    );
}

#[test]
fn an_interface_that_goes_down_is_replaced_and_taken_back() {
    with_network(
        "godwit::channels::cut::an_interface_that_goes_down_is_replaced_and_taken_back",
        || {
            let set = |paths: &Paths, to: &str| paths.ip(&paths.near, &["link", "set", "c1", to]);
            dies_and_comes_back(|paths| set(paths, "down"), |paths| set(paths, "up"));
        },
    );
}

#[test]
fn an_interface_that_comes_up_meanwhile_is_used() {
    with_network(
        "godwit::channels::cut::an_interface_that_comes_up_meanwhile_is_used",
        || {
            let paths = Paths::new(2);
            let set = |to: &str| paths.ip(&paths.near, &["link", "set", "c1", to]);
            set("down");
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", content(240_000_000));
            let there = world.url("10.11.0.2", "to");
            // The interface is found after 10 s, and the transfer lasts a minute.
            let line = ["--limit", "4MB", "tree", &there];
            let mut process = rig.begin_cp(&rig.path(""), &line);
            let moves = |event: &Value| {
                event["event"] == "progress" && event["bytes"].as_u64() > Some(2_000_000)
            };
            wait_for_event(&process, 0, moves);
            assert_eq!(carried(&process, 1), None, "{}", process.said());
            set("up");
            wait_for_more(&process, 1, 0);
            process.signal(Signal::INT);
            process.wait();
        },
    );
}

#[test]
fn the_path_that_was_dialled_may_die_as_well_and_nothing_is_lost() {
    with_network(
        "godwit::channels::cut::the_path_that_was_dialled_may_die_as_well_and_nothing_is_lost",
        || {
            let paths = Paths::new(3);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", content(96_000_000));
            let there = world.url("10.11.0.2", "to");
            for (from, to, copy) in [
                ("tree", there.as_str(), rig.export.join("to")),
                (there.as_str(), "back", rig.path("back")),
            ] {
                let mut process = rig.begin_cp(&rig.path(""), &["--limit", "12MB", from, to]);
                wait_for_more(&process, 2, 1_000_000);
                paths.cut(0);
                process.wait_for("the path is silent");
                process.wait().complete();
                assert_identical(&rig.path("tree"), &copy);
                paths.mend(0);
            }
        },
    );
}

#[test]
fn a_path_without_anything_on_its_way_is_missed_as_well() {
    with_network(
        "godwit::channels::cut::a_path_without_anything_on_its_way_is_missed_as_well",
        || {
            let paths = Paths::new(2);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", content(4_000_000));
            let there = world.url("10.11.0.2", "to");
            // The next block may be sent after some minutes.
            let line = ["--limit", "1KB", "tree", &there];
            let mut process = rig.begin_cp(&rig.path(""), &line);
            wait_for_more(&process, 1, 0);
            paths.cut(1);
            process.wait_for("the path is silent");
            assert_noticed_soon(rig);
            process.signal(Signal::INT);
            process.wait();
        },
    );
}

/// The progress events after the first `after` ones.
fn progress(process: &Process, after: usize) -> Vec<Value> {
    let said = process.said();
    let reported = said
        .lines()
        .filter(|line| line.starts_with("{\"event\":\"progress\""));
    reported
        .skip(after)
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn the_network_is_what_limits_and_the_path_that_was_cut_is_named() {
    with_network(
        "godwit::channels::cut::the_network_is_what_limits_and_the_path_that_was_cut_is_named",
        || {
            let paths = Paths::new(2);
            // The limit is so low that nothing else can be the bottleneck.
            for number in [0, 1] {
                paths.slow_down(number, "16mbit");
            }
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("tree/file", content(240_000_000));
            let mut process = rig.begin_cp(&rig.path(""), &["tree", &world.url("10.11.0.2", "to")]);
            wait_for_more(&process, 1, 4_000_000);
            let (before, _) = process.progress();
            paths.cut(1);
            let named = wait_until(|| {
                progress(&process, before).into_iter().find(|event| {
                    let figure = event["bottleneck_evidence"]["figure"].as_str();
                    figure.is_some_and(|figure| figure.contains(" carries 0 % of it"))
                })
            });
            let named = named.unwrap_or_else(|| panic!("none is named: {}", process.said()));
            assert_eq!(named["bottleneck"], "network", "{named}");
            let figure = named["bottleneck_evidence"]["figure"]
                .as_str()
                .expect("text");
            assert!(figure.contains(", channel 1 (c1 "), "{figure}");
            process.signal(Signal::INT);
            process.wait();
        },
    );
}

/// The kernel of the other side is silent, too, and no stream is cut before `--stall-deadline`.
#[test]
fn an_only_path_that_is_cut_is_a_peer_that_does_not_answer() {
    with_network(
        "godwit::channels::cut::an_only_path_that_is_cut_is_a_peer_that_does_not_answer",
        || {
            let paths = Paths::new(1);
            let world = World::new(&paths, "0.0.0.0:0", &[]);
            let rig = &world.rig;
            rig.write("file", content(200_000_000));
            let there = world.url("10.11.0.2", "to");
            let line = ["--limit", "2MB", "--block-size", "64KiB", "file", &there];
            let mut process = rig.begin_cp(&rig.path(""), &line);
            process.wait_for_bytes(1_000_000);
            paths.cut(0);
            let at = wait_for_loss(&process, 0, true);
            paths.mend(0);
            wait_for_return(&process, at);
            process.signal(Signal::INT);
            process.wait().expect(5, "interrupted");
        },
    );
}
