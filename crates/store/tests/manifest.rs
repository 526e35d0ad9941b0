//! Tests the manifest file: each entry with any name has one form, and each damage is reported with its line. Also
//! replays the committed corpus of the fuzz target `manifest_file`.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod manifest_check;

use std::fs;
use std::path::Path;

use godwit_store::digest::{Digest, DigestKind, digest_slice};
use godwit_store::manifest::{
    EntryType, ManifestEntry, ManifestReader, ManifestWriter, Trailer, decode_entry, encode_entry,
};
use godwit_store::{RelPath, Timestamp};
use proptest::prelude::*;

fn file(path: &[u8], content: &[u8], kind: DigestKind) -> ManifestEntry {
    ManifestEntry {
        kind: EntryType::File,
        bytes: content.len() as u64,
        mtime: Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 5,
        },
        mode: 0o644,
        digest: Some(digest_slice(kind, 0, content.len() as u64, content)),
        path: RelPath::parse(path).unwrap(),
        target: Vec::new(),
    }
}

fn written(entries: &[ManifestEntry], kind: DigestKind) -> (Vec<u8>, Trailer) {
    let mut writer = ManifestWriter::new(Vec::new(), kind).unwrap();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish(0, None).unwrap()
}

fn read(bytes: &[u8]) -> Result<(Vec<ManifestEntry>, Trailer), String> {
    let mut reader = ManifestReader::new(bytes).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().map_err(|error| error.to_string())? {
        entries.push(entry);
    }
    Ok((entries, reader.trailer().expect("the end was read").clone()))
}

#[test]
fn a_manifest_looks_as_the_document_says() {
    let mut entries = vec![
        file(b"a b", b"123456789", DigestKind::Crc64Nvme),
        file(b"new\nline\\\xff", b"", DigestKind::Crc64Nvme),
    ];
    let plain = ManifestEntry {
        kind: EntryType::Directory,
        bytes: 0,
        mtime: Timestamp {
            seconds: -2,
            nanoseconds: 500_000_000,
        },
        mode: 0o1755,
        digest: None,
        path: RelPath::root(),
        target: Vec::new(),
    };
    let linked = |kind, path: &[u8], target: &[u8]| ManifestEntry {
        kind,
        path: RelPath::parse(path).unwrap(),
        target: target.to_vec(),
        ..plain.clone()
    };
    entries.push(linked(EntryType::Symlink, b"l", b"../\ttab\x01"));
    entries.push(linked(EntryType::HardLink, "caf\u{e9}".as_bytes(), b"a b"));
    entries.insert(0, plain);
    let (bytes, trailer) = written(&entries, DigestKind::Crc64Nvme);
    let (lines, _) = bytes.split_at(bytes.len() - "#digest\tblake3\t\n".len() - 64);
    assert_eq!(
        String::from_utf8(bytes.clone()).unwrap(),
        format!(
            "#godwit-manifest\t1\tcrc64-nvme\n\
             d\t-\t-2.500000000\t1755\t-\t.\n\
             f\t9\t1700000000.000000005\t0644\tae8b14860a799888\ta b\n\
             f\t0\t1700000000.000000005\t0644\t0000000000000000\tnew\\nline\\\\\\xff\n\
             l\t-\t-2.500000000\t1755\t-\tl\t../\\ttab\\x01\n\
             h\t-\t-2.500000000\t1755\t-\tcaf\u{e9}\ta b\n\
             #end\t5\t9\t0\n\
             #digest\tblake3\t{}\n",
            blake3::hash(lines).to_hex()
        )
    );
    assert_eq!(read(&bytes), Ok((entries, trailer)));
}

