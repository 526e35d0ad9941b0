//! Replays the committed corpus of the fuzz target `ascmhl`, with the fuzzer's check, on the stable compiler.
//! Finds nothing new; `fuzz/README.md` explains how to.

mod history_check;

use std::fs;
use std::path::Path;

#[test]
fn seeds_are_read_or_refused_as_their_names_say() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ascmhl");
    let mut count = 0;
    for entry in fs::read_dir(corpus).expect("listed") {
        let entry = entry.expect("listed");
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = fs::read(entry.path()).expect("read");
        assert_eq!(
            history_check::check(&bytes),
            name.starts_with("whole-"),
            "{name}"
        );
        count += 1;
    }
    assert!(count >= 6, "{count} seeds");
}
