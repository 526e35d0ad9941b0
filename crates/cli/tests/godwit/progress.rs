//! Tests that progress adds up: it never falls, never passes its total, and reaches it in a run that ends complete.
//! Does not test how it is drawn.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::outage::wait_for_event;
use super::process::Outcome;
use super::rig::{Rig, is_root};

const MIB: u64 = 1 << 20;

fn content(mib: usize) -> Vec<u8> {
    vec![7; mib << 20]
}

/// The events of progress, as they must be in any run.
#[track_caller]
fn sound(outcome: &Outcome) -> Vec<Value> {
    let mut events = outcome.events();
    events.retain(|event| event["event"] == "progress");
    let mut before = 0;
    for event in &events {
        let bytes = event["bytes"].as_u64().expect("a number");
        assert!(bytes >= before, "it falls: {}", outcome.said());
        let total = event["bytes_total"].as_u64().unwrap_or(u64::MAX);
        assert!(bytes <= total, "more than all: {}", outcome.said());
        before = bytes;
    }
    events
}

/// The last event counts all of `total` as settled.
#[track_caller]
fn ends_with(outcome: &Outcome, total: u64) {
    let events = sound(outcome);
    let last = events.last().expect("progress is told");
    assert_eq!(last["bytes"], total, "{}", outcome.said());
    assert_eq!(last["bytes_total"], total, "{}", outcome.said());
}

/// A push, a pull and a copy on this machine, of `name` in the rig and in the export.
fn three_ways(rig: &Rig, name: &str) -> [[String; 2]; 3] {
    [
        [name.to_owned(), rig.url("pushed")],
        [rig.url(name), "pulled".to_owned()],
        [name.to_owned(), "copied".to_owned()],
    ]
}

fn with<'a>(flags: &[&'a str], line: &'a [String; 2]) -> Vec<&'a str> {
    let words = line.iter().map(String::as_str);
    flags.iter().copied().chain(words).collect()
}

#[test]
fn data_of_an_earlier_run_counts_as_held_and_not_as_moved() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let whole = 24 * MIB;
    for place in ["large", "export/large"] {
        rig.write(place, content(24));
    }
    for line in three_ways(&rig, "large") {
        let flags = ["--limit", "8MB", "--block-size", "64KiB"];
        let mut client = rig.begin_cp(&rig.path(""), &with(&flags, &line));
        client.wait_for_bytes(16 * MIB);
        client.signal(Signal::INT);
        let cut = client.wait();
        assert_eq!(cut.code, Some(5), "{}", cut.said());
        sound(&cut);
        let flags = ["--limit", "2MB", "--block-size", "64KiB"];
        let outcome = rig.cp(&with(&flags, &line));
        let moved = outcome.complete().number("bytes");
        assert!(moved <= 12 * MIB, "{moved}: it began anew");
        ends_with(&outcome, whole);
        // Resumed bytes count at once, but not in the rate: the limit holds for bytes that move.
        let events = sound(&outcome);
        let known = events
            .iter()
            .find(|event| event["bytes_total"] == whole)
            .expect("the total is told");
        let held = known["bytes"].as_u64().expect("a number");
        assert!(held >= 8 * MIB, "{line:?}: {}", outcome.said());
        let last = events.last().expect("told");
        let rate = last["bytes_per_second"].as_f64().expect("a number");
        assert!(rate <= 3e6, "{line:?}: {rate}");
    }
}

#[test]
fn holes_count_and_do_not_move() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let (whole, data) = (300 * MIB, 3 * MIB);
    for place in ["sparse", "export/sparse"] {
        let file = File::create(rig.path(place)).expect("made");
        file.set_len(whole).expect("room");
        for third in 0..3 {
            let content = content(1);
            file.write_all_at(&content, third * 100 * MIB + 5 * MIB)
                .expect("written");
        }
    }
    rig.own();
    for line in three_ways(&rig, "sparse") {
        let outcome = rig.cp(&with(&[], &line));
        assert_eq!(outcome.complete().number("bytes"), data);
        ends_with(&outcome, whole);
    }
}

#[test]
fn existing_files_count_in_the_progress() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for root in ["tree", "export/tree"] {
        rig.write(&format!("{root}/large"), content(5));
        for number in 0..50 {
            rig.write(&format!("{root}/d/{number}"), vec![7; 10_000]);
        }
        std::os::unix::fs::symlink("d/1", rig.path(root).join("link")).expect("made");
        fs::hard_link(rig.path(root).join("d/2"), rig.path(root).join("again")).expect("made");
    }
    let whole = 5 * MIB + 500_000;
    for (number, flags) in [&[][..], &["--checksum"]].iter().enumerate() {
        for line in three_ways(&rig, "tree/.") {
            let line = [line[0].clone(), format!("{}{number}", line[1])];
            let outcome = rig.cp(&with(flags, &line));
            assert_eq!(outcome.complete().number("bytes"), whole);
            ends_with(&outcome, whole);
            // In order: no work, a different file, a new file, and a file that needs only its mode.
            let outcome = rig.cp(&with(flags, &line));
            assert_eq!(outcome.complete().number("bytes"), 0);
            ends_with(&outcome, whole);
            let copy = match line[1].strip_prefix(&rig.url("")) {
                Some(name) => rig.export.join(name),
                None => rig.path(&line[1]),
            };
            fs::write(copy.join("d/7"), "other").expect("there");
            fs::remove_file(copy.join("d/8")).expect("there");
            let closed = fs::Permissions::from_mode(0o600);
            fs::set_permissions(copy.join("large"), closed).expect("there");
            let outcome = rig.cp(&with(flags, &line));
            assert_eq!(outcome.complete().number("bytes"), 20_000);
            ends_with(&outcome, whole);
        }
    }
}

