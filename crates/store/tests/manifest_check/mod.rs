//! Owns the checks that hold for any bytes as a manifest file. Shared by the fuzz target and the test that replays its corpus.
//! Does not choose the bytes.

use godwit_store::digest::DigestKind;
use godwit_store::manifest::{ManifestReader, ManifestWriter, Sign, decode_entry, encode_entry};

/// Reads `bytes` and returns whether they are a complete manifest. If so, writing the result produces the same bytes. In any case, each
/// line that is accepted as an entry is in its only valid form.
pub(crate) fn check(bytes: &[u8]) -> bool {
    for line in bytes.split(|byte| *byte == b'\n') {
        for kind in [DigestKind::Blake3, DigestKind::Crc64Nvme] {
            if let Ok(entry) = decode_entry(line, kind) {
                let mut again = Vec::new();
                encode_entry(&entry, kind, &mut again);
                assert_eq!(again.split_last(), Some((&b'\n', line)));
            }
        }
    }
    let Ok(mut reader) = ManifestReader::new(bytes) else {
        return false;
    };
    let mut writer =
        ManifestWriter::new(Vec::new(), reader.digest_kind()).expect("memory takes it");
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => writer.push(&entry).expect("memory takes it"),
            Ok(None) => break,
            Err(_) => return false,
        }
    }
    let trailer = reader.trailer().expect("the end was read").clone();
    let signature = trailer.signature.clone();
    let sign = |_: &[u8; 32]| signature.clone().unwrap_or_default();
    let sign: Option<Sign<'_>> = match signature {
        Some(_) => Some(&sign),
        None => None,
    };
    let (again, written) = writer
        .finish(trailer.failed, sign)
        .expect("memory takes it");
    assert_eq!(again, bytes);
    assert_eq!(written, trailer);
    true
}
