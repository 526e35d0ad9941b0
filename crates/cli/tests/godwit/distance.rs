//! Owns the test of what a long line costs many small files.
//! Emulates no line; `wanlink` does.

use super::judge::assert_identical;
use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::rig::Rig;

#[test]
fn many_small_files_take_few_round_trips() {
    with_network(
        "godwit::distance::many_small_files_take_few_round_trips",
        || {
            let near = seconds("1ms");
            let far = seconds("50ms");
            // A round trip for each directory would take five seconds, for each file a hundred.
            assert!(far - near <= 30.0 * 0.05, "{near} s, and far away {far} s");
        },
    );
}

/// How long a push takes over a line with this delay, by its own account.
fn seconds(rtt: &str) -> f64 {
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
    summary["seconds"].as_f64().expect("a number")
}
