//! Owns the test of what a long line costs many small files, sent and looked at again.
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

/// How long a push takes over a line with this delay, and a second run that deletes something, by their own account.
fn seconds(rtt: &str) -> (f64, f64) {
    let (left, right) = (Netns::new(), Netns::new());
    let options = WanOptions {
        rtt,
        ..WanOptions::default()
    };
    let _link = WanLink::between(&left, &right, &options);
    let mut rig = Rig::new();
    rig.wrap_client(left.wrapper());
    rig.wrap_daemon(right.wrapper());
    rig.listen(&format!("{RIGHT}:0"));
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
