//! Owns the tests of the cost of a long path: many small files, a second look at them, and one file.
//! Emulates no line; `wanlink` does.

use serde_json::Value;

use super::judge::assert_identical;
use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::rig::Rig;

#[test]
fn many_small_files_take_few_round_trips() {
    with_network(
        "godwit::distance::many_small_files_take_few_round_trips",
        || {
            let (near, near_again) = seconds("1ms");
            let (far, far_again) = seconds("50ms");
            // A round trip for each directory would take five seconds, for each file a hundred.
            assert!(far - near <= 30.0 * 0.05, "{near} s, and far away {far} s");
            assert!(
                far_again - near_again <= 20.0 * 0.05,
                "again {near_again} s, and far away {far_again} s"
            );
        },
    );
}

#[test]
fn one_small_file_takes_five_round_trips() {
    with_network(
        "godwit::distance::one_small_file_takes_five_round_trips",
        || {
            // Long, so that processor time hardly matters beside an RTT, and below TCP's first timeout.
            let near = one_file("1ms");
            let far = one_file("800ms");
            for (near, far) in near.into_iter().zip(far) {
                // The connection, its encryption, the opening, the question for contents, and contents with the end: five.
                let round_trips = (far - near) / 0.8;
                assert!(round_trips < 5.9, "{near} s, and far away {far} s");
            }
        },
    );
}

/// A client and a daemon at the two ends of a line.
struct Far {
    rig: Rig,
    _link: WanLink,
    _ends: [Netns; 2],
}

impl Far {
    fn at(rtt: &'static str) -> Self {
        let (left, right) = (Netns::new(), Netns::new());
        let options = WanOptions {
            rtt,
            ..WanOptions::default()
        };
        let link = WanLink::between(&left, &right, &options);
        let mut rig = Rig::new();
        rig.wrap_client(left.wrapper());
        rig.wrap_daemon(right.wrapper());
        rig.listen(&format!("{RIGHT}:0"));
        Self {
            rig,
            _link: link,
            _ends: [left, right],
        }
    }
}

/// The times of a push and a pull of one small file over a path with this RTT, from their summaries.
fn one_file(rtt: &'static str) -> [f64; 2] {
    let mut far = Far::at(rtt);
    let rig = &mut far.rig;
    rig.write("file", [7; 3000]);
    rig.start(&[]);
    let url = rig.url("file");
    let seconds = [["file", &url], [&url, "back"]].map(|line| {
        let outcome = rig.cp(&line);
        let summary = outcome.complete().summary();
        summary["seconds"].as_f64().expect("a number")
    });
    assert_eq!(rig.read("back"), [7; 3000]);
    seconds
}

/// How long a push takes over a line with this delay, and a second run that deletes something, by their own account.
fn seconds(rtt: &'static str) -> (f64, f64) {
    let mut far = Far::at(rtt);
    let rig = &mut far.rig;
    for number in 0..100 {
        for file in 0..20 {
            rig.write(&format!("tree/{number}/{file}"), [7; 500]);
        }
    }
    rig.start(&[]);
    let outcome = rig.cp(&["tree", &rig.url("to")]);
    let summary = outcome.complete().summary();
    assert_identical(&rig.path("tree"), &rig.export.join("to"));
    rig.write("export/to/stray", "stray");
    let line = ["sync", "--json", "--delete", "tree", &rig.url("to")];
    let again = rig.client(&line).complete().summary();
    assert_eq!(
        (&again["skipped"], &again["deleted"]),
        (&2000.into(), &1.into())
    );
    assert_identical(&rig.path("tree"), &rig.export.join("to"));
    let seconds = |summary: &Value| summary["seconds"].as_f64().expect("a number");
    (seconds(&summary), seconds(&again))
}
