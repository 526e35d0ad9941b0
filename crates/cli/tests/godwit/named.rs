//! Tests that a bottleneck is named only if there is one.
//! The rules have their tables in `tuner`; which stage is found is tested in `engine`.

use serde_json::Value;

use super::process::Outcome;
use super::rig::Rig;

/// Each named bottleneck, at the end or before.
fn named(outcome: &Outcome) -> Vec<Value> {
    let mut named = outcome.events();
    named.retain(|event| !event["bottleneck"].is_null());
    named
}

#[test]
fn a_transfer_that_moves_nothing_or_a_few_bytes_is_limited_by_nothing() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for place in ["tree", "export/tree"] {
        for number in 0..2_000 {
            rig.write(&format!("{place}/{}/{number}", number / 100), "few");
        }
    }
    for line in [
        ["tree/.".to_owned(), rig.url("pushed")],
        [rig.url("tree/."), "pulled".to_owned()],
        ["tree/.".to_owned(), "copied".to_owned()],
    ] {
        let line = line.each_ref().map(String::as_str);
        rig.cp(&line).complete();
        // The whole tree exists already.
        let again = rig.cp(&line);
        assert_eq!(again.complete().number("skipped"), 2_000, "{line:?}");
        assert_eq!(named(&again), [Value::Null; 0], "{line:?}");
        let checked = rig.cp(&[&["--checksum"][..], &line].concat());
        assert_eq!(checked.complete().number("bytes"), 0, "{line:?}");
        assert_eq!(named(&checked), [Value::Null; 0], "{line:?}");
    }
    rig.write("one", "a few bytes");
    let one = rig.cp(&["one", &rig.url("one")]);
    assert_eq!(named(one.complete()), [Value::Null; 0]);
}

#[test]
fn a_limit_that_blocks_wait_for_is_named_at_the_end() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("file", vec![7; 8 << 20]);
    let flags = ["--limit", "4MB", "--block-size", "64KiB"];
    let url = rig.url("to");
    let outcome = rig.cp(&[&flags[..], &["file", &url]].concat());
    assert_eq!(outcome.complete().summary()["bottleneck"], "limit");
}