#[test]
fn the_progress_does_not_wait_for_failed_files() {
    let mut rig = Rig::for_user(is_root());
    for root in ["tree", "export/tree"] {
        rig.write(&format!("{root}/large"), content(5));
        rig.write(&format!("{root}/small"), vec![7; 10_000]);
        rig.write(&format!("{root}/good"), vec![7; 20_000]);
    }
    rig.start(&[]);
    let close = |root: &Path| {
        for name in ["large", "small"] {
            let closed = fs::Permissions::from_mode(0o000);
            fs::set_permissions(root.join(name), closed).expect("ours");
        }
    };
    rig.own();
    close(&rig.path("tree"));
    close(&rig.path("export/tree"));
    for line in three_ways(&rig, "tree") {
        let outcome = rig.cp(&with(&[], &line));
        assert_eq!(outcome.expect(3, "partial").number("failed"), 2);
        ends_with(&outcome, 5 * MIB + 30_000);
    }
}

#[test]
fn files_count_as_soon_as_they_have_their_names() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let count = 10;
    for place in ["large", "export/large"] {
        for number in 0..count {
            rig.write(&format!("{place}/{number}"), content(2));
        }
    }
    for line in three_ways(&rig, "large/.") {
        let flags = ["--limit", "8MB", "--block-size", "64KiB"];
        let mut client = rig.begin_cp(&rig.path(""), &with(&flags, &line));
        client.wait_for_bytes(12 * MIB);
        client.signal(Signal::INT);
        let cut = client.wait();
        assert_eq!(cut.code, Some(5), "{}", cut.said());
        let reported = sound(&cut)
            .last()
            .and_then(|event| event["files"].as_u64())
            .expect("progress is told");
        assert!(reported > 0, "{line:?}: {}", cut.said());
        let place = match line[1].strip_prefix(&rig.url("")) {
            Some(name) => rig.export.join(name),
            None => rig.path(&line[1]),
        };
        let named = fs::read_dir(&place)
            .expect("listed")
            .map(|entry| entry.expect("listed").file_name())
            .filter(|name| !name.to_string_lossy().starts_with(".godwit-"))
            .count() as u64;
        let files = cut.number("files");
        assert!(
            reported <= files && files <= named,
            "{line:?}: {named} named, {}",
            cut.said()
        );
        let again = rig.cp(&with(&[], &line));
        let again = again.complete();
        assert_eq!(
            again.number("files") + again.number("skipped"),
            count,
            "{line:?}"
        );
        assert_eq!(again.number("skipped"), named, "{line:?}");
    }
}

/// Both ends have the same sums, during the transfer and at the end, whatever happened to the node meanwhile.
#[test]
fn files_are_counted_once_when_the_node_is_restarted() {
    let mut rig = Rig::new();
    rig.start(&[]);
    let (count, bytes) = (24, 24 * MIB);
    for place in ["large", "export/large"] {
        for number in 0..count {
            rig.write(&format!("{place}/{number}"), content(1));
        }
    }
    let [push, pull, _] = three_ways(&rig, "large/.");
    for line in [push, pull] {
        let flags = ["--stats", "--limit", "6MB", "--block-size", "64KiB"];
        let mut client = rig.begin_cp(&rig.path(""), &with(&flags, &line));
        wait_for_event(&client, 0, |event| event["files"].as_u64() >= Some(4));
        rig.kill_daemon();
        rig.start(&[]);
        let outcome = client.wait();
        outcome.complete();
        let mut reported = 0;
        for event in sound(&outcome) {
            let files = event["files"].as_u64().expect("a number");
            assert!(files >= reported, "{line:?}: it falls: {}", outcome.said());
            reported = files;
        }
        let (files, skipped) = (outcome.number("files"), outcome.number("skipped"));
        assert_eq!(reported, files, "{line:?}: {}", outcome.said());
        assert_eq!(files + skipped, count, "{line:?}: {}", outcome.said());
        // Files that had their names when the node was killed, but were not reported: at most one sync's worth.
        assert!(files >= 4, "{line:?}: {}", outcome.said());
        ends_with(&outcome, bytes);
        let stats = outcome.events();
        let stats = stats.iter().find(|event| event["event"] == "stats");
        let stats = stats.expect("--stats");
        let counted = |side: &str| stats[side]["files_done"].as_u64();
        let (source, destination) = (counted("source"), counted("destination"));
        assert!(destination <= Some(files), "{line:?}: {stats}");
        assert_eq!(source, destination, "{line:?}: {stats}");
        let durable = |side: &str| stats[side]["bytes_durable"].as_u64();
        assert_eq!(
            durable("source"),
            durable("destination"),
            "{line:?}: {stats}"
        );
        let place = match line[1].strip_prefix(&rig.url("")) {
            Some(name) => rig.export.join(name),
            None => rig.path(&line[1]),
        };
        assert_eq!(fs::read_dir(place).expect("listed").count() as u64, count);
    }
}
