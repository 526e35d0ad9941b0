//! Tests the golden vectors: each frame of `vectors/` encodes to and decodes from exactly the bytes
//! in its file. The vectors were made from `docs/wire.md`, without this crate.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod samples;

use std::path::Path;

use godwit_proto::{PRELUDE_BYTES, Prelude, decode};

fn vector(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(name)
        .with_extension("hex");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let digits: String = text
        .lines()
        .flat_map(|line| line.split('#').next())
        .flat_map(str::chars)
        .filter(|character| !character.is_whitespace())
        .collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn frames_have_the_bytes_of_the_vectors() {
    for (name, frame) in samples::all() {
        let mut encoded = b"before".to_vec();
        frame.encode(&mut encoded).unwrap();
        let hex: String = encoded[6..]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(encoded[6..], vector(name)[..], "{name}: encoded as {hex}");
    }
}

#[test]
fn vectors_read_as_the_frames() {
    for (name, frame) in samples::all() {
        let bytes = vector(name);
        let (prelude, head) = bytes.split_first_chunk::<PRELUDE_BYTES>().unwrap();
        let prelude = Prelude::decode(prelude).unwrap();
        assert_eq!(decode(&prelude, head), Ok(frame), "{name}");
    }
}

#[test]
fn every_vector_is_used() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let used: Vec<_> = samples::all()
        .into_iter()
        .map(|(name, _)| format!("{name}.hex"))
        .collect();
    for file in std::fs::read_dir(directory).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(used.contains(&name), "{name} belongs to no frame");
    }
}
