//! Replays the fuzzer's committed corpora with the fuzzer's checks, on the stable compiler. Does not search
//! for new cases; see `fuzz/README.md`.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../../../fuzz/src/check.rs"]
mod check;
mod samples;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use godwit_proto::{FrameKind, PRELUDE_BYTES};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

fn replay(target: &str, check: impl Fn(&[u8])) {
    let mut files = 0;
    for file in std::fs::read_dir(corpus(target)).unwrap() {
        check(&std::fs::read(file.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "{target} has a corpus");
}

#[test]
fn corpora_of_all_frames_hold() {
    // The numbers have gaps.
    let known = (1..=u16::MAX)
        .map(FrameKind)
        .filter(|kind| kind.name() != "unknown");
    let mut replayed = BTreeSet::new();
    for kind in known {
        replay(&kind.name().to_lowercase(), |head| check::check(kind, head));
        replayed.insert(kind.name());
    }
    for (name, frame) in samples::all() {
        assert!(replayed.contains(frame.name()), "{name} is left out");
    }
}

#[test]
fn corpus_of_the_prelude_holds() {
    replay("prelude", check::check_prelude);
}

#[test]
fn corpus_of_the_agent_holds() {
    replay("agent", check::check_agent);
}

#[test]
fn every_sample_is_a_seed() {
    for (name, frame) in samples::all() {
        let mut image = Vec::new();
        frame.encode(&mut image).unwrap();
        let seed = std::fs::read(corpus(&frame.name().to_lowercase()).join(name)).unwrap();
        assert_eq!(
            seed,
            image[PRELUDE_BYTES..],
            "{name}: run the example `corpus` of this crate again"
        );
    }
}
