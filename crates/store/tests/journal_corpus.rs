//! Replays the committed corpus of the fuzz target `journal`: journals of the first format, whole and damaged.
//!
//! Names describe the contents: `whole…` loads without damage, `damaged…` loads a part, `refused…` has no header.

mod journal_check;

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_is_as_named() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/journal");
    let mut seen = [0; 3];
    for entry in fs::read_dir(&corpus).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let recovered = journal_check::check(&fs::read(entry.path()).unwrap());
        let found = recovered.map(|recovered| recovered.damage.is_some());
        let (class, expected) = match name.split('-').next() {
            Some("whole") => (0, Some(false)),
            Some("damaged") => (1, Some(true)),
            Some("refused") => (2, None),
            _ => continue, // what a run of the fuzzer added: safe is all that it must be
        };
        assert_eq!(found, expected, "{name}");
        seen[class] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