#[test]
fn every_cut_is_noticed_and_named() {
    let entries: Vec<_> = (0..3_u8)
        .map(|number| file(&[b'a' + number], &[number], DigestKind::Blake3))
        .collect();
    let (bytes, _) = written(&entries, DigestKind::Blake3);
    for cut in 0..bytes.len() {
        let error = read(&bytes[..cut]).expect_err("cut off");
        let line = bytes[..cut].iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!(error.contains(&format!("line {line}")), "{cut}: {error}");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let entries = [
        file(b"a", b"1", DigestKind::Blake3),
        file(b"b", b"2", DigestKind::Blake3),
    ];
    let (bytes, _) = written(&entries, DigestKind::Blake3);
    for place in 0..bytes.len() {
        for with in [1, 2, 0x20, 0x80] {
            let mut changed = bytes.clone();
            changed[place] ^= with;
            let error = read(&changed).expect_err("changed");
            assert!(error.contains("line "), "{place}: {error}");
        }
    }
}

#[test]
fn lines_added_left_out_or_exchanged_are_noticed() {
    let entries = [
        file(b"a", b"1", DigestKind::Blake3),
        file(b"b", b"2", DigestKind::Blake3),
    ];
    let (bytes, _) = written(&entries, DigestKind::Blake3);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let with = |order: &[usize]| order.iter().map(|index| lines[*index]).collect::<String>();
    for (order, line) in [
        (&[0, 1, 3, 4][..], 3),
        (&[0, 1, 2, 2, 3, 4], 5),
        (&[0, 2, 1, 3, 4], 5),
        (&[0, 1, 2, 4], 4),
        (&[0, 1, 2, 3], 5),
        (&[0, 1, 2, 3, 4, 1], 6),
        (&[1, 2, 3, 4], 1),
    ] {
        let error = read(with(order).as_bytes()).expect_err("not what was written");
        assert!(
            error.contains(&format!("line {line}:")),
            "{order:?}: {error}"
        );
    }
}

#[test]
fn a_signature_is_handed_on() {
    let mut writer = ManifestWriter::new(Vec::new(), DigestKind::Blake3).unwrap();
    writer.push(&file(b"a", b"1", DigestKind::Blake3)).unwrap();
    let sign = |digest: &[u8; 32]| format!("me\t{}", digest[0]);
    let (bytes, trailer) = writer.finish(7, Some(&sign)).unwrap();
    assert_eq!(
        trailer.signature,
        Some(format!("me\t{}", trailer.digest[0]))
    );
    assert_eq!(trailer.failed, 7);
    assert_eq!(read(&bytes).unwrap().1, trailer);
}

#[test]
fn the_corpus_is_as_named() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/manifest_file");
    if std::env::var_os("GODWIT_BLESS").is_some() {
        write_corpus(&corpus);
    }
    let mut seen = [0; 2];
    for entry in fs::read_dir(&corpus).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let found = manifest_check::check(&fs::read(entry.path()).unwrap());
        let (class, expected) = match name.split('-').next() {
            Some("whole") => (0, true),
            Some("refused") => (1, false),
            _ => continue, // what a run of the fuzzer added: safe is all that it must be
        };
        assert_eq!(found, expected, "{name}");
        seen[class] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// The seeds of the fuzz target, written again with `GODWIT_BLESS=1`.
fn write_corpus(corpus: &Path) {
    fs::create_dir_all(corpus).unwrap();
    let entries = [
        file(b"a/b", b"1", DigestKind::Blake3),
        file(b"\n\t\\\xff", b"", DigestKind::Blake3),
        ManifestEntry {
            kind: EntryType::Symlink,
            bytes: 0,
            digest: None,
            target: b"..".to_vec(),
            ..file(b"l", b"", DigestKind::Blake3)
        },
    ];
    let (whole, _) = written(&entries, DigestKind::Blake3);
    let (crc, _) = written(
        &[file(b"a", b"1", DigestKind::Crc64Nvme)],
        DigestKind::Crc64Nvme,
    );
    let mut changed = whole.clone();
    changed[40] ^= 1;
    let signed = [whole.as_slice(), b"#signature\tx\ty\n"].concat();
    for (name, bytes) in [
        ("whole-blake3", whole.as_slice()),
        ("whole-crc", crc.as_slice()),
        ("whole-signed", signed.as_slice()),
        ("refused-changed", changed.as_slice()),
        ("refused-cut", &whole[..whole.len() / 2]),
        ("refused-empty", b""),
    ] {
        fs::write(corpus.join(name), bytes).unwrap();
    }
}

fn kinds() -> impl Strategy<Value = EntryType> {
    prop::sample::select(vec![
        EntryType::File,
        EntryType::Directory,
        EntryType::Symlink,
        EntryType::HardLink,
        EntryType::Fifo,
        EntryType::Socket,
        EntryType::CharDevice,
        EntryType::BlockDevice,
    ])
}

fn paths() -> impl Strategy<Value = RelPath> {
    let byte = prop_oneof![
        Just(b'\n'),
        Just(b'\t'),
        Just(b'\\'),
        Just(b'/'),
        Just(b'x'),
        Just(0xff),
        any::<u8>()
    ];
    prop::collection::vec(byte, 0..40)
        .prop_filter_map("a path", |bytes| RelPath::parse(&bytes).ok())
}

prop_compose! {
    fn entries(kind: DigestKind)(
        entry_type in kinds(),
        bytes: u64,
        seconds: i64,
        nanoseconds in 0_u32..1_000_000_000,
        mode in 0_u32..=0o7777,
        digest: [u8; 32],
        path in paths(),
        target in paths(),
    ) -> ManifestEntry {
        let is_file = entry_type == EntryType::File;
        let mut digest = Digest(digest);
        digest.0[kind.digest_bytes()..].fill(0);
        let target = match entry_type {
            EntryType::Symlink | EntryType::HardLink if target.is_root() => b"t".to_vec(),
            EntryType::Symlink | EntryType::HardLink => target.as_bytes().to_vec(),
            _ => Vec::new(),
        };
        ManifestEntry {
            kind: entry_type,
            bytes: if is_file { bytes } else { 0 },
            mtime: Timestamp { seconds, nanoseconds },
            mode,
            digest: is_file.then_some(digest),
            path,
            target,
        }
    }
}

proptest! {
    #[test]
    fn an_entry_survives_its_line(
        (kind, entry) in prop_oneof![Just(DigestKind::Blake3), Just(DigestKind::Crc64Nvme)]
            .prop_flat_map(|kind| (Just(kind), entries(kind)))
    ) {
        let mut line = Vec::new();
        encode_entry(&entry, kind, &mut line);
        prop_assert_eq!(line.pop(), Some(b'\n'));
        prop_assert!(!line.contains(&b'\n'));
        prop_assert!(std::str::from_utf8(&line).is_ok());
        prop_assert_eq!(decode_entry(&line, kind), Ok(entry));
    }

    #[test]
    fn any_line_is_an_entry_in_its_one_form_or_refused(line in "[fdlhpscb]\t(-|[0-9]{1,3})\t-?[0-9]{1,2}\\.[0-9]{8,10}\t[0-7]{3,5}\t(-|[0-9a-f]{16})\t[a-c./\\\\xtn0]{0,6}(\t[a-c./\\\\]{0,3})?") {
        if let Ok(entry) = decode_entry(line.as_bytes(), DigestKind::Crc64Nvme) {
            let mut again = Vec::new();
            encode_entry(&entry, DigestKind::Crc64Nvme, &mut again);
            prop_assert_eq!(&again[..again.len() - 1], line.as_bytes());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        manifest_check::check(&bytes);
        let mut headed = b"#godwit-manifest\t1\tblake3\n".to_vec();
        headed.extend(bytes);
        manifest_check::check(&headed);
    }
}
