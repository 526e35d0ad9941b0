//! Tests that the number of streams follows the measurements, in both directions, and that no data is lost by changes.
//! Measures no speed.

use serde_json::Value;

use super::data::{Seeded, write_file};
use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::process::Outcome;
use super::rig::Rig;

/// Half of it carries data: 330 kB a second for each stream at a round trip of 100 ms.
const SMALL: &str = "4096 16384 65536";

/// Two machines with a long line and small buffers between them, and a file at either.
struct World {
    near: Netns,
    far: Netns,
    _link: WanLink,
    rig: Rig,
}

impl World {
    fn new(bytes: u64) -> Self {
        let (near, far) = (Netns::new(), Netns::new());
        let options = WanOptions {
            rtt: "100ms",
            ..WanOptions::default()
        };
        let link = WanLink::between(&near, &far, &options);
        let mut rig = Rig::new();
        rig.wrap_client(near.wrapper());
        rig.wrap_daemon(far.wrapper());
        rig.listen(&format!("{RIGHT}:0"));
        rig.make_dirs("export/from");
        rig.make_dirs("to");
        write_file(&rig.path("file"), bytes, &mut Seeded(1));
        write_file(&rig.path("export/from/file"), bytes, &mut Seeded(2));
        rig.start(&[]);
        Self {
            near,
            far,
            _link: link,
            rig,
        }
    }

    fn buffers(&self) {
        self.buffers_of(&[
            (&self.near, "tcp_wmem"),
            (&self.far, "tcp_wmem"),
            (&self.near, "tcp_rmem"),
        ]);
    }

    fn buffers_of(&self, small: &[(&Netns, &str)]) {
        for (inside, name) in small {
            inside.set(&format!("net/ipv4/{name}"), SMALL);
        }
    }

    /// A push and a pull with these arguments; each has arrived, and no stream was lost.
    fn run(&self, more: &[&str]) -> [Outcome; 2] {
        let lines = [
            ["file".to_owned(), self.rig.url("")],
            [self.rig.url("from/file"), "to/".to_owned()],
        ];
        let outcomes = lines.map(|[source, destination]| {
            let line = [more, &["--stats", &source, &destination]].concat();
            let outcome = self.rig.cp(&line);
            let summary = outcome.complete().summary();
            assert_eq!(summary["resent_bytes"], 0, "{summary}");
            for side in ["source", "destination"] {
                let stats = event(&outcome, "stats");
                // The losses of the other end are unknown; only ours count.
                let lost = stats[side]["streams_lost"].as_u64().unwrap_or(0);
                assert_eq!(lost, 0, "{side}: {stats}");
            }
            outcome
        });
        for (source, copy) in [("file", "export/file"), ("export/from/file", "to/file")] {
            assert!(self.rig.read(source) == self.rig.read(copy), "{copy}");
        }
        outcomes
    }
}

fn event(outcome: &Outcome, name: &str) -> Value {
    let mut events = outcome.events();
    events.retain(|event| event["event"] == name);
    events
        .pop()
        .unwrap_or_else(|| panic!("no {name}: {outcome:?}"))
}

/// The tuner's decisions on streams: from, to, why.
fn decisions(outcome: &Outcome) -> Vec<(u64, u64, String)> {
    outcome
        .events()
        .iter()
        .filter(|event| event["event"] == "tuning" && event["what"] == "streams")
        .map(|event| {
            let number = |name: &str| event[name].as_u64().expect("a number");
            let reason = event["reason"].as_str().expect("text").to_owned();
            (number("from"), number("to"), reason)
        })
        .collect()
}

fn streams_seen(outcome: &Outcome) -> Vec<u64> {
    outcome
        .events()
        .iter()
        .filter(|event| event["event"] == "progress")
        .filter_map(|event| event["streams"].as_u64())
        .collect()
}

/// The first decision is the number to begin with, for buffers of 66 kB.
fn begins_for_buffers(outcome: &Outcome) {
    let decisions = decisions(outcome);
    let (from, to, reason) = decisions.first().expect("a decision");
    assert_eq!(*from, 2, "{decisions:?}");
    assert!(*to > 4, "{decisions:?}");
    assert!(reason.contains("a buffer of 66 kB"), "{decisions:?}");
}

#[test]
fn small_buffers_on_a_long_way_are_made_up_for_by_streams_and_it_says_so() {
    with_network(
        "godwit::tuning::small_buffers_on_a_long_way_are_made_up_for_by_streams_and_it_says_so",
        || {
            let world = World::new(12 << 20);
            world.buffers();
            for outcome in world.run(&[]) {
                begins_for_buffers(&outcome);
                let most = streams_seen(&outcome).into_iter().max();
                assert!(most > Some(4), "{most:?}");
            }
        },
    );
}

#[test]
fn small_buffers_of_the_other_end_are_known_from_the_beginning() {
    with_network(
        "godwit::tuning::small_buffers_of_the_other_end_are_known_from_the_beginning",
        || {
            let world = World::new(12 << 20);
            // The client's kernel does not show these buffers: they receive in the push and send in the pull.
            world.buffers_of(&[(&world.far, "tcp_rmem"), (&world.far, "tcp_wmem")]);
            for outcome in world.run(&[]) {
                begins_for_buffers(&outcome);
            }
        },
    );
}

#[test]
fn a_number_that_was_given_stays() {
    with_network("godwit::tuning::a_number_that_was_given_stays", || {
        let world = World::new(2 << 20);
        world.buffers();
        for outcome in world.run(&["--streams", "2"]) {
            assert_eq!(decisions(&outcome), []);
            assert!(streams_seen(&outcome).iter().all(|streams| *streams <= 2));
        }
    });
}

#[test]
fn bounds_that_were_given_hold() {
    with_network("godwit::tuning::bounds_that_were_given_hold", || {
        let world = World::new(4 << 20);
        world.buffers();
        for outcome in world.run(&["--streams", "1..3"]) {
            let decisions = decisions(&outcome);
            assert_eq!(decisions.first().map(|(_, to, _)| *to), Some(3));
            assert!(decisions.iter().all(|(_, to, _)| *to <= 3), "{decisions:?}");
        }
    });
}

#[test]
fn streams_that_leave_are_not_lost() {
    with_network("godwit::tuning::streams_that_leave_are_not_lost", || {
        let world = World::new(15 << 20);
        world.buffers();
        // Four are computed for this rate at the beginning; then the limit holds the transfer up, and others are tried.
        let flags = ["--limit", "1200kB", "--block-size", "64KiB"];
        for outcome in world.run(&flags) {
            let decisions = decisions(&outcome);
            let fewer = |(from, to, _): &(u64, u64, String)| to < from;
            assert!(decisions.iter().any(fewer), "{decisions:?}");
        }
    });
}
