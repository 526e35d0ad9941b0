//! Writes the seeds of the fuzzer, one file for each sample frame: `cargo run -p godwit-proto --example corpus`.
//! Does not fuzz; see `fuzz/README.md`.
#![expect(
    clippy::unwrap_used,
    reason = "a tool for developers; what fails is to be seen"
)]

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::path::Path;

use godwit_proto::PRELUDE_BYTES;

fn main() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, frame) in samples::all() {
        let mut image = Vec::new();
        frame.encode(&mut image).unwrap();
        let (prelude, head) = image.split_at(PRELUDE_BYTES);
        let target = frame.name().to_lowercase();
        write(&corpus.join(target), name, head);
        write(&corpus.join("prelude"), name, prelude);
    }
}

fn write(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join(name), bytes).unwrap();
}
